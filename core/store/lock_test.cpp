#include "core/store/lock.h"

#include <doctest/doctest.h>

#include <chrono>
#include <thread>
#include <vector>

namespace multifora {
namespace {

using namespace std::chrono_literals;

TEST_CASE("a waiting writer goes before new readers, but not before a thread that holds a lock") {
  CollectionLock lock;
  lock.lock_shared();
  std::atomic<bool> written{false};
  std::thread writer([&] {
    lock.lock();
    written = true;
    lock.unlock();
  });
  while (!lock.contended()) std::this_thread::yield();

  std::atomic<bool> read{false};
  std::thread reader([&] {
    lock.lock_shared();
    read = true;
    CHECK(written);
    lock.unlock_shared();
  });
  std::this_thread::sleep_for(20ms);
  CHECK(!read);
  CHECK(!written);
  // This thread already reads: it must not wait for the writer that waits for it.
  lock.lock_shared();
  lock.unlock_shared();
  lock.unlock_shared();
  writer.join();
  reader.join();
  CHECK(read);
}

TEST_CASE("a stream of writers does not starve a reader") {
  CollectionLock lock;
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> writes{0};
  std::vector<std::thread> writers;
  for (int t = 0; t < 3; ++t)
    writers.emplace_back([&] {
      while (!stop) {
        lock.lock();
        // Held until another waits: the lock never becomes free between two writers.
        while (!stop && !lock.contended()) std::this_thread::yield();
        ++writes;
        lock.unlock();
      }
    });
  while (writes < 10) std::this_thread::yield();
  for (int i = 0; i < 20; ++i) {
    const std::uint64_t before = writes;
    lock.lock_shared();
    // One that held the lock, those in a row, and one that unlocked before this thread was counted.
    CHECK(writes - before <= CollectionLock::kWritersInARow + 2);
    lock.unlock_shared();
  }
  stop = true;
  for (std::thread& writer : writers) writer.join();
}

TEST_CASE("writers exclude each other and readers") {
  CollectionLock lock;
  int value = 0;
  std::atomic<int> torn{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        if (t % 2 == 0) {
          lock.lock();
          ++value;
          if (value % 2 != 1) ++torn;
          ++value;
          lock.unlock();
        } else {
          lock.lock_shared();
          if (value % 2 != 0) ++torn;
          lock.unlock_shared();
        }
      }
    });
  for (auto& thread : threads) thread.join();
  CHECK(value == 8000);
  CHECK(torn == 0);
}

TEST_CASE("a closed gate lets nobody in and waits for those inside") {
  CommitGate gate;
  gate.enter();
  std::atomic<bool> closed{false};
  std::thread closer([&] {
    gate.close();
    closed = true;
  });
  std::this_thread::sleep_for(10ms);
  CHECK(!closed);
  gate.leave();
  closer.join();
  CHECK(closed);
  std::atomic<bool> entered{false};
  std::thread late([&] {
    gate.enter();
    entered = true;
    gate.leave();
  });
  std::this_thread::sleep_for(10ms);
  CHECK(!entered);
  gate.open();
  late.join();
  CHECK(entered);
}

}  // namespace
}  // namespace multifora
