// Group commit: who writes and syncs when, and whose callbacks run then.
//
// One writer at a time (writer_active). A round seals the open block, writes everything pending,
// syncs, and covers every waiter up to the last batch sealed. A client that finds no writer leads
// one round; whoever came in meanwhile is left to the log's thread, or to the next client. A leader
// that waits for its cohort is relieved by the client that completes it (cohorts_taken).
#include <algorithm>
#include <chrono>

#include "core/base/assert.h"
#include "core/storage/wal_impl.h"

namespace multifora {

namespace {

// Buffers above this go back to the system after use; of the others a few are kept, since fresh
// memory is dear.
constexpr std::size_t kKeptBufferMax = 1024 * 1024;
constexpr std::size_t kKeptBuffers = 4;
// A cohort seen longer ago than this many times the wait says nothing about who is active now.
constexpr std::int64_t kCohortMemory = 20;
// A leader waits no longer than this for its cohort, and for the last round's callbacks before.
constexpr std::int64_t kCohortTotalMaxUs = 2000;
constexpr auto kReleaseWaitMax = std::chrono::milliseconds(2);

}  // namespace

void Wal::Impl::when_durable(LogPosition position, Callback callback, bool allow_lead) {
  Lock lock(mutex);
  // A position of the future, or one that advance_to() skipped, asks for what there is.
  position = std::min(position, last_batch);
  if (position <= durable || !failure.ok()) {
    const Status status = position <= durable ? Status() : failure;
    lock.unlock();
    callback(status);
    return;
  }
  waiters.push_back({position, std::move(callback)});
  if (waiters.size() >= cohort_target) {
    cohort_cv.notify_all();
    if (!allow_lead) return;
    cohort_target = kNoCohort;
    ++cohorts_taken;
    ++leaders;
    write_round(lock);
    return lead_ends();
  }
  if (writer_active) return;
  if (!allow_lead) {
    log_thread_cv.notify_one();
    return;
  }
  writer_active = true;
  ++leaders;
  run_round(lock);
  lead_ends();
}

void Wal::Impl::lead_ends() {
  --leaders;
  if (stopping) changed_cv.notify_all();
}

// Requires writer_active set by this thread; returns with the lock held again and it cleared, or
// handed on to another thread.
void Wal::Impl::run_round(Lock& lock) {
  if (wait_for_cohort(lock)) write_round(lock);
}

void Wal::Impl::write_round(Lock& lock) {
  seal_open();
  const LogPosition target = last_batch;
  // Compression stays off the commit path: somebody waits for this.
  const std::int64_t start_us = clock.monotonic_us();
  const Status status = write_pending(lock, waiters.empty());
  last_sync_us = clock.monotonic_us() - start_us;
  const std::vector<Waiter> covered = finish_round(status, target);
  ++releasing;
  lock.unlock();
  if (options.synced && status.ok()) options.synced(target);
  for (const Waiter& waiter : covered) waiter.callback(status);
  lock.lock();
  if (--releasing == 0) cohort_cv.notify_all();
}

// How many clients take part in commits at the moment is what the last round saw. One that is alone
// finds itself complete and never waits. False: another thread has completed the cohort and is the
// writer now.
bool Wal::Impl::wait_for_cohort(Lock& lock) {
  if (options.cohort_wait_us == 0 || waiters.size() >= cohort_expected || stopping) return true;
  const std::int64_t age_us = clock.monotonic_us() - last_round_end_us;
  if (releasing == 0 && age_us > kCohortMemory * options.cohort_wait_us) return true;
  cohort_waits.add();
  const std::uint64_t taken_before = cohorts_taken;
  cohort_target = cohort_expected;
  const auto ended = [&] {
    return cohorts_taken != taken_before || waiters.size() >= cohort_target || stopping;
  };
  if (releasing > 0)
    cohort_cv.wait_for(lock, kReleaseWaitMax, [&] { return releasing == 0 || ended(); });
  // While others come in it goes on, but no longer than a sync takes: the next one covers the rest.
  const std::chrono::microseconds wait(options.cohort_wait_us);
  const std::int64_t until_us = clock.monotonic_us() + std::min(last_sync_us, kCohortTotalMaxUs);
  bool complete = false;
  for (std::size_t seen = 0; !complete && seen < waiters.size();) {
    seen = waiters.size();
    complete = cohort_cv.wait_for(lock, wait, ended);
    if (clock.monotonic_us() >= until_us) break;
  }
  if (cohorts_taken != taken_before) return false;
  cohort_target = kNoCohort;
  if (!complete) cohort_timeouts.add();
  return true;
}

Status Wal::Impl::sync_referenced(std::span<const BlockPtr> blocks) const {
  if (std::ranges::none_of(blocks, [](const BlockPtr& block) { return block->refers; })) return {};
  MULTIFORA_ASSERT(options.sync_referenced);
  referenced_syncs.add();
  return options.sync_referenced();
}

// Writes and syncs what is pending. Releases the lock meanwhile.
Status Wal::Impl::write_pending(Lock& lock, bool compress) {
  const std::vector<BlockPtr> blocks(pending.begin(), pending.end());
  const LogPosition known_durable = durable;
  lock.unlock();
  Status status = sync_referenced(blocks);
  for (const BlockPtr& block : blocks) {
    if (!status.ok()) break;
    status = writer->write(*block, known_durable, compress);
  }
  if (status.ok()) status = writer->sync();
  lock.lock();
  if (status.ok()) note_written(blocks.size());
  return status;
}

// The first `blocks` pending blocks are in the files now.
void Wal::Impl::note_written(std::size_t blocks) {
  for (; blocks > 0; --blocks) {
    wal::SealedBlock& block = *pending.front();
    pending_charge -= block.charge;
    // Nobody else may be looking at a buffer that is used again.
    if (pending.front().use_count() == 1 + 1 && block.buffer.capacity() <= kKeptBufferMax &&
        free_buffers.size() < kKeptBuffers)
      free_buffers.push_back(std::move(block.buffer));
    pending.pop_front();
  }
  for (const wal::BlockWriter::Placed& placed : writer->take_placed()) {
    if (placed.starts) wal::add_mark(*placed.segment, placed.after, placed.stream);
    placed.segment->last = std::max(placed.segment->last, placed.newest);
  }
  const wal::WriteState& state = writer->state();
  // Only a note of what is durable: nothing that has to be kept.
  if (last_written == state.last && oldest_needed == written_end) oldest_needed = state.stream;
  last_written = state.last;
  written_end = state.stream;
  count_ready();
  space_cv.notify_all();
  if (segment_wanted()) maker_cv.notify_one();
}

// Ends the round and returns whom it covered.
std::vector<Wal::Impl::Waiter> Wal::Impl::finish_round(const Status& status, LogPosition target) {
  writer_active = false;
  std::vector<Waiter> covered;
  if (!status.ok()) {
    covered = fail_log(status);
  } else {
    durable = std::max(durable, target);
    cohort_expected = waiters.size();
    std::vector<Waiter> rest;
    for (Waiter& waiter : waiters)
      (waiter.position <= durable ? covered : rest).push_back(std::move(waiter));
    waiters = std::move(rest);
    dirty_since_us = last_round_end_us = clock.monotonic_us();
    syncs.add();
    waiters_covered.add(covered.size());
  }
  if (!waiters.empty() || !pending.empty() || log_thread_blocked || stopping)
    log_thread_cv.notify_one();
  changed_cv.notify_all();
  return covered;
}

// Final. Returns everybody who waits; they get the failure.
std::vector<Wal::Impl::Waiter> Wal::Impl::fail_log(const Status& status) {
  if (failure.ok()) {
    failure = Status(status.code(), "the log is read-only after a failure: " + status.message());
    log.event(LogLevel::kError, "storage", "The log failed; it takes no more writes.",
              {{"reason", status.message()}});
  }
  space_cv.notify_all();
  log_thread_cv.notify_one();
  return std::exchange(waiters, {});
}

// --- the log's own thread
// -------------------------------------------------------------------------

void Wal::Impl::log_thread_loop() {
  Lock lock(mutex);
  while (log_thread_turn(lock)) {
  }
}

bool Wal::Impl::sync_due() const {
  if (!failure.ok()) return false;
  if (!waiters.empty()) return true;
  if (!dirty()) return false;
  const std::int64_t age_us = clock.monotonic_us() - dirty_since_us;
  return stopping || age_us >= std::int64_t{1000} * options.unwaited_sync_ms;
}

// One piece of work, or one sleep. False: the log is being closed and nothing is left to do.
bool Wal::Impl::log_thread_turn(Lock& lock) {
  if (!writer_active) {
    if (sync_due()) {
      writer_active = true;
      run_round(lock);
      return true;
    }
    if (failure.ok() && !pending.empty()) {
      run_write_only(lock);
      return true;
    }
    if (stopping) return false;
  }
  log_thread_wait(lock);
  return true;
}

void Wal::Impl::log_thread_wait(Lock& lock) {
  if (writer_active) {
    log_thread_blocked = true;
    log_thread_cv.wait(lock);
    log_thread_blocked = false;
    return;
  }
  if (!dirty() && log_thread_seen == appended) {
    write_durable_note(lock);
    if (dirty() || !waiters.empty() || stopping) return;
    log_thread_asleep = true;
    log_thread_cv.wait(lock);
    log_thread_asleep = false;
    return;
  }
  log_thread_seen = appended;
  log_thread_cv.wait_for(lock, std::chrono::milliseconds(options.unwaited_sync_ms));
}

// Blocks that filled up before anybody waited for them: written early, which keeps memory bounded
// and the next sync short. Only here is there time to compress.
void Wal::Impl::run_write_only(Lock& lock) {
  writer_active = true;
  const bool compress = waiters.empty();
  const BlockPtr block = pending.front();
  const LogPosition known_durable = durable;
  lock.unlock();
  Status status = sync_referenced(std::span(&block, 1));
  if (status.ok()) status = writer->write(*block, known_durable, compress);
  lock.lock();
  writer_active = false;
  std::vector<Waiter> failed;
  if (status.ok())
    note_written(1);
  else
    failed = fail_log(status);
  changed_cv.notify_all();
  lock.unlock();
  for (const Waiter& waiter : failed) waiter.callback(status);
  lock.lock();
}

// When the log falls quiet, the newest durable position is put on record without a sync, so that
// later damage to the last blocks is told from a torn tail. Losing the note loses nothing.
void Wal::Impl::write_durable_note(Lock& lock) {
  if (!failure.ok() || writer_active || !pending.empty() || open_block.batches > 0) return;
  const auto note = std::make_shared<wal::SealedBlock>();
  note->charge = wal::kBlockHeaderSize;
  if (writer->state().durable >= durable || !fits(note->charge)) return;
  note->buffer.assign(wal::kBlockHeaderSize, '\0');
  note->last = writer->state().last;
  pending_charge += note->charge;
  pending.push_back(note);
  run_write_only(lock);
}

}  // namespace multifora
