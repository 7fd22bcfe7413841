// Index bounds: for one field of an index, the intervals of values in which every document that
// matches a predicate has a key. Made from the match tree by MongoDB's rules; used by the planner
// (costs, choice), the scan (bounds_scan.h turns them into bytes) and explain.
//
// An Interval's values view the filter's bytes or own theirs: the Matcher must outlive them. Plain
// values, no errors; any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/bson/collator.h"
#include "plugins/query-engine/match_node.h"
#include "plugins/query-engine/value.h"

namespace multifora {

struct Interval {
  Value low, high;
  bool low_inclusive = true;
  bool high_inclusive = true;

  static Interval point(const Value& value);
  bool is_point = false;  // low == high, both inclusive
};

struct FieldBounds {
  std::vector<Interval> intervals;  // ascending, disjoint; none: nothing can match
  // A key lies in the bounds exactly if its document matches the predicate, so that the predicate
  // need not be looked at again.
  bool exact = true;
  // The $elemMatch that the predicate stood in; predicates of one $elemMatch are about one element.
  const MatchNode* elem_match = nullptr;

  static FieldBounds all();
  bool is_all() const;
  bool all_points() const;
  bool single_point() const { return intervals.size() == 1 && intervals[0].is_point; }
  bool contains_null() const;
};

struct BoundsContext {
  const Collator* collator = nullptr;  // the index's
  bool collators_agree = true;         // with the query's: bounds on strings mean something
  bool multikey = false;               // the field met an array
  // The path has array positions ("a.0") and is multikey: keys of arrays inside arrays are more than
  // what the matcher looks at, so that no bounds are exact.
  bool positional = false;
};

// Bounds on the values at `path` from `node`; nullopt: it says nothing about them that an index can
// use.
std::optional<FieldBounds> bounds_on_path(const MatchNode& node, std::string_view path,
                                          const BoundsContext& context);

FieldBounds intersect_bounds(const FieldBounds& a, const FieldBounds& b, const Collator* collator);
FieldBounds unite_bounds(const FieldBounds& a, const FieldBounds& b, const Collator* collator);
FieldBounds complement_bounds(const FieldBounds& bounds, const Collator* collator);

// "[1, 5)", as explain shows it; `descending` turns it around.
std::string interval_text(const Interval& interval, bool descending);

}  // namespace multifora
