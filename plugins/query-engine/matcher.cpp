#include "plugins/query-engine/matcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_map>

#include "core/base/clock.h"
#include "core/base/limits.h"
#include "core/bson/extended_json.h"
#include "plugins/query-engine/match_parse.h"

namespace multifora {

namespace match {

namespace {

// The families' tables as one: built once, read by every compile.
struct Tables {
  std::unordered_map<std::string_view, const DocumentRow*> document;
  std::unordered_map<std::string_view, const PathRow*> path;

  Tables() {
    for (const auto rows : {logic_rows(), document_rows(), unsupported_rows(), json_schema_rows()})
      for (const DocumentRow& row : rows) document.emplace(row.name, &row);
    for (const auto rows : {compare_rows(), array_rows(), element_rows(), bits_rows(),
                            regex_rows(), logic_path_rows(), unsupported_path_rows()})
      for (const PathRow& row : rows) path.emplace(row.name, &row);
  }
};

const Tables& tables() {
  static const Tables instance;
  return instance;
}

Status parse_document_operator(Parser& parser, const Element& element, Nodes& out) {
  const auto row = tables().document.find(element.name());
  if (row != tables().document.end()) return row->second->parse(parser, element, out);
  return Status(ErrorCode::kBadValue,
                fmt::format("unknown top level operator: {}. If you have a field name that starts "
                            "with a '$' symbol, consider using $getField or $setField.",
                            element.name()));
}

bool is_dbref(DocumentView document) {
  bool has_ref = false;
  bool has_id = false;
  for (const Element& element : document) {
    if (element.name() == "$ref") has_ref = element.type() == BsonType::kString;
    if (element.name() == "$id") has_id = true;
  }
  return has_ref && has_id;
}

Status parse_field(Parser& parser, const Element& element, Nodes& out) {
  // Deeper than any document; an upsert makes objects of it.
  if (std::ranges::count(element.name(), '.') >=
      static_cast<std::ptrdiff_t>(limits::kNestingDepthParseMax))
    return Status(ErrorCode::kOverflow, "FieldPath is too long");
  if (is_operator_document(element.value()))
    return parse_operators(parser, element.name(), element->as_document(), out);
  return parse_implicit(parser, element.name(), element.value(), out);
}

}  // namespace

std::string describe(const Element& element) {
  return fmt::format("{}: {}", element.name(), describe(element.value()));
}
std::string describe(const ValueView& value) { return to_extended_json(value); }

bool is_operator_document(const ValueView& value) {
  if (value.type() != BsonType::kObject) return false;
  const DocumentView document = value.as_document();
  return document.first().name().starts_with('$') && !is_dbref(document);
}

Status parse_implicit(Parser& parser, std::string_view path, const ValueView& value, Nodes& out) {
  Result<NodePtr> node =
      value.type() == BsonType::kRegex
          ? make_regex(path, value, value.regex_pattern(), value.regex_options())
          : make_equality(parser, path, value);
  if (!node) return std::move(node).error();
  out.push_back(std::move(*node));
  return {};
}

Status parse_operators(Parser& parser, std::string_view path, DocumentView operators,
                       Nodes& out) {
  if (++parser.depth > limits::kFilterDepthMax)
    return Status(ErrorCode::kBadValue,
                  fmt::format("exceeded maximum query tree depth of {}", limits::kFilterDepthMax));
  for (const Element& element : operators) {
    const auto row = tables().path.find(element.name());
    if (row == tables().path.end())
      return Status(ErrorCode::kBadValue, fmt::format("unknown operator: {}", element.name()));
    MULTIFORA_TRY(row->second->parse(parser, path, element, operators, out));
  }
  --parser.depth;
  return {};
}

Status parse_filter(Parser& parser, DocumentView filter, Nodes& out) {
  if (++parser.depth > limits::kFilterDepthMax)
    return Status(ErrorCode::kBadValue,
                  fmt::format("exceeded maximum query tree depth of {}", limits::kFilterDepthMax));
  for (const Element& element : filter) {
    if (element.name().starts_with('$'))
      MULTIFORA_TRY(parse_document_operator(parser, element, out));
    else
      MULTIFORA_TRY(parse_field(parser, element, out));
  }
  --parser.depth;
  return {};
}

Result<NodePtr> parse_filter_node(Parser& parser, DocumentView filter) {
  Nodes nodes;
  MULTIFORA_TRY_R(parse_filter(parser, filter, nodes));
  return make_and(std::move(nodes));
}

}  // namespace match

// ---- Matcher ----

struct Matcher::Impl {
  explicit Impl(DocumentView view) : filter(view) {}
  OwnedDocument filter;
  VariableScope own_scope;  // where the caller brings none
  MatchNode::Ptr root;
  bool needs_context = false;
};

Matcher::Matcher() = default;
Matcher::~Matcher() = default;

Result<std::unique_ptr<const Matcher>> Matcher::compile(DocumentView filter,
                                                        const MatcherOptions& options) {
  std::unique_ptr<Matcher> matcher(new Matcher());
  matcher->impl_ = std::make_unique<Impl>(filter);
  Impl& impl = *matcher->impl_;
  match::Parser parser{.options = options,
                       .scope = options.scope != nullptr ? options.scope : &impl.own_scope};
  MULTIFORA_ASSIGN_R(impl.root, match::parse_filter_node(parser, impl.filter.view()));
  impl.needs_context = parser.uses_expr;
  return matcher;
}

Result<bool> Matcher::matches(DocumentView document, EvalContext* context,
                              MatchDetails* details) const {
  MatchState state{.context = context, .details = details, .error = {}};
  if (context != nullptr) {
    context->root = document;
  } else if (impl_->needs_context) {
    EvalContext own;
    own.now_ms = system_clock().wall_ms();
    own.variables.resize(impl_->own_scope.slots());
    return matches(document, &own, details);
  }
  const bool found = impl_->root->matches(document, state);
  if (!state.error.ok()) return fail(std::move(state.error));
  return found;
}

bool Matcher::needs_context() const { return impl_->needs_context; }
bool Matcher::always_true() const {
  const MatchNode& node = *impl_->root;
  return node.kind() == MatchKind::kAlwaysTrue ||
         (node.kind() == MatchKind::kAnd && node.children().empty());
}
const MatchNode& Matcher::root() const { return *impl_->root; }
DocumentView Matcher::filter() const { return impl_->filter.view(); }

void Matcher::append_parsed(DocumentBuilder& out, std::string_view name) const {
  DocumentBuilder inner = out.object(name);
  impl_->root->append_to(inner);
}

bool Matcher::add_dependencies(std::vector<std::string>& paths) const {
  return impl_->root->add_dependencies(paths);
}

// ---- ElementMatcher ----

namespace {

// Owns the condition's bytes as {"": condition}.
OwnedDocument wrap(const ValueView& condition) {
  DocumentBuilder builder;
  builder.append("", condition);
  return std::move(builder).finish();
}

class CompiledElementMatcher final : public ElementMatcher {
 public:
  explicit CompiledElementMatcher(const ValueView& condition) : bytes_(wrap(condition)) {}

  Status compile(const MatcherOptions& options) {
    const ValueView condition = bytes_.view().first().value();
    match::Parser parser{
        .options = options, .scope = &scope_, .top_level = false};
    match::Nodes nodes;
    if (is_predicate(condition)) {
      MULTIFORA_TRY(match::parse_operators(parser, {}, condition.as_document(), nodes));
    } else if (condition.type() == BsonType::kObject) {
      by_fields_ = true;
      MULTIFORA_TRY(match::parse_filter(parser, condition.as_document(), nodes));
    } else {
      MULTIFORA_TRY(match::parse_implicit(parser, {}, condition, nodes));
    }
    root_ = match::make_and(std::move(nodes));
    return {};
  }

  Result<bool> matches(const ValueView& element, EvalContext* context) const override {
    MatchState state{.context = context, .details = nullptr, .error = {}};
    bool found = false;
    if (!by_fields_)
      found = root_->matches_value(element, state);
    else if (element.type() == BsonType::kObject)
      found = root_->matches(element.as_document(), state);
    if (!state.error.ok()) return fail(std::move(state.error));
    return found;
  }

 private:
  // {$gt: 1} is about the element; everything else about its fields (so {$not: ...} is a mistake).
  static bool is_predicate(const ValueView& condition) {
    if (!match::is_operator_document(condition)) return false;
    const std::string_view first = condition.as_document().first().name();
    return first != "$not" && first != "$comment" && match::tables().path.contains(first);
  }

  OwnedDocument bytes_;
  VariableScope scope_;
  MatchNode::Ptr root_;
  bool by_fields_ = false;
};

}  // namespace

Result<std::unique_ptr<const ElementMatcher>> ElementMatcher::compile(
    const ValueView& condition, const MatcherOptions& options) {
  auto matcher = std::make_unique<CompiledElementMatcher>(condition);
  MULTIFORA_TRY_R(matcher->compile(options));
  return matcher;
}

std::vector<std::string_view> match_operator_names() {
  std::vector<std::string_view> names;
  for (const auto& [name, row] : match::tables().document) names.push_back(name);
  for (const auto& [name, row] : match::tables().path) names.push_back(name);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace multifora
