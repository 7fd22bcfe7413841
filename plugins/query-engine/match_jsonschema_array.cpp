// items additionalItems minItems maxItems uniqueItems. They say nothing about other values.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "plugins/query-engine/match_jsonschema.h"

namespace multifora::json_schema {

namespace {

class ArrayRule : public Rule {
 public:
  using Rule::Rule;
  bool holds(const ValueView& value) const final {
    return value.type() != BsonType::kArray || holds_in(value.as_document());
  }

 protected:
  virtual bool holds_in(DocumentView array) const = 0;
};

// ---- Counts ----

class CountRule final : public ArrayRule {
 public:
  CountRule(const Element& spec, std::int64_t count, bool is_minimum)
      : ArrayRule(spec), count_(count), is_minimum_(is_minimum) {}
  void explain(const ValueView& value, DocumentBuilder& out) const override {
    explain_plainly(out, "array did not match specified length");
    out.append("consideredValue", value);
  }

 protected:
  bool holds_in(DocumentView array) const override {
    const auto count = static_cast<std::int64_t>(array.count());
    return is_minimum_ ? count >= count_ : count <= count_;
  }

 private:
  std::int64_t count_;
  bool is_minimum_;
};

template <bool is_minimum>
Status parse_item_count(const Element& element, DocumentView, Schema& out) {
  MULTIFORA_ASSIGN(const std::int64_t count, parse_count(element));
  out.add(std::make_unique<CountRule>(element, count, is_minimum));
  return {};
}

// ---- uniqueItems ----

class UniqueRule final : public ArrayRule {
 public:
  using ArrayRule::ArrayRule;
  void explain(const ValueView& value, DocumentBuilder& out) const override {
    explain_plainly(out, "found a duplicate item");
    out.append("consideredValue", value);
    out.append("duplicatedValue", find_duplicate(value.as_document()));
  }

 protected:
  bool holds_in(DocumentView array) const override { return find_duplicate(array).missing(); }
};

Status parse_unique(const Element& element, DocumentView, Schema& out) {
  MULTIFORA_TRY(require_type(element, BsonType::kBool, "a boolean"));
  if (element->as_bool()) out.add(std::make_unique<UniqueRule>(element));
  return {};
}

// ---- items ----

// One schema for every item from `from` on: items: {...}, or additionalItems. Null: none allowed.
class EachItemRule final : public ArrayRule {
 public:
  EachItemRule(const Element& spec, std::int64_t from, SchemaPtr schema)
      : ArrayRule(spec), from_(from), schema_(std::move(schema)) {}

  void explain(const ValueView& value, DocumentBuilder& out) const override {
    if (schema_ == nullptr) return explain_surplus(value.as_document(), out);
    const std::int64_t index = first_failing(value.as_document());
    out.append("operatorName", keyword());
    out.append("reason", from_ == 0
                             ? "At least one item did not match the sub-schema"
                             : "At least one additional item did not match the sub-schema");
    out.append("itemIndex", static_cast<std::int32_t>(index));
    const auto item = std::ranges::next(value.as_document().begin(), index);
    schema_->explain(item->value(), "details", out);
  }

 protected:
  bool holds_in(DocumentView array) const override { return first_failing(array) < 0; }

 private:
  std::int64_t first_failing(DocumentView array) const {
    std::int64_t index = 0;
    for (const Element& item : array) {
      if (index >= from_ && (schema_ == nullptr || !schema_->holds(item.value()))) return index;
      ++index;
    }
    return -1;
  }
  void explain_surplus(DocumentView array, DocumentBuilder& out) const {
    explain_plainly(out, "");
    ArrayBuilder surplus = out.array("additionalItems");
    std::int64_t index = 0;
    for (const Element& item : array)
      if (index++ >= from_) surplus.append(item.value());
  }

  std::int64_t from_;
  SchemaPtr schema_;
};

// A schema for each position: items: [...].
class ItemListRule final : public ArrayRule {
 public:
  ItemListRule(const Element& spec, std::vector<SchemaPtr> schemas)
      : ArrayRule(spec), schemas_(std::move(schemas)) {}

  void explain(const ValueView& value, DocumentBuilder& out) const override {
    out.append("operatorName", keyword());
    ArrayBuilder list = out.array("details");
    std::size_t index = 0;
    for (const Element& item : value.as_document()) {
      if (index == schemas_.size()) break;
      if (!schemas_[index]->holds(item.value())) {
        DocumentBuilder entry = list.object();
        entry.append("itemIndex", static_cast<std::int32_t>(index));
        schemas_[index]->explain_annotations(entry);
        schemas_[index]->explain(item.value(), "details", entry);
      }
      ++index;
    }
  }

 protected:
  bool holds_in(DocumentView array) const override {
    std::size_t index = 0;
    for (const Element& item : array) {
      if (index == schemas_.size()) break;
      if (!schemas_[index++]->holds(item.value())) return false;
    }
    return true;
  }

 private:
  std::vector<SchemaPtr> schemas_;
};

Status parse_items(const Element& element, DocumentView, Schema& out) {
  if (element.type() == BsonType::kObject) {
    MULTIFORA_ASSIGN(auto schema, parse_subschema(element.name(), element.value()));
    out.add(std::make_unique<EachItemRule>(element, 0, std::move(schema)));
    return {};
  }
  MULTIFORA_TRY(require_type(element, BsonType::kArray, "an array or an object"));
  std::vector<SchemaPtr> schemas;
  for (const Element& member : element->as_document()) {
    MULTIFORA_ASSIGN(auto schema, parse_subschema(element.name(), member.value()));
    schemas.push_back(std::move(schema));
  }
  out.add(std::make_unique<ItemListRule>(element, std::move(schemas)));
  return {};
}

Status parse_additional(const Element& element, DocumentView all, Schema& out) {
  SchemaPtr schema;
  if (element.type() == BsonType::kObject) {
    MULTIFORA_ASSIGN(schema, parse_subschema(element.name(), element.value()));
  } else if (element.type() != BsonType::kBool) {
    return require_type(element, BsonType::kObject, "either an object or a boolean");
  } else if (element->as_bool()) {
    return {};
  }
  // Without a list of items there is nothing that could be additional.
  const ValueView items = all["items"];
  if (items.type() != BsonType::kArray) return {};
  const auto from = static_cast<std::int64_t>(items.as_document().count());
  out.add(std::make_unique<EachItemRule>(element, from, std::move(schema)));
  return {};
}

constexpr KeywordRow kRows[] = {
    {"items", parse_items},
    {"additionalItems", parse_additional},
    {"minItems", parse_item_count<true>},
    {"maxItems", parse_item_count<false>},
    {"uniqueItems", parse_unique},
};

}  // namespace

std::span<const KeywordRow> array_keywords() { return kRows; }

}  // namespace multifora::json_schema
