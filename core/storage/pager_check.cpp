// Reports on space, and the check of the space tables against what the structures really use.
#include <fmt/format.h>
#include <xxhash.h>

#include <unordered_map>

#include "core/storage/pager_impl.h"
#include "core/storage/unit_bits.h"

namespace multifora {

namespace {

constexpr std::size_t kErrorsMax = 100;

std::uint64_t used_pages(const ChunkEntry& entry) {
  return kPagesPerChunk - entry.free_units;
}

}  // namespace

class SpaceCheck {
 public:
  std::vector<bool> pages;                             // seen, by page id
  std::vector<bool> unsealed;                          // have no checksum yet, by page id
  std::unordered_map<std::uint64_t, UnitWords> units;  // seen, by chunk
  std::vector<std::string> errors;

  void error(std::string message) {
    if (errors.size() < kErrorsMax) errors.push_back(std::move(message));
  }
};

SpaceUse Pager::space_use() const {
  const Impl& impl = *impl_;
  SpaceUse use;
  use.file_bytes = impl.file->size().value_or(impl.file_bytes.load());
  use.meta_bytes = 2 * kPageSize;
  std::lock_guard lock(impl.mutex);
  for (std::uint64_t chunk = 0; chunk < impl.table.size(); ++chunk) {
    const ChunkState& state = impl.table[chunk];
    if (state.entry.kind == ChunkKind::kFree) use.free_chunk_bytes += kChunkSize;
    if (state.entry.kind == ChunkKind::kPages)
      use.page_bytes += used_pages(state.entry) * kPageSize;
    if (state.entry.kind == ChunkKind::kRecords) {
      use.record_bytes += (kUnitsPerChunk - state.entry.free_units) * kRecordUnit;
      use.retired_bytes += state.busy_units * kRecordUnit;
    }
  }
  use.page_bytes -= use.meta_bytes;
  use.tail_bytes = impl.table.trailing_free() * kChunkSize;
  use.retired_bytes += impl.retired.page_count() * kPageSize;
  use.free_bytes =
      use.file_bytes - use.meta_bytes - use.page_bytes - use.record_bytes - use.retired_bytes;
  return use;
}

Pager::ChunkUse Pager::chunk_use() const {
  const Impl& impl = *impl_;
  ChunkUse use;
  std::lock_guard lock(impl.mutex);
  for (std::uint64_t chunk = 0; chunk < impl.table.size(); ++chunk) {
    const ChunkState& state = impl.table[chunk];
    if (state.entry.kind == ChunkKind::kFree) ++use.free_chunks;
    if (state.entry.kind == ChunkKind::kPages) {
      ++use.page_chunks;
      use.used_pages += used_pages(state.entry);
      use.waiting_pages += state.busy_units;
      use.free_pages += state.entry.free_units - state.busy_units;
    }
    if (state.entry.kind == ChunkKind::kRecords) {
      ++use.record_chunks;
      ++use.record_chunks_of[state.entry.owner];
    }
  }
  use.trailing_free_chunks = impl.table.trailing_free();
  return use;
}

Pager::CheckpointInfo Pager::newest_checkpoint() const {
  std::lock_guard lock(impl_->mutex);
  const MetaPage& meta = impl_->meta;
  return {meta.checkpoint, meta.generation, meta.position, impl_->older_position};
}

SpaceCheck* Pager::begin_check() {
  Impl& impl = *impl_;
  auto* const check = new SpaceCheck();
  std::vector<PageId> own;
  {
    std::lock_guard lock(impl.mutex);
    check->pages.resize(impl.table.size() * kPagesPerChunk);
    check->pages[0] = check->pages[1] = true;
    check->unsealed.resize(check->pages.size());
    for (const PageId id : impl.born) check->unsealed[id] = true;
    if (impl.checkpoint)
      for (const PageId id : impl.checkpoint->born) check->unsealed[id] = true;
    own = impl.table_pages;
    const MetaPage& newest = impl.checkpoint ? impl.checkpoint->meta : impl.meta;
    own.insert(own.end(), newest.directory_pages.begin(), newest.directory_pages.end());
    for (std::uint64_t chunk = 0; chunk < impl.table.size(); ++chunk)
      if (impl.table[chunk].entry.kind == ChunkKind::kRecords)
        own.push_back(impl.table[chunk].entry.bitmap_page);
  }
  for (const PageId id : own) check_page(check, id, "space tables");
  return check;
}

void Pager::check_page(SpaceCheck* check, PageId id, std::string_view what) {
  Impl& impl = *impl_;
  std::lock_guard lock(impl.mutex);
  if (!impl.table.page_used(id))
    return check->error(fmt::format("{}: page {} is in use but marked as free", what, id));
  if (check->pages[id]) return check->error(fmt::format("{}: page {} is used twice", what, id));
  check->pages[id] = true;
  const PageHeader* const header = impl.header(id);
  if (header->page_id != id)
    return check->error(fmt::format("{}: page {} carries number {}", what, id, header->page_id));
  // Pages born or linked since have no checksum yet.
  if (header->generation <= impl.meta.generation && !check->unsealed[id] &&
      header->checksum != XXH3_64bits(read_base_ + id * kPageSize + 8, kPageSize - 8))
    check->error(fmt::format("{}: page {} has a wrong checksum", what, id));
}

void Pager::check_record(SpaceCheck* check, RecordLocation location, std::size_t size_bytes,
                         std::string_view what) {
  Impl& impl = *impl_;
  std::uint64_t units = record_units(size_bytes);
  std::lock_guard lock(impl.mutex);
  for (RecordLocation at = location; units > 0;) {
    const std::uint64_t chunk = at / kUnitsPerChunk;
    const auto first = static_cast<std::uint32_t>(at % kUnitsPerChunk);
    const auto count =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(units, kUnitsPerChunk - first));
    if (chunk >= impl.table.size() || impl.table[chunk].entry.kind != ChunkKind::kRecords)
      return check->error(
          fmt::format("{}: the record at location {} is not in record space", what, location));
    UnitWords& seen = check->units[chunk];
    for_each_unit_word(first, count, [&](std::size_t w, std::uint64_t mask) {
      if ((seen[w] & mask) != 0)
        check->error(fmt::format("{}: location {} overlaps another record", what, location));
      seen[w] |= mask;
    });
    at += count;
    units -= count;
  }
}

namespace {

void compare_pages(const ChunkState& state, std::uint64_t chunk, SpaceCheck* check) {
  std::uint32_t used = 0, busy = 0;
  for (std::uint64_t i = 0; i < kPagesPerChunk; ++i) {
    const bool is_used = (state.entry.bits[i / 64] >> (i % 64) & 1) != 0;
    const bool is_busy = (state.busy[i / 64] >> (i % 64) & 1) != 0;
    used += is_used;
    busy += is_busy;
    const PageId id = chunk * kPagesPerChunk + i;
    if (is_used && is_busy) check->error(fmt::format("page {} is both used and waiting", id));
    if (is_used && !check->pages[id])
      check->error(fmt::format("page {} is marked as used, but nothing uses it", id));
  }
  if (used + state.entry.free_units != kPagesPerChunk || busy != state.busy_units)
    check->error(fmt::format("the counts of chunk {} are wrong", chunk));
}

void compare_units(const ChunkState& state, std::uint64_t chunk, const UnitWords& marked,
                   SpaceCheck* check) {
  static const UnitWords kNothing{};
  const auto it = check->units.find(chunk);
  const UnitWords& seen = it == check->units.end() ? kNothing : it->second;
  std::uint32_t used = 0;
  bool lost = false, missing = false;
  for (std::size_t w = 0; w < kUnitWords; ++w) {
    used += static_cast<std::uint32_t>(std::popcount(marked[w]));
    lost |= (marked[w] & ~seen[w]) != 0;
    missing |= (seen[w] & ~marked[w]) != 0;
  }
  if (lost)
    check->error(fmt::format("chunk {} marks record space as used that no record uses", chunk));
  if (missing) check->error(fmt::format("chunk {} has records in space marked as free", chunk));
  if (used + state.entry.free_units != kUnitsPerChunk)
    check->error(fmt::format("chunk {} counts {} free units, its bitmap has {}", chunk,
                             state.entry.free_units, kUnitsPerChunk - used));
}

}  // namespace

void Pager::finish_check(SpaceCheck* check, std::vector<std::string>* errors) {
  const std::unique_ptr<SpaceCheck> owned(check);
  Impl& impl = *impl_;
  for (std::uint64_t chunk = 0;; ++chunk) {
    std::lock_guard lock(impl.mutex);
    if (chunk >= impl.table.size()) break;
    const ChunkState& state = impl.table[chunk];
    if (state.entry.kind == ChunkKind::kPages) {
      compare_pages(state, chunk, check);
    } else if (state.entry.kind == ChunkKind::kRecords) {
      const Result<const char*> bitmap = read(state.entry.bitmap_page);
      if (bitmap)
        compare_units(state, chunk, load_units(*bitmap, state.entry), check);
      else
        check->error(bitmap.error().message());
    } else if (check->units.contains(chunk)) {
      check->error(fmt::format("chunk {} is free but has records", chunk));
    }
  }
  errors->insert(errors->end(), check->errors.begin(), check->errors.end());
}

}  // namespace multifora
