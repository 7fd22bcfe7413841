// collMod: changes a collection's or view's options, or properties of one index.
#include <cmath>

#include "core/base/limits.h"
#include "core/bson/compare.h"
#include "core/bson/extended_json.h"
#include "core/plugin/host.h"
#include "plugins/command-catalog/commands.h"

namespace multifora::catalog_commands {
namespace {

// `options` with the given fields replaced or added; a missing value removes the field.
OwnedDocument replace_fields(DocumentView options,
                             const std::vector<std::pair<std::string_view, ValueView>>& changes) {
  DocumentBuilder out;
  const auto change_of = [&](std::string_view name) -> const ValueView* {
    for (const auto& [changed, value] : changes)
      if (changed == name) return &value;
    return nullptr;
  };
  for (const Element& field : options) {
    const ValueView* change = change_of(field.name());
    out.append(field.name(), change != nullptr ? *change : field.value());
  }
  for (const auto& [name, value] : changes)
    if (options[name].missing()) out.append(name, value);
  return std::move(out).finish();
}

Result<OwnedDocument> find_spec(const std::vector<OwnedDocument>& specs, DocumentView wanted,
                                const std::string& ns) {
  const ValueView name = wanted["name"];
  const ValueView pattern = wanted["keyPattern"];
  if (name.missing() == pattern.missing())
    return fail(ErrorCode::kInvalidOptions,
                name.missing() ? "Must specify either index name or key pattern."
                               : "Cannot specify both key pattern and name.");
  for (const OwnedDocument& spec : specs) {
    if (!name.missing() && name.type() == BsonType::kString &&
        spec.view()["name"].as_string() == name.as_string())
      return spec;
    if (pattern.type() == BsonType::kObject &&
        compare_documents(spec.view()["key"].as_document(), pattern.as_document()) == 0)
      return spec;
  }
  return fail(ErrorCode::kIndexNotFound,
              "cannot find index " +
                  (name.missing() ? to_extended_json(pattern.as_document())
                                  : std::string(name.as_string())) +
                  " for ns " + ns);
}

// A value of a key that two records share, or nothing.
Result<bool> has_duplicates(CommandContext& context, const std::string& ns, std::string_view name) {
  MULTIFORA_ASSIGN_R(const auto view, context.store().read(ns));
  const IndexRef* ref = view ? view->index_named(name) : nullptr;
  if (ref == nullptr) return false;
  const auto cursor = ref->index->cursor(ref->state);
  MULTIFORA_TRY_R(cursor->seek({}));
  Buffer last;
  bool have_last = false;
  while (cursor->valid()) {
    if (have_last && cursor->key() == Bytes(last)) return true;
    last = cursor->key();
    have_last = true;
    MULTIFORA_TRY_R(context.interrupt().check());
    MULTIFORA_TRY_R(cursor->next());
  }
  return false;
}

Status check_index_change(DocumentView change) {
  static constexpr std::string_view kKnown[] = {"name",   "keyPattern",    "expireAfterSeconds",
                                                "hidden", "prepareUnique", "unique"};
  bool any = false;
  for (const Element& field : change) {
    if (std::find(std::begin(kKnown), std::end(kKnown), field.name()) == std::end(kKnown))
      return {location_code(40415), "BSON field 'collMod.index." + std::string(field.name()) +
                                        "' is an unknown field."};
    any = any || (field.name() != "name" && field.name() != "keyPattern");
  }
  if (!any)
    return {ErrorCode::kInvalidOptions,
            "no expireAfterSeconds, hidden, unique, or prepareUnique field"};
  const ValueView unique = change["unique"];
  if (!unique.missing() && !unique.truthy())
    return {ErrorCode::kBadValue, "collMod index option 'unique' can only be set to true"};
  return {};
}

Status modify_index(CommandContext& context, const CommandRequest& request,
                    DocumentBuilder& reply) {
  const std::string ns = request.ns();
  const DocumentView change = request.document("index");
  MULTIFORA_TRY(check_index_change(change));
  MULTIFORA_ASSIGN(const auto specs, context.store().index_specs(ns));
  MULTIFORA_ASSIGN(const OwnedDocument spec, find_spec(specs, change, ns));
  const std::string name(spec.view()["name"].as_string());
  if (name == "_id_" && change["hidden"].truthy())
    return {ErrorCode::kBadValue, "can't hide _id index"};
  std::vector<std::pair<std::string_view, ValueView>> changes;
  for (const char* option : {"expireAfterSeconds", "hidden", "prepareUnique", "unique"}) {
    const ValueView now = change[option];
    const ValueView before = spec.view()[option];
    if (now.missing()) continue;
    const bool is_flag = std::string_view(option) != "expireAfterSeconds";
    if (is_flag && now.truthy() == before.truthy()) continue;
    if (!is_flag && equal_values(now, before)) continue;
    const std::string label(option);
    if (is_flag)
      reply.append(label + "_old", before.truthy()).append(label + "_new", now.truthy());
    else
      reply.append(label + "_old", before).append(label + "_new", now);
    changes.emplace_back(option, is_flag && !now.truthy() ? ValueView() : now);
  }
  if (change["unique"].truthy() && !spec.view()["unique"].truthy()) {
    if (!spec.view()["prepareUnique"].truthy())
      return {ErrorCode::kInvalidOptions,
              "Cannot make index unique with 'prepareUnique=false'. Run collMod to set it first."};
    MULTIFORA_ASSIGN(const bool clash, has_duplicates(context, ns, name));
    if (clash)
      return {ErrorCode::kCannotConvertIndexToUnique,
              "Cannot convert the index to unique. Please resolve conflicting documents before "
              "running collMod again."};
    changes.emplace_back("prepareUnique", ValueView());
  }
  if (changes.empty() || request.flag("dryRun", false)) return {};
  const OwnedDocument changed = replace_fields(spec.view(), changes);
  MULTIFORA_ASSIGN(const LogPosition position,
                   context.store().set_index_spec(ns, name, changed.view()));
  context.note_write(position);
  return {};
}

Status modify_view(CommandContext& context, const CommandRequest& request,
                   const CollectionInfo& info) {
  if (!request.has("viewOn") || !request.has("pipeline"))
    return {ErrorCode::kInvalidOptions,
            "both 'viewOn' and 'pipeline' must be specified to modify a view"};
  MULTIFORA_TRY(check_view(context, info.ns, request.option("viewOn").as_string(),
                           request.document("pipeline"), info.collator.get()));
  const OwnedDocument options =
      replace_fields(info.options.view(), {{"viewOn", request.option("viewOn")},
                                           {"pipeline", request.option("pipeline")}});
  MULTIFORA_ASSIGN(const LogPosition position,
                   context.store().set_collection_options(info.ns, options.view()));
  context.note_write(position);
  return {};
}

Status modify_collection(CommandContext& context, const CommandRequest& request,
                         const CollectionInfo& info) {
  MULTIFORA_TRY(check_validation_options(context, request));
  std::vector<std::pair<std::string_view, ValueView>> changes;
  for (const char* option : {"validator", "validationLevel", "validationAction",
                             "changeStreamPreAndPostImages"})
    if (request.has(option)) changes.emplace_back(option, request.option(option));
  // A validator that comes by collMod is shown with its level and action.
  DocumentBuilder defaults_builder;
  defaults_builder.append("validationLevel", "strict").append("validationAction", "error");
  const OwnedDocument defaults = std::move(defaults_builder).finish();
  if (request.has("validator"))
    for (const char* option : {"validationLevel", "validationAction"})
      if (!request.has(option) && info.options.view()[option].missing())
        changes.emplace_back(option, defaults.view()[option]);
  for (const auto& [option, field] : {std::pair{"cappedSize", "size"}, {"cappedMax", "max"}}) {
    if (!request.has(option)) continue;
    if (!info.capped)
      return {ErrorCode::kInvalidOptions, std::string(option) + " needs a capped collection"};
    changes.emplace_back(field, request.option(option));
  }
  if (changes.empty()) return {};
  const OwnedDocument options = replace_fields(info.options.view(), changes);
  MULTIFORA_ASSIGN(const LogPosition position,
                   context.store().set_collection_options(info.ns, options.view()));
  context.note_write(position);
  return {};
}

Status run(CommandContext& context, const CommandRequest& request, DocumentBuilder& reply) {
  const std::string ns = request.ns();
  const auto info = context.store().info(ns);
  if (!info) return {ErrorCode::kNamespaceNotFound, "ns does not exist"};
  const bool view_options = request.has("viewOn") || request.has("pipeline");
  if (info->is_view) {
    for (const char* option : {"validator", "index", "validationLevel", "validationAction"})
      if (request.has(option))
        return {ErrorCode::kInvalidOptions, std::string("option '") + option +
                                                "' not supported on a view"};
    return view_options ? modify_view(context, request, *info) : Status();
  }
  if (view_options)
    return {ErrorCode::kInvalidOptions,
            "'viewOn' and 'pipeline' options are only valid for views"};
  if (request.has("index")) MULTIFORA_TRY(modify_index(context, request, reply));
  return modify_collection(context, request, *info);
}

}  // namespace

const CommandRow kCollMod{
    .name = "collMod",
    .aliases = {},
    .help = "Changes options of a collection, a view or an index.",
    .privilege = "collMod",
    .lock = LockIntent::kCatalog,
    .flags = kCollectionName | kAcceptsWriteConcern | kAllowedInStrictApi,
    .options = {{"index", kOptObject},
                {"validator", kOptObject},
                {"validationLevel", kOptString},
                {"validationAction", kOptString},
                {"viewOn", kOptString},
                {"pipeline", kOptArray},
                {"cappedSize", kOptNumber},
                {"cappedMax", kOptNumber},
                {"changeStreamPreAndPostImages", kOptObject},
                {"expireAfterSeconds", kOptNumber | kOptString, kUnsupported},
                {"timeseries", kOptObject, kUnsupported},
                {"dryRun", kOptBoolish}},
    .run = run,
};

}  // namespace multifora::catalog_commands
