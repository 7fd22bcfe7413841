// type bsonType enum minimum maximum exclusive* multipleOf minLength maxLength pattern, and the
// annotations title and description.
#include <fmt/format.h>

#include "core/bson/compare.h"
#include "plugins/query-engine/match_jsonschema.h"
#include "plugins/query-engine/match_parse.h"

namespace multifora::json_schema {

namespace {

// ---- Types ----

class TypeRule final : public Rule {
 public:
  TypeRule(const Element& spec, TypeSet types) : Rule(spec), types_(types) {}
  bool holds(const ValueView& value) const override { return types_.contains(value.type()); }
  void explain(const ValueView& value, DocumentBuilder& out) const override {
    explain_plainly(out, "type did not match");
    out.append("consideredValue", value);
    out.append("consideredType", type_name(value.type()));
  }

 private:
  TypeSet types_;
};

Status no_duplicates(const Element& element) {
  if (element.type() == BsonType::kString) return {};
  MULTIFORA_ASSIGN([[maybe_unused]] auto names, parse_names(element));
  return {};
}

Status add_json_type(std::string_view name, TypeSet& types) {
  if (name == "object") types.add(BsonType::kObject);
  else if (name == "array") types.add(BsonType::kArray);
  else if (name == "number") types.add_numbers();
  else if (name == "boolean") types.add(BsonType::kBool);
  else if (name == "string") types.add(BsonType::kString);
  else if (name == "null") types.add(BsonType::kNull);
  else if (name == "integer")
    return Status(ErrorCode::kFailedToParse,
                  "$jsonSchema type 'integer' is not currently supported.");
  else
    return Status(ErrorCode::kBadValue, fmt::format("Unknown type name alias: {}", name));
  return {};
}

Status parse_type(const Element& element, DocumentView all, Schema& out) {
  if (!all["bsonType"].missing())
    return Status(ErrorCode::kFailedToParse,
                  "Cannot specify both $jsonSchema keywords 'type' and 'bsonType'");
  if (element.type() != BsonType::kString && element.type() != BsonType::kArray)
    return require_type(element, BsonType::kString, "either a string or an array of strings");
  MULTIFORA_TRY(no_duplicates(element));
  TypeSet types;
  if (element.type() == BsonType::kString) {
    MULTIFORA_TRY(add_json_type(element->as_string(), types));
  } else {
    for (const Element& member : element->as_document())
      MULTIFORA_TRY(add_json_type(member->as_string(), types));
  }
  out.add(std::make_unique<TypeRule>(element, types));
  return {};
}

Status parse_bson_type(const Element& element, DocumentView, Schema& out) {
  if (element.type() != BsonType::kString && element.type() != BsonType::kArray)
    return require_type(element, BsonType::kString, "either a string or an array of strings");
  MULTIFORA_TRY(no_duplicates(element));
  MULTIFORA_ASSIGN(const TypeSet types, match::parse_types("bsonType", element.value()));
  out.add(std::make_unique<TypeRule>(element, types));
  return {};
}

// ---- enum ----

class EnumRule final : public Rule {
 public:
  using Rule::Rule;
  bool holds(const ValueView& value) const override {
    for (const Element& member : spec_->as_document())
      if (equal_unordered(member.value(), value)) return true;
    return false;
  }
  void explain(const ValueView& value, DocumentBuilder& out) const override {
    explain_plainly(out, "value was not found in enum");
    out.append("consideredValue", value);
  }
};

Status parse_enum(const Element& element, DocumentView, Schema& out) {
  MULTIFORA_TRY(require_type(element, BsonType::kArray, "an array"));
  const DocumentView members = element->as_document();
  if (members.empty())
    return Status(ErrorCode::kFailedToParse, "$jsonSchema keyword 'enum' cannot be an empty array");
  if (!find_duplicate(members).missing())
    return Status(ErrorCode::kFailedToParse,
                  "$jsonSchema keyword 'enum' array cannot contain duplicate values.");
  out.add(std::make_unique<EnumRule>(element));
  return {};
}

// ---- Numbers ----

class BoundRule final : public Rule {
 public:
  BoundRule(const Element& spec, const Element& exclusive, bool is_minimum)
      : Rule(spec), exclusive_(exclusive), is_minimum_(is_minimum) {}
  bool holds(const ValueView& value) const override {
    if (!value.is_number()) return true;
    const int order = compare_numbers(value, spec_.value()) * (is_minimum_ ? 1 : -1);
    return order > 0 || (order == 0 && !is_exclusive());
  }
  void explain(const ValueView& value, DocumentBuilder& out) const override {
    out.append("operatorName", is_exclusive() ? exclusive_.name() : keyword());
    {
      DocumentBuilder as = out.object("specifiedAs");
      as.append(spec_);
      if (!exclusive_.missing()) as.append(exclusive_);
    }
    out.append("reason", "comparison failed").append("consideredValue", value);
  }

 private:
  bool is_exclusive() const { return !exclusive_.missing() && exclusive_->as_bool(); }
  Element exclusive_;
  bool is_minimum_;
};

template <bool is_minimum>
Status parse_bound(const Element& element, DocumentView all, Schema& out) {
  if (!element->is_number())
    return Status(ErrorCode::kTypeMismatch,
                  fmt::format("$jsonSchema keyword '{}' must be a number", element.name()));
  const Element exclusive = all.find(is_minimum ? "exclusiveMinimum" : "exclusiveMaximum");
  if (!exclusive.missing())
    MULTIFORA_TRY(require_type(exclusive, BsonType::kBool, "a boolean"));
  out.add(std::make_unique<BoundRule>(element, exclusive, is_minimum));
  return {};
}

template <bool is_minimum>
Status parse_exclusive(const Element& element, DocumentView all, Schema&) {
  MULTIFORA_TRY(require_type(element, BsonType::kBool, "a boolean"));
  const std::string_view partner = is_minimum ? "minimum" : "maximum";
  if (!all[partner].missing()) return {};
  return Status(ErrorCode::kFailedToParse,
                fmt::format("$jsonSchema keyword '{}' must be a present if {} is present", partner,
                            element.name()));
}

Decimal128 to_decimal(const ValueView& value) {
  switch (value.type()) {
    case BsonType::kDecimal128: return value.as_decimal();
    case BsonType::kDouble: return Decimal128::from_double(value.as_double());
    case BsonType::kInt32: return Decimal128(value.as_int32());
    default: return Decimal128(value.as_int64());
  }
}

class MultipleOfRule final : public Rule {
 public:
  explicit MultipleOfRule(const Element& spec) : Rule(spec), divisor_(to_decimal(spec.value())) {}
  bool holds(const ValueView& value) const override {
    return !value.is_number() || to_decimal(value).modulo(divisor_).is_zero();
  }
  void explain(const ValueView& value, DocumentBuilder& out) const override {
    explain_plainly(out, "considered value is not a multiple of the specified value");
    out.append("consideredValue", value);
  }

 private:
  Decimal128 divisor_;
};

Status parse_multiple_of(const Element& element, DocumentView, Schema& out) {
  if (!element->is_number())
    return Status(ErrorCode::kTypeMismatch, "$jsonSchema keyword 'multipleOf' must be a number");
  const Decimal128 divisor = to_decimal(element.value());
  if (divisor.is_negative() || divisor.is_zero() || divisor.is_nan())
    return Status(ErrorCode::kFailedToParse,
                  "$jsonSchema keyword 'multipleOf' must have a positive value");
  out.add(std::make_unique<MultipleOfRule>(element));
  return {};
}

// ---- Strings ----

std::int64_t count_code_points(std::string_view text) {
  std::int64_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  return count;
}

class LengthRule final : public Rule {
 public:
  LengthRule(const Element& spec, std::int64_t length, bool is_minimum)
      : Rule(spec), length_(length), is_minimum_(is_minimum) {}
  bool holds(const ValueView& value) const override {
    if (value.type() != BsonType::kString) return true;
    const std::int64_t length = count_code_points(value.as_string());
    return is_minimum_ ? length >= length_ : length <= length_;
  }
  void explain(const ValueView& value, DocumentBuilder& out) const override {
    explain_plainly(out, "specified string length was not satisfied");
    out.append("consideredValue", value);
  }

 private:
  std::int64_t length_;
  bool is_minimum_;
};

template <bool is_minimum>
Status parse_length(const Element& element, DocumentView, Schema& out) {
  MULTIFORA_ASSIGN(const std::int64_t length, parse_count(element));
  out.add(std::make_unique<LengthRule>(element, length, is_minimum));
  return {};
}

class PatternRule final : public Rule {
 public:
  PatternRule(const Element& spec, std::shared_ptr<const Regex> regex)
      : Rule(spec), regex_(std::move(regex)) {}
  bool holds(const ValueView& value) const override {
    // A match past its limits does not hold: the validator refuses the document.
    return value.type() != BsonType::kString ||
           regex_->matches(value.as_string()).value_or(false);
  }
  void explain(const ValueView& value, DocumentBuilder& out) const override {
    explain_plainly(out, "regular expression did not match");
    out.append("consideredValue", value);
  }

 private:
  std::shared_ptr<const Regex> regex_;
};

Status parse_pattern(const Element& element, DocumentView, Schema& out) {
  MULTIFORA_TRY(require_type(element, BsonType::kString, "a string"));
  MULTIFORA_ASSIGN(auto regex, Regex::compile(element->as_string(), ""));
  out.add(std::make_unique<PatternRule>(element, std::move(regex)));
  return {};
}

Status parse_annotation(const Element& element, DocumentView, Schema&) {
  return require_type(element, BsonType::kString, "a string");
}

constexpr KeywordRow kRows[] = {
    {"type", parse_type},
    {"bsonType", parse_bson_type},
    {"enum", parse_enum},
    {"minimum", parse_bound<true>},
    {"maximum", parse_bound<false>},
    {"exclusiveMinimum", parse_exclusive<true>},
    {"exclusiveMaximum", parse_exclusive<false>},
    {"multipleOf", parse_multiple_of},
    {"minLength", parse_length<true>},
    {"maxLength", parse_length<false>},
    {"pattern", parse_pattern},
    {"title", parse_annotation},
    {"description", parse_annotation},
};

}  // namespace

std::span<const KeywordRow> scalar_keywords() { return kRows; }

}  // namespace multifora::json_schema
