// What several commands of this plugin share.
#include "core/base/limits.h"
#include "core/plugin/host.h"
#include "plugins/command-catalog/commands.h"
#include "plugins/query-engine/matcher.h"
#include "plugins/query-engine/pipeline.h"

namespace multifora {

class catalog_commands::FilterHolder {
 public:
  explicit FilterHolder(std::unique_ptr<const Matcher> matcher) : matcher_(std::move(matcher)) {}
  const Matcher& matcher() const { return *matcher_; }

 private:
  std::unique_ptr<const Matcher> matcher_;
};

namespace catalog_commands {

Result<ListFilter> ListFilter::make(const CommandRequest& request) {
  ListFilter filter;
  const DocumentView spec = request.document("filter");
  if (spec.empty()) return filter;
  MULTIFORA_ASSIGN_R(auto matcher, Matcher::compile(spec, MatcherOptions()));
  filter.holder_ = std::make_shared<const FilterHolder>(std::move(matcher));
  return filter;
}

Result<bool> ListFilter::matches(DocumentView document) const {
  if (!holder_) return true;
  EvalContext context;
  return holder_->matcher().matches(document, &context);
}

Status check_view(CommandContext& context, const std::string& ns, std::string_view view_on,
                  DocumentView pipeline, const Collator* collator) {
  const Namespace parts = Namespace::split(ns);
  MULTIFORA_TRY(check_collection_name(view_on));
  PipelineContext parse;
  parse.store = &context.store();
  parse.host = &context.host();
  parse.interrupt = &context.interrupt();
  parse.db = parts.db;
  parse.collection = view_on;
  std::vector<DocumentView> stages;
  for (const Element& stage : pipeline) {
    if (stage.type() != BsonType::kObject)
      return {ErrorCode::kTypeMismatch, "Each element of the 'pipeline' array must be an object"};
    const std::string_view name = stage->as_document().first().name();
    if (name == "$out" || name == "$merge")
      return {ErrorCode::kOptionNotSupportedOnView,
              "The aggregation stage " + std::string(name) + " cannot be used in a view definition"};
    stages.push_back(stage->as_document());
  }
  MULTIFORA_TRY(status_of(Pipeline::parse(stages, parse)));

  // Follow what the view stands on, through other views, to a collection or back to itself.
  std::string next = std::string(parts.db) + "." + std::string(view_on);
  for (std::size_t depth = 1;; ++depth) {
    if (next == ns)
      return {ErrorCode::kGraphContainsCycle, "View cycle detected: " + ns + " is defined on itself"};
    if (depth > limits::kViewDepthMax)
      return {ErrorCode::kViewDepthLimitExceeded,
              "View depth limit exceeded; maximum depth is " + std::to_string(limits::kViewDepthMax)};
    const auto info = context.store().info(next);
    if (!info || !info->is_view) return {};
    if (!collators_agree(info->collator.get(), collator))
      return {ErrorCode::kOptionNotSupportedOnView,
              "View " + ns + " has a collation that conflicts with the collation of view " + next};
    next = info->db + "." + std::string(info->options.view()["viewOn"].as_string());
  }
}

Status check_validation_options(CommandContext& context, const CommandRequest& request) {
  if (const ValueView level = request.option("validationLevel"); !level.missing()) {
    const std::string_view text = level.as_string();
    if (text != "off" && text != "strict" && text != "moderate")
      return {ErrorCode::kBadValue, "Enumeration value '" + std::string(text) +
                                        "' for field 'validationLevel' is not a valid value."};
  }
  if (const ValueView action = request.option("validationAction"); !action.missing()) {
    const std::string_view text = action.as_string();
    if (text != "error" && text != "warn")
      return {ErrorCode::kBadValue, "Enumeration value '" + std::string(text) +
                                        "' for field 'validationAction' is not a valid value."};
  }
  const ValueView validator = request.option("validator");
  if (validator.type() != BsonType::kObject || validator.as_document().empty()) return {};
  const std::string_view db = request.db();
  if (db == "admin" || db == "local" || db == "config")
    return {ErrorCode::kInvalidOptions,
            "Document validators are not allowed on collections in the " + std::string(db) +
                " database"};
  const FilterCompiler* compiler = context.host().filter_compiler();
  if (compiler == nullptr)
    return {ErrorCode::kCommandNotSupported,
            "validators need the plugin query-engine, which is not loaded"};
  return status_of(compiler->compile(validator.as_document(), nullptr));
}

}  // namespace catalog_commands
}  // namespace multifora
