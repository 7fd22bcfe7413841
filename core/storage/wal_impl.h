// Inside of Wal. The mutex guards everything but the writer, which belongs to whoever has set
// writer_active. Lock order: files_mutex, then mutex. No file is touched with the mutex held.
//
// A batch: open (in memory) -> pending (sealed: seal_open) -> written (note_written) -> durable
// (finish_round). A segment: spare (make_segment, or recycled by dispose) -> active (next_segment)
// -> old -> gone or spare again (recycle).
//
// Space: ready_bytes is what the rest of the active segment and the spares can take for certain;
// it never falls below pending_charge + reserved.
#pragma once

#include <condition_variable>
#include <deque>
#include <limits>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/storage/wal.h"
#include "core/storage/wal_replay.h"
#include "core/storage/wal_segments.h"
#include "core/storage/wal_writer.h"

namespace multifora {

struct Wal::Impl {
  using Lock = std::unique_lock<std::mutex>;
  using BlockPtr = std::shared_ptr<wal::SealedBlock>;
  struct Waiter {
    LogPosition position;
    Callback callback;
  };

  Impl(FileSystem& files, const WalOptions& options, const Clock& clock, LogSink& log,
       Metrics& metrics);
  ~Impl();

  // --- wal.cpp ----------------------------------------------------------------------------------
  Status open(LogPosition from, const std::function<Status(LogPosition, Bytes)>& apply,
              WalReplay* replay);
  Status adopt(wal::ScanResult& scanned, LogPosition from);
  Status keep_usable_spares(wal::ScanResult& scanned);
  void start_threads();
  Result<LogPosition> append(Bytes batch, std::uint64_t* reserved_bytes, bool refers,
                             std::uint32_t width);
  LogPosition put_batch(Bytes batch, wal::SealedBlock* own_block, std::int64_t wall_ms,
                        bool refers, std::uint32_t width);
  void seal_open();

  // --- wal_commit.cpp ---------------------------------------------------------------------------
  void when_durable(LogPosition position, Callback callback, bool allow_lead);
  void lead_ends();
  void run_round(Lock& lock);
  void write_round(Lock& lock);
  void run_write_only(Lock& lock);
  void write_durable_note(Lock& lock);
  bool wait_for_cohort(Lock& lock);
  Status sync_referenced(std::span<const BlockPtr> blocks) const;
  Status write_pending(Lock& lock, bool compress);
  void note_written(std::size_t blocks);
  std::vector<Waiter> finish_round(const Status& status, LogPosition target);
  std::vector<Waiter> fail_log(const Status& status);
  void log_thread_loop();
  bool log_thread_turn(Lock& lock);
  void log_thread_wait(Lock& lock);
  bool dirty() const { return failure.ok() && last_batch > durable; }
  bool sync_due() const;

  // --- wal_space.cpp ----------------------------------------------------------------------------
  Result<std::uint64_t> reserve(std::uint64_t need);
  void give_back(std::uint64_t bytes);
  bool fits(std::uint64_t need) const { return pending_charge + reserved + need <= ready_bytes; }
  static std::uint64_t usable_bytes(const wal::Segment& segment, std::uint64_t stream);
  void count_ready();
  bool segment_wanted() const;
  std::uint64_t next_segment_size() const;
  std::uint64_t live_bytes() const { return written_end + pending_charge - oldest_needed; }
  std::uint64_t spare_bytes() const;
  void add_spare(wal::SegmentPtr segment);
  wal::SegmentPtr next_segment();
  bool in_hurry() const;
  void make_segment(Lock& lock);
  void maker_loop();
  Status recycle(LogPosition position, bool load);
  std::vector<wal::SegmentPtr> take_old_segments(LogPosition position);
  Status dispose(const wal::Segment& segment, std::uint64_t keep_bytes);
  Status remove_surplus(std::uint64_t keep_bytes);
  Status close_clean();
  Status empty_log(std::vector<wal::SegmentPtr> all, std::size_t active_index);
  Status write_closing_note(const wal::Segment& segment) const;

  // --- wal_read.cpp -----------------------------------------------------------------------------
  Status read(LogPosition from, bool include_unsynced,
              const std::function<bool(LogPosition, Bytes)>& visit);

  FileSystem& files;
  const WalOptions options;
  const Clock& clock;
  LogSink& log;
  Metrics& metrics;

  std::mutex files_mutex;  // making, recycling and removing segments
  wal::SegmentFiles segment_files;

  mutable std::mutex mutex;
  Status failure;  // not OK: the log takes nothing more
  bool stopping = false;

  // Positions.
  LogPosition clock_position = 0;  // >= last_batch
  LogPosition last_batch = 0;
  LogPosition last_written = 0;
  LogPosition durable = 0;  // <= last_batch
  LogPosition base = 0;     // the log holds every batch after this one
  std::uint64_t appended = 0;

  // Batches on their way.
  wal::SealedBlock open_block;
  std::deque<BlockPtr> pending;      // oldest first; stays here until written
  std::uint64_t pending_charge = 0;  // pending and open_block
  std::uint64_t reserved = 0;
  std::vector<Buffer> free_buffers;
  std::int64_t dirty_since_us = 0;

  // Segments: old ones, the active one, spares.
  std::vector<wal::SegmentPtr> segments;
  std::size_t active = 0;
  std::uint32_t log_id = 0;
  std::uint64_t log_begin = 0;      // stream offset of the first block that is kept
  std::uint64_t written_end = 0;    // stream offset
  std::uint64_t oldest_needed = 0;  // stream offset
  std::uint64_t ready_bytes = 0;
  std::uint64_t shortage = 0;     // what reserve() calls are waiting for
  bool shortage_refused = false;  // the last attempt failed; waits for the next reserve()
  bool ahead_refused = false;     // the same for spares made ahead of need
  std::uint64_t make_failures = 0;
  Status make_failure;
  std::uint64_t appended_at_recycle = 0;

  // Group commit.
  std::unique_ptr<wal::BlockWriter> writer;
  bool writer_active = false;
  int leaders = 0;  // client threads inside a round or its callbacks
  std::vector<Waiter> waiters;
  std::size_t cohort_expected = 0;  // how many waited or came in during the last round
  std::int64_t last_round_end_us = 0;
  std::int64_t last_sync_us = 0;  // how long the last round's writes and sync took
  static constexpr std::size_t kNoCohort = std::numeric_limits<std::size_t>::max();
  std::size_t cohort_target = kNoCohort;  // a leader waits for so many
  std::uint64_t cohorts_taken = 0;        // times that another thread went on in a leader's place
  int releasing = 0;                      // threads that run the callbacks of a round
  std::condition_variable cohort_cv;

  std::condition_variable log_thread_cv;
  bool log_thread_asleep = false;     // no timer is set: append() must wake it
  bool log_thread_blocked = false;    // waits for the writer to be free
  std::uint64_t log_thread_seen = 0;  // `appended` when its timer was set
  std::condition_variable maker_cv;
  std::condition_variable space_cv;    // space was made, or could not be
  std::condition_variable changed_cv;  // a round ended, a leader left, a reader left

  Counter& syncs;
  Counter& batches;
  Counter& waiters_covered;
  Counter& cohort_waits;
  Counter& cohort_timeouts;
  Counter& referenced_syncs;
  Counter& segments_made;

  std::thread log_thread;
  std::thread maker_thread;
};

}  // namespace multifora
