// required properties patternProperties additionalProperties minProperties maxProperties
// dependencies. They say nothing about values that are no objects.
#include <fmt/format.h>

#include <algorithm>

#include "plugins/query-engine/match_jsonschema.h"

namespace multifora::json_schema {

namespace {

class ObjectRule : public Rule {
 public:
  using Rule::Rule;
  bool holds(const ValueView& value) const final {
    return value.type() != BsonType::kObject || holds_in(value.as_document());
  }
  void explain(const ValueView& value, DocumentBuilder& out) const final {
    explain_in(value.as_document(), out);
  }

 protected:
  virtual bool holds_in(DocumentView object) const = 0;
  virtual void explain_in(DocumentView object, DocumentBuilder& out) const = 0;
};

using Names = std::vector<std::string_view>;

bool has_all(DocumentView object, const Names& names) {
  return std::ranges::none_of(names, [&](std::string_view n) { return object[n].missing(); });
}

void append_missing(DocumentView object, Names names, DocumentBuilder& out) {
  std::ranges::sort(names);
  ArrayBuilder missing = out.array("missingProperties");
  for (const std::string_view name : names)
    if (object[name].missing()) missing.append(name);
}

// ---- required ----

class RequiredRule final : public ObjectRule {
 public:
  RequiredRule(const Element& spec, Names names) : ObjectRule(spec), names_(std::move(names)) {}

 protected:
  bool holds_in(DocumentView object) const override { return has_all(object, names_); }
  void explain_in(DocumentView object, DocumentBuilder& out) const override {
    explain_plainly(out, "");
    append_missing(object, names_, out);
  }

 private:
  Names names_;
};

Status parse_required(const Element& element, DocumentView, Schema& out) {
  MULTIFORA_ASSIGN(auto names, parse_names(element));
  out.add(std::make_unique<RequiredRule>(element, std::move(names)));
  return {};
}

// ---- properties ----

struct Property {
  std::string_view name;
  SchemaPtr schema;
};

Result<std::vector<Property>> parse_schemas(const Element& element) {
  MULTIFORA_TRY_R(require_type(element, BsonType::kObject, "an object"));
  std::vector<Property> properties;
  for (const Element& member : element->as_document()) {
    MULTIFORA_ASSIGN_R(auto schema, parse_subschema(element.name(), member.value()));
    properties.push_back({member.name(), std::move(schema)});
  }
  return properties;
}

class PropertiesRule final : public ObjectRule {
 public:
  PropertiesRule(const Element& spec, std::vector<Property> properties)
      : ObjectRule(spec), properties_(std::move(properties)) {}

 protected:
  bool holds_in(DocumentView object) const override {
    return std::ranges::all_of(properties_, [&](const Property& p) { return fits(object, p); });
  }
  void explain_in(DocumentView object, DocumentBuilder& out) const override {
    out.append("operatorName", keyword());
    ArrayBuilder list = out.array("propertiesNotSatisfied");
    for (const Property& property : properties_) {
      if (fits(object, property)) continue;
      DocumentBuilder entry = list.object();
      entry.append("propertyName", property.name);
      property.schema->explain_annotations(entry);
      property.schema->explain(object[property.name], "details", entry);
    }
  }

 private:
  static bool fits(DocumentView object, const Property& property) {
    const ValueView value = object[property.name];
    return value.missing() || property.schema->holds(value);
  }
  std::vector<Property> properties_;
};

Status parse_properties(const Element& element, DocumentView, Schema& out) {
  MULTIFORA_ASSIGN(auto properties, parse_schemas(element));
  out.add(std::make_unique<PropertiesRule>(element, std::move(properties)));
  return {};
}

// ---- patternProperties and additionalProperties ----

struct Pattern {
  std::shared_ptr<const Regex> regex;
  SchemaPtr schema;
  bool matches(std::string_view name) const { return regex->matches(name).value_or(false); }
};

Result<std::shared_ptr<const Regex>> compile_name_pattern(std::string_view pattern) {
  auto regex = Regex::compile(pattern, "");
  if (!regex)
    return fail(ErrorCode::kBadValue,
                fmt::format("Invalid regular expression in $jsonSchema keyword "
                            "'patternProperties': {} :: caused by :: {}",
                            pattern, regex.error().message()));
  return regex;
}

class PatternPropertiesRule final : public ObjectRule {
 public:
  PatternPropertiesRule(const Element& spec, std::vector<Pattern> patterns)
      : ObjectRule(spec), patterns_(std::move(patterns)) {}

 protected:
  bool holds_in(DocumentView object) const override {
    for (const Element& field : object)
      for (const Pattern& pattern : patterns_)
        if (fails(field, pattern)) return false;
    return true;
  }
  void explain_in(DocumentView object, DocumentBuilder& out) const override {
    out.append("operatorName", keyword());
    ArrayBuilder list = out.array("details");
    for (const Element& field : object) {
      for (const Pattern& pattern : patterns_) {
        if (!fails(field, pattern)) continue;
        DocumentBuilder entry = list.object();
        entry.append("propertyName", field.name());
        pattern.schema->explain_annotations(entry);
        entry.append("regexMatched", pattern.regex->pattern());
        pattern.schema->explain(field.value(), "details", entry);
      }
    }
  }

 private:
  static bool fails(const Element& field, const Pattern& pattern) {
    return pattern.matches(field.name()) && !pattern.schema->holds(field.value());
  }
  std::vector<Pattern> patterns_;
};

Status parse_pattern_properties(const Element& element, DocumentView, Schema& out) {
  MULTIFORA_ASSIGN(auto schemas, parse_schemas(element));
  std::vector<Pattern> patterns;
  for (Property& property : schemas) {
    MULTIFORA_ASSIGN(auto regex, compile_name_pattern(property.name));
    patterns.push_back({std::move(regex), std::move(property.schema)});
  }
  out.add(std::make_unique<PatternPropertiesRule>(element, std::move(patterns)));
  return {};
}

class AdditionalPropertiesRule final : public ObjectRule {
 public:
  // `schema` null: none are allowed.
  AdditionalPropertiesRule(const Element& spec, ValueView properties,
                           std::vector<std::shared_ptr<const Regex>> patterns, SchemaPtr schema)
      : ObjectRule(spec),
        properties_(properties),
        patterns_(std::move(patterns)),
        schema_(std::move(schema)) {}

 protected:
  bool holds_in(DocumentView object) const override {
    for (const Element& field : object)
      if (offends(field)) return false;
    return true;
  }
  void explain_in(DocumentView object, DocumentBuilder& out) const override {
    if (schema_ != nullptr) return explain_schema(object, out);
    explain_plainly(out, "");
    ArrayBuilder list = out.array("additionalProperties");
    for (const Element& field : object)
      if (offends(field)) list.append(field.name());
  }

 private:
  bool offends(const Element& field) const {
    if (properties_.type() == BsonType::kObject &&
        !properties_.as_document()[field.name()].missing())
      return false;
    for (const auto& pattern : patterns_)
      if (pattern->matches(field.name()).value_or(false)) return false;
    return schema_ == nullptr || !schema_->holds(field.value());
  }
  void explain_schema(DocumentView object, DocumentBuilder& out) const {
    out.append("operatorName", keyword());
    out.append("reason", "at least one additional property did not match the subschema");
    for (const Element& field : object) {
      if (!offends(field)) continue;
      out.append("failingProperty", field.name());
      return schema_->explain(field.value(), "details", out);
    }
  }

  ValueView properties_;
  std::vector<std::shared_ptr<const Regex>> patterns_;
  SchemaPtr schema_;
};

Status parse_additional(const Element& element, DocumentView all, Schema& out) {
  SchemaPtr schema;
  if (element.type() == BsonType::kObject) {
    MULTIFORA_ASSIGN(schema, parse_subschema(element.name(), element.value()));
  } else if (element.type() != BsonType::kBool) {
    return require_type(element, BsonType::kObject, "an object or a boolean");
  } else if (element->as_bool()) {
    return {};
  }
  std::vector<std::shared_ptr<const Regex>> patterns;
  if (const ValueView names = all["patternProperties"]; names.type() == BsonType::kObject) {
    for (const Element& name : names.as_document()) {
      MULTIFORA_ASSIGN(auto regex, compile_name_pattern(name.name()));
      patterns.push_back(std::move(regex));
    }
  }
  out.add(std::make_unique<AdditionalPropertiesRule>(element, all["properties"],
                                                     std::move(patterns), std::move(schema)));
  return {};
}

// ---- minProperties and maxProperties ----

class CountRule final : public ObjectRule {
 public:
  CountRule(const Element& spec, std::int64_t count, bool is_minimum)
      : ObjectRule(spec), count_(count), is_minimum_(is_minimum) {}

 protected:
  bool holds_in(DocumentView object) const override {
    const auto count = static_cast<std::int64_t>(object.count());
    return is_minimum_ ? count >= count_ : count <= count_;
  }
  void explain_in(DocumentView object, DocumentBuilder& out) const override {
    explain_plainly(out, "specified number of properties was not satisfied");
    out.append("numberOfProperties", static_cast<std::int32_t>(object.count()));
  }

 private:
  std::int64_t count_;
  bool is_minimum_;
};

template <bool is_minimum>
Status parse_property_count(const Element& element, DocumentView, Schema& out) {
  MULTIFORA_ASSIGN(const std::int64_t count, parse_count(element));
  out.add(std::make_unique<CountRule>(element, count, is_minimum));
  return {};
}

// ---- dependencies ----

struct Dependency {
  std::string_view property;
  Names names;       // required where the property is there, or
  SchemaPtr schema;  // what the object must then be

  bool holds(DocumentView object) const {
    if (object[property].missing()) return true;
    return schema != nullptr ? schema->holds(as_value(object)) : has_all(object, names);
  }
};

class DependenciesRule final : public ObjectRule {
 public:
  DependenciesRule(const Element& spec, std::vector<Dependency> list)
      : ObjectRule(spec), list_(std::move(list)) {}

 protected:
  bool holds_in(DocumentView object) const override {
    return std::ranges::all_of(list_, [&](const Dependency& d) { return d.holds(object); });
  }
  void explain_in(DocumentView object, DocumentBuilder& out) const override {
    out.append("operatorName", keyword());
    ArrayBuilder list = out.array("failingDependencies");
    for (const Dependency& dependency : list_) {
      if (dependency.holds(object)) continue;
      DocumentBuilder entry = list.object();
      entry.append("conditionalProperty", dependency.property);
      if (dependency.schema != nullptr)
        dependency.schema->explain(as_value(object), "details", entry);
      else
        append_missing(object, dependency.names, entry);
    }
  }

 private:
  std::vector<Dependency> list_;
};

Status parse_dependencies(const Element& element, DocumentView, Schema& out) {
  MULTIFORA_TRY(require_type(element, BsonType::kObject, "an object"));
  std::vector<Dependency> list;
  for (const Element& member : element->as_document()) {
    Dependency dependency{member.name(), {}, nullptr};
    if (member.type() == BsonType::kArray) {
      MULTIFORA_ASSIGN(dependency.names, parse_names(member));
    } else {
      MULTIFORA_ASSIGN(dependency.schema, parse_subschema(element.name(), member.value()));
    }
    list.push_back(std::move(dependency));
  }
  out.add(std::make_unique<DependenciesRule>(element, std::move(list)));
  return {};
}

constexpr KeywordRow kRows[] = {
    {"required", parse_required},
    {"properties", parse_properties},
    {"patternProperties", parse_pattern_properties},
    {"additionalProperties", parse_additional},
    {"minProperties", parse_property_count<true>},
    {"maxProperties", parse_property_count<false>},
    {"dependencies", parse_dependencies},
};

}  // namespace

std::span<const KeywordRow> object_keywords() { return kRows; }

}  // namespace multifora::json_schema
