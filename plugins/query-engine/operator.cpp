#include "plugins/query-engine/operator.h"

#include <chrono>

#include <boost/container/small_vector.hpp>
#include <fmt/format.h>

#include "core/base/limits.h"
#include "core/bson/extended_json.h"

namespace multifora {

std::unexpected<Status> fail_code(int code, std::string message) {
  return fail(location_code(code), std::move(message));
}

std::string type_text(const ValueView& value) { return std::string(type_name(value.type())); }

std::string value_text(const ValueView& value) {
  if (value.missing()) return "MISSING";
  return to_extended_json(value);
}

Status append_element(ArrayBuilder& out, const ValueView& value) {
  if (out.size_bytes() + value.size_bytes() > limits::kExpressionValueSizeMax)
    return Status(ErrorCode::kBSONObjectTooLarge, "an array in an expression grew too large");
  if (value.missing())
    out.append_null();
  else
    out.append(value);
  return {};
}

Result<Value> Node::evaluate_strict(EvalContext& context) const {
  boost::container::small_vector<Value, 3> values(args_.size());
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < args_.size(); ++i) {
    if (!args_[i]) continue;
    MULTIFORA_ASSIGN_R(values[i], args_[i]->evaluate(context));
    if (!values[i].is_view()) MULTIFORA_TRY_R(context.hold(values[i].view().size_bytes()));
    bytes += values[i].view().size_bytes();
  }
  MULTIFORA_TRY_R(context.worked(bytes));
  return row_.strict({values.data(), values.size()}, context);
}

Result<Value> Node::evaluate(EvalContext& context) const {
  const Held held(context);  // what a lazy function evaluates
  Result<Value> result =
      row_.lazy != nullptr ? row_.lazy(*this, context) : evaluate_strict(context);
  if (!result) return result;
  const std::size_t bytes = result->view().size_bytes();
  if (bytes > limits::kExpressionValueSizeMax)
    return fail(ErrorCode::kBSONObjectTooLarge, fmt::format("the result of {} is too large", name()));
  if (row_.lazy != nullptr || bytes >= kLongWorkBytes) MULTIFORA_TRY_R(context.worked(bytes));
  return result;
}

bool Node::add_dependencies(std::vector<std::string>& paths) const {
  bool all = true;
  for (const ExpressionPtr& a : args_)
    if (a && !a->add_dependencies(paths)) all = false;
  return all;
}

void Node::append_to(DocumentBuilder& out, std::string_view name) const {
  DocumentBuilder self = out.object(name);
  if (!spec_.missing()) {
    self.append(row_.name, spec_.view());
    return;
  }
  if (row_.named != nullptr) {
    DocumentBuilder sub = self.object(row_.name);
    for (std::size_t i = 0; i < args_.size(); ++i)
      if (args_[i]) args_[i]->append_to(sub, row_.named->params[i].name);
    return;
  }
  ArrayBuilder sub = self.array(row_.name);
  for (const ExpressionPtr& a : args_) a->append_to(sub.raw(), sub.next_name());
}

ExpressionPtr fold(std::unique_ptr<Node> node, VariableScope& scope) {
  if ((node->row().flags & kNoFold) != 0) return node;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < node->size(); ++i) {
    if (!node->has(i)) continue;
    if (node->arg(i).constant() == nullptr) return node;
    bytes += node->arg(i).constant()->view().size_bytes();
  }
  if (!scope.may_fold(bytes)) return node;
  const auto start = std::chrono::steady_clock::now();
  EvalContext context;
  Result<Value> value = node->evaluate(context);
  if (value) bytes += value->view().size_bytes();
  const bool keep = scope.may_fold(bytes);
  scope.note_fold(bytes, std::chrono::duration_cast<std::chrono::microseconds>(
                             std::chrono::steady_clock::now() - start)
                             .count());
  if (value && !keep) return node;
  if (!value) {
    scope.note_failure(value.error());
    return node;
  }
  return make_constant(value->own());
}

Result<ExpressionPtr> parse_positional(const OperatorRow& row, const ValueView& spec,
                                       VariableScope& scope) {
  std::vector<ExpressionPtr> args;
  if (spec.type() == BsonType::kArray) {
    for (const Element& e : spec.as_document()) {
      MULTIFORA_ASSIGN_R(ExpressionPtr arg, parse_expression(e.value(), scope));
      args.push_back(std::move(arg));
    }
  } else {
    MULTIFORA_ASSIGN_R(ExpressionPtr arg, parse_expression(spec, scope));
    args.push_back(std::move(arg));
  }
  const auto n = static_cast<int>(args.size());
  if (n < row.min_args || n > row.max_args) {
    if (row.min_args == row.max_args)
      return fail_code(16020, fmt::format("Expression {} takes exactly {} arguments. {} were passed in.",
                                          row.name, row.min_args, n));
    if (row.max_args == kAnyNumber)
      return fail_code(28667, fmt::format("Expression {} takes at least {} arguments, but {} were "
                                          "passed in.", row.name, row.min_args, n));
    return fail_code(28667, fmt::format("Expression {} takes at least {} arguments, and at most {}, "
                                        "but {} were passed in.",
                                        row.name, row.min_args, row.max_args, n));
  }
  return fold(std::make_unique<Node>(row, std::move(args)), scope);
}

Result<std::vector<ValueView>> named_arguments(const OperatorRow& row, const NamedParams& named,
                                               const ValueView& spec) {
  if (spec.type() != BsonType::kObject)
    return fail_code(named.not_object_code,
                     fmt::format("{} requires an object as an argument, found: {}", row.name,
                                 type_name(spec.type())));
  std::vector<ValueView> values(named.params.size());
  for (const Element& e : spec.as_document()) {
    std::size_t i = 0;
    while (i < named.params.size() && named.params[i].name != e.name()) ++i;
    if (i == named.params.size())
      return fail_code(named.unknown_code,
                       fmt::format("Unrecognized argument to {}: {}", row.name, e.name()));
    values[i] = e.value();
  }
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i].missing() && named.params[i].missing_code != 0)
      return fail_code(named.params[i].missing_code,
                       fmt::format("Missing '{}' parameter to {}", named.params[i].name, row.name));
  return values;
}

Result<ExpressionPtr> parse_named(const OperatorRow& row, const ValueView& spec,
                                  VariableScope& scope) {
  MULTIFORA_ASSIGN_R(const std::vector<ValueView> values, named_arguments(row, *row.named, spec));
  std::vector<ExpressionPtr> args(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i].missing()) continue;
    MULTIFORA_ASSIGN_R(args[i], parse_expression(values[i], scope));
  }
  return fold(std::make_unique<Node>(row, std::move(args)), scope);
}

Result<ExpressionPtr> parse_operator(const OperatorRow& row, const ValueView& spec,
                                     VariableScope& scope) {
  if (row.parse != nullptr) return row.parse(row, spec, scope);
  if (row.named != nullptr) return parse_named(row, spec, scope);
  return parse_positional(row, spec, scope);
}

}  // namespace multifora
