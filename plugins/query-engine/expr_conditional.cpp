// $cond, $ifNull, $switch: arguments that are not chosen are not evaluated.
#include <fmt/format.h>

#include "plugins/query-engine/expression_table.h"

namespace multifora {
namespace {

Result<Value> cond(const Node& node, EvalContext& context) {
  MULTIFORA_ASSIGN_R(const Value test, node.eval_passing(0, context));
  return node.eval_passing(test.view().truthy() ? 1 : 2, context);
}

constexpr Param kCondParams[] = {{"if", 17080}, {"then", 17081}, {"else", 17082}};
constexpr NamedParams kCondNamed{kCondParams, 17083, 17083};

Result<ExpressionPtr> parse_cond(const OperatorRow& row, const ValueView& spec, VariableScope& scope) {
  if (spec.type() == BsonType::kObject) return parse_named(row, spec, scope);
  return parse_positional(row, spec, scope);
}

Result<Value> if_null(const Node& node, EvalContext& context) {
  for (std::size_t i = 0; i + 1 < node.size(); ++i) {
    MULTIFORA_ASSIGN_R(Value v, node.eval_passing(i, context));
    if (!v.nullish()) return v;
  }
  return node.eval_passing(node.size() - 1, context);
}

Result<ExpressionPtr> parse_if_null(const OperatorRow& row, const ValueView& spec,
                                    VariableScope& scope) {
  const std::size_t n = spec.type() == BsonType::kArray ? spec.as_document().count() : 1;
  if (n < 2)
    return fail_code(1257300, fmt::format("$ifNull needs at least two arguments, had: {}", n));
  return parse_positional(row, spec, scope);
}

// Arguments: case, then, case, then, ..., default (null where there is none).
Result<Value> choose(const Node& node, EvalContext& context) {
  std::size_t i = 0;
  for (; i + 1 < node.size(); i += 2) {
    MULTIFORA_ASSIGN_R(const Value test, node.eval_passing(i, context));
    if (test.view().truthy()) return node.eval_passing(i + 1, context);
  }
  if (!node.has(i))
    return fail_code(40066, "$switch could not find a matching branch for an input, and no default "
                            "was specified.");
  return node.eval_passing(i, context);
}

Status parse_branch(const ValueView& branch, std::vector<ExpressionPtr>& args, VariableScope& scope) {
  if (branch.type() != BsonType::kObject)
    return {location_code(40062), fmt::format("$switch expected each branch to be an object, found: {}",
                                              type_text(branch))};
  ExpressionPtr test;
  ExpressionPtr then;
  for (const Element& e : branch.as_document()) {
    if (e.name() != "case" && e.name() != "then")
      return {location_code(40063), fmt::format("$switch found an unknown argument to a branch: {}",
                                                e.name())};
    MULTIFORA_ASSIGN(ExpressionPtr parsed, parse_expression(e.value(), scope));
    (e.name() == "case" ? test : then) = std::move(parsed);
  }
  if (!test) return {location_code(40064), "$switch requires each branch have a 'case' expression"};
  if (!then) return {location_code(40065), "$switch requires each branch have a 'then' expression."};
  args.push_back(std::move(test));
  args.push_back(std::move(then));
  return {};
}

Result<ExpressionPtr> parse_switch(const OperatorRow& row, const ValueView& spec,
                                   VariableScope& scope) {
  if (spec.type() != BsonType::kObject)
    return fail_code(40060, fmt::format("$switch requires an object as an argument, found: {}",
                                        type_text(spec)));
  std::vector<ExpressionPtr> args;
  ExpressionPtr otherwise;
  for (const Element& e : spec.as_document()) {
    if (e.name() == "branches") {
      if (e.type() != BsonType::kArray)
        return fail_code(40061, fmt::format("$switch expected an array for 'branches', found: {}",
                                            type_text(e.value())));
      for (const Element& b : e->as_document()) MULTIFORA_TRY_R(parse_branch(b.value(), args, scope));
    } else if (e.name() == "default") {
      MULTIFORA_ASSIGN_R(otherwise, parse_expression(e.value(), scope));
    } else {
      return fail_code(40067, fmt::format("$switch found an unknown argument: {}", e.name()));
    }
  }
  if (args.empty()) return fail_code(40068, "$switch requires at least one branch.");
  args.push_back(std::move(otherwise));
  auto node = std::make_unique<Node>(row, std::move(args));
  node->set_spec(spec);
  return fold(std::move(node), scope);
}

constexpr OperatorRow kRows[] = {
    {.name = "$cond", .min_args = 3, .max_args = 3, .named = &kCondNamed, .lazy = cond,
     .parse = parse_cond},
    {.name = "$ifNull", .min_args = 2, .lazy = if_null, .parse = parse_if_null},
    {.name = "$switch", .lazy = choose, .parse = parse_switch},
};

}  // namespace

std::span<const OperatorRow> conditional_operators() { return kRows; }

}  // namespace multifora
