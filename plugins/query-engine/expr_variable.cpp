// Operators that bind variables: $let, $map, $filter, $reduce.
#include <limits>

#include <fmt/format.h>

#include "plugins/query-engine/expression_table.h"
#include "plugins/query-engine/numeric.h"

namespace multifora {
namespace {

using enum BsonType;

// The variables defined since, gone at the end of the block.
class Scoped {
 public:
  explicit Scoped(VariableScope& scope) : scope_(scope), mark_(scope.mark()) {}
  ~Scoped() { scope_.release(mark_); }
  Scoped(const Scoped&) = delete;
  Scoped& operator=(const Scoped&) = delete;

 private:
  VariableScope& scope_;
  std::size_t mark_;
};

ExpressionPtr make_node(const OperatorRow& row, std::vector<ExpressionPtr> args,
                        std::vector<int> slots, const ValueView& spec) {
  auto node = std::make_unique<Node>(row, std::move(args));
  node->set_slots(std::move(slots));
  node->set_spec(spec);
  return node;
}

// ---------------------------------------------------------------- $let

constexpr Param kLetParams[] = {{"vars", 16876}, {"in", 16877}};
constexpr NamedParams kLetNamed{kLetParams, 16874, 16875};

Result<ExpressionPtr> parse_let(const OperatorRow& row, const ValueView& spec,
                                VariableScope& scope) {
  MULTIFORA_ASSIGN_R(const std::vector<ValueView> values, named_arguments(row, kLetNamed, spec));
  if (values[0].type() != kObject)
    return fail_code(10065, fmt::format("invalid parameter: expected an object (vars), found {}",
                                        type_text(values[0])));
  std::vector<ExpressionPtr> args;
  for (const Element& e : values[0].as_document()) {
    MULTIFORA_ASSIGN_R(ExpressionPtr value, parse_expression(e.value(), scope));
    args.push_back(std::move(value));
  }
  const Scoped scoped(scope);
  std::vector<int> slots;
  for (const Element& e : values[0].as_document()) {
    MULTIFORA_ASSIGN_R(const int slot, scope.define(e.name()));
    slots.push_back(slot);
  }
  MULTIFORA_ASSIGN_R(ExpressionPtr in, parse_expression(values[1], scope));
  args.push_back(std::move(in));
  return make_node(row, std::move(args), std::move(slots), spec);
}

// Gives back what the first `count` variables of a node hold, when its evaluation ends.
class Bound {
 public:
  Bound(const Node& node, std::size_t count, EvalContext& context)
      : node_(node), count_(count), context_(context) {}
  ~Bound() {
    for (std::size_t i = 0; i < count_; ++i)
      if (node_.slot(i) >= 0) context_.set_variable(node_.slot(i), Value());
  }
  Bound(const Bound&) = delete;
  Bound& operator=(const Bound&) = delete;

 private:
  const Node& node_;
  std::size_t count_;
  EvalContext& context_;
};

Result<Value> let(const Node& node, EvalContext& context) {
  const std::size_t in = node.size() - 1;
  Held held(context);
  const Bound bound(node, in, context);
  for (std::size_t i = 0; i < in; ++i) {
    MULTIFORA_ASSIGN_R(Value v, node.eval_passing(i, context));
    MULTIFORA_TRY_R(held.add(v));
    context.set_variable(node.slot(i), std::move(v));
  }
  return node.eval_passing(in, context);
}

// ---------------------------------------------------------------- over an array's elements

// Name of the variable that a parameter gives, or its default.
Result<int> define_named(VariableScope& scope, const ValueView& name, std::string_view otherwise,
                         std::string_view op) {
  if (name.missing()) return scope.define(otherwise);
  if (name.type() != kString)
    return fail(ErrorCode::kFailedToParse,
                fmt::format("{}: a variable's name must be a string", op));
  return scope.define(name.as_string());
}

Status poll(EvalContext& context, std::size_t i) {
  if (context.interrupt == nullptr || (i & 63) != 63) return {};
  return context.interrupt->check();
}

void set_index(const Node& node, EvalContext& context, std::size_t which, std::size_t i) {
  if (node.slot(which) >= 0)
    context.set_variable(node.slot(which), int_or_long(static_cast<std::int64_t>(i)));
}

constexpr Param kMapParams[] = {{"input", 16880}, {"as"}, {"arrayIndexAs"}, {"in", 16882}};
constexpr NamedParams kMapNamed{kMapParams, 16878, 16879};

// Arguments: input, in. Slots: element, index (-1: none).
Result<ExpressionPtr> parse_map(const OperatorRow& row, const ValueView& spec,
                                VariableScope& scope) {
  MULTIFORA_ASSIGN_R(const std::vector<ValueView> values, named_arguments(row, kMapNamed, spec));
  std::vector<ExpressionPtr> args(2);
  MULTIFORA_ASSIGN_R(args[0], parse_expression(values[0], scope));
  const Scoped scoped(scope);
  std::vector<int> slots{-1, -1};
  MULTIFORA_ASSIGN_R(slots[0], define_named(scope, values[1], "this", row.name));
  if (!values[2].missing()) {
    MULTIFORA_ASSIGN_R(slots[1], define_named(scope, values[2], "", row.name));
  }
  MULTIFORA_ASSIGN_R(args[1], parse_expression(values[3], scope));
  return make_node(row, std::move(args), std::move(slots), spec);
}

Result<Value> map(const Node& node, EvalContext& context) {
  MULTIFORA_ASSIGN_R(const Value input, node.eval_passing(0, context));
  if (input.nullish()) return Value::null();
  if (input.type() != kArray)
    return fail_code(16883,
                     fmt::format("input to $map must be an array not {}", type_text(input.view())));
  ArrayBuilder out;
  Held held_input(context);
  MULTIFORA_TRY_R(held_input.add(input));
  Held held(context);
  const Bound bound(node, 2, context);
  std::size_t i = 0;
  for (const Element& e : input.view().as_document()) {
    MULTIFORA_TRY_R(poll(context, i));
    context.set_variable(node.slot(0), e.value());
    set_index(node, context, 1, i++);
    MULTIFORA_ASSIGN_R(const Value v, node.eval_passing(1, context));
    MULTIFORA_TRY_R(append_element(out, v.view()));
    MULTIFORA_TRY_R(held.set(out.size_bytes()));
  }
  return Value::array(std::move(out).finish());
}

constexpr Param kFilterParams[] = {
    {"input", 28648}, {"as"}, {"arrayIndexAs"}, {"cond", 28650}, {"limit"}};
constexpr NamedParams kFilterNamed{kFilterParams, 28646, 28647};

// Arguments: input, cond, limit. Slots: element, index (-1: none).
Result<ExpressionPtr> parse_filter(const OperatorRow& row, const ValueView& spec,
                                   VariableScope& scope) {
  MULTIFORA_ASSIGN_R(const std::vector<ValueView> values, named_arguments(row, kFilterNamed, spec));
  std::vector<ExpressionPtr> args(3);
  MULTIFORA_ASSIGN_R(args[0], parse_expression(values[0], scope));
  if (!values[4].missing()) {
    MULTIFORA_ASSIGN_R(args[2], parse_expression(values[4], scope));
  }
  const Scoped scoped(scope);
  std::vector<int> slots{-1, -1};
  MULTIFORA_ASSIGN_R(slots[0], define_named(scope, values[1], "this", row.name));
  if (!values[2].missing()) {
    MULTIFORA_ASSIGN_R(slots[1], define_named(scope, values[2], "", row.name));
  }
  MULTIFORA_ASSIGN_R(args[1], parse_expression(values[3], scope));
  return make_node(row, std::move(args), std::move(slots), spec);
}

Result<std::int32_t> filter_limit(const Node& node, EvalContext& context) {
  constexpr std::int32_t kNone = std::numeric_limits<std::int32_t>::max();
  MULTIFORA_ASSIGN_R(const Value limit, node.eval(2, context));
  if (limit.nullish()) return kNone;
  std::int32_t n = 0;
  if (!limit.view().is_number() || !exact_int32(limit.view(), &n))
    return fail_code(327391, fmt::format("$filter: limit must be represented as a 32-bit integral "
                                         "value: {}",
                                         value_text(limit.view())));
  if (n < 1) return fail_code(327392, fmt::format("$filter: limit must be greater than 0: {}", n));
  return n;
}

Result<Value> filter(const Node& node, EvalContext& context) {
  MULTIFORA_ASSIGN_R(const Value input, node.eval_passing(0, context));
  if (input.nullish()) return Value::null();
  if (input.type() != kArray)
    return fail_code(
        28651, fmt::format("input to $filter must be an array not {}", type_text(input.view())));
  MULTIFORA_ASSIGN_R(std::int32_t left, filter_limit(node, context));
  ArrayBuilder out;
  Held held(context);
  MULTIFORA_TRY_R(held.set(2 * input.view().size_bytes()));  // with what is found
  const Bound bound(node, 2, context);
  std::size_t i = 0;
  for (const Element& e : input.view().as_document()) {
    if (left == 0) break;
    MULTIFORA_TRY_R(poll(context, i));
    context.set_variable(node.slot(0), e.value());
    set_index(node, context, 1, i++);
    MULTIFORA_ASSIGN_R(const Value v, node.eval_passing(1, context));
    if (!v.view().truthy()) continue;
    out.append(e.value());
    --left;
  }
  return Value::array(std::move(out).finish());
}

constexpr Param kReduceParams[] = {{"input", 40077}, {"initialValue", 40078}, {"in", 40079}, {"as"},
                                   {"valueAs"},      {"arrayIndexAs"}};
constexpr NamedParams kReduceNamed{kReduceParams, 40075, 40076};

// Arguments: input, initialValue, in. Slots: this, value, index (-1: none).
Result<ExpressionPtr> parse_reduce(const OperatorRow& row, const ValueView& spec,
                                   VariableScope& scope) {
  MULTIFORA_ASSIGN_R(const std::vector<ValueView> values, named_arguments(row, kReduceNamed, spec));
  std::vector<ExpressionPtr> args(3);
  MULTIFORA_ASSIGN_R(args[0], parse_expression(values[0], scope));
  MULTIFORA_ASSIGN_R(args[1], parse_expression(values[1], scope));
  const Scoped scoped(scope);
  std::vector<int> slots{-1, -1, -1};
  MULTIFORA_ASSIGN_R(slots[0], define_named(scope, values[3], "this", row.name));
  MULTIFORA_ASSIGN_R(slots[1], define_named(scope, values[4], "value", row.name));
  if (!values[5].missing()) {
    MULTIFORA_ASSIGN_R(slots[2], define_named(scope, values[5], "", row.name));
  }
  MULTIFORA_ASSIGN_R(args[2], parse_expression(values[2], scope));
  return make_node(row, std::move(args), std::move(slots), spec);
}

Result<Value> reduce(const Node& node, EvalContext& context) {
  MULTIFORA_ASSIGN_R(const Value input, node.eval_passing(0, context));
  if (input.nullish()) return Value::null();
  if (input.type() != kArray)
    return fail_code(40080, fmt::format("$reduce requires that 'input' be an array, found: {}",
                                        value_text(input.view())));
  Held held_input(context);
  MULTIFORA_TRY_R(held_input.add(input));
  MULTIFORA_ASSIGN_R(Value value, node.eval_passing(1, context));
  Held held(context);
  const Bound bound(node, 3, context);
  std::size_t i = 0;
  for (const Element& e : input.view().as_document()) {
    MULTIFORA_TRY_R(poll(context, i));
    context.set_variable(node.slot(0), e.value());
    MULTIFORA_TRY_R(held.set(value.view().size_bytes()));
    context.set_variable(node.slot(1), std::move(value));
    set_index(node, context, 2, i++);
    MULTIFORA_ASSIGN_R(Value next, node.eval_passing(2, context));
    value = next.own();  // it may view `input`
  }
  return value;
}

constexpr OperatorRow kRows[] = {
    {.name = "$filter", .lazy = filter, .parse = parse_filter},
    {.name = "$let", .lazy = let, .parse = parse_let},
    {.name = "$map", .lazy = map, .parse = parse_map},
    {.name = "$reduce", .lazy = reduce, .parse = parse_reduce},
};

}  // namespace

std::span<const OperatorRow> variable_operators() {
  return kRows;
}

}  // namespace multifora
