#include "plugins/query-engine/bounds.h"

#include <algorithm>
#include <limits>

#include "core/bson/compare.h"
#include "core/bson/extended_json.h"

namespace multifora {
namespace {

Value min_key() { return Value::of_type(BsonType::kMinKey, {}); }
Value max_key() { return Value::of_type(BsonType::kMaxKey, {}); }
Value undefined_value() { return Value::of_type(BsonType::kUndefined, {}); }
Value empty_object() { return Value::object(OwnedDocument()); }

Value smallest_binary() { return Value::binary({}, 0); }
Value smallest_dbref() {
  Buffer bytes;
  append_le<std::int32_t>(bytes, 1);
  bytes.append(1 + 12, '\0');
  return Value::of_type(BsonType::kDBRef, bytes);
}
Value smallest_code() {
  Buffer bytes;
  append_le<std::int32_t>(bytes, 1);
  bytes.push_back('\0');
  return Value::of_type(BsonType::kCode, bytes);
}
Value smallest_code_with_scope() {
  Buffer bytes;
  append_le<std::int32_t>(bytes, 4 + 5 + 5);
  append_le<std::int32_t>(bytes, 1);
  bytes.push_back('\0');
  bytes.append(OwnedDocument().bytes());
  return Value::of_type(BsonType::kCodeWithScope, bytes);
}
Value object_id(char fill) {
  ObjectId id;
  std::memset(id.bytes.data(), fill, 12);
  return Value::of(id);
}

Interval make_interval(Value low, bool low_inclusive, Value high, bool high_inclusive) {
  Interval interval;
  interval.low = std::move(low);
  interval.high = std::move(high);
  interval.low_inclusive = low_inclusive;
  interval.high_inclusive = high_inclusive;
  return interval;
}

// All values of the type's bracket. Numbers without NaN.
Interval bracket(BsonType type) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  switch (canonical_type(type)) {
    case 10:
      return make_interval(Value::of(-kInfinity), true, Value::of(kInfinity), true);
    case 15:
      return make_interval(Value::string(""), true, empty_object(), false);
    case 20:
      return make_interval(empty_object(), true, Value::empty_array(), false);
    case 25:
      return make_interval(Value::empty_array(), true, smallest_binary(), false);
    case 30:
      return make_interval(smallest_binary(), true, object_id('\0'), false);
    case 35:
      return make_interval(object_id('\0'), true, object_id('\xff'), true);
    case 40:
      return make_interval(Value::of(false), true, Value::of(true), true);
    case 45:
      return make_interval(Value::date_ms(std::numeric_limits<std::int64_t>::min()), true,
                           Value::date_ms(std::numeric_limits<std::int64_t>::max()), true);
    case 47:
      return make_interval(Value::timestamp(0), true,
                           Value::timestamp(std::numeric_limits<std::uint64_t>::max()), true);
    case 50:
      return make_interval(Value::regex("", ""), true, smallest_dbref(), false);
    case 55:
      return make_interval(smallest_dbref(), true, smallest_code(), false);
    case 60:
      return make_interval(smallest_code(), true, smallest_code_with_scope(), false);
    case 65:
      return make_interval(smallest_code_with_scope(), true, max_key(), false);
    case -1:
      return Interval::point(min_key());
    case 0:
      return Interval::point(undefined_value());
    case 5:
      return Interval::point(Value::null());
    default:
      return Interval::point(max_key());
  }
}

Interval numbers_with_nan() {
  Interval interval = bracket(BsonType::kDouble);
  interval.low = Value::of(std::numeric_limits<double>::quiet_NaN());
  return interval;
}

bool is_collatable(const ValueView& value) {
  return value.type() == BsonType::kString || value.type() == BsonType::kSymbol ||
         value.type() == BsonType::kObject || value.type() == BsonType::kArray;
}

bool is_nan(const ValueView& value) {
  if (value.type() == BsonType::kDouble) return value.as_double() != value.as_double();
  return value.type() == BsonType::kDecimal128 && value.as_decimal().is_nan();
}

int compare_low(const Interval& a, const Interval& b, const Collator* collator) {
  const int order = compare_values(a.low.view(), b.low.view(), collator);
  if (order != 0) return order;
  return static_cast<int>(b.low_inclusive) - static_cast<int>(a.low_inclusive);
}

int compare_high(const Interval& a, const Interval& b, const Collator* collator) {
  const int order = compare_values(a.high.view(), b.high.view(), collator);
  if (order != 0) return order;
  return static_cast<int>(a.high_inclusive) - static_cast<int>(b.high_inclusive);
}

bool is_empty(const Interval& interval, const Collator* collator) {
  const int order = compare_values(interval.low.view(), interval.high.view(), collator);
  return order > 0 || (order == 0 && !(interval.low_inclusive && interval.high_inclusive));
}

void note_point(Interval& interval, const Collator* collator) {
  interval.is_point =
      interval.low_inclusive && interval.high_inclusive &&
      compare_values(interval.low.view(), interval.high.view(), collator) == 0;
}

// Sorts and joins what touches.
void normalize(std::vector<Interval>& intervals, const Collator* collator) {
  std::stable_sort(intervals.begin(), intervals.end(), [&](const Interval& a, const Interval& b) {
    return compare_low(a, b, collator) < 0;
  });
  std::vector<Interval> out;
  for (Interval& next : intervals) {
    if (!out.empty()) {
      Interval& last = out.back();
      const int order = compare_values(next.low.view(), last.high.view(), collator);
      const bool touches =
          order < 0 || (order == 0 && (next.low_inclusive || last.high_inclusive));
      if (touches) {
        if (compare_high(next, last, collator) > 0) {
          last.high = std::move(next.high);
          last.high_inclusive = next.high_inclusive;
          note_point(last, collator);
        }
        continue;
      }
    }
    out.push_back(std::move(next));
  }
  intervals = std::move(out);
}

FieldBounds one(Interval interval, bool exact = true) {
  FieldBounds bounds;
  bounds.intervals.push_back(std::move(interval));
  bounds.exact = exact;
  return bounds;
}

// Where `value` may be found as a key, for equality.
void add_equality(const ValueView& value, FieldBounds& bounds, const BoundsContext& context) {
  if (value.type() != BsonType::kArray) {
    bounds.intervals.push_back(Interval::point(Value(value)));
    // A null key also stands for a path that reaches nothing at all.
    if (value.is_nullish() && context.multikey) bounds.exact = false;
    return;
  }
  // The array as an element of an array, or its first element as a key of its own.
  bounds.exact = false;
  bounds.intervals.push_back(Interval::point(Value(value)));
  const Element first = value.as_document().first();
  bounds.intervals.push_back(Interval::point(first.missing() ? undefined_value()
                                                             : Value(first.value())));
}

std::optional<FieldBounds> compare_bounds(const MatchNode& node, const BoundsContext& context) {
  const ValueView& operand = node.operand();
  if (is_collatable(operand) && !context.collators_agree) return std::nullopt;
  FieldBounds bounds;
  if (node.kind() == MatchKind::kEq) {
    add_equality(operand, bounds, context);
    normalize(bounds.intervals, context.collator);
    return bounds;
  }
  const bool less = node.kind() == MatchKind::kLt || node.kind() == MatchKind::kLte;
  const bool inclusive = node.kind() == MatchKind::kLte || node.kind() == MatchKind::kGte;
  switch (operand.type()) {
    case BsonType::kArray:  // an array compares as a whole; its keys are its elements
    case BsonType::kMinKey:
    case BsonType::kMaxKey:
      return std::nullopt;
    case BsonType::kNull:
    case BsonType::kUndefined:
      if (!inclusive) return bounds;
      add_equality(operand, bounds, context);
      return bounds;
    default:
      break;
  }
  if (is_nan(operand)) {
    if (inclusive) bounds.intervals.push_back(Interval::point(Value(operand)));
    return bounds;
  }
  Interval interval = bracket(operand.type());
  if (less) {
    interval.high = Value(operand);
    interval.high_inclusive = inclusive;
  } else {
    interval.low = Value(operand);
    interval.low_inclusive = inclusive;
  }
  if (is_empty(interval, context.collator)) return bounds;
  note_point(interval, context.collator);
  bounds.intervals.push_back(std::move(interval));
  return bounds;
}

std::string string_successor(std::string prefix) {
  while (!prefix.empty() && static_cast<unsigned char>(prefix.back()) == 0xff) prefix.pop_back();
  if (!prefix.empty()) prefix.back() = static_cast<char>(prefix.back() + 1);
  return prefix;
}

std::optional<FieldBounds> regex_bounds(const RegexNode& node, const BoundsContext& context) {
  const Regex& regex = node.regex();
  FieldBounds bounds;
  bounds.exact = false;
  const std::string& prefix = regex.prefix();
  // Keys of a collated index are not the strings themselves.
  const bool use_prefix = !prefix.empty() && context.collator == nullptr;
  const std::string after = use_prefix ? string_successor(prefix) : std::string();
  if (use_prefix && !after.empty()) {
    bounds.intervals.push_back(
        make_interval(Value::string(prefix), true, Value::string(after), false));
    bounds.exact = regex.prefix_only();
  } else {
    bounds.intervals.push_back(bracket(BsonType::kString));
  }
  bounds.intervals.push_back(Interval::point(Value::regex(regex.pattern(), regex.options())));
  return bounds;
}

std::optional<FieldBounds> in_bounds(const InNode& node, const BoundsContext& context) {
  FieldBounds bounds;
  bounds.intervals.reserve(node.values().size());
  bool sorted = true;
  for (const ValueView& value : node.values()) {
    if (is_collatable(value) && !context.collators_agree) return std::nullopt;
    sorted = sorted && value.type() != BsonType::kArray;
    add_equality(value, bounds, context);
  }
  for (const MatchNode::Ptr& child : node.children()) {
    const auto regex = regex_bounds(static_cast<const RegexNode&>(*child), context);
    bounds.intervals.insert(bounds.intervals.end(), regex->intervals.begin(),
                            regex->intervals.end());
    bounds.exact = bounds.exact && regex->exact;
    sorted = false;
  }
  if (!sorted) normalize(bounds.intervals, context.collator);
  return bounds;
}

std::optional<FieldBounds> type_bounds(const TypeNode& node, const BoundsContext& context) {
  constexpr BsonType kTypes[] = {
      BsonType::kMinKey, BsonType::kDouble,   BsonType::kString, BsonType::kObject,
      BsonType::kBinData, BsonType::kObjectId, BsonType::kBool,  BsonType::kDate,
      BsonType::kNull,   BsonType::kRegex,    BsonType::kDBRef,  BsonType::kCode,
      BsonType::kSymbol, BsonType::kCodeWithScope, BsonType::kInt32, BsonType::kTimestamp,
      BsonType::kInt64,  BsonType::kDecimal128, BsonType::kMaxKey};
  if (node.types().contains(BsonType::kArray) || node.types().contains(BsonType::kUndefined))
    return std::nullopt;
  FieldBounds bounds;
  bounds.exact = false;
  for (const BsonType type : kTypes)
    if (node.types().contains(type))
      bounds.intervals.push_back(is_number(type) ? numbers_with_nan() : bracket(type));
  normalize(bounds.intervals, context.collator);
  return bounds;
}

std::optional<FieldBounds> not_bounds(const MatchNode& child, const BoundsContext& context);

// The predicate itself, wherever it applies.
std::optional<FieldBounds> leaf_bounds(const MatchNode& node, const BoundsContext& context) {
  switch (node.kind()) {
    case MatchKind::kEq:
    case MatchKind::kLt:
    case MatchKind::kLte:
    case MatchKind::kGt:
    case MatchKind::kGte:
      return compare_bounds(node, context);
    case MatchKind::kIn:
      return in_bounds(static_cast<const InNode&>(node), context);
    case MatchKind::kRegex:
      return regex_bounds(static_cast<const RegexNode&>(node), context);
    case MatchKind::kType:
      return type_bounds(static_cast<const TypeNode&>(node), context);
    case MatchKind::kMod:
      return one(numbers_with_nan(), false);
    case MatchKind::kExists: {
      FieldBounds bounds = FieldBounds::all();
      bounds.exact = false;
      return bounds;
    }
    default:
      return std::nullopt;
  }
}

std::optional<FieldBounds> not_bounds(const MatchNode& child, const BoundsContext& context) {
  if (context.positional) return std::nullopt;
  if (child.kind() == MatchKind::kExists) return one(Interval::point(Value::null()), false);
  if (child.kind() == MatchKind::kRegex || child.kind() == MatchKind::kType) return std::nullopt;
  const auto inner = leaf_bounds(child, context);
  // Only what holds every match and nothing else can be turned around.
  if (!inner || !inner->exact || (context.multikey && inner->contains_null())) return std::nullopt;
  FieldBounds bounds = complement_bounds(*inner, context.collator);
  bounds.exact = !context.multikey;
  return bounds;
}

bool better(const FieldBounds& a, const FieldBounds& b) {
  if (a.all_points() != b.all_points()) return a.all_points();
  return a.all_points() && a.intervals.size() < b.intervals.size();
}

std::optional<FieldBounds> and_bounds(const MatchNode& node, std::string_view path,
                                      const BoundsContext& context) {
  std::optional<FieldBounds> found;
  bool exact = true;
  for (const MatchNode::Ptr& child : node.children()) {
    auto bounds = bounds_on_path(*child, path, context);
    exact = exact && bounds && bounds->exact;
    if (!bounds) continue;
    if (!found) {
      found = std::move(bounds);
    } else if (!context.multikey) {
      found = intersect_bounds(*found, *bounds, context.collator);
    } else {
      exact = false;  // other elements may meet the other condition
      if (better(*bounds, *found)) found = std::move(bounds);
    }
  }
  if (found) found->exact = exact;
  return found;
}

std::optional<FieldBounds> or_bounds(const MatchNode& node, std::string_view path,
                                     const BoundsContext& context) {
  FieldBounds all;
  for (const MatchNode::Ptr& child : node.children()) {
    const auto bounds = bounds_on_path(*child, path, context);
    if (!bounds) return std::nullopt;
    all.intervals.insert(all.intervals.end(), bounds->intervals.begin(), bounds->intervals.end());
    all.exact = all.exact && bounds->exact;
  }
  normalize(all.intervals, context.collator);
  return all;
}

// {$elemMatch: {$gt: 1, $lt: 5}}: all about one element.
std::optional<FieldBounds> element_bounds(const MatchNode& node, const BoundsContext& context) {
  BoundsContext element = context;
  element.multikey = false;
  std::optional<FieldBounds> found;
  for (const MatchNode::Ptr& child : node.children()) {
    const MatchNode* predicate = child.get();
    std::optional<FieldBounds> bounds;
    if (predicate->kind() == MatchKind::kNot)
      bounds = not_bounds(*predicate->children()[0], element);
    else
      bounds = leaf_bounds(*predicate, element);
    if (!bounds) continue;
    found = found ? intersect_bounds(*found, *bounds, context.collator) : *bounds;
  }
  if (found) {
    found->exact = false;
    found->elem_match = &node;
  }
  return found;
}

std::optional<FieldBounds> elem_match_bounds(const MatchNode& node, std::string_view path,
                                             const BoundsContext& context) {
  const std::string_view outer = node.path();
  if (path.size() <= outer.size() || !path.starts_with(outer) || path[outer.size()] != '.')
    return std::nullopt;
  auto bounds = bounds_on_path(*node.children()[0], path.substr(outer.size() + 1), context);
  if (bounds) {
    bounds->exact = false;
    bounds->elem_match = &node;
  }
  return bounds;
}

}  // namespace

Interval Interval::point(const Value& value) {
  Interval interval = make_interval(value, true, value, true);
  interval.is_point = true;
  return interval;
}

FieldBounds FieldBounds::all() { return one(make_interval(min_key(), true, max_key(), true)); }

bool FieldBounds::is_all() const {
  return intervals.size() == 1 && intervals[0].low.type() == BsonType::kMinKey &&
         intervals[0].high.type() == BsonType::kMaxKey && intervals[0].low_inclusive &&
         intervals[0].high_inclusive;
}

bool FieldBounds::all_points() const {
  return std::all_of(intervals.begin(), intervals.end(),
                     [](const Interval& interval) { return interval.is_point; });
}

bool FieldBounds::contains_null() const {
  const Value null = Value::null();
  return std::any_of(intervals.begin(), intervals.end(), [&](const Interval& interval) {
    const int low = compare_values(interval.low.view(), null.view());
    const int high = compare_values(interval.high.view(), null.view());
    return (low < 0 || (low == 0 && interval.low_inclusive)) &&
           (high > 0 || (high == 0 && interval.high_inclusive));
  });
}

std::optional<FieldBounds> bounds_on_path(const MatchNode& node, std::string_view path,
                                          const BoundsContext& context) {
  switch (node.kind()) {
    case MatchKind::kAnd:
      return and_bounds(node, path, context);
    case MatchKind::kOr:
      return or_bounds(node, path, context);
    case MatchKind::kNot: {
      const MatchNode& child = *node.children()[0];
      if (child.path() != path || !child.children().empty()) {
        if (child.kind() != MatchKind::kIn || child.path() != path) return std::nullopt;
      }
      return not_bounds(child, context);
    }
    case MatchKind::kElemMatchValue:
      return node.path() == path ? element_bounds(node, context) : std::nullopt;
    case MatchKind::kElemMatchObject:
      return elem_match_bounds(node, path, context);
    default:
      return !node.path().empty() && node.path() == path ? leaf_bounds(node, context)
                                                         : std::nullopt;
  }
}

FieldBounds intersect_bounds(const FieldBounds& a, const FieldBounds& b, const Collator* collator) {
  FieldBounds out;
  out.exact = a.exact && b.exact;
  out.elem_match = a.elem_match == b.elem_match ? a.elem_match : nullptr;
  std::size_t i = 0, j = 0;
  while (i < a.intervals.size() && j < b.intervals.size()) {
    const Interval& x = a.intervals[i];
    const Interval& y = b.intervals[j];
    const Interval& low = compare_low(x, y, collator) >= 0 ? x : y;
    const bool x_ends_first = compare_high(x, y, collator) <= 0;
    const Interval& high = x_ends_first ? x : y;
    Interval both = make_interval(low.low, low.low_inclusive, high.high, high.high_inclusive);
    if (!is_empty(both, collator)) {
      note_point(both, collator);
      out.intervals.push_back(std::move(both));
    }
    if (x_ends_first)
      ++i;
    else
      ++j;
  }
  return out;
}

FieldBounds unite_bounds(const FieldBounds& a, const FieldBounds& b, const Collator* collator) {
  FieldBounds out = a;
  out.exact = a.exact && b.exact;
  out.intervals.insert(out.intervals.end(), b.intervals.begin(), b.intervals.end());
  normalize(out.intervals, collator);
  return out;
}

FieldBounds complement_bounds(const FieldBounds& bounds, const Collator* collator) {
  FieldBounds out;
  Value low = min_key();
  bool low_inclusive = true;
  const auto add = [&](const Value& high, bool high_inclusive) {
    Interval gap = make_interval(low, low_inclusive, high, high_inclusive);
    if (is_empty(gap, collator)) return;
    note_point(gap, collator);
    out.intervals.push_back(std::move(gap));
  };
  for (const Interval& interval : bounds.intervals) {
    add(interval.low, !interval.low_inclusive);
    low = interval.high;
    low_inclusive = !interval.high_inclusive;
  }
  add(max_key(), true);
  return out;
}

namespace {

std::string value_as_text(const ValueView& value) {
  switch (value.type()) {
    case BsonType::kMinKey:
      return "MinKey";
    case BsonType::kMaxKey:
      return "MaxKey";
    case BsonType::kUndefined:
      return "undefined";
    case BsonType::kNull:
      return "null";
    case BsonType::kDouble:
      if (is_nan(value)) return "nan.0";
      if (value.as_double() == std::numeric_limits<double>::infinity()) return "inf.0";
      if (value.as_double() == -std::numeric_limits<double>::infinity()) return "-inf.0";
      [[fallthrough]];
    default: {
      std::string text = to_extended_json(value);
      // Bounds of prefixes need not be UTF-8; explain's text must be.
      for (char& c : text)
        if (static_cast<unsigned char>(c) >= 0x80 && value.type() == BsonType::kString) c = '?';
      return text;
    }
  }
}

}  // namespace

std::string interval_text(const Interval& interval, bool descending) {
  const Value& from = descending ? interval.high : interval.low;
  const Value& to = descending ? interval.low : interval.high;
  const bool from_inclusive = descending ? interval.high_inclusive : interval.low_inclusive;
  const bool to_inclusive = descending ? interval.low_inclusive : interval.high_inclusive;
  return std::string(from_inclusive ? "[" : "(") + value_as_text(from.view()) + ", " +
         value_as_text(to.view()) + (to_inclusive ? "]" : ")");
}

}  // namespace multifora
