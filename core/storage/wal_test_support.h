// What the tests of the log share: a clock that is set by hand, a log on a file system in memory,
// batches that know their number.
#pragma once

#include <doctest/doctest.h>

#include <atomic>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/storage/wal.h"
#include "tests/support/fault_file_system.h"

namespace multifora::wal_test {

// Wall time is what the test says; the monotonic clock is the machine's.
class ManualClock final : public Clock {
 public:
  std::int64_t wall_ms() const override { return now_ms; }
  std::int64_t monotonic_us() const override { return system_clock().monotonic_us(); }
  std::atomic<std::int64_t> now_ms = 1'700'000'000'000;
};

struct Batch {
  LogPosition position;
  std::string bytes;
  bool operator==(const Batch&) const = default;
};

// Small segments and blocks, so that little data crosses their borders; no timers.
inline WalOptions small_options() {
  WalOptions options;
  options.directory = "wal";
  options.block_bytes = 4096;
  options.segment_bytes_min = 16 * 1024;
  options.segment_bytes_max = 64 * 1024;
  options.unwaited_sync_ms = 1'000'000;
  return options;
}

inline std::string random_bytes(std::mt19937_64& random, std::size_t size) {
  std::string bytes(size, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  return bytes;
}

// Opens logs in one place and keeps what they replayed.
class Bench {
 public:
  explicit Bench(std::uint64_t seed = 1) : own_files(seed) {}

  Status try_open(LogPosition from = 0) {
    wal.reset();
    replayed.clear();
    counts = {};
    auto opened = Wal::open(
        file_system(), options, clock, null_log(), metrics, from,
        [&](LogPosition position, Bytes bytes) {
          replayed.push_back({position, std::string(bytes)});
          return Status();
        },
        &counts);
    if (!opened) return std::move(opened).error();
    wal = std::move(*opened);
    return {};
  }
  void open(LogPosition from = 0) {
    const Status status = try_open(from);
    REQUIRE_MESSAGE(status.ok(), status.message());
  }
  // The machine loses power here. The log's threads must not live to see the restart.
  void crash() {
    own_files.power_cut_after(1);
    wal.reset();
    own_files.crash();
  }
  // Appends and remembers what was appended.
  LogPosition append(std::string bytes) {
    const auto position = wal->append(bytes, nullptr);
    REQUIRE_MESSAGE(position.has_value(), position.error().message());
    appended.push_back({*position, std::move(bytes)});
    return *position;
  }
  void append_durably(std::string bytes) {
    const Status status = wal->wait_durable(append(std::move(bytes)));
    REQUIRE_MESSAGE(status.ok(), status.message());
  }
  std::vector<Batch> read(LogPosition from, bool include_unsynced = false) {
    std::vector<Batch> batches;
    const Status status = wal->read(from, include_unsynced, [&](LogPosition position, Bytes b) {
      batches.push_back({position, std::string(b)});
      return true;
    });
    REQUIRE_MESSAGE(status.ok(), status.message());
    return batches;
  }
  // The segment files' paths, oldest first.
  std::vector<std::string> segments() {
    std::vector<std::string> paths;
    const auto names = file_system().list(options.directory);
    REQUIRE(names.has_value());
    for (const std::string& name : *names) paths.push_back(options.directory + "/" + name);
    return paths;
  }

  FileSystem& file_system() { return files ? *files : own_files; }

  FaultFileSystem own_files;
  FileSystem* files = nullptr;  // null: own_files
  ManualClock clock;
  Metrics metrics;
  WalOptions options = small_options();
  std::unique_ptr<Wal> wal;
  WalReplay counts;
  std::vector<Batch> replayed;
  std::vector<Batch> appended;
};

}  // namespace multifora::wal_test
