#include "plugins/index-wildcard/wildcard_index.h"

#include <doctest/doctest.h>

#include <set>

#include "core/bson/extended_json.h"
#include "core/plugin/plugin.h"
#include "core/storage/pager.h"
#include "tests/support/fault_file_system.h"

const multifora::PluginEntry* multifora_plugin_index_btree();
const multifora::PluginEntry* multifora_plugin_index_wildcard();

namespace multifora {
namespace {

struct Env {
  Env() : files(1) {
    REQUIRE(host.load(*multifora_plugin_index_btree(), "").ok());
    REQUIRE(host.load(*multifora_plugin_index_wildcard(), "").ok());
    host.freeze();
    auto opened = Pager::open(files, "/data.mfdb", PagerOptions(), null_log(), metrics);
    REQUIRE(opened);
    pager = std::move(*opened);
    kind = host.index_kind("wildcard");
    REQUIRE(kind != nullptr);
  }
  int refusal(const char* json) {
    const OwnedDocument spec = *from_extended_json(json);
    REQUIRE(kind->claims(spec.view()) > 0);
    const auto made = kind->normalize(host, spec.view());
    return made ? 0 : static_cast<int>(made.error().code());
  }
  std::unique_ptr<Index> make(const char* json) {
    IndexSpec spec;
    spec.spec = *from_extended_json(json);
    spec.key_pattern = OwnedDocument(spec.spec.view()["key"].as_document());
    spec.name = "i";
    spec.ns = "db.c";
    spec.owner = 1;
    auto opened = kind->open(host, *pager, std::move(spec), IndexState{});
    REQUIRE(opened);
    return std::move(*opened);
  }
  void change(Index& index, const char* json, RecordId id, bool insert) {
    const OwnedDocument document = *from_extended_json(json);
    IndexKeySet keys;
    REQUIRE(index.extract(document.view(), keys).ok());
    PageStash stash(*pager);
    REQUIRE(stash.ensure(index.pages_needed(keys)).ok());
    REQUIRE((insert ? index.insert(keys, id, stash) : index.remove(keys, id, stash)).ok());
  }
  PluginHost host;
  FaultFileSystem files;
  Metrics metrics;
  std::unique_ptr<Pager> pager;
  const IndexKind* kind = nullptr;
};

// Every entry as JSON, marks included (their "$_path" is a number).
std::set<std::string> entries(const Index& index, const char* json) {
  const OwnedDocument document = *from_extended_json(json);
  IndexKeySet keys;
  const Status status = index.extract(document.view(), keys);
  REQUIRE_MESSAGE(status.ok(), status.message());
  std::set<std::string> out;
  for (const IndexKey& key : keys.keys) {
    DocumentBuilder decoded;
    REQUIRE(index.decode(key.key, key.type_bits, decoded).ok());
    const OwnedDocument entry = std::move(decoded).finish();
    out.insert(to_extended_json(entry.view()));
  }
  return out;
}

using Set = std::set<std::string>;

TEST_CASE("specifications") {
  Env env;
  CHECK(env.refusal(R"({"v":2,"key":{"$**":1},"name":"i"})") == 0);
  CHECK(env.refusal(R"({"v":2,"key":{"a.$**":-1},"name":"i"})") == 0);
  CHECK(env.refusal(R"({"v":2,"key":{"$**":1},"name":"i","wildcardProjection":{"a":1}})") == 0);
  CHECK(env.refusal(R"({"v":2,"key":{"t":1,"a.$**":1,"s":-1},"name":"i"})") == 0);
  CHECK(env.refusal(R"({"v":2,"key":{"t":1,"$**":1},"name":"i","wildcardProjection":{"t":0}})") == 0);
  CHECK(env.refusal(R"({"v":2,"key":{"t":1,"$**":1},"name":"i"})") == 67);
  CHECK(env.refusal(R"({"v":2,"key":{"a.b":1,"a.$**":1},"name":"i"})") == 67);
  CHECK(env.refusal(R"({"v":2,"key":{"a":1,"a.$**":1},"name":"i"})") == 67);
  CHECK(env.refusal(R"({"v":2,"key":{"a.$**":1,"b.$**":1},"name":"i"})") == 67);
  CHECK(env.refusal(R"({"v":2,"key":{"a.$**":1,"b":"hashed"},"name":"i"})") == 67);
  CHECK(env.refusal(R"({"v":2,"key":{"$**":1},"name":"i","unique":true})") == 67);
  CHECK(env.refusal(R"({"v":2,"key":{"$**":1},"name":"i","sparse":true})") == 67);
  CHECK(env.refusal(R"({"v":2,"key":{"$**":1},"name":"i","expireAfterSeconds":5})") == 67);
  CHECK(env.refusal(R"({"v":1,"key":{"$**":1},"name":"i"})") == 67);
  CHECK(env.refusal(R"({"v":2,"key":{"a.$**":1},"name":"i","wildcardProjection":{"b":1}})") == 9);
  CHECK(env.refusal(R"({"v":2,"key":{"$**":1},"name":"i","wildcardProjection":{}})") == 9);
  CHECK(env.kind->claims(from_extended_json(R"({"key":{"$**":"text"}})")->view()) == 0);
}

TEST_CASE("entries of one document") {
  Env env;
  const auto all = env.make(R"({"v":2,"key":{"$**":1},"name":"i"})");
  CHECK(entries(*all, R"({"_id":1,"a":1,"b":{"c":"x","d":{}},"n":null})") ==
        Set{R"({"$_path":"a","a":1})", R"({"$_path":"b.c","b.c":"x"})", R"({"$_path":"b.d","b.d":{}})",
            R"({"$_path":"n","n":null})"});
  CHECK(entries(*all, R"({"a":[1,1,{"b":2},[3]]})").size() == 3 + 2);
  CHECK(entries(*all, R"({"a":[]})").size() == 2);
  CHECK(entries(*all, R"({"_id":1})").empty());
  const auto below = env.make(R"({"v":2,"key":{"a.b.$**":1},"name":"i"})");
  CHECK(entries(*below, R"({"a":{"b":{"c":1},"x":2},"b":3})") == Set{R"({"$_path":"a.b.c","a.b.c":1})"});
  CHECK(entries(*below, R"({"a":7})").empty());
  const auto projected =
      env.make(R"({"v":2,"key":{"$**":1},"name":"i","wildcardProjection":{"a.b":0,"_id":1}})");
  CHECK(entries(*projected, R"({"_id":5,"a":{"b":1,"c":2}})") ==
        Set{R"({"$_path":"_id","_id":5})", R"({"$_path":"a.c","a.c":2})"});
}

TEST_CASE("a name with a dot is not mistaken for a path") {
  Env env;
  const auto all = env.make(R"({"v":2,"key":{"$**":1},"name":"i"})");
  CHECK(entries(*all, R"({"a.b":1})") != entries(*all, R"({"a":{"b":1}})"));
  CHECK(entries(*all, R"({"a.b":1})").size() == 1);
}

TEST_CASE("compound: fields before and after, in their directions") {
  Env env;
  const auto index = env.make(R"({"v":2,"key":{"t":1,"a.$**":-1,"s":-1},"name":"i"})");
  CHECK(entries(*index, R"({"t":5,"s":6,"a":{"x":1,"y":"q"}})") ==
        Set{R"({"t":5,"$_path":"a.x","a.x":1,"s":6})", R"({"t":5,"$_path":"a.y","a.y":"q","s":6})"});
  IndexKeySet keys;
  for (const char* json : {R"({"t":[1],"a":{"x":1}})", R"({"t":1,"s":[],"a":{"x":1}})"}) {
    const Status status = index->extract(from_extended_json(json)->view(), keys);
    CHECK(static_cast<int>(status.code()) == 7246301);
  }
}

TEST_CASE("paths are multikey exactly while a document has an array there") {
  Env env;
  const auto index = env.make(R"({"v":2,"key":{"$**":1},"name":"i"})");
  const auto paths = [&](const char* path) {
    auto found = index->paths_for(index->state(), path);
    REQUIRE(found);
    return std::move(*found);
  };
  env.change(*index, R"({"a":{"b":1}})", 1, true);
  CHECK(paths("a.b")->multikey_fields == 0);
  CHECK(paths("a.b")->paths == std::vector<std::string>{"a.b"});
  CHECK(paths("a.0")->paths == std::vector<std::string>{"a.0"});
  CHECK(to_extended_json(paths("a.b")->key_pattern.view()) == R"({"$_path":1,"a.b":1})");
  env.change(*index, R"({"a":[{"b":2}]})", 2, true);
  CHECK(paths("a.b")->multikey_fields == 2);
  CHECK(paths("a")->multikey_fields == 2);
  CHECK(paths("c")->multikey_fields == 0);
  CHECK(paths("a.0.b")->paths == std::vector<std::string>{"a.0.b", "a.b"});
  // What lies in a nested array has no entries of its own.
  env.change(*index, R"({"a":[[{"b":2}]]})", 3, true);
  CHECK(paths("a.b").has_value());
  CHECK_FALSE(paths("a.0.b").has_value());
  env.change(*index, R"({"a":[[{"b":2}]]})", 3, false);
  CHECK(paths("a.0.b").has_value());
  env.change(*index, R"({"a":[{"b":2}]})", 2, false);
  CHECK(paths("a.b")->multikey_fields == 0);
  CHECK_FALSE(paths("_id").has_value());
}

TEST_CASE("whole: whether everything below a path is in the index") {
  Env env;
  const auto index =
      env.make(R"({"v":2,"key":{"$**":1},"name":"i","wildcardProjection":{"a.b":0}})");
  const auto a = index->paths_for(index->state(), "a");
  REQUIRE((a && *a));
  CHECK_FALSE((*a)->whole);
  const auto c = index->paths_for(index->state(), "c");
  REQUIRE((c && *c));
  CHECK((*c)->whole);
  const auto b = index->paths_for(index->state(), "a.b");
  REQUIRE(b);
  CHECK_FALSE(b->has_value());
}

}  // namespace
}  // namespace multifora
