#include "plugins/index-wildcard/wildcard_scope.h"

#include <doctest/doctest.h>

#include "core/bson/extended_json.h"

namespace multifora {
namespace {

WildcardScope scope(std::string_view root, const char* projection = "{}") {
  const OwnedDocument document = *from_extended_json(projection);
  auto made = WildcardScope::make(root, document.view());
  REQUIRE(made);
  return *made;
}

// O outside, L leads, I inside, W inside with all below.
std::string verdicts(const WildcardScope& scope, std::initializer_list<const char*> paths) {
  std::string out;
  for (const char* path : paths) {
    const auto verdict = scope.at(path);
    out += scope.whole(path)                              ? 'W'
           : verdict == WildcardScope::Verdict::kInside ? 'I'
           : verdict == WildcardScope::Verdict::kLeads  ? 'L'
                                                        : 'O';
  }
  return out;
}

int refusal(const char* projection) {
  const OwnedDocument document = *from_extended_json(projection);
  const auto made = WildcardScope::make("", document.view());
  return made ? 0 : static_cast<int>(made.error().code());
}

TEST_CASE("roots") {
  CHECK(verdicts(scope(""), {"a", "a.b", "_id", "_id.x", "_idx"}) == "WWOOW");
  CHECK(verdicts(scope("a.b"), {"a", "a.b", "a.b.c", "a.bc", "b", "ab"}) == "LWWOOO");
  CHECK(verdicts(scope("_id"), {"_id", "_id.a", "a"}) == "WWO");
}

TEST_CASE("projections") {
  const auto included = scope("", R"({"a.b":1,"c":true})");
  CHECK(verdicts(included, {"a", "a.b", "a.b.x", "a.c", "c", "c.d", "_id", "d"}) == "LWWOWWOO");
  const auto nested = scope("", R"({"a":{"b":1},"_id":1})");
  CHECK(verdicts(nested, {"a", "a.b", "_id", "c"}) == "LWWO");
  const auto excluded = scope("", R"({"a.b":0})");
  CHECK(verdicts(excluded, {"a", "a.b", "a.b.c", "a.c", "c", "_id"}) == "IOOWWO");
  CHECK(verdicts(scope("", R"({"a":0,"_id":1})"), {"a", "b", "_id"}) == "OWW");
  CHECK(verdicts(scope("", R"({"_id":1})"), {"_id", "a"}) == "WO");
  CHECK(verdicts(scope("", R"({"_id":0})"), {"_id", "a"}) == "OW");
}

TEST_CASE("wrong projections") {
  CHECK(refusal(R"({"a":1,"b":0})") == 31254);
  CHECK(refusal(R"({"a":0,"b":1})") == 31253);
  CHECK(refusal(R"({"a":1,"a.b":1})") == 31249);
  CHECK(refusal(R"({"a":{"$slice":1}})") == 16410);
  CHECK(refusal(R"({"a":"x"})") == 51271);
  CHECK(refusal(R"({"a":{}})") == 51270);
}

}  // namespace
}  // namespace multifora
