// Checkpoints, and giving back the space of dropped collections: the store's own thread.
#include <algorithm>
#include <chrono>

#include "core/base/limits.h"
#include "core/store/store_impl.h"

namespace multifora {
namespace {

// How often the thread looks at the triggers without being woken.
constexpr std::int64_t kTickMs = 500;
constexpr std::size_t kReclaimSlice = 2'000;
// Retired space is usable again two checkpoints later, so much of it calls for one.
constexpr std::uint64_t kRetiredBytesMin = 64u << 20;

}  // namespace

// Inside the closed gate: what has changed since the last checkpoint goes into the catalog's tree.
Status Store::Impl::save_dirty(PageStash& stash) {
  std::vector<CollectionPtr> to_save;
  std::vector<CollectionId> gone;
  {
    const std::lock_guard hold(dirty_mutex);
    to_save.swap(dirty);
    gone.swap(reclaimed);
  }
  for (const CollectionPtr& collection : to_save) {
    collection->dirty.store(false);
    if (std::find(gone.begin(), gone.end(), collection->id) != gone.end()) continue;
    OwnedDocument description;
    Bytes changed;
    if (collection->description_dirty) {
      description = describe(*collection);
      changed = description.bytes();
      collection->description_dirty = false;
    }
    MULTIFORA_TRY(table->save(*collection, changed, stash));
  }
  for (const CollectionId id : gone) MULTIFORA_TRY(table->erase(id, stash));

  Status failed;
  const LogPosition now = wal->last_appended();
  const std::uint64_t history_seconds = limits::kRetryHistoryMinutes * 60;
  const std::uint64_t now_seconds = now >> 32;
  const LogPosition horizon =
      now_seconds > history_seconds ? (now_seconds - history_seconds) << 32 : 0;
  retry.drain_changes(
      horizon,
      [&](const std::string& lsid, Bytes encoded) {
        if (failed.ok()) failed = table->save_session(lsid, encoded, stash);
      },
      [&](const std::string& lsid) {
        if (failed.ok()) failed = table->erase_session(lsid, stash);
      });
  table->set_next_collection_id(next_collection_id);
  return failed;
}

Status Store::Impl::checkpoint() {
  const std::lock_guard one(checkpoint_mutex);
  MULTIFORA_TRY(writable());
  BorrowedStash stash(*stashes);
  // A start; put() asks for more where many collections have changed.
  MULTIFORA_TRY((*stash).ensure(64));
  CheckpointImage image;
  gate.close();
  changed_since_checkpoint.store(false);
  Status saved = save_dirty(*stash);
  Checkpoint* running = nullptr;
  if (saved.ok()) {
    image.position = wal->last_appended();
    image.store_meta = table->encode_meta();
    log_bytes_at_checkpoint = wal->appended_bytes();
    running = pager->begin_checkpoint(image);
  }
  gate.open();
  if (!saved.ok()) {
    // The catalog's tree may be half-way between two states.
    fail_store(saved);
    return saved;
  }
  // The image holds what the log has up to its position: that part of the log comes first.
  Status durable = wal->wait_durable(image.position);
  Status finished = pager->finish_checkpoint(running);
  const Status& status = durable.ok() ? finished : durable;
  if (!status.ok()) {
    fail_store(status);
    return status;
  }
  ++checkpoints;
  Status recycled = wal->recycle(pager->oldest_needed_position());
  if (!recycled.ok()) {
    fail_store(recycled);
    return recycled;
  }
  pager->trim_memory();
  return {};
}

void Store::Impl::note_progress() {
  const std::uint64_t since = wal->appended_bytes() - log_bytes_at_checkpoint.load();
  const bool much_log = since >= options.checkpoint_log_bytes;
  // Adding up the space in use takes a while for a large file: only where it can matter.
  const std::uint64_t retired = pager->retired_since_checkpoint_bytes();
  const bool much_retired =
      retired >= kRetiredBytesMin && retired >= pager->space_use().file_bytes / 16;
  if (much_log || much_retired) want_checkpoint();
}

void Store::Impl::want_checkpoint() {
  const std::lock_guard hold(worker_mutex);
  checkpoint_wanted = true;
  worker_wake.notify_all();
}

bool Store::Impl::checkpoint_due(std::int64_t last_ms) const {
  if (checkpoint_wanted) return true;
  const std::int64_t now_ms = host.clock().monotonic_us() / 1000;
  return changed_since_checkpoint && now_ms - last_ms >= options.checkpoint_interval_ms;
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
    checkpoint_wanted = false;
    hold.unlock();
    if (due && !failed) {
      const Status status = checkpoint();
      if (!status.ok())
        host.log().event(LogLevel::kError, "store", "A checkpoint failed",
                         {{"error", std::string_view(status.message())}});
      last_ms = host.clock().monotonic_us() / 1000;
    }
    more_to_reclaim = false;
    if (!failed) {
      const auto more = reclaim(kReclaimSlice);
      more_to_reclaim = more && *more;
    }
    hold.lock();
  }
}

// Frees a slice of the oldest dropped collection. Nobody else can see it: only the gate is needed.
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
    mark_dirty(collection, false);
    CollectionMutator mutator(*pager, *collection, *stash);
    Status status;
    if (collection->state.record_count <= records) {
      records -= std::min<std::size_t>(records, collection->state.record_count + 1);
      status = mutator.truncate();
      const std::lock_guard hold(dirty_mutex);
      graveyard.erase(graveyard.begin());
      reclaimed.push_back(collection->id);
    } else {
      for (auto& open : collection->indexes)
        if (status.ok()) status = open->index->clear();
      collection->indexes.clear();
      collection->description_dirty = true;
      status = status.ok() ? free_some(*collection, records, *stash) : status;
      records = 0;
    }
    collection->lock.unlock();
    if (!status.ok()) {
      fail_store(status);
      return fail(status);
    }
  }
  const std::lock_guard hold(dirty_mutex);
  return !graveyard.empty();
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
    MULTIFORA_TRY(stash.ensure(PagedArray::kSetPages + RecordSpace::kRetirePages));
    MULTIFORA_TRY(array.set(state.records, id, 0, stash));
    pager->records().retire(location, size, stash);
    --state.record_count;
    state.data_bytes -= size;
  }
  return {};
}

}  // namespace multifora
