// $eq $ne $gt $gte $lt $lte $in $nin.
#include <fmt/format.h>

#include "plugins/query-engine/match_parse.h"

namespace multifora::match {

namespace {

Status check_operand(std::string_view path, const Element& element) {
  if (element.type() == BsonType::kUndefined)
    return Status(ErrorCode::kBadValue, "cannot compare to undefined");
  if (element.type() == BsonType::kRegex && element.name() != "$eq")
    return Status(ErrorCode::kBadValue,
                  element.name() == "$ne"
                      ? "Can't have regex as arg to $ne."
                      : fmt::format("Can't have RegEx as arg to predicate over field '{}'.", path));
  return {};
}

template <MatchKind kind>
Status parse_compare(Parser& parser, std::string_view path, const Element& element, DocumentView,
                     Nodes& out) {
  MULTIFORA_TRY(check_operand(path, element));
  out.push_back(
      std::make_unique<CompareNode>(kind, path, element.value(), parser.options.collator));
  return {};
}

Status parse_ne(Parser& parser, std::string_view path, const Element& element, DocumentView,
                Nodes& out) {
  MULTIFORA_TRY(check_operand(path, element));
  MULTIFORA_ASSIGN(NodePtr equal, make_equality(parser, path, element.value()));
  out.push_back(make_not(std::move(equal)));
  return {};
}

Status add_in_member(InNode& node, const ValueView& member) {
  if (is_operator_document(member))
    return Status(ErrorCode::kBadValue, "cannot nest $ under $in");
  if (member.type() == BsonType::kUndefined)
    return Status(ErrorCode::kBadValue, "InMatchExpression equality cannot be undefined");
  if (member.type() != BsonType::kRegex) {
    node.add_value(member);
    return {};
  }
  MULTIFORA_ASSIGN(NodePtr regex, make_regex(node.path(), member, member.regex_pattern(),
                                             member.regex_options()));
  node.add_regex(std::move(regex));
  return {};
}

Result<NodePtr> make_in(Parser& parser, std::string_view path, const Element& element) {
  if (element.type() != BsonType::kArray)
    return fail(ErrorCode::kBadValue, fmt::format("{} needs an array", element.name()));
  auto node = std::make_unique<InNode>(path, element.value(), parser.options.collator);
  for (const Element& member : element->as_document())
    MULTIFORA_TRY_R(add_in_member(*node, member.value()));
  node->sort_values();
  return node;
}

Status parse_in(Parser& parser, std::string_view path, const Element& element, DocumentView,
                Nodes& out) {
  MULTIFORA_ASSIGN(NodePtr node, make_in(parser, path, element));
  out.push_back(std::move(node));
  return {};
}

Status parse_nin(Parser& parser, std::string_view path, const Element& element, DocumentView,
                 Nodes& out) {
  MULTIFORA_ASSIGN(NodePtr node, make_in(parser, path, element));
  out.push_back(make_not(std::move(node)));
  return {};
}

constexpr PathRow kRows[] = {
    {"$eq", parse_compare<MatchKind::kEq>},   {"$ne", parse_ne},
    {"$gt", parse_compare<MatchKind::kGt>},   {"$gte", parse_compare<MatchKind::kGte>},
    {"$lt", parse_compare<MatchKind::kLt>},   {"$lte", parse_compare<MatchKind::kLte>},
    {"$in", parse_in},                        {"$nin", parse_nin},
};

}  // namespace

std::span<const PathRow> compare_rows() { return kRows; }

Result<NodePtr> make_equality(Parser& parser, std::string_view path, const ValueView& value) {
  if (value.type() == BsonType::kUndefined)
    return fail(ErrorCode::kBadValue, "cannot compare to undefined");
  return std::make_unique<CompareNode>(MatchKind::kEq, path, value, parser.options.collator);
}

}  // namespace multifora::match
