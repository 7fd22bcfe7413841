#include "core/storage/pager.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>

#include "core/base/log.h"
#include "core/base/metrics.h"

namespace multifora {
namespace {

struct Fixture {
  std::string directory =
      std::filesystem::temp_directory_path() / ("multifora_pager_" + std::to_string(::getpid()));
  std::string path = directory + "/data.mfdb";
  PagerOptions options;
  MetricsRegistry metrics;
  std::unique_ptr<Pager> pager;

  Fixture() {
    std::filesystem::remove_all(directory);
    std::filesystem::create_directories(directory);
    options.reserve_bytes = std::uint64_t{1} << 32;
    reopen();
  }
  ~Fixture() {
    pager.reset();
    std::filesystem::remove_all(directory);
  }
  void reopen() {
    pager.reset();
    auto opened = Pager::open(posix_file_system(), path, options, null_log(), metrics);
    REQUIRE_MESSAGE(opened.has_value(), opened.error().message());
    pager = std::move(*opened);
  }
  void checkpoint(LogPosition position) {
    const Status status = pager->finish_checkpoint(
        pager->begin_checkpoint({position, "meta " + std::to_string(position)}));
    REQUIRE_MESSAGE(status.ok(), status.message());
  }
};

TEST_CASE_FIXTURE(Fixture, "pages survive a checkpoint and a reopen") {
  CHECK(pager->created());
  PageId id = kNoPage;
  {
    PageStash stash(*pager);
    REQUIRE(stash.ensure(3).ok());
    char* page = stash.take(PageKind::kTreeLeaf, 7, &id);
    std::memset(page + 32, 'a', kPageSize - 32);
  }
  checkpoint(10);
  reopen();
  CHECK_FALSE(pager->created());
  CHECK(pager->opened_image().position == 10);
  CHECK(pager->opened_image().store_meta == "meta 10");
  const auto page = pager->read(id);
  REQUIRE(page.has_value());
  CHECK((*page)[kPageSize - 1] == 'a');
}

}  // namespace
}  // namespace multifora
