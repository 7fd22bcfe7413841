// Internal to the matcher: $jsonSchema, compiled to rules that hold or not for a value.
//
// A rule is one keyword (draft 4, with MongoDB's bsonType). Each says whether it holds and, for
// validators, why it does not, in the shape of DocumentValidationFailure's errInfo. Rules view the
// schema's bytes, which the Matcher owns.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "core/bson/builder.h"
#include "plugins/query-engine/match_node.h"

namespace multifora::json_schema {

class Rule {
 public:
  explicit Rule(const Element& spec) : spec_(spec) {}
  virtual ~Rule() = default;
  virtual bool holds(const ValueView& value) const = 0;
  // Appends the fields of this rule's entry in schemaRulesNotSatisfied. Requires !holds(value).
  virtual void explain(const ValueView& value, DocumentBuilder& out) const = 0;
  std::string_view keyword() const { return spec_.name(); }

 protected:
  // {operatorName: keyword, specifiedAs: {keyword: argument}, reason: reason}
  void explain_plainly(DocumentBuilder& out, std::string_view reason) const;
  const Element spec_;
};
using RulePtr = std::unique_ptr<const Rule>;

class Schema {
 public:
  static Result<std::unique_ptr<const Schema>> parse(DocumentView spec);
  bool holds(const ValueView& value) const;
  // Appends title and description where the schema has them.
  void explain_annotations(DocumentBuilder& out) const;
  // Appends {name: [an entry for each rule that does not hold]}.
  void explain(const ValueView& value, std::string_view name, DocumentBuilder& out) const;
  void add(RulePtr rule) { rules_.push_back(std::move(rule)); }

 private:
  DocumentView spec_;
  std::vector<RulePtr> rules_;
};
using SchemaPtr = std::unique_ptr<const Schema>;

// One keyword. `all` is the schema that it stands in; appends rules to `out`.
struct KeywordRow {
  std::string_view name;
  Status (*parse)(const Element& element, DocumentView all, Schema& out);
};
std::span<const KeywordRow> scalar_keywords();
std::span<const KeywordRow> object_keywords();
std::span<const KeywordRow> array_keywords();
std::span<const KeywordRow> logic_keywords();

// Argument checks, with MongoDB's codes.
Status require_type(const Element& element, BsonType type, std::string_view what);
Result<std::int64_t> parse_count(const Element& element);
Result<std::vector<std::string_view>> parse_names(const Element& element);
// A schema in an argument: TypeMismatch where it is not an object.
Result<SchemaPtr> parse_subschema(std::string_view keyword, const ValueView& value);

// Equality that does not mind the order of fields.
bool equal_unordered(const ValueView& a, const ValueView& b);
// The first element that is equal to one before it; missing where there is none. O(n).
ValueView find_duplicate(DocumentView array);

}  // namespace multifora::json_schema

namespace multifora {

// {$jsonSchema: ...} in a filter.
class JsonSchemaNode final : public MatchNode {
 public:
  JsonSchemaNode(const ValueView& operand, json_schema::SchemaPtr schema);
  bool matches(DocumentView document, MatchState& state) const override;
  bool matches_value(const ValueView& value, MatchState& state) const override;
  void append_to(DocumentBuilder& out) const override { append_predicate(out); }
  bool add_dependencies(std::vector<std::string>&) const override { return false; }
  const json_schema::Schema& schema() const { return *schema_; }

 private:
  json_schema::SchemaPtr schema_;
};

}  // namespace multifora
