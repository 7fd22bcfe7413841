// Emptying the end of the file, so that it can be cut off: what lies there moves to the front, page
// by page and record by record; the chunks become free by the usual rules (invariant 2 of pager.h).
#include <algorithm>
#include <set>

#include "core/storage/pager_impl.h"
#include "core/storage/record_pool.h"

namespace multifora {

void Pager::begin_vacating(std::uint64_t from_bytes) {
  Impl& impl = *impl_;
  const std::uint64_t chunk = std::max<std::uint64_t>(1, from_bytes / kChunkSize);
  std::lock_guard lock(impl.mutex);
  impl.table.set_ceiling(chunk);
  impl.give_back_locked(&impl.reserve);
  impl.top_up_reserve_locked();
  impl.records->leave_tail_locked();
  // A changed table page is copied by the next checkpoint, with its directory.
  const PageId from = chunk * kPagesPerChunk;
  for (std::size_t i = 0; i < impl.table_pages.size(); ++i)
    if (impl.table_pages[i] >= from) impl.table.mark_table_page_dirty(i);
  for (std::size_t i = 0; i < impl.meta.directory_pages.size(); ++i)
    if (impl.meta.directory_pages[i] >= from)
      impl.table.mark_table_page_dirty(i * kIdsPerDirectoryPage);
}

PageId Pager::vacating_from() const {
  std::lock_guard lock(impl_->mutex);
  const std::uint64_t ceiling = impl_->table.ceiling();
  return ceiling == ChunkTable::kNoCeiling ? kNotVacating : ceiling * kPagesPerChunk;
}

void Pager::end_vacating() {
  std::lock_guard lock(impl_->mutex);
  impl_->table.lift_ceiling();
}

char* Pager::Impl::move_page_locked(PageId* id, std::vector<PageId>& promised) {
  const PageHeader* const old = header(*id);
  const PageId copy = promised.back();
  promised.pop_back();
  char* const to = use_page_locked(copy, static_cast<PageKind>(old->kind), old->owner);
  std::memcpy(to + sizeof(PageHeader), reinterpret_cast<const char*>(old) + sizeof(PageHeader),
              kPageSize - sizeof(PageHeader));
  retire_page_locked(*id);
  *id = copy;
  return to;
}

bool Pager::move_page(PageId* id, PageStash& stash) {
  MULTIFORA_ASSERT(!stash.pages_.empty() && stash.mode_ == PageStash::Mode::kLinked);
  if (stash.pages_.back() >= *id) return false;
  std::lock_guard lock(impl_->mutex);
  impl_->move_page_locked(id, stash.pages_);
  return true;
}

// Bitmaps of record chunks are the pager's own; a chunk whose bitmap cannot be read keeps it.
Status Pager::move_bitmaps(std::size_t pages_max) {
  Impl& impl = *impl_;
  Impl::Lock lock(impl.mutex);
  const PageId from = impl.table.ceiling() == ChunkTable::kNoCeiling
                          ? kNotVacating
                          : impl.table.ceiling() * kPagesPerChunk;
  std::vector<PageId> promised;
  Status status;
  for (std::uint64_t chunk = 0; chunk < impl.table.size() && pages_max > 0 && status.ok(); ++chunk) {
    const PageId bitmap = impl.table[chunk].entry.bitmap_page;
    if (impl.table[chunk].entry.kind != ChunkKind::kRecords || bitmap < from) continue;
    lock.unlock();
    const bool sound = read(bitmap).has_value();  // perhaps from the disk
    lock.lock();
    if (chunk >= impl.table.size()) break;
    ChunkEntry& entry = impl.table[chunk].entry;
    if (!sound || entry.kind != ChunkKind::kRecords || entry.bitmap_page != bitmap) continue;
    status = impl.promise_pages(lock, &promised, 1, false);
    if (!status.ok() || promised.back() >= from) break;
    if (chunk >= impl.table.size() || impl.table[chunk].entry.bitmap_page != bitmap) continue;
    impl.move_page_locked(&impl.table[chunk].entry.bitmap_page, promised);
    impl.table.mark_dirty(chunk);
    --pages_max;
  }
  impl.give_back_locked(&promised);
  return status;
}

std::vector<std::uint32_t> Pager::page_owners_from(PageId from) const {
  const Impl& impl = *impl_;
  std::set<std::uint32_t> owners;
  for (std::uint64_t chunk = from / kPagesPerChunk;; ++chunk) {
    ChunkEntry entry;
    {
      std::lock_guard lock(impl.mutex);
      if (chunk >= impl.table.size()) break;
      entry = impl.table[chunk].entry;
    }
    if (entry.kind != ChunkKind::kPages) continue;
    for (std::uint64_t i = 0; i < kPagesPerChunk; ++i) {
      if ((entry.bits[i / 64] >> (i % 64) & 1) == 0) continue;
      // A header that changes meanwhile belongs to a page that has gone: nothing is lost.
      PageHeader header;
      std::memcpy(&header, read_base_ + (chunk * kPagesPerChunk + i) * kPageSize, sizeof header);
      if (header.kind >= static_cast<std::uint8_t>(PageKind::kTreeLeaf) &&
          header.kind <= static_cast<std::uint8_t>(PageKind::kArray))
        owners.insert(header.owner);
    }
  }
  return {owners.begin(), owners.end()};
}

}  // namespace multifora
