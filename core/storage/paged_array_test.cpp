#include "core/storage/paged_array.h"

#include <map>

#include "core/storage/tree_test_support.h"

namespace multifora {
namespace {

using Model = std::map<std::uint64_t, std::uint64_t>;

struct ArrayFixture : PagerFixture {
  ArrayRoot root;
  Model model;

  PagedArray array() { return PagedArray(*pager, 5); }

  void set(std::uint64_t index, std::uint64_t value) {
    // Exactly the pages that are promised to suffice.
    PageStash exact(*pager);
    must(exact.ensure(PagedArray::kSetPages));
    must(array().set(root, index, value, exact));
    if (value == 0)
      model.erase(index);
    else
      model[index] = value;
  }

  void check(const ArrayRoot& at, const Model& expected) {
    std::vector<PageId> pages;
    Model seen;
    must(array().walk(
        at, [&](PageId id) { pages.push_back(id); },
        [&](std::uint64_t index, std::uint64_t value) { seen[index] = value; }));
    REQUIRE(seen == expected);
    PagedArray reader = array();
    PagedArray::Cursor cursor(reader, at, false);
    bool more = must(cursor.seek(0));
    for (const auto& [index, value] : expected) {
      REQUIRE(more);
      REQUIRE(cursor.index() == index);
      REQUIRE(cursor.value() == value);
      more = must(cursor.next());
    }
    REQUIRE_FALSE(more);
    PagedArray::Cursor back(reader, at, true);
    more = must(back.seek(~std::uint64_t{0}));
    for (auto it = expected.rbegin(); it != expected.rend(); ++it) {
      REQUIRE(more);
      REQUIRE(back.index() == it->first);
      more = must(back.next());
    }
    REQUIRE_FALSE(more);
  }
  void check_all() {
    check(root, model);
    std::vector<PageId> pages;
    must(array().walk(
        root, [&](PageId id) { pages.push_back(id); }, nullptr));
    check_space(pages);
  }

  PagedArray array_{*pager, 5};
};

TEST_CASE_FIXTURE(ArrayFixture, "paged_array: an empty array has nothing") {
  CHECK(must(array().get(root, 0)) == 0);
  CHECK(must(array().get(root, ~std::uint64_t{0})) == 0);
  std::uint64_t index = 0;
  std::uint64_t value = 0;
  CHECK_FALSE(must(array().next(root, 0, false, &index, &value)));
  CHECK_FALSE(must(array().next(root, ~std::uint64_t{0}, true, &index, &value)));
  set(7, 0);
  CHECK(root.height == 0);
}

TEST_CASE_FIXTURE(ArrayFixture, "paged_array: the promise of pages holds at the far ends") {
  set(0, 1);
  CHECK(root.height == 1);
  set(~std::uint64_t{0}, 2);
  CHECK(root.height == PagedArray::kHeightMax);
  set(std::uint64_t{1} << 63, 3);
  check_all();
  CHECK(must(array().get(root, ~std::uint64_t{0})) == 2);
  set(0, 0);
  set(std::uint64_t{1} << 63, 0);
  check_all();
  set(~std::uint64_t{0}, 0);
  CHECK(root.height == 0);
  check_space({});
}

TEST_CASE_FIXTURE(ArrayFixture, "paged_array: random changes agree with a map") {
  const std::uint64_t seed = test_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  struct Captured {
    Snapshot snapshot;
    ArrayRoot root;
    Model model;
  };
  std::vector<Captured> snapshots;
  for (int step = 0; step < 6000; ++step) {
    const std::uint64_t spread = std::uint64_t{1} << (random() % 64);
    const std::uint64_t index =
        random() % 4 == 0 && !model.empty()
            ? model.lower_bound(random() % (model.rbegin()->first + 1))->first
            : random() % spread;
    set(index, random() % 3 == 0 ? 0 : random() | 1);
    REQUIRE(must(array().get(root, index)) == (model.contains(index) ? model[index] : 0));
    const std::uint64_t probe = random() % spread;
    std::uint64_t found = 0;
    std::uint64_t value = 0;
    const auto up = model.lower_bound(probe);
    REQUIRE(must(array().next(root, probe, false, &found, &value)) == (up != model.end()));
    if (up != model.end()) REQUIRE(found == up->first);
    const auto down = model.upper_bound(probe);
    REQUIRE(must(array().next(root, probe, true, &found, &value)) == (down != model.begin()));
    if (down != model.begin()) REQUIRE(found == std::prev(down)->first);
    if (random() % 500 == 0) snapshots.push_back({pager->begin_snapshot(), root, model});
    if (random() % 1000 == 0) checkpoint();
    if (!snapshots.empty() && random() % 900 == 0) {
      check(snapshots.front().root, snapshots.front().model);
      snapshots.erase(snapshots.begin());
    }
  }
  for (const Captured& captured : snapshots) check(captured.root, captured.model);
  snapshots.clear();
  check_all();
  checkpoint();
  reopen();
  check_all();
  Model cleared;
  must(array().clear(root,
                     [&](std::uint64_t index, std::uint64_t value) { cleared[index] = value; }));
  CHECK(cleared == model);
  CHECK(root.height == 0);
  check_space({});
}

TEST_CASE_FIXTURE(ArrayFixture, "paged_array: records that died long ago cost nothing") {
  constexpr std::uint64_t kAlive = 3000;
  std::uint64_t pages_max = 0;
  for (std::uint64_t id = 1; id <= 400'000; ++id) {
    PageStash exact(*pager);
    must(exact.ensure(2 * PagedArray::kSetPages));
    must(array().set(root, id, id * 10, exact));
    if (id > kAlive) must(array().set(root, id - kAlive, 0, exact));
    if (id % 50'000 != 0) continue;
    std::uint64_t pages = 0;
    must(array().walk(
        root, [&](PageId) { ++pages; }, nullptr));
    pages_max = std::max(pages_max, pages);
  }
  CHECK(pages_max <= kAlive / PagedArray::kFanOut + 6);
  std::uint64_t index = 0;
  std::uint64_t value = 0;
  CHECK(must(array().next(root, 0, false, &index, &value)));
  CHECK(index == 400'000 - kAlive + 1);
}

TEST_CASE_FIXTURE(ArrayFixture, "paged_array: ahead() shows what next() will give") {
  for (std::uint64_t i = 0; i < 1200; i += 3) set(i, i + 1);
  for (const bool backward : {false, true}) {
    PagedArray::Cursor cursor(array_, root, backward);
    bool more = must(cursor.seek(backward ? 1200 : 0));
    while (more) {
      std::uint64_t values[4];
      const std::size_t count = cursor.ahead(values, 4);
      CHECK(count <= 4);
      PagedArray::Cursor copy(cursor);
      for (std::size_t i = 0; i < count; ++i) {
        REQUIRE(must(copy.next()));
        CHECK(copy.value() == values[i]);
      }
      more = must(cursor.next());
    }
  }
}

TEST_CASE_FIXTURE(ArrayFixture, "paged_array: a damaged page is reported") {
  for (std::uint64_t i = 0; i < 5000; ++i) set(i, i + 1);
  PageId leaf = kNoPage;
  must(array().walk(
      root, [&](PageId id) { leaf = id; }, nullptr));
  pager->write(leaf)[offsetof(PageHeader, kind)] = 99;
  CHECK(array().get(root, 4999).error().code() == ErrorCode::kDataCorruptionDetected);
  PageStash pages(*pager);
  must(pages.ensure(PagedArray::kSetPages));
  const ArrayRoot before = root;
  CHECK(array().set(root, 4998, 5, pages).code() == ErrorCode::kDataCorruptionDetected);
  CHECK(root.page == before.page);
  CHECK(must(array().get(root, 100)) == 101);
  CHECK(array().walk(root, nullptr, nullptr).code() == ErrorCode::kDataCorruptionDetected);
  ArrayRoot impossible = root;
  impossible.height = 99;
  CHECK_FALSE(array().get(impossible, 1).has_value());
}

}  // namespace
}  // namespace multifora
