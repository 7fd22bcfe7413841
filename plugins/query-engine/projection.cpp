#include "plugins/query-engine/projection.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/limits.h"
#include "core/bson/extended_json.h"
#include "plugins/query-engine/match_node.h"
#include "plugins/query-engine/projection_node.h"

namespace multifora {

namespace projection {

namespace {

class Parser {
 public:
  Parser(ProjectionKind kind, const Matcher* filter, const MatcherOptions& options,
         VariableScope& scope)
      : kind_(kind), filter_(filter), options_(options), scope_(scope) {}

  Status parse(DocumentView spec);
  Node take_root() { return std::move(root_); }
  bool keeps_others() const { return keeps_others_; }
  bool needs_details() const { return !positional_.empty(); }

 private:
  enum class Mode { kUnknown, kInclusion, kExclusion };

  Status parse_fields(DocumentView fields, const std::string& prefix, int depth);
  Status parse_field(const Element& element, const std::string& path, bool nested, int depth);
  Status parse_object(const Element& element, const std::string& path, bool nested, int depth);
  Status parse_find_operator(const Element& op, const std::string& path, bool nested, bool& taken);
  Status parse_slice(const ValueView& argument, const std::string& path, bool& taken);
  Status parse_elem_match(const ValueView& argument, const std::string& path, bool nested);
  Status parse_meta(const ValueView& argument);
  Status parse_flag(const std::string& path, bool include);
  Status parse_positional(const Element& element, const std::string& path);
  Status parse_computed(const ValueView& value, const std::string& path);
  Status want(Mode mode, std::string_view path);
  Status add(std::string_view path, std::unique_ptr<Leaf> leaf);
  Status add_flag(std::string_view path, Leaf::Kind kind);
  Status collision(std::string_view path, std::string_view rest) const;
  Status check_positional() const;
  Status finish();

  ProjectionKind kind_;
  const Matcher* filter_;
  const MatcherOptions& options_;
  VariableScope& scope_;
  Node root_;
  Mode mode_ = Mode::kUnknown;
  bool keeps_others_ = false;
  bool id_included_ = false;
  bool id_excluded_ = false;
  bool has_elem_match_ = false;
  std::string positional_;
};

Status Parser::parse(DocumentView spec) {
  if (spec.empty() && kind_ == ProjectionKind::kProject)
    return Status(location_code(51272), "projection specification must have at least one field");
  if (spec.empty() && kind_ == ProjectionKind::kAddFields)
    return Status(location_code(40177), "specification must have at least one field");
  MULTIFORA_TRY(parse_fields(spec, {}, 0));
  return finish();
}

Status Parser::parse_fields(DocumentView fields, const std::string& prefix, int depth) {
  if (depth > limits::kProjectionDepthMax)
    return Status(ErrorCode::kOverflow, "projection exceeds the maximum depth");
  for (const Element& element : fields) {
    std::string path = prefix;
    if (!path.empty()) path += '.';
    path += element.name();
    if (kind_ == ProjectionKind::kAddFields && !prefix.empty() && element.name().contains('.'))
      return Status(location_code(40183),
                    fmt::format("FieldPath field names may not contain '.': '{}'", element.name()));
    MULTIFORA_TRY(parse_field(element, path, !prefix.empty(), depth));
  }
  return {};
}

Status Parser::parse_field(const Element& element, const std::string& path, bool nested,
                           int depth) {
  if (kind_ == ProjectionKind::kFind) {
    if (path.ends_with(".$")) return parse_positional(element, path.substr(0, path.size() - 2));
    if (path.contains(".$."))
      return Status(location_code(31394),
                    "As of 4.4, it's illegal to specify positional operator in the middle of a "
                    "path. Positional projection may only be used at the end, for example: a.b.$. "
                    "If the query previously used a form like a.b.$.d, remove the parts following "
                    "the '$' and the results will be equivalent.");
  } else if (kind_ == ProjectionKind::kProject && (path.ends_with(".$") || path.contains(".$."))) {
    return Status(location_code(31324),
                  "Cannot use positional projection in aggregation projection");
  }
  MULTIFORA_TRY(check_field_path(path));
  if (element.type() == BsonType::kObject) return parse_object(element, path, nested, depth);
  const bool is_flag = element->is_number() || element.type() == BsonType::kBool;
  if (is_flag && kind_ != ProjectionKind::kAddFields) return parse_flag(path, element->truthy());
  return parse_computed(element.value(), path);
}

Status Parser::parse_object(const Element& element, const std::string& path, bool nested,
                            int depth) {
  const DocumentView object = element->as_document();
  if (object.empty()) {
    if (kind_ == ProjectionKind::kAddFields) return parse_computed(element.value(), path);
    return Status(location_code(51270),
                  "An empty sub-projection is not a valid value. Found empty object at path");
  }
  const Element first = object.first();
  if (!first.name().starts_with('$')) return parse_fields(object, path, depth + 1);
  bool taken = false;
  if (kind_ == ProjectionKind::kFind && object.count() == 1)
    MULTIFORA_TRY(parse_find_operator(first, path, nested, taken));
  return taken ? Status() : parse_computed(element.value(), path);
}

Status Parser::parse_find_operator(const Element& op, const std::string& path, bool nested,
                                   bool& taken) {
  if (op.name() == "$slice") return parse_slice(op.value(), path, taken);
  taken = op.name() == "$elemMatch" || op.name() == "$meta";
  if (op.name() == "$elemMatch") return parse_elem_match(op.value(), path, nested);
  if (op.name() == "$meta") return parse_meta(op.value());
  return {};
}

// Numbers only are find's $slice; anything else is the expression of the same name.
Status Parser::parse_slice(const ValueView& argument, const std::string& path, bool& taken) {
  auto leaf = std::make_unique<Leaf>();
  leaf->kind = Leaf::Kind::kSlice;
  // Saturates, as an array cannot be that long.
  const auto to_int = [](const ValueView& value) {
    return std::clamp<std::int64_t>(value.number_as_int64(), INT32_MIN, INT32_MAX);
  };
  if (argument.is_number()) {
    leaf->limit = to_int(argument);
  } else if (argument.type() == BsonType::kArray) {
    const DocumentView parts = argument.as_document();
    if (parts.count() != 2) return {};
    const ValueView skip = parts["0"];
    const ValueView limit = parts["1"];
    if (!skip.is_number() || !limit.is_number()) return {};
    leaf->has_skip = true;
    leaf->skip = to_int(skip);
    leaf->limit = to_int(limit);
    if (leaf->limit <= 0)
      return Status(location_code(28724),
                    fmt::format("First argument to $slice must be an array, but is of type: {}",
                                type_name(skip.type())));
  } else {
    return Status(
        location_code(28667),
        "Invalid $slice syntax: Expression $slice takes at least 2 arguments, and at most "
        "3, but 1 were passed in.");
  }
  taken = true;
  return add(path, std::move(leaf));
}

Status Parser::parse_elem_match(const ValueView& argument, const std::string& path, bool nested) {
  if (argument.type() != BsonType::kObject)
    return Status(location_code(31274),
                  fmt::format("elemMatch: Invalid argument, object required, but got {}",
                              type_name(argument.type())));
  if (nested || path.contains('.'))
    return Status(location_code(31275), "Cannot use $elemMatch projection on a nested field");
  if (!positional_.empty())
    return Status(location_code(31256), "Cannot specify positional operator and $elemMatch");
  has_elem_match_ = true;
  DocumentBuilder condition;
  {
    DocumentBuilder field = condition.object(path);
    field.append("$elemMatch", argument);
  }
  const OwnedDocument filter = std::move(condition).finish();
  auto leaf = std::make_unique<Leaf>();
  leaf->kind = Leaf::Kind::kElemMatch;
  MatcherOptions options = options_;
  options.scope = &scope_;
  MULTIFORA_ASSIGN(leaf->elem_match, Matcher::compile(filter.view(), options));
  if (mode_ == Mode::kUnknown) mode_ = Mode::kInclusion;
  return add(path, std::move(leaf));
}

// What a plan would have to bring along; no plan of this server does.
Status Parser::parse_meta(const ValueView& argument) {
  if (argument.type() != BsonType::kString)
    return Status(location_code(17307), "$meta only supports string arguments");
  const std::string_view what = argument.as_string();
  constexpr std::string_view kKnown[] = {"textScore",        "randVal",         "searchScore",
                                         "searchHighlights", "recordId",        "indexKey",
                                         "sortKey",          "geoNearDistance", "geoNearPoint"};
  if (std::ranges::find(kKnown, what) == std::end(kKnown))
    return Status(location_code(17308), fmt::format("Unsupported argument to $meta: {}", what));
  return Status(location_code(40218),
                fmt::format("query requires {} metadata, but it is not available", what));
}

Status Parser::want(Mode mode, std::string_view path) {
  if (mode_ == Mode::kUnknown) mode_ = mode;
  if (mode_ == mode) return {};
  if (mode == Mode::kInclusion)
    return Status(location_code(31253),
                  fmt::format("Cannot do inclusion on field {} in exclusion projection", path));
  return Status(location_code(31254),
                fmt::format("Cannot do exclusion on field {} in inclusion projection", path));
}

Status Parser::parse_flag(const std::string& path, bool include) {
  // _id may go either way in any projection; alone it decides.
  if (path == "_id") {
    (include ? id_included_ : id_excluded_) = true;
    return add_flag(path, include ? Leaf::Kind::kInclude : Leaf::Kind::kExclude);
  }
  MULTIFORA_TRY(want(include ? Mode::kInclusion : Mode::kExclusion, path));
  return add_flag(path, include ? Leaf::Kind::kInclude : Leaf::Kind::kExclude);
}

Status Parser::parse_positional(const Element& element, const std::string& path) {
  if (path.ends_with(".$") || path.contains(".$.") || path.starts_with("$"))
    return Status(
        location_code(31394),
        "As of 4.4, it's illegal to specify positional operator in the middle of a path.");
  MULTIFORA_TRY(check_field_path(path));
  const bool is_flag = element->is_number() || element.type() == BsonType::kBool;
  if (!is_flag)
    return Status(location_code(31308),
                  "positional projection cannot be used with an expression "
                  "or sub object");
  if (!element->truthy())
    return Status(location_code(31395), "positional projection cannot be used with exclusion");
  if (!positional_.empty())
    return Status(location_code(31276),
                  "Cannot specify more than one positional projection per query.");
  if (has_elem_match_)
    return Status(location_code(31255), "Cannot specify positional operator and $elemMatch");
  MULTIFORA_TRY(want(Mode::kInclusion, path + ".$"));
  positional_ = path;
  return add_flag(path, Leaf::Kind::kPositional);
}

Status Parser::parse_computed(const ValueView& value, const std::string& path) {
  if (kind_ != ProjectionKind::kAddFields) {
    if (mode_ == Mode::kExclusion)
      return Status(location_code(31252), "Cannot use an expression in an exclusion projection");
    mode_ = Mode::kInclusion;
  }
  auto leaf = std::make_unique<Leaf>();
  leaf->kind = Leaf::Kind::kExpression;
  auto expression = parse_expression(value, scope_);
  if (!expression) {
    // The projection's own code for an operator that nobody knows.
    const bool at_top = value.type() == BsonType::kObject &&
                        expression.error().code() == ErrorCode::kInvalidPipelineOperator &&
                        kind_ != ProjectionKind::kAddFields;
    if (!at_top) return std::move(expression).error();
    return Status(location_code(31325),
                  fmt::format("Unknown expression {}", value.as_document().first().name()));
  }
  leaf->expression = std::move(*expression);
  return add(path, std::move(leaf));
}

Status Parser::collision(std::string_view path, std::string_view rest) const {
  if (kind_ == ProjectionKind::kAddFields)
    return Status(location_code(40176),
                  fmt::format("specification contains two conflicting paths. Cannot specify both "
                              "'{}' and a path that it starts with or that starts with it",
                              path));
  if (rest.empty()) return Status(location_code(31250), fmt::format("Path collision at {}", path));
  return Status(location_code(31249),
                fmt::format("Path collision at {} remaining portion {}", path, rest));
}

Status Parser::add_flag(std::string_view path, Leaf::Kind kind) {
  auto leaf = std::make_unique<Leaf>();
  leaf->kind = kind;
  return add(path, std::move(leaf));
}

Status Parser::add(std::string_view path, std::unique_ptr<Leaf> leaf) {
  Node* node = &root_;
  std::string_view rest = path;
  while (true) {
    const std::size_t dot = rest.find('.');
    const std::string_view name = rest.substr(0, dot);
    const int index = node->find(name);
    node->computes |= leaf->computes();
    node->positional |= leaf->kind == Leaf::Kind::kPositional;
    if (dot == std::string_view::npos) {
      if (index >= 0) return collision(path, {});
      node->add({std::string(name), nullptr, std::move(leaf)});
      return {};
    }
    rest.remove_prefix(dot + 1);
    if (index < 0) {
      node = node->add({std::string(name), std::make_unique<Node>(), nullptr}).node.get();
    } else if (node->children[static_cast<std::size_t>(index)].node == nullptr) {
      return collision(path, rest);
    } else {
      node = node->children[static_cast<std::size_t>(index)].node.get();
    }
  }
}

// Does the filter say anything about the array, or about something in it?
bool mentions(const MatchNode& node, std::string_view first) {
  const std::string_view path = node.path();
  if (!path.empty()) return path.substr(0, path.find('.')) == first;
  if (node.kind() == MatchKind::kExpr) return false;  // says nothing about elements
  return std::ranges::any_of(node.children(),
                             [&](const MatchNode::Ptr& child) { return mentions(*child, first); });
}

Status Parser::check_positional() const {
  if (positional_.empty()) return {};
  const std::string_view first = std::string_view(positional_).substr(0, positional_.find('.'));
  if (filter_ != nullptr && mentions(filter_->root(), first)) return {};
  return Status(
      location_code(31277),
      fmt::format("Positional projection '{}.$' does not match the query document.", positional_));
}

Status Parser::finish() {
  MULTIFORA_TRY(check_positional());
  if (kind_ == ProjectionKind::kAddFields) {
    keeps_others_ = true;
    return {};
  }
  if (mode_ == Mode::kUnknown) mode_ = id_included_ ? Mode::kInclusion : Mode::kExclusion;
  keeps_others_ = mode_ == Mode::kExclusion;
  // A flag on _id that says what would happen anyway is only in the way.
  const int id = root_.find("_id");
  if (keeps_others_ && id_included_) {
    root_.erase(id);
  } else if (!keeps_others_ && id < 0) {
    MULTIFORA_TRY(add_flag("_id", Leaf::Kind::kInclude));
  }
  return {};
}

// ---- The finished projection ----

void add_node_dependencies(const Node& node, const std::string& prefix, bool& known,
                           std::vector<std::string>& paths) {
  for (const Node::Child& child : node.children) {
    const std::string path = prefix.empty() ? child.name : prefix + "." + child.name;
    if (child.node != nullptr) {
      add_node_dependencies(*child.node, path, known, paths);
      if (child.node->computes) paths.push_back(path);
    } else if (child.leaf->kind == Leaf::Kind::kExpression) {
      known = child.leaf->expression->add_dependencies(paths) && known;
    } else if (child.leaf->kind != Leaf::Kind::kExclude) {
      paths.push_back(path);
    }
  }
}

bool only_inclusions(const Node& node) {
  return std::ranges::all_of(node.children, [](const Node::Child& child) {
    if (child.node != nullptr) return only_inclusions(*child.node);
    return child.leaf->kind == Leaf::Kind::kInclude ||
           (child.leaf->kind == Leaf::Kind::kExclude && child.name == "_id");
  });
}

class TreeProjection final : public Projection {
 public:
  TreeProjection(DocumentView spec, Parser& parser)
      : spec_(spec),
        root_(parser.take_root()),
        keeps_others_(parser.keeps_others()),
        needs_details_(parser.needs_details()) {}

  Status apply(const ProjectionInput& input, EvalContext& context, Buffer& out) const override {
    context.root = input.document;
    const std::size_t start = out.size();
    {
      DocumentBuilder builder(&out);
      MULTIFORA_TRY(Runner(keeps_others_, input, context).run(root_, builder));
    }
    if (out.size() - start > limits::kDocumentSizeMax + limits::kDocumentSizeSlack)
      return Status(
          ErrorCode::kBSONObjectTooLarge,
          fmt::format("BSONObj size: {} is invalid. Size must be between 0 and {}",
                      out.size() - start, limits::kDocumentSizeMax + limits::kDocumentSizeSlack));
    return {};
  }
  bool is_inclusion() const override { return !keeps_others_; }
  bool needs_match_details() const override { return needs_details_; }
  bool add_dependencies(std::vector<std::string>& paths) const override {
    if (keeps_others_) return false;
    bool known = true;
    add_node_dependencies(root_, {}, known, paths);
    return known;
  }
  bool simple_inclusion() const override { return !keeps_others_ && only_inclusions(root_); }
  void append_to(DocumentBuilder& out, std::string_view name) const override {
    out.append(name, spec_.view());
  }

 private:
  OwnedDocument spec_;
  Node root_;
  bool keeps_others_;
  bool needs_details_;
};

}  // namespace

}  // namespace projection

Result<std::unique_ptr<const Projection>> Projection::parse(DocumentView spec, ProjectionKind kind,
                                                            const Matcher* filter,
                                                            const MatcherOptions& options,
                                                            VariableScope& scope) {
  projection::Parser parser(kind, filter, options, scope);
  MULTIFORA_TRY_R(parser.parse(spec));
  return std::make_unique<projection::TreeProjection>(spec, parser);
}

}  // namespace multifora
