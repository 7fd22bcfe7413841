#include "core/store/space_keeper.h"

#include <algorithm>
#include <chrono>

#include "core/store/live_view.h"
#include "core/store/store_impl.h"

namespace multifora {
namespace {

constexpr std::int64_t kTickMs = 100;
// Records that are moved under one hold of their collection's lock.
constexpr std::size_t kSliceBytes = 128 * 1024;
constexpr std::size_t kSliceRecords = 64;
// Less dead space than this is not worth moving anything: allocators have as much in hand.
constexpr std::uint64_t kDeadBytesMin = 12u << 20;
// Of a collection's chunks: from here on dead space is worked on, alone and beside writers.
constexpr double kDeadFractionIdle = 0.12;
constexpr double kDeadFractionBusy = 0.16;
// A denser chunk costs more to move than it gives.
constexpr double kLiveFractionMax = 0.9;
constexpr std::size_t kChunksAtOnce = 16;
// Bytes a second.
constexpr std::uint64_t kRateIdle = 96u << 20;
constexpr std::uint64_t kRateBusyMin = 16u << 20;
constexpr std::uint64_t kRateBusyMax = 192u << 20;
// Log bytes a second from which on others count as writing.
constexpr std::uint64_t kBusyLogRate = 256 * 1024;
// So much may stay free in whole chunks, and at the end of the file.
constexpr std::uint64_t kFreeKeptMin = 48u << 20;
constexpr std::uint64_t kTailKeptMin = 8u << 20;
constexpr std::size_t kPagesAtOnce = 32;
// Chunks that could not be emptied are tried again after a while.
constexpr std::int64_t kStuckForUs = 60'000'000;

}  // namespace

void SpaceKeeper::start() {
  thread_ = std::thread([this] { run(); });
}

void SpaceKeeper::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard hold(mutex_);
    stopping_ = true;
    wake_.notify_all();
  }
  thread_.join();
}

void SpaceKeeper::run() {
  std::unique_lock hold(mutex_);
  while (!stopping_) {
    wake_.wait_for(hold, std::chrono::milliseconds(kTickMs));
    if (stopping_) break;
    hold.unlock();
    tick();
    hold.lock();
  }
}

// --- what to do -----------------------------------------------------------------------------------

void SpaceKeeper::tick() {
  store_.pager->trim_memory();
  const std::unique_lock one(work_mutex_, std::try_to_lock);
  if (!one.owns_lock() || !store_.writable().ok()) return;
  moved_bytes_ = 0;
  note_load();
  // What it moves takes space first: not while writers are held back for want of it.
  if (store_.pressure(0) > 0) return;
  if (empty_sparse_chunks() || vacate_some()) {
    unsaved_moves_ = true;
    store_.note_progress();
  } else if (unsaved_moves_) {
    // What the moves have left behind is to come back soon, also where nobody else writes.
    unsaved_moves_ = false;
    store_.want_checkpoint();
  }
  consider_shrinking();
}

void SpaceKeeper::note_load() {
  const std::int64_t now_us = store_.host.clock().monotonic_us();
  const std::uint64_t now_bytes = store_.wal->appended_bytes();
  const std::int64_t passed_us = std::max<std::int64_t>(1, now_us - log_seen_us_);
  if (now_us - stuck_since_us_ > kStuckForUs) {
    stuck_.clear();
    stuck_since_us_ = now_us;
  }
  const std::uint64_t rate =
      (now_bytes - log_bytes_seen_) * 1'000'000 / static_cast<std::uint64_t>(passed_us);
  log_seen_us_ = now_us;
  log_bytes_seen_ = now_bytes;
  busy_ = rate > kBusyLogRate;
}

// Beside writers little is moved while little is dead, and as much as they do where it has to keep up
// with them.
std::uint64_t SpaceKeeper::rate_for(double dead_fraction) const {
  if (!busy_) return kRateIdle;
  const double urgency = std::clamp((dead_fraction - kDeadFractionBusy) / 0.10, 0.0, 1.0);
  return kRateBusyMin +
         static_cast<std::uint64_t>(urgency * static_cast<double>(kRateBusyMax - kRateBusyMin));
}

// True: something was moved.
bool SpaceKeeper::empty_sparse_chunks() {
  RecordSpace& space = store_.pager->records();
  double worst = busy_ ? kDeadFractionBusy : kDeadFractionIdle;
  const RecordSpace::Use* chosen = nullptr;
  const std::vector<RecordSpace::Use> uses = space.uses();
  for (const RecordSpace::Use& use : uses) {
    const double dead = static_cast<double>(use.free_bytes) / static_cast<double>(use.chunk_bytes);
    if (use.free_bytes < kDeadBytesMin || dead < worst) continue;
    worst = dead;
    chosen = &use;
  }
  if (chosen == nullptr) return false;
  rate_ = rate_for(worst);
  // Emptying chunks as dense as the average would only move holes about.
  const double live_max = std::min(kLiveFractionMax, 1 - worst);
  bool moved = false;
  for (const RecordSpace::Sparse& sparse :
       space.sparse_chunks(chosen->collection, live_max, kChunksAtOnce)) {
    if (stuck_.contains(sparse.chunk)) continue;
    if (moved_bytes_ >= rate_ * kTickMs / 1000 || stopping_) break;
    const auto outcome = empty_chunk(sparse.chunk);
    if (!outcome || *outcome == Outcome::kNoRoom) break;
    moved = true;
  }
  return moved;
}

// Goes on with vacating the end of the file. True: something was moved.
bool SpaceKeeper::vacate_some() {
  if (!vacating_) return false;
  rate_ = busy_ ? kRateBusyMin : kRateIdle;
  const PageId from = store_.pager->vacating_from();
  bool more = false;
  if (from != Pager::kNotVacating) {
    const auto records = vacate_records(from);
    more = records && !*records;
    if (records && *records) {
      const auto pages = vacate_pages(from);
      more = pages && !*pages;
    }
  }
  if (more) return true;
  vacating_ = false;  // the ceiling stays until the tail has gone, or somebody needs it
  unsaved_moves_ = true;
  return false;
}

std::uint64_t SpaceKeeper::Low::note(std::uint64_t now_bytes, std::int64_t now_us,
                                     std::int64_t period_us) {
  if (since_us == 0 || now_us - since_us >= period_us) {
    before = since_us == 0 ? 0 : bytes;
    bytes = now_bytes;
    since_us = now_us;
  }
  bytes = std::min(bytes, now_bytes);
  return std::min(bytes, before);
}

void SpaceKeeper::consider_shrinking() {
  // The report walks the space tables.
  if (++ticks_ % 10 != 0 && store_.options.space_patience_ms >= 10 * kTickMs) return;
  const SpaceUse use = store_.pager->space_use();
  const std::int64_t now_us = store_.host.clock().monotonic_us();
  const std::int64_t patience_us = store_.options.space_patience_ms * 1000;
  const std::uint64_t tail_kept = std::max(kTailKeptMin, use.file_bytes / 32);
  if (tail_.note(use.tail_bytes, now_us, patience_us) > 2 * tail_kept) {
    tail_ = {};
    store_.pager->shrink_at_next_checkpoint(tail_kept);
    store_.pager->end_vacating();
    store_.want_checkpoint();
    return;
  }
  const std::uint64_t kept = std::max(kFreeKeptMin, use.file_bytes / 10);
  const std::uint64_t free_low = free_chunks_.note(use.free_chunk_bytes, now_us, patience_us);
  if (vacating_ || free_low < 2 * kept) return;
  free_chunks_ = {};
  vacating_ = true;
  store_.stashes->drop_idle();
  store_.pager->begin_vacating(use.file_bytes - (free_low - kept));
}

// --- moving ---------------------------------------------------------------------------------------

Status SpaceKeeper::pace(std::uint64_t bytes) {
  moved_bytes_ += bytes;
  if (interrupt_ != nullptr) return interrupt_->check();
  if (stopping_) return {ErrorCode::kInterruptedAtShutdown, "the database is closing"};
  if (rate_ == 0) return {};
  std::this_thread::sleep_for(std::chrono::microseconds(bytes * 1'000'000 / rate_));
  return {};
}

Result<SpaceKeeper::Outcome> SpaceKeeper::empty_chunk(std::uint64_t chunk) {
  RecordSpace& space = store_.pager->records();
  space.quarantine(chunk);
  // While it lives, what is found here may die but is not written over.
  const Snapshot pin = store_.pager->pin();
  std::vector<Found> found;
  if (const Status seen = space.visit_chunk(
          chunk,
          [&](RecordLocation location, CollectionId collection, Bytes payload) {
            found.push_back({location, collection, payload.size()});
          });
      !seen.ok()) {
    space.end_quarantine(chunk);
    stuck_.insert(chunk);
    store_.host.log().event(LogLevel::kError, "store", "A chunk of records cannot be moved",
                            {{"error", std::string_view(seen.message())}});
    return Outcome::kStuck;
  }
  const std::size_t moved_before = moved_records_;
  Outcome worst = Outcome::kDone;
  for (std::size_t from = 0; from < found.size() && worst != Outcome::kNoRoom;) {
    std::size_t to = from;
    std::size_t bytes = 0;
    while (to < found.size() && found[to].collection == found[from].collection &&
           to - from < kSliceRecords && (to == from || bytes + found[to].size_bytes <= kSliceBytes))
      bytes += found[to++].size_bytes;
    const auto outcome = move_slice(found, from, to);
    const Status paced = outcome ? pace(bytes) : outcome.error();
    if (!paced.ok()) {
      space.end_quarantine(chunk);
      return fail(paced);
    }
    worst = std::max(worst, *outcome, [](Outcome a, Outcome b) {
      return (a == Outcome::kNoRoom ? 2 : a == Outcome::kStuck) <
             (b == Outcome::kNoRoom ? 2 : b == Outcome::kStuck);
    });
    from = to;
  }
  // What was not moved has died meanwhile, or nobody refers to it, or its collection is just going.
  // Something may have been published late, into space reserved before.
  std::size_t left = 0;
  if (worst == Outcome::kDone)
    static_cast<void>(
        space.visit_chunk(chunk, [&](RecordLocation, CollectionId, Bytes) { ++left; }));
  if (left > 0 && moved_records_ - moved_before < found.size()) worst = Outcome::kStuck;
  if (left > 0 || worst != Outcome::kDone) space.end_quarantine(chunk);
  if (worst == Outcome::kStuck) stuck_.insert(chunk);
  return worst;
}

// Records of one collection. A record is found through its _id, and moved where the record map still
// has it at that place.
Result<SpaceKeeper::Outcome> SpaceKeeper::move_slice(const std::vector<Found>& found,
                                                     std::size_t from, std::size_t to) {
  const CollectionPtr collection = store_.find(found[from].collection);
  if (!collection) return Outcome::kDone;  // dropped: it is reclaimed as a whole
  BorrowedStash stash(*store_.stashes);
  collection->lock.lock();
  if (collection->dropped) {
    collection->lock.unlock();
    return Outcome::kDone;
  }
  Outcome outcome = Outcome::kDone;
  Status status;
  {
    const GateEntry entered(store_.gate);
    CollectionMutator mutator(*store_.pager, *collection, *stash);
    const LiveView view(*store_.pager, collection, false);
    for (std::size_t i = from; i < to && status.ok(); ++i) {
      const auto payload = store_.pager->records().peek(found[i].location, collection->id);
      if (!payload) {
        outcome = Outcome::kStuck;
        continue;
      }
      const auto id = view.find_id(DocumentView::assume_valid(*payload)["_id"]);
      if (!id) {
        outcome = Outcome::kStuck;
        continue;
      }
      if (*id == 0) continue;
      const Result<bool> moved = mutator.move(*id, found[i].location);
      if (moved)
        moved_records_ += *moved;
      else
        status = moved.error();
      if (status.code() == ErrorCode::kOutOfDiskSpace) {
        outcome = Outcome::kNoRoom;
        break;
      }
      // A record whose bytes are damaged stays where it is, for whoever reads it to find out.
      if (status.code() == ErrorCode::kDataCorruptionDetected && mutator.broken().ok()) {
        outcome = Outcome::kStuck;
        status = {};
      }
    }
    store_.mark_dirty(collection, false);
    if (!mutator.broken().ok()) store_.fail_store(mutator.broken());
  }
  collection->lock.unlock();
  if (outcome == Outcome::kNoRoom) return outcome;
  MULTIFORA_TRY_R(status);
  return outcome;
}

// --- the end of the file --------------------------------------------------------------------------

Result<bool> SpaceKeeper::vacate_records(PageId from) {
  RecordSpace& space = store_.pager->records();
  const std::uint64_t first = from / kPagesPerChunk;
  const std::uint64_t budget = rate_ * kTickMs / 1000;
  while (rate_ == 0 || moved_bytes_ < budget) {
    const std::uint64_t chunk = space.last_record_chunk(first);
    if (chunk == 0) return true;
    if (stuck_.contains(chunk)) return fail(ErrorCode::kOutOfDiskSpace, "a chunk cannot be moved");
    MULTIFORA_ASSIGN_R(const Outcome outcome, empty_chunk(chunk));
    if (outcome != Outcome::kDone || store_.pager->vacating_from() != from)
      return fail(ErrorCode::kOutOfDiskSpace, "no room before the end of the file");
  }
  return false;
}

// One slice of each structure that has pages there.
Result<bool> SpaceKeeper::vacate_pages(PageId from) {
  Pager& pager = *store_.pager;
  store_.stashes->drop_idle();
  MULTIFORA_TRY_R(pager.move_bitmaps(kPagesAtOnce));
  bool done = true;
  for (const std::uint32_t owner : pager.page_owners_from(from)) {
    const CollectionPtr collection = store_.find(owner);
    if (!collection) continue;  // the catalog moves with a checkpoint
    PageStash stash(pager);
    collection->lock.lock();
    Status status;
    if (!collection->dropped) {
      const GateEntry entered(store_.gate);
      collection->preserve(pager.current_generation());
      auto more = PagedArray(pager, collection->id)
                      .vacate(collection->state.records, from, kPagesAtOnce, stash);
      for (std::size_t i = 0; more && !*more && i < collection->indexes.size(); ++i)
        if (!collection->indexes[i]->building)
          more = collection->indexes[i]->index->vacate(from, kPagesAtOnce, stash);
      store_.mark_dirty(collection, false);
      if (!more) status = more.error();
      done = done && more && !*more;
    }
    collection->lock.unlock();
    MULTIFORA_TRY_R(status);
    MULTIFORA_TRY_R(pace(kPagesAtOnce * kPageSize));
    if (pager.vacating_from() != from)
      return fail(ErrorCode::kOutOfDiskSpace, "no room before the end of the file");
  }
  return done;
}

// --- on demand ------------------------------------------------------------------------------------

// What the file would need if all of it were packed.
std::uint64_t SpaceKeeper::needed_bytes() const {
  const Pager& pager = *store_.pager;
  std::uint64_t chunks = 2;
  for (const RecordSpace::Use& use : store_.pager->records().uses())
    chunks += (use.chunk_bytes - use.free_bytes) / (kChunkSize / 100 * 98) + 1;
  const SpaceUse use = pager.space_use();
  chunks += (use.page_bytes + use.page_bytes / 32) / kChunkSize + 1;
  return chunks * kChunkSize;
}

std::uint64_t SpaceKeeper::reclaimable_bytes() const {
  const std::uint64_t size = store_.pager->space_use().file_bytes;
  const std::uint64_t needed = needed_bytes();
  return size > needed ? size - needed : 0;
}

Result<SpaceKeeper::Outcome> SpaceKeeper::vacate(std::uint64_t from_bytes) {
  store_.stashes->drop_idle();
  store_.pager->begin_vacating(from_bytes);
  const PageId from = store_.pager->vacating_from();
  const auto outcome = [](const Status& status) -> Result<Outcome> {
    if (status.code() == ErrorCode::kOutOfDiskSpace) return Outcome::kNoRoom;
    return fail(status);
  };
  for (bool done = false; !done;) {
    const auto records = vacate_records(from);
    if (!records) return outcome(records.error());
    const auto pages = vacate_pages(from);
    if (!pages) return outcome(pages.error());
    done = *records && *pages;
  }
  return Outcome::kDone;
}

// Moves what lives in sparse chunks into the holes of the denser ones, so that whole chunks become
// free anywhere in the file: without any before the ceiling, a collection that owns none there could
// not be moved before it. Each round empties the sparser chunks of a collection.
Status SpaceKeeper::pack_records() {
  constexpr int kRoundsMax = 8;
  RecordSpace& space = store_.pager->records();
  bool moved = true;
  for (int round = 0; round < kRoundsMax && moved; ++round) {
    moved = false;
    for (const RecordSpace::Use& use : space.uses()) {
      if (use.free_bytes < kChunkSize) continue;
      const double live =
          1 - static_cast<double>(use.free_bytes) / static_cast<double>(use.chunk_bytes);
      for (const RecordSpace::Sparse& sparse :
           space.sparse_chunks(use.collection, std::min(kLiveFractionMax, live),
                               static_cast<std::size_t>(use.free_bytes / kChunkSize))) {
        MULTIFORA_ASSIGN(const Outcome outcome, empty_chunk(sparse.chunk));
        if (outcome == Outcome::kNoRoom) break;
        moved = moved || outcome == Outcome::kDone;
      }
    }
    if (moved) MULTIFORA_TRY(store_.checkpoint());  // the emptied chunks are free after it
  }
  return {};
}

Status SpaceKeeper::compact(Interrupt& interrupt) {
  const std::lock_guard one(work_mutex_);
  rate_ = 0;
  interrupt_ = &interrupt;
  const auto end = [this](Status status) {
    interrupt_ = nullptr;
    store_.pager->end_vacating();
    vacating_ = false;
    return status;
  };
  stuck_.clear();
  if (Status status = pack_records(); !status.ok()) return end(std::move(status));
  std::uint64_t target = needed_bytes();
  // Where records do not fit into what is before the target, it was too low.
  for (int attempt = 0; attempt < 8 && target < store_.pager->file_bytes(); ++attempt) {
    const auto outcome = vacate(target);
    if (!outcome) return end(outcome.error());
    if (*outcome == Outcome::kDone) break;
    if (Status status = store_.checkpoint(); !status.ok()) return end(std::move(status));
    target += std::max<std::uint64_t>(target / 16, 4 * kChunkSize);
  }
  // The first frees what has moved, the second leaves it out, its settling cuts it off.
  Status status = store_.checkpoint();
  if (status.ok()) {
    store_.pager->shrink_at_next_checkpoint(kChunkSize);
    status = store_.checkpoint();
  }
  return end(std::move(status));
}

}  // namespace multifora
