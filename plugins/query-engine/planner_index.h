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
  OwnedDocument key_pattern;   // the fields that `bounds` are about: the index's, or paths_for's
  std::vector<FieldBounds> bounds;
  Conjuncts residual;          // what the bounds do not settle
  std::uint64_t multikey_fields = 0;
  bool repeats = false;        // several of the keys inside may lead to one record
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

// Every way to use the index, appended to `out`; nothing where it cannot be used at all. An index that
// serves many paths may be used in as many ways as there are paths in the query. `forced`: hinted.
Status examine_index(const IndexRef& ref, const Conjuncts& conjuncts, const PlanRequest& request,
                     bool forced, std::vector<IndexChoice>& out);

}  // namespace multifora::planner
