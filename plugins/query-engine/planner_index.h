// Internal to the planner: what one index can do for one query.
#pragma once

#include <optional>
#include <vector>

#include "core/plugin/index.h"
#include "plugins/query-engine/bounds_scan.h"
#include "plugins/query-engine/planner.h"

namespace multifora::planner {

// Most key ranges that are counted for one index.
inline constexpr std::size_t kRangesMax = 1000;
// Most scans that a merge runs side by side.
inline constexpr std::size_t kMergeMax = 200;

using Conjuncts = std::vector<const MatchNode*>;
// The conditions that must all hold.
void append_conjuncts(const MatchNode& node, Conjuncts& out);

struct IndexChoice {
  const IndexRef* ref = nullptr;
  std::vector<FieldBounds> bounds;
  Conjuncts residual;          // what the bounds do not settle
  std::uint64_t multikey_fields = 0;
  std::uint64_t keys = 0;      // in the ranges of the leading fields
  std::size_t ranges = 0;
  bool ranges_exact = false;   // `keys` are exactly the keys inside
  bool bounded = false;        // some predicate bounds the first field
  bool gives_order = false;    // as it is, or read backwards
  bool backward = false;
  std::size_t merge_fields = 0;  // > 0: in order where this many leading fields are taken point by point
  bool covered = false;        // the keys hold all that the projection needs
  double cost = 0;
};

// nullopt: the index cannot be used at all. `forced`: hinted.
Result<std::optional<IndexChoice>> examine_index(const CollectionView& view, const IndexRef& ref,
                                                 const Conjuncts& conjuncts,
                                                 const PlanRequest& request, bool forced);

}  // namespace multifora::planner
