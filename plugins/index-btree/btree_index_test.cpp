// The ordered index over a pager on a file system in memory, against a sorted vector.
#include "plugins/index-btree/btree_index.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <random>

#include "core/bson/builder.h"
#include "core/bson/extended_json.h"
#include "core/plugin/host.h"
#include "core/plugin/plugin.h"
#include "tests/support/fault_file_system.h"
#include "tests/support/instruction_count.h"

const multifora::PluginEntry* multifora_plugin_index_btree();

namespace multifora {

namespace {

constexpr std::uint32_t kAll = kIndexEquality | kIndexRange | kIndexOrder | kIndexCovered |
                               kIndexCount | kIndexUnique;

struct Env {
  Env() : files(1) {
    auto opened = Pager::open(files, "/data.mfdb", PagerOptions(), null_log(), metrics);
    REQUIRE(opened);
    pager = std::move(*opened);
  }
  std::unique_ptr<BtreeIndex> make(const char* key_json, bool unique = false) {
    IndexSpec spec;
    spec.key_pattern = *from_extended_json(key_json);
    DocumentBuilder b;
    b.append("v", 2).append("key", spec.key_pattern.view()).append("name", "i");
    spec.spec = std::move(b).finish();
    spec.name = "i";
    spec.ns = "db.c";
    spec.unique = unique;
    spec.owner = 1;
    return std::make_unique<BtreeIndex>(*pager, std::move(spec), kAll, IndexState{});
  }
  FaultFileSystem files;
  Metrics metrics;
  std::unique_ptr<Pager> pager;
};

OwnedDocument with_value(std::int64_t value) {
  DocumentBuilder b;
  b.append("a", value);
  return std::move(b).finish();
}

IndexKeySet keys_of(const BtreeIndex& index, std::int64_t value) {
  const OwnedDocument document = with_value(value);
  IndexKeySet keys;
  REQUIRE(index.extract(document.view(), keys).ok());
  return keys;
}

void insert(Env& env, BtreeIndex& index, const OwnedDocument& document, RecordId id) {
  IndexKeySet keys;
  REQUIRE(index.extract(document.view(), keys).ok());
  PageStash stash(*env.pager);
  REQUIRE(stash.ensure(index.pages_needed(keys)).ok());
  REQUIRE(index.insert(keys, id, stash).ok());
}

void remove(Env& env, BtreeIndex& index, const OwnedDocument& document, RecordId id) {
  IndexKeySet keys;
  REQUIRE(index.extract(document.view(), keys).ok());
  PageStash stash(*env.pager);
  REQUIRE(stash.ensure(index.pages_needed(keys)).ok());
  REQUIRE(index.remove(keys, id, stash).ok());
}

std::vector<std::pair<std::int64_t, RecordId>> walk(const BtreeIndex& index, bool backward) {
  std::vector<std::pair<std::int64_t, RecordId>> found;
  const auto cursor = index.cursor(index.state());
  REQUIRE((backward ? cursor->seek_reverse({}) : cursor->seek({})).ok());
  while (cursor->valid()) {
    DocumentBuilder out;
    REQUIRE(index.decode(cursor->key(), cursor->type_bits(), out).ok());
    const OwnedDocument decoded = std::move(out).finish();
    found.emplace_back(decoded.view()["a"].as_int64(), cursor->record_id());
    REQUIRE((backward ? cursor->prev() : cursor->next()).ok());
  }
  return found;
}

Buffer bound(const BtreeIndex& index, std::int64_t value) {
  KeyStringBuilder key;
  const OwnedDocument document = with_value(value);
  index.append_bound(key, 0, document.view()["a"]);
  return key.key();
}

TEST_CASE("random inserts and removes agree with a sorted vector, in both directions") {
  const std::uint64_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  for (const char* pattern : {R"({"a":1})", R"({"a":-1})"}) {
    Env env;
    const auto index = env.make(pattern);
    std::vector<std::pair<std::int64_t, RecordId>> model;
    for (RecordId id = 1; id <= 3000; ++id) {
      const auto value = static_cast<std::int64_t>(random() % 500);
      insert(env, *index, with_value(value), id);
      model.emplace_back(value, id);
      if (random() % 3 == 0) {
        const std::size_t victim = random() % model.size();
        remove(env, *index, with_value(model[victim].first), model[victim].second);
        model.erase(model.begin() + static_cast<std::ptrdiff_t>(victim));
      }
    }
    const bool descending = pattern[5] == '-';
    std::sort(model.begin(), model.end(), [&](const auto& a, const auto& b) {
      if (a.first != b.first) return descending ? a.first > b.first : a.first < b.first;
      return a.second < b.second;
    });
    CHECK(walk(*index, false) == model);
    auto reversed = model;
    std::reverse(reversed.begin(), reversed.end());
    CHECK(walk(*index, true) == reversed);
    std::vector<std::string> errors;
    REQUIRE(index->check(index->state(), [](PageId) {}, &errors).ok());
    CHECK(errors.empty());
    for (int i = 0; i < 50; ++i) {
      auto low = static_cast<std::int64_t>(random() % 500);
      auto high = static_cast<std::int64_t>(random() % 500);
      if ((low > high) != descending) std::swap(low, high);
      const auto expected = std::count_if(model.begin(), model.end(), [&](const auto& row) {
        return descending ? row.first <= low && row.first > high
                          : row.first >= low && row.first < high;
      });
      CHECK(*index->count_range(index->state(), bound(*index, low), bound(*index, high)) ==
            static_cast<std::uint64_t>(expected));
    }
  }
}

TEST_CASE("uniqueness is found for another record and not for the same") {
  Env env;
  const auto index = env.make(R"({"a":1})", true);
  insert(env, *index, with_value(5), 1);
  CHECK(*index->find_conflict(keys_of(*index, 5), 0) == 1);
  CHECK(*index->find_conflict(keys_of(*index, 5), 1) == 0);
  CHECK(*index->find_conflict(keys_of(*index, 6), 0) == 0);
}

TEST_CASE("a bulk build, in memory and with spilled runs, equals inserts") {
  for (const bool spill : {false, true}) {
    Env env;
    const auto index = env.make(R"({"a":1})");
    const auto builder = index->bulk_builder(spill ? 0 : 1u << 30, "/tmp");
    std::mt19937_64 random(7);
    std::vector<std::pair<std::int64_t, RecordId>> model;
    const RecordId count = spill ? 600'000 : 20'000;
    for (RecordId id = 1; id <= count; ++id) {
      const auto value = static_cast<std::int64_t>(random() % 100'000);
      REQUIRE(builder->add(keys_of(*index, value), id).ok());
      REQUIRE(builder->make_room().ok());
      model.emplace_back(value, id);
    }
    const auto state = builder->finish([](std::uint64_t, std::uint64_t) { return Status(); });
    REQUIRE(state);
    index->set_state(*state);
    builder->link();
    std::sort(model.begin(), model.end());
    CHECK(walk(*index, false) == model);
    std::vector<std::string> errors;
    REQUIRE(index->check(index->state(), [](PageId) {}, &errors).ok());
    CHECK(errors.empty());
  }
}

// MULTIFORA_COUNT_KEYS: how many keys the index has; 10,000,000 by hand.
TEST_CASE("counting a range of an index costs the same for few keys and for millions") {
  const char* const given = std::getenv("MULTIFORA_COUNT_KEYS");
  const RecordId keys = given != nullptr ? std::strtoull(given, nullptr, 10) : 300'000;
  Env env;
  const auto index = env.make(R"({"a":1})");
  const auto builder = index->bulk_builder(1u << 30, "/tmp");
  IndexKeySet one;
  for (RecordId id = 1; id <= keys; ++id) {
    const OwnedDocument document = with_value(static_cast<std::int64_t>(id));
    REQUIRE(index->extract(document.view(), one).ok());
    REQUIRE(builder->add(one, id).ok());
    REQUIRE(builder->make_room().ok());
  }
  const auto state = builder->finish([](std::uint64_t, std::uint64_t) { return Status(); });
  REQUIRE(state);
  index->set_state(*state);
  builder->link();
  const auto bound = [&](RecordId value) {
    KeyStringBuilder key;
    const OwnedDocument document = with_value(static_cast<std::int64_t>(value));
    index->append_bound(key, 0, document.view()["a"]);
    return key.key();
  };
  std::vector<std::uint64_t> costs;
  for (const RecordId matching : {RecordId{1000}, RecordId{100'000}, keys - 1000}) {
    const Buffer from = bound(501), to = bound(501 + matching);
    CHECK(*index->count_range(*state, from, to) == matching);
    const auto cost = test::count_instructions(
        [&] { static_cast<void>(index->count_range(*state, from, to)); });
    if (!cost) {
      MESSAGE("skipped: processes may not be traced here");
      return;
    }
    costs.push_back(*cost);
    MESSAGE(matching << " matching keys of " << keys << ": " << *cost << " instructions");
  }
  const auto [least, most] = std::minmax_element(costs.begin(), costs.end());
  CHECK(*most <= 2 * *least);
}

TEST_CASE("a unique bulk build reports each clashing key once, and too many of them as an error") {
  for (const bool many : {false, true}) {
    Env env;
    const auto index = env.make(R"({"a":1})", true);
    const auto builder = index->bulk_builder(1u << 30, "/tmp");
    const std::int64_t clashing = many ? kIndexDuplicatesMax + 1 : 3;
    RecordId id = 0;
    for (std::int64_t value = 0; value < 500; ++value)
      for (int copy = 0; copy < (value < clashing ? 4 : 1); ++copy)
        REQUIRE(builder->add(keys_of(*index, value), ++id).ok());
    const auto state = builder->finish([](std::uint64_t, std::uint64_t) { return Status(); });
    CHECK(state.has_value() != many);
    if (!many) CHECK(builder->duplicates().size() == 3);
    if (!many) continue;
    CHECK(state.error().code() == ErrorCode::kDuplicateKey);
    CHECK(state.error().message().find("{ a: 0 }") != std::string::npos);
  }
}

TEST_CASE("the kind claims patterns of directions, but not of documents that expire") {
  PluginHost host;
  REQUIRE(host.load(*multifora_plugin_index_btree(), "").ok());
  const IndexKind* const kind = host.index_kind("btree");
  REQUIRE(kind != nullptr);
  const auto claims = [&](const char* json) {
    const OwnedDocument spec = *from_extended_json(json);
    return kind->claims(spec.view());
  };
  CHECK(claims(R"({"key":{"a":1,"b":-1}})") > 0);
  CHECK(claims(R"({"key":{"a":"hashed"}})") == 0);
  CHECK(claims(R"({"key":{"$**":1}})") == 0);
  CHECK(claims(R"({"key":{"a":1},"expireAfterSeconds":60})") == 0);
}

}  // namespace
}  // namespace multifora
