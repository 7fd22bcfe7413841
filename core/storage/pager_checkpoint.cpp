// Checkpoints: the chunk table is copied on write like every other page, so that a checkpoint
// writes only what changed; then the meta page is published in the older slot.
//
//   changing --begin_checkpoint()--> captured --finish_checkpoint()--> written, synced
//     --publish_meta()--> durable --(two later ones)--> forgotten
#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>

#include "core/storage/pager_impl.h"

namespace multifora {

namespace {

constexpr std::uint32_t kNotCaptured = ~std::uint32_t{0};

// Where in `entries` each table page's chunks stand.
std::vector<std::uint32_t> captured_positions(const Checkpoint& image) {
  std::vector<std::uint32_t> positions(image.meta.chunk_count / kEntriesPerTablePage + 1,
                                       kNotCaptured);
  for (std::size_t i = 0; i < image.tables.size(); ++i)
    positions[image.tables[i].index] = static_cast<std::uint32_t>(i);
  return positions;
}

bool used_at_capture(const Checkpoint& image, const std::vector<std::uint32_t>& positions,
                     PageId id) {
  const std::uint64_t chunk = id / kPagesPerChunk;
  if (chunk >= image.meta.chunk_count) return false;  // the file has become shorter
  const std::uint32_t position = positions[chunk / kEntriesPerTablePage];
  MULTIFORA_ASSERT(position != kNotCaptured);
  const ChunkEntry& entry =
      image.entries[position * kEntriesPerTablePage + chunk % kEntriesPerTablePage];
  return entry.kind == ChunkKind::kPages &&
         (entry.bits[id % kPagesPerChunk / 64] >> (id % 64) & 1) != 0;
}

void seal_page(char* page) {
  store_le<std::uint64_t>(page, XXH3_64bits(page + 8, kPageSize - 8));
}

}  // namespace

// --- first step ---

Result<PageId> Pager::Impl::image_page(Lock& lock) {
  std::vector<PageId> page;
  while (table.promise_pages(1, &page) == 0) {
    if (!reserve.empty()) {
      page.push_back(reserve.back());
      reserve.pop_back();
      break;
    }
    MULTIFORA_TRY_R(grow(lock, 1));
  }
  table.use_page(page[0], now());
  return page[0];
}

Status Pager::Impl::assign_table_page(Lock& lock, Checkpoint* next, std::uint64_t index) {
  MULTIFORA_ASSIGN(const PageId id, image_page(lock));
  next->tables.push_back({index, id});
  if (index < table_pages.size()) table.mark_dirty(table_pages[index] / kPagesPerChunk);
  const std::uint64_t directory = index / kIdsPerDirectoryPage;
  for (const Checkpoint::NewPage& known : next->directories)
    if (known.index == directory) return {};
  MULTIFORA_ASSIGN(const PageId directory_id, image_page(lock));
  next->directories.push_back({directory, directory_id});
  if (directory < meta.directory_pages.size())
    table.mark_dirty(meta.directory_pages[directory] / kPagesPerChunk);
  return {};
}

// Each new page changes the entry of its chunk, and so may ask for one more table page; the list of
// dirty ones grows until it does not.
Status Pager::Impl::assign_table_pages(Lock& lock, Checkpoint* next) {
  if (failed) return failure;
  Status status;
  for (std::size_t i = 0; i < table.dirty_table_pages().size() && status.ok(); ++i) {
    const std::uint64_t index = table.dirty_table_pages()[i];
    if (index * kEntriesPerTablePage < table.size()) status = assign_table_page(lock, next, index);
  }
  if (status.ok() &&
      (table.size() - 1) / kEntriesPerTablePage / kIdsPerDirectoryPage >= kDirectoryPagesMax)
    status = Status(ErrorCode::kOutOfDiskSpace, "the data file has reached its largest size");
  if (status.ok()) return {};
  for (const auto* pages : {&next->tables, &next->directories}) {
    for (const Checkpoint::NewPage& page : *pages) {
      table.suspend_page(page.id);
      table.release_page(page.id);
    }
  }
  return status;
}

void Pager::Impl::capture_locked(Checkpoint* next) {
  // The image of this generation holds the new pages; the old ones end with it.
  next->meta.directory_pages = meta.directory_pages;
  for (const Checkpoint::NewPage& page : next->tables) {
    if (page.index >= table_pages.size()) table_pages.resize(page.index + 1, kNoPage);
    const PageId old = std::exchange(table_pages[page.index], page.id);
    if (old != kNoPage) retire_page_locked(old);
  }
  for (const Checkpoint::NewPage& page : next->directories) {
    std::vector<PageId>& directories = next->meta.directory_pages;
    if (page.index >= directories.size()) directories.resize(page.index + 1, kNoPage);
    const PageId old = std::exchange(directories[page.index], page.id);
    if (old != kNoPage) retire_page_locked(old);
  }
  const std::size_t directories_needed = (table_pages.size() - 1) / kIdsPerDirectoryPage + 1;
  for (; next->meta.directory_pages.size() > directories_needed;
       next->meta.directory_pages.pop_back())
    retire_page_locked(next->meta.directory_pages.back());
  next->meta.chunk_count = table.size();
  next->entries = std::move(spare_entries);
  next->entries.assign(next->tables.size() * kEntriesPerTablePage, ChunkEntry{});
  for (std::size_t i = 0; i < next->tables.size(); ++i) {
    const std::uint64_t first = next->tables[i].index * kEntriesPerTablePage;
    const std::uint64_t end = std::min(first + kEntriesPerTablePage, table.size());
    for (std::uint64_t chunk = first; chunk < end; ++chunk)
      next->entries[i * kEntriesPerTablePage + chunk - first] = table[chunk].entry;
  }
  table.clear_dirty();
  next->born = std::exchange(born, {});
  settling_bytes += retired_bytes.exchange(0);
  dirty_bytes = 0;
  referenced_bytes = 0;
}

Checkpoint* Pager::begin_checkpoint(const CheckpointImage& image) {
  MULTIFORA_ASSERT(image.store_meta.size() <= kStoreMetaSizeMax);
  Impl& impl = *impl_;
  // Where somebody makes the file longer just now, it does not become shorter.
  std::unique_lock growing(impl.growth_mutex, std::try_to_lock);
  Impl::Lock lock(impl.mutex);
  if (growing.owns_lock()) impl.shrink_locked();
  if (growing.owns_lock()) growing.unlock();
  MULTIFORA_ASSERT(impl.checkpoint == nullptr);
  impl.checkpoint = std::make_unique<Checkpoint>();
  Checkpoint* const next = impl.checkpoint.get();
  next->meta.uuid = impl.meta.uuid;
  next->meta.generation = impl.now();
  next->meta.position = image.position;
  next->meta.store_meta = image.store_meta;
  next->status = impl.assign_table_pages(lock, next);
  if (next->status.ok()) impl.capture_locked(next);
  generation_.store(impl.now() + 1, std::memory_order_release);
  return next;
}

// --- second step ---

void Pager::Impl::set_checksums(const Checkpoint& image) {
  const std::vector<std::uint32_t> positions = captured_positions(image);
  for (const PageId id : image.born)
    if (used_at_capture(image, positions, id)) seal_page(writable(id));
}

char* Pager::Impl::image_header(PageId id, const Checkpoint& image) {
  char* const page = fill_header(id, PageKind::kChunkTable, 0);
  store_le(page + offsetof(PageHeader, generation), image.meta.generation);
  return page;
}

void Pager::Impl::write_table_pages(const Checkpoint& image) {
  constexpr std::size_t kEntriesSize = kEntriesPerTablePage * sizeof(ChunkEntry);
  for (std::size_t i = 0; i < image.tables.size(); ++i) {
    char* const page = image_header(image.tables[i].id, image);
    std::memcpy(page + kPageHeaderSize, &image.entries[i * kEntriesPerTablePage], kEntriesSize);
    std::memset(page + kPageHeaderSize + kEntriesSize, 0,
                kPageSize - kPageHeaderSize - kEntriesSize);
    seal_page(page);
  }
  for (const Checkpoint::NewPage& directory : image.directories) {
    char* const page = image_header(directory.id, image);
    std::memset(page + kPageHeaderSize, 0, kPageSize - kPageHeaderSize);
    const std::uint64_t first = directory.index * kIdsPerDirectoryPage;
    const std::uint64_t end = std::min(first + kIdsPerDirectoryPage, table_pages.size());
    for (std::uint64_t index = first; index < end; ++index)
      store_le(page + kPageHeaderSize + 8 * (index - first), table_pages[index]);
    seal_page(page);
  }
}

Status Pager::Impl::publish_meta(MetaPage next) {
  std::lock_guard publishing(meta_mutex);
  return publish_in_turn(std::move(next));
}

Status Pager::Impl::publish_again() {
  std::lock_guard publishing(meta_mutex);
  MetaPage again;
  {
    std::lock_guard lock(mutex);
    again = meta;
  }
  return publish_in_turn(std::move(again));
}

// Under meta_mutex, so that nothing older can come after something newer.
Status Pager::Impl::publish_in_turn(MetaPage next) {
  {
    std::lock_guard lock(mutex);
    next.checkpoint = meta.checkpoint + 1;
  }
  Status status = file->write(meta_offset(next.checkpoint), encode_meta(next));
  if (status.ok()) status = file->sync();
  if (!status.ok()) return status;
  std::lock_guard lock(mutex);
  older_generation = meta.generation;
  older_position = meta.position;
  older_chunk_count = meta.chunk_count;
  meta = std::move(next);
  unfreeze_locked();
  return {};
}

void Pager::Impl::unfreeze_locked() {
  if (table.frozen_below() == 0) return;
  std::vector<std::uint64_t> empty;
  table.unfreeze(&empty);
  for (const std::uint64_t chunk : empty) records->free_chunk_locked(chunk);
  top_up_reserve_locked();
}

Status Pager::Impl::thaw(Lock& lock) {
  if (older_generation == meta.generation) {
    unfreeze_locked();
    return {};
  }
  lock.unlock();
  const Status status = publish_again();
  if (!status.ok()) fail_for_good(status);
  lock.lock();
  return status;
}

void Pager::begin_recovery() {
  std::lock_guard lock(impl_->mutex);
  impl_->recovering = true;
}

void Pager::end_recovery() {
  std::lock_guard lock(impl_->mutex);
  impl_->recovering = false;
  if (impl_->older_generation == impl_->meta.generation) impl_->unfreeze_locked();
  impl_->top_up_reserve_locked();
}

Status Pager::finish_checkpoint(Checkpoint* checkpoint) {
  Impl& impl = *impl_;
  MULTIFORA_ASSERT(checkpoint != nullptr && checkpoint == impl.checkpoint.get());
  const std::unique_ptr<Checkpoint> image = std::move(impl.checkpoint);
  if (!image->status.ok()) return image->status;
  impl.set_checksums(*image);
  impl.write_table_pages(*image);
  impl.write_back_slices(image->meta.generation);
  Status status = impl.failed ? impl.health() : impl.file->sync();
  if (status.ok()) status = impl.publish_meta(image->meta);
  if (!status.ok()) {
    impl.fail_for_good(status);
    return status;
  }
  impl.checkpoints_total.add();
  {
    Impl::Lock lock(impl.mutex);
    impl.spare_entries = std::move(image->entries);
    impl.release_retired(lock);
    impl.top_up_reserve_locked();
  }
  trim_memory();
  return {};
}

// --- giving space back to the file system ---

void Pager::shrink_at_next_checkpoint(std::uint64_t keep_bytes) {
  std::lock_guard lock(impl_->mutex);
  impl_->shrink_keep_chunks = (keep_bytes + kChunkSize - 1) / kChunkSize;
}

// Nothing sees a free chunk: no snapshot, no durable checkpoint.
void Pager::Impl::shrink_locked() {
  const std::uint64_t keep = std::exchange(shrink_keep_chunks, ~std::uint64_t{0});
  // Promised pages of the reserve are better in front.
  give_back_locked(&reserve);
  const std::uint64_t tail = table.trailing_free();
  if (tail > keep) {
    table.drop_free_tail(tail - keep);
    const PageId end = table.size() * kPagesPerChunk;
    for (PageId word = end / 64; word < file_bytes / kPageSize / 64; ++word)
      pager.verified_[word].store(0, std::memory_order_relaxed);
    records->forget_behind_locked(table.size());
    const std::uint64_t tables = (table.size() - 1) / kEntriesPerTablePage + 1;
    for (; table_pages.size() > tables; table_pages.pop_back())
      retire_page_locked(table_pages.back());
    file_bytes.store(table.size() * kChunkSize, std::memory_order_release);
  }
  top_up_reserve_locked();
}

Status Pager::settle() {
  Impl& impl = *impl_;
  if (impl.failed) return impl.health();
  if (Status status = impl.publish_again(); !status.ok()) {
    impl.fail_for_good(status);
    return status;
  }
  {
    Impl::Lock lock(impl.mutex);
    impl.settling_bytes = 0;
    impl.release_retired(lock);
    impl.top_up_reserve_locked();
  }
  return impl.cut_tail();
}

// The opened file may be longer than its checkpoint says, too.
Status Pager::Impl::cut_tail() {
  std::lock_guard growing(growth_mutex);
  std::uint64_t chunks = 0;
  {
    std::lock_guard lock(mutex);
    chunks = std::max({table.size(), meta.chunk_count, older_chunk_count});
  }
  MULTIFORA_ASSIGN(const std::uint64_t size, file->size());
  if (size / kChunkSize <= chunks) return {};
  if (Status status = file->truncate(chunks * kChunkSize); !status.ok())
    log.event(LogLevel::kWarning, "storage", "The data file could not be cut shorter.",
              {{"path", std::string_view(path)}, {"reason", std::string_view(status.message())}});
  return {};
}

LogPosition Pager::oldest_needed_position() const {
  std::lock_guard lock(impl_->mutex);
  return std::min(impl_->older_position, impl_->meta.position);
}

}  // namespace multifora
