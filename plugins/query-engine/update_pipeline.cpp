// Updates by an aggregation pipeline: $set/$addFields, $unset, $project, $replaceRoot/$replaceWith.
#include <fmt/format.h>

#include "core/base/limits.h"
#include "core/bson/compare.h"
#include "plugins/query-engine/projection.h"
#include "plugins/query-engine/update_node.h"

namespace multifora::update {

namespace {

// One of the two.
struct Stage {
  std::unique_ptr<const Projection> projection;
  std::unique_ptr<Expression> new_root;
};

class StageParser {
 public:
  StageParser(const UpdateOptions& options, VariableScope& scope) : scope_(scope) {
    options_.collator = options.collator;
    options_.scope = &scope;
  }

  Result<Stage> parse(const Element& element) {
    if (element.type() != BsonType::kObject || element->as_document().count() != 1)
      return fail(location_code(40323),
                  "A pipeline stage specification object must contain exactly one field.");
    const Element stage = element->as_document().first();
    if (stage.name() == "$set" || stage.name() == "$addFields")
      return project(stage, ProjectionKind::kAddFields);
    if (stage.name() == "$project") return project(stage, ProjectionKind::kProject);
    if (stage.name() == "$unset") return unset(stage);
    if (stage.name() == "$replaceWith") return replace(stage.value());
    if (stage.name() == "$replaceRoot") return replace_root(stage);
    if (!stage.name().starts_with('$'))
      return fail(location_code(40324),
                  fmt::format("Unrecognized pipeline stage name: '{}'", stage.name()));
    return fail(ErrorCode::kInvalidOptions,
                fmt::format("{} is not allowed to be used within an update", stage.name()));
  }

 private:
  Result<Stage> project(const Element& stage, ProjectionKind kind) {
    if (stage.type() != BsonType::kObject)
      return fail(location_code(kind == ProjectionKind::kProject ? 15969 : 40272),
                  fmt::format("{} specification must be an object", stage.name()));
    MULTIFORA_ASSIGN_R(auto projection, Projection::parse(stage->as_document(), kind, nullptr,
                                                          options_, scope_));
    return Stage{std::move(projection), nullptr};
  }

  Result<Stage> unset(const Element& stage) {
    DocumentBuilder exclusion;
    const auto add = [&](std::string_view path) -> Status {
      if (path.contains('\0'))  // no name of a document: it must not get into one
        return check_field_path(path).with_context("Invalid $unset :: caused by :");
      exclusion.append(path, false);
      return {};
    };
    if (stage.type() == BsonType::kString) {
      MULTIFORA_TRY_R(add(stage->as_string()));
    } else if (stage.type() == BsonType::kArray) {
      for (const Element& field : stage->as_document()) {
        if (field.type() != BsonType::kString)
          return fail(location_code(31120),
                      "$unset specification must be a string or an array containing only string "
                      "values");
        MULTIFORA_TRY_R(add(field->as_string()));
      }
      if (stage->as_document().empty())
        return fail(location_code(31119),
                    "$unset specification must be a string or an array with at least one field");
    } else {
      return fail(location_code(31002), "$unset specification must be a string or an array");
    }
    const OwnedDocument spec = std::move(exclusion).finish();
    MULTIFORA_ASSIGN_R(auto projection, Projection::parse(spec.view(), ProjectionKind::kProject,
                                                          nullptr, options_, scope_));
    return Stage{std::move(projection), nullptr};
  }

  Result<Stage> replace_root(const Element& stage) {
    if (stage.type() != BsonType::kObject)
      return fail(location_code(40229),
                  fmt::format("expected an object as specification for $replaceRoot stage, got {}",
                              type_name(stage.type())));
    ValueView root;
    for (const Element& option : stage->as_document()) {
      if (option.name() != "newRoot")
        return fail(location_code(40230), fmt::format("unrecognized option to $replaceRoot stage: "
                                                      "{}, only valid option is 'newRoot'.",
                                                      option.name()));
      root = option.value();
    }
    if (root.missing())
      return fail(location_code(40231), "no newRoot specified for the $replaceRoot stage");
    return replace(root);
  }

  Result<Stage> replace(const ValueView& expression) {
    MULTIFORA_ASSIGN_R(auto root, parse_expression(expression, scope_));
    return Stage{nullptr, std::move(root)};
  }

  MatcherOptions options_;
  VariableScope& scope_;
};

class PipelineUpdate final : public Update {
 public:
  Status compile(DocumentView stages, const UpdateOptions& options, VariableScope& scope) {
    MULTIFORA_TRY(bind_constants(options.constants, scope));
    StageParser parser(options, scope);
    for (const Element& element : stages) {
      MULTIFORA_ASSIGN(Stage stage, parser.parse(element));
      stages_.push_back(std::move(stage));
    }
    return {};
  }

  bool is_replacement() const override { return false; }
  bool is_pipeline() const override { return true; }
  bool needs_match_details() const override { return false; }

  Result<bool> apply(const UpdateInput& input, EvalContext& context, Buffer& out) const override {
    for (const auto& [slot, value] : constants_) context.set_variable(slot, value);
    OwnedDocument current(input.document);
    for (const Stage& stage : stages_) {
      Buffer next;
      MULTIFORA_TRY_R(run(stage, current.view(), context, next));
      current = OwnedDocument::assume_valid(std::move(next));
    }
    const std::size_t start = out.size();
    append_with_id(current.view(), input.document["_id"], out);
    MULTIFORA_TRY_R(check_result(input, {}, out, start));
    return Bytes(out).substr(start) != input.document.bytes();
  }

 private:
  Status bind_constants(DocumentView constants, VariableScope& scope) {
    if (constants.empty()) return {};
    EvalContext context;
    MULTIFORA_TRY(bind_let(constants, scope, context));
    for (const Element& constant : constants) {
      const int slot = scope.find(constant.name());
      constants_.emplace_back(slot, context.variables[static_cast<std::size_t>(slot)].own());
    }
    return {};
  }

  static Status run(const Stage& stage, DocumentView document, EvalContext& context, Buffer& out) {
    if (stage.projection != nullptr)
      return stage.projection->apply({.document = document}, context, out);
    context.root = document;
    MULTIFORA_ASSIGN(const Value root, stage.new_root->evaluate(context));
    if (root.type() != BsonType::kObject)
      return Status(location_code(40228),
                    fmt::format("'newRoot' expression must evaluate to an object, but resulting "
                                "value was: {}. Type of resulting value: '{}'.",
                                root.missing() ? "MISSING" : describe(root.view()),
                                type_name(root.type())));
    out.append(root.view().bytes());
    return {};
  }

  // A pipeline that lost _id keeps it all the same.
  static void append_with_id(DocumentView document, const ValueView& id, Buffer& out) {
    if (!document["_id"].missing() || id.missing()) {
      out.append(document.bytes());
      return;
    }
    DocumentBuilder builder(&out);
    builder.append("_id", id);
    builder.append_all(document);
  }

  std::vector<Stage> stages_;
  std::vector<std::pair<int, Value>> constants_;
};

}  // namespace

Result<std::unique_ptr<const Update>> compile_pipeline(DocumentView stages,
                                                       const UpdateOptions& options,
                                                       VariableScope& scope) {
  if (!options.array_filters.empty())
    return fail(ErrorCode::kFailedToParse,
                "arrayFilters may not be specified for pipeline-style updates");
  auto update = std::make_unique<PipelineUpdate>();
  MULTIFORA_TRY_R(update->compile(stages, options, scope));
  return update;
}

}  // namespace multifora::update
