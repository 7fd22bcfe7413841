// The key sort against std::sort, whatever the keys: short, long, of equal beginnings, equal.
#include "plugins/index-btree/key_sort.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace multifora {
namespace {

using Random = std::mt19937_64;

struct Row {
  std::string key;
  RecordId id;
  std::string type_bits;
  bool operator<(const Row& other) const {
    return key != other.key ? key < other.key : id < other.id;
  }
};

// Keys of an index begin no other key: an end below all other bytes sees to it.
std::string ended(std::string key) {
  for (char& byte : key) byte = static_cast<char>(byte == 0 ? 1 : byte);
  return key + '\0';
}

std::string random_key(Random& random, std::size_t size_max, unsigned alphabet) {
  std::string key(random() % (size_max + 1), '\0');
  for (char& byte : key) byte = static_cast<char>(random() % alphabet);
  return ended(std::move(key));
}

void check_sorted(std::vector<Row> rows, bool ids_ascend) {
  if (!ids_ascend) std::reverse(rows.begin(), rows.end());
  KeySorter sorter;
  for (const Row& row : rows) sorter.add(row.key, row.type_bits, row.id);
  sorter.sort();
  std::sort(rows.begin(), rows.end());
  REQUIRE(sorter.size() == rows.size());
  Buffer key;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    sorter.tree_key(i, &key);
    std::string expected = rows[i].key;
    append_be(expected, rows[i].id);
    REQUIRE(key == expected);
    REQUIRE(sorter.type_bits(i) == rows[i].type_bits);
  }
  sorter.clear();
  CHECK(sorter.size() == 0);
  CHECK(sorter.memory_bytes() == 0);
}

TEST_CASE("keys of every shape come out in order") {
  Random random(11);
  for (const std::size_t count : {0, 1, 2, 100, 255, 256, 3000, 20'000}) {
    for (const auto& [size_max, alphabet, prefix] :
         {std::tuple<std::size_t, unsigned, std::size_t>{3, 256, 0}, {6, 4, 0}, {12, 3, 0},
          {40, 256, 0}, {30, 2, 0}, {20, 256, 7}, {20, 256, 60}, {4, 2, 300}}) {
      const std::string start(prefix, 'p');
      std::vector<Row> rows;
      for (std::size_t i = 0; i < count; ++i) {
        const bool bits = random() % 10 == 0;
        rows.push_back({start + random_key(random, size_max, alphabet), i + 1, bits ? "b" : ""});
      }
      check_sorted(rows, true);
      check_sorted(rows, false);
    }
  }
}

TEST_CASE("keys larger than a block of the arena, and record ids of all sizes") {
  Random random(12);
  std::vector<Row> rows;
  RecordId id = 1;
  for (int i = 0; i < 400; ++i, id += id / 20 + 1) {
    std::string key(i % 40 == 0 ? 200'000 : 1 + random() % 3000, 'x');
    key[random() % key.size()] = 'y';
    rows.push_back({ended(std::move(key)), id, i % 3 == 0 ? "bits" : ""});
  }
  rows.push_back({ended("z"), ~RecordId{0}, ""});
  check_sorted(rows, true);
  check_sorted(rows, false);
}

}  // namespace
}  // namespace multifora
