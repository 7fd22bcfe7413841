// For the storage layer's tests: a pager over a file system in memory that can fail and crash.
#pragma once

#include <doctest/doctest.h>
#include <xxhash.h>

#include <memory>
#include <random>
#include <string>

#include "core/base/log.h"
#include "core/base/metrics.h"
#include "core/storage/pager.h"
#include "core/storage/record_space.h"
#include "tests/support/fault_file_system.h"

namespace multifora::test {

inline std::uint64_t checksum(Bytes bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

struct StorageFixture {
  FaultFileSystem files;
  std::string path = "db/data.mfdb";
  PagerOptions options;
  MetricsRegistry metrics;
  std::unique_ptr<Pager> pager;

  explicit StorageFixture(std::uint64_t seed = 1) : files(seed) {
    options.reserve_bytes = std::uint64_t{1} << 30;
    reopen();
  }
  void close() { pager.reset(); }
  Status try_open() {
    close();
    auto opened = Pager::open(files, path, options, null_log(), metrics);
    if (!opened) return opened.error();
    pager = std::move(*opened);
    return {};
  }
  void reopen() {
    const Status status = try_open();
    REQUIRE_MESSAGE(status.ok(), status.message());
  }
  Status try_checkpoint(LogPosition position) {
    return pager->finish_checkpoint(
        pager->begin_checkpoint({position, "meta " + std::to_string(position)}));
  }
  void checkpoint(LogPosition position) {
    const Status status = try_checkpoint(position);
    REQUIRE_MESSAGE(status.ok(), status.message());
  }
};

}  // namespace multifora::test
