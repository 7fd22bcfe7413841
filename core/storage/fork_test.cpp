// Private branches of a snapshot's structures: neither side sees the other, and the pages go back.
#include <map>
#include <random>

#include "core/storage/paged_array.h"
#include "core/storage/tree.h"
#include "core/storage/tree_test_support.h"

namespace multifora {
namespace {

using Model = std::map<std::string, std::string>;

struct Branch {
  TreeRoot tree;
  ArrayRoot array;
  Model model;
  std::map<std::uint64_t, std::uint64_t> entries;
};

class ForkFixture : public PagerFixture {
 public:
  void change(Branch& branch, PageStash& stash, std::mt19937_64& random) {
    const std::string key = std::to_string(random() % 4000) + std::string(random() % 60, 'k');
    Tree tree(*pager, &branch.tree, 3);
    must(stash.ensure(tree.pages_needed(key.size()) + PagedArray::kSetPages));
    if (random() % 3 == 0) {
      CHECK(must(tree.remove(key, stash)) == (branch.model.erase(key) == 1));
    } else {
      const std::string value = std::to_string(random());
      must(tree.insert(key, value, true, stash));
      branch.model[key] = value;
    }
    const std::uint64_t index = random() % 5000 + 1, value = random() % 3;
    must(PagedArray(*pager, 3).set(branch.array, index, value, stash));
    if (value == 0)
      branch.entries.erase(index);
    else
      branch.entries[index] = value;
  }

  // Content and structure; the pages are appended.
  void check(Branch& branch, std::vector<PageId>* pages) {
    TreeCursor cursor(*pager, branch.tree);
    must(cursor.seek_first());
    for (const auto& [key, value] : branch.model) {
      REQUIRE(cursor.valid());
      CHECK(cursor.key() == key);
      CHECK(cursor.value() == value);
      must(cursor.next());
    }
    CHECK_FALSE(cursor.valid());
    std::vector<std::string> errors;
    const auto seen = [pages](PageId id) { pages->push_back(id); };
    must(Tree(*pager, &branch.tree, 3).check(seen, &errors));
    REQUIRE_MESSAGE(errors.empty(), errors.front());
    std::map<std::uint64_t, std::uint64_t> found;
    must(PagedArray(*pager, 3).walk(branch.array, seen, [&](std::uint64_t index, std::uint64_t value) {
      found[index] = value;
    }));
    CHECK(found == branch.entries);
  }
};

}  // namespace

TEST_CASE("forks of a snapshot and the live state do not see each other, and leave no page behind") {
  const std::uint64_t seed = test_seed();
  INFO("MULTIFORA_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  ForkFixture f;
  Branch live;
  {
    PageStash stash(*f.pager);
    for (int i = 0; i < 3000; ++i) f.change(live, stash, random);
  }
  for (int round = 0; round < 3; ++round) {
    const Snapshot snapshot = f.pager->begin_snapshot();
    Branch at_snapshot = live, one = live, two = live;
    {
      PageStash stash(*f.pager), first(*f.pager, PageStash::Mode::kFork),
          second(*f.pager, PageStash::Mode::kFork);
      for (int i = 0; i < 2000; ++i) {
        f.change(live, stash, random);
        f.change(one, first, random);
        f.change(two, second, random);
        if (i == 1000) {
          f.checkpoint();
          static_cast<void>(f.pager->begin_snapshot());
        }
      }
      std::vector<PageId> ignored;
      f.check(one, &ignored);
      f.check(two, &ignored);
      f.check(at_snapshot, &ignored);
    }
    std::vector<PageId> pages;
    f.check(live, &pages);
    f.check_space(pages);
  }
  f.checkpoint();
  f.checkpoint();
  std::vector<PageId> pages;
  f.check(live, &pages);
  f.check_space(pages);
}

}  // namespace multifora
