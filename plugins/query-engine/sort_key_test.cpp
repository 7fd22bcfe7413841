#include "plugins/query-engine/sort_key.h"

#include <doctest/doctest.h>

#include "plugins/query-engine/query_test_util.h"

using namespace multifora;
using test::doc;

namespace {

int compare(std::string_view pattern, std::string_view a, std::string_view b) {
  const OwnedDocument parsed = doc(pattern);
  auto sort = SortPattern::parse(parsed.view());
  REQUIRE(sort.has_value());
  const OwnedDocument x = doc(a);
  const OwnedDocument y = doc(b);
  return sort->compare(x.view(), y.view(), nullptr);
}
int error_of(std::string_view pattern) {
  const OwnedDocument parsed = doc(pattern);
  auto sort = SortPattern::parse(parsed.view());
  return sort ? 0 : static_cast<int>(sort.error().code());
}

}  // namespace

TEST_CASE("a missing field sorts as null, an empty array below it") {
  CHECK(compare("{'a': 1}", "{}", "{'a': null}") == 0);
  CHECK(compare("{'a': 1}", "{'a': []}", "{}") < 0);
  CHECK(compare("{'a': 1}", "{}", "{'a': 0}") < 0);
  CHECK(compare("{'a.b': 1}", "{'a': 5}", "{'a': {'b': null}}") == 0);
}

TEST_CASE("arrays sort by their least element, or their greatest") {
  CHECK(compare("{'a': 1}", "{'a': [5, 1]}", "{'a': 2}") < 0);
  CHECK(compare("{'a': -1}", "{'a': [5, 1]}", "{'a': 2}") < 0);
  CHECK(compare("{'a.b': 1}", "{'a': [{'b': 5}, {'b': 1}]}", "{'a': {'b': 2}}") < 0);
  CHECK(compare("{'a.0': 1}", "{'a': [5, 1]}", "{'a': [2]}") > 0);
}

TEST_CASE("fields of one array go together, as an index's keys do") {
  // Keys (1, 9) and (2, 0) against (1, 5): the pair (1, 9) counts, not (1, 0).
  CHECK(compare("{'a.b': 1, 'a.c': 1}", "{'a': [{'b': 1, 'c': 9}, {'b': 2, 'c': 0}]}",
                "{'a': [{'b': 1, 'c': 5}]}") > 0);
}

TEST_CASE("arrays beside each other are refused") {
  const OwnedDocument pattern = doc("{'a': 1, 'b': 1}");
  const OwnedDocument document = doc("{'a': [1], 'b': [2]}");
  const auto sort = SortPattern::parse(pattern.view());
  KeyStringBuilder key;
  CHECK(sort->append_key(document.view(), nullptr, key).code() == ErrorCode::kBadValue);
}

TEST_CASE("patterns") {
  CHECK(error_of("{'a': 0}") == 15975);
  CHECK(error_of("{'a': 'x'}") == 15974);
  CHECK(error_of("{'a..b': 1}") == 15998);
  CHECK(error_of("{'$a': 1}") == 16410);
  CHECK(error_of("{'a': {'$meta': 'textScore'}}") == 115);
  const OwnedDocument natural = doc("{'$natural': -1}");
  CHECK(SortPattern::parse(natural.view())->natural() == -1);
}
