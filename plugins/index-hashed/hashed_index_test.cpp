#include "plugins/index-hashed/hashed_index.h"

#include <doctest/doctest.h>

#include "core/bson/extended_json.h"
#include "core/plugin/plugin.h"
#include "core/storage/pager.h"
#include "tests/support/fault_file_system.h"

const multifora::PluginEntry* multifora_plugin_index_btree();
const multifora::PluginEntry* multifora_plugin_index_hashed();

namespace multifora {
namespace {

struct Env {
  Env() : files(1) {
    REQUIRE(host.load(*multifora_plugin_index_btree(), "").ok());
    REQUIRE(host.load(*multifora_plugin_index_hashed(), "").ok());
    host.freeze();
    auto opened = Pager::open(files, "/data.mfdb", PagerOptions(), null_log(), metrics);
    REQUIRE(opened);
    pager = std::move(*opened);
    kind = host.index_kind("hashed");
    REQUIRE(kind != nullptr);
  }
  int refusal(const char* json) {
    const OwnedDocument spec = *from_extended_json(json);
    REQUIRE(kind->claims(spec.view()) > 0);
    const auto made = kind->normalize(host, spec.view());
    return made ? 0 : static_cast<int>(made.error().code());
  }
  std::unique_ptr<Index> make(const char* key, bool sparse = false) {
    IndexSpec spec;
    spec.key_pattern = *from_extended_json(key);
    spec.name = "i";
    spec.ns = "db.c";
    spec.owner = 1;
    spec.sparse = sparse;
    auto opened = kind->open(host, *pager, std::move(spec), IndexState{});
    REQUIRE(opened);
    return std::move(*opened);
  }
  PluginHost host;
  FaultFileSystem files;
  Metrics metrics;
  std::unique_ptr<Pager> pager;
  const IndexKind* kind = nullptr;
};

Buffer key_of(const Index& index, const char* json) {
  const OwnedDocument document = *from_extended_json(json);
  IndexKeySet keys;
  const Status status = index.extract(document.view(), keys);
  REQUIRE_MESSAGE(status.ok(), status.message());
  return keys.keys.empty() ? Buffer() : keys.keys[0].key;
}

std::int64_t hash_of(const char* json) {
  const OwnedDocument document = *from_extended_json(json);
  return index_hash(document.view()["a"], nullptr);
}

TEST_CASE("specifications") {
  Env env;
  CHECK(env.refusal(R"({"v":2,"key":{"a":"hashed"},"name":"i"})") == 0);
  CHECK(env.refusal(R"({"v":2,"key":{"a":1,"b":"hashed","c":-1},"name":"i"})") == 0);
  CHECK(env.refusal(R"({"v":2,"key":{"a":"hashed","b":"hashed"},"name":"i"})") == 31303);
  CHECK(env.refusal(R"({"v":2,"key":{"a":"hashed"},"name":"i","unique":true})") == 16764);
  CHECK(env.refusal(R"({"v":2,"key":{"a":"hashed"},"name":"i","prepareUnique":true})") == 16764);
  CHECK(env.refusal(R"({"v":2,"key":{"a":"hashed"},"name":"i","wildcardProjection":{"a":1}})") == 2);
  const auto claims = [&](const char* json) {
    return env.kind->claims(from_extended_json(json)->view());
  };
  CHECK(claims(R"({"key":{"a":1}})") == 0);
  CHECK(claims(R"({"key":{"a":"text"}})") == 0);
  CHECK(claims(R"({"key":{"a":"hashed","b":"text"}})") == 0);
  CHECK(claims(R"({"key":{"a":"hashed"},"expireAfterSeconds":1})") == 0);
}

TEST_CASE("the hash is persisted: these values must never change") {
  CHECK(hash_of(R"({"a":1})") == INT64_C(5510852781233491638));
  CHECK(hash_of(R"({"a":"text"})") == INT64_C(-2116719303120441062));
  CHECK(hash_of(R"({"a":null})") == INT64_C(3622887472839136718));
}

TEST_CASE("equal values have one hash") {
  const std::int64_t two = hash_of(R"({"a":2})");
  CHECK(two == hash_of(R"({"a":{"$numberLong":"2"}})"));
  CHECK(two == hash_of(R"({"a":{"$numberDouble":"2.0"}})"));
  CHECK(two == hash_of(R"({"a":{"$numberDecimal":"2.00"}})"));
  CHECK(two != hash_of(R"({"a":2.5})"));
  CHECK(two != hash_of(R"({"a":"2"})"));
  CHECK(hash_of(R"({"a":{"x":1}})") == hash_of(R"({"a":{"x":1.0}})"));
  CHECK(hash_of(R"({"a":{"x":1}})") != hash_of(R"({"a":{"y":1}})"));
}

TEST_CASE("keys: missing is null, arrays are refused anywhere on a path") {
  Env env;
  const auto index = env.make(R"({"a.b":"hashed"})");
  CHECK(key_of(*index, R"({})") == key_of(*index, R"({"a":{"b":null}})"));
  CHECK(key_of(*index, R"({"a":5})") == key_of(*index, R"({})"));
  CHECK(key_of(*index, R"({"a":{"b":1}})") != key_of(*index, R"({})"));
  for (const char* json : {R"({"a":[]})", R"({"a":[{"b":1}]})", R"({"a":{"b":[1]}})"}) {
    IndexKeySet keys;
    const Status status = index->extract(from_extended_json(json)->view(), keys);
    CHECK(static_cast<int>(status.code()) == 16766);
  }
  const auto compound = env.make(R"({"a":1,"b":"hashed"})");
  IndexKeySet keys;
  const OwnedDocument array = *from_extended_json(R"({"a":[1],"b":1})");
  CHECK(static_cast<int>(compound->extract(array.view(), keys).code()) == 16766);
  const auto sparse = env.make(R"({"a":"hashed"})", true);
  CHECK(key_of(*sparse, R"({"b":1})").empty());
  CHECK_FALSE(key_of(*sparse, R"({"a":null})").empty());
}

TEST_CASE("what it can do for a query") {
  Env env;
  const auto alone = env.make(R"({"a":"hashed"})");
  CHECK(alone->capabilities() == (kIndexEquality | kIndexCount));
  const auto compound = env.make(R"({"a":-1,"b":"hashed"})");
  CHECK((compound->capabilities() & (kIndexRange | kIndexOrder | kIndexCovered)) ==
        (kIndexRange | kIndexOrder | kIndexCovered));
  const OwnedDocument document = *from_extended_json(R"({"a":7,"b":"x"})");
  IndexKeySet keys;
  REQUIRE(compound->extract(document.view(), keys).ok());
  KeyStringBuilder bound;
  compound->append_bound(bound, 0, document.view()["a"]);
  compound->append_bound(bound, 1, document.view()["b"]);
  CHECK(bound.key() == keys.keys[0].key);
  DocumentBuilder out;
  REQUIRE(compound->decode(keys.keys[0].key, keys.keys[0].type_bits, out).ok());
  const OwnedDocument decoded = std::move(out).finish();
  CHECK(decoded.view()["a"].as_int32() == 7);
  CHECK(decoded.view()["b"].as_int64() == index_hash(document.view()["b"], nullptr));
}

TEST_CASE("without an ordered kind it says what to load") {
  PluginHost host;
  REQUIRE(host.load(*multifora_plugin_index_hashed(), "").ok());
  host.freeze();
  const auto kind = find_ordered_kind(host, "hashed");
  REQUIRE_FALSE(kind);
  CHECK(kind.error().message().find("index-btree") != std::string::npos);
}

}  // namespace
}  // namespace multifora
