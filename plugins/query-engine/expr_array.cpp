// Arrays: $arrayElemAt, $concatArrays, $first, $last, $in, $indexOfArray, $isArray, $range,
// $reverseArray, $size, $slice, $sortArray, $zip.
#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "core/base/limits.h"
#include "core/bson/compare.h"
#include "plugins/query-engine/array_order.h"
#include "plugins/query-engine/expression_table.h"
#include "plugins/query-engine/numeric.h"

namespace multifora {
namespace {

using enum BsonType;

std::vector<ValueView> elements_of(const ValueView& array) {
  std::vector<ValueView> out;
  for (const Element& e : array.as_document()) out.push_back(e.value());
  return out;
}

Result<Value> array_of(std::span<const ValueView> values) {
  ArrayBuilder out;
  for (const ValueView& v : values) MULTIFORA_TRY_R(append_element(out, v));
  return Value::array(std::move(out).finish());
}

// Element `index` (from the end where negative); missing where there is none.
Value element_at(const Value& array, std::int64_t index) {
  if (index < 0) {
    const auto n = static_cast<std::int64_t>(array.view().as_document().count());
    index += n;
    if (index < 0) return {};
  }
  for (const Element& e : array.view().as_document())
    if (index-- == 0) return array.part(e.value());
  return {};
}

Result<Value> array_elem_at(Args args, EvalContext&) {
  const ValueView a = args[0].view();
  const ValueView i = args[1].view();
  if (a.is_nullish() || i.is_nullish()) return Value::null();
  if (a.type() != kArray)
    return fail_code(28689, fmt::format("$arrayElemAt's first argument must be an array, but is {}",
                                        type_text(a)));
  if (!i.is_number())
    return fail_code(28690, fmt::format("$arrayElemAt's second argument must be a numeric value, "
                                        "but is {}", type_text(i)));
  std::int32_t index = 0;
  if (!exact_int32(i, &index))
    return fail_code(28691, fmt::format("$arrayElemAt's second argument must be representable as a "
                                        "32-bit integer: {}", value_text(i)));
  return element_at(args[0], index);
}

Result<Value> end_element(std::string_view name, const Value& array, std::int64_t index) {
  const ValueView a = array.view();
  if (a.is_nullish()) return Value::null();
  if (a.type() != kArray)
    return fail_code(28689, fmt::format("{}'s argument must be an array, but is {}", name, type_text(a)));
  return element_at(array, index);
}
Result<Value> first(Args args, EvalContext&) { return end_element("$first", args[0], 0); }
Result<Value> last(Args args, EvalContext&) { return end_element("$last", args[0], -1); }

Result<Value> concat_arrays(Args args, EvalContext&) {
  ArrayBuilder out;
  for (const Value& v : args) {
    const ValueView view = v.view();
    if (view.is_nullish()) return Value::null();
    if (view.type() != kArray)
      return fail_code(28664, fmt::format("$concatArrays only supports arrays, not {}", type_text(view)));
    for (const Element& e : view.as_document()) MULTIFORA_TRY_R(append_element(out, e.value()));
  }
  return Value::array(std::move(out).finish());
}

Result<Value> in(Args args, EvalContext& context) {
  const ValueView a = args[1].view();
  if (a.type() != kArray)
    return fail_code(40081, fmt::format("$in requires an array as a second argument, found: {}",
                                        type_text(a)));
  for (const Element& e : a.as_document())
    if (equal_values(args[0].view(), e.value(), context.collator)) return Value::of(true);
  return Value::of(false);
}

// A start or end index of the $indexOf family.
Result<std::int32_t> index_argument(std::string_view name, std::string_view which, const ValueView& v) {
  std::int32_t i = 0;
  if (!v.is_number() || !exact_int32(v, &i))
    return fail_code(40096, fmt::format("{} requires an integral {} index, found a value of type: {}, "
                                        "with value: {}", name, which, type_text(v), value_text(v)));
  if (i < 0)
    return fail_code(40097, fmt::format("{} requires a nonnegative {} index, found: {}", name, which, i));
  return i;
}

Result<Value> index_of_array(Args args, EvalContext& context) {
  const ValueView a = args[0].view();
  if (a.is_nullish()) return Value::null();
  if (a.type() != kArray)
    return fail_code(40090, fmt::format("$indexOfArray requires an array as a first argument, found: {}",
                                        type_text(a)));
  std::int32_t from = 0;
  std::int32_t to = std::numeric_limits<std::int32_t>::max();
  if (args.size() > 2) {
    MULTIFORA_ASSIGN_R(from, index_argument("$indexOfArray", "starting", args[2].view()));
  }
  if (args.size() > 3) {
    MULTIFORA_ASSIGN_R(to, index_argument("$indexOfArray", "ending", args[3].view()));
  }
  std::int32_t i = 0;
  for (const Element& e : a.as_document()) {
    if (i >= to) break;
    if (i >= from && equal_values(args[1].view(), e.value(), context.collator)) return Value::of(i);
    ++i;
  }
  return Value::of(std::int32_t{-1});
}

Result<Value> is_array(Args args, EvalContext&) { return Value::of(args[0].type() == kArray); }

Result<std::int32_t> range_argument(std::string_view which, const ValueView& v, int code) {
  std::int32_t i = 0;
  if (!v.is_number())
    return fail_code(code, fmt::format("$range requires a numeric {} value, found value of type: {}",
                                       which, type_text(v)));
  if (!exact_int32(v, &i))
    return fail_code(code + 1, fmt::format("$range requires a {} value that can be represented as a "
                                           "32-bit integer, found value: {}", which, value_text(v)));
  return i;
}

Result<Value> range(Args args, EvalContext& context) {
  MULTIFORA_ASSIGN_R(const std::int64_t from, range_argument("starting", args[0].view(), 34443));
  MULTIFORA_ASSIGN_R(const std::int64_t to, range_argument("ending", args[1].view(), 34445));
  std::int64_t step = 1;
  if (args.size() == 3) {
    MULTIFORA_ASSIGN_R(step, range_argument("step", args[2].view(), 34447));
  }
  if (step == 0) return fail_code(34449, "$range requires a non-zero step value");
  const std::int64_t span = step > 0 ? to - from : from - to;
  const std::int64_t count = span <= 0 ? 0 : (span - 1) / (step > 0 ? step : -step) + 1;
  constexpr auto kBytesMax = static_cast<std::int64_t>(limits::kQueryMemoryMax);
  if (count * 16 > kBytesMax)
    return fail(ErrorCode::kExceededMemoryLimit,
                fmt::format("$range would use too much memory ({} bytes) and cannot spill to disk. "
                            "Memory limit: {} bytes", count * 16, kBytesMax));
  ArrayBuilder out;
  for (std::int64_t i = 0; i < count; ++i) {
    if (context.interrupt != nullptr && (i & 1023) == 0) MULTIFORA_TRY_R(context.interrupt->check());
    out.append(static_cast<std::int32_t>(from + i * step));
  }
  return Value::array(std::move(out).finish());
}

Result<Value> reverse_array(Args args, EvalContext&) {
  const ValueView a = args[0].view();
  if (a.is_nullish()) return Value::null();
  if (a.type() != kArray)
    return fail_code(34435, fmt::format("The argument to $reverseArray must be an array, but was of "
                                        "type: {}", type_text(a)));
  std::vector<ValueView> elements = elements_of(a);
  std::reverse(elements.begin(), elements.end());
  return array_of(elements);
}

Result<Value> size(Args args, EvalContext&) {
  const ValueView a = args[0].view();
  if (a.type() != kArray)
    return fail_code(17124, fmt::format("The argument to $size must be an array, but was of type: {}",
                                        type_text(a)));
  return Value::of(static_cast<std::int32_t>(a.as_document().count()));
}

Result<std::int32_t> slice_argument(std::string_view which, const ValueView& v, int code) {
  std::int32_t i = 0;
  if (!v.is_number())
    return fail_code(code, fmt::format("{} argument to $slice must be numeric, but is of type: {}",
                                       which, type_text(v)));
  if (!exact_int32(v, &i))
    return fail_code(code + 1, fmt::format("{} argument to $slice can't be represented as a 32-bit "
                                           "integer: {}", which, value_text(v)));
  return i;
}

Result<Value> slice(Args args, EvalContext&) {
  const ValueView a = args[0].view();
  if (a.is_nullish() || args[1].nullish()) return Value::null();
  if (a.type() != kArray)
    return fail_code(28724, fmt::format("First argument to $slice must be an array, but is of type: {}",
                                        type_text(a)));
  const std::vector<ValueView> elements = elements_of(a);
  const auto n = static_cast<std::int64_t>(elements.size());
  MULTIFORA_ASSIGN_R(const std::int64_t second, slice_argument("Second", args[1].view(), 28725));
  std::int64_t from = 0;
  std::int64_t to = n;
  if (args.size() == 2) {
    if (second >= 0)
      to = std::min(second, n);
    else
      from = std::max<std::int64_t>(n + second, 0);
  } else {
    if (args[2].nullish()) return Value::null();
    MULTIFORA_ASSIGN_R(const std::int64_t third, slice_argument("Third", args[2].view(), 28727));
    if (third <= 0)
      return fail_code(28729, fmt::format("Third argument to $slice must be positive: {}", third));
    from = second >= 0 ? std::min(second, n) : std::max<std::int64_t>(n + second, 0);
    to = std::min(from + third, n);
  }
  return array_of(std::span(elements).subspan(static_cast<std::size_t>(from),
                                              static_cast<std::size_t>(to - from)));
}

// ---------------------------------------------------------------- $sortArray

constexpr Param kSortArrayParams[] = {{"input", 2942502}, {"sortBy", 2942503}};
constexpr NamedParams kSortArrayNamed{kSortArrayParams, 2942500, 2942501};

// Arguments: the input, and sortBy as a constant.
Result<ExpressionPtr> parse_sort_array(const OperatorRow& row, const ValueView& spec,
                                       VariableScope& scope) {
  MULTIFORA_ASSIGN_R(const std::vector<ValueView> values, named_arguments(row, kSortArrayNamed, spec));
  MULTIFORA_ASSIGN_R([[maybe_unused]] const ArrayOrder order, ArrayOrder::parse(values[1], 2942507));
  std::vector<ExpressionPtr> args(2);
  MULTIFORA_ASSIGN_R(args[0], parse_expression(values[0], scope));
  args[1] = make_constant(Value(values[1]).own());
  return fold(std::make_unique<Node>(row, std::move(args)), scope);
}

Result<Value> sort_array(Args args, EvalContext& context) {
  const ValueView a = args[0].view();
  if (a.is_nullish()) return Value::null();
  if (a.type() != kArray)
    return fail_code(2942504, fmt::format("The input argument to $sortArray must be an array, but was "
                                          "of type: {}", type_text(a)));
  MULTIFORA_ASSIGN_R(const ArrayOrder order, ArrayOrder::parse(args[1].view(), 2942507));
  std::vector<ValueView> elements = elements_of(a);
  MULTIFORA_TRY_R(order.sort(elements, context.collator, context.interrupt));
  return array_of(elements);
}

// ---------------------------------------------------------------- $zip

// Arguments: useLongestLength (constant), n inputs, then n defaults or none.
Result<ExpressionPtr> parse_zip(const OperatorRow& row, const ValueView& spec, VariableScope& scope) {
  if (spec.type() != kObject)
    return fail_code(34460, fmt::format("$zip only supports an object as an argument, found {}",
                                        type_text(spec)));
  bool longest = false;
  bool have_inputs = false;
  std::vector<ExpressionPtr> inputs;
  std::vector<ExpressionPtr> defaults;
  const auto parse_all = [&](const ValueView& array, std::vector<ExpressionPtr>& into) -> Status {
    for (const Element& e : array.as_document()) {
      MULTIFORA_ASSIGN(ExpressionPtr parsed, parse_expression(e.value(), scope));
      into.push_back(std::move(parsed));
    }
    return {};
  };
  for (const Element& e : spec.as_document()) {
    if (e.name() == "inputs") {
      if (e.type() != kArray)
        return fail_code(34461, fmt::format("inputs must be an array of expressions, found {}",
                                            type_text(e.value())));
      have_inputs = true;
      MULTIFORA_TRY_R(parse_all(e.value(), inputs));
    } else if (e.name() == "defaults") {
      if (e.type() != kArray)
        return fail_code(34462, fmt::format("defaults must be an array of expressions, found {}",
                                            type_text(e.value())));
      MULTIFORA_TRY_R(parse_all(e.value(), defaults));
    } else if (e.name() == "useLongestLength") {
      if (e.type() != kBool)
        return fail_code(34463, fmt::format("useLongestLength must be a bool, found {}",
                                            type_text(e.value())));
      longest = e->as_bool();
    } else {
      return fail_code(34464, fmt::format("$zip found an unknown argument: {}", e.name()));
    }
  }
  if (!have_inputs || inputs.empty())
    return fail_code(34465, "$zip requires at least one input array");
  if (!defaults.empty() && !longest)
    return fail_code(34466, "cannot specify defaults unless useLongestLength is true");
  if (!defaults.empty() && defaults.size() != inputs.size())
    return fail_code(34467, "defaults and inputs must have the same length");
  std::vector<ExpressionPtr> args;
  args.push_back(make_constant(Value::of(longest)));
  args.push_back(make_constant(Value::of(static_cast<std::int32_t>(inputs.size()))));
  for (ExpressionPtr& e : inputs) args.push_back(std::move(e));
  for (ExpressionPtr& e : defaults) args.push_back(std::move(e));
  auto node = std::make_unique<Node>(row, std::move(args));
  node->set_spec(spec);
  return fold(std::move(node), scope);
}

Result<Value> zip(Args args, EvalContext& context) {
  const bool longest = args[0].view().as_bool();
  const auto n = static_cast<std::size_t>(args[1].view().as_int32());
  const Args inputs = args.subspan(2, n);
  const Args defaults = args.subspan(2 + n);
  std::vector<std::vector<ValueView>> columns;
  std::size_t rows = 0;
  for (const Value& v : inputs) {
    const ValueView view = v.view();
    if (view.is_nullish()) return Value::null();
    if (view.type() != kArray)
      return fail_code(34468, fmt::format("$zip found a non-array expression in input: {}",
                                          value_text(view)));
    columns.push_back(elements_of(view));
    const std::size_t length = columns.back().size();
    rows = columns.size() == 1 ? length : longest ? std::max(rows, length) : std::min(rows, length);
  }
  ArrayBuilder out;
  for (std::size_t r = 0; r < rows; ++r) {
    MULTIFORA_TRY_R(context.worked(n * sizeof(ValueView)));
    ArrayBuilder row = out.array();
    for (std::size_t c = 0; c < n; ++c) {
      if (r < columns[c].size())
        row.append(columns[c][r]);
      else if (c < defaults.size() && !defaults[c].missing())
        row.append(defaults[c].view());
      else
        row.append_null();
    }
    row.close();
    if (out.size_bytes() > limits::kExpressionValueSizeMax)
      return fail(ErrorCode::kBSONObjectTooLarge, "the result of $zip is too large");
  }
  return Value::array(std::move(out).finish());
}

constexpr OperatorRow kRows[] = {
    {.name = "$arrayElemAt", .min_args = 2, .max_args = 2, .strict = array_elem_at},
    {.name = "$concatArrays", .strict = concat_arrays},
    {.name = "$first", .min_args = 1, .max_args = 1, .strict = first},
    {.name = "$in", .min_args = 2, .max_args = 2, .strict = in, .flags = kNoFold},
    {.name = "$indexOfArray", .min_args = 2, .max_args = 4, .strict = index_of_array, .flags = kNoFold},
    {.name = "$isArray", .min_args = 1, .max_args = 1, .strict = is_array},
    {.name = "$last", .min_args = 1, .max_args = 1, .strict = last},
    {.name = "$range", .min_args = 2, .max_args = 3, .strict = range},
    {.name = "$reverseArray", .min_args = 1, .max_args = 1, .strict = reverse_array},
    {.name = "$size", .min_args = 1, .max_args = 1, .strict = size},
    {.name = "$slice", .min_args = 2, .max_args = 3, .strict = slice},
    {.name = "$sortArray", .named = &kSortArrayNamed, .strict = sort_array,
     .parse = parse_sort_array, .flags = kNoFold},
    {.name = "$zip", .strict = zip, .parse = parse_zip},
};

}  // namespace

std::span<const OperatorRow> array_operators() { return kRows; }

}  // namespace multifora
