#include "plugins/query-engine/update.h"

#include <doctest/doctest.h>

#include "core/base/limits.h"
#include "plugins/query-engine/query_test_util.h"

using namespace multifora;
using test::doc;

namespace {

struct Applied {
  std::string text;
  bool changed = false;
};

Result<Applied> apply(std::string_view spec, std::string_view document, bool is_insert = false,
                      std::string_view array_filters = "{}") {
  const OwnedDocument wrapped = doc("{'u': " + std::string(spec) + "}");
  const OwnedDocument before = doc(document);
  const OwnedDocument filters = doc("{'f': " + std::string(array_filters) + "}");
  UpdateOptions options;
  if (filters.view()["f"].type() == BsonType::kArray)
    options.array_filters = filters.view()["f"].as_document();
  VariableScope scope;
  MULTIFORA_ASSIGN_R(auto update, Update::compile(wrapped.view()["u"], options, scope));
  EvalContext context;
  UpdateInput input;
  input.document = before.view();
  input.is_insert = is_insert;
  input.now_ms = 1234;
  input.cluster_time = std::uint64_t{7} << 32 | 1;
  Buffer out;
  MULTIFORA_ASSIGN_R(const bool changed, update->apply(input, context, out));
  return Applied{test::text(out), changed};
}

std::string updated(std::string_view spec, std::string_view document, bool is_insert = false) {
  auto result = apply(spec, document, is_insert);
  return result ? result->text
                : "error " + std::to_string(static_cast<int>(result.error().code()));
}

std::string seed(std::string_view filter, bool replacement = false) {
  const OwnedDocument parsed = doc(filter);
  auto matcher = Matcher::compile(parsed.view(), {});
  REQUIRE(matcher.has_value());
  auto made = upsert_seed(**matcher, replacement);
  return made ? test::text(made->view())
              : "error " + std::to_string(static_cast<int>(made.error().code()));
}

}  // namespace

TEST_CASE("fields keep their places, new ones are made in order of their names") {
  CHECK(updated("{'$set': {'b': 9, 'z': 1, 'c': 2}}", "{'_id': 1, 'b': 1, 'a': 2}") ==
        test::same("{'_id': 1, 'b': 9, 'a': 2, 'c': 2, 'z': 1}"));
  CHECK(updated("{'$set': {'a.10': 1, 'a.9': 2}}", "{'_id': 1}") ==
        test::same("{'_id': 1, 'a': {'9': 2, '10': 1}}"));
  CHECK(updated("{'$set': {'a.3': 1}}", "{'_id': 1, 'a': [0]}") ==
        test::same("{'_id': 1, 'a': [0, null, null, 1]}"));
}

TEST_CASE("an update that changes nothing says so") {
  CHECK_FALSE(apply("{'$set': {'a': 1}}", "{'_id': 1, 'a': 1}")->changed);
  CHECK(apply("{'$set': {'a': {'$numberLong': '1'}}}", "{'_id': 1, 'a': 1}")->changed);
  CHECK_FALSE(apply("{'$unset': {'x': 1}}", "{'_id': 1}")->changed);
  CHECK_FALSE(apply("{'$set': {}}", "{'_id': 1}")->changed);
  CHECK_FALSE(apply("{'$inc': {'a': 0}}", "{'_id': 1, 'a': 5}")->changed);
}

TEST_CASE("_id does not change") {
  CHECK(updated("{'$set': {'_id': 2}}", "{'_id': 1}") == "error 66");
  CHECK(updated("{'$unset': {'_id': 1}}", "{'_id': 1}") == "error 66");
  CHECK(updated("{'_id': 2, 'a': 1}", "{'_id': 1}") == "error 66");
  CHECK(updated("{'a': 1}", "{'_id': 1, 'b': 2}") == test::same("{'_id': 1, 'a': 1}"));
  CHECK(updated("[{'$project': {'b': 1, '_id': 0}}]", "{'_id': 1, 'b': 2}") ==
        test::same("{'_id': 1, 'b': 2}"));
  CHECK(updated("[{'$set': {'_id': 7}}]", "{'_id': 1}") == "error 66");
  CHECK(updated("{'$set': {'_id': [1]}}", "{}", true) == "error 53");
}

TEST_CASE("an insert puts _id first and takes $setOnInsert") {
  CHECK(updated("{'$set': {'z': 1, '_id': 5}, '$setOnInsert': {'y': 2}}", "{'a': 1}", true) ==
        test::same("{'_id': 5, 'a': 1, 'y': 2, 'z': 1}"));
  CHECK(updated("{'$setOnInsert': {'y': 2}}", "{'_id': 1}") == test::same("{'_id': 1}"));
}

TEST_CASE("array filters") {
  CHECK(apply("{'$set': {'a.$[e].k': 9}}", "{'_id': 1, 'a': [{'k': 1}, {'k': 2}]}", false,
              "[{'e.k': {'$gt': 1}}]")
            ->text == test::same("{'_id': 1, 'a': [{'k': 1}, {'k': 9}]}"));
  CHECK(apply("{'$inc': {'a.$[]': 1}}", "{'_id': 1, 'a': [1, 2]}")->text ==
        test::same("{'_id': 1, 'a': [2, 3]}"));
  CHECK(apply("{'$set': {'a.$[e]': 9}}", "{'_id': 1}", false).error().code() ==
        ErrorCode::kBadValue);
  CHECK(apply("{'$set': {'b': 9}}", "{'_id': 1}", false, "[{'e': 1}]").error().code() ==
        ErrorCode::kFailedToParse);
  // Two filters that fall on one element.
  CHECK(apply("{'$set': {'a.$[x]': 1, 'a.$[y]': 2}}", "{'_id': 1, 'a': [5]}", false,
              "[{'x': 5}, {'y': 5}]")
            .error()
            .code() == ErrorCode::kConflictingUpdateOperators);
}

TEST_CASE("the current date and the cluster's time") {
  CHECK(updated("{'$currentDate': {'d': true, 't': {'$type': 'timestamp'}}}", "{'_id': 1}") ==
        test::same("{'_id': 1, 'd': {'$date': {'$numberLong': '1234'}}, 't': {'$timestamp': {'t': "
                   "7, 'i': 1}}}"));
  CHECK(updated("{'t': {'$timestamp': {'t': 0, 'i': 0}}}", "{'_id': 1}") ==
        test::same("{'_id': 1, 't': {'$timestamp': {'t': 7, 'i': 1}}}"));
}

TEST_CASE("mistakes have MongoDB's codes") {
  CHECK(updated("{'$foo': {'a': 1}}", "{'_id': 1}") == "error 9");
  CHECK(updated("{'$set': 5}", "{'_id': 1}") == "error 9");
  CHECK(updated("{'$set': {'a': 1}, '$inc': {'a.b': 1}}", "{'_id': 1}") == "error 40");
  CHECK(updated("{'$set': {'a..b': 1}}", "{'_id': 1}") == "error 56");
  CHECK(updated("{'$set': {'$x': 1}}", "{'_id': 1}") == "error 52");
  CHECK(updated("{'$set': {'a.b': 1}}", "{'_id': 1, 'a': 5}") == "error 28");
  CHECK(updated("{'$inc': {'a': 1}}", "{'_id': 1, 'a': 'x'}") == "error 14");
  CHECK(updated("{'$inc': {'a': 1}}", "{'_id': 1, 'a': {'$numberLong': '9223372036854775807'}}") ==
        "error 2");
  CHECK(updated("{'$set': {'a.1500005': 1}}", "{'_id': 1, 'a': []}") == "error 34");
  CHECK(updated("{'$push': {'a': 1}}", "{'_id': 1, 'a': 5}") == "error 2");
  CHECK(updated("{'a': 1, '$set': {'b': 1}}", "{'_id': 1}") == "error 52");
  CHECK(updated("[{'$match': {}}]", "{'_id': 1}") == "error 72");
  CHECK(updated("[{'$unset': 'a\\u0000b'}]", "{'_id': 1}") == "error 16411");
  CHECK(updated("[{'$unset': ['b', 'a\\u0000b']}]", "{'_id': 1}") == "error 16411");
  CHECK(updated("{'$set': {'a.$': 1}}", "{'_id': 1, 'a': [1]}") == "error 2");
}

TEST_CASE("results have a greatest depth and size") {
  std::string path = "a";
  for (std::size_t i = 1; i < limits::kNestingDepthMax + 1; ++i) path += ".a";
  CHECK(updated("{'$set': {'" + path + "': 1}}", "{'_id': 1}") == "error 15");
  const std::string long_text(limits::kDocumentSizeMax, 'x');
  CHECK(updated("{'$set': {'a': '" + long_text + "'}}", "{'_id': 1}") == "error 17419");
}

TEST_CASE("what an upsert starts from") {
  CHECK(seed("{'b': 1, 'a.c': 2, '_id': 3, 'a.b': {'$gt': 4}}") ==
        test::same("{'_id': 3, 'a': {'c': 2}, 'b': 1}"));
  CHECK(seed("{'a': {'$in': [1]}, 'b': {'$all': [2]}, 'c': {'$in': [1, 2]}}") ==
        test::same("{'a': 1, 'b': 2}"));
  CHECK(seed("{'$and': [{'a': 1}, {'$or': [{'b': 2}]}]}") == test::same("{'a': 1, 'b': 2}"));
  CHECK(seed("{'_id': 1, 'a': 2}", true) == test::same("{'_id': 1}"));
  CHECK(seed("{'a': 1, '$and': [{'a': 2}]}") == "error 54");
  CHECK(seed("{'a': {'b': 1}, 'a.c': 2}") == "error 54");
}

TEST_CASE("numbers and words among the names of one update are all found") {
  // As text 10 is before 1a, which is before 9; as numbers 9 is before 10.
  CHECK(updated("{'$set': {'10': 1, '1a': 2, '9': 3, '1b': 4, '100': 5, '!': 6}}",
                "{'_id': 1, '1a': 0, '9': 0, '10': 0, '!': 0, '1b': 0, '100': 0}") ==
        test::same("{'_id': 1, '1a': 2, '9': 3, '10': 1, '!': 6, '1b': 4, '100': 5}"));
  CHECK(updated("{'$set': {'10': 1, '1a': 2, '9': 3}, '$inc': {'9': 1}}", "{'_id': 1}") == "error 40");
}

TEST_CASE("a path of more names than a document has levels is refused") {
  std::string path = "a";
  for (int i = 0; i < 100'000; ++i) path += ".a";
  for (const char* op : {"$set", "$unset", "$inc", "$push", "$pull", "$addToSet", "$min", "$mul"})
    CHECK(updated("{'" + std::string(op) + "': {'" + path + "': 1}}", "{'_id': 1}") == "error 15");
  CHECK(updated("{'$rename': {'" + path + "': 'b'}}", "{'_id': 1}") == "error 15");
  CHECK(updated("{'$rename': {'b': '" + path + "'}}", "{'_id': 1, 'b': 1}") == "error 15");
  std::string each = "a";
  for (int i = 0; i < 100'000; ++i) each += ".$[]";
  CHECK(updated("{'$set': {'" + each + "': 1}}", "{'_id': 1}") == "error 15");
}

TEST_CASE("many fields at once") {
  std::string set = "{'$set': {";
  std::string expected = "{'_id': 1";
  for (int i = 0; i < 20'000; ++i) {
    set += (i > 0 ? ", 'f" : "'f") + std::to_string(30'000 - i) + "': 1";
    expected += ", 'f" + std::to_string(10'001 + i) + "': 1";
  }
  CHECK(updated(set + "}}", "{'_id': 1}") == test::same(expected + "}"));
}
