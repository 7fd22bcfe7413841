#include "plugins/query-engine/match_jsonschema.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "core/base/limits.h"
#include "core/bson/compare.h"
#include "plugins/query-engine/match_parse.h"

namespace multifora {

namespace json_schema {

namespace {

// Schemas inside schemas.
thread_local int parse_depth = 0;

constexpr std::string_view kUnsupported[] = {
    "$ref",    "$schema",         "default", "definitions", "format", "id",
    "encrypt", "encryptMetadata", "keyId",   "algorithm"};

using KeywordMap = std::unordered_map<std::string_view, const KeywordRow*>;
const KeywordMap& keywords() {
  static const KeywordMap map = [] {
    KeywordMap rows;
    for (const auto table :
         {scalar_keywords(), object_keywords(), array_keywords(), logic_keywords()})
      for (const KeywordRow& row : table) rows.emplace(row.name, &row);
    return rows;
  }();
  return map;
}

Status parse_keyword(const Element& element, DocumentView all, Schema& out) {
  const auto row = keywords().find(element.name());
  if (row != keywords().end()) return row->second->parse(element, all, out);
  if (std::ranges::find(kUnsupported, element.name()) != std::end(kUnsupported))
    return Status(ErrorCode::kFailedToParse,
                  fmt::format("$jsonSchema keyword '{}' is not currently supported",
                              element.name()));
  return Status(ErrorCode::kFailedToParse,
                fmt::format("Unknown $jsonSchema keyword: {}", element.name()));
}

struct DepthGuard {
  DepthGuard() { ++parse_depth; }
  ~DepthGuard() { --parse_depth; }
};

}  // namespace

void Rule::explain_plainly(DocumentBuilder& out, std::string_view reason) const {
  out.append("operatorName", keyword());
  {
    DocumentBuilder as = out.object("specifiedAs");
    as.append(spec_);
  }
  if (!reason.empty()) out.append("reason", reason);
}

Result<std::unique_ptr<const Schema>> Schema::parse(DocumentView spec) {
  const DepthGuard guard;
  if (parse_depth > limits::kSchemaDepthMax)
    return fail(ErrorCode::kBadValue, "$jsonSchema is nested too deeply");
  auto schema = std::make_unique<Schema>();
  schema->spec_ = spec;
  for (const Element& element : spec)
    MULTIFORA_TRY_R(parse_keyword(element, spec, *schema));
  return schema;
}

bool Schema::holds(const ValueView& value) const {
  return std::ranges::all_of(rules_,
                             [&](const RulePtr& rule) { return rule->holds(value); });
}

void Schema::explain_annotations(DocumentBuilder& out) const {
  for (const std::string_view name : {"title", "description"})
    out.append(name, spec_[name]);
}

void Schema::explain(const ValueView& value, std::string_view name, DocumentBuilder& out) const {
  ArrayBuilder entries = out.array(name);
  for (const RulePtr& rule : rules_) {
    if (rule->holds(value)) continue;
    DocumentBuilder entry = entries.object();
    rule->explain(value, entry);
  }
}

Status require_type(const Element& element, BsonType type, std::string_view what) {
  if (element.type() == type) return {};
  return Status(ErrorCode::kTypeMismatch,
                fmt::format("$jsonSchema keyword '{}' must be {}", element.name(), what));
}

Result<std::int64_t> parse_count(const Element& element) {
  std::int64_t count = 0;
  if (!element->is_number())
    return fail(ErrorCode::kFailedToParse, "Expected a number in: " + match::describe(element));
  if (!element->exact_int64(&count))
    return fail(ErrorCode::kFailedToParse, "Expected an integer: " + match::describe(element));
  if (count < 0)
    return fail(ErrorCode::kFailedToParse,
                "Expected a non-negative number in: " + match::describe(element));
  return count;
}

Result<std::vector<std::string_view>> parse_names(const Element& element) {
  MULTIFORA_TRY_R(require_type(element, BsonType::kArray, "an array"));
  std::vector<std::string_view> names;
  for (const Element& member : element->as_document()) {
    if (member.type() != BsonType::kString)
      return fail(ErrorCode::kTypeMismatch,
                  fmt::format("$jsonSchema keyword '{}' must be an array of strings, but found an "
                              "element of type {}",
                              element.name(), type_name(member.type())));
    const std::string_view name = member->as_string();
    if (std::ranges::find(names, name) != names.end())
      return fail(ErrorCode::kFailedToParse,
                  fmt::format("$jsonSchema keyword '{}' array cannot contain duplicate values",
                              element.name()));
    names.push_back(name);
  }
  if (names.empty())
    return fail(ErrorCode::kFailedToParse,
                fmt::format("$jsonSchema keyword '{}' cannot be an empty array", element.name()));
  return names;
}

Result<SchemaPtr> parse_subschema(std::string_view keyword, const ValueView& value) {
  if (value.type() != BsonType::kObject)
    return fail(ErrorCode::kTypeMismatch,
                fmt::format("$jsonSchema keyword '{}' must be an object, but found an element of "
                            "type {}",
                            keyword, type_name(value.type())));
  return Schema::parse(value.as_document());
}

bool equal_unordered(const ValueView& a, const ValueView& b) {
  if (a.type() == BsonType::kArray && b.type() == BsonType::kArray) {
    auto x = a.as_document().begin();
    auto y = b.as_document().begin();
    const std::default_sentinel_t end;
    for (; x != end && y != end; ++x, ++y)
      if (!equal_unordered(x->value(), y->value())) return false;
    return x == end && y == end;
  }
  if (a.type() != BsonType::kObject || b.type() != BsonType::kObject) return equal_values(a, b);
  if (a.as_document().count() != b.as_document().count()) return false;
  for (const Element& element : a.as_document()) {
    const Element other = b.as_document().find(element.name());
    if (other.missing() || !equal_unordered(element.value(), other.value())) return false;
  }
  return true;
}

namespace {

// Equal values (as above) hash alike.
std::uint64_t hash_unordered(const ValueView& value) {
  std::uint64_t hash = 0;
  if (value.type() == BsonType::kArray) {
    for (const Element& element : value.as_document())
      hash = hash * 31 + hash_unordered(element.value()) + 1;
    return hash;
  }
  if (value.type() != BsonType::kObject) return hash_value(value, 0);
  for (const Element& element : value.as_document())
    hash += std::hash<std::string_view>()(element.name()) * 7 + hash_unordered(element.value()) * 3;
  return hash;
}

}  // namespace

ValueView find_duplicate(DocumentView array) {
  std::unordered_multimap<std::uint64_t, ValueView> seen;
  for (const Element& element : array) {
    const std::uint64_t hash = hash_unordered(element.value());
    const auto [from, to] = seen.equal_range(hash);
    for (auto other = from; other != to; ++other)
      if (equal_unordered(other->second, element.value())) return element.value();
    seen.emplace(hash, element.value());
  }
  return {};
}

}  // namespace json_schema

JsonSchemaNode::JsonSchemaNode(const ValueView& operand, json_schema::SchemaPtr schema)
    : MatchNode(MatchKind::kJsonSchema, "$jsonSchema"), schema_(std::move(schema)) {
  operand_ = operand;
}

bool JsonSchemaNode::matches(DocumentView document, MatchState&) const {
  return schema_->holds(as_value(document));
}
bool JsonSchemaNode::matches_value(const ValueView& value, MatchState&) const {
  return value.type() == BsonType::kObject && schema_->holds(value);
}

namespace match {

namespace {

Status parse_json_schema(Parser&, const Element& element, Nodes& out) {
  if (element.type() != BsonType::kObject)
    return Status(ErrorCode::kTypeMismatch, "$jsonSchema must be an object");
  MULTIFORA_ASSIGN(auto schema, json_schema::Schema::parse(element->as_document()));
  out.push_back(std::make_unique<JsonSchemaNode>(element.value(), std::move(schema)));
  return {};
}

constexpr DocumentRow kRows[] = {{"$jsonSchema", parse_json_schema}};

}  // namespace

std::span<const DocumentRow> json_schema_rows() { return kRows; }

}  // namespace match

}  // namespace multifora
