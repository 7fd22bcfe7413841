// From the operators' document to the tree: paths, conflicts, array filters.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "core/base/limits.h"
#include "core/bson/extended_json.h"
#include "plugins/query-engine/match_node.h"
#include "plugins/query-engine/update_node.h"

namespace multifora::update {

namespace {

using RowMap = std::unordered_map<std::string_view, const OperatorRow*>;
const RowMap& rows() {
  static const RowMap map = [] {
    RowMap all;
    for (const auto table : {set_rows(), arithmetic_rows(), push_rows(), pull_rows()})
      for (const OperatorRow& row : table) all.emplace(row.name, &row);
    return all;
  }();
  return map;
}

bool is_array_part(std::string_view part) { return part.starts_with("$[") && part.ends_with(']'); }

std::vector<std::string_view> split(std::string_view path) {
  std::vector<std::string_view> parts;
  for (std::size_t start = 0;;) {
    const std::size_t dot = path.find('.', start);
    parts.push_back(path.substr(start, dot - start));
    if (dot == std::string_view::npos) return parts;
    start = dot + 1;
  }
}

Status conflict(std::string_view path, std::string_view at) {
  return Status(ErrorCode::kConflictingUpdateOperators,
                fmt::format("Updating the path '{}' would create a conflict at '{}'", path, at));
}

void sort_children(Node& node) {
  std::ranges::sort(node.children, name_less, &Node::Child::name);
  for (const Node::Child& child : node.children)
    sort_children(const_cast<Node&>(*child.node));  // made here as a plain Node, not shared yet
}

// The one name that an array filter's conditions are about.
Status find_identifier(const MatchNode& node, std::string_view& found) {
  if (!node.path().empty()) {
    const std::string_view name = node.path().substr(0, node.path().find('.'));
    if (found.empty()) found = name;
    if (found == name) return {};
    return Status(ErrorCode::kFailedToParse,
                  fmt::format("Error parsing array filter :: caused by :: Expected a single "
                              "top-level field name, found '{}' and '{}'",
                              found, name));
  }
  if (node.kind() == MatchKind::kExpr) return {};
  for (const MatchNode::Ptr& child : node.children()) MULTIFORA_TRY(find_identifier(*child, found));
  return {};
}

bool is_identifier(std::string_view name) {
  const auto is_lower = [](char c) { return c >= 'a' && c <= 'z'; };
  return !name.empty() && is_lower(name[0]) && std::ranges::all_of(name, [&](char c) {
    return is_lower(c) || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  });
}

Result<ArrayFilter> parse_array_filter(const Element& element, const MatcherOptions& options) {
  if (element.type() != BsonType::kObject)
    return fail(ErrorCode::kTypeMismatch,
                fmt::format("BSON field 'update.updates.arrayFilters.{}' is the wrong type '{}', "
                            "expected type 'object'",
                            element.name(), type_name(element.type())));
  auto matcher = Matcher::compile(element->as_document(), options);
  if (!matcher)
    return fail(std::move(matcher).error().with_context("Error parsing array filter"));
  std::string_view identifier;
  MULTIFORA_TRY_R(find_identifier((*matcher)->root(), identifier));
  if (identifier.empty())
    return fail(ErrorCode::kFailedToParse,
                "Cannot use an expression without a top-level field name in arrayFilters");
  if (!is_identifier(identifier))
    return fail(ErrorCode::kBadValue,
                fmt::format("Error parsing array filter :: caused by :: The top-level field name "
                            "must be an alphanumeric string beginning with a lowercase letter, "
                            "found '{}'",
                            identifier));
  return ArrayFilter{std::string(identifier), std::move(*matcher)};
}

}  // namespace

std::string describe(const Element& element) {
  return fmt::format("{}: {}", element.name(), describe(element.value()));
}
std::string describe(const ValueView& value) { return to_extended_json(value); }

Parser::Parser(const UpdateOptions& options, VariableScope& scope)
    : options_(options), scope_(scope) {}

MatcherOptions Parser::matcher_options() const {
  MatcherOptions options;
  options.collator = options_.collator;
  options.scope = &scope_;
  options.allow_text_and_geo = false;
  return options;
}

Status Parser::parse(DocumentView spec, const std::vector<ArrayFilter>& filters) {
  filters_ = &filters;
  for (const Element& element : spec) {
    const auto row = rows().find(element.name());
    if (row == rows().end())
      return Status(ErrorCode::kFailedToParse,
                    fmt::format("Unknown modifier: {}. Expected a valid update modifier or "
                                "pipeline-style update specified as an array",
                                element.name()));
    if (element.type() != BsonType::kObject)
      return Status(ErrorCode::kFailedToParse,
                    fmt::format("Modifiers operate on fields but we found type {} instead. For "
                                "example: {{$mod: {{<field>: ...}}}} not {{{}}}",
                                type_name(element.type()), describe(element)));
    for (const Element& field : element->as_document())
      MULTIFORA_TRY(row->second->parse(*this, field));
  }
  sort_children(*root_);
  made_.clear();
  return check_filters_used(spec);
}

Status Parser::check_filters_used(DocumentView spec) const {
  for (const ArrayFilter& filter : *filters_)
    if (std::ranges::find(used_filters_, filter.identifier) == used_filters_.end())
      return Status(ErrorCode::kFailedToParse,
                    fmt::format("The array filter for identifier '{}' was not used in the update "
                                "{}",
                                filter.identifier, to_extended_json(spec)));
  return {};
}

Status Parser::check_path(std::string_view path) {
  if (path.empty())
    return Status(ErrorCode::kEmptyFieldName,
                  "An empty update path is not valid.");
  // Deeper than any document, and what is made of it is walked by recursion.
  if (std::ranges::count(path, '.') >= static_cast<std::ptrdiff_t>(limits::kNestingDepthParseMax))
    return Status(ErrorCode::kOverflow, "FieldPath is too long");
  bool first = true;
  for (const std::string_view part : split(path)) {
    if (part.empty())
      return Status(ErrorCode::kEmptyFieldName,
                    fmt::format("The update path '{}' contains an empty field name, which is not "
                                "allowed.",
                                path));
    const bool dynamic = part == "$" || is_array_part(part);
    if (first && dynamic)
      return Status(ErrorCode::kBadValue,
                    fmt::format("Cannot have {} as the first element in path '{}'",
                                part == "$" ? "positional (i.e. '$') element"
                                            : "array filter identifier (i.e. '$[<id>]') element",
                                path));
    if (part == "$") {
      if (needs_match_details_ && path.find(".$.") != path.rfind(".$") &&
          path.find(".$.") != std::string_view::npos)
        return Status(ErrorCode::kBadValue,
                      fmt::format("Too many positional (i.e. '$') elements found in path '{}'",
                                  path));
      needs_match_details_ = true;
    } else if (dynamic) {
      const std::string_view identifier = part.substr(2, part.size() - 3);
      if (identifier.empty()) {
        first = false;
        continue;
      }
      if (std::ranges::find(*filters_, identifier, &ArrayFilter::identifier) == filters_->end())
        return Status(ErrorCode::kBadValue,
                      fmt::format("No array filter found for identifier '{}' in path '{}'",
                                  identifier, path));
      used_filters_.emplace_back(identifier);
    } else if (part.starts_with('$') && part != "$id" && part != "$ref" && part != "$db") {
      return Status(ErrorCode::kDollarPrefixedFieldName,
                    fmt::format("The dollar ($) prefixed field '{}' in '{}' is not allowed in the "
                                "context of an update's replacement document. Consider using an "
                                "aggregation pipeline with $replaceWith.",
                                part, path));
    }
    first = false;
  }
  return {};
}

// The child of this name, made where it is not there.
Node& Parser::child_of(Node& node, std::string_view name) {
  const auto [at, is_new] = made_.try_emplace({&node, std::string(name)}, nullptr);
  if (is_new) {
    auto child = std::make_shared<Node>();
    at->second = child.get();
    node.children.push_back({std::string(name), std::move(child)});
  }
  return *at->second;
}

Status Parser::add(std::string_view path, std::shared_ptr<const Operator> op) {
  MULTIFORA_TRY(check_path(path));
  Node* node = root_.get();
  const auto parts = split(path);
  if (parts.size() > limits::kNestingDepthMax) may_nest_deeply_ = true;
  for (const std::string_view part : parts) {
    const std::string_view at =
        path.substr(0, static_cast<std::size_t>(part.data() - path.data() +
                                                static_cast<std::ptrdiff_t>(part.size())));
    if (node->op != nullptr) return conflict(path, at.substr(0, at.size() - part.size() - 1));
    const bool array_part = is_array_part(part);
    if (!node->children.empty() && node->array_updates != array_part)
      return conflict(path, at.substr(0, at.size() - part.size() - (node == root_.get() ? 0 : 1)));
    node->array_updates = array_part;
    node->positional |= part == "$";
    node = &child_of(*node, part);
  }
  if (node->op != nullptr || !node->children.empty()) return conflict(path, path);
  node->op = std::move(op);
  return {};
}

void Parser::note_value(std::string_view path, const ValueView& value) {
  if (value.type() != BsonType::kObject && value.type() != BsonType::kArray) return;
  if (split(path).size() + depth_of(value.as_document()) + 1 > limits::kNestingDepthMax)
    may_nest_deeply_ = true;
}

std::size_t Parser::add_rename(std::string_view from, std::string_view to) {
  renames_.push_back({std::string(from), std::string(to)});
  may_nest_deeply_ = true;
  return renames_.size() - 1;
}

Result<std::vector<ArrayFilter>> parse_array_filters(DocumentView filters,
                                                     const MatcherOptions& options) {
  std::vector<ArrayFilter> parsed;
  for (const Element& element : filters) {
    MULTIFORA_ASSIGN_R(auto filter, parse_array_filter(element, options));
    if (std::ranges::find(parsed, filter.identifier, &ArrayFilter::identifier) != parsed.end())
      return fail(ErrorCode::kFailedToParse,
                  fmt::format("Found multiple array filters with the same top-level field name {}",
                              filter.identifier));
    parsed.push_back(std::move(filter));
  }
  return parsed;
}

}  // namespace multifora::update

namespace multifora {

std::vector<std::string_view> update_operator_names() {
  std::vector<std::string_view> names;
  for (const auto& [name, row] : update::rows()) names.push_back(name);
  std::ranges::sort(names);
  return names;
}

}  // namespace multifora
