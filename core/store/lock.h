// A collection's lock: shared for readers, exclusive for the writer. Waiting writers go before new
// readers, so that a stream of readers never starves a writer; and after at most kWritersInARow of
// them the lock is handed to all readers that wait, so that a stream of writers starves no reader.
//
// A thread that already holds any collection lock shared passes waiting writers: it must be able to
// finish (a $lookup into a second collection, or into the same one). A thread that asks for an
// exclusive lock holds none (asserted). That makes deadlock impossible: a holder of an exclusive lock
// waits for no other collection, and a holder of shared locks waits only for holders of exclusive ones.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace multifora {

class CollectionLock {
 public:
  // More than one, because each hand-over costs a wake-up that the next writer waits for.
  static constexpr std::uint32_t kWritersInARow = 4;

  void lock_shared();
  void unlock_shared();
  void lock();
  void unlock();
  // Who waits now. Any thread.
  std::uint32_t waiting_readers() const;
  std::uint32_t waiting_writers() const { return writers_waiting_.load(std::memory_order_relaxed); }
  // Does a writer wait? A reader with much left to do then yields. Any thread.
  bool contended() const { return waiting_writers() != 0; }

 private:
  mutable std::mutex mutex_;
  std::condition_variable readers_;
  std::condition_variable writers_;
  std::uint32_t active_readers_ = 0;
  std::uint32_t waiting_readers_ = 0;
  std::uint32_t waiting_passers_ = 0;   // of these, threads that read elsewhere already
  std::uint32_t writers_in_a_row_ = 0;  // while readers waited
  std::uint64_t hand_overs_ = 0;
  bool active_writer_ = false;
  std::atomic<std::uint32_t> writers_waiting_{0};
};

// The commit gate: writers are inside while their changes and the log disagree; a checkpoint closes
// it for the moment in which it captures the roots. Enter with the collection's lock already held,
// never the other way round.
class CommitGate {
 public:
  void enter();
  void leave();
  // Waits until nobody is inside; nobody enters until open().
  void close();
  void open();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint32_t inside_ = 0;
  bool closed_ = false;
};

}  // namespace multifora
