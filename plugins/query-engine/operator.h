// How an expression operator is written: a row, and a function that computes.
//
//   Result<Value> abs(Args args, EvalContext&) { ... }
//   constexpr OperatorRow kRows[] = {{.name = "$abs", .min_args = 1, .max_args = 1, .strict = abs}};
//
// A *strict* function gets its arguments' values; a *lazy* one evaluates them itself through the
// Node. Arguments are positional ({$abs: x}, {$add: [x, y]}), or named where the row has a
// NamedParams ({$trim: {input: x}}). A row with `parse` does its own parsing (variables, ...).
// Rows and their functions are static; a Node lives in the expression that owns it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/bson/builder.h"
#include "plugins/query-engine/expression.h"

namespace multifora {

class Node;
struct OperatorRow;

using Args = std::span<const Value>;
using StrictFunction = Result<Value> (*)(Args args, EvalContext& context);
using LazyFunction = Result<Value> (*)(const Node& node, EvalContext& context);
using ParseFunction = Result<ExpressionPtr> (*)(const OperatorRow& row, const ValueView& spec,
                                                VariableScope& scope);

struct Param {
  std::string_view name;
  int missing_code = 0;  // the error where it is not given; 0: optional
};
struct NamedParams {
  std::span<const Param> params;
  int not_object_code;
  int unknown_code;
};

inline constexpr int kAnyNumber = 1 << 30;

enum OperatorFlags : std::uint32_t {
  kNoFold = 1u << 0,     // never constant: random, or depends on the collation
};

struct OperatorRow {
  std::string_view name;
  int min_args = 0;
  int max_args = kAnyNumber;
  const NamedParams* named = nullptr;
  StrictFunction strict = nullptr;
  LazyFunction lazy = nullptr;
  ParseFunction parse = nullptr;
  std::uint32_t flags = 0;
};

// An operator with its arguments. Named arguments that were not given are null.
class Node final : public Expression {
 public:
  Node(const OperatorRow& row, std::vector<ExpressionPtr> args) : row_(row), args_(std::move(args)) {}

  const OperatorRow& row() const { return row_; }
  std::string_view name() const { return row_.name; }
  std::size_t size() const { return args_.size(); }
  bool has(std::size_t i) const { return args_[i] != nullptr; }
  const Expression& arg(std::size_t i) const { return *args_[i]; }
  // Missing where the argument was not given. Its bytes count as held until the node is evaluated.
  Result<Value> eval(std::size_t i, EvalContext& context) const {
    Result<Value> value = eval_passing(i, context);
    if (value && !value->is_view()) MULTIFORA_TRY_R(context.hold(value->view().size_bytes()));
    return value;
  }
  // The same of a value that is not kept while others are evaluated, or that the caller counts.
  Result<Value> eval_passing(std::size_t i, EvalContext& context) const {
    if (!args_[i]) return Value();
    return args_[i]->evaluate(context);
  }
  // Variables that the operator sets while it evaluates ($map's `as`).
  int slot(std::size_t i) const { return slots_[i]; }
  void set_slots(std::vector<int> slots) { slots_ = std::move(slots); }
  // How explain shows operators that parse themselves: the specification as it was given.
  void set_spec(const ValueView& spec) { spec_ = Value(spec).own(); }

  Result<Value> evaluate(EvalContext& context) const override;
  bool add_dependencies(std::vector<std::string>& paths) const override;
  void append_to(DocumentBuilder& out, std::string_view name) const override;

 private:
  Result<Value> evaluate_strict(EvalContext& context) const;

  const OperatorRow& row_;
  std::vector<ExpressionPtr> args_;
  std::vector<int> slots_;
  Value spec_;
};

// The node, or its value where the row allows folding, every argument is constant, and the scope
// has not computed too much ahead already.
ExpressionPtr fold(std::unique_ptr<Node> node, VariableScope& scope);

// {$op: x} or {$op: [x, y]}; 16020 / 28667 for a wrong number.
Result<ExpressionPtr> parse_positional(const OperatorRow& row, const ValueView& spec,
                                       VariableScope& scope);
// {$op: {name: x, ...}} by row.named.
Result<ExpressionPtr> parse_named(const OperatorRow& row, const ValueView& spec,
                                  VariableScope& scope);
Result<ExpressionPtr> parse_operator(const OperatorRow& row, const ValueView& spec,
                                     VariableScope& scope);
// Finds the named arguments' values in `spec` by `named`, in the order of its params; missing where
// not given. For rows that parse themselves.
Result<std::vector<ValueView>> named_arguments(const OperatorRow& row, const NamedParams& named,
                                               const ValueView& spec);

// expression_table.cpp; null: unknown.
const OperatorRow* find_operator(std::string_view name);

// --- shared by the families ------------------------------------------------------------------

// Appends with a null for a missing value; fails where the array would get too large.
Status append_element(ArrayBuilder& out, const ValueView& value);

// "$name needs an X, not a Y" with a numbered code.
std::unexpected<Status> fail_code(int code, std::string message);
std::string type_text(const ValueView& value);  // "int", "missing"
// The value as error messages show it.
std::string value_text(const ValueView& value);

}  // namespace multifora
