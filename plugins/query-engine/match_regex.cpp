// $regex with $options.
#include <fmt/format.h>

#include "plugins/query-engine/match_parse.h"

namespace multifora::match {

namespace {

Status parse_regex(Parser&, std::string_view path, const Element& element, DocumentView all,
                   Nodes& out) {
  const ValueView options = all["$options"];
  if (!options.missing() && options.type() != BsonType::kString)
    return Status(ErrorCode::kBadValue, "$options has to be a string");
  std::string_view flags = options.missing() ? std::string_view() : options.as_string();
  std::string_view pattern;
  if (element.type() == BsonType::kString) {
    pattern = element->as_string();
  } else if (element.type() == BsonType::kRegex) {
    pattern = element->regex_pattern();
    if (!element->regex_options().empty()) {
      if (!flags.empty())
        return Status(location_code(51075), "options set in both $regex and $options");
      flags = element->regex_options();
    }
  } else {
    return Status(ErrorCode::kBadValue, "$regex has to be a string");
  }
  MULTIFORA_ASSIGN(NodePtr node, make_regex(path, element.value(), pattern, flags));
  out.push_back(std::move(node));
  return {};
}

// Read by $regex; alone it is a mistake.
Status parse_options(Parser&, std::string_view, const Element&, DocumentView all, Nodes&) {
  if (all["$regex"].missing()) return Status(ErrorCode::kBadValue, "$options needs a $regex");
  return {};
}

constexpr PathRow kRows[] = {{"$regex", parse_regex}, {"$options", parse_options}};

}  // namespace

std::span<const PathRow> regex_rows() { return kRows; }

Result<NodePtr> make_regex(std::string_view path, const ValueView& operand,
                           std::string_view pattern, std::string_view options) {
  MULTIFORA_ASSIGN_R(auto regex, Regex::compile(pattern, options));
  return std::make_unique<RegexNode>(path, operand, std::move(regex));
}

}  // namespace multifora::match
