// Many clients at once: each acknowledged exactly once, only when durable, and few syncs for all.
#include <doctest/doctest.h>

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "core/storage/wal_test_support.h"
#include "tests/support/forwarding_files.h"

using namespace multifora;
using namespace multifora::wal_test;

namespace {

// Syncs that take time, as a disk's do.
class SlowFile final : public test::ForwardingFile {
 public:
  using ForwardingFile::ForwardingFile;
  Status sync() override {
    std::this_thread::sleep_for(std::chrono::microseconds(300));
    return ForwardingFile::sync();
  }
  Status sync_range(std::uint64_t, std::uint64_t) override { return sync(); }
};

// Calls `before_sync` once, before a file's sync.
class HookedFileSystem final : public test::ForwardingFileSystem {
 public:
  using ForwardingFileSystem::ForwardingFileSystem;
  Result<std::unique_ptr<File>> open(const std::string& path, OpenMode mode) override {
    MULTIFORA_ASSIGN_R(auto file, ForwardingFileSystem::open(path, mode));
    return std::make_unique<HookedFile>(std::move(file), *this);
  }
  std::function<void()> before_sync;

 private:
  class HookedFile final : public test::ForwardingFile {
   public:
    HookedFile(std::unique_ptr<File> file, HookedFileSystem& files)
        : ForwardingFile(std::move(file)), files_(files) {}
    Status sync() override {
      if (const auto hook = std::exchange(files_.before_sync, nullptr)) hook();
      return ForwardingFile::sync();
    }

   private:
    HookedFileSystem& files_;
  };
};

class SlowFileSystem final : public test::ForwardingFileSystem {
 public:
  using ForwardingFileSystem::ForwardingFileSystem;
  Result<std::unique_ptr<File>> open(const std::string& path, OpenMode mode) override {
    MULTIFORA_ASSIGN_R(auto file, ForwardingFileSystem::open(path, mode));
    return std::make_unique<SlowFile>(std::move(file));
  }
};

// One client: appends, waits for the acknowledgement, again. The callback checks what it is told.
void run_client(Bench& bench, std::uint64_t seed, int batches, bool allow_lead,
                std::atomic<int>& acknowledged, std::atomic<int>& wrong) {
  std::mt19937_64 random(seed);
  std::mutex mutex;
  std::condition_variable cv;
  int calls = 0;
  for (int i = 0; i < batches; ++i) {
    const std::size_t size = random() % 20 == 0 ? random() % 20'000 : random() % 500;
    auto reservation = bench.wal->reserve(size);
    const auto position = bench.wal->append(random_bytes(random, size), &*reservation);
    if (!position) {
      ++wrong;
      return;
    }
    bench.wal->when_durable(
        *position,
        [&, at = *position](const Status& status) {
          if (!status.ok() || bench.wal->last_durable() < at) ++wrong;
          ++acknowledged;
          std::lock_guard lock(mutex);
          ++calls;
          cv.notify_one();
        },
        allow_lead);
    std::unique_lock lock(mutex);
    cv.wait(lock, [&] { return calls == i + 1; });
  }
  std::lock_guard lock(mutex);
  if (calls != batches) ++wrong;
}

void run_clients(Bench& bench, int clients, int batches, bool all_lead) {
  std::atomic<int> acknowledged = 0;
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < clients; ++i)
    threads.emplace_back([&, i] {
      run_client(bench, static_cast<std::uint64_t>(i), batches, all_lead || i % 2 == 0,
                 acknowledged, wrong);
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(acknowledged == clients * batches);
  CHECK(wrong == 0);
}

// The writer has gone on to the next segment and its blocks are in the files, but it has not said so yet.
TEST_CASE("wal: what is being written is not recycled") {
  Bench bench;
  HookedFileSystem files(bench.own_files);
  bench.files = &files;
  bench.open();
  std::mt19937_64 random(1);
  for (int i = 0; i < 3; ++i) bench.append_durably(random_bytes(random, 3000));
  const LogPosition covered = bench.wal->last_durable();
  // The next segment is there, so that the next sync is the writer's.
  for (std::vector<std::string> names; names.size() < 2 || names.back().ends_with(".tmp");
       names = bench.segments())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  Status recycled;
  files.before_sync = [&] { recycled = bench.wal->recycle(covered); };
  bench.append_durably(random_bytes(random, 14'000));
  REQUIRE(!files.before_sync);
  REQUIRE(recycled.ok());
  const Batch last = bench.appended.back();
  CHECK(bench.read(covered) == std::vector<Batch>{last});
  bench.open(covered);
  CHECK(bench.replayed == std::vector<Batch>{last});
}

}  // namespace

TEST_CASE("wal: eight clients, recycling and reading at the same time") {
  Bench bench;
  bench.options.unwaited_sync_ms = 1;
  bench.open();
  std::atomic<bool> stop = false;
  std::atomic<std::uint64_t> read = 0;
  std::thread reader([&] {
    LogPosition from = 0;
    while (!stop) {
      LogPosition last = from;
      const Status status = bench.wal->read(from, false, [&](LogPosition position, Bytes) {
        CHECK(position > last);
        last = position;
        ++read;
        return true;
      });
      CHECK((status.ok() || status.code() == ErrorCode::kCappedPositionLost));
      from = status.ok() ? last : bench.wal->last_durable();
      std::this_thread::yield();
    }
  });
  std::thread recycler([&] {
    while (!stop) {
      CHECK(bench.wal->recycle(bench.wal->last_durable()).ok());
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  });
  run_clients(bench, 8, 300, false);
  stop = true;
  reader.join();
  recycler.join();
  CHECK(bench.wal->live_bytes() <= bench.wal->allocated_bytes());
  CHECK(bench.metrics.value("wal_waiters_total") + 0 <= 8 * 300);
}

TEST_CASE("wal: whatever order the clients come in, the log keeps one") {
  Bench bench;
  bench.open();
  run_clients(bench, 8, 200, true);
  const std::vector<Batch> before = bench.read(0);
  CHECK(before.size() == 8 * 200);
  CHECK(std::ranges::is_sorted(before, {}, &Batch::position));
  bench.open();
  CHECK(bench.replayed == before);
}

TEST_CASE("wal: clients share syncs, and one alone never waits for others") {
  Bench bench;
  SlowFileSystem slow(bench.own_files);
  bench.files = &slow;
  bench.options.cohort_wait_us = 20'000;  // long, so that a busy machine does not matter
  bench.open();
  run_clients(bench, 1, 50, true);
  CHECK(bench.metrics.value("wal_syncs_total") == 50);
  CHECK(bench.metrics.value("wal_cohort_waits_total") == 0);
  run_clients(bench, 8, 50, true);
  const double syncs = bench.metrics.value("wal_syncs_total") - 50;
  const double covered = bench.metrics.value("wal_waiters_total") - 50;
  MESSAGE(covered << " waits in " << syncs << " syncs");
  CHECK(covered / syncs > 6);
}

// As a server's do: sending many replies takes longer than the wait for the cohort, and clients cannot
// be back before theirs was sent.
// Batches that a sync covers where eight clients wait for theirs.
double covered_by_a_sync() {
  Bench bench;
  SlowFileSystem slow(bench.own_files);
  bench.files = &slow;
  bench.options.cohort_wait_us = 500;
  bench.open();
  constexpr int kClients = 8, kBatches = 30;
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kClients; ++i)
    threads.emplace_back([&] {
      std::mutex mutex;
      std::condition_variable cv;
      int calls = 0;
      for (int n = 0; n < kBatches; ++n) {
        const auto position = bench.wal->append("x", nullptr);
        bench.wal->when_durable(*position, [&](const Status& status) {
          if (!status.ok()) ++wrong;
          std::this_thread::sleep_for(std::chrono::microseconds(150));
          std::lock_guard lock(mutex);
          ++calls;
          cv.notify_one();
        });
        std::unique_lock lock(mutex);
        cv.wait(lock, [&] { return calls == n + 1; });
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  const double covered = bench.metrics.value("wal_waiters_total");
  const double syncs = bench.metrics.value("wal_syncs_total");
  MESSAGE(covered << " waits in " << syncs << " syncs");
  CHECK(covered == kClients * kBatches);
  return covered / syncs;
}

// A busy machine keeps clients away for longer than a sync waits; one undisturbed run is enough. Without
// the wait every run has about half of the clients.
TEST_CASE("wal: a sync waits for clients whose replies are still going out") {
  double best = 0;
  for (int run = 0; run < 8 && best <= 5; ++run) best = std::max(best, covered_by_a_sync());
  CHECK(best > 5);
}

TEST_CASE("wal: what batches refer to is durable before the batches are written") {
  Bench bench;
  int syncs = 0;
  Status answer;
  std::uint64_t writes_before = 0;
  bench.options.sync_referenced = [&] {
    ++syncs;
    writes_before = bench.own_files.count(FaultFileSystem::Operation::kWrite);
    return answer;
  };
  bench.open();
  const auto plain = bench.wal->append("plain", nullptr);
  REQUIRE(bench.wal->wait_durable(*plain).ok());
  CHECK(syncs == 0);
  const auto referring = bench.wal->append("refers", nullptr, true);
  REQUIRE(bench.wal->wait_durable(*referring).ok());
  CHECK(syncs == 1);
  CHECK(bench.own_files.count(FaultFileSystem::Operation::kWrite) > writes_before);
  // Also where a large block is written before anybody waits.
  for (int i = 0; i < 10; ++i) REQUIRE(bench.wal->append(std::string(4000, 'x'), nullptr, true));
  REQUIRE(bench.wal->wait_durable(bench.wal->last_appended()).ok());
  CHECK(syncs > 1);
  answer = Status(ErrorCode::kFileStreamFailed, "planned");
  const std::uint64_t writes = bench.own_files.count(FaultFileSystem::Operation::kWrite);
  const auto lost = bench.wal->append("lost", nullptr, true);
  CHECK_FALSE(bench.wal->wait_durable(*lost).ok());
  CHECK(bench.own_files.count(FaultFileSystem::Operation::kWrite) == writes);
  CHECK_FALSE(bench.wal->health().ok());
  answer = {};
  bench.open();
  CHECK(bench.replayed.size() == 12);
}

TEST_CASE("wal: callbacks of many threads when the log fails") {
  Bench bench;
  bench.open();
  bench.own_files.fail(FaultFileSystem::Operation::kSync, 40,
                       FaultFileSystem::Failure::kInputOutput, {}, true);
  std::atomic<int> calls = 0;
  std::atomic<int> asked = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      for (int n = 0; n < 200; ++n) {
        const auto position = bench.wal->append("x", nullptr);
        if (!position) return;
        ++asked;
        bench.wal->when_durable(
            *position, [&](const Status&) { ++calls; }, n % 2 == 0);
      }
    });
  for (std::thread& thread : threads) thread.join();
  bench.wal.reset();
  CHECK(calls == asked);
}
