#include "plugins/query-engine/update.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/limits.h"
#include "core/bson/compare.h"
#include "core/bson/extended_json.h"
#include "plugins/query-engine/update_node.h"

namespace multifora {

namespace update {

namespace {

// ---- Operators ----

class OperatorUpdate final : public Update {
 public:
  Status compile(DocumentView spec, const UpdateOptions& options, VariableScope& scope) {
    Parser parser(options, scope);
    MULTIFORA_ASSIGN(filters_,
                     parse_array_filters(options.array_filters, parser.matcher_options()));
    MULTIFORA_TRY(parser.parse(spec, filters_));
    root_ = parser.root();
    renames_ = parser.take_renames();
    needs_match_details_ = parser.needs_match_details();
    may_nest_deeply_ = parser.may_nest_deeply();
    return {};
  }

  bool is_replacement() const override { return false; }
  bool is_pipeline() const override { return false; }
  bool needs_match_details() const override { return needs_match_details_; }

  Result<bool> apply(const UpdateInput& input, EvalContext& context, Buffer& out) const override {
    UpdateState state{input, context, filters_, {}, {}, {}, false};
    MULTIFORA_TRY_R(find_renamed(input.document, state));
    const std::size_t start = out.size();
    MULTIFORA_TRY_R(apply_tree(*root_, input.document, state, out));
    MULTIFORA_TRY_R(check_result(input, {.depth = may_nest_deeply_}, out, start));
    return state.modified || Bytes(out).substr(start) != input.document.bytes();
  }

 private:
  // The source's value; BadValue where an array stands on either way.
  Status find_renamed(DocumentView document, UpdateState& state) const {
    for (const Parser::Rename& rename : renames_) {
      MULTIFORA_ASSIGN(const ValueView value, follow(document, rename.from, "source"));
      state.renamed.push_back(value);
      if (value.missing()) continue;
      if (rename.to == "_id" && !state.input.is_insert)
        return Status(ErrorCode::kImmutableField,
                      "Performing an update on the path '_id' would modify the immutable field "
                      "'_id'");
      MULTIFORA_ASSIGN([[maybe_unused]] const ValueView old,
                       follow(document, rename.to, "destination"));
    }
    return {};
  }

  // The value at the path; BadValue where that is an array's element.
  static Result<ValueView> follow(DocumentView document, std::string_view path,
                                  std::string_view what) {
    const std::string_view whole = path;
    while (true) {
      const std::size_t dot = path.find('.');
      const std::string_view name = path.substr(0, dot);
      const ValueView value = document[name];
      if (dot == std::string_view::npos || value.missing()) return value;
      path.remove_prefix(dot + 1);
      if (value.type() == BsonType::kArray &&
          !value.as_document()[path.substr(0, path.find('.'))].missing())
        return fail(ErrorCode::kBadValue,
                    fmt::format("The {} field cannot be an array element, '{}' in doc with _id: "
                                "{} has an array field called '{}'",
                                what, whole, describe(document["_id"]), name));
      if (value.type() != BsonType::kObject)
        return fail(ErrorCode::kPathNotViable,
                    fmt::format("cannot use the part ({} of {}) to traverse the element "
                                "({{{}: {}}})",
                                path, whole, name, describe(value)));
      document = value.as_document();
    }
  }

  std::vector<ArrayFilter> filters_;
  std::shared_ptr<const Node> root_;
  std::vector<Parser::Rename> renames_;
  bool needs_match_details_ = false;
  bool may_nest_deeply_ = false;
};

// ---- Replacement ----

Status check_replacement(DocumentView spec) {
  for (const Element& element : spec)
    if (element.name().starts_with('$'))
      return Status(ErrorCode::kDollarPrefixedFieldName,
                    fmt::format("The dollar ($) prefixed field '{}' in '{}' is not allowed in the "
                                "context of an update's replacement document. Consider using an "
                                "aggregation pipeline with $replaceWith.",
                                element.name(), element.name()));
  return {};
}

class ReplacementUpdate final : public Update {
 public:
  explicit ReplacementUpdate(DocumentView spec)
      : spec_(spec), deep_(depth_of(spec) > limits::kNestingDepthMax) {}

  bool is_replacement() const override { return true; }
  bool is_pipeline() const override { return false; }
  bool needs_match_details() const override { return false; }

  Result<bool> apply(const UpdateInput& input, EvalContext&, Buffer& out) const override {
    const std::size_t start = out.size();
    const DocumentView spec = spec_.view();
    const ValueView old_id = input.document["_id"];
    const ValueView new_id = spec["_id"];
    {
      DocumentBuilder builder(&out);
      builder.append("_id", new_id.missing() ? old_id : new_id);
      for (const Element& element : spec)
        if (element.name() != "_id") append_field(element, input.cluster_time, builder);
    }
    if (!new_id.missing() && !old_id.missing() && !equal_values(old_id, new_id))
      return fail(ErrorCode::kImmutableField,
                  fmt::format("After applying the update, the (immutable) field '_id' was found to "
                              "have been altered to _id: {}",
                              describe(new_id)));
    MULTIFORA_TRY_R(check_result(input, {.depth = deep_, .exact_id = false}, out, start));
    // Saying _id or not makes a difference here, as in MongoDB.
    return spec.bytes() != input.document.bytes();
  }

 private:
  // An empty timestamp at the top level asks for the time of the write.
  static void append_field(const Element& element, std::uint64_t now, DocumentBuilder& out) {
    if (element.type() == BsonType::kTimestamp && element->as_timestamp() == 0)
      out.append_timestamp(element.name(), now);
    else
      out.append(element);
  }

  OwnedDocument spec_;
  bool deep_;
};

// Puts _id first.
void move_id_to_front(Buffer& out, std::size_t start) {
  const OwnedDocument document =
      OwnedDocument::assume_valid(Buffer(Bytes(out).substr(start)));
  const DocumentView view = document.view();
  if (view.first().name() == "_id" || view["_id"].missing()) return;
  out.resize(start);
  DocumentBuilder builder(&out);
  builder.append("_id", view["_id"]);
  for (const Element& element : view)
    if (element.name() != "_id") builder.append(element);
}

}  // namespace

std::size_t depth_of(DocumentView document) {
  std::size_t deepest = 0;
  for (const Element& element : document)
    if (element.type() == BsonType::kObject || element.type() == BsonType::kArray)
      deepest = std::max(deepest, depth_of(element->as_document()));
  return deepest + 1;
}

Status check_result(const UpdateInput& input, ResultChecks checks, Buffer& out,
                    std::size_t start) {
  if (input.is_insert) move_id_to_front(out, start);
  const DocumentView document = DocumentView::assume_valid(out.data() + start);
  const ValueView old_id = input.document["_id"];
  const ValueView new_id = document["_id"];
  const bool same = checks.exact_id ? identical_values(old_id, new_id)
                                    : equal_values(old_id, new_id);
  const bool changed = old_id.missing() ? !input.is_insert && !new_id.missing() : !same;
  if (changed)
    return Status(ErrorCode::kImmutableField,
                  "Performing an update on the path '_id' would modify the immutable field '_id'");
  if (new_id.type() == BsonType::kArray || new_id.type() == BsonType::kRegex ||
      new_id.type() == BsonType::kUndefined)
    return Status(ErrorCode::kInvalidIdField,
                  fmt::format("The '_id' value cannot be of type {}", type_name(new_id.type())));
  if (document.size_bytes() > limits::kDocumentSizeMax)
    return Status(location_code(17419),
                  fmt::format("Resulting document after update is larger than {}",
                              limits::kDocumentSizeMax));
  if (checks.depth && depth_of(document) > limits::kNestingDepthMax)
    return Status(ErrorCode::kOverflow,
                  fmt::format("Document exceeds maximum nesting depth of {}",
                              limits::kNestingDepthMax));
  return {};
}

}  // namespace update

Result<std::unique_ptr<const Update>> Update::compile(const ValueView& spec,
                                                      const UpdateOptions& options,
                                                      VariableScope& scope) {
  if (spec.type() == BsonType::kArray)
    return update::compile_pipeline(spec.as_document(), options, scope);
  if (spec.type() != BsonType::kObject)
    return fail(ErrorCode::kFailedToParse,
                "Update argument must be either an object or an array");
  if (!options.constants.empty())
    return fail(location_code(51198), "Constant values may only be specified for pipeline updates");
  const DocumentView document = spec.as_document();
  if (document.first().name().starts_with('$')) {
    auto operators = std::make_unique<update::OperatorUpdate>();
    MULTIFORA_TRY_R(operators->compile(document, options, scope));
    return operators;
  }
  if (!options.array_filters.empty())
    return fail(ErrorCode::kFailedToParse,
                "arrayFilters may not be specified for replacement-style updates");
  MULTIFORA_TRY_R(update::check_replacement(document));
  return std::make_unique<update::ReplacementUpdate>(document);
}

}  // namespace multifora
