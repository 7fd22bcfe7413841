// Objects: $mergeObjects, $objectToArray, $arrayToObject, $getField, $setField, $unsetField.
#include <unordered_map>

#include <fmt/format.h>

#include "plugins/query-engine/document_edit.h"
#include "plugins/query-engine/expression_table.h"

namespace multifora {
namespace {

using enum BsonType;

Result<Value> merge_objects(Args args, EvalContext&) {
  FieldList fields;
  const auto merge = [&](const ValueView& v) -> Status {
    if (v.is_nullish()) return {};
    if (v.type() != kObject)
      return {location_code(40400), fmt::format("$mergeObjects requires object inputs, but input {} is of "
                                                "type {}", value_text(v), type_text(v))};
    for (const Element& e : v.as_document()) fields.set(e.name(), e.value());
    return {};
  };
  if (args.size() == 1 && args[0].type() == kArray) {  // an array's elements, as accumulators do
    for (const Element& e : args[0].view().as_document()) MULTIFORA_TRY_R(merge(e.value()));
  } else {
    for (const Value& v : args) MULTIFORA_TRY_R(merge(v.view()));
  }
  return Value::object(fields.document());
}

Result<Value> object_to_array(Args args, EvalContext&) {
  const ValueView a = args[0].view();
  if (a.is_nullish()) return Value::null();
  if (a.type() != kObject)
    return fail_code(40390, fmt::format("$objectToArray requires a document input, found: {}",
                                        type_text(a)));
  ArrayBuilder out;
  for (const Element& e : a.as_document()) {
    DocumentBuilder pair = out.object();
    pair.append("k", e.name());
    pair.append("v", e.value());
  }
  return Value::array(std::move(out).finish());
}

Result<std::string_view> key_text(const ValueView& key, int code) {
  if (key.type() != kString)
    return fail_code(code, fmt::format("$arrayToObject requires an array of key-value pairs, where the "
                                       "key must be of type string. Found key type: {}", type_text(key)));
  if (key.as_string().find('\0') != std::string_view::npos)
    return fail_code(code == 40395 ? 4940400 : 4940401,
                     "Key field cannot contain an embedded null byte");
  return key.as_string();
}

Status add_pair(const ValueView& pair, FieldList& fields) {
  if (pair.type() != kArray)
    return {location_code(40396), fmt::format("$arrayToObject requires a consistent input format. "
                                              "Elements must all be arrays or all be objects. Array was "
                                              "detected, now found: {}", type_text(pair))};
  if (pair.as_document().count() != 2)
    return {location_code(40397), fmt::format("$arrayToObject requires an array of size 2 arrays, found "
                                              "array of size: {}", pair.as_document().count())};
  auto it = pair.as_document().begin();
  MULTIFORA_ASSIGN(const std::string_view key, key_text(it->value(), 40395));
  fields.set(key, (++it)->value());
  return {};
}

Status add_k_v(const ValueView& object, FieldList& fields) {
  if (object.type() != kObject)
    return {location_code(40391), fmt::format("$arrayToObject requires a consistent input format. "
                                              "Elements must all be arrays or all be objects. Object was "
                                              "detected, now found: {}", type_text(object))};
  const DocumentView d = object.as_document();
  if (d.count() != 2)
    return {location_code(40392), fmt::format("$arrayToObject requires an object keys of 'k' and 'v'. "
                                              "Found incorrect number of keys:{}", d.count())};
  const ValueView k = d["k"];
  const ValueView v = d["v"];
  if (k.missing() || v.missing())
    return {location_code(40393), "$arrayToObject requires an object with keys 'k' and 'v'."};
  MULTIFORA_ASSIGN(const std::string_view key, key_text(k, 40394));
  fields.set(key, v);
  return {};
}

Result<Value> array_to_object(Args args, EvalContext&) {
  const ValueView a = args[0].view();
  if (a.is_nullish()) return Value::null();
  if (a.type() != kArray)
    return fail_code(40386, fmt::format("$arrayToObject requires an array input, found: {}", type_text(a)));
  FieldList fields;
  const BsonType kind = a.as_document().first().type();
  if (!a.as_document().empty() && kind != kArray && kind != kObject)
    return fail_code(40398, fmt::format("Unrecognised input type format for $arrayToObject: {}",
                                        type_name(kind)));
  for (const Element& e : a.as_document())
    MULTIFORA_TRY_R(kind == kArray ? add_pair(e.value(), fields) : add_k_v(e.value(), fields));
  return Value::object(fields.document());
}

// ---------------------------------------------------------------- fields by name

constexpr Param kGetParams[] = {{"field", 3041702}, {"input"}};
constexpr NamedParams kGetNamed{kGetParams, 3041701, 3041701};

Status check_field_argument(const OperatorRow& row, const Expression& field) {
  const Value* name = field.constant();
  if (name == nullptr)
    return {location_code(4161108), fmt::format("{} requires 'field' to evaluate to a constant", row.name)};
  if (name->type() != kString)
    return {location_code(4161107), fmt::format("{} requires 'field' to evaluate to type String, but got {}",
                                                row.name, type_text(name->view()))};
  if (name->view().as_string().find('\0') != std::string_view::npos)
    return {location_code(4161109), fmt::format("{} requires 'field' to not contain an embedded null byte",
                                                row.name)};
  return {};
}

Result<ExpressionPtr> parse_get_field(const OperatorRow& row, const ValueView& spec,
                                      VariableScope& scope) {
  std::vector<ExpressionPtr> args(2);
  static const Value kCurrent = Value::string("$$CURRENT");
  const bool object = spec.type() == kObject && !spec.as_document().empty() &&
                      !spec.as_document().first().name().starts_with('$');
  if (object) {
    MULTIFORA_ASSIGN_R(const std::vector<ValueView> values, named_arguments(row, kGetNamed, spec));
    MULTIFORA_ASSIGN_R(args[0], parse_expression(values[0], scope));
    MULTIFORA_ASSIGN_R(args[1], parse_expression(values[1].missing() ? kCurrent.view() : values[1], scope));
  } else {
    MULTIFORA_ASSIGN_R(args[0], parse_expression(spec, scope));
    MULTIFORA_ASSIGN_R(args[1], parse_expression(kCurrent.view(), scope));
  }
  if (const Value* name = args[0]->constant(); name != nullptr && name->type() != kString)
    return fail_code(5654602, fmt::format("$getField requires 'field' to evaluate to type String, but "
                                          "got {}", type_text(name->view())));
  return fold(std::make_unique<Node>(row, std::move(args)), scope);
}

Result<Value> get_field(Args args, EvalContext&) {
  if (args[0].type() != kString)
    return fail_code(3041704, fmt::format("$getField requires 'field' to evaluate to type String, but "
                                          "got {}", type_text(args[0].view())));
  if (args[1].type() == kObject)
    return args[1].part(args[1].view().as_document()[args[0].view().as_string()]);
  if (args[1].nullish() && !args[1].missing()) return Value::null();
  return Value();
}

constexpr Param kSetParams[] = {{"field", 4161102}, {"input", 4161109}, {"value", 4161103}};
constexpr NamedParams kSetNamed{kSetParams, 4161100, 4161101};
constexpr Param kUnsetParams[] = {{"field", 4161102}, {"input", 4161109}};
constexpr NamedParams kUnsetNamed{kUnsetParams, 4161100, 4161101};

Result<ExpressionPtr> parse_set_field(const OperatorRow& row, const ValueView& spec,
                                      VariableScope& scope) {
  MULTIFORA_ASSIGN_R(const std::vector<ValueView> values, named_arguments(row, *row.named, spec));
  std::vector<ExpressionPtr> args(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    MULTIFORA_ASSIGN_R(args[i], parse_expression(values[i], scope));
  }
  MULTIFORA_TRY_R(check_field_argument(row, *args[0]));
  return fold(std::make_unique<Node>(row, std::move(args)), scope);
}

Result<Value> with_field(std::string_view op, const Value& input, std::string_view name,
                         const ValueView& value) {
  if (input.nullish()) return Value::null();
  if (input.type() != kObject)
    return fail_code(4161105, fmt::format("{} requires 'input' to evaluate to type Object", op));
  DocumentBuilder out;
  bool done = false;
  for (const Element& e : input.view().as_document()) {
    if (e.name() != name) {
      out.append(e);
    } else if (!done) {
      out.append(name, value);
      done = true;
    }
  }
  if (!done) out.append(name, value);
  return Value::object(std::move(out).finish());
}

Result<Value> set_field(Args args, EvalContext&) {
  return with_field("$setField", args[1], args[0].view().as_string(), args[2].view());
}
Result<Value> unset_field(Args args, EvalContext&) {
  return with_field("$unsetField", args[1], args[0].view().as_string(), ValueView());
}

constexpr OperatorRow kRows[] = {
    {.name = "$arrayToObject", .min_args = 1, .max_args = 1, .strict = array_to_object},
    {.name = "$getField", .named = &kGetNamed, .strict = get_field, .parse = parse_get_field},
    {.name = "$mergeObjects", .strict = merge_objects},
    {.name = "$objectToArray", .min_args = 1, .max_args = 1, .strict = object_to_array},
    {.name = "$setField", .named = &kSetNamed, .strict = set_field, .parse = parse_set_field},
    {.name = "$unsetField", .named = &kUnsetNamed, .strict = unset_field, .parse = parse_set_field},
};

}  // namespace

std::span<const OperatorRow> object_operators() { return kRows; }

}  // namespace multifora
