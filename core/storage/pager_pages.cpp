// Pages, stashes, growth of the file, snapshots, and when retired space comes back.
#include <fmt/format.h>

#include <algorithm>

#include "core/storage/pager_impl.h"

namespace multifora {

namespace {

// Pages of the reserve that are for operations which free space; the rest is for checkpoints.
constexpr std::size_t kReserveForFreeing = 48;
// Entries of the retired queue handled before the mutex is let go.
constexpr int kReleaseSlice = 2048;
// See Pager::waiting_bytes_allowed.
constexpr std::uint64_t kWaitingMin = 16u << 20;
constexpr std::uint64_t kWaitingShare = 16;  // of the file

}  // namespace

// --- promises ---

Status Pager::Impl::promise_pages(Lock& lock, std::vector<PageId>* pages, std::size_t count,
                                  bool frees_space) {
  const std::size_t before = pages->size();
  if (before >= count) return {};
  Status status;
  while (pages->size() < count && status.ok()) {
    if (failed) {
      status = failure;
    } else if (table.promise_pages(count - pages->size(), pages) == 0) {
      status = grow(lock, 1);
    }
  }
  if (frees_space && status.code() == ErrorCode::kOutOfDiskSpace &&
      reserve.size() >= checkpoint_pages_locked() + (count - pages->size())) {
    for (; pages->size() < count; reserve.pop_back()) pages->push_back(reserve.back());
    status = {};
  }
  if (!status.ok()) {
    std::vector<PageId> partial(pages->begin() + static_cast<std::ptrdiff_t>(before), pages->end());
    pages->resize(before);
    give_back_locked(&partial);
    return status;
  }
  // Taken from the back: low pages first.
  std::reverse(pages->begin() + static_cast<std::ptrdiff_t>(before), pages->end());
  return {};
}

void Pager::Impl::give_back_locked(std::vector<PageId>* pages) {
  for (const PageId id : *pages) table.unpromise_page(id);
  pages->clear();
}

std::size_t Pager::Impl::checkpoint_pages_locked() const {
  const std::size_t tables = table.size() / kEntriesPerTablePage + 1;
  return tables + tables / kIdsPerDirectoryPage + 2;
}

void Pager::Impl::top_up_reserve_locked() {
  if (recovering) return;
  const std::size_t target = kReserveForFreeing + checkpoint_pages_locked();
  if (reserve.size() < target) table.promise_pages(target - reserve.size(), &reserve);
}

PageStash::~PageStash() {
  give_back_all();
  if (unlinked_.empty()) return;
  std::lock_guard lock(pager_.impl_->mutex);
  pager_.impl_->give_back_locked(&unlinked_);
}

Status PageStash::ensure(std::size_t count, bool frees_space) {
  Pager::Impl& impl = *pager_.impl_;
  if (impl.failed.load(std::memory_order_acquire)) return impl.health();
  if (pages_.size() >= count) return {};
  Pager::Impl::Lock lock(impl.mutex);
  return impl.promise_pages(lock, &pages_, count, frees_space);
}

char* PageStash::take(PageKind kind, std::uint32_t owner, PageId* id) {
  MULTIFORA_ASSERT(!pages_.empty());
  Pager::Impl& impl = *pager_.impl_;
  *id = pages_.back();
  if (mode_ != Mode::kLinked) {
    unlinked_.push_back(*id);
    pages_.pop_back();
    char* const page = impl.fill_header(*id, kind, owner);
    if (mode_ == Mode::kFork) store_le(page + offsetof(PageHeader, generation), kForkGeneration);
    return page;
  }
  pages_.pop_back();
  std::lock_guard lock(impl.mutex);
  return impl.use_page_locked(*id, kind, owner);
}

void PageStash::give_back_all() {
  if (pages_.empty()) return;
  std::lock_guard lock(pager_.impl_->mutex);
  pager_.impl_->give_back_locked(&pages_);
}

void PageStash::retire(PageId id) {
  if (mode_ == Mode::kLinked) return pager_.retire(id);
  // A fork keeps its own pages to its end, and the snapshot's are others'.
  if (mode_ == Mode::kUnlinked) unlinked_retired_.push_back(id);
}

// A page of the snapshot, copied for the fork.
char* PageStash::copy_to_fork(PageId* id) {
  const char* const old = pager_.peek(*id);
  const PageHeader& header = *reinterpret_cast<const PageHeader*>(old);
  char* const to = take(static_cast<PageKind>(header.kind), header.owner, id);
  std::memcpy(to + sizeof(PageHeader), old + sizeof(PageHeader), kPageSize - sizeof(PageHeader));
  return to;
}

// The headers keep the generation that the pages were taken in. Where that is over, they count as
// published: what changes them copies them, which is more than needed but never wrong.
void PageStash::link() {
  MULTIFORA_ASSERT(mode_ == Mode::kUnlinked);
  Pager::Impl& impl = *pager_.impl_;
  std::sort(unlinked_retired_.begin(), unlinked_retired_.end());
  std::erase_if(unlinked_, [&](PageId id) {
    return std::binary_search(unlinked_retired_.begin(), unlinked_retired_.end(), id);
  });
  std::lock_guard lock(impl.mutex);
  impl.give_back_locked(&unlinked_retired_);
  for (const PageId id : unlinked_) impl.table.use_page(id, impl.now());
  impl.born.insert(impl.born.end(), unlinked_.begin(), unlinked_.end());
  impl.dirty_bytes += unlinked_.size() * kPageSize;
  unlinked_.clear();
}

// --- pages ---

char* Pager::Impl::fill_header(PageId id, PageKind kind, std::uint32_t owner) const {
  char* const page = writable(id);
  const PageHeader fresh{0, id, now(), owner, static_cast<std::uint8_t>(kind), {}};
  std::memcpy(page, &fresh, sizeof fresh);
  set_verified(id);
  return page;
}

char* Pager::Impl::use_page_locked(PageId id, PageKind kind, std::uint32_t owner) {
  table.use_page(id, now());
  born.push_back(id);
  dirty_bytes += kPageSize;
  return fill_header(id, kind, owner);
}

// A page born in this generation was never seen by a snapshot or a checkpoint.
void Pager::Impl::retire_page_locked(PageId id) {
  const bool born_now = pager.verified(id) && header(id)->generation == now();
  table.suspend_page(id);
  if (born_now) return table.release_page(id);
  retired.push_page(now(), id);
  retired_bytes += kPageSize;
}

// The checksum is left out: a checkpoint may be setting it.
char* Pager::Impl::make_writable_locked(PageId* id, std::vector<PageId>& promised) {
  if (pager.writable_in_place(*id)) return writable(*id);
  MULTIFORA_ASSERT(!promised.empty());
  const PageHeader* const old = header(*id);
  const PageId copy = promised.back();
  promised.pop_back();
  char* const to = use_page_locked(copy, static_cast<PageKind>(old->kind), old->owner);
  std::memcpy(to + sizeof(PageHeader), reinterpret_cast<const char*>(old) + sizeof(PageHeader),
              kPageSize - sizeof(PageHeader));
  retire_page_locked(*id);
  page_copies_total.add();
  *id = copy;
  return to;
}

void Pager::retire(PageId id) {
  std::lock_guard lock(impl_->mutex);
  impl_->retire_page_locked(id);
}

char* Pager::make_writable(PageId* id, PageStash& stash) {
  if (stash.mode_ == PageStash::Mode::kFork)
    return born(*id) == kForkGeneration ? write_base_ + *id * kPageSize : stash.copy_to_fork(id);
  if (writable_in_place(*id)) return write_base_ + *id * kPageSize;
  if (stash.mode_ == PageStash::Mode::kUnlinked) {
    const PageHeader* const old = impl_->header(*id);
    PageId copy = kNoPage;
    char* const to = stash.take(static_cast<PageKind>(old->kind), old->owner, &copy);
    std::memcpy(to + sizeof(PageHeader), reinterpret_cast<const char*>(old) + sizeof(PageHeader),
                kPageSize - sizeof(PageHeader));
    stash.retire(std::exchange(*id, copy));
    return to;
  }
  std::lock_guard lock(impl_->mutex);
  return impl_->make_writable_locked(id, stash.pages_);
}

std::uint64_t Pager::retired_since_checkpoint_bytes() const {
  return impl_->retired_bytes;
}
std::uint64_t Pager::waiting_bytes() const {
  return impl_->retired_bytes + impl_->settling_bytes;
}
std::uint64_t Pager::waiting_bytes_allowed() const {
  return std::max(kWaitingMin, file_bytes() / kWaitingShare);
}
std::uint64_t Pager::free_chunk_bytes() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->table.free_chunks() * kChunkSize;
}
std::uint64_t Pager::file_bytes() const {
  return impl_->file_bytes.load(std::memory_order_acquire);
}
std::uint64_t Pager::dirty_since_checkpoint_bytes() const {
  return impl_->dirty_bytes;
}

// --- growth ---

Status Pager::Impl::out_of_space(const Status& cause) const {
  return Status(ErrorCode::kOutOfDiskSpace,
                fmt::format("no space for the data file: free space on {} or delete data ({})",
                            path, cause.message()));
}

Status Pager::Impl::extend_file(std::uint64_t chunks_now, std::uint64_t chunks_min,
                                std::uint64_t* added) {
  const std::uint64_t size = chunks_now * kChunkSize;
  const std::uint64_t room = reserve_bytes / kChunkSize - chunks_now;
  if (room < chunks_min)
    return Status(ErrorCode::kOutOfDiskSpace, "the data file has reached its largest size");
  const std::uint64_t step =
      std::clamp(size / 64, std::uint64_t{kChunkSize},
                 std::max<std::uint64_t>(options.growth_bytes_max, kChunkSize));
  *added = std::min(std::max(step / kChunkSize, chunks_min), room);
  Status status = file->allocate(size, *added * kChunkSize);
  if (status.code() == ErrorCode::kOutOfDiskSpace && *added > chunks_min) {
    *added = chunks_min;
    status = file->allocate(size, *added * kChunkSize);
  }
  return status;
}

Status Pager::Impl::grow(Lock& lock, std::uint64_t chunks_min) {
  const std::uint64_t chunks_seen = table.size();
  const std::uint64_t frozen_seen = table.frozen_below();
  lock.unlock();
  std::lock_guard growing(growth_mutex);
  lock.lock();
  // Somebody else has made room meanwhile: the caller looks again.
  if (table.size() != chunks_seen || table.frozen_below() != frozen_seen) return {};
  lock.unlock();
  std::uint64_t added = 0;
  const Status status = extend_file(chunks_seen, chunks_min, &added);
  lock.lock();
  if (!status.ok()) {
    if (status.code() != ErrorCode::kOutOfDiskSpace) return status;
    if (table.frozen_below() == 0) return out_of_space(status);
    return thaw(lock);
  }
  MULTIFORA_ASSERT(table.size() == chunks_seen);  // it shrinks under growth_mutex too
  file_bytes.store((chunks_seen + added) * kChunkSize, std::memory_order_release);
  table.append_free(added);
  growths_total.add();
  top_up_reserve_locked();
  return {};
}

// --- snapshots ---

Snapshot::Snapshot(Snapshot&& other) noexcept
    : pager_(std::exchange(other.pager_, nullptr)), generation_(other.generation_) {}

Snapshot& Snapshot::operator=(Snapshot&& other) noexcept {
  if (this == &other) return *this;
  if (pager_ != nullptr) pager_->impl_->end_snapshot(generation_);
  pager_ = std::exchange(other.pager_, nullptr);
  generation_ = other.generation_;
  return *this;
}

Snapshot::~Snapshot() {
  if (pager_ != nullptr) pager_->impl_->end_snapshot(generation_);
}

Snapshot Pager::begin_snapshot() {
  std::lock_guard lock(impl_->mutex);
  const Generation generation = impl_->now();
  ++impl_->snapshots[generation];
  generation_.store(generation + 1, std::memory_order_release);
  return Snapshot(this, generation);
}

Snapshot Pager::pin() {
  std::lock_guard lock(impl_->mutex);
  const Generation generation = impl_->now() - 1;
  ++impl_->snapshots[generation];
  return Snapshot(this, generation);
}

void Pager::Impl::end_snapshot(Generation generation) {
  Lock lock(mutex);
  const auto it = snapshots.find(generation);
  MULTIFORA_ASSERT(it != snapshots.end());
  if (--it->second > 0) return;
  const bool oldest = it == snapshots.begin();
  snapshots.erase(it);
  if (oldest) release_retired(lock);
}

Generation Pager::Impl::reusable_limit_locked() const {
  const Generation durable = std::min(meta.generation, older_generation);
  return snapshots.empty() ? durable : std::min(durable, snapshots.begin()->first);
}

void Pager::Impl::release_retired(Lock& lock) {
  bool is_page = false;
  std::uint64_t what = 0;
  for (int n = 1; retired.pop(reusable_limit_locked(), &is_page, &what); ++n) {
    if (is_page)
      table.release_page(what);
    else
      records->release_pending_locked(what, reusable_limit_locked());
    if (n % kReleaseSlice == 0) {
      lock.unlock();
      lock.lock();
    }
  }
}

}  // namespace multifora
