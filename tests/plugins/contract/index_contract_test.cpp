// What core/plugin/index.h promises, for every registered index kind.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>

#include "core/bson/builder.h"
#include "core/bson/compare.h"
#include "tests/plugins/contract/index_fixture.h"
#include "tests/plugins/contract/registered_host.h"

namespace multifora::contract {
namespace {

constexpr std::uint64_t kBudgetBytes = 64u << 20;
// Pages that a pager keeps back for operations which free space. A document with so many keys that
// removing them may take more has to wait for the disk.
constexpr std::size_t kFreeingPages = 48;

// Calls `test` for each kind and specification, with an empty index.
template <class Test>
void for_each_subject(Test test) {
  const std::uint64_t seed = test::test_seed();
  CAPTURE(seed);
  PluginHost host;
  load_registered(host);
  host.freeze();
  for (const Subject& subject : subjects(host)) {
    CAPTURE(subject.json);
    Bench bench(host, subject, seed);
    test(bench, subject);
  }
}

IndexKeySet keys_of(const Index& index, DocumentView document) {
  IndexKeySet keys;
  if (!index.extract(document, keys).ok()) keys.clear();
  return keys;
}

bool is_scalar(const ValueView& value) {
  return !value.missing() && value.type() != BsonType::kArray &&
         value.type() != BsonType::kUndefined;
}

int sign(int value) {
  return value < 0 ? -1 : value > 0 ? 1 : 0;
}

std::string temp_directory() {
  return std::filesystem::temp_directory_path().string();
}

Status no_progress(std::uint64_t, std::uint64_t) {
  return {};
}

// Adds every entry of `documents`, in an order that is not theirs.
void add_all(IndexBulkBuilder& builder, Bench& bench) {
  std::vector<RecordId> ids;
  for (const auto& [id, document] : bench.documents()) ids.push_back(id);
  std::reverse(ids.begin(), ids.end());
  for (const RecordId id : ids) {
    Status status = builder.add(keys_of(bench.index(), bench.documents().at(id).view()), id);
    if (status.ok()) status = builder.make_room();
    REQUIRE_MESSAGE(status.ok(), status.message());
  }
}

}  // namespace

TEST_CASE("index kinds: rows, claims, and what an open index says of itself") {
  for_each_subject([](Bench& bench, const Subject& subject) {
    CHECK(!subject.kind->name.empty());
    CHECK(subject.spec.view()["name"].as_string() == "i");
    CHECK((bench.index().capabilities() & subject.kind->capabilities) ==
          subject.kind->capabilities);
    CHECK(bench.index().spec().ns == "db.c");
    CHECK(bench.index().stats(IndexState{}).entries == 0);
    bench.check_all();
  });
}

TEST_CASE("keys are sorted and without duplicates") {
  for_each_subject([](Bench& bench, const Subject&) {
    IndexKeySet keys;
    for (int i = 0; i < 3000; ++i) {
      const OwnedDocument document = bench.document();
      if (!bench.index().extract(document.view(), keys).ok()) continue;
      for (std::size_t k = 1; k < keys.keys.size(); ++k)
        CHECK(keys.keys[k - 1].key < keys.keys[k].key);
      for (const IndexKey& key : keys.keys) CHECK(!key.key.empty());
      CHECK(keys_of(bench.index(), document.view()).keys.size() == keys.keys.size());
    }
  });
}

TEST_CASE("keys order as MongoDB orders values, and bounds are made like keys") {
  for_each_subject([](Bench& bench, const Subject& subject) {
    const std::string field = subject.single_field();
    const std::uint32_t can = bench.index().capabilities();
    if (field.empty() || (can & kIndexRange) == 0) return;
    const bool down = subject.descending();
    if (down && (can & kIndexOrder) == 0) return;
    for (int i = 0; i < 3000; ++i) {
      const OwnedDocument one = bench.document(), two = bench.document();
      const ValueView a = one.view()[field], b = two.view()[field];
      if (!is_scalar(a) || !is_scalar(b)) continue;
      const IndexKeySet first = keys_of(bench.index(), one.view());
      const IndexKeySet second = keys_of(bench.index(), two.view());
      REQUIRE(first.keys.size() == 1);
      REQUIRE(second.keys.size() == 1);
      const int wanted = sign(compare_values(a, b)) * (down ? -1 : 1);
      CHECK(sign(first.keys[0].key.compare(second.keys[0].key)) == wanted);
      KeyStringBuilder bound;
      bench.index().append_bound(bound, 0, a);
      CHECK(bound.key() == first.keys[0].key);
    }
  });
}

TEST_CASE("covered keys decode to the original values") {
  for_each_subject([](Bench& bench, const Subject& subject) {
    const std::string field = subject.single_field();
    if (field.empty() || (bench.index().capabilities() & kIndexCovered) == 0) return;
    for (int i = 0; i < 3000; ++i) {
      const OwnedDocument document = bench.document();
      const ValueView value = document.view()[field];
      if (!is_scalar(value)) continue;
      const IndexKeySet keys = keys_of(bench.index(), document.view());
      REQUIRE(keys.keys.size() == 1);
      DocumentBuilder out;
      const Status status = bench.index().decode(keys.keys[0].key, keys.keys[0].type_bits, out);
      REQUIRE_MESSAGE(status.ok(), status.message());
      const OwnedDocument decoded = std::move(out).finish();
      CHECK(identical_values(decoded.view()[field], value));
    }
  });
}

TEST_CASE("inserts and removes agree with a model, through reopening") {
  for_each_subject([](Bench& bench, const Subject&) {
    for (int round = 0; round < 3; ++round) {
      bench.churn(800);
      bench.check_all();
      bench.reopen();
      bench.check_all();
    }
    // A second instance over the same state sees the same.
    const auto again = bench.open(bench.index().state());
    bench.check_walk(*again, bench.index().state(), bench.model());
    CHECK(again->state() == bench.index().state());
  });
}

TEST_CASE("removing everything leaves no page behind, and so does clear") {
  for_each_subject([](Bench& bench, const Subject&) {
    bench.churn(500);
    const auto documents = bench.documents();
    for (const auto& [id, document] : documents) bench.remove(document.view(), id);
    CHECK(bench.model().empty());
    bench.check_all();
    CHECK(bench.pages().size() <= 1);
  });
  for_each_subject([](Bench& bench, const Subject&) {
    bench.churn(500);
    const Status status = bench.index().clear();
    REQUIRE_MESSAGE(status.ok(), status.message());
    const IndexState state = bench.index().state();
    bench.check_walk(bench.index(), state, {});
    CHECK(bench.pages().empty());
    CHECK(bench.index().stats(state).entries == 0);
  });
}

TEST_CASE("a captured state stays as it was while the index changes") {
  for_each_subject([](Bench& bench, const Subject&) {
    bench.churn(400);
    const Bench::Model then = bench.model();
    const IndexState state = bench.index().state();
    const Snapshot snapshot = bench.pager().begin_snapshot();
    bench.churn(600);
    bench.check_walk(bench.index(), state, then);
    bench.check_seeks(bench.index(), state, then, 30);
    bench.check_counts(bench.index(), state, then, 30);
    bench.check_walk(bench.index(), bench.index().state(), bench.model());
    bench.check_structure();
  });
}

TEST_CASE("find_conflict names another record that has one of the keys") {
  for_each_subject([](Bench& bench, const Subject& subject) {
    if ((bench.index().capabilities() & kIndexUnique) == 0) return;
    bench.churn(300);
    for (int i = 0; i < 500; ++i) {
      const OwnedDocument document = bench.document();
      const IndexKeySet keys = keys_of(bench.index(), document.view());
      const RecordId self = 1 + bench.random().below(300);
      std::vector<RecordId> others;
      for (const auto& [entry, bits] : bench.model())
        for (const IndexKey& key : keys.keys)
          if (entry.first == key.key && entry.second != self) others.push_back(entry.second);
      const auto found = bench.index().find_conflict(keys, self);
      REQUIRE_MESSAGE(found.has_value(), found.error().message());
      if (others.empty())
        CHECK(*found == 0);
      else
        CHECK(std::find(others.begin(), others.end(), *found) != others.end());
    }
    CHECK((subject.kind->capabilities & kIndexUnique) != 0);
  });
}

TEST_CASE("a bulk build equals inserts, in memory and beyond its budget") {
  for (const std::uint64_t budget : {kBudgetBytes, std::uint64_t{0}}) {
    for_each_subject([&](Bench& bench, const Subject&) {
      bench.churn(1500);
      const auto builder = bench.index().bulk_builder(budget, temp_directory());
      add_all(*builder, bench);
      auto state = builder->finish(no_progress);
      REQUIRE_MESSAGE(state.has_value(), state.error().message());
      const auto built = bench.open(*state);
      bench.check_walk(*built, *state, bench.model());
      bench.check_seeks(*built, *state, bench.model(), 40);
      bench.check_counts(*built, *state, bench.model(), 40);
      CHECK(built->stats(*state).entries == bench.model().size());
      // Put in place of the old one, it takes changes like any other.
      const Status cleared = bench.index().clear();
      REQUIRE_MESSAGE(cleared.ok(), cleared.message());
      bench.index().set_state(*state);
      builder->link();
      bench.check_structure();
      bench.churn(500);
      bench.check_walk(bench.index(), bench.index().state(), bench.model());
      bench.check_structure();
    });
  }
}

TEST_CASE("a bulk build that is cancelled or dropped leaves nothing behind") {
  for_each_subject([](Bench& bench, const Subject&) {
    bench.churn(600);
    {
      const auto builder = bench.index().bulk_builder(kBudgetBytes, temp_directory());
      add_all(*builder, bench);
      const auto state = builder->finish([](std::uint64_t, std::uint64_t) {
        return Status(ErrorCode::kInterrupted, "cancelled");
      });
      REQUIRE_FALSE(state.has_value());
      CHECK(state.error().code() == ErrorCode::kInterrupted);
    }
    {
      const auto dropped = bench.index().bulk_builder(0, temp_directory());
      add_all(*dropped, bench);
    }
    bench.check_all();
  });
}

TEST_CASE("what a bulk build wrote may be changed before it is linked, or given up") {
  for (const bool linked : {true, false}) {
    for_each_subject([&](Bench& bench, const Subject&) {
      bench.churn(800);
      const auto builder = bench.index().bulk_builder(kBudgetBytes, temp_directory());
      add_all(*builder, bench);
      const auto state = builder->finish(no_progress);
      REQUIRE_MESSAGE(state.has_value(), state.error().message());
      const auto built = bench.open(*state);
      built->set_state(*state);
      // Half of the documents go, with checkpoints in between; what they were comes back at the end.
      std::vector<RecordId> ids;
      for (const auto& [id, document] : bench.documents()) ids.push_back(id);
      for (const bool insert : {false, true}) {
        for (std::size_t i = 0; i < ids.size(); i += 2) {
          const IndexKeySet keys = keys_of(*built, bench.documents().at(ids[i]).view());
          REQUIRE(builder->stash().ensure(built->pages_needed(keys)).ok());
          const Status status = insert ? built->insert(keys, ids[i], builder->stash())
                                       : built->remove(keys, ids[i], builder->stash());
          REQUIRE_MESSAGE(status.ok(), status.message());
          if (i % 128 == 0) bench.checkpoint();
        }
      }
      bench.check_walk(*built, built->state(), bench.model());
      if (linked) {
        REQUIRE(bench.index().clear().ok());
        bench.index().set_state(built->state());
        builder->link();
        bench.check_structure();
        bench.churn(200);
      }
      bench.check_walk(bench.index(), bench.index().state(), bench.model());
      if (linked) bench.check_structure();
    });
  }
}

TEST_CASE("a unique bulk build reports the keys that two records have") {
  for_each_subject([](Bench& bench, const Subject& subject) {
    if (!subject.unique()) return;
    DocumentBuilder b;
    b.append("a", 5);
    const OwnedDocument document = std::move(b).finish();
    const IndexKeySet keys = keys_of(bench.index(), document.view());
    REQUIRE(!keys.keys.empty());
    const auto builder = bench.index().bulk_builder(kBudgetBytes, temp_directory());
    REQUIRE(builder->add(keys, 1).ok());
    REQUIRE(builder->add(keys, 2).ok());
    REQUIRE(builder->add(keys, 3).ok());
    REQUIRE(builder->finish(no_progress).has_value());
    REQUIRE(builder->duplicates().size() == 1);
    CHECK(builder->duplicates()[0].key == keys.keys[0].key);
  });
}

TEST_CASE("a full disk stops inserts before they begin, and removes still work") {
  for_each_subject([](Bench& bench, const Subject&) {
    bench.churn(200);
    bench.files().set_capacity(1);
    bool full = false;
    for (RecordId id = 1'000'000; id < 1'200'000 && !full; ++id) {
      DocumentBuilder b;
      b.append("a", "a value that takes some room in a page " + std::to_string(id));
      const OwnedDocument document = std::move(b).finish();
      const IndexKeySet keys = keys_of(bench.index(), document.view());
      if (keys.keys.empty()) return;  // a kind for other values
      PageStash stash(bench.pager());
      full = stash.ensure(bench.index().pages_needed(keys)).code() == ErrorCode::kOutOfDiskSpace;
      stash.give_back_all();
      if (!full) REQUIRE(bench.insert(document.view(), id));
    }
    CHECK(full);
    bench.check_structure();
    const auto documents = bench.documents();
    std::size_t removed = 0, left = 0;
    for (const auto& [id, document] : documents) {
      const IndexKeySet keys = keys_of(bench.index(), document.view());
      if (bench.index().pages_needed(keys) > kFreeingPages) {
        left += keys.keys.size();
        continue;
      }
      bench.remove(document.view(), id);
      ++removed;
    }
    CHECK(removed > 100);
    CHECK(bench.model().size() == left);
    bench.check_structure();
  });
}

TEST_CASE("damage to a page is reported, and never returned as entries") {
  for_each_subject([](Bench& bench, const Subject&) {
    bench.churn(1200);
    bench.reopen();
    const IndexState state = bench.index().state();
    const std::vector<PageId> pages = bench.pages();
    REQUIRE(!pages.empty());
    bench.close_pager();
    for (const PageId page : pages) {
      const std::uint64_t at = page * kPageSize + bench.random().below(kPageSize);
      const std::string content = bench.files().content("db/data.mfdb");
      const std::string damaged(1, static_cast<char>(content[at] ^ 0x10));
      bench.files().poke("db/data.mfdb", at, damaged);
      REQUIRE(bench.open_pager().ok());
      {
        const auto index = bench.open(state);
        const auto found = Bench::walk(*index, state);
        if (found) CHECK(*found == bench.model());
        std::vector<std::string> errors;
        const Status status = index->check(state, [](PageId) {}, &errors);
        CHECK((!status.ok() || !errors.empty()));
      }
      bench.close_pager();
      bench.files().poke("db/data.mfdb", at, content.substr(at, 1));
    }
    REQUIRE(bench.open_pager().ok());
  });
}

}  // namespace multifora::contract
