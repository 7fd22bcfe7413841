// $pop $pull $pullAll.
#include <fmt/format.h>

#include <algorithm>

#include "core/bson/compare.h"
#include "plugins/query-engine/update_node.h"
#include "plugins/query-engine/value_set.h"

namespace multifora::update {

namespace {

// ---- $pop ----

class PopOperator final : public Operator {
 public:
  explicit PopOperator(bool first) : first_(first) {}

  Result<Value> apply(const ValueView& current, UpdateState& state) const override {
    if (current.missing()) return Value();
    if (current.type() != BsonType::kArray)
      return fail(ErrorCode::kTypeMismatch,
                  fmt::format("Path '{}' contains an element of non-array type '{}'",
                              state.dotted_path(), type_name(current.type())));
    const DocumentView array = current.as_document();
    const std::size_t count = array.count();
    if (count == 0) return Value(current);
    ArrayBuilder out;
    std::size_t index = 0;
    for (const Element& element : array)
      if (index++ != (first_ ? 0 : count - 1)) out.append(element.value());
    return Value::array(std::move(out).finish());
  }
  bool creates(const UpdateState&) const override { return false; }

 private:
  bool first_;
};

Status parse_pop(Parser& parser, const Element& field) {
  std::int64_t end = 0;
  if (!field->is_number())
    return Status(ErrorCode::kFailedToParse, "Expected a number in: " + describe(field));
  if (!field->exact_int64(&end))
    return Status(ErrorCode::kFailedToParse, "Expected an integer: " + describe(field));
  if (end != 1 && end != -1)
    return Status(ErrorCode::kFailedToParse,
                  fmt::format("$pop expects 1 or -1, found: {}", end));
  return parser.add(field.name(), std::make_shared<PopOperator>(end == -1));
}

// ---- $pull and $pullAll ----

class CullOperator : public Operator {
 public:
  Result<Value> apply(const ValueView& current, UpdateState& state) const final {
    if (current.missing()) return Value();
    if (current.type() != BsonType::kArray)
      return fail(ErrorCode::kBadValue, "Cannot apply $pull to a non-array value");
    ArrayBuilder out;
    bool changed = false;
    for (const Element& element : current.as_document()) {
      MULTIFORA_ASSIGN_R(const bool goes, is_unwanted(element.value(), state));
      changed |= goes;
      if (!goes) out.append(element.value());
    }
    if (!changed) return Value(current);
    return Value::array(std::move(out).finish());
  }
  bool creates(const UpdateState&) const final { return false; }
  bool tolerates_scalars() const final { return true; }

 protected:
  virtual Result<bool> is_unwanted(const ValueView& element, UpdateState& state) const = 0;
};

class PullOperator final : public CullOperator {
 public:
  explicit PullOperator(std::unique_ptr<const ElementMatcher> matcher)
      : matcher_(std::move(matcher)) {}

 protected:
  Result<bool> is_unwanted(const ValueView& element, UpdateState& state) const override {
    return matcher_->matches(element, &state.context);
  }

 private:
  std::unique_ptr<const ElementMatcher> matcher_;
};

Status parse_pull(Parser& parser, const Element& field) {
  MULTIFORA_ASSIGN(auto matcher,
                   ElementMatcher::compile(field.value(), parser.matcher_options()));
  return parser.add(field.name(), std::make_shared<PullOperator>(std::move(matcher)));
}

class PullAllOperator final : public CullOperator {
 public:
  PullAllOperator(DocumentView values, const Collator* collator)
      : values_(values), set_(collator) {
    for (const Element& value : values_.view()) set_.insert(value.value());
  }

 protected:
  Result<bool> is_unwanted(const ValueView& element, UpdateState&) const override {
    return set_.contains(element);
  }

 private:
  OwnedDocument values_;  // what the set views
  ValueSet set_;
};

Status parse_pull_all(Parser& parser, const Element& field) {
  if (field.type() != BsonType::kArray)
    return Status(ErrorCode::kBadValue,
                  fmt::format("$pullAll requires an array argument but was given a {}",
                              type_name(field.type())));
  return parser.add(field.name(), std::make_shared<PullAllOperator>(field->as_document(),
                                                                    parser.collator()));
}

constexpr OperatorRow kRows[] = {
    {"$pop", parse_pop}, {"$pull", parse_pull}, {"$pullAll", parse_pull_all}};

}  // namespace

std::span<const OperatorRow> pull_rows() { return kRows; }

}  // namespace multifora::update
