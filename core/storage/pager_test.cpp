#include "core/storage/pager.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "core/storage/meta_page.h"
#include "core/storage/storage_test_support.h"

namespace multifora {
namespace {

using test::StorageFixture;
using Operation = FaultFileSystem::Operation;
using Failure = FaultFileSystem::Failure;

struct Pages : StorageFixture {
  PageId add(char fill) {
    PageStash stash(*pager);
    REQUIRE(stash.ensure(1).ok());
    PageId id = kNoPage;
    std::memset(stash.take(PageKind::kTreeLeaf, 7, &id) + 32, fill, kPageSize - 32);
    return id;
  }
  bool holds(PageId id, char fill) {
    const auto page = pager->read(id);
    return page.has_value() &&
           Bytes(*page + 32, kPageSize - 32) == std::string(kPageSize - 32, fill);
  }
  std::vector<std::string> check(const std::vector<PageId>& used) {
    SpaceCheck* check = pager->begin_check();
    for (const PageId id : used) pager->check_page(check, id, "test");
    std::vector<std::string> errors;
    pager->finish_check(check, &errors);
    return errors;
  }
  std::uint64_t newest_meta() {  // offset of the slot with the newest checkpoint
    const std::string bytes = files.content(path);
    return load_le<std::uint64_t>(bytes.data() + 48) >
                   load_le<std::uint64_t>(bytes.data() + kPageSize + 48)
               ? 0
               : kPageSize;
  }
  void flip(std::uint64_t offset) {
    const std::string bytes = files.content(path);
    files.poke(path, offset, std::string(1, static_cast<char>(bytes[offset] ^ 0x40)));
  }
  ErrorCode refusal() {
    const std::string before = files.content(path);
    const Status status = try_open();
    CHECK(files.content(path) == before);
    return status.code();
  }
};

TEST_CASE_FIXTURE(Pages, "pages survive a checkpoint and a reopen") {
  CHECK(pager->created());
  const PageId id = add('a');
  CHECK(pager->writable_in_place(id));
  checkpoint(10);
  CHECK_FALSE(pager->writable_in_place(id));
  reopen();
  CHECK_FALSE(pager->created());
  CHECK(pager->opened_image().position == 10);
  CHECK(pager->opened_image().store_meta == "meta 10");
  CHECK(holds(id, 'a'));
  CHECK(check({id}).empty());
}

TEST_CASE_FIXTURE(Pages, "what no checkpoint holds is gone after a reopen") {
  const PageId kept = add('a');
  checkpoint(1);
  const PageId lost = add('b');
  pager->retire(kept);
  reopen();
  CHECK(holds(kept, 'a'));
  CHECK(check({kept}).empty());
  CHECK_FALSE(check({kept, lost}).empty());
}

TEST_CASE_FIXTURE(Pages, "the log is needed from the older durable checkpoint on") {
  CHECK(pager->oldest_needed_position() == 0);
  checkpoint(10);
  CHECK(pager->oldest_needed_position() == 0);
  checkpoint(20);
  CHECK(pager->oldest_needed_position() == 10);
  reopen();
  CHECK(pager->oldest_needed_position() == 10);
}

// --- copy-on-write ---

TEST_CASE_FIXTURE(Pages, "a published page is copied, a fresh one is changed in place") {
  const PageId first = add('a');
  PageStash stash(*pager);
  REQUIRE(stash.ensure(2).ok());
  PageId id = first;
  pager->make_writable(&id, stash);
  CHECK(id == first);
  const Snapshot snapshot = pager->begin_snapshot();
  char* page = pager->make_writable(&id, stash);
  REQUIRE(id != first);
  CHECK(holds(id, 'a'));  // the copy
  std::memset(page + 32, 'b', kPageSize - 32);
  CHECK(holds(first, 'a'));
  CHECK(holds(id, 'b'));
  const PageId copy = id;
  pager->make_writable(&id, stash);
  CHECK(id == copy);
  CHECK(pager->born(copy) == snapshot.generation() + 1);
}

TEST_CASE_FIXTURE(Pages, "a recycled page is fresh, not published") {
  const PageId first = add('a');
  checkpoint(1);
  pager->retire(first);
  PageId again = kNoPage;
  for (LogPosition n = 2; n < 10 && again != first; ++n) {
    checkpoint(n);
    again = add('b');
    if (again != first) pager->retire(again);
  }
  REQUIRE(again == first);
  CHECK(pager->born(again) == pager->current_generation());
  CHECK(pager->writable_in_place(again));
  PageStash empty(*pager);
  PageId id = again;
  pager->make_writable(&id, empty);  // would assert if it wanted to copy
  CHECK(id == again);
}

TEST_CASE_FIXTURE(Pages, "a page retired in the generation of its birth is free at once") {
  const PageId first = add('a');
  pager->retire(first);
  CHECK(add('b') == first);
  CHECK(pager->space_use().retired_bytes == 0);
}

TEST_CASE_FIXTURE(Pages, "a retired page waits for snapshots and for two checkpoints") {
  const PageId id = add('a');
  Snapshot snapshot = pager->begin_snapshot();
  pager->retire(id);
  std::vector<PageId> others;
  const auto take_all_near = [&] {
    for (int i = 0; i < 40; ++i) others.push_back(add('x'));
  };
  for (LogPosition n = 1; n <= 3; ++n) {
    checkpoint(n);
    take_all_near();
    CHECK(holds(id, 'a'));
  }
  snapshot = Snapshot();
  CHECK(add('b') == id);
}

TEST_CASE_FIXTURE(Pages, "two checkpoints, not one, free a page") {
  const PageId id = add('a');
  checkpoint(1);
  pager->retire(id);
  checkpoint(2);
  for (int i = 0; i < 40; ++i) add('x');
  CHECK(holds(id, 'a'));  // checkpoint 1 still needs it
  checkpoint(3);
  CHECK(add('b') == id);
}

TEST_CASE_FIXTURE(Pages, "after an open nothing free is used before a checkpoint") {
  std::vector<PageId> ids;
  for (int i = 0; i < 100; ++i) ids.push_back(add('a'));
  checkpoint(1);
  for (const PageId id : ids) pager->retire(id);
  checkpoint(2);
  const std::string before = files.content(path);
  reopen();
  for (int i = 0; i < 300; ++i) add('b');
  const std::string after = files.content(path);
  CHECK(after.substr(0, before.size()) == before);
  checkpoint(3);
  CHECK(add('c') * kPageSize < before.size());
}

// --- pools ---

TEST_CASE_FIXTURE(Pages, "one-page requests do not shave the space of large records") {
  auto allocator = pager->records().make_allocator(5, 64 << 20);
  PageStash stash(*pager);
  const std::string big(8 * kChunkSize - 1000, 'r');
  const auto put = [&] {
    REQUIRE(stash.ensure(RecordSpace::kRetirePages).ok());
    auto reserved = pager->records().reserve(*allocator, stash, big.size());
    REQUIRE(reserved.has_value());
    const RecordLocation location = reserved->location();
    REQUIRE(pager->records().publish(std::move(*reserved), 1, 5, big, stash).ok());
    return location;
  };
  for (LogPosition round = 1; round <= 8; ++round) {
    const RecordLocation location = put();
    std::vector<PageId> pages;
    for (int i = 0; i < 60; ++i) pages.push_back(add('p'));
    REQUIRE(stash.ensure(RecordSpace::kRetirePages).ok());
    pager->records().retire(location, big.size(), stash);
    allocator = pager->records().make_allocator(5, 64 << 20);
    checkpoint(3 * round);
    checkpoint(3 * round + 1);
    checkpoint(3 * round + 2);
  }
  // Room for two of them (one waiting), the pages, and the file's own.
  CHECK(pager->space_use().file_bytes <= 22 * kChunkSize);
}

TEST_CASE_FIXTURE(Pages, "pages promised to writers side by side are theirs") {
  files.set_capacity(6 * kChunkSize);
  constexpr int kThreads = 4;
  std::vector<std::vector<PageId>> taken(kThreads);
  std::atomic<int> refused{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      PageStash stash(*pager);
      for (int i = 0; i < 60; ++i) {
        const std::size_t count = 1 + static_cast<std::size_t>((i * 7 + t) % 23);
        if (!stash.ensure(count).ok()) {
          ++refused;
          continue;
        }
        for (std::size_t n = 0; n < count; ++n) {
          PageId id = kNoPage;
          stash.take(PageKind::kTreeLeaf, static_cast<std::uint32_t>(t), &id);
          taken[static_cast<std::size_t>(t)].push_back(id);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(refused > 0);
  CHECK(pager->health().ok());
  std::vector<PageId> all;
  for (const auto& ids : taken) all.insert(all.end(), ids.begin(), ids.end());
  CHECK(std::set<PageId>(all.begin(), all.end()).size() == all.size());
  const auto errors = check(all);
  CHECK_MESSAGE(errors.empty(), errors[0]);
}

TEST_CASE_FIXTURE(Pages, "pages of an unlinked stash are lost by no crash and no failure") {
  const PageId kept = add('k');
  {
    PageStash build(*pager, PageStash::Mode::kUnlinked);
    REQUIRE(build.ensure(10).ok());
    std::vector<PageId> ids(10);
    for (PageId& id : ids) std::memset(build.take(PageKind::kTreeLeaf, 1, &id) + 32, 'u', 4064);
    checkpoint(1);
    CHECK(check({kept}).empty());  // in use by nobody yet
    build.link();
    ids.push_back(kept);
    CHECK(check(ids).empty());
    CHECK_FALSE(pager->writable_in_place(ids[0]));  // taken before the checkpoint: as published
    checkpoint(2);
    reopen();
    CHECK(check(ids).empty());
    CHECK(holds(ids[3], 'u'));
  }
  {
    PageStash build(*pager, PageStash::Mode::kUnlinked);
    REQUIRE(build.ensure(10).ok());
    PageId id = kNoPage;
    build.take(PageKind::kTreeLeaf, 1, &id);
  }
  CHECK(check({}).size() == 11);  // the linked ones and `kept`; nothing more
}

// --- full disk ---

TEST_CASE_FIXTURE(Pages, "a full disk refuses, poisons nothing, and recovers") {
  files.set_capacity(2 * kChunkSize);
  std::vector<PageId> pages;
  PageStash stash(*pager);
  Status status;
  for (int i = 0; i < 1000 && status.ok(); ++i) {
    status = stash.ensure(1);
    if (!status.ok()) break;
    pages.push_back(kNoPage);
    stash.take(PageKind::kTreeLeaf, 1, &pages.back());
  }
  CHECK(status.code() == ErrorCode::kOutOfDiskSpace);
  CHECK(status.message().find("free space on db/data.mfdb or delete data") != std::string::npos);
  CHECK(pager->health().ok());
  // Who frees space gets on, and checkpoints have pages of their own.
  CHECK(stash.ensure(30, true).ok());
  checkpoint(1);
  for (std::size_t i = 0; i < 100; ++i) pager->retire(pages[i]);
  pages.erase(pages.begin(), pages.begin() + 100);
  stash.give_back_all();
  checkpoint(2);
  checkpoint(3);
  CHECK(stash.ensure(40).ok());
  CHECK_FALSE(stash.ensure(400).ok());
  CHECK(stash.size() == 40);
  files.set_capacity(8 * kChunkSize);
  CHECK(stash.ensure(400).ok());
  stash.give_back_all();
  CHECK(check(pages).empty());
}

TEST_CASE_FIXTURE(Pages, "on a full disk an open can still use what is free") {
  std::vector<PageId> pages;
  for (int i = 0; i < 200; ++i) pages.push_back(add('a'));
  checkpoint(1);
  for (int i = 0; i < 100; ++i) {
    pager->retire(pages.back());
    pages.pop_back();
  }
  checkpoint(2);
  files.set_capacity(0);
  reopen();
  for (int i = 0; i < 30; ++i) pages.push_back(add('b'));
  CHECK(check(pages).empty());
  // The checkpoint that was opened is untouched, twice over.
  files.crash();
  reopen();
  CHECK(pager->opened_image().position == 2);
  pages.resize(100);
  CHECK(check(pages).empty());
  flip(newest_meta() + 200);
  reopen();
  CHECK(pager->opened_image().position == 2);
  CHECK(check(pages).empty());
}

// --- refusals and damage ---

TEST_CASE_FIXTURE(Pages, "files of other builds and other programs are refused untouched") {
  add('a');
  checkpoint(1);
  close();
  const std::string good = files.content(path);
  SUBCASE("a newer version") {
    std::string version(8, '\0');
    store_le<std::uint32_t>(version.data(), kFormatVersion + 1);
    store_le<std::uint32_t>(version.data() + 4, ~(kFormatVersion + 1));
    files.poke(path, newest_meta() + 16, version);
    CHECK(refusal() == ErrorCode::kUnsupportedFormat);
  }
  SUBCASE("another page size, at either slot") {
    MetaPage meta;
    meta.checkpoint = 9;
    for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{16384}}) {
      std::string bytes = encode_meta(meta);
      store_le<std::uint32_t>(bytes.data() + 24, kPageSize == 16384 ? 4096 : 16384);
      const std::uint64_t sum = test::checksum(Bytes(bytes).substr(0, bytes.size() - 8));
      store_le(bytes.data() + bytes.size() - 8, sum);
      files.poke(path, 0, std::string(20000, 'x'));
      files.poke(path, offset, bytes);
      CHECK(refusal() == ErrorCode::kUnsupportedFormat);
    }
  }
  SUBCASE("another program's file") {
    files.poke(path, 0, std::string(good.size(), 'x'));
    CHECK(refusal() == ErrorCode::kUnsupportedFormat);
  }
  SUBCASE("an empty file") {
    auto file = files.open(path, OpenMode::kExisting);
    REQUIRE((*file)->truncate(0).ok());
    CHECK(refusal() == ErrorCode::kUnsupportedFormat);
  }
  SUBCASE("a file cut short") {
    std::vector<PageId> more;
    reopen();
    for (int i = 0; i < 1000; ++i) more.push_back(add('b'));
    checkpoint(2);
    close();
    auto file = files.open(path, OpenMode::kExisting);
    REQUIRE((*file)->truncate(2 * kChunkSize).ok());
    CHECK(refusal() == ErrorCode::kDataCorruptionDetected);
  }
}

TEST_CASE_FIXTURE(Pages, "a damaged meta page falls back to the other; two are corruption") {
  const PageId first = add('a');
  checkpoint(1);
  pager->retire(first);
  const PageId second = add('b');
  checkpoint(2);
  close();
  flip(newest_meta() + 64);
  reopen();
  CHECK(pager->opened_image().position == 1);
  CHECK(pager->oldest_needed_position() == 1);
  CHECK(holds(first, 'a'));
  CHECK(check({first}).empty());
  CHECK_FALSE(check({first, second}).empty());
  close();
  flip(70);
  flip(kPageSize + 70);
  CHECK(refusal() == ErrorCode::kDataCorruptionDetected);
}

TEST_CASE_FIXTURE(Pages, "every flipped byte of a page is detected") {
  const PageId id = add('a');
  checkpoint(1);
  close();
  for (const std::uint64_t at :
       {0UL, 7UL, 8UL, 15UL, 16UL, 24UL, 28UL, 31UL, 32UL, 2000UL, 4095UL}) {
    flip(id * kPageSize + at);
    reopen();
    const auto page = pager->read(id);
    REQUIRE_FALSE(page.has_value());
    CHECK(page.error().code() == ErrorCode::kDataCorruptionDetected);
    CHECK(page.error().message().find("page " + std::to_string(id)) != std::string::npos);
    close();
    flip(id * kPageSize + at);
  }
  reopen();
  CHECK(holds(id, 'a'));
}

TEST_CASE_FIXTURE(Pages, "a page in another page's place is detected") {
  const PageId a = add('a');
  const PageId b = add('b');
  checkpoint(1);
  close();
  files.poke(path, b * kPageSize, Bytes(files.content(path)).substr(a * kPageSize, kPageSize));
  reopen();
  CHECK_FALSE(pager->read(b).has_value());
  CHECK_FALSE(pager->read(0).has_value());
  CHECK_FALSE(pager->read(1).has_value());
  CHECK_FALSE(pager->read(100000).has_value());
  CHECK_FALSE(pager->read(~PageId{0}).has_value());
}

TEST_CASE_FIXTURE(Pages, "a damaged chunk table is corruption and nothing is changed") {
  add('a');
  checkpoint(1);
  close();
  const std::string bytes = files.content(path);
  const auto directory = load_le<PageId>(bytes.data() + newest_meta() + 1120);
  const auto table = load_le<PageId>(bytes.data() + directory * kPageSize + 32);
  for (const PageId id : {directory, table}) {
    flip(id * kPageSize + 100);
    CHECK(refusal() == ErrorCode::kDataCorruptionDetected);
    flip(id * kPageSize + 100);
  }
  reopen();
}

// --- failures of the disk ---

TEST_CASE_FIXTURE(Pages, "a failed write or sync of a checkpoint is final") {
  const PageId id = add('a');
  checkpoint(1);
  for (const Operation operation : {Operation::kSync, Operation::kWrite}) {
    for (std::uint64_t nth = 1; nth <= (operation == Operation::kSync ? 2U : 1U); ++nth) {
      const PageId more = add('b');
      files.fail(operation, nth, Failure::kInputOutput);
      CHECK(try_checkpoint(2).code() == ErrorCode::kFileStreamFailed);
      CHECK(pager->health().code() == ErrorCode::kFileStreamFailed);
      CHECK(try_checkpoint(3).code() == ErrorCode::kFileStreamFailed);  // even if it would work
      PageStash stash(*pager);
      CHECK(stash.ensure(1).code() == ErrorCode::kFileStreamFailed);
      CHECK(holds(more, 'b'));  // reads go on
      files.crash();
      reopen();
      if (pager->opened_image().position == 1)
        CHECK(check({id}).empty());
      else
        pager->retire(more);
      CHECK(holds(id, 'a'));
      checkpoint(1);
    }
  }
}

TEST_CASE("a crash at any point of the first open leaves no file or a whole one") {
  for (std::uint64_t nth = 1; nth < 12; ++nth) {
    FaultFileSystem files(nth);
    MetricsRegistry metrics;
    PagerOptions options;
    options.reserve_bytes = 1 << 28;
    files.power_cut_after(nth);
    static_cast<void>(Pager::open(files, "db/data.mfdb", options, null_log(), metrics));
    files.crash();
    const auto pager = Pager::open(files, "db/data.mfdb", options, null_log(), metrics);
    REQUIRE_MESSAGE(pager.has_value(), pager.error().message());
    CHECK((*pager)->opened_image().position == 0);
  }
}

// On the operating system's files: the one in memory has nothing to give back.
TEST_CASE("a memory budget is kept after a load and after a scan") {
  const std::string directory =
      std::filesystem::temp_directory_path() / ("multifora_budget_" + std::to_string(::getpid()));
  std::filesystem::create_directories(directory);
  const auto mapped_bytes = [] {
    std::ifstream statm("/proc/self/statm");
    std::uint64_t size = 0, resident = 0, shared = 0;
    statm >> size >> resident >> shared;
    return shared * static_cast<std::uint64_t>(::getpagesize());
  };
  {
    MetricsRegistry metrics;
    PagerOptions options;
    options.reserve_bytes = std::uint64_t{1} << 32;
    options.memory_budget_bytes = mapped_bytes() + (8 << 20);
    auto opened =
        Pager::open(posix_file_system(), directory + "/data.mfdb", options, null_log(), metrics);
    REQUIRE_MESSAGE(opened.has_value(), opened.error().message());
    Pager& pager = **opened;
    auto allocator = pager.records().make_allocator(1, 1 << 30);
    PageStash stash(pager);
    const std::string payload(100000, 'p');
    std::vector<RecordLocation> all;
    for (RecordId id = 1; id <= 300; ++id) {
      auto reserved = pager.records().reserve(*allocator, stash, payload.size());
      REQUIRE(reserved.has_value());
      all.push_back(reserved->location());
      REQUIRE(pager.records().publish(std::move(*reserved), id, 1, payload, stash).ok());
    }
    const auto scan = [&] {
      for (RecordId id = 1; id <= all.size(); ++id)
        REQUIRE(pager.records().read(all[id - 1], id, 1).has_value());
    };
    scan();
    CHECK(mapped_bytes() > options.memory_budget_bytes + (10 << 20));
    REQUIRE(pager.finish_checkpoint(pager.begin_checkpoint({1, ""})).ok());
    CHECK(mapped_bytes() <= options.memory_budget_bytes);
    scan();
    CHECK(mapped_bytes() > options.memory_budget_bytes);
    pager.trim_memory();
    CHECK(mapped_bytes() <= options.memory_budget_bytes);
    scan();  // nothing was lost
  }
  std::filesystem::remove_all(directory);
}

// As under valgrind, or where an administrator limits it.
TEST_CASE("a process with little address space opens with a smaller range") {
  std::ifstream statm("/proc/self/statm");
  std::uint64_t pages = 0;
  statm >> pages;
  struct rlimit before;
  REQUIRE(::getrlimit(RLIMIT_AS, &before) == 0);
  struct rlimit tight = before;
  tight.rlim_cur = pages * static_cast<std::uint64_t>(::getpagesize()) + (std::uint64_t{24} << 30);
  REQUIRE(::setrlimit(RLIMIT_AS, &tight) == 0);
  FaultFileSystem files(1);
  MetricsRegistry metrics;
  const auto opened = Pager::open(files, "db/data.mfdb", PagerOptions{}, null_log(), metrics);
  ::setrlimit(RLIMIT_AS, &before);
  REQUIRE_MESSAGE(opened.has_value(), opened.error().message());
  PageStash stash(**opened);
  CHECK(stash.ensure(5000).ok());
}

TEST_CASE_FIXTURE(Pages, "the chunk table grows past one table page") {
  std::vector<PageId> all;
  for (int i = 0; i < 70 * 256; ++i) {
    all.push_back(add('a'));
    if (i % 5000 == 0) checkpoint(static_cast<LogPosition>(i + 1));
  }
  checkpoint(100000);
  reopen();
  CHECK(pager->space_use().file_bytes > 70 * kChunkSize);
  const auto errors = check(all);
  CHECK_MESSAGE(errors.empty(), errors[0]);
}

}  // namespace
}  // namespace multifora
