// A copy of the newest durable checkpoint as a data file of its own, taken while the pager works.
//
// The image's pages and records are immutable (invariant 1) and, while a snapshot of its generation
// is alive, are not used again (invariant 2). What else lies in the copied chunks may change under
// the copy: to the image it is free. The copy gets meta pages of its own, both for this image, so
// that it needs no log.
#include <fmt/format.h>
#include <xxhash.h>

#include "core/storage/pager_impl.h"

namespace multifora {

Snapshot Pager::Impl::hold_newest(MetaPage* image) {
  std::lock_guard lock(mutex);
  *image = meta;
  // Nothing that the newest durable checkpoint holds has come back yet.
  ++snapshots[meta.generation];
  return Snapshot(&pager, meta.generation);
}

Status Pager::Impl::check_copied_pages(std::uint64_t chunk, const ChunkEntry& entry,
                                       const char* bytes) const {
  for (std::uint64_t i = chunk == 0 ? 2 : 0; i < kPagesPerChunk; ++i) {
    if ((entry.bits[i / 64] >> (i % 64) & 1) == 0) continue;
    const char* const page = bytes + i * kPageSize;
    const PageId id = chunk * kPagesPerChunk + i;
    const auto* const header = reinterpret_cast<const PageHeader*>(page);
    if (header->checksum != XXH3_64bits(page + 8, kPageSize - 8) || header->page_id != id)
      return page_damaged(id, "its checksum is wrong");
  }
  return {};
}

Result<Pager::Copied> Pager::copy_checkpoint(FileSystem& files, const std::string& to,
                                             const CopyProgress& progress) {
  Impl& impl = *impl_;
  MetaPage image;
  const Snapshot held = impl.hold_newest(&image);
  std::vector<ChunkEntry> entries(1);
  std::vector<PageId> table_pages;
  if (!image.directory_pages.empty()) {
    MULTIFORA_ASSIGN_R(entries, impl.read_table(image, &table_pages));
  }
  std::uint64_t total = 0;
  for (const ChunkEntry& entry : entries) total += entry.kind == ChunkKind::kFree ? 0 : kChunkSize;

  if (files.exists(to)) return fail(ErrorCode::kFileStreamFailed, to + " exists already");
  MULTIFORA_ASSIGN_R(const auto copy, files.open(to, OpenMode::kCreate));
  Copied copied;
  copied.position = image.position;
  copied.file_bytes = image.chunk_count * kChunkSize;
  MULTIFORA_TRY_R(copy->allocate(0, copied.file_bytes));
  Buffer bytes(kChunkSize, '\0');
  for (std::uint64_t chunk = 0; chunk < entries.size(); ++chunk) {
    if (entries[chunk].kind == ChunkKind::kFree) continue;
    MULTIFORA_TRY_R(progress(copied.copied_bytes, total));
    MULTIFORA_ASSIGN_R(const std::size_t got,
                       impl.file->read(chunk * kChunkSize, bytes.data(), kChunkSize));
    if (got != kChunkSize)
      return fail(ErrorCode::kFileStreamFailed,
                  fmt::format("{} is cut short at {}", impl.path, chunk * kChunkSize + got));
    if (entries[chunk].kind == ChunkKind::kPages)
      MULTIFORA_TRY_R(impl.check_copied_pages(chunk, entries[chunk], bytes.data()));
    MULTIFORA_TRY_R(copy->write(chunk * kChunkSize, bytes));
    copied.copied_bytes += kChunkSize;
  }
  const std::uint64_t newest = image.checkpoint;
  for (image.checkpoint = newest - 1; image.checkpoint <= newest; ++image.checkpoint)
    MULTIFORA_TRY_R(copy->write(meta_offset(image.checkpoint), encode_meta(image)));
  MULTIFORA_TRY_R(copy->sync());
  MULTIFORA_TRY_R(progress(copied.copied_bytes, total));
  return copied;
}

}  // namespace multifora
