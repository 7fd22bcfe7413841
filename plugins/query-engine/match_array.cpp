// $all $elemMatch $size.
#include <fmt/format.h>

#include <cmath>

#include "plugins/query-engine/match_parse.h"

namespace multifora::match {

namespace {

class SizeNode final : public PathNode {
 public:
  SizeNode(std::string_view path, const ValueView& operand, std::int64_t size)
      : PathNode(MatchKind::kSize, "$size", path, operand, false), size_(size) {}
  bool matches_value(const ValueView& value, MatchState&) const override {
    return value.type() == BsonType::kArray &&
           static_cast<std::int64_t>(value.as_document().count()) == size_;
  }

 private:
  std::int64_t size_;
};

class ElemMatchNode final : public PathNode {
 public:
  ElemMatchNode(MatchKind kind, std::string_view path, const ValueView& operand, Nodes children)
      : PathNode(kind, "$elemMatch", path, operand, false) {
    children_ = std::move(children);
  }

  bool matches_value(const ValueView& value, MatchState& state) const override {
    if (value.type() != BsonType::kArray) return false;
    // Positions inside the element are nobody's business.
    MatchDetails* const details = std::exchange(state.details, nullptr);
    const std::int64_t index = first_match(value.as_document(), state);
    state.details = details;
    if (index < 0) return false;
    if (details != nullptr) details->array_index = index;
    return true;
  }

 private:
  std::int64_t first_match(DocumentView array, MatchState& state) const {
    std::int64_t index = 0;
    for (const Element& element : array) {
      if ((index & 63) == 63 && state.stopped(element.value().size_bytes())) return -1;
      if (element_matches(element.value(), state)) return index;
      ++index;
    }
    return -1;
  }

  bool element_matches(const ValueView& element, MatchState& state) const {
    if (kind_ == MatchKind::kElemMatchObject) {
      const bool walkable =
          element.type() == BsonType::kObject || element.type() == BsonType::kArray;
      return walkable && children_[0]->matches(element.as_document(), state);
    }
    for (std::size_t i = 0; i < children_.size(); ++i) {
      if ((i & 15) == 15 && state.stopped(element.size_bytes())) return false;
      if (!children_[i]->matches_value(element, state)) return false;
    }
    return true;
  }
};

Status parse_size(Parser&, std::string_view path, const Element& element, DocumentView,
                  Nodes& out) {
  std::int64_t size = 0;
  if (!element->is_number())
    return Status(ErrorCode::kBadValue,
                  "Failed to parse $size. Expected a number in: " + describe(element));
  if (!element->exact_int64(&size))
    return Status(ErrorCode::kBadValue,
                  "Failed to parse $size. Expected an integer: " + describe(element));
  if (size < 0)
    return Status(ErrorCode::kBadValue,
                  "Failed to parse $size. Expected a non-negative number in: " +
                      describe(element));
  out.push_back(std::make_unique<SizeNode>(path, element.value(), size));
  return {};
}

// {$elemMatch: {$gt: 1}} is about the element; {$elemMatch: {$or: [...]}} about its fields.
bool is_value_condition(DocumentView condition) {
  if (!is_operator_document(as_value(condition))) return false;
  const std::string_view first = condition.first().name();
  return first != "$and" && first != "$or" && first != "$nor" && first != "$where" &&
         first != "$expr" && first != "$jsonSchema";
}

Status parse_elem_match(Parser& parser, std::string_view path, const Element& element,
                        DocumentView, Nodes& out) {
  if (element.type() != BsonType::kObject)
    return Status(ErrorCode::kBadValue, "$elemMatch needs an Object");
  const DocumentView condition = element->as_document();
  const bool outer = std::exchange(parser.top_level, false);
  Nodes children;
  Status status;
  auto kind = MatchKind::kElemMatchObject;
  if (is_value_condition(condition)) {
    kind = MatchKind::kElemMatchValue;
    status = parse_operators(parser, {}, condition, children);
  } else if (auto filter = parse_filter_node(parser, condition); filter) {
    children.push_back(std::move(*filter));
  } else {
    status = std::move(filter).error();
  }
  parser.top_level = outer;
  MULTIFORA_TRY(std::move(status));
  out.push_back(
      std::make_unique<ElemMatchNode>(kind, path, element.value(), std::move(children)));
  return {};
}

bool is_elem_match(const ValueView& value) {
  return value.type() == BsonType::kObject &&
         value.as_document().first().name() == "$elemMatch";
}

Status parse_all_elem_match(Parser& parser, std::string_view path, DocumentView list,
                            Nodes& children) {
  for (const Element& member : list) {
    if (!is_elem_match(member.value()))
      return Status(ErrorCode::kBadValue, "$all/$elemMatch has to be consistent");
    MULTIFORA_TRY(parse_elem_match(parser, path, member->as_document().first(), {}, children));
  }
  return {};
}

Status parse_all(Parser& parser, std::string_view path, const Element& element, DocumentView,
                 Nodes& out) {
  if (element.type() != BsonType::kArray)
    return Status(ErrorCode::kBadValue, "$all needs an array");
  const DocumentView list = element->as_document();
  if (list.empty()) {
    out.push_back(make_constant(false));
    return {};
  }
  Nodes children;
  if (is_elem_match(list.first().value())) {
    MULTIFORA_TRY(parse_all_elem_match(parser, path, list, children));
  } else {
    for (const Element& member : list) {
      if (is_operator_document(member.value()))
        return Status(ErrorCode::kBadValue, "no $ expressions in $all");
      MULTIFORA_TRY(parse_implicit(parser, path, member.value(), children));
    }
  }
  out.push_back(make_and(std::move(children)));
  return {};
}

constexpr PathRow kRows[] = {
    {"$all", parse_all}, {"$elemMatch", parse_elem_match}, {"$size", parse_size}};

}  // namespace

std::span<const PathRow> array_rows() { return kRows; }

}  // namespace multifora::match
