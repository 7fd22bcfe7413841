#include "plugins/query-engine/projection.h"

#include <doctest/doctest.h>

#include "plugins/query-engine/query_test_util.h"

using namespace multifora;
using test::doc;

namespace {

Result<std::string> project(std::string_view spec, std::string_view document,
                            ProjectionKind kind = ProjectionKind::kFind,
                            std::string_view filter = "{}") {
  const OwnedDocument parsed_filter = doc(filter);
  const OwnedDocument parsed_spec = doc(spec);
  const OwnedDocument target = doc(document);
  VariableScope scope;
  auto matcher = Matcher::compile(parsed_filter.view(), {});
  REQUIRE(matcher.has_value());
  MULTIFORA_ASSIGN_R(auto projection,
                     Projection::parse(parsed_spec.view(), kind, matcher->get(), {}, scope));
  EvalContext context;
  MatchDetails details;
  REQUIRE((*matcher)->matches(target.view(), nullptr, &details).value());
  Buffer out;
  MULTIFORA_TRY_R(projection->apply({target.view(), &details}, context, out));
  return test::text(out);
}

std::string find(std::string_view spec, std::string_view document, std::string_view filter = "{}") {
  auto result = project(spec, document, ProjectionKind::kFind, filter);
  return result ? *result : "error " + std::to_string(static_cast<int>(result.error().code()));
}
std::string add_fields(std::string_view spec, std::string_view document) {
  auto result = project(spec, document, ProjectionKind::kAddFields);
  return result ? *result : "error " + std::to_string(static_cast<int>(result.error().code()));
}

constexpr std::string_view kDocument =
    "{'_id': 1, 'a': {'b': 1, 'c': 2}, 'd': [{'e': 1, 'f': 2}, 3]}";

}  // namespace

TEST_CASE("inclusion and exclusion") {
  CHECK(find("{}", kDocument) == test::same(kDocument));
  CHECK(find("{'a.b': 1}", kDocument) == test::same("{'_id': 1, 'a': {'b': 1}}"));
  CHECK(find("{'a': {'c': 1}, '_id': 0}", kDocument) == test::same("{'a': {'c': 2}}"));
  CHECK(find("{'d.e': 1}", kDocument) == test::same("{'_id': 1, 'd': [{'e': 1}]}"));
  CHECK(find("{'d.e': 0, 'a': 0}", kDocument) == test::same("{'_id': 1, 'd': [{'f': 2}, 3]}"));
  CHECK(find("{'_id': 0}", "{'_id': 1, 'x': 1}") == test::same("{'x': 1}"));
  CHECK(find("{'_id': 1}", "{'_id': 1, 'x': 1}") == test::same("{'_id': 1}"));
}

TEST_CASE("what 8.0 refuses") {
  CHECK(find("{'a': 1, 'd': 0}", kDocument) == "error 31254");
  CHECK(find("{'a': 0, 'd': 1}", kDocument) == "error 31253");
  CHECK(find("{'a': 1, 'a.b': 1}", kDocument) == "error 31249");
  CHECK(find("{'a.b': 1, 'a': 1}", kDocument) == "error 31250");
  CHECK(find("{'a': {}}", kDocument) == "error 51270");
  CHECK(find("{'d.$.e': 1}", kDocument) == "error 31394");
  CHECK(find("{'d.$': 0}", kDocument) == "error 31395");
  CHECK(find("{'d.$': 1}", kDocument) == "error 31277");
  CHECK(find("{'a': {'$meta': 'textScore'}}", kDocument) == "error 40218");
  CHECK(find("{'a': {'$meta': 'foo'}}", kDocument) == "error 17308");
  CHECK(find("{'a': {'$foo': 1}}", kDocument) == "error 31325");
  CHECK(find("{'a': 0, 'x': '$d'}", kDocument) == "error 31252");
  CHECK(find("{'d': {'$elemMatch': 1}}", kDocument) == "error 31274");
  CHECK(find("{'a.d': {'$elemMatch': {'x': 1}}}", kDocument) == "error 31275");
}

TEST_CASE("computed fields come last in an inclusion") {
  CHECK(find("{'n': '$a.b', '_id': 1}", kDocument) == test::same("{'_id': 1, 'n': 1}"));
  CHECK(find("{'d': '$a.b', 'a': 1}", kDocument) ==
        test::same("{'_id': 1, 'a': {'b': 1, 'c': 2}, 'd': 1}"));
}

TEST_CASE("$slice, $elemMatch and $") {
  CHECK(find("{'x': {'$slice': 2}}", "{'_id': 1, 'x': [1, 2, 3], 'y': 1}") ==
        test::same("{'_id': 1, 'x': [1, 2], 'y': 1}"));
  CHECK(find("{'x': {'$slice': -1}}", "{'_id': 1, 'x': [1, 2, 3]}") ==
        test::same("{'_id': 1, 'x': [3]}"));
  CHECK(find("{'x': {'$slice': [-2, 1]}}", "{'_id': 1, 'x': [1, 2, 3]}") ==
        test::same("{'_id': 1, 'x': [2]}"));
  CHECK(find("{'x': {'$elemMatch': {'$gt': 1}}}", "{'_id': 1, 'x': [1, 2, 3], 'y': 1}") ==
        test::same("{'_id': 1, 'x': [2]}"));
  CHECK(find("{'x.$': 1}", "{'_id': 1, 'x': [1, 2, 3]}", "{'x': {'$gt': 1}}") ==
        test::same("{'_id': 1, 'x': [2]}"));
  CHECK(find("{'x.k.$': 1}", "{'_id': 1, 'x': [{'k': 1}, {'k': 2, 'j': 3}]}", "{'x.k': 2}") ==
        test::same("{'_id': 1, 'x': [{'k': 2}]}"));
}

TEST_CASE("$addFields replaces in place and makes objects") {
  CHECK(add_fields("{'a.b': 9, 'z': 'x'}", kDocument) ==
        test::same("{'_id': 1, 'a': {'b': 9, 'c': 2}, 'd': [{'e': 1, 'f': 2}, 3], 'z': 'x'}"));
  CHECK(add_fields("{'d.g': 1}", kDocument) ==
        test::same("{'_id': 1, 'a': {'b': 1, 'c': 2}, 'd': [{'e': 1, 'f': 2, 'g': 1}, {'g': 1}]}"));
  CHECK(add_fields("{'a': '$$REMOVE'}", "{'_id': 1, 'a': 2}") == test::same("{'_id': 1}"));
  CHECK(add_fields("{'a': 1, 'a.b': 2}", kDocument) == "error 40176");
}

TEST_CASE("dependencies and covering") {
  VariableScope scope;
  const OwnedDocument spec = doc("{'a.b': 1, 'x': '$y', '_id': 0}");
  auto projection = Projection::parse(spec.view(), ProjectionKind::kFind, nullptr, {}, scope);
  REQUIRE(projection.has_value());
  std::vector<std::string> paths;
  CHECK((*projection)->add_dependencies(paths));
  CHECK(paths == std::vector<std::string>{"a.b", "y"});
  CHECK_FALSE((*projection)->simple_inclusion());
  const OwnedDocument plain = doc("{'a.b': 1, '_id': 0}");
  auto simple = Projection::parse(plain.view(), ProjectionKind::kFind, nullptr, {}, scope);
  CHECK((*simple)->simple_inclusion());
  CHECK((*simple)->is_inclusion());
}

TEST_CASE("many fields are found as few are") {
  std::string spec = "{'_id': 0";
  std::string document = "{'_id': 1";
  std::string kept = "{";
  for (int i = 0; i < 100; ++i) {
    const std::string name = "'f" + std::to_string(i) + "'";
    if (i % 2 == 0) spec += ", " + name + ": 1";
    document += ", " + name + ": " + std::to_string(i);
    if (i % 2 == 0) kept += (i > 0 ? ", " : "") + name + ": " + std::to_string(i);
  }
  CHECK(find(spec + "}", document + "}") == test::same(kept + "}"));
  CHECK(find(spec + ", 'f50.x': 1}", document + "}") == "error 31249");
}
