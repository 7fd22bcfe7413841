// The tree against a std::map: shapes of keys, orders of inserts, snapshots, reopening, damage.
#include "core/storage/tree.h"

#include <functional>
#include <map>
#include <set>
#include <thread>

#include "core/storage/tree_node.h"
#include "core/storage/tree_overflow.h"
#include "core/storage/tree_test_support.h"

namespace multifora {
namespace {

using Model = std::map<std::string, std::string>;
using Random = std::mt19937_64;

std::string be64(std::uint64_t number) {
  std::string bytes(8, '\0');
  store_be(bytes.data(), number);
  return bytes;
}
std::string random_bytes(Random& random, std::size_t size, unsigned alphabet = 256) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random() % alphabet);
  return bytes;
}

struct TreeFixture : PagerFixture {
  TreeRoot root;
  Model model;

  Tree tree() { return Tree(*pager, &root, 3); }

  // Every change runs with exactly the pages that pages_needed() promises.
  TreeInsert insert(const std::string& key, const std::string& value, bool replace = true) {
    PageStash exact(*pager);
    must(exact.ensure(tree().pages_needed(Bytes(key))));
    REQUIRE(exact.size() <= tree().pages_needed(key.size()));
    const TreeInsert result = must(tree().insert(key, value, replace, exact));
    REQUIRE((result == TreeInsert::kInserted) == !model.contains(key));
    if (result != TreeInsert::kExists) model[key] = value;
    return result;
  }
  bool remove(const std::string& key) {
    PageStash exact(*pager);
    must(exact.ensure(tree().pages_needed(Bytes(key))));
    const bool removed = must(tree().remove(key, exact));
    REQUIRE(removed == (model.erase(key) == 1));
    return removed;
  }

  void check_structure(TreeRoot at, std::vector<PageId>* pages = nullptr) {
    std::vector<std::string> errors;
    Tree any(*pager, &at, 3);
    std::vector<PageId> seen;
    must(any.check([&](PageId id) { seen.push_back(id); }, &errors));
    REQUIRE_MESSAGE(errors.empty(), errors.front());
    REQUIRE(std::set<PageId>(seen.begin(), seen.end()).size() == seen.size());
    if (pages != nullptr) *pages = std::move(seen);
  }
  void check(const TreeRoot& at, const Model& expected) {
    check_structure(at);
    REQUIRE(at.count == expected.size());
    TreeCursor cursor(*pager, at);
    must(cursor.seek_first());
    for (const auto& [key, value] : expected) {
      REQUIRE(cursor.valid());
      REQUIRE(cursor.key() == key);
      REQUIRE(cursor.value() == value);
      must(cursor.next());
    }
    REQUIRE_FALSE(cursor.valid());
    must(cursor.seek_last());
    for (auto it = expected.rbegin(); it != expected.rend(); ++it) {
      REQUIRE(cursor.valid());
      if (it->first.size() >= 8)
        REQUIRE(cursor.key_suffix(8) == Bytes(it->first).substr(it->first.size() - 8));
      REQUIRE(cursor.compare_key(it->first) == 0);
      REQUIRE(cursor.value() == it->second);
      must(cursor.prev());
    }
    REQUIRE_FALSE(cursor.valid());
  }
  void check_all() {
    check(root, model);
    std::vector<PageId> pages;
    check_structure(root, &pages);
    check_space(pages);
  }

  void probe(const std::string& key) {
    Buffer value;
    const auto at = model.find(key);
    REQUIRE(must(tree().get(key, &value)) == (at != model.end()));
    if (at != model.end()) REQUIRE(value == at->second);
    TreeCursor cursor(*pager, root);
    const auto same = [&](Model::iterator expected, bool there) {
      REQUIRE(cursor.valid() == there);
      if (!there) return;
      REQUIRE(cursor.key() == expected->first);
      const int order = cursor.compare_key(key);
      REQUIRE((order > 0) == (expected->first > key));
      REQUIRE((order < 0) == (expected->first < key));
    };
    const auto low = model.lower_bound(key);
    const auto high = model.upper_bound(key);
    must(cursor.seek(key));
    same(low, low != model.end());
    must(cursor.seek(key, true));
    same(high, high != model.end());
    must(cursor.seek_reverse(key));
    same(high == model.begin() ? high : std::prev(high), high != model.begin());
    must(cursor.seek_reverse(key, true));
    same(low == model.begin() ? low : std::prev(low), low != model.begin());
    // The cursor walks on from where a seek put it.
    if (cursor.valid()) {
      must(cursor.next());
      same(low, low != model.end());
    }
  }
  void check_rank(const std::string& key) {
    const auto expected = std::distance(model.begin(), model.lower_bound(key));
    REQUIRE(must(tree().rank(key)) == static_cast<std::uint64_t>(expected));
  }
  double leaf_fill() {
    const Tree::Stats stats = must(tree().stats());
    return static_cast<double>(stats.used_bytes) /
           static_cast<double>((stats.leaf_pages + stats.inner_pages + stats.overflow_pages) *
                               kPageSize);
  }
};

// --- shapes of keys ------------------------------------------------------------------------------

struct Shape {
  std::string name;
  int steps;
  std::function<std::string(Random&)> key;
  std::size_t value_max;
};

std::string long_key(Random& random, std::size_t size_max) {
  // Few different beginnings, so that long keys have to be compared to the end.
  std::string key(random() % size_max, static_cast<char>('a' + random() % 2));
  if (!key.empty() && random() % 2 == 0) key[random() % key.size()] = 'z';
  return key + be64(random() % 64);
}

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all = {
      {"tiny", 5000, [](Random& r) { return random_bytes(r, r() % 5, 6); }, 4},
      {"typical", 5000, [](Random& r) { return random_bytes(r, 12 + r() % 12); }, 12},
      {"common prefix", 4000,
       [](Random& r) { return std::string(300, 'x') + random_bytes(r, 1 + r() % 4); }, 8},
      {"common prefixes", 4000,
       [](Random& r) {
         return std::string(r() % 3 * 200, static_cast<char>('a' + r() % 3)) + be64(r() % 2000);
       },
       8},
      {"equal user keys", 5000,
       [](Random& r) {
         return std::string("user key ") + std::string(r() % 2, 'k') + be64(r() % 5000);
       },
       0},
      {"clustered", 5000,
       [](Random& r) { return be64((r() % 16 << 40) + r() % 1000) + be64(r() % 4); }, 20},
      {"quarter page", 1500, [](Random& r) { return long_key(r, kPageSize / 4 + 100); },
       kTreeValueSizeMax},
      {"any size", 1500,
       [](Random& r) { return random_bytes(r, (std::size_t{1} << r() % 13) + r() % 9, 3); },
       kTreeValueSizeMax},
      {"huge", 250, [](Random& r) { return long_key(r, r() % 8 == 0 ? 1 << 20 : 20'000); }, 40},
  };
  return all;
}

std::string random_value(Random& random, const Shape& shape) {
  return std::string(random() % (shape.value_max + 1), static_cast<char>('a' + random() % 26));
}

std::string some_key(Random& random, const Shape& shape, const Model& model) {
  if (model.empty() || random() % 2 == 0) return shape.key(random);
  auto at = model.lower_bound(shape.key(random));
  return at == model.end() ? model.rbegin()->first : at->first;
}

TEST_CASE("tree: random changes agree with a map") {
  const std::uint64_t seed = test_seed();
  CAPTURE(seed);
  struct Captured {
    Snapshot snapshot;
    TreeRoot root;
    Model model;
  };
  for (const Shape& shape : shapes()) {
    CAPTURE(shape.name);
    TreeFixture f;
    Random random(seed);
    std::vector<Captured> captured;
    for (const int inserts_of_ten : {8, 5, 2}) {
      for (int step = 0; step < shape.steps; ++step) {
        const std::string key = some_key(random, shape, f.model);
        if (static_cast<int>(random() % 10) < inserts_of_ten)
          f.insert(key, random_value(random, shape), random() % 4 != 0);
        else
          f.remove(key);
        if (step % 8 == 0) f.probe(some_key(random, shape, f.model));
        if (step % 64 == 0) f.check_rank(some_key(random, shape, f.model));
        const int often = shape.steps / 5;
        if (random() % often == 0 && captured.size() < 4)
          captured.push_back({f.pager->begin_snapshot(), f.root, f.model});
        if (random() % often == 0) f.checkpoint();
        if (!captured.empty() && random() % often == 0) {
          f.check(captured.front().root, captured.front().model);
          captured.erase(captured.begin());
        }
      }
      f.check(f.root, f.model);
    }
    for (const Captured& c : captured) f.check(c.root, c.model);
    captured.clear();
    f.check_all();
    f.checkpoint();
    f.reopen();
    f.check_all();
    // To the end: every page comes back.
    while (!f.model.empty()) f.remove(some_key(random, shape, f.model));
    CHECK(f.root.page == kNoPage);
    CHECK(f.root.pages == 0);
    f.check_space({});
  }
}

// --- orders --------------------------------------------------------------------------------------

std::string typical_key(std::uint64_t number) {
  return "k" + be64(number) + "-suffix-abc";
}

TEST_CASE_FIXTURE(TreeFixture, "tree: ascending and descending inserts leave full pages") {
  for (const bool ascending : {true, false}) {
    CAPTURE(ascending);
    for (std::uint64_t i = 0; i < 20'000; ++i)
      insert(typical_key(ascending ? i : 1'000'000 - i), "12345678");
    check_all();
    CHECK(leaf_fill() > 0.85);
    must(tree().clear());
    model.clear();
    check_space({});
  }
}

TEST_CASE_FIXTURE(TreeFixture, "tree: several ascending runs leave full pages") {
  Random random(1);
  std::vector<std::uint64_t> next(8);
  for (int i = 0; i < 30'000; ++i) {
    const std::uint64_t run = random() % next.size();
    insert(be64(run) + be64(next[run]++), "12345678");
  }
  check_all();
  CHECK(leaf_fill() > 0.80);
}

TEST_CASE_FIXTURE(TreeFixture, "tree: random inserts and deletes keep pages half full") {
  const std::uint64_t seed = test_seed();
  CAPTURE(seed);
  Random random(seed);
  std::vector<std::string> keys;
  for (int i = 0; i < 20'000; ++i) {
    keys.push_back(random_bytes(random, 20));
    insert(keys.back(), "12345678");
  }
  CHECK(leaf_fill() > 0.6);
  std::shuffle(keys.begin(), keys.end(), random);
  for (const int left : {12'000, 7'000, 3'000, 1'000}) {
    CAPTURE(left);
    for (; keys.size() > static_cast<std::size_t>(left); keys.pop_back()) remove(keys.back());
    check_structure(root);
    CHECK(leaf_fill() > 0.5);
  }
  for (int i = 0; i < 20'000; ++i) {  // churn
    std::swap(keys[random() % keys.size()], keys.back());
    remove(keys.back());
    keys.back() = random_bytes(random, 20);
    insert(keys.back(), "12345678");
  }
  check_all();
  CHECK(leaf_fill() > 0.5);
}

TEST_CASE_FIXTURE(TreeFixture, "tree: a queue does not grow") {
  for (std::uint64_t i = 0; i < 40'000; ++i) {
    insert(typical_key(i), "v");
    if (i >= 500) remove(typical_key(i - 500));
  }
  check_all();
  CHECK(root.pages < 20);
}

TEST_CASE_FIXTURE(TreeFixture, "tree: values of changing size") {
  const std::uint64_t seed = test_seed();
  CAPTURE(seed);
  Random random(seed);
  for (int step = 0; step < 12'000; ++step)
    insert(typical_key(random() % 400), std::string(random() % (kTreeValueSizeMax + 1), 'v'));
  check_all();
  for (std::uint64_t i = 0; i < 400; ++i) insert(typical_key(i), "");
  check_all();
}

// Known kinds of failures of such trees. A leaf whose bytes are mostly of entries that are gone: a
// split that counted them would leave a half without entries.
TEST_CASE_FIXTURE(TreeFixture, "tree: a churned leaf full of dead bytes splits into two that hold something") {
  Random random(11);
  const auto key = [](std::uint64_t n) { return "churned " + be64(n); };
  for (std::uint64_t n = 0; n < 8; ++n) insert(key(n * 1000), std::string(300, 'v'));
  for (int round = 0; round < 4000; ++round) {
    // The same few entries die and come back in other sizes, now and then one more is added.
    const std::uint64_t n = random() % 8 * 1000;
    insert(key(n), std::string(random() % 500, 'w'));
    if (round % 7 == 0) {
      remove(key(n));
      insert(key(n), std::string(300, 'x'));
    }
    if (round % 40 == 0) insert(key(random() % 8000), std::string(random() % kTreeValueSizeMax, 'y'));
    if (round % 100 == 0) check_all();  // no leaf but the root is empty: the structure's check
  }
  check_all();
  CHECK(leaf_fill() > 0.4);
}

// All the bytes of a leaf on one side of the cut, whichever side, and the new entry on either.
TEST_CASE_FIXTURE(TreeFixture, "tree: a split with all large records on one side") {
  for (const bool large_first : {true, false}) {
    for (const std::size_t new_size : {std::size_t{0}, std::size_t{500}, kTreeValueSizeMax}) {
      for (std::uint64_t where = 0; where <= 40; where += 4) {
        const auto value = [&](std::uint64_t n) {
          return std::string((n < 3) == large_first ? kTreeValueSizeMax - 40 : 2, 'v');
        };
        for (std::uint64_t n = 0; n < (large_first ? 40 : 60); ++n)
          insert(be64(n * 10), large_first || n < 57 ? value(n) : std::string(kTreeValueSizeMax - 40, 'v'));
        insert(be64(where * 10 + 5), std::string(new_size, 'n'));
        insert(be64(where * 10 + 6), std::string(kTreeValueSizeMax, 'n'));
        check_all();
        while (!model.empty()) remove(std::string(model.begin()->first));
        check_all();
      }
    }
  }
}

// Removing everything, from either end or at random, joins pages up to the root; nothing of it may
// recurse with the number of entries.
TEST_CASE_FIXTURE(TreeFixture, "tree: a tree of many small entries is drained without deep recursion") {
  Random random(5);
  for (int order = 0; order < 3; ++order) {
    std::vector<std::uint64_t> keys(60'000);
    for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = i;
    for (const std::uint64_t n : keys) insert(be64(n), "");
    if (order == 1) std::reverse(keys.begin(), keys.end());
    if (order == 2) std::shuffle(keys.begin(), keys.end(), random);
    for (const std::uint64_t n : keys) remove(be64(n));
    CHECK(root.page == kNoPage);
    check_all();
  }
}

TEST_CASE_FIXTURE(TreeFixture, "tree: one user key over many leaves") {
  const std::string shared(700, 's');
  Random random(7);
  std::vector<std::uint64_t> ids(4000);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = i;
  std::shuffle(ids.begin(), ids.end(), random);
  for (const std::uint64_t id : ids) insert(shared + be64(id), "");
  insert("a", "");
  insert("z", "");
  check_all();
  CHECK(root.height >= 2);
  CHECK(root.pages < 120);  // the prefix is stored once a page
  TreeCursor cursor(*pager, root);
  must(cursor.seek(shared));
  for (std::uint64_t id = 0; id < ids.size(); ++id) {
    REQUIRE(cursor.key_suffix(8) == be64(id));
    must(cursor.next());
  }
  CHECK(cursor.key() == "z");
  CHECK(must(tree().rank(shared + be64(1000))) == 1001);
}

TEST_CASE_FIXTURE(TreeFixture, "tree: keys that differ only in their overflow part") {
  for (const std::size_t size :
       {node::kInlineKeyMax, node::kInlineKeyMax + 1, node::kInlineKeyMax + overflow::kPayloadMax,
        std::size_t{200'000}, std::size_t{1} << 20}) {
    CAPTURE(size);
    const int count = size > 100'000 ? 24 : 200;
    for (int i = 0; i < count; ++i) {
      std::string key(size, 'q');
      store_be(key.data() + size - 8, static_cast<std::uint64_t>(i * 7 % count));
      insert(key, std::string(size > 100'000 ? 600 : 5, 'v'));
      insert(key.substr(0, size - 9), "shorter");
    }
    check_all();
    CHECK(root.height >= 2);
    const std::string probe_key = std::string(size - 8, 'q') + be64(11);
    probe(probe_key);
    check_rank(probe_key);
    while (!model.empty()) remove(std::next(model.begin(), model.size() / 2)->first);
    check_space({});
  }
}

TEST_CASE_FIXTURE(TreeFixture, "tree: limits and empty things") {
  Buffer value;
  CHECK_FALSE(must(tree().get("a", &value)));
  CHECK(must(tree().rank("a")) == 0);
  TreeCursor cursor(*pager, root);
  must(cursor.seek_first());
  CHECK_FALSE(cursor.valid());
  must(cursor.seek_reverse("x"));
  CHECK_FALSE(cursor.valid());
  CHECK_FALSE(remove("a"));
  CHECK(insert(std::string(), "empty key") == TreeInsert::kInserted);
  CHECK(insert(std::string(1, '\0'), "zero") == TreeInsert::kInserted);
  CHECK(insert(std::string(2, '\0'), "zeros") == TreeInsert::kInserted);
  CHECK(insert(std::string(), "other", false) == TreeInsert::kExists);
  CHECK(insert(std::string(), "other", true) == TreeInsert::kReplaced);
  check_all();
  PageStash stash(*pager);
  must(stash.ensure(10));
  CHECK(tree().insert("k", std::string(kTreeValueSizeMax + 1, 'v'), true, stash).error().code() ==
        ErrorCode::kBadValue);
  CHECK(tree().insert(Bytes(), Bytes(), true, stash) == TreeInsert::kReplaced);
  model[""] = "";
  check_all();
}

TEST_CASE_FIXTURE(TreeFixture, "tree: clear gives every page back, long keys included") {
  Random random(3);
  for (int i = 0; i < 3000; ++i) insert(random_bytes(random, 1 + random() % 1500, 2), "v");
  CHECK(root.height >= 3);
  const Snapshot snapshot = pager->begin_snapshot();
  const TreeRoot before = root;
  must(tree().clear());
  CHECK(root.page == kNoPage);
  check_space({});
  check(before, model);
}

// --- building ------------------------------------------------------------------------------------

TEST_CASE_FIXTURE(TreeFixture, "tree: built trees agree with a map, whatever the keys") {
  const std::uint64_t seed = test_seed();
  CAPTURE(seed);
  Random random(seed);
  for (const Shape& shape : shapes()) {
    CAPTURE(shape.name);
    for (const int size : {0, 1, 2, 50, shape.steps}) {
      model.clear();
      for (int i = 0; i < size; ++i) model[shape.key(random)] = random_value(random, shape);
      {
        TreeBuilder builder(*pager, 3, size % 2 == 0 ? 0.9 : 1.0);
        int step = 0;
        for (const auto& [key, value] : model) {
          must(builder.add(key, value));
          if (++step == size / 2) checkpoint();
        }
        root = must(builder.finish());
        builder.link();
      }
      check_all();
      // It can be changed like any other.
      for (int i = 0; i < 50; ++i) {
        insert(shape.key(random), random_value(random, shape));
        remove(some_key(random, shape, model));
      }
      check_all();
      must(tree().clear());
      check_space({});
    }
  }
  model.clear();
}

TEST_CASE_FIXTURE(TreeFixture, "tree: what is built may be changed before it is linked, or dropped") {
  const std::uint64_t seed = test_seed();
  CAPTURE(seed);
  Random random(seed);
  for (const Shape& shape : shapes()) {
    CAPTURE(shape.name);
    for (const bool linked : {true, false}) {
      model.clear();
      for (int i = 0; i < 400; ++i) model[shape.key(random)] = random_value(random, shape);
      {
        TreeBuilder builder(*pager, 3);
        for (const auto& [key, value] : model) must(builder.add(key, value));
        root = must(builder.finish());
        for (int i = 0; i < 600; ++i) {
          if (i % 100 == 50) checkpoint();  // the generation goes on; its image has none of the pages
          const bool insert = random() % 2 == 0;
          const std::string key =
              insert || random() % 4 == 0 ? shape.key(random) : some_key(random, shape, model);
          must(builder.stash().ensure(tree().pages_needed(Bytes(key))));
          if (insert) {
            const std::string value = random_value(random, shape);
            must(tree().insert(key, value, true, builder.stash()));
            model[key] = value;
          } else {
            REQUIRE(must(tree().remove(key, builder.stash())) == (model.erase(key) == 1));
          }
        }
        check(root, model);
        check_space({});
        if (linked) builder.link();
      }
      if (!linked) {
        check_space({});
        continue;
      }
      checkpoint();
      check_all();
      must(tree().clear());
      check_space({});
    }
  }
  root = TreeRoot{};
  model.clear();
}

TEST_CASE_FIXTURE(TreeFixture, "tree: one long key does not make every change promise as much") {
  for (std::uint64_t i = 0; i < 2000; ++i) insert(typical_key(i), "v");
  insert(typical_key(1000) + std::string(1'000'000, 'l'), "v");
  const std::string far = typical_key(10) + "x";
  CHECK(tree().pages_needed(far.size()) > 200);
  CHECK(tree().pages_needed(Bytes(far)) < 10);
  // Beside it, too: what it has in common with its neighbours is short.
  CHECK(tree().pages_needed(Bytes(typical_key(1001) + "x")) < 12);
  insert(typical_key(1000) + std::string(1'000'000, 'l') + "m", "v");
  CHECK(tree().pages_needed(Bytes(typical_key(1001) + "x")) > 200);
  check_all();
}

TEST_CASE_FIXTURE(TreeFixture, "tree: a builder refuses disorder and leaves nothing behind") {
  {
    TreeBuilder builder(*pager, 3);
    for (std::uint64_t i = 0; i < 5000; ++i) must(builder.add(typical_key(i), "v"));
    CHECK(builder.add(typical_key(4999), "v").code() == ErrorCode::kBadValue);
    CHECK(builder.add(typical_key(5), "v").code() == ErrorCode::kBadValue);
    checkpoint();
  }
  check_space({});
}

TEST_CASE_FIXTURE(TreeFixture, "tree: a million keys built, packed") {
  constexpr std::uint64_t kCount = 1'000'000;
  TreeBuilder builder(*pager, 3, 0.95);
  for (std::uint64_t i = 0; i < kCount; ++i) must(builder.add(typical_key(i * 3), "12345678"));
  root = must(builder.finish());
  builder.link();
  CHECK(root.count == kCount);
  std::vector<PageId> pages;
  check_structure(root, &pages);
  check_space(pages);
  CHECK(leaf_fill() > 0.93);
  CHECK(must(tree().rank(typical_key(3 * 500'000))) == 500'000);
  Buffer value;
  CHECK(must(tree().get(typical_key(3 * 999'999), &value)));
  CHECK_FALSE(must(tree().get(typical_key(3 * 999'999 + 1), &value)));
}

// --- threads and damage --------------------------------------------------------------------------

TEST_CASE_FIXTURE(TreeFixture, "tree: readers of a snapshot beside a writer") {
  for (std::uint64_t i = 0; i < 3000; ++i) insert(typical_key(i * 2), "before");
  const Snapshot snapshot = pager->begin_snapshot();
  const TreeRoot captured = root;
  std::atomic<bool> wrong{false};
  const auto read = [&] {
    for (int round = 0; round < 5; ++round) {
      TreeCursor cursor(*pager, captured);
      std::uint64_t count = 0;
      bool ok = cursor.seek_first().ok();
      for (; ok && cursor.valid(); ok = cursor.next().ok()) {
        if (cursor.key() != typical_key(count * 2) || cursor.value() != "before") wrong = true;
        ++count;
      }
      if (!ok || count != 3000) wrong = true;
    }
  };
  std::thread first(read);
  std::thread second(read);
  for (std::uint64_t i = 0; i < 3000; ++i) {
    insert(typical_key(i * 2 + 1), "after");
    if (i % 3 == 0) remove(typical_key(i * 2));
    if (i % 1000 == 0) checkpoint();
  }
  first.join();
  second.join();
  CHECK_FALSE(wrong);
  check_all();
}

// A tree of three levels, some keys long, whose pages are then damaged.
struct DamagedFixture : TreeFixture {
  std::vector<PageId> pages;

  void build(Random& random, int count) {
    for (int i = 0; i < count; ++i)
      model[random_bytes(random, i % 50 == 0 ? 1200 : 1 + random() % 40, 3)] = "value";
    TreeBuilder builder(*pager, 3, 0.6);
    for (const auto& [key, value] : model) must(builder.add(key, value));
    root = must(builder.finish());
    builder.link();
    check_structure(root, &pages);
  }
  void damage(Random& random) {
    const std::size_t at = 28 + random() % (random() % 2 == 0 ? 200 : kPageSize - 28);
    pager->write(pages[random() % pages.size()])[at] = static_cast<char>(random());
  }
};

TEST_CASE("tree: damaged pages are reported, never followed out of bounds") {
  const std::uint64_t seed = test_seed();
  CAPTURE(seed);
  Random random(seed);
  int reported = 0;
  for (int round = 0; round < 30; ++round) {
    DamagedFixture f;
    f.build(random, 3000);
    for (int i = 0; i < 12; ++i) f.damage(random);
    std::vector<std::string> errors;
    must(f.tree().check(nullptr, &errors));
    if (!errors.empty()) ++reported;
    for (int i = 0; i < 100; ++i) {
      const std::string key = random_bytes(random, 1 + random() % 40, 3);
      Buffer value;
      TreeCursor cursor(*f.pager, f.root);
      if (!f.tree().get(key, &value) || !f.tree().rank(key)) ++reported;
      if (cursor.seek(key).ok())
        for (int j = 0; j < 100 && cursor.valid(); ++j) {
          CHECK(cursor.key().size() <= kTreeKeySizeMax);
          cursor.compare_key(key);
          cursor.key_suffix(1);
          if (!cursor.next().ok()) break;
        }
      if (cursor.seek_reverse(key).ok())
        for (int j = 0; j < 100 && cursor.valid() && cursor.prev().ok();) ++j;
    }
    if (!f.tree().stats()) ++reported;
  }
  CHECK(reported > 30);
}

TEST_CASE("tree: changes of a damaged tree stay within its pages") {
  const std::uint64_t seed = test_seed();
  CAPTURE(seed);
  Random random(seed);
  int reported = 0;
  for (int round = 0; round < 30; ++round) {
    DamagedFixture f;
    f.build(random, 3000);
    PageStash stash(*f.pager);
    auto known = f.model.begin();
    for (int step = 0; step < 1500; ++step) {
      if (step % 100 == 0) f.damage(random);
      const std::string key = random_bytes(random, 1 + random() % 40, 3);
      must(stash.ensure(f.tree().pages_needed(key.size()) + 8));
      if (step % 2 == 0) {
        if (!f.tree().insert(key, std::string(random() % 60, 'v'), true, stash)) ++reported;
      } else if (known != f.model.end()) {
        must(stash.ensure(f.tree().pages_needed(known->first.size()) + 8));
        if (!f.tree().remove((known++)->first, stash)) ++reported;
      }
    }
  }
  CHECK(reported > 30);
}

TEST_CASE("tree: a change that meets a damaged page changes nothing") {
  TreeFixture f;
  {
    TreeBuilder builder(*f.pager, 3);
    for (std::uint64_t i = 0; i < 40'000; ++i) {
      must(builder.add(typical_key(i), "12345678"));
      f.model[typical_key(i)] = "12345678";
    }
    f.root = must(builder.finish());
    builder.link();
  }
  REQUIRE(f.root.height == 3);
  std::vector<PageId> pages;
  f.check_structure(f.root, &pages);  // parents first: root, inner page, its leaves
  const PageId leaf = pages[2];
  const PageId inner = pages[1];
  PageStash stash(*f.pager);
  must(stash.ensure(100));
  for (const PageId bad : {leaf, inner}) {
    char* kind = f.pager->write(bad) + offsetof(PageHeader, kind);
    const char saved = *kind;
    *kind = 77;
    const TreeRoot before = f.root;
    CHECK(f.tree().insert(typical_key(0) + "x", "v", true, stash).error().code() ==
          ErrorCode::kDataCorruptionDetected);
    CHECK(f.tree().remove(typical_key(0), stash).error().code() ==
          ErrorCode::kDataCorruptionDetected);
    CHECK(std::memcmp(&before, &f.root, sizeof before) == 0);
    *kind = saved;
    f.check(f.root, f.model);
  }
}

}  // namespace
}  // namespace multifora
