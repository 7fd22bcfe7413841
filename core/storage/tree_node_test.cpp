// One page against a std::map: in-place changes, rebuilding, cutting in two, damaged bytes.
#include "core/storage/tree_node.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace multifora {
namespace {

using Model = std::map<std::string, std::string>;

// Exactly a page on the heap, so that a sanitizer sees an access outside.
struct Page {
  std::unique_ptr<char[]> bytes{new char[kPageSize]()};
  Page() = default;
  Page(const Page& other) { std::memcpy(bytes.get(), other.bytes.get(), kPageSize); }
  char* data() { return bytes.get(); }
  const char* data() const { return bytes.get(); }
  void init(std::uint32_t level) {
    node::header(data()).page.kind =
        static_cast<std::uint8_t>(level == 0 ? PageKind::kTreeLeaf : PageKind::kTreeInner);
    node::init(data(), level);
  }
};

const node::TailComparer kNoTails{[](void*, Bytes, const char*) -> int {
                                    FAIL("no long keys here");
                                    return 0;
                                  },
                                  nullptr};

std::string key_at(const char* page, std::uint32_t index) {
  node::Entry entry;
  REQUIRE(node::read_entry(page, index, &entry));
  return std::string(node::prefix(page)) + std::string(entry.key, entry.key_size);
}
std::string value_at(const char* page, std::uint32_t index) {
  node::Entry entry;
  REQUIRE(node::read_entry(page, index, &entry));
  return {entry.value, entry.value_size};
}

void check_equal(const Page& page, const Model& model) {
  REQUIRE(node::validate(page.data()) == "");
  REQUIRE(node::header(page.data()).count == model.size());
  std::uint32_t i = 0;
  for (const auto& [key, value] : model) {
    REQUIRE(key_at(page.data(), i) == key);
    REQUIRE(value_at(page.data(), i) == value);
    const node::Found found = node::search(page.data(), key, kNoTails);
    REQUIRE(found.exact);
    REQUIRE(found.index == i);
    ++i;
  }
}

std::uint32_t model_rank(const Model& model, const std::string& key) {
  return static_cast<std::uint32_t>(std::distance(model.begin(), model.lower_bound(key)));
}

struct Shape {
  const char* name;
  std::size_t key_max;
  std::size_t value_max;
  std::size_t prefix;
  int alphabet;
};
const Shape kShapes[] = {
    {"tiny", 3, 2, 0, 4},
    {"binary zeros", 6, 5, 0, 2},
    {"typical", 24, 12, 5, 256},
    {"long prefix", 10, 8, 600, 3},
    {"large", node::kInlineKeyMax, 1024, 0, 256},
    {"no values", 9, 0, 3, 256},
};

std::string random_key(std::mt19937_64& random, const Shape& shape) {
  std::string key;
  // Now and then a key outside of the common prefix.
  if (random() % 16 != 0) key.assign(shape.prefix, 'p');
  const std::size_t size = random() % (shape.key_max + 1);
  for (std::size_t i = 0; i < size && key.size() < node::kInlineKeyMax; ++i)
    key.push_back(static_cast<char>(random() % static_cast<unsigned>(shape.alphabet)));
  return key;
}

std::string random_value(std::mt19937_64& random, const Shape& shape) {
  return std::string(random() % (shape.value_max + 1), static_cast<char>('a' + random() % 26));
}

// Inserts as the tree does: in place, else rebuilt, else cut; keeps a random one of the two parts.
void insert(Page& page, Model& model, const std::string& key, const std::string& value,
            std::mt19937_64& random) {
  char buffer[node::kBodyMax];
  const node::Body body = node::encode(buffer, key, {}, value);
  const node::Found found = node::search(page.data(), key, kNoTails);
  REQUIRE(found.index == model_rank(model, key));
  REQUIRE(found.exact == model.contains(key));
  if (found.exact) {
    if (!node::value_fits_in_place(page.data(), found.index, value.size())) return;
    node::replace_value_in_place(page.data(), found.index, value);
    model[key] = value;
    return;
  }
  model[key] = value;
  if (node::fits_in_place(page.data(), body)) {
    node::insert_in_place(page.data(), found.index, body);
    return;
  }
  const Page copy(page);
  node::Items items(false);
  items.append_page(copy.data());
  items.insert(found.index, node::item_of(body));
  if (items.size_of(0, items.count()) <= kPageSize) {
    items.build(page.data(), 0, 0, items.count());
    REQUIRE(node::used_bytes(page.data()) + node::kHeaderSize == items.size_of(0, items.count()));
    return;
  }
  const std::uint32_t cut = items.choose_cut(found.index, 0);
  Model left(model.begin(), std::next(model.begin(), cut));
  Model right(std::next(model.begin(), cut), model.end());
  Page other;
  other.init(0);
  items.build(page.data(), 0, 0, cut);
  items.build(other.data(), 0, cut, items.count());
  check_equal(page, left);
  check_equal(other, right);
  if (random() % 2 == 0) {
    std::swap(page.bytes, other.bytes);
    model = std::move(right);
  } else {
    model = std::move(left);
  }
}

TEST_CASE("tree_node: random changes agree with a map") {
  const std::uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  for (const Shape& shape : kShapes) {
    CAPTURE(shape.name);
    std::mt19937_64 random(seed);
    Page page;
    page.init(0);
    Model model;
    for (int step = 0; step < 6000; ++step) {
      if (random() % 3 == 0 && !model.empty()) {
        const auto at = static_cast<std::uint32_t>(random() % model.size());
        const auto victim = std::next(model.begin(), at);
        node::remove(page.data(), at);
        model.erase(victim);
      } else {
        insert(page, model, random_key(random, shape), random_value(random, shape), random);
      }
      if (step % 16 == 0) check_equal(page, model);
      const std::string probe = random_key(random, shape);
      const node::Found found = node::search(page.data(), probe, kNoTails);
      REQUIRE(found.index == model_rank(model, probe));
      REQUIRE(found.exact == model.contains(probe));
    }
    check_equal(page, model);
  }
}

TEST_CASE("tree_node: a cut balances bytes, not entries") {
  Page page;
  page.init(0);
  char buffer[node::kBodyMax];
  // Two thirds of the bytes are in the last few entries.
  std::uint32_t index = 0;
  for (; index < 40; ++index)
    node::insert_in_place(page.data(), index,
                          node::encode(buffer, "a" + std::to_string(100 + index), {}, "v"));
  while (true) {
    const std::string key = "b" + std::to_string(100 + index);
    const node::Body body = node::encode(buffer, key, {}, std::string(600, 'v'));
    if (!node::fits_in_place(page.data(), body)) break;
    node::insert_in_place(page.data(), index++, body);
  }
  const node::Body last =
      node::encode(buffer, "b" + std::to_string(100 + index), {}, std::string(600, 'v'));
  node::Items items(false);
  items.append_page(page.data());
  items.append(node::item_of(last));
  const std::uint32_t cut = items.choose_cut(items.count() - 1, 0);
  const std::size_t left = items.size_of(0, cut);
  const std::size_t right = items.size_of(cut, items.count());
  CHECK(cut > 40);
  CHECK(std::max(left, right) - std::min(left, right) < 1300);
}

TEST_CASE("tree_node: cuts of ascending and descending runs leave full pages behind") {
  for (const bool ascending : {true, false}) {
    CAPTURE(ascending);
    Page page;
    page.init(0);
    char buffer[node::kBodyMax];
    int number = 5000;
    node::Body body{};
    std::uint32_t index = 0;
    while (true) {
      number += ascending ? 1 : -1;
      body = node::encode(buffer, "key" + std::to_string(number), {}, "12345678");
      index = ascending ? node::header(page.data()).count : 0;
      if (node::fits_in_place(page.data(), body)) {
        node::insert_in_place(page.data(), index, body);
        continue;
      }
      const Page copy(page);
      node::Items all(false);
      all.append_page(copy.data());
      all.insert(index, node::item_of(body));
      if (all.size_of(0, all.count()) > kPageSize) break;
      const int run = node::run_after(page.data(), index);
      all.build(page.data(), 0, 0, all.count());
      node::set_run(page.data(), index, run);
    }
    node::Items items(false);
    items.append_page(page.data());
    items.insert(index, node::item_of(body));
    const int run = node::header(page.data()).run;
    const std::uint32_t cut = items.choose_cut(index, run);
    const std::size_t behind =
        ascending ? items.size_of(0, cut) : items.size_of(cut, items.count());
    CHECK(behind > kPageSize * 84 / 100);
    CHECK(behind < kPageSize * 97 / 100);
    // Without a run the same page is halved.
    const std::size_t half = items.size_of(0, items.choose_cut(index, 0));
    CHECK(half > kPageSize * 38 / 100);
    CHECK(half < kPageSize * 60 / 100);
  }
}

TEST_CASE("tree_node: a key outside of a long prefix never makes a cut impossible") {
  const std::uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 200; ++round) {
    Page page;
    page.init(0);
    char buffer[node::kBodyMax];
    node::Items first(false);
    const std::string shared(900 - random() % 100, 'm');
    std::vector<std::string> bodies;
    std::vector<node::Body> encoded;
    for (int i = 0; i < 100; ++i) {
      const std::string key = shared + std::to_string(1000 + i);
      const node::Body body = node::encode(buffer, key, {}, std::string(random() % 12, 'v'));
      bodies.emplace_back(body.data, body.size);
      encoded.push_back(body);
    }
    for (std::size_t i = 0; i < bodies.size(); ++i) {
      encoded[i].data = bodies[i].data();
      first.append(node::item_of(encoded[i]));
      if (first.size_of(0, first.count()) > kPageSize) break;
    }
    const std::uint32_t count =
        first.size_of(0, first.count()) > kPageSize ? first.count() - 1 : first.count();
    first.build(page.data(), 0, 0, count);
    const std::string outsider = (random() % 2 == 0 ? std::string(1, 'a') : std::string(1, 'z')) +
                                 std::string(random() % (node::kInlineKeyMax - 1), 'q');
    const node::Body body = node::encode(buffer, outsider, {}, std::string(random() % 1024, 'w'));
    node::Items items(false);
    items.append_page(page.data());
    const node::Found found = node::search(page.data(), outsider, kNoTails);
    items.insert(found.index, node::item_of(body));
    if (items.size_of(0, items.count()) <= kPageSize) continue;
    const std::uint32_t cut = items.choose_cut(found.index, 0);
    CHECK(items.size_of(0, cut) <= kPageSize);
    CHECK(items.size_of(cut, items.count()) <= kPageSize);
  }
}

TEST_CASE("tree_node: inner pages find the child and keep counts") {
  Page page;
  page.init(1);
  char buffer[node::kBodyMax];
  const auto body_of = [&](Bytes key, PageId child, std::uint64_t count) {
    char value[node::kChildSize];
    node::store_child(value, {child, count});
    return node::encode(buffer, key, {}, Bytes(value, sizeof value));
  };
  node::insert_in_place(page.data(), 0, body_of("", 10, 1));
  CHECK(node::search(page.data(), "anything", kNoTails).index == 1);
  for (std::uint32_t i = 1; i < 20; ++i) {
    char key[2] = {'k', static_cast<char>('a' + i)};
    node::insert_in_place(page.data(), i, body_of({key, 2}, 10 + i, (std::uint64_t{1} << 40) + i));
  }
  REQUIRE(node::validate(page.data()) == "");
  node::Child child;
  REQUIRE(node::read_child(page.data(), 7, &child));
  CHECK(child.page == 17);
  CHECK(child.count == (std::uint64_t{1} << 40) + 7);
  node::write_child(page.data(), 7, {0x123456789abc, 0xcba987654321});
  REQUIRE(node::read_child(page.data(), 7, &child));
  CHECK(child.page == 0x123456789abc);
  CHECK(child.count == 0xcba987654321);
  std::uint64_t sum = 0;
  REQUIRE(node::sum_counts(page.data(), 0, 3, &sum));
  CHECK(sum == 1 + 2 * (std::uint64_t{1} << 40) + 3);
  CHECK(node::search(page.data(), "kc", kNoTails).exact);
  CHECK(node::search(page.data(), "kc", kNoTails).index == 2);
  CHECK(node::search(page.data(), "kbzzz", kNoTails).index == 2);
  CHECK(node::search(page.data(), "a", kNoTails).index == 1);
  CHECK(node::search(page.data(), "z", kNoTails).index == 20);
  node::remove(page.data(), 0);
  node::drop_first_key(page.data());
  REQUIRE(node::validate(page.data()) == "");
  CHECK(node::search(page.data(), "kb", kNoTails).index == 1);
  REQUIRE(node::read_child(page.data(), 0, &child));
  CHECK(child.page == 11);

  // A cut takes the key of the right part's first child away.
  const Page copy(page);
  node::Items items(true);
  items.append_page(copy.data());
  const std::uint32_t cut = items.choose_cut(1, 0);
  Page right;
  right.init(1);
  items.build(page.data(), 1, 0, cut);
  items.build(right.data(), 1, cut, items.count());
  CHECK(node::validate(page.data()) == "");
  CHECK(node::validate(right.data()) == "");
  CHECK(node::header(page.data()).count + node::header(right.data()).count == items.count());
  REQUIRE(node::read_child(right.data(), 0, &child));
  CHECK(child.page == 11 + cut);
}

TEST_CASE("tree_node: damaged bytes give wrong answers, never an access outside of the page") {
  const std::uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  std::uint64_t noticed = 0;
  for (int round = 0; round < 4000; ++round) {
    const std::uint32_t level = static_cast<std::uint32_t>(random() % 2);
    Page page;
    page.init(level);
    char buffer[node::kBodyMax];
    std::string value(level > 0 ? node::kChildSize : 9, 'v');
    for (std::uint32_t i = 0; i < 60; ++i) {
      const std::string key = i == 0 && level > 0 ? "" : "key" + std::to_string(100 + i);
      node::insert_in_place(page.data(), i, node::encode(buffer, key, {}, value));
    }
    const int flips = 1 + static_cast<int>(random() % 8);
    for (int i = 0; i < flips; ++i) {
      const std::size_t span =
          random() % 2 == 0 ? node::kHeaderSize + 60 * node::kSlotSize : kPageSize;
      const std::size_t at = 32 + random() % (span - 32);
      page.data()[at] = static_cast<char>(random());
    }
    if (!node::header_ok(page.data(), level)) {
      ++noticed;
      continue;
    }
    const bool sound = node::validate(page.data()).empty();
    if (!sound) ++noticed;
    const node::TailComparer tails{[](void*, Bytes, const char*) { return 1; }, nullptr};
    std::uint64_t sum = 0;
    node::sum_counts(page.data(), 0, node::header(page.data()).count, &sum);
    for (std::uint32_t i = 0; i < node::header(page.data()).count; ++i) {
      node::Entry entry;
      if (!node::read_entry(page.data(), i, &entry)) continue;
      std::uint64_t bytes = 0;
      for (std::uint32_t j = 0; j < entry.body_size; ++j)
        bytes += static_cast<unsigned char>(entry.key[j]);
      CHECK(bytes <= 255u * kPageSize);
      node::search(page.data(), "key" + std::to_string(random() % 200), tails);
    }
    if (sound) {
      node::Items items(level > 0);
      items.append_page(page.data());
      Page other;
      other.init(level);
      if (items.count() > 0) items.build(other.data(), level, 0, items.count());
    }
  }
  CHECK(noticed > 1000);
}

}  // namespace
}  // namespace multifora
