// A collection's lock: shared for readers, exclusive for the writer, with waiting writers ahead of
// new readers, so that a stream of readers never starves a writer.
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
  void lock_shared();
  void unlock_shared();
  void lock();
  void unlock();
  // Does a writer wait? A reader with much left to do then yields. Any thread.
  bool contended() const { return writers_waiting_.load(std::memory_order_relaxed) != 0; }

 private:
  std::mutex mutex_;
  std::condition_variable readers_;
  std::condition_variable writers_;
  std::uint32_t active_readers_ = 0;
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
