// collMod: changes a collection's or view's options, or properties of one index.
#include <cmath>

#include "core/base/limits.h"
#include "core/bson/compare.h"
#include "core/bson/extended_json.h"
#include "core/plugin/host.h"
#include "core/plugin/option_check.h"
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

// Those who share a key, for the error's `violations`: {ids: [...]} for each key of several records.
class Violations {
 public:
  explicit Violations(const CollectionView& view) : view_(view) {}
  bool empty() const { return groups_.count() == 0; }

  Status add_group(const std::vector<RecordId>& records) {
    if (records.size() < 2 || truncated_) return {};
    if (groups_.size_bytes() > kBytesMax) {
      truncated_ = true;
      return {};
    }
    DocumentBuilder group = groups_.object();
    ArrayBuilder ids = group.array("ids");
    for (const RecordId record : records) {
      MULTIFORA_ASSIGN(const auto document, view_.find(record));
      if (document) ids.append((*document)["_id"]);
    }
    return {};
  }

  Status as_error() && {
    DocumentBuilder extra;
    const OwnedDocument groups = std::move(groups_).finish();
    extra.append_array("violations", groups.view());
    if (truncated_) extra.append("sizeTooLargeForViolations", true);
    return Status(ErrorCode::kCannotConvertIndexToUnique,
                  "Cannot convert the index to unique. Please resolve conflicting documents before "
                  "running collMod again.")
        .with_extra(std::move(extra).finish().take());
  }

 private:
  static constexpr std::size_t kBytesMax = 8 * 1024 * 1024;
  const CollectionView& view_;
  ArrayBuilder groups_;
  bool truncated_ = false;
};

// CannotConvertIndexToUnique where two records share a key of the index.
Status check_no_duplicates(CommandContext& context, const std::string& ns, std::string_view name) {
  MULTIFORA_ASSIGN(const auto view, context.store().read(ns));
  const IndexRef* ref = view ? view->index_named(name) : nullptr;
  if (ref == nullptr) return {};
  Violations violations(*view);
  const auto cursor = ref->index->cursor(ref->state);
  MULTIFORA_TRY(cursor->seek({}));
  Buffer last;
  std::vector<RecordId> sharing;
  while (cursor->valid()) {
    if (sharing.empty() || cursor->key() != Bytes(last)) {
      MULTIFORA_TRY(violations.add_group(sharing));
      sharing.clear();
      last = cursor->key();
    }
    sharing.push_back(cursor->record_id());
    MULTIFORA_TRY(context.interrupt().check());
    MULTIFORA_TRY(cursor->next());
  }
  MULTIFORA_TRY(violations.add_group(sharing));
  return violations.empty() ? Status() : std::move(violations).as_error();
}

Status check_index_change(DocumentView change) {
  static const OptionSpec kFields[] = {
      {"name", kOptString},    {"keyPattern", kOptObject},     {"expireAfterSeconds", kOptNumber},
      {"hidden", kOptBoolish}, {"prepareUnique", kOptBoolish}, {"unique", kOptBoolish}};
  MULTIFORA_TRY(check_fields("collMod.index", change, kFields));
  bool any = false;
  for (const Element& field : change)
    any = any || (field.name() != "name" && field.name() != "keyPattern");
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
    MULTIFORA_TRY(check_no_duplicates(context, ns, name));
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

// Before anything is changed.
Status check_collection_change(CommandContext& context, const CommandRequest& request,
                               const CollectionInfo& info) {
  MULTIFORA_TRY(check_validation_options(context, request));
  for (const auto& [option, most] : {std::pair{"cappedSize", limits::kCappedSizeMax},
                                     std::pair{"cappedMax", limits::kCappedCountMax}}) {
    if (!request.has(option)) continue;
    if (!info.capped)
      return {ErrorCode::kInvalidOptions, std::string(option) + " needs a capped collection"};
    const std::int64_t value = request.integer(option, 0);
    if (value > most || (value <= 0 && std::string_view(option) == "cappedSize"))
      return {ErrorCode::kBadValue, "BSON field '" + std::string(option) +
                                        "' value must be in the range from 1 to " +
                                        std::to_string(most) + ", actual value '" +
                                        std::to_string(value) + "'"};
  }
  return {};
}

// A trial run is offered where only the data decides: for an index that is to become unique.
Status check_dry_run(const CommandRequest& request) {
  bool only_unique = request.document("index")["unique"].truthy();
  for (const Element& field : request.document("index"))
    only_unique = only_unique && (field.name() == "name" || field.name() == "keyPattern" ||
                                  field.name() == "unique");
  for (const OptionSpec& option : kCollMod.options)
    if (option.name != "index" && option.name != "dryRun" && request.has(option.name))
      only_unique = false;
  if (only_unique) return {};
  return {ErrorCode::kInvalidOptions,
          "collMod's 'dryRun' is for converting an index to unique, with no other option"};
}

Status modify_collection(CommandContext& context, const CommandRequest& request,
                         const CollectionInfo& info) {
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
    if (request.has(option)) changes.emplace_back(field, request.option(option));
  }
  // With nothing to change it is logged nevertheless, as MongoDB does: streams tell it.
  if (changes.empty() && request.has("index")) return {};
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
  if (request.flag("dryRun", false)) MULTIFORA_TRY(check_dry_run(request));
  if (info->is_view) {
    for (const char* option : {"validator", "index", "validationLevel", "validationAction",
                               "cappedSize", "cappedMax", "changeStreamPreAndPostImages"})
      if (request.has(option))
        return {ErrorCode::kInvalidOptions, std::string("option '") + option +
                                                "' not supported on a view"};
    return view_options ? modify_view(context, request, *info) : Status();
  }
  if (view_options)
    return {ErrorCode::kInvalidOptions,
            "'viewOn' and 'pipeline' options are only valid for views"};
  MULTIFORA_TRY(check_collection_change(context, request, *info));
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
