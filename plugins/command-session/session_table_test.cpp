// Sessions by themselves: uses, expiry, the limit. Transactions need a store: tests/e2e/transactions.
#include "plugins/command-session/session_table.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <set>
#include <thread>

#include "core/base/error_codes_rare.h"
#include "core/base/limits.h"

namespace multifora::session {
namespace {

class TestClock final : public Clock {
 public:
  std::atomic<std::int64_t> now_s{1'000'000};
  std::int64_t wall_ms() const override { return now_s * 1000; }
  std::int64_t monotonic_us() const override { return now_s * 1'000'000; }
};

struct Fixture {
  Fixture() {
    host.set_clock(&clock);
    host.freeze();
    table = std::make_unique<SessionTable>(host);
  }
  // Each sweep takes one part of the idle sessions.
  std::size_t sweep_all() {
    std::size_t over = 0;
    for (int i = 0; i < 64; ++i) over += table->sweep().size();
    return over;
  }
  TestClock clock;
  PluginHost host;
  std::unique_ptr<SessionTable> table;
};

std::string lsid_of(std::uint64_t number) {
  std::string lsid(16, '\0');
  store_le(lsid.data() + 8, number * 0x9e3779b97f4a7c15);
  store_le(lsid.data(), number);
  return lsid;
}

std::size_t resident_bytes() {
  std::size_t size = 0, resident = 0;
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  REQUIRE(file != nullptr);
  CHECK(std::fscanf(file, "%zu %zu", &size, &resident) == 2);
  std::fclose(file);
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

CommandRow row_with(std::uint32_t flags) {
  CommandRow row;
  row.name = "test";
  row.flags = flags;
  return row;
}

}  // namespace

TEST_CASE("sessions begin with their use and end half an hour after the last one") {
  Fixture f;
  for (std::uint64_t i = 0; i < 100; ++i) CHECK(f.table->touch(lsid_of(i)).ok());
  CHECK(f.table->size() == 100);
  f.clock.now_s += (limits::kSessionIdleMinutes - 1) * 60;
  CHECK(f.table->touch(lsid_of(7)).ok());
  CHECK(f.sweep_all() == 0);
  f.clock.now_s += 2 * 60;
  CHECK(f.sweep_all() == 99);
  std::set<std::string> left;
  f.table->list([&](std::string_view lsid, std::int64_t) { left.insert(std::string(lsid)); });
  CHECK(left == std::set<std::string>{lsid_of(7)});
  f.table->end({lsid_of(7), lsid_of(8)});
  CHECK(f.table->size() == 0);
}

TEST_CASE("a million sessions fit into little memory, and no more than that") {
  Fixture f;
  const std::size_t before = resident_bytes();
  bool good = true;
  for (std::uint64_t i = 0; i < kSessionsMax; ++i) good = f.table->touch(lsid_of(i)).ok() && good;
  CHECK(good);
  CHECK(f.table->touch(lsid_of(kSessionsMax)).code() == rare::kTooManyLogicalSessions);
  CHECK(f.table->touch(lsid_of(5)).ok());
  const std::size_t grown = resident_bytes() - before;
  MESSAGE("a million sessions take " << (grown >> 20) << " MiB");
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  CHECK(grown < (std::size_t{96} << 20));
#endif
  f.table->end({lsid_of(3)});
  CHECK(f.table->touch(lsid_of(kSessionsMax)).ok());
}

TEST_CASE("retryable writes: older numbers are refused, one request at a time") {
  Fixture f;
  const CommandRow row = row_with(kRetryableWrite);
  ClientInfo client;
  Interrupt interrupt(system_clock());
  const auto context_of = [&](std::int64_t number, Interrupt& own) {
    auto context = std::make_unique<CommandContext>(f.host, nullptr, client, own);
    context->session().lsid = lsid_of(1);
    context->session().txn_number = number;
    return context;
  };
  const auto run = [&](std::int64_t number) {
    const auto context = context_of(number, interrupt);
    const Status status = f.table->enter(*context, row);
    if (status.ok()) f.table->leave(*context, row, {});
    return status.code();
  };
  CHECK(run(5) == ErrorCode::kOK);
  CHECK(run(5) == ErrorCode::kOK);
  CHECK(run(4) == ErrorCode::kTransactionTooOld);
  CHECK(run(6) == ErrorCode::kOK);

  const auto first = context_of(7, interrupt);
  REQUIRE(f.table->enter(*first, row).ok());
  std::atomic<bool> entered{false};
  std::thread second([&] {
    Interrupt own(system_clock());
    const auto context = context_of(7, own);
    CHECK(f.table->enter(*context, row).ok());
    entered = true;
    f.table->leave(*context, row, {});
  });
  Interrupt impatient(system_clock());
  impatient.set_deadline_us(system_clock().monotonic_us() + 30'000);
  const auto late = context_of(7, impatient);
  CHECK(f.table->enter(*late, row).code() == ErrorCode::kMaxTimeMSExpired);
  CHECK_FALSE(entered);
  f.table->leave(*first, row, {});
  second.join();
  CHECK(entered);
}

}  // namespace multifora::session
