#include "plugins/query-engine/matcher.h"

#include <doctest/doctest.h>

#include <cmath>

#include "core/base/clock.h"
#include "core/base/interrupt.h"
#include "core/bson/builder.h"
#include "plugins/query-engine/expression.h"
#include "plugins/query-engine/match_node.h"
#include "plugins/query-engine/query_test_util.h"

using namespace multifora;
using test::doc;

namespace {

bool matches(const OwnedDocument& filter, const OwnedDocument& document) {
  auto matcher = Matcher::compile(filter.view(), {});
  REQUIRE_MESSAGE(matcher.has_value(), matcher.error().message());
  auto found = (*matcher)->matches(document.view());
  REQUIRE_MESSAGE(found.has_value(), found.error().message());
  return *found;
}
bool matches(std::string_view filter, std::string_view document) {
  return matches(doc(filter), doc(document));
}

int error_of(std::string_view filter) {
  const OwnedDocument parsed = doc(filter);
  auto matcher = Matcher::compile(parsed.view(), {});
  return matcher ? 0 : static_cast<int>(matcher.error().code());
}

std::int64_t position(std::string_view filter, std::string_view document) {
  const OwnedDocument parsed = doc(filter);
  auto matcher = Matcher::compile(parsed.view(), {});
  REQUIRE(matcher.has_value());
  MatchDetails details;
  const OwnedDocument target = doc(document);
  REQUIRE((*matcher)->matches(target.view(), nullptr, &details).value());
  return details.array_index;
}

std::string parsed_query(std::string_view filter) {
  const OwnedDocument parsed = doc(filter);
  auto matcher = Matcher::compile(parsed.view(), {});
  REQUIRE(matcher.has_value());
  DocumentBuilder out;
  (*matcher)->append_parsed(out, "q");
  const OwnedDocument owned = std::move(out).finish();
  return test::text(owned.view()["q"].as_document());
}

}  // namespace

TEST_CASE("null is a missing field, but no longer undefined") {
  CHECK(matches("{'a': null}", "{}"));
  CHECK(matches("{'a': null}", "{'a': null}"));
  CHECK_FALSE(matches("{'a': null}", "{'a': {'$undefined': true}}"));
  CHECK_FALSE(matches("{'a': {'$in': [null]}}", "{'a': {'$undefined': true}}"));
  CHECK(matches("{'a': {'$ne': null}}", "{'a': {'$undefined': true}}"));
  CHECK(matches("{'a': {'$exists': true}}", "{'a': {'$undefined': true}}"));
  CHECK(matches("{'a.b': null}", "{'a': 5}"));
  CHECK_FALSE(matches("{'a.b': null}", "{'a': []}"));
  CHECK(matches("{'a': {'$gte': null}}", "{}"));
  CHECK_FALSE(matches("{'a': {'$gt': null}}", "{'a': 1}"));
}

TEST_CASE("comparisons stay inside a type, except for MinKey and MaxKey") {
  CHECK_FALSE(matches("{'a': {'$gt': 1}}", "{'a': 'x'}"));
  CHECK(matches("{'a': {'$gt': {'$minKey': 1}}}", "{'a': 'x'}"));
  CHECK(matches("{'a': {'$lt': {'$maxKey': 1}}}", "{'a': {'b': 1}}"));
  CHECK_FALSE(matches("{'a': {'$lt': {'$minKey': 1}}}", "{'a': 1}"));
  CHECK_FALSE(matches("{'a': {'$gt': {'$maxKey': 1}}}", "{'a': 1}"));
}

TEST_CASE("numbers compare exactly across types") {
  CHECK(matches("{'a': 1}", "{'a': {'$numberDecimal': '1.00'}}"));
  CHECK(matches("{'a': {'$numberDouble': '-0.0'}}", "{'a': 0}"));
  CHECK_FALSE(matches("{'a': {'$numberLong': '9007199254740993'}}",
                      "{'a': {'$numberDouble': '9007199254740992'}}"));
  CHECK_FALSE(matches("{'a': {'$numberDecimal': '0.1'}}", "{'a': 0.1}"));
  CHECK(matches("{'a': {'$numberDouble': 'NaN'}}", "{'a': {'$numberDecimal': 'NaN'}}"));
  CHECK_FALSE(matches("{'a': {'$lt': 5}}", "{'a': {'$numberDouble': 'NaN'}}"));
  CHECK(matches("{'a': {'$lte': {'$numberDouble': 'NaN'}}}", "{'a': {'$numberDouble': 'NaN'}}"));
}

TEST_CASE("operators on array elements and on the array") {
  CHECK(matches("{'a': [1, 2]}", "{'a': [[1, 2], 3]}"));
  CHECK(matches("{'a': {'$elemMatch': {'$gt': 1, '$lt': 3}}}", "{'a': [0, 2, 9]}"));
  CHECK_FALSE(matches("{'a': {'$elemMatch': {'$gt': 1}}}", "{'a': [[2]]}"));
  CHECK(matches("{'a': {'$elemMatch': {'b': 1, 'c': 2}}}", "{'a': [{'b': 1}, {'b': 1, 'c': 2}]}"));
  CHECK(matches("{'a': {'$all': [1, 2]}}", "{'a': [2, 3, 1]}"));
  CHECK_FALSE(matches("{'a': {'$all': []}}", "{'a': []}"));
}

TEST_CASE("the position of the matched element") {
  CHECK(position("{'a': 2}", "{'a': [1, 2, 2]}") == 1);
  CHECK(position("{'a.b': 2}", "{'a': [{'b': 1}, {'b': [7, 2]}]}") == 1);
  CHECK(position("{'a': {'$elemMatch': {'$gt': 4}}}", "{'a': [1, 2, 5]}") == 2);
  CHECK(position("{'a': {'$ne': 9}}", "{'a': [1, 2]}") == -1);
  CHECK(position("{'x': 1, 'a': 3}", "{'x': 1, 'a': [3]}") == 0);
}

TEST_CASE("mistakes have MongoDB's codes") {
  CHECK(error_of("{'$foo': 1}") == 2);
  CHECK(error_of("{'a': {'$foo': 1}}") == 2);
  CHECK(error_of("{'a': {'$in': [{'$gt': 1}]}}") == 2);
  CHECK(error_of("{'a': {'$size': -1}}") == 2);
  CHECK(error_of("{'a': {'$type': []}}") == 9);
  CHECK(error_of("{'a': {'$regularExpression': {'pattern': '(', 'options': ''}}}") == 51091);
  CHECK(error_of("{'$alwaysTrue': 2}") == 9);
  CHECK(error_of("{'$where': 'true'}") == 115);
  CHECK(error_of("{'$text': {'$search': 'a'}}") == 115);
  CHECK(error_of("{'a': {'$near': [1, 1]}}") == 115);
  CHECK(error_of("{'a': {'$elemMatch': {'$expr': true}}}") == 2);
}

TEST_CASE("nesting has a limit") {
  std::string filter = "{'a': 1}";
  for (int i = 0; i < 150; ++i) filter = "{'$nor': [" + filter + "]}";
  const auto parsed = from_extended_json([&] {
    std::string text = filter;
    for (char& c : text)
      if (c == '\'') c = '"';
    return text;
  }());
  if (parsed) {
    auto matcher = Matcher::compile(parsed->view(), {});
    REQUIRE_FALSE(matcher.has_value());
    CHECK(matcher.error().code() == ErrorCode::kBadValue);
  }
}

TEST_CASE("an expression is evaluated, its failure fails the match") {
  CHECK(matches("{'$expr': {'$gt': ['$a', '$b']}}", "{'a': 2, 'b': 1}"));
  const OwnedDocument filter = doc("{'$expr': {'$divide': [1, '$a']}}");
  auto matcher = Matcher::compile(filter.view(), {});
  REQUIRE(matcher.has_value());
  CHECK((*matcher)->needs_context());
  const OwnedDocument zero = doc("{'a': 0}");
  CHECK_FALSE((*matcher)->matches(zero.view()).has_value());
}

TEST_CASE("the parsed query, for explain") {
  CHECK(parsed_query("{}") == test::same("{}"));
  CHECK(parsed_query("{'a': 1}") == test::same("{'a': {'$eq': 1}}"));
  CHECK(parsed_query("{'a': {'$gt': 1, '$lt': 5}}") ==
        test::same("{'$and': [{'a': {'$gt': 1}}, {'a': {'$lt': 5}}]}"));
  CHECK(parsed_query("{'a': {'$ne': 1}}") == test::same("{'a': {'$not': {'$eq': 1}}}"));
  CHECK(parsed_query("{'a': {'$not': {'$gt': 1, '$lt': 5}}}") ==
        test::same("{'a': {'$not': {'$gt': 1, '$lt': 5}}}"));
}

TEST_CASE("a filter says which paths it reads") {
  const OwnedDocument filter = doc("{'a.b': 1, '$or': [{'c': 2}, {'d': {'$exists': false}}]}");
  auto matcher = Matcher::compile(filter.view(), {});
  std::vector<std::string> paths;
  CHECK((*matcher)->add_dependencies(paths));
  CHECK(paths == std::vector<std::string>{"a.b", "c", "d"});
  CHECK_FALSE((*matcher)->always_true());
}

TEST_CASE("an element against a condition") {
  const auto pulls = [](std::string_view condition, std::string_view element) {
    const OwnedDocument wrapped = doc(condition);
    const OwnedDocument target = doc(element);
    auto matcher = ElementMatcher::compile(wrapped.view().first().value(), {});
    REQUIRE(matcher.has_value());
    return (*matcher)->matches(target.view().first().value(), nullptr).value();
  };
  CHECK(pulls("{'': {'$gte': 3}}", "{'': 4}"));
  CHECK_FALSE(pulls("{'': {'$gte': 3}}", "{'': [4]}"));
  CHECK(pulls("{'': {'k': 1}}", "{'': {'k': 1, 'j': 2}}"));
  CHECK_FALSE(pulls("{'': {'k': 1}}", "{'': 1}"));
  CHECK(pulls("{'': 'x'}", "{'': 'x'}"));
  CHECK(pulls("{'': {'$or': [{'k': 1}, {'k': 2}]}}", "{'': {'k': 2}}"));
}

TEST_CASE("filters of many predicates, and over many elements, notice that they are to stop") {
  DocumentBuilder b;
  {
    ArrayBuilder a = b.array("a");
    for (int i = 0; i < 1000; ++i) a.append(i);
  }
  const OwnedDocument document = std::move(b).finish();
  std::string list = "-1";
  std::string filters = "{'b': 1}";
  std::string below = "{'$elemMatch': {'$gt': -1}}";
  for (int i = 2; i < 40; ++i) {
    list += ", " + std::to_string(i);
    filters += ", {'a': {'$lt': -" + std::to_string(i) + "}}";
    below += ", {'$elemMatch': {'$gt': -" + std::to_string(i) + "}}";
  }
  Interrupt interrupt(system_clock());
  interrupt.kill(ErrorCode::kInterrupted);
  for (const std::string& filter :
       {"{'$or': [" + filters + "]}", "{'$nor': [" + filters + "]}", "{'a': {'$all': [" + below + "]}}",
        std::string("{'a': {'$elemMatch': {'$lt': 0}}}"), "{'a': {'$elemMatch': {'$nin': [" + list + "], '$lt': 0}}}"}) {
    const OwnedDocument parsed = doc(filter);
    auto matcher = Matcher::compile(parsed.view(), {});
    REQUIRE(matcher.has_value());
    EvalContext context;
    CHECK((*matcher)->matches(document.view(), &context).has_value());
    context.interrupt = &interrupt;
    const auto found = (*matcher)->matches(document.view(), &context);
    CHECK_MESSAGE((!found && found.error().code() == ErrorCode::kInterrupted), filter);
  }
}

TEST_CASE("a path of more names than a document has levels is refused as a filter") {
  std::string path = "a";
  for (int i = 0; i < 100'000; ++i) path += ".a";
  CHECK(error_of("{'" + path + "': 1}") == 15);
  CHECK(error_of("{'b': {'$elemMatch': {'" + path + "': 1}}}") == 15);
  CHECK(error_of("{'" + path.substr(0, 199) + "': 1}") == 0);
}
