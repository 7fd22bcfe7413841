#include "plugins/query-engine/match_node.h"

#include <algorithm>
#include <cmath>

#include "core/bson/compare.h"
#include "plugins/query-engine/expression.h"

namespace multifora {

namespace {

bool is_nan(const ValueView& value) {
  if (value.type() == BsonType::kDouble) return std::isnan(value.as_double());
  return value.type() == BsonType::kDecimal128 && value.as_decimal().is_nan();
}

}  // namespace

// ---- MatchState ----

bool MatchState::stopped(std::size_t bytes) {
  if (error.ok() && context != nullptr) error = context->worked(bytes);
  return !error.ok();
}

// ---- MatchNode ----

void MatchNode::append_predicate(DocumentBuilder& out) const {
  out.append(name_, operand_);
}

void MatchNode::append_to(DocumentBuilder& out) const {
  DocumentBuilder inner = out.object(path());
  append_predicate(inner);
}

bool MatchNode::add_dependencies(std::vector<std::string>& paths) const {
  paths.emplace_back(path());
  return true;
}

// ---- PathNode ----

PathNode::PathNode(MatchKind kind, std::string_view name, std::string_view path,
                   const ValueView& operand, bool expand_last)
    : MatchNode(kind, name), expand_last_(expand_last) {
  path_ = FieldPath(path);
  operand_ = operand;
}

bool PathNode::matches(DocumentView document, MatchState& state) const {
  if (path_.size() == 1) {
    const ValueView value = document[path_.part(0)];
    if (value.type() != BsonType::kArray) return matches_value(value, state);
  }
  bool found = false;
  visit_path(document, path_, expand_last_, [&](const PathHit& hit) {
    if (!matches_value(hit.value, state)) return true;
    if (state.details != nullptr && hit.outer_index >= 0)
      state.details->array_index = hit.outer_index;
    found = true;
    return false;
  });
  return found;
}

// ---- Comparison ----

CompareNode::CompareNode(MatchKind kind, std::string_view path, const ValueView& operand,
                         const Collator* collator)
    : PathNode(kind,
               kind == MatchKind::kEq    ? "$eq"
               : kind == MatchKind::kLt  ? "$lt"
               : kind == MatchKind::kLte ? "$lte"
               : kind == MatchKind::kGt  ? "$gt"
                                         : "$gte",
               path, operand, true),
      collator_(collator),
      bracket_(canonical_type(operand.type())),
      operand_nan_(is_nan(operand)) {}

// Values of another bracket match in three cases only: a missing field is null, and MinKey and
// MaxKey are below and above everything.
bool CompareNode::matches_other_bracket(const ValueView& value) const {
  switch (operand_.type()) {
    case BsonType::kNull:
      return value.missing() &&
             (kind_ == MatchKind::kEq || kind_ == MatchKind::kLte || kind_ == MatchKind::kGte);
    case BsonType::kMinKey:
      return kind_ == MatchKind::kGt || kind_ == MatchKind::kGte;
    case BsonType::kMaxKey:
      return kind_ == MatchKind::kLt || kind_ == MatchKind::kLte;
    default:
      return false;
  }
}

bool CompareNode::matches_value(const ValueView& value, MatchState&) const {
  if (value.type() != operand_.type() && canonical_type(value.type()) != bracket_)
    return matches_other_bracket(value);
  if (kind_ == MatchKind::kEq) return equal_values(value, operand_, collator_);
  // NaN is neither below nor above anything, though it sorts first.
  if (operand_nan_ || is_nan(value))
    return operand_nan_ && is_nan(value) &&
           (kind_ == MatchKind::kLte || kind_ == MatchKind::kGte);
  const int order = compare_values(value, operand_, collator_);
  switch (kind_) {
    case MatchKind::kLt: return order < 0;
    case MatchKind::kLte: return order <= 0;
    case MatchKind::kGt: return order > 0;
    default: return order >= 0;
  }
}

// ---- $in ----

InNode::InNode(std::string_view path, const ValueView& operand, const Collator* collator)
    : PathNode(MatchKind::kIn, "$in", path, operand, true), collator_(collator) {}

void InNode::sort_values() {
  std::sort(values_.begin(), values_.end(), [this](const ValueView& a, const ValueView& b) {
    return compare_values(a, b, collator_) < 0;
  });
  const auto last =
      std::unique(values_.begin(), values_.end(), [this](const ValueView& a, const ValueView& b) {
        return compare_values(a, b, collator_) == 0;
      });
  values_.erase(last, values_.end());
  has_null_ = std::any_of(values_.begin(), values_.end(), [](const ValueView& value) {
    return value.type() == BsonType::kNull;
  });
}

bool InNode::contains(const ValueView& value) const {
  std::size_t low = 0;
  std::size_t high = values_.size();
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    const int order = compare_values(values_[middle], value, collator_);
    if (order == 0) return true;
    (order < 0 ? low : high) = order < 0 ? middle + 1 : middle;
  }
  return false;
}

bool InNode::matches_value(const ValueView& value, MatchState& state) const {
  if (value.missing()) return has_null_;
  if (contains(value)) return true;
  for (const Ptr& regex : children_)
    if (regex->matches_value(value, state)) return true;
  return false;
}

// ---- Regular expressions ----

RegexNode::RegexNode(std::string_view path, const ValueView& operand,
                     std::shared_ptr<const Regex> regex)
    : PathNode(MatchKind::kRegex, "$regex", path, operand, true), regex_(std::move(regex)) {}

bool RegexNode::matches_value(const ValueView& value, MatchState& state) const {
  switch (value.type()) {
    case BsonType::kString:
    case BsonType::kSymbol: {
      Result<bool> found = regex_->matches(value.as_string());
      if (found) return *found;
      state.error = std::move(found).error();
      return false;
    }
    case BsonType::kRegex:
      return value.regex_pattern() == regex_->pattern() &&
             value.regex_options() == regex_->options();
    default:
      return false;
  }
}

void RegexNode::append_predicate(DocumentBuilder& out) const {
  out.append("$regex", regex_->pattern());
  if (!regex_->options().empty()) out.append("$options", regex_->options());
}

// ---- $type ----

void TypeSet::add_numbers() {
  for (const BsonType type :
       {BsonType::kDouble, BsonType::kInt32, BsonType::kInt64, BsonType::kDecimal128})
    add(type);
}

TypeNode::TypeNode(std::string_view path, const ValueView& operand, TypeSet types)
    : PathNode(MatchKind::kType, "$type", path, operand, true), types_(types) {}

bool TypeNode::matches_value(const ValueView& value, MatchState&) const {
  return !value.missing() && types_.contains(value.type());
}

}  // namespace multifora
