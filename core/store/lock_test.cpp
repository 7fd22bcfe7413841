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

TEST_CASE("waiting writers do not starve a reader, and one that reads elsewhere waits for none") {
  for (const bool reads_elsewhere : {false, true}) {
    CollectionLock lock;
    CollectionLock elsewhere;
    int written = 0;
    int written_before_read = -1;
    lock.lock();
    std::thread reader([&] {
      if (reads_elsewhere) elsewhere.lock_shared();
      lock.lock_shared();
      written_before_read = written;
      lock.unlock_shared();
      if (reads_elsewhere) elsewhere.unlock_shared();
    });
    while (lock.waiting_readers() == 0) std::this_thread::yield();
    std::vector<std::thread> writers;
    for (int t = 0; t < 10; ++t)
      writers.emplace_back([&] {
        lock.lock();
        ++written;
        lock.unlock();
      });
    while (lock.waiting_writers() < 10) std::this_thread::yield();
    lock.unlock();
    for (std::thread& writer : writers) writer.join();
    reader.join();
    // Of those in a row the first held the lock already.
    CHECK(written_before_read ==
          (reads_elsewhere ? 0 : static_cast<int>(CollectionLock::kWritersInARow) - 1));
  }
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
