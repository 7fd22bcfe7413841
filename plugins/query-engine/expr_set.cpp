// Sets: $setUnion, $setIntersection, $setDifference, $setEquals, $setIsSubset, $allElementsTrue,
// $anyElementTrue.
#include <fmt/format.h>

#include "plugins/query-engine/expression_table.h"
#include "plugins/query-engine/value_set.h"

namespace multifora {
namespace {

using enum BsonType;

std::unexpected<Status> not_array(int code, std::string_view message, const ValueView& v) {
  return fail_code(code, fmt::format("{}, but is: {}", message, type_text(v)));
}

// Adds the elements of an array; polls on the way.
Status insert_all(ValueSet& set, const ValueView& array, EvalContext& context) {
  std::size_t i = 0;
  for (const Element& e : array.as_document()) {
    if ((++i & 1023) == 0) MULTIFORA_TRY(context.worked(kLongWorkBytes));
    set.insert(e.value());
  }
  return {};
}

Result<Value> set_union(Args args, EvalContext& context) {
  ValueSet seen(context.collator);
  ArrayBuilder out;
  for (const Value& v : args) {
    if (v.nullish()) return Value::null();
    if (v.type() != kArray)
      return not_array(17043, "All operands of $setUnion must be arrays", v.view());
    std::size_t i = 0;
    for (const Element& e : v.view().as_document()) {
      if ((++i & 1023) == 0) MULTIFORA_TRY_R(context.worked(kLongWorkBytes));
      if (seen.insert(e.value())) MULTIFORA_TRY_R(append_element(out, e.value()));
    }
  }
  return Value::array(std::move(out).finish());
}

Result<Value> set_intersection(Args args, EvalContext& context) {
  for (const Value& v : args) {
    if (v.nullish()) return Value::null();
    if (v.type() != kArray)
      return not_array(17047, "All operands of $setIntersection must be arrays", v.view());
  }
  if (args.empty()) return Value::empty_array();
  std::vector<ValueSet> others;
  for (const Value& v : args.subspan(1)) {
    others.emplace_back(context.collator);
    MULTIFORA_TRY_R(insert_all(others.back(), v.view(), context));
  }
  ValueSet seen(context.collator);
  ArrayBuilder out;
  std::size_t i = 0;
  for (const Element& e : args[0].view().as_document()) {
    if ((++i & 1023) == 0) MULTIFORA_TRY_R(context.worked(kLongWorkBytes));
    bool everywhere = true;
    for (const ValueSet& s : others) everywhere = everywhere && s.contains(e.value());
    if (everywhere && seen.insert(e.value())) out.append(e.value());
  }
  return Value::array(std::move(out).finish());
}

Result<Value> set_difference(Args args, EvalContext& context) {
  if (args[0].nullish() || args[1].nullish()) return Value::null();
  if (args[0].type() != kArray)
    return not_array(17048, "both operands of $setDifference must be arrays. First argument",
                     args[0].view());
  if (args[1].type() != kArray)
    return not_array(17049, "both operands of $setDifference must be arrays. Second argument",
                     args[1].view());
  ValueSet seen(context.collator);
  MULTIFORA_TRY_R(insert_all(seen, args[1].view(), context));
  ArrayBuilder out;
  for (const Element& e : args[0].view().as_document())
    if (seen.insert(e.value())) out.append(e.value());
  return Value::array(std::move(out).finish());
}

Result<ValueSet> set_of(const ValueView& array, EvalContext& context) {
  ValueSet set(context.collator);
  MULTIFORA_TRY_R(insert_all(set, array, context));
  return set;
}

bool contains_all(const ValueSet& set, const ValueView& array) {
  for (const Element& e : array.as_document())
    if (!set.contains(e.value())) return false;
  return true;
}

Result<Value> set_equals(Args args, EvalContext& context) {
  for (const Value& v : args)
    if (v.type() != kArray)
      return not_array(17044, "All operands of $setEquals must be arrays. An argument", v.view());
  MULTIFORA_ASSIGN_R(const ValueSet first, set_of(args[0].view(), context));
  for (const Value& v : args.subspan(1)) {
    MULTIFORA_ASSIGN_R(const ValueSet other, set_of(v.view(), context));
    if (other.size() != first.size() || !contains_all(first, v.view())) return Value::of(false);
  }
  return Value::of(true);
}

Result<ExpressionPtr> parse_set_equals(const OperatorRow& row, const ValueView& spec,
                                       VariableScope& scope) {
  const std::size_t n = spec.type() == kArray ? spec.as_document().count() : 1;
  if (n < 2)
    return fail_code(17045, fmt::format("$setEquals needs at least two arguments had: {}", n));
  return parse_positional(row, spec, scope);
}

Result<Value> set_is_subset(Args args, EvalContext& context) {
  if (args[0].type() != kArray)
    return not_array(17046, "both operands of $setIsSubset must be arrays. First argument",
                     args[0].view());
  if (args[1].type() != kArray)
    return not_array(17042, "both operands of $setIsSubset must be arrays. Second argument",
                     args[1].view());
  MULTIFORA_ASSIGN_R(const ValueSet set, set_of(args[1].view(), context));
  return Value::of(contains_all(set, args[0].view()));
}

Result<Value> all_elements_true(Args args, EvalContext&) {
  if (args[0].type() != kArray)
    return not_array(17040, "$allElementsTrue's argument must be an array", args[0].view());
  for (const Element& e : args[0].view().as_document())
    if (!e->truthy()) return Value::of(false);
  return Value::of(true);
}

Result<Value> any_element_true(Args args, EvalContext&) {
  if (args[0].type() != kArray)
    return not_array(17041, "$anyElementTrue's argument must be an array", args[0].view());
  for (const Element& e : args[0].view().as_document())
    if (e->truthy()) return Value::of(true);
  return Value::of(false);
}

constexpr OperatorRow kRows[] = {
    {.name = "$allElementsTrue", .min_args = 1, .max_args = 1, .strict = all_elements_true},
    {.name = "$anyElementTrue", .min_args = 1, .max_args = 1, .strict = any_element_true},
    {.name = "$setDifference",
     .min_args = 2,
     .max_args = 2,
     .strict = set_difference,
     .flags = kNoFold},
    {.name = "$setEquals", .strict = set_equals, .parse = parse_set_equals, .flags = kNoFold},
    {.name = "$setIntersection", .strict = set_intersection, .flags = kNoFold},
    {.name = "$setIsSubset",
     .min_args = 2,
     .max_args = 2,
     .strict = set_is_subset,
     .flags = kNoFold},
    {.name = "$setUnion", .strict = set_union, .flags = kNoFold},
};

}  // namespace

std::span<const OperatorRow> set_operators() {
  return kRows;
}

}  // namespace multifora
