#include "core/store/writer_queue.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "core/base/interrupt.h"

namespace multifora {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr double kAllowed = 16 << 20;

struct Line {
  std::atomic<double> pressure{1};
  WriterQueue queue{[this](std::uint64_t bytes) { return pressure + static_cast<double>(bytes) / kAllowed; }, [] {}};

  // This thread's next write will be taken for one like this.
  void owe(std::uint64_t taken_bytes, std::uint64_t retired_bytes) {
    auto turn = queue.pass(nullptr);
    REQUIRE(turn);
    turn->wrote(taken_bytes, retired_bytes);
  }
  // Threads that wait for a long time in all: each owes a lot.
  void crowd(int count) {
    for (int t = 0; t < count; ++t) {
      threads.emplace_back([this] {
        owe(64u << 20, 0);
        CHECK(queue.pass(nullptr));
      });
    }
    while (queue.report().waiting + 5 < static_cast<std::uint64_t>(count))
      std::this_thread::sleep_for(milliseconds(1));
  }
  void join() {
    for (std::thread& thread : threads) thread.join();
  }
  std::vector<std::thread> threads;
};

milliseconds since(steady_clock::time_point start) {
  return std::chrono::duration_cast<milliseconds>(steady_clock::now() - start);
}

TEST_CASE("writer queue: many writers together take no more than the pacer allows, and all get on") {
  constexpr std::uint64_t kBytes = 16 * 1024;
  constexpr int kThreads = 32;
  Line line;
  std::atomic<bool> stop{false};
  std::vector<std::uint64_t> writes(kThreads, 0);
  const auto start = steady_clock::now();
  for (int t = 0; t < kThreads; ++t) {
    line.threads.emplace_back([&, t] {
      while (!stop) {
        line.owe(kBytes, 0);
        ++writes[static_cast<std::size_t>(t)];
      }
    });
  }
  std::this_thread::sleep_for(milliseconds(1500));
  stop = true;
  const double seconds = static_cast<double>(since(start).count()) / 1000;
  line.join();
  std::uint64_t all = 0;
  for (const std::uint64_t count : writes) all += count;
  MESSAGE(all << " writes in " << seconds << " s");
  // Each was let in once before it owed anything, and once when the line was given up.
  CHECK(static_cast<double>((all - 2 * kThreads) * kBytes) < 1.25 * WritePacer::kRateMin * seconds);
  const auto [least, most] = std::minmax_element(writes.begin(), writes.end());
  CHECK(*least + 3 >= *most);
  CHECK(line.queue.report().waits > 0);
  CHECK(line.queue.report().waited_us > 0);
  CHECK(line.queue.report().waiting == 0);
}

TEST_CASE("writer queue: an interrupt ends a wait, and those behind get on") {
  Line line;
  line.crowd(40);  // two seconds
  Interrupt killed(system_clock()), late(system_clock());
  late.set_deadline_us(system_clock().monotonic_us() + 30'000);
  const auto start = steady_clock::now();
  std::thread other([&] {
    CHECK(line.queue.pass(&killed).error().code() == ErrorCode::kInterrupted);
    CHECK(since(start) < milliseconds(1000));
  });
  CHECK(line.queue.pass(&late).error().code() == ErrorCode::kMaxTimeMSExpired);
  CHECK(since(start) >= milliseconds(29));
  CHECK(since(start) < milliseconds(1000));
  killed.kill(ErrorCode::kInterrupted);
  other.join();
  line.join();
  CHECK(line.queue.report().waiting == 0);
}

TEST_CASE("writer queue: all waits end with the pressure") {
  Line line;
  line.crowd(40);
  const auto start = steady_clock::now();
  line.pressure = 0;
  line.queue.ease();
  line.join();
  CHECK(since(start) < milliseconds(1000));
  CHECK(line.queue.pass(nullptr));
}

TEST_CASE("writer queue: what writers are going to retire counts until they are through") {
  Line line;
  line.pressure = 0;
  for (int i = 0; i < 20; ++i) line.owe(4u << 20, 32u << 20);
  auto first = line.queue.pass(nullptr);
  REQUIRE(first);
  std::thread other([&] {
    line.owe(4u << 20, 0);  // charged under the pressure that the first one makes
    CHECK(line.queue.pass(nullptr));
  });
  other.join();
  CHECK(line.queue.report().waits == 1);
  first = WriterQueue::Turn();  // it has not written
  line.owe(4u << 20, 0);
  CHECK(line.queue.pass(nullptr));
  CHECK(line.queue.report().waits == 1);
}

}  // namespace
}  // namespace multifora
