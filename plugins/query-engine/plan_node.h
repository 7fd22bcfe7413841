// A plan: the tree of stages that the planner chose. Data only; executor.h builds stages from it,
// explain.h prints it. It views the Matcher, SortPattern and Projection of the query it was made for,
// which must outlive it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/bson/view.h"
#include "plugins/query-engine/bounds.h"
#include "plugins/query-engine/projection.h"
#include "plugins/query-engine/sort_key.h"

namespace multifora {

enum class PlanKind : std::uint8_t {
  kEof,
  kCollScan,
  kIndexScan,
  kCountScan,     // counts the index's ranges without walking them
  kRecordCount,   // the collection's own count
  kDistinctScan,  // one key of each different value
  kExpressId,     // {_id: value}
  kExpressIndex,  // one key of a unique index
  kFetch,
  kMerge,         // ordered union of index scans
  kOr,            // union of index scans, each record once
  kSort,
  kSkip,
  kLimit,
  kProjection,
  kProjectionCovered,  // from the index's keys alone
  kReturnKey,
  kRecordId,      // adds $recordId
};

struct PlanNode {
  explicit PlanNode(PlanKind plan_kind) : kind(plan_kind) {}

  PlanKind kind;
  std::vector<std::unique_ptr<PlanNode>> children;

  // What documents (scans and fetches) must still match.
  std::vector<const MatchNode*> filter;

  bool backward = false;  // scans

  // Index scans.
  std::string index_name;
  OwnedDocument index_spec;
  OwnedDocument key_pattern;        // the fields that `bounds` are about, which are also the keys'
  std::uint64_t multikey_fields = 0;
  std::vector<FieldBounds> bounds;  // by field of the pattern
  bool fixed_range = false;         // min() and max() instead
  Buffer range_from, range_to;
  bool dedup = false;               // several keys may lead to one record
  std::size_t distinct_field = 0;   // kDistinctScan
  Value point;                      // kExpress*

  // kSort and kMerge.
  const SortPattern* sort = nullptr;
  std::int64_t sort_limit = 0;  // 0: all
  std::size_t merge_prefix = 0; // kMerge: fields of the key before the ones that order

  std::int64_t number = 0;  // kSkip, kLimit
  const Projection* projection = nullptr;

  // Estimates, exact where the counts were.
  std::uint64_t keys = 0;
  double cost = 0;
};

using PlanPtr = std::unique_ptr<PlanNode>;

inline PlanPtr make_plan(PlanKind kind) { return std::make_unique<PlanNode>(kind); }
inline PlanPtr make_plan(PlanKind kind, PlanPtr child) {
  auto plan = std::make_unique<PlanNode>(kind);
  plan->children.push_back(std::move(child));
  return plan;
}

}  // namespace multifora
