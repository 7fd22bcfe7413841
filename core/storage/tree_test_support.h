// A pager in a directory of its own, for the tests of what stands on it.
#pragma once

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/base/log.h"
#include "core/base/metrics.h"
#include "core/storage/pager.h"

namespace multifora {

class PagerFixture {
 public:
  PagerFixture() {
    static std::atomic<int> number{0};
    const std::string name =
        "multifora_tree_" + std::to_string(::getpid()) + "_" + std::to_string(number++);
    directory_ = std::filesystem::temp_directory_path() / name;
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
    reopen();
  }
  ~PagerFixture() {
    pager.reset();
    std::filesystem::remove_all(directory_);
  }
  void reopen() {
    pager.reset();
    PagerOptions options;
    options.reserve_bytes = std::uint64_t{1} << 33;
    auto opened =
        Pager::open(posix_file_system(), directory_ + "/data.mfdb", options, null_log(), metrics_);
    REQUIRE_MESSAGE(opened.has_value(), opened.error().message());
    pager = std::move(*opened);
  }
  void checkpoint() {
    const Status status =
        pager->finish_checkpoint(pager->begin_checkpoint({++position_, Buffer()}));
    REQUIRE_MESSAGE(status.ok(), status.message());
  }
  // Every page in use is one of `pages`, and the other way round.
  void check_space(const std::vector<PageId>& pages) {
    std::vector<std::string> errors;
    auto* check = pager->begin_check();
    for (const PageId id : pages) pager->check_page(check, id, "test");
    pager->finish_check(check, &errors);
    REQUIRE_MESSAGE(errors.empty(), errors.front());
  }

  std::unique_ptr<Pager> pager;

 private:
  std::string directory_;
  MetricsRegistry metrics_;
  LogPosition position_ = 0;
};

// The seed of a property test: MULTIFORA_TEST_SEED repeats a failure.
inline std::uint64_t test_seed() {
  if (const char* seed = std::getenv("MULTIFORA_TEST_SEED"))
    return std::strtoull(seed, nullptr, 10);
  return std::random_device{}();
}

// Unwraps a Result that must have a value.
template <class T>
T must(Result<T> result) {
  REQUIRE_MESSAGE(result.has_value(), result.error().message());
  return std::move(*result);
}
inline void must(const Status& status) {
  REQUIRE_MESSAGE(status.ok(), status.message());
}

}  // namespace multifora
