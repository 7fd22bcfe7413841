// Checkpoints, and giving back the space of dropped collections: the store's own thread.
#include <algorithm>
#include <chrono>

#include "core/base/limits.h"
#include "core/store/history.h"
#include "core/store/store_impl.h"

namespace multifora {
namespace {

// How often the thread looks at the triggers without being woken.
constexpr std::int64_t kTickMs = 500;
constexpr std::size_t kReclaimSlice = 2'000;
// Retired space comes back with a checkpoint, so much of it calls for one.
constexpr std::uint64_t kRetiredBytesMin = 8u << 20;
constexpr std::uint64_t kRetiredBytesMax = 256u << 20;
constexpr std::uint64_t kRetiredShare = 24;  // of the file
// Of a checkpoint: sessions whose age is looked at, and that are erased, at least.
constexpr std::size_t kSessionsScanned = 10'000;
constexpr std::size_t kSessionsErasedMin = 1'000;

}  // namespace

// Inside the closed gate: what has changed since the last checkpoint goes into the catalog's tree.
// OutOfDiskSpace: what is not saved stays on the lists, so that a later call saves it; the tree in
// memory is half-way between two states, but only checkpoints look at it.
Status Store::Impl::save_dirty(const std::vector<std::string>& expired, PageStash& stash) {
  const std::lock_guard changing(table_mutex);
  std::vector<CollectionPtr> to_save;
  std::vector<CollectionId> gone;
  {
    const std::lock_guard hold(dirty_mutex);
    to_save.swap(dirty);
    gone.swap(reclaimed);
  }
  Status status;
  std::size_t saved = 0, erased = 0;
  for (; saved < to_save.size() && status.ok(); saved += status.ok())
    status = save_collection(*to_save[saved], gone, stash);
  for (; erased < gone.size() && status.ok(); erased += status.ok())
    status = table->erase(gone[erased], stash);
  if (status.ok()) status = save_sessions(expired, stash);
  if (const PageId from = pager->vacating_from(); status.ok() && from != Pager::kNotVacating)
    table->vacate(from);
  if (status.ok()) {
    table->set_next_collection_id(next_collection_id);
    return {};
  }
  const std::lock_guard hold(dirty_mutex);
  for (std::size_t i = 0; i < to_save.size(); ++i) {
    if (i >= saved)
      dirty.push_back(to_save[i]);
    else
      to_save[i]->dirty.store(false);
  }
  reclaimed.insert(reclaimed.end(), gone.begin() + static_cast<std::ptrdiff_t>(erased), gone.end());
  return status;
}

Status Store::Impl::save_collection(Collection& collection, const std::vector<CollectionId>& gone,
                                    PageStash& stash) {
  if (std::find(gone.begin(), gone.end(), collection.id) == gone.end()) {
    OwnedDocument description;
    Bytes changed;
    if (collection.description_dirty) {
      description = describe(collection);
      changed = description.bytes();
    }
    MULTIFORA_TRY(table->save(collection, changed, stash));
    collection.description_dirty = false;
  }
  collection.dirty.store(false);
  return {};
}

// Sessions whose results nobody will ask for again: as many as twice what this checkpoint saves, so that
// they do not pile up, and some. Before the gate closes: only checkpoints change the tree.
Result<std::vector<std::string>> Store::Impl::expired_sessions() {
  const std::uint64_t history_seconds = limits::kRetryHistoryMinutes * 60;
  const std::uint64_t now_seconds = wal->last_appended() >> 32;
  std::vector<std::string> expired;
  if (now_seconds <= history_seconds) return expired;
  const LogPosition horizon = (now_seconds - history_seconds) << 32;
  const std::size_t most = kSessionsErasedMin + 2 * retry.changes();
  Status damage;
  MULTIFORA_TRY_R(table->scan_sessions(
      &sessions_swept_to, kSessionsScanned + 2 * most, [&](Bytes lsid, Bytes begin_of_row) {
        const auto last_use = RetryTable::last_use_of(begin_of_row);
        if (!last_use && damage.ok()) damage = last_use.error();
        if (last_use && *last_use < horizon && expired.size() < most) expired.emplace_back(lsid);
      }));
  if (!damage.ok()) return fail(std::move(damage));
  return expired;
}

Status Store::Impl::save_sessions(const std::vector<std::string>& expired, PageStash& stash) {
  for (const std::string& lsid : expired)
    if (retry.forget(lsid)) MULTIFORA_TRY(table->erase_session(lsid, stash));
  return retry.drain_changes(
      [&](Bytes lsid) { return table->read_session(lsid); },
      [&](const std::string& lsid, Bytes row) { return table->save_session(lsid, row, stash); });
}

// A full disk leaves everything as it was; any other failure of a checkpoint is final.
Status Store::Impl::checkpoint_failed(Status status) {
  const bool full = status.code() == ErrorCode::kOutOfDiskSpace && pager->health().ok() &&
                    wal->health().ok();
  changed_since_checkpoint.store(true);
  if (!full) fail_store(status);
  return status;
}

Status Store::Impl::checkpoint() {
  MULTIFORA_TRY(make_image());
  return finish_history();
}

Status Store::Impl::make_image() {
  const std::lock_guard one(checkpoint_mutex);
  MULTIFORA_TRY(alive());
  BorrowedStash stash(*stashes);
  // A start, so that the file seldom grows while writers wait; the catalog asks for what it needs.
  static_cast<void>((*stash).ensure(64));
  auto expired = expired_sessions();
  if (!expired) {
    fail_store(expired.error());
    return expired.error();
  }
  CheckpointImage image;
  HistoryWork work;
  gate.close();
  const bool changed = changed_since_checkpoint.exchange(false);
  const std::uint64_t log_bytes_before = log_bytes_at_checkpoint;
  bool refers = false;
  bool load = false;  // is what has come since the last one reason enough?
  Status saved = save_dirty(*expired, *stash);
  Checkpoint* running = nullptr;
  if (saved.ok()) {
    image.position = wal->last_appended();
    refers = log_refers.exchange(false);
    image.store_meta = table->encode_meta();
    log_bytes_at_checkpoint = wal->appended_bytes();
    load = log_bytes_at_checkpoint - log_bytes_before >= options.checkpoint_log_bytes;
    running = pager->begin_checkpoint(image);
    // What the log refers to from now on stays at its place until the history has it.
    work.pin = std::exchange(epoch_pin, history->enabled() ? pager->pin() : Snapshot());
  }
  gate.open();
  if (!saved.ok()) return checkpoint_failed(std::move(saved));
  // The image holds what the log has up to its position: that part of the log comes first.
  Status durable = wal->wait_durable(image.position);
  // What the log refers to is safe only as long as the last checkpoint needs it, or a pin keeps it.
  if (!refers) work.pin = Snapshot();
  if (durable.ok() && refers && !work.pin) {
    const std::lock_guard writing(history_writing);
    keep_history(image.position);
  }
  const std::uint64_t settling = pager->waiting_bytes();
  Status finished = pager->finish_checkpoint(running);
  if (!durable.ok() || !finished.ok()) {
    log_bytes_at_checkpoint = log_bytes_before;
    if (refers) {  // still: the next one is to find it as this one did
      log_refers = true;
      epoch_pin = std::move(work.pin);
    }
    return checkpoint_failed(durable.ok() ? std::move(finished) : std::move(durable));
  }
  // With both meta pages at this checkpoint, what it has left behind is free, and its log too.
  if (Status settled = pager->settle(); !settled.ok()) {
    fail_store(settled);
    return settled;
  }
  ++checkpoints;
  quiet_checkpoints = changed ? 0 : quiet_checkpoints + 1;
  work.position = image.position;
  work.log_bytes = log_bytes_at_checkpoint;
  work.load = load;
  work.held_bytes = settling;
  queue_history(std::move(work));
  writers.ease();
  return {};
}

void Store::Impl::note_progress() {
  const std::uint64_t since = wal->appended_bytes() - log_bytes_at_checkpoint.load() +
                              pager->referenced_since_checkpoint_bytes();
  const bool much_log = since >= options.checkpoint_log_bytes;
  const std::uint64_t retired = pager->retired_since_checkpoint_bytes();
  const bool much_retired =
      retired >= std::clamp(pager->file_bytes() / kRetiredShare, kRetiredBytesMin, kRetiredBytesMax);
  if (much_log || much_retired) want_checkpoint();
}

// Space that was given up is usable two checkpoints later, and so is that of the log.
void Store::Impl::want_space() {
  // What idle stashes hold may be what the next writer lacks.
  stashes->drop_idle();
  disk_full = true;
  if (!changed_since_checkpoint && quiet_checkpoints >= 2) return;
  const std::lock_guard hold(worker_mutex);
  checkpoint_wanted = space_wanted = true;
  worker_wake.notify_all();
}

void Store::Impl::want_checkpoint() {
  const std::lock_guard hold(worker_mutex);
  checkpoint_wanted = true;
  worker_wake.notify_all();
}

bool Store::Impl::checkpoint_due(std::int64_t last_ms) const {
  if (checkpoint_wanted) return true;
  const std::int64_t now_ms = host.clock().monotonic_us() / 1000;
  // One more after a load, so that the log becomes small.
  return (changed_since_checkpoint || log_kept_for_load) && now_ms - last_ms >= options.checkpoint_interval_ms;
}

void Store::Impl::work() {
  std::int64_t last_ms = host.clock().monotonic_us() / 1000;
  std::unique_lock hold(worker_mutex);
  bool more_to_reclaim = true;
  while (!stopping) {
    if (!more_to_reclaim && !checkpoint_due(last_ms))
      worker_wake.wait_for(hold, std::chrono::milliseconds(kTickMs));
    if (stopping) break;
    const bool due = checkpoint_due(last_ms);
    const bool twice = space_wanted;
    checkpoint_wanted = space_wanted = false;
    hold.unlock();
    if (due && !failed) {
      Status status = twice ? checkpoint() : make_image();
      if (status.ok() && twice) status = checkpoint();
      if (!status.ok())
        host.log().event(LogLevel::kError, "store", "A checkpoint failed",
                         {{"error", std::string_view(status.message())}});
      last_ms = host.clock().monotonic_us() / 1000;
      // Writers that wait do not ask for the next one.
      if (status.ok()) note_progress();
    }
    more_to_reclaim = false;
    if (!failed) {
      const auto more = reclaim(kReclaimSlice);
      more_to_reclaim = more && *more;
      if (!more) want_space();  // a full disk; otherwise the store has failed
    }
    hold.lock();
  }
}

// Frees a slice of the oldest dropped collection. Nobody else can see it: only the gate is needed.
// OutOfDiskSpace: try again after a checkpoint. Any other failure is final.
Result<bool> Store::Impl::reclaim(std::size_t records) {
  const std::lock_guard one(reclaim_mutex);
  while (records > 0) {
    CollectionPtr collection;
    {
      const std::lock_guard hold(dirty_mutex);
      if (graveyard.empty()) return false;
      collection = graveyard.front();
    }
    BorrowedStash stash(*stashes);
    // Waits for readers that still hold the lock; new ones cannot find it.
    collection->lock.lock();
    const GateEntry entered(gate);
    bool done = false;
    const std::uint64_t before = collection->state.record_count;
    const Status status = free_slice(*collection, &records, *stash, &done);
    // A full disk that let nothing happen is no reason for a checkpoint.
    if (status.ok() || collection->state.record_count != before || collection->description_dirty)
      mark_dirty(collection, false);
    if (done) {
      const std::lock_guard hold(dirty_mutex);
      graveyard.erase(graveyard.begin());
      reclaimed.push_back(collection->id);
    }
    collection->lock.unlock();
    if (!status.ok()) {
      if (status.code() != ErrorCode::kOutOfDiskSpace) fail_store(status);
      return fail(status);
    }
  }
  const std::lock_guard hold(dirty_mutex);
  return !graveyard.empty();
}

// Nobody reads a dropped collection any more: where it is damaged, what cannot be found is given up,
// so that a collection can always be dropped.
Status Store::Impl::free_slice(Collection& collection, std::size_t* records, PageStash& stash,
                               bool* done) {
  CollectionMutator mutator(*pager, collection, stash);
  const std::uint64_t count = collection.state.record_count;
  if (count > *records) {
    Status status;
    for (auto& open : collection.indexes)
      if (status.ok()) status = open->index->clear();
    collection.indexes.clear();
    collection.description_dirty = true;
    if (status.ok()) status = free_some(collection, std::exchange(*records, 0), stash);
    if (status.code() != ErrorCode::kDataCorruptionDetected) return status;
  }
  Status damage;
  MULTIFORA_TRY(mutator.truncate_damaged(&damage));
  *records -= std::min<std::size_t>(*records, count + 1);
  *done = true;
  if (!damage.ok())
    host.log().event(LogLevel::kError, "store",
                     "A dropped collection was damaged; a part of its space is lost",
                     {{"ns", std::string_view(collection.info->ns)},
                      {"error", std::string_view(damage.message())}});
  return {};
}

// For the command that dropped: what cannot be freed now, the store's thread frees later.
Status Store::Impl::reclaim_at_once() {
  Status status = status_of(reclaim(kReclaimAtOnce));
  if (status.code() != ErrorCode::kOutOfDiskSpace || failed) return status;
  want_space();
  return {};
}

Status Store::Impl::free_some(Collection& collection, std::size_t records, PageStash& stash) {
  CollectionState& state = collection.state;
  PagedArray array(*pager, collection.id);
  for (std::size_t i = 0; i < records && state.record_count > 0; ++i) {
    std::uint64_t id = 0, location = 0;
    MULTIFORA_ASSIGN(const bool found, array.next(state.records, 1, false, &id, &location));
    if (!found) break;
    MULTIFORA_ASSIGN(const Bytes payload, pager->records().peek(location, collection.id));
    const std::size_t size = payload.size();
    MULTIFORA_TRY(stash.ensure(PagedArray::kSetPages + RecordSpace::kRetirePages, true));
    MULTIFORA_TRY(array.set(state.records, id, 0, stash));
    pager->records().retire(location, size, stash);
    --state.record_count;
    state.data_bytes -= size;
  }
  return {};
}

}  // namespace multifora
