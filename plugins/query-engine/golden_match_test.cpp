// The golden corpus's cases on filters, sorts, projections and updates, run in memory.
#include <doctest/doctest.h>

#include <set>
#include <string>
#include <vector>

#include "plugins/query-engine/golden_support.h"

using namespace multifora;

namespace {

// Recorded from 4.0, whose $sort put a missing field below null and did not take "a.0" for an
// element. Since 4.4 the aggregation's sort is find's (SERVER-42565; the manual: a sort treats {} and
// {a: null} as equal), and so is this server's.
const std::set<std::string> kOlderServer = {
    "sort/types-agg-1",       "sort/types-agg--1",      "sort/compound-agg-d",
    "sort/compound-agg--d",   "sort-arrays/agg-a-1",    "sort-arrays/agg-a--1",
    "sort-arrays/agg-a.b-1",  "sort-arrays/agg-a.b--1", "sort-arrays/agg-a.1-1",
    "sort-arrays/agg-a.1--1", "sort-arrays/agg-a.c-1",  "sort-arrays/agg-a.c--1",
    "sort-arrays/agg-a.0--1", "sort-arrays/agg-a.0.b-1", "sort-arrays/agg-a.0.b--1",
    "sort-arrays/agg-a.b.0--1"};

// `least`: how many cases the corpus has that this runner can run. Fewer means that it skips too
// much to be a test.
void check_groups(const std::vector<std::string>& groups, int least) {
  const golden::Outcome outcome = golden::run_groups(groups, kOlderServer);
  for (const std::string& failure : outcome.failures) CHECK_MESSAGE(false, failure);
  MESSAGE(outcome.passed << " passed, " << outcome.failures.size() << " failed, "
                         << outcome.skipped << " skipped");
  CHECK(outcome.passed >= least);
}

}  // namespace

TEST_CASE("golden: query operators") {
  check_groups({"match-all", "match-bits", "match-bits-errors", "match-compare",
                "match-compare-errors", "match-exists", "match-expr", "match-expr-errors",
                "match-in", "match-in-errors", "match-jsonschema", "match-jsonschema-errors",
                "match-logic", "match-logic-errors", "match-mod", "match-mod-errors",
                "match-paths", "match-regex", "match-regex-errors", "match-size", "match-type",
                "match-type-errors"},
               1881);
}

TEST_CASE("golden: sort, skip and limit") {
  check_groups({"sort", "sort-arrays", "sort-errors", "skip-limit", "natural", "count"}, 119);
}

TEST_CASE("golden: projection") {
  check_groups({"projection", "projection-elemMatch", "projection-errors", "projection-positional",
                "projection-slice", "project-errors", "addFields", "expr-project",
                "modern-find-projection"},
               166);
}

TEST_CASE("golden: updates") {
  check_groups({"update-addToSet", "update-args", "update-array", "update-arrayFilters",
                "update-bit", "update-bulk", "update-currentDate", "update-errors", "update-inc",
                "update-minmax", "update-mul", "update-multi", "update-pop", "update-positional",
                "update-pull", "update-pullAll", "update-push", "update-rename", "update-replace",
                "update-set", "update-setOnInsert", "update-unset", "upsert", "modern-update",
                "findAndModify", "delete"},
               1235);
}
