// $and $or $nor $not, and the operators that decide without looking: $alwaysTrue, $alwaysFalse,
// $comment.
#include <fmt/format.h>

#include "plugins/query-engine/match_parse.h"

namespace multifora::match {

namespace {

class LogicNode final : public MatchNode {
 public:
  LogicNode(MatchKind kind, std::string_view name, Nodes children) : MatchNode(kind, name) {
    children_ = std::move(children);
  }

  bool matches(DocumentView document, MatchState& state) const override {
    switch (kind_) {
      case MatchKind::kAnd:
        for (std::size_t i = 0; i < children_.size(); ++i) {
          if (!is_over(i, document.bytes().size(), state) && children_[i]->matches(document, state))
            continue;
          if (state.details != nullptr) *state.details = {};
          return false;
        }
        return true;
      case MatchKind::kOr:
        return any(document, state);
      default: {  // a negation has no position to report
        MatchDetails* const details = std::exchange(state.details, nullptr);
        const bool found = any(document, state);
        state.details = details;
        return !found;
      }
    }
  }

  bool matches_value(const ValueView& value, MatchState& state) const override {
    const bool all = kind_ == MatchKind::kAnd;
    for (std::size_t i = 0; i < children_.size(); ++i) {
      if (is_over(i, value.size_bytes(), state)) return false;
      if (children_[i]->matches_value(value, state) != all) return kind_ == MatchKind::kOr;
    }
    return kind_ != MatchKind::kOr;
  }

  void append_to(DocumentBuilder& out) const override {
    if (kind_ == MatchKind::kNot) return append_not(out);
    if (children_.empty()) return;
    ArrayBuilder array = out.array(name_);
    for (const NodePtr& child : children_) {
      DocumentBuilder inner = array.object();
      child->append_to(inner);
    }
  }

  void append_predicate(DocumentBuilder& out) const override {
    if (kind_ == MatchKind::kNot) {
      DocumentBuilder inner = out.object("$not");
      children_[0]->append_predicate(inner);
    } else {
      for (const NodePtr& child : children_) child->append_predicate(out);
    }
  }

  bool add_dependencies(std::vector<std::string>& paths) const override {
    bool known = true;
    for (const NodePtr& child : children_) known = child->add_dependencies(paths) && known;
    return known;
  }

 private:
  // Asked before each child.
  static bool is_over(std::size_t i, std::size_t bytes, MatchState& state) {
    return (i & 15) == 15 && state.stopped(bytes);
  }

  bool any(DocumentView document, MatchState& state) const {
    for (std::size_t i = 0; i < children_.size(); ++i) {
      if (is_over(i, document.bytes().size(), state)) return false;
      if (children_[i]->matches(document, state)) return true;
    }
    return false;
  }

  // The path that all of a negated node's predicates are on.
  std::string_view common_path() const {
    const MatchNode& child = *children_[0];
    return child.children().empty() || !child.path().empty() ? child.path()
                                                             : child.children()[0]->path();
  }

  void append_not(DocumentBuilder& out) const {
    const std::string_view path = common_path();
    if (path.empty()) {
      ArrayBuilder array = out.array("$nor");
      DocumentBuilder inner = array.object();
      children_[0]->append_to(inner);
    } else {
      DocumentBuilder inner = out.object(path);
      append_predicate(inner);
    }
  }
};

class ConstantNode final : public MatchNode {
 public:
  explicit ConstantNode(bool value)
      : MatchNode(value ? MatchKind::kAlwaysTrue : MatchKind::kAlwaysFalse,
                  value ? "$alwaysTrue" : "$alwaysFalse") {}
  bool matches(DocumentView, MatchState&) const override {
    return kind_ == MatchKind::kAlwaysTrue;
  }
  bool matches_value(const ValueView&, MatchState&) const override {
    return kind_ == MatchKind::kAlwaysTrue;
  }
  void append_to(DocumentBuilder& out) const override { append_predicate(out); }
  void append_predicate(DocumentBuilder& out) const override {
    out.append(name_, std::int32_t{1});
  }
  bool add_dependencies(std::vector<std::string>&) const override { return true; }
};

Status parse_list(Parser& parser, const Element& element, Nodes& children) {
  if (element.type() != BsonType::kArray)
    return Status(ErrorCode::kBadValue, fmt::format("{} must be an array", element.name()));
  const DocumentView list = element->as_document();
  if (list.empty())
    return Status(ErrorCode::kBadValue,
                  fmt::format("{} must be a nonempty array", element.name()));
  for (const Element& member : list) {
    if (member.type() != BsonType::kObject)
      return Status(ErrorCode::kBadValue, "$or/$and/$nor entries need to be full objects");
    MULTIFORA_ASSIGN(NodePtr child, parse_filter_node(parser, member->as_document()));
    children.push_back(std::move(child));
  }
  return {};
}

Status parse_and(Parser& parser, const Element& element, Nodes& out) {
  Nodes children;
  MULTIFORA_TRY(parse_list(parser, element, children));
  // The fields around it are an $and anyway.
  for (NodePtr& child : children) out.push_back(std::move(child));
  return {};
}

template <MatchKind kind>
Status parse_or(Parser& parser, const Element& element, Nodes& out) {
  Nodes children;
  MULTIFORA_TRY(parse_list(parser, element, children));
  out.push_back(make_logic(kind, kind == MatchKind::kOr ? "$or" : "$nor", std::move(children)));
  return {};
}

Status parse_comment(Parser&, const Element&, Nodes&) { return {}; }
Status parse_path_comment(Parser&, std::string_view, const Element&, DocumentView, Nodes&) {
  return {};
}

template <bool value>
Status parse_constant(Parser&, const Element& element, Nodes& out) {
  std::int64_t number = 0;
  if (!element->exact_int64(&number) || number != 1)
    return Status(ErrorCode::kFailedToParse,
                  fmt::format("{} must be an integer value of 1", element.name()));
  out.push_back(make_constant(value));
  return {};
}

Status parse_not(Parser& parser, std::string_view path, const Element& element, DocumentView,
                 Nodes& out) {
  Nodes children;
  if (element.type() == BsonType::kRegex) {
    MULTIFORA_TRY(parse_implicit(parser, path, element.value(), children));
  } else if (element.type() != BsonType::kObject) {
    return Status(ErrorCode::kBadValue, "$not needs a regex or a document");
  } else if (element->as_document().empty()) {
    return Status(ErrorCode::kBadValue, "$not cannot be empty");
  } else {
    MULTIFORA_TRY(parse_operators(parser, path, element->as_document(), children));
  }
  out.push_back(make_not(make_and(std::move(children))));
  return {};
}

constexpr DocumentRow kRows[] = {
    {"$and", parse_and},
    {"$or", parse_or<MatchKind::kOr>},
    {"$nor", parse_or<MatchKind::kNor>},
    {"$comment", parse_comment},
    {"$alwaysTrue", parse_constant<true>},
    {"$alwaysFalse", parse_constant<false>},
};
constexpr PathRow kPathRows[] = {{"$not", parse_not}, {"$comment", parse_path_comment}};

}  // namespace

std::span<const DocumentRow> logic_rows() { return kRows; }
std::span<const PathRow> logic_path_rows() { return kPathRows; }

NodePtr make_logic(MatchKind kind, std::string_view name, Nodes children) {
  return std::make_unique<LogicNode>(kind, name, std::move(children));
}

NodePtr make_and(Nodes nodes) {
  if (nodes.size() == 1) return std::move(nodes[0]);
  return make_logic(MatchKind::kAnd, "$and", std::move(nodes));
}

NodePtr make_not(NodePtr child) {
  Nodes children;
  children.push_back(std::move(child));
  return make_logic(MatchKind::kNot, "$not", std::move(children));
}

NodePtr make_constant(bool value) { return std::make_unique<ConstantNode>(value); }

}  // namespace multifora::match
