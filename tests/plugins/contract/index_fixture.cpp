#include "tests/plugins/contract/index_fixture.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "core/bson/builder.h"
#include "core/bson/extended_json.h"

namespace multifora::contract {
namespace {

constexpr const char* kPath = "db/data.mfdb";

// One of each shape that a kind may want. A new kind's shape is added here.
constexpr const char* kSpecifications[] = {
    R"({"v":2,"key":{"a":1},"name":"i"})",
    R"({"v":2,"key":{"a":-1},"name":"i"})",
    R"({"v":2,"key":{"a":1,"b":-1},"name":"i"})",
    R"({"v":2,"key":{"a.b":1},"name":"i"})",
    R"({"v":2,"key":{"a":1},"name":"i","sparse":true})",
    R"({"v":2,"key":{"a":1},"name":"i","unique":true})",
    R"({"v":2,"key":{"a":1},"name":"i","expireAfterSeconds":3600})",
    R"({"v":2,"key":{"a":"hashed"},"name":"i"})",
    R"({"v":2,"key":{"a":-1,"b":"hashed"},"name":"i"})",
    R"({"v":2,"key":{"$**":1},"name":"i"})",
    R"({"v":2,"key":{"a.$**":1},"name":"i"})",
    R"({"v":2,"key":{"b":1,"a.$**":-1},"name":"i"})",
    R"({"v":2,"key":{"a":"text"},"name":"i"})",
    R"({"v":2,"key":{"a":"2dsphere"},"name":"i"})",
    R"({"v":2,"key":{"a":"2d"},"name":"i"})",
};

void require(const Status& status) {
  REQUIRE_MESSAGE(status.ok(), status.message());
}

bool starts_with_or_before(const Buffer& key, Bytes prefix) {
  return Bytes(key).starts_with(prefix) || Bytes(key) < prefix;
}

int sign(int value) {
  return value < 0 ? -1 : value > 0 ? 1 : 0;
}

void check_at(const IndexCursor& cursor, const Bench::Model& expected,
              Bench::Model::const_iterator at) {
  if (at == expected.end()) {
    CHECK_FALSE(cursor.valid());
    return;
  }
  REQUIRE(cursor.valid());
  CHECK(cursor.key() == at->first.first);
  CHECK(cursor.record_id() == at->first.second);
  CHECK(cursor.type_bits() == at->second);
}

// The last one in `expected` that `before` holds for, which is true up to some entry.
template <class Before>
Bench::Model::const_iterator last_where(const Bench::Model& expected, Before before) {
  auto found = expected.end();
  for (auto at = expected.begin(); at != expected.end() && before(at->first); ++at) found = at;
  return found;
}

}  // namespace

// ---------------------------------------------------------------- subjects

IndexSpec Subject::open_spec() const {
  IndexSpec made;
  made.spec = spec;
  made.ns = "db.c";
  made.owner = 7;
  made.name = spec.view()["name"].as_string();
  made.key_pattern = OwnedDocument(spec.view()["key"].as_document());
  made.unique = unique();
  made.sparse = spec.view()["sparse"].truthy();
  return made;
}

std::string Subject::single_field() const {
  const DocumentView key = spec.view()["key"].as_document();
  const std::string name(key.first().name());
  const bool plain =
      key.count() == 1 && key.first()->is_number() && name.find_first_of(".$") == std::string::npos;
  return plain ? name : std::string();
}

bool Subject::descending() const {
  return spec.view()["key"].as_document().first()->number_as_double() < 0;
}

std::vector<Subject> subjects(const PluginHost& host) {
  std::vector<Subject> found;
  for (const IndexKind* kind : host.index_kinds()) {
    const std::size_t before = found.size();
    for (const char* json : kSpecifications) {
      const OwnedDocument spec = *from_extended_json(json);
      const bool unique = spec.view()["unique"].truthy();
      if (kind->claims(spec.view()) <= 0 || (unique && (kind->capabilities & kIndexUnique) == 0))
        continue;
      auto normalized = kind->normalize(host, spec.view());
      CAPTURE(json);
      REQUIRE_MESSAGE(normalized.has_value(), normalized.error().message());
      found.push_back({kind, std::string(kind->name) + " " + json, std::move(*normalized)});
    }
    const std::string name(kind->name);
    REQUIRE_MESSAGE(found.size() > before,
                    "no specification here suits the index kind '" << name << "'; add one");
  }
  return found;
}

// ---------------------------------------------------------------- life

Bench::Bench(const PluginHost& host, const Subject& subject, std::uint64_t seed)
    : host_(host), subject_(subject), files_(seed), random_(seed) {
  require(open_pager());
  index_ = open(IndexState{});
}

Bench::~Bench() = default;

Status Bench::open_pager() {
  PagerOptions options;
  options.reserve_bytes = std::uint64_t{1} << 30;
  auto opened = Pager::open(files_, kPath, options, null_log(), metrics_);
  if (!opened) return opened.error();
  pager_ = std::move(*opened);
  return {};
}

std::unique_ptr<Index> Bench::open(const IndexState& state) {
  auto opened = subject_.kind->open(host_, *pager_, subject_.open_spec(), state);
  REQUIRE_MESSAGE(opened.has_value(), opened.error().message());
  return std::move(*opened);
}

void Bench::checkpoint() {
  require(pager_->finish_checkpoint(pager_->begin_checkpoint({1, "meta"})));
}

void Bench::reopen() {
  const IndexState state = index_->state();
  checkpoint();
  close_pager();
  require(open_pager());
  index_ = open(state);
}

// ---------------------------------------------------------------- changes

OwnedDocument Bench::document() {
  DocumentBuilder b;
  if (!random_.one_in(8)) random_.append_value(b, "a", 2);
  if (!random_.one_in(4)) random_.append_value(b, "b", 1);
  return std::move(b).finish();
}

bool Bench::insert(DocumentView document, RecordId id) {
  IndexKeySet keys;
  if (!index_->extract(document, keys).ok()) return false;
  PageStash stash(*pager_);
  const std::size_t needed = index_->pages_needed(keys);
  require(stash.ensure(needed));
  const std::size_t held = stash.size();
  require(index_->insert(keys, id, stash));
  CHECK(held - stash.size() <= needed);
  for (const IndexKey& key : keys.keys) model_[{key.key, id}] = key.type_bits;
  multikey_seen_ |= keys.multikey_fields;
  documents_.insert_or_assign(id, OwnedDocument(document));
  return true;
}

void Bench::remove(DocumentView document, RecordId id) {
  IndexKeySet keys;
  require(index_->extract(document, keys));
  PageStash stash(*pager_);
  const std::size_t needed = index_->pages_needed(keys);
  require(stash.ensure(needed, true));
  const std::size_t held = stash.size();
  require(index_->remove(keys, id, stash));
  CHECK(held - stash.size() <= needed);
  for (const IndexKey& key : keys.keys) model_.erase({key.key, id});
}

bool Bench::would_clash(const IndexKeySet& keys) const {
  return std::any_of(keys.keys.begin(), keys.keys.end(), [&](const IndexKey& key) {
    const auto at = model_.lower_bound({key.key, 0});
    return at != model_.end() && at->first.first == key.key;
  });
}

void Bench::churn(int count) {
  for (int i = 0; i < count; ++i) {
    if (!documents_.empty() && random_.below(5) < 2) {
      auto victim = documents_.lower_bound(1 + random_.below(next_id_));
      if (victim == documents_.end()) victim = documents_.begin();
      const OwnedDocument document = std::move(victim->second);
      const RecordId id = victim->first;
      documents_.erase(victim);
      remove(document.view(), id);
      continue;
    }
    const OwnedDocument fresh = document();
    IndexKeySet keys;
    if (!index_->extract(fresh.view(), keys).ok()) continue;
    if (subject_.unique()) {
      const bool clash = would_clash(keys);
      const auto conflict = index_->find_conflict(keys, next_id_);
      REQUIRE(conflict.has_value());
      CHECK((*conflict != 0) == clash);
      if (clash) continue;
    }
    insert(fresh.view(), next_id_++);
  }
}

// ---------------------------------------------------------------- checks

Result<Bench::Model> Bench::walk(const Index& index, const IndexState& state) {
  Model found;
  const auto cursor = index.cursor(state);
  MULTIFORA_TRY_R(cursor->seek({}));
  while (cursor->valid()) {
    found[{Buffer(cursor->key()), cursor->record_id()}] = cursor->type_bits();
    MULTIFORA_TRY_R(cursor->next());
  }
  return found;
}

void Bench::check_walk(const Index& index, const IndexState& state, const Model& expected) {
  const auto cursor = index.cursor(state);
  require(cursor->seek({}));
  for (auto at = expected.begin(); at != expected.end(); ++at) {
    check_at(*cursor, expected, at);
    require(cursor->next());
  }
  CHECK_FALSE(cursor->valid());
  require(cursor->seek_reverse({}));
  for (auto at = expected.end(); at != expected.begin();) {
    check_at(*cursor, expected, --at);
    require(cursor->prev());
  }
  CHECK_FALSE(cursor->valid());
}

// A whole key, a prefix of one, or bytes that are no key.
Buffer Bench::random_bound(const Model& expected) {
  if (expected.empty() || random_.one_in(10)) {
    Buffer bytes = random_.binary();
    while (bytes.ends_with('\0')) bytes.pop_back();
    return bytes;
  }
  auto at = expected.lower_bound({random_.binary(), 0});
  if (at == expected.end()) at = expected.begin();
  std::advance(at, random_.below(std::min<std::uint64_t>(
                       20, static_cast<std::uint64_t>(std::distance(at, expected.end())))));
  Buffer key = at->first.first;
  if (random_.one_in(3)) key.resize(random_.below(key.size() + 1));
  // What comes after every key that starts so; a zero would not tell the key from its entries.
  if (random_.one_in(6)) key.push_back(static_cast<char>(1 + random_.below(255)));
  return key;
}

void Bench::check_seeks(const Index& index, const IndexState& state, const Model& expected,
                        int count) {
  const auto cursor = index.cursor(state);
  for (int i = 0; i < count; ++i) {
    const Buffer key = random_bound(expected);
    require(cursor->seek(key));
    check_at(*cursor, expected, expected.lower_bound({key, 0}));
    if (cursor->valid()) {
      const Buffer other = random_bound(expected);
      CHECK(sign(cursor->compare_key(other)) == sign(cursor->key().compare(other)));
    }
    require(cursor->seek_reverse(key));
    check_at(*cursor, expected, last_where(expected, [&](const Entry& entry) {
      return starts_with_or_before(entry.first, key);
    }));
    if (expected.empty()) continue;
    // With a record id: from a whole key on.
    auto at = expected.lower_bound({key, 0});
    if (at == expected.end()) at = expected.begin();
    const Entry entry{at->first.first, at->first.second + random_.below(3) - 1};
    if (entry.second == 0) continue;
    require(cursor->seek(entry.first, entry.second));
    check_at(*cursor, expected, expected.lower_bound(entry));
    require(cursor->seek_reverse(entry.first, entry.second));
    check_at(*cursor, expected,
             last_where(expected, [&](const Entry& other) { return other <= entry; }));
  }
}

void Bench::check_counts(const Index& index, const IndexState& state, const Model& expected,
                         int count) {
  for (int i = 0; i < count; ++i) {
    const Buffer from = random_.one_in(8) ? Buffer() : random_bound(expected);
    const Buffer to = random_.one_in(8) ? Buffer() : random_bound(expected);
    std::uint64_t wanted = 0;
    for (const auto& [entry, bits] : expected)
      if (entry.first >= from && (to.empty() || entry.first < to)) ++wanted;
    const auto counted = index.count_range(state, from, to);
    REQUIRE_MESSAGE(counted.has_value(), counted.error().message());
    CHECK(*counted == wanted);
  }
}

std::vector<PageId> Bench::pages() {
  std::vector<PageId> found;
  std::vector<std::string> errors;
  require(index_->check(index_->state(), [&](PageId id) { found.push_back(id); }, &errors));
  CHECK_MESSAGE(errors.empty(), (errors.empty() ? std::string() : errors.front()));
  return found;
}

void Bench::check_structure() {
  const std::vector<PageId> used = pages();
  std::vector<std::string> errors;
  SpaceCheck* const check = pager_->begin_check();
  for (const PageId id : used) pager_->check_page(check, id, "index");
  pager_->finish_check(check, &errors);
  CHECK_MESSAGE(errors.empty(), (errors.empty() ? std::string() : errors.front()));
  const IndexStats stats = index_->stats(index_->state());
  CHECK(stats.entries == model_.size());
  CHECK(stats.size_bytes == used.size() * kPageSize);
}

void Bench::check_all() {
  const IndexState state = index_->state();
  check_walk(*index_, state, model_);
  check_seeks(*index_, state, model_, 60);
  check_counts(*index_, state, model_, 40);
  check_structure();
  CHECK((index_->multikey_fields(state) & multikey_seen_) == multikey_seen_);
}

}  // namespace multifora::contract
