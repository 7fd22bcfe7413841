#include "plugins/query-engine/filter_compiler.h"

#include <doctest/doctest.h>

#include <chrono>

#include "plugins/query-engine/query_test_util.h"

using namespace multifora;
using test::doc;

namespace {

std::string explain(std::string_view filter, std::string_view document) {
  const auto compiler = make_filter_compiler();
  const OwnedDocument parsed = doc(filter);
  const OwnedDocument target = doc(document);
  auto compiled = compiler->compile(parsed.view(), nullptr);
  REQUIRE(compiled.has_value());
  REQUIRE_FALSE((*compiled)->matches(target.view()));
  return test::text(compiler->explain_failure(parsed.view(), target.view()));
}

}  // namespace

TEST_CASE("why a schema does not fit") {
  CHECK(explain("{'$jsonSchema': {'bsonType': 'object', 'required': ['name', 'year'], "
                "'properties': {'year': {'bsonType': 'int', 'description': 'a year', 'minimum': "
                "2017}}}}",
                "{'_id': 1, 'year': 2000}") ==
        test::same(
            "{'operatorName': '$jsonSchema', 'schemaRulesNotSatisfied': ["
            "{'operatorName': 'required', 'specifiedAs': {'required': ['name', 'year']}, "
            "'missingProperties': ['name']}, "
            "{'operatorName': 'properties', 'propertiesNotSatisfied': [{'propertyName': 'year', "
            "'description': 'a year', 'details': [{'operatorName': 'minimum', 'specifiedAs': "
            "{'minimum': 2017}, 'reason': 'comparison failed', 'consideredValue': 2000}]}]}]}"));
  CHECK(explain("{'$jsonSchema': {'properties': {'a': {'bsonType': 'string'}}, "
                "'additionalProperties': false}}",
                "{'a': 1, 'b': 2}") ==
        test::same(
            "{'operatorName': '$jsonSchema', 'schemaRulesNotSatisfied': ["
            "{'operatorName': 'properties', 'propertiesNotSatisfied': [{'propertyName': 'a', "
            "'details': [{'operatorName': 'bsonType', 'specifiedAs': {'bsonType': 'string'}, "
            "'reason': 'type did not match', 'consideredValue': 1, 'consideredType': 'int'}]}]}, "
            "{'operatorName': 'additionalProperties', 'specifiedAs': {'additionalProperties': "
            "false}, 'additionalProperties': ['b']}]}"));
}

TEST_CASE("why a query operator does not match") {
  CHECK(explain("{'a': {'$gt': 5}}", "{'a': 3}") ==
        test::same("{'operatorName': '$gt', 'specifiedAs': {'a': {'$gt': 5}}, 'reason': "
                   "'comparison failed', 'consideredValue': 3}"));
  CHECK(explain("{'a': {'$gt': 5}}", "{}") ==
        test::same("{'operatorName': '$gt', 'specifiedAs': {'a': {'$gt': 5}}, 'reason': 'field was "
                   "missing'}"));
  CHECK(explain("{'a': {'$ne': 3}}", "{'a': 3}") ==
        test::same("{'operatorName': '$ne', 'specifiedAs': {'a': {'$ne': 3}}, 'reason': "
                   "'comparison failed', 'consideredValue': 3}"));
  CHECK(explain("{'a': 1, 'b': {'$exists': false}}", "{'a': 1, 'b': 2}") ==
        test::same("{'operatorName': '$and', 'clausesNotSatisfied': [{'index': 1, 'details': "
                   "{'operatorName': '$exists', 'specifiedAs': {'b': {'$exists': false}}, "
                   "'reason': 'path does exist'}}]}"));
  CHECK(explain("{'$expr': {'$eq': ['$a', 2]}}", "{'a': 1}") ==
        test::same("{'operatorName': '$expr', 'specifiedAs': {'$expr': {'$eq': ['$a', 2]}}, "
                   "'reason': 'expression did not match', 'expressionResult': false}"));
}

TEST_CASE("a validator that would take forever is not satisfied") {
  const auto start = std::chrono::steady_clock::now();
  explain("{'$expr': {'$map': {'input': {'$range': [0, 1000000]}, 'in': {'$size': {'$range': [0, 1000000]}}}}}",
          "{'a': 1}");
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(30));
}
