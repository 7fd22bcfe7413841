// Gives space back while the database runs: moves the live records of mostly dead chunks, vacates
// the end of the file, and has it cut off.
//
// Work comes in slices: one collection, its lock held for well under a millisecond, no index
// touched: a move changes the record map alone. It is not logged: recovery starts from an image that
// has the old place or the new one, and what was at the old place is kept for as long as any image
// or snapshot may look there (invariant 2 of core/storage/pager.h).
//
// What there is to do follows from the space tables, looked at every tick; no counter of changes
// that somebody resets decides about it. How much is done in a tick follows from how much dead space
// there is and from whether others are writing.
//
//   free space lies about in a collection's chunks       -> the sparsest are emptied
//   whole chunks have been free for kPatience            -> the end of the file is vacated
//   the end of the file has been free for kPatience      -> the next checkpoint leaves it out
//
// Threads: one of its own, and the callers of compact(); they take turns.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "core/base/status.h"
#include "core/storage/record_space.h"
#include "core/store/store.h"

namespace multifora {

class SpaceKeeper {
 public:
  explicit SpaceKeeper(Store::Impl& store) : store_(store) {}
  ~SpaceKeeper() { stop(); }
  void start();
  void stop();

  // What compact() could make the file shorter by, about.
  std::uint64_t reclaimable_bytes() const;
  // Makes the file as short as it can be, best after a checkpoint. Writers go on. Interrupted, OutOfDiskSpace ...: what
  // was done until then stays done.
  Status compact(Interrupt& interrupt);

 private:
  struct Found {
    RecordLocation location;
    CollectionId collection;
    std::size_t size_bytes;
  };
  enum class Outcome { kDone, kNoRoom, kStuck };

  void run();
  void tick();
  void note_load();
  bool empty_sparse_chunks();
  bool vacate_some();
  void consider_shrinking();
  std::uint64_t rate_for(double dead_fraction) const;

  // Moves what lives in the chunk, as fast as `budget_` and `interrupt_` let it.
  Result<Outcome> empty_chunk(std::uint64_t chunk);
  Result<Outcome> move_slice(const std::vector<Found>& found, std::size_t from, std::size_t to);
  // True: nothing is left there that can be moved.
  Result<bool> vacate_records(PageId from);
  Result<bool> vacate_pages(PageId from);
  Result<Outcome> vacate(std::uint64_t from_bytes);
  Status pack_records();
  std::uint64_t needed_bytes() const;
  Status pace(std::uint64_t bytes);

  Store::Impl& store_;
  std::mutex work_mutex_;  // one at a time moves things; guards what follows
  Interrupt* interrupt_ = nullptr;      // of compact()
  std::uint64_t rate_ = 0;              // bytes a second; 0: no limit
  std::uint64_t moved_bytes_ = 0;       // in this tick
  std::size_t moved_records_ = 0;       // ever
  bool busy_ = false;                   // others write
  std::set<std::uint64_t> stuck_;       // chunks with something that cannot be moved
  bool vacating_ = false;
  bool unsaved_moves_ = false;          // a checkpoint will bring their space back
  std::uint64_t log_bytes_seen_ = 0;
  std::int64_t log_seen_us_ = 0;
  std::int64_t stuck_since_us_ = 0;
  // The least that was free in each of the last periods.
  struct Low {
    std::int64_t since_us = 0;
    std::uint64_t bytes = 0, before = 0;
    std::uint64_t note(std::uint64_t now_bytes, std::int64_t now_us, std::int64_t period_us);
  };
  Low free_chunks_, tail_;
  std::uint64_t ticks_ = 0;

  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace multifora
