#include "core/base/interrupt.h"

#include <doctest/doctest.h>

#include "core/base/log.h"

using namespace multifora;

namespace {

class TestClock final : public Clock {
 public:
  std::int64_t wall_ms() const override { return 0; }
  std::int64_t monotonic_us() const override {
    ++reads;
    return now_us;
  }
  std::int64_t now_us = 1000;
  mutable int reads = 0;
};

}  // namespace

TEST_CASE("without a deadline the clock is never read") {
  TestClock clock;
  Interrupt interrupt(clock);
  for (int i = 0; i < 1000; ++i) CHECK(interrupt.check().ok());
  CHECK(interrupt.check_slow().ok());
  CHECK(clock.reads == 0);
}

TEST_CASE("a deadline stops the operation within 64 polls and stays") {
  TestClock clock;
  Interrupt interrupt(clock);
  interrupt.set_deadline_us(2000);
  CHECK(interrupt.check_slow().ok());
  clock.now_us = 2000;
  int polls = 0;
  Status status;
  while (status.ok() && polls < 1000) {
    status = interrupt.check();
    ++polls;
  }
  CHECK(polls <= 64);
  CHECK(status.code() == ErrorCode::kMaxTimeMSExpired);
  CHECK(status.message() == "operation exceeded time limit");
  CHECK(interrupt.check().code() == ErrorCode::kMaxTimeMSExpired);
}

TEST_CASE("kill is seen at the next poll with its reason; the first reason stays") {
  TestClock clock;
  Interrupt interrupt(clock);
  interrupt.set_deadline_us(2000);
  interrupt.kill(ErrorCode::kInterrupted);
  CHECK(interrupt.check().code() == ErrorCode::kInterrupted);
  CHECK(interrupt.check().message() == "operation was interrupted");
  clock.now_us = 3000;
  CHECK(interrupt.check_slow().code() == ErrorCode::kInterrupted);
}

TEST_CASE("shutdown has words of its own") {
  TestClock clock;
  Interrupt interrupt(clock);
  interrupt.kill(ErrorCode::kInterruptedAtShutdown);
  CHECK(interrupt.check().message() == "interrupted at shutdown");
}

TEST_CASE("the system clock moves forward and tells the date") {
  const Clock& clock = system_clock();
  const std::int64_t first = clock.monotonic_us();
  CHECK(clock.monotonic_us() >= first);
  CHECK(clock.wall_ms() > 1'700'000'000'000);  // 2023
}

TEST_CASE("the null log wants nothing and takes everything") {
  LogSink& log = null_log();
  for (const LogLevel level : {LogLevel::kDebug, LogLevel::kError}) CHECK(!log.wants(level));
  log.event(LogLevel::kError, "test", "Nothing happened.", {{"count", std::int64_t{1}}});
}
