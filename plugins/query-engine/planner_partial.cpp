// Whether a query implies a partial index's filter.
#include "core/bson/compare.h"
#include "plugins/query-engine/bounds.h"
#include "plugins/query-engine/planner.h"

namespace multifora {
namespace {

bool same_predicate(const MatchNode& a, const MatchNode& b) {
  return a.kind() == b.kind() && a.path() == b.path() && a.operator_name() == b.operator_name() &&
         identical_values(a.operand(), b.operand());
}

bool is_comparison(MatchKind kind) {
  return kind == MatchKind::kEq || kind == MatchKind::kLt || kind == MatchKind::kLte ||
         kind == MatchKind::kGt || kind == MatchKind::kGte;
}

// Values for which `query` holds are values for which `partial` holds, each taken by itself.
bool leaf_implies(const MatchNode& query, const MatchNode& partial, const Collator* collator) {
  if (same_predicate(query, partial)) return true;
  if (query.path() != partial.path() || query.path().empty()) return false;
  MatchState state;
  if (partial.kind() == MatchKind::kExists) {
    if (query.kind() == MatchKind::kEq) return !query.operand().is_nullish();
    if (query.kind() == MatchKind::kIn) {
      for (const ValueView& value : static_cast<const InNode&>(query).values())
        if (value.is_nullish()) return false;
      return true;
    }
    if (is_comparison(query.kind())) {
      const BsonType type = query.operand().type();
      return !query.operand().is_nullish() && type != BsonType::kMinKey &&
             type != BsonType::kMaxKey;
    }
    return query.kind() == MatchKind::kRegex || query.kind() == MatchKind::kMod ||
           query.kind() == MatchKind::kSize || query.kind() == MatchKind::kType ||
           query.kind() == MatchKind::kElemMatchObject ||
           query.kind() == MatchKind::kElemMatchValue;
  }
  if (query.kind() == MatchKind::kEq && query.operand().type() != BsonType::kArray &&
      !query.operand().is_nullish() && partial.children().empty())
    return partial.matches_value(query.operand(), state) && state.error.ok();
  if (query.kind() == MatchKind::kIn && query.children().empty() && partial.children().empty()) {
    for (const ValueView& value : static_cast<const InNode&>(query).values()) {
      if (value.type() == BsonType::kArray || value.is_nullish()) return false;
      if (!partial.matches_value(value, state) || !state.error.ok()) return false;
    }
    return true;
  }
  if (!is_comparison(query.kind()) || !is_comparison(partial.kind())) return false;
  // One range inside the other.
  BoundsContext context;
  context.collator = collator;
  const auto inner = bounds_on_path(query, query.path(), context);
  const auto outer = bounds_on_path(partial, partial.path(), context);
  if (!inner || !outer || !inner->exact || !outer->exact) return false;
  const FieldBounds outside = complement_bounds(*outer, collator);
  return intersect_bounds(*inner, outside, collator).intervals.empty();
}

bool any_conjunct_implies(const MatchNode& query, const MatchNode& partial,
                          const Collator* collator) {
  if (query.kind() == MatchKind::kAnd) {
    for (const MatchNode::Ptr& child : query.children())
      if (implies(*child, partial, collator)) return true;
    return false;
  }
  if (query.kind() == MatchKind::kOr) {
    for (const MatchNode::Ptr& child : query.children())
      if (!implies(*child, partial, collator)) return false;
    return true;
  }
  return leaf_implies(query, partial, collator);
}

}  // namespace

bool implies(const MatchNode& query, const MatchNode& partial, const Collator* collator) {
  if (partial.kind() == MatchKind::kAlwaysTrue) return true;
  if (partial.kind() == MatchKind::kAnd) {
    for (const MatchNode::Ptr& child : partial.children())
      if (!implies(query, *child, collator)) return false;
    return true;
  }
  // {$or: [{b: 1}, {b: 2}]} by a query's $or: each of its branches by itself.
  if (query.kind() == MatchKind::kOr) return any_conjunct_implies(query, partial, collator);
  if (partial.kind() == MatchKind::kOr) {
    for (const MatchNode::Ptr& child : partial.children())
      if (implies(query, *child, collator)) return true;
    if (query.kind() != MatchKind::kAnd) return false;
    // Some conjunct (an $or, or an $in) may imply the whole of it.
    return any_conjunct_implies(query, partial, collator);
  }
  return any_conjunct_implies(query, partial, collator);
}

}  // namespace multifora
