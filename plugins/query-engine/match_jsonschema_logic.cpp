// allOf anyOf oneOf not.
#include <fmt/format.h>

#include <algorithm>

#include "plugins/query-engine/match_jsonschema.h"

namespace multifora::json_schema {

namespace {

enum class Logic { kAll, kAny, kOne };

class LogicRule final : public Rule {
 public:
  LogicRule(const Element& spec, Logic logic, std::vector<SchemaPtr> schemas)
      : Rule(spec), logic_(logic), schemas_(std::move(schemas)) {}

  bool holds(const ValueView& value) const override {
    const auto fitting = static_cast<std::size_t>(std::ranges::count_if(
        schemas_, [&](const SchemaPtr& schema) { return schema->holds(value); }));
    switch (logic_) {
      case Logic::kAll: return fitting == schemas_.size();
      case Logic::kAny: return fitting > 0;
      default: return fitting == 1;
    }
  }

  void explain(const ValueView& value, DocumentBuilder& out) const override {
    out.append("operatorName", keyword());
    const bool too_many = logic_ == Logic::kOne && std::ranges::any_of(schemas_, [&](auto& s) {
                            return s->holds(value);
                          });
    if (too_many) out.append("reason", "more than one subschema matched");
    ArrayBuilder list = out.array(too_many ? "matchingSchemaIndexes" : "schemasNotSatisfied");
    std::int32_t index = -1;
    for (const SchemaPtr& schema : schemas_) {
      ++index;
      if (schema->holds(value) != too_many) continue;
      if (too_many) {
        list.append(index);
        continue;
      }
      DocumentBuilder entry = list.object();
      entry.append("index", index);
      schema->explain_annotations(entry);
      schema->explain(value, "details", entry);
    }
  }

 private:
  Logic logic_;
  std::vector<SchemaPtr> schemas_;
};

template <Logic logic>
Status parse_logic(const Element& element, DocumentView, Schema& out) {
  MULTIFORA_TRY(require_type(element, BsonType::kArray, "an array"));
  std::vector<SchemaPtr> schemas;
  for (const Element& member : element->as_document()) {
    MULTIFORA_ASSIGN(auto schema, parse_subschema(element.name(), member.value()));
    schemas.push_back(std::move(schema));
  }
  if (schemas.empty())
    return Status(ErrorCode::kBadValue, fmt::format("$jsonSchema keyword '{}' must be a non-empty "
                                                    "array",
                                                    element.name()));
  out.add(std::make_unique<LogicRule>(element, logic, std::move(schemas)));
  return {};
}

class NotRule final : public Rule {
 public:
  NotRule(const Element& spec, SchemaPtr schema) : Rule(spec), schema_(std::move(schema)) {}
  bool holds(const ValueView& value) const override { return !schema_->holds(value); }
  void explain(const ValueView&, DocumentBuilder& out) const override {
    out.append("operatorName", keyword()).append("reason", "child expression matched");
  }

 private:
  SchemaPtr schema_;
};

Status parse_not(const Element& element, DocumentView, Schema& out) {
  MULTIFORA_ASSIGN(auto schema, parse_subschema(element.name(), element.value()));
  out.add(std::make_unique<NotRule>(element, std::move(schema)));
  return {};
}

constexpr KeywordRow kRows[] = {
    {"allOf", parse_logic<Logic::kAll>},
    {"anyOf", parse_logic<Logic::kAny>},
    {"oneOf", parse_logic<Logic::kOne>},
    {"not", parse_not},
};

}  // namespace

std::span<const KeywordRow> logic_keywords() { return kRows; }

}  // namespace multifora::json_schema
