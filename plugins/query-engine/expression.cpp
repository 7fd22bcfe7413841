#include "plugins/query-engine/expression.h"

#include <algorithm>
#include <unordered_set>

#include <fmt/format.h>

#include "core/base/limits.h"
#include "plugins/query-engine/operator.h"

namespace multifora {

// ---------------------------------------------------------------- variables

VariableScope::VariableScope()
    : names_{{"ROOT", kRoot},
             {"CURRENT", kRoot},
             {"REMOVE", kRemove},
             {"NOW", kNow},
             {"CLUSTER_TIME", kClusterTime},
             {"USER_ROLES", kUserRoles},
             {"SEARCH_META", kSearchMeta}},
      slots_(kSystemSlots) {}

int VariableScope::find(std::string_view name) const {
  for (auto it = names_.rbegin(); it != names_.rend(); ++it)
    if (it->first == name) return it->second;
  return -1;
}

int VariableScope::define_system(std::string_view name) {
  names_.emplace_back(name, static_cast<int>(slots_));
  return static_cast<int>(slots_++);
}

Result<int> VariableScope::define(std::string_view name) {
  if (name.empty()) return fail(ErrorCode::kFailedToParse, "empty variable names are not allowed");
  const auto is_lower = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto is_high = [](char c) { return (static_cast<unsigned char>(c) & 0x80) != 0; };
  if (name != "CURRENT") {
    if (!is_lower(name[0]) && !is_high(name[0]))
      return fail(
          ErrorCode::kFailedToParse,
          fmt::format("'{}' starts with an invalid character for a user variable name", name));
    for (const char c : name) {
      const bool ok =
          is_lower(c) || is_high(c) || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
      if (!ok)
        return fail(
            ErrorCode::kFailedToParse,
            fmt::format("'{}' contains an invalid character for a variable name: '{}'", name, c));
    }
  }
  return define_system(name);
}

void VariableScope::release(std::size_t mark) {
  names_.resize(mark);
}

Status EvalContext::held_too_much() {
  return {ErrorCode::kExceededMemoryLimit,
          fmt::format("the values of an expression would use too much memory and cannot spill to "
                      "disk. Memory limit: {} bytes",
                      kExpressionHeldMax)};
}

// ---------------------------------------------------------------- field paths

Status check_field_name(std::string_view name) {
  if (name.empty())
    return {location_code(15998), "FieldPath field names may not be empty strings."};
  if (name[0] == '$' && name != "$id" && name != "$ref" && name != "$db")
    return {location_code(16410),
            fmt::format("FieldPath field names may not start with '$'. Consider using $getField or "
                        "$setField. Given: {}",
                        name)};
  if (name.find('\0') != std::string_view::npos)
    return {location_code(16411), "FieldPath field names may not contain '\\0'."};
  if (name.find('.') != std::string_view::npos)
    return {location_code(16412), "FieldPath field names may not contain '.'."};
  return {};
}

Status check_field_path(std::string_view dotted) {
  if (dotted.empty())
    return {location_code(40352), "FieldPath cannot be constructed with empty string"};
  if (dotted.back() == '.') return {location_code(40353), "FieldPath must not end with a '.'."};
  std::size_t depth = 0;
  for (std::size_t from = 0; from <= dotted.size(); ++depth) {
    const std::size_t dot = std::min(dotted.find('.', from), dotted.size());
    MULTIFORA_TRY(check_field_name(dotted.substr(from, dot - from)));
    from = dot + 1;
  }
  if (depth > 200) return {ErrorCode::kOverflow, "FieldPath is too long"};
  return {};
}

namespace {

std::vector<std::string> split_path(std::string_view dotted) {
  std::vector<std::string> parts;
  for (std::size_t from = 0; from <= dotted.size();) {
    const std::size_t dot = std::min(dotted.find('.', from), dotted.size());
    parts.emplace_back(dotted.substr(from, dot - from));
    from = dot + 1;
  }
  return parts;
}

using Parts = std::span<const std::string>;

Value walk(const ValueView& value, Parts parts);

// An array inside a path: the results of its elements that are objects.
Value walk_array(DocumentView array, Parts parts) {
  ArrayBuilder out;
  for (const Element& e : array) {
    if (e.type() != BsonType::kObject) continue;
    const Value v = walk(e.value(), parts);
    if (!v.missing()) out.append(v.view());
  }
  return Value::array(std::move(out).finish());
}

Value walk(const ValueView& value, Parts parts) {
  ValueView at = value;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (at.type() == BsonType::kArray) return walk_array(at.as_document(), parts.subspan(i));
    if (at.type() != BsonType::kObject) return {};
    at = at.as_document()[parts[i]];
  }
  return at;
}

class ConstantExpression final : public Expression {
 public:
  explicit ConstantExpression(Value value) : value_(std::move(value)) {}
  Result<Value> evaluate(EvalContext&) const override { return value_; }
  const Value* constant() const override { return &value_; }
  bool add_dependencies(std::vector<std::string>&) const override { return true; }
  void append_to(DocumentBuilder& out, std::string_view name) const override {
    if (value_.missing()) {
      out.append(name, "$$REMOVE");
      return;
    }
    out.object(name).append("$const", value_.view());
  }

 private:
  Value value_;
};

// "$a.b" of the root document.
class FieldPathExpression final : public Expression {
 public:
  explicit FieldPathExpression(std::string_view dotted)
      : dotted_(dotted), parts_(split_path(dotted)) {}
  Result<Value> evaluate(EvalContext& context) const override {
    return walk(as_value(context.root), parts_);
  }
  bool add_dependencies(std::vector<std::string>& paths) const override {
    paths.push_back(dotted_);
    return true;
  }
  void append_to(DocumentBuilder& out, std::string_view name) const override {
    out.append(name, "$" + dotted_);
  }
  std::string_view field_path() const override { return dotted_; }

 private:
  std::string dotted_;
  std::vector<std::string> parts_;
};

class RootExpression final : public Expression {
 public:
  Result<Value> evaluate(EvalContext& context) const override {
    return Value(as_value(context.root));
  }
  bool add_dependencies(std::vector<std::string>&) const override { return false; }
  void append_to(DocumentBuilder& out, std::string_view name) const override {
    out.append(name, "$$ROOT");
  }
};

// "$$name.a.b" of a variable other than ROOT.
class VariableExpression final : public Expression {
 public:
  VariableExpression(std::string_view text, int slot, std::vector<std::string> parts)
      : text_(text), slot_(slot), parts_(std::move(parts)) {}

  Result<Value> evaluate(EvalContext& context) const override {
    MULTIFORA_ASSIGN_R(Value value, variable(context));
    if (parts_.empty()) return value;
    Value found = walk(value.view(), parts_);
    // `value` may own the bytes that `found` views.
    return found.is_view() && !found.missing() ? value.part(found.view()) : found;
  }
  bool add_dependencies(std::vector<std::string>&) const override { return true; }
  void append_to(DocumentBuilder& out, std::string_view name) const override {
    out.append(name, text_);
  }

 private:
  Result<Value> variable(EvalContext& context) const {
    switch (slot_) {
      case VariableScope::kRemove:
        return Value();
      case VariableScope::kNow:
        return Value::date_ms(context.now_ms);
      case VariableScope::kClusterTime:
        return Value::timestamp(context.cluster_time);
      case VariableScope::kUserRoles:
        return Value::empty_array();
      default:
        break;
    }
    const auto slot = static_cast<std::size_t>(slot_);
    return slot < context.variables.size() ? context.variables[slot] : Value();
  }

  std::string text_;
  int slot_;
  std::vector<std::string> parts_;
};

// {a: x, b: y}
class ObjectExpression final : public Expression {
 public:
  explicit ObjectExpression(std::vector<std::pair<std::string, ExpressionPtr>> fields)
      : fields_(std::move(fields)) {}
  Result<Value> evaluate(EvalContext& context) const override {
    DocumentBuilder out;
    Held held(context);
    for (const auto& [name, e] : fields_) {
      MULTIFORA_ASSIGN_R(const Value value, e->evaluate(context));
      if (out.size_bytes() + value.view().size_bytes() > limits::kExpressionValueSizeMax)
        return fail(ErrorCode::kBSONObjectTooLarge, "an object in an expression grew too large");
      out.append(name, value.view());
      MULTIFORA_TRY_R(held.set(out.size_bytes()));
    }
    return Value::object(std::move(out).finish());
  }
  bool add_dependencies(std::vector<std::string>& paths) const override {
    bool all = true;
    for (const auto& f : fields_)
      if (!f.second->add_dependencies(paths)) all = false;
    return all;
  }
  void append_to(DocumentBuilder& out, std::string_view name) const override {
    DocumentBuilder sub = out.object(name);
    for (const auto& [field, e] : fields_) e->append_to(sub, field);
  }

 private:
  std::vector<std::pair<std::string, ExpressionPtr>> fields_;
};

// [x, y]
class ArrayExpression final : public Expression {
 public:
  explicit ArrayExpression(std::vector<ExpressionPtr> elements) : elements_(std::move(elements)) {}
  Result<Value> evaluate(EvalContext& context) const override {
    ArrayBuilder out;
    Held held(context);
    for (const ExpressionPtr& e : elements_) {
      MULTIFORA_ASSIGN_R(const Value value, e->evaluate(context));
      MULTIFORA_TRY_R(append_element(out, value.view()));
      MULTIFORA_TRY_R(held.set(out.size_bytes()));
    }
    return Value::array(std::move(out).finish());
  }
  bool add_dependencies(std::vector<std::string>& paths) const override {
    bool all = true;
    for (const ExpressionPtr& e : elements_)
      if (!e->add_dependencies(paths)) all = false;
    return all;
  }
  void append_to(DocumentBuilder& out, std::string_view name) const override {
    ArrayBuilder sub = out.array(name);
    for (const ExpressionPtr& e : elements_) e->append_to(sub.raw(), sub.next_name());
  }

 private:
  std::vector<ExpressionPtr> elements_;
};

ExpressionPtr fold_literal(ExpressionPtr expression, bool all_constant) {
  if (!all_constant) return expression;
  EvalContext context;
  Result<Value> value = expression->evaluate(context);
  return value ? make_constant(std::move(*value)) : std::move(expression);
}

// ---------------------------------------------------------------- parsing

Result<ExpressionPtr> parse_variable(std::string_view text, VariableScope& scope) {
  const std::string_view path = text.substr(2);
  const std::size_t dot = std::min(path.find('.'), path.size());
  const std::string_view name = path.substr(0, dot);
  if (name.empty()) return fail(ErrorCode::kFailedToParse, "empty variable names are not allowed");
  const int slot = scope.find(name);
  if (slot < 0) {
    VariableScope probe;
    MULTIFORA_ASSIGN_R([[maybe_unused]] const int defined, probe.define(name));
    return fail_code(17276, fmt::format("Use of undefined variable: {}", name));
  }
  std::vector<std::string> parts;
  if (dot < path.size()) {
    MULTIFORA_TRY_R(check_field_path(path.substr(dot + 1)));
    parts = split_path(path.substr(dot + 1));
  }
  if (slot == VariableScope::kRoot) {
    if (parts.empty()) return std::make_unique<RootExpression>();
    return std::make_unique<FieldPathExpression>(path.substr(dot + 1));
  }
  return std::make_unique<VariableExpression>(text, slot, std::move(parts));
}

Result<ExpressionPtr> parse_path(std::string_view text, VariableScope& scope) {
  if (text.size() == 1) return fail_code(16872, "'$' by itself is not a valid FieldPath");
  if (text[1] == '$') return parse_variable(text, scope);
  const std::string_view path = text.substr(1);
  MULTIFORA_TRY_R(check_field_path(path));
  const int current = scope.find("CURRENT");
  if (current == VariableScope::kRoot) return std::make_unique<FieldPathExpression>(path);
  return std::make_unique<VariableExpression>(text, current, split_path(path));
}

Result<ExpressionPtr> parse_array(DocumentView array, VariableScope& scope) {
  std::vector<ExpressionPtr> elements;
  bool all_constant = true;
  for (const Element& e : array) {
    MULTIFORA_ASSIGN_R(ExpressionPtr element, parse_expression(e.value(), scope));
    all_constant = all_constant && element->constant() != nullptr;
    elements.push_back(std::move(element));
  }
  return fold_literal(std::make_unique<ArrayExpression>(std::move(elements)), all_constant);
}

Result<ExpressionPtr> parse_object(DocumentView object, VariableScope& scope) {
  const std::string_view first = object.first().name();
  if (!object.empty() && !first.empty() && first[0] == '$') {
    if (object.count() != 1)
      return fail_code(15983,
                       fmt::format("An object representing an expression must have exactly one "
                                   "field: {}",
                                   value_text(as_value(object))));
    const OperatorRow* row = find_operator(first);
    if (row == nullptr)
      return fail(ErrorCode::kInvalidPipelineOperator,
                  fmt::format("Unrecognized expression '{}'", first));
    return parse_operator(*row, object.first().value(), scope);
  }
  std::vector<std::pair<std::string, ExpressionPtr>> fields;
  std::unordered_set<std::string_view> seen;
  bool all_constant = true;
  for (const Element& e : object) {
    MULTIFORA_TRY_R(check_field_name(e.name()));
    if (!seen.insert(e.name()).second)
      return fail_code(16406, fmt::format("duplicate field name specified in object literal: {}",
                                          value_text(as_value(object))));
    MULTIFORA_ASSIGN_R(ExpressionPtr value, parse_expression(e.value(), scope));
    all_constant = all_constant && value->constant() != nullptr;
    fields.emplace_back(e.name(), std::move(value));
  }
  return fold_literal(std::make_unique<ObjectExpression>(std::move(fields)), all_constant);
}

}  // namespace

ExpressionPtr make_constant(Value value) {
  return std::make_unique<ConstantExpression>(std::move(value));
}

Result<ExpressionPtr> make_field_path(std::string_view dotted) {
  MULTIFORA_TRY_R(check_field_path(dotted));
  return std::make_unique<FieldPathExpression>(dotted);
}

Result<ExpressionPtr> parse_expression(const ValueView& spec, VariableScope& scope) {
  switch (spec.type()) {
    case BsonType::kString:
      if (!spec.as_string().empty() && spec.as_string()[0] == '$')
        return parse_path(spec.as_string(), scope);
      break;
    case BsonType::kArray:
      return parse_array(spec.as_document(), scope);
    case BsonType::kObject:
      return parse_object(spec.as_document(), scope);
    default:
      break;
  }
  return make_constant(Value(spec).own());
}

Status bind_let(DocumentView let, VariableScope& scope, EvalContext& context) {
  for (const Element& e : let) {
    MULTIFORA_ASSIGN(const ExpressionPtr expression, parse_expression(e.value(), scope));
    std::vector<std::string> paths;
    if (!expression->add_dependencies(paths) || !paths.empty())
      return {location_code(4890500),
              fmt::format("Command let Expression tried to access a field, but this is not allowed "
                          "because command let expressions run before the query examines any "
                          "documents: {}",
                          e.name())};
    MULTIFORA_ASSIGN(const Value value, expression->evaluate(context));
    MULTIFORA_TRY(context.hold(value.view().size_bytes()));  // as long as the context lives
    MULTIFORA_ASSIGN(const int slot, scope.define(e.name()));
    context.set_variable(slot, value.own());
  }
  return {};
}

}  // namespace multifora
