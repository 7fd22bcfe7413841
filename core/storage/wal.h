// The write-ahead log: atomic batches of logical records, in one total order, group-committed.
// Format with byte offsets: docs/format-log.md.
//
// Order of life: open() replays what is on disk, then append() takes new batches. append() gives a
// batch its position (= cluster time) and puts it into the open block; nothing waits. A batch is
// durable once a sync that started after its block was written has returned. Coverage is by
// position, never by file offset.
//
// Syncing: when_durable() makes the caller the log writer if no sync is in flight ("leader"): it
// seals the open block, writes and syncs, and runs the callbacks of everybody it covered. Otherwise
// the callback is queued and the current leader's next round covers it. A leader leads for its own
// position and hands the rest on to the log's own thread, so that no client waits for others' work.
// Before sealing, a leader waits for as many waiters as the last round had: while the last round's
// callbacks run (its clients cannot be back before), and up to cohort_wait_us after them and after
// each one that comes in, in all no longer than a sync takes. Who completes the cohort goes on in the leader's place, so that nobody has to be woken for the sync.
//
// What nobody waits for is written as blocks fill up and synced after unwaited_sync_ms, both by the
// log's thread.
//
// A failed write or sync is final: the log is read-only, callbacks get the failure, append() fails.
// Threads: all calls from any thread after open(). Callbacks run on the leader's thread, without
// the log's mutex held; they must be short and must not call append() or when_durable().
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/base/bytes.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/metrics.h"
#include "core/base/status.h"
#include "core/storage/types.h"

namespace multifora {

struct Codec;

struct WalOptions {
  std::string directory;
  const Codec* codec = nullptr;  // null: blocks are stored raw. Otherwise tried off the commit path
  std::size_t block_bytes = 256 * 1024;
  std::uint64_t segment_bytes_min = 1024 * 1024;  // both: multiples of 4096
  // The active segment and the spares kept for the next checkpoint's worth of log each take so much.
  std::uint64_t segment_bytes_max = 32 * 1024 * 1024;
  std::uint32_t cohort_wait_us = 150;
  std::uint32_t unwaited_sync_ms = 100;
  // Finds the codec that an existing log names; null: refuse, naming it.
  std::function<const Codec*(std::string_view name)> find_codec;
  // Makes durable what batches refer to outside of the log (see append). Called by whoever writes the
  // log, before the first block with such a batch is written. A failure is the log's failure.
  std::function<Status()> sync_referenced;
  // Hears of every append, in order, with the log's mutex held: very short, and no call of the log.
  // `before`: position of the batch before.
  std::function<void(LogPosition before, LogPosition position, Bytes batch)> appended;
  // Everything up to `position` is durable: after a sync, before its callbacks, on their thread.
  std::function<void(LogPosition position)> synced;
  // Called by open() for every batch that will be applied, in order, before the first is.
  std::function<Status(LogPosition position, Bytes batch)> survey;
};

struct WalReplay {
  std::uint64_t batches = 0;
  std::uint64_t bytes = 0;
  std::uint64_t truncated_bytes = 0;  // torn tail that was cut off
};

class Wal {
 public:
  using Callback = std::function<void(const Status&)>;

  // Opens (or creates) the log and calls `apply` for every whole batch with position > `from`, in
  // order. A torn tail past the newest durable position on record is cut off; damage before it is
  // DataCorruptionDetected with segment and offset, and nothing is changed.
  static Result<std::unique_ptr<Wal>> open(
      FileSystem& files, const WalOptions& options, const Clock& clock, LogSink& log,
      MetricsRegistry& metrics, LogPosition from,
      const std::function<Status(LogPosition position, Bytes batch)>& apply, WalReplay* replay);
  ~Wal();  // waits for the sync in flight; appended batches that nobody waited for are synced too

  // Promises that the next append of up to `size_bytes` cannot fail for want of space.
  // One promise a thread of control: pass it to append(). Waits while a segment is being made, and
  // while more is appended than written (the only brake on writers that wait for nothing).
  // OutOfDiskSpace leaves the log healthy; try again once there is space.
  class Reservation;
  Result<Reservation> reserve(std::size_t size_bytes);

  // Appends one batch; returns its position. Fails only where the log is read-only already, or
  // where there was no reservation and no space. `reservation` may be null. `refers`: the batch needs
  // bytes outside of the log, which sync_referenced makes durable first. `width`: so many positions are
  // the batch's own; the one returned, which the batch has, is the last of them.
  Result<LogPosition> append(Bytes batch, Reservation* reservation, bool refers = false,
                             std::uint32_t width = 1);

  // Calls `callback` once everything up to `position` is durable (or the log has failed): at once
  // on this thread if it is, or later on another. May lead a sync on this thread, see above.
  // allow_lead = false: never syncs here, the log thread does.
  void when_durable(LogPosition position, Callback callback, bool allow_lead = true);
  // Blocks. For tests, shutdown and embedded use.
  Status wait_durable(LogPosition position);

  LogPosition last_appended() const;  // cluster time now
  LogPosition last_durable() const;
  // Moves the clock of positions forward (e.g. to what recovery found in the data file).
  void advance_to(LogPosition position);

  // Segments that hold only positions <= `position` may be recycled (a checkpoint is durable). As much
  // is kept for what comes as the log grew by since the last call, within bounds: some of the largest
  // segments under a `load` that goes on, which would have to write new ones with zeros otherwise, and
  // at most one of the largest after it.
  Status recycle(LogPosition position, bool load = false);
  // Bytes between the oldest needed position and the end.
  std::uint64_t live_bytes() const;
  std::uint64_t allocated_bytes() const;
  // Bytes appended since open: a trigger for checkpoints.
  std::uint64_t appended_bytes() const;

  // Ends the log's life where the data file alone holds everything (a checkpoint of the last
  // position is durable): afterwards the log holds no batch, at most one segment of
  // segment_bytes_min is kept, append() fails with ShutdownInProgress, and a later open() with an
  // older `from` than that is refused. Requires that no other call is running.
  Status close_clean();

  // Batches after `from`, oldest first, while they are still in the log: for change streams and
  // followers. CappedPositionLost where `from` is older than the log. Stops where visit says false.
  // Includes batches not yet durable only if include_unsynced.
  Status read(LogPosition from, bool include_unsynced,
              const std::function<bool(LogPosition, Bytes)>& visit) const;

  Status health() const;

 private:
  Wal();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// See Wal::reserve. Move-only; what is not used is given back.
class Wal::Reservation {
 public:
  Reservation() = default;
  Reservation(Reservation&& other) noexcept;
  Reservation& operator=(Reservation&& other) noexcept;
  ~Reservation();

 private:
  friend class Wal;
  Wal* wal_ = nullptr;
  std::uint64_t bytes_ = 0;
};

}  // namespace multifora
