// The planner: chooses how to find the documents that match, by exact counts of the key ranges that
// each usable index would walk.
//
// An index is usable where some predicate bounds its first field (or it gives the wanted order, or is
// hinted), where it holds every document that can match (sparse, partial), and where its collation
// is the query's as far as strings matter. The choice never changes what a query returns.
// Stateless; any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/store/collection.h"
#include "plugins/query-engine/matcher.h"
#include "plugins/query-engine/plan_node.h"

namespace multifora {

struct IndexFilter;

struct PlanRequest {
  const Matcher* matcher = nullptr;
  const SortPattern* sort = nullptr;          // null or empty: any order
  const Projection* projection = nullptr;
  const Collator* collator = nullptr;
  ValueView hint;                             // missing: none; a string or a document
  DocumentView min, max;                      // of a hinted index
  bool return_key = false;
  bool show_record_id = false;
  std::int64_t skip = 0;
  std::int64_t limit = 0;                     // 0: all
  bool tailable = false;
  bool needs_document = false;                // writes: fetch whatever could be left out
  bool count_only = false;                    // how many is all that is asked
  std::string_view distinct_field;            // not empty: only its different values matter
  bool allow_express = true;
  const IndexFilter* index_filter = nullptr;  // not null: only its indexes, whatever the hint says
};

struct PlannedQuery {
  PlanPtr plan;
  std::vector<PlanPtr> rejected;  // the access paths not taken, for explain
};

// BadValue: a hint that names no index, or min/max that do not fit it; NoQueryExecutionPlans where a
// hint cannot serve.
Result<PlannedQuery> plan_query(const CollectionView& view, const PlanRequest& request);

// The index that a hint names; null: none.
const IndexRef* find_hinted_index(const CollectionView& view, const ValueView& hint);

// Does every document that matches `query` match `partial` too? "No" may be wrong, "yes" never is.
bool implies(const MatchNode& query, const MatchNode& partial, const Collator* collator);

}  // namespace multifora
