// create: a collection or a view with its options.
#include <cmath>

#include "core/base/limits.h"
#include "core/bson/extended_json.h"
#include "core/plugin/host.h"
#include "core/plugin/option_check.h"
#include "plugins/command-catalog/commands.h"

namespace multifora::catalog_commands {
namespace {

Status invalid_options(std::string message) {
  return {ErrorCode::kInvalidOptions, std::move(message)};
}

Status check_capped(const CommandRequest& request) {
  const bool capped = request.flag("capped", false);
  const ValueView size = request.option("size");
  if (!capped) {
    if (!size.missing() || request.has("max"))
      return invalid_options("the 'capped' field needs to be true when either the 'size' or 'max' "
                             "fields are present");
    return {};
  }
  if (size.missing()) return invalid_options("the 'size' field is required when 'capped' is true");
  const std::int64_t bytes = request.integer("size", 0);
  if (bytes < 1 || bytes > limits::kCappedSizeMax)
    return {ErrorCode::kBadValue, "Capped collection size must be greater than zero and at most 1 PB"};
  const std::int64_t max = request.integer("max", 0);
  if (request.has("max") && (max < 0 || max > limits::kCappedCountMax))
    return {ErrorCode::kBadValue,
            "max in a capped collection has to be < 2^31 or not set at all"};
  return {};
}

Status check_clustered(const CommandRequest& request) {
  const ValueView clustered = request.option("clusteredIndex");
  if (clustered.missing() || clustered.type() == BsonType::kBool) return {};
  const DocumentView spec = clustered.as_document();
  static const OptionSpec kFields[] = {{"v", kOptNumber},
                                       {"key", kOptObject, kRequired},
                                       {"name", kOptString},
                                       {"unique", kOptBoolish, kRequired}};
  MULTIFORA_TRY(check_fields("create.clusteredIndex", spec, kFields));
  const ValueView key = spec["key"];
  const Element only = key.as_document().first();
  if (key.as_document().count() != 1 || only.name() != "_id" || !only->is_number() ||
      only->number_as_double() != 1)
    return {ErrorCode::kInvalidIndexSpecificationOption,
            "The clusteredIndex option is only supported for key: {_id: 1}"};
  if (!spec["unique"].truthy())
    return {ErrorCode::kInvalidIndexSpecificationOption,
            "The clusteredIndex option requires unique: true"};
  if (request.flag("capped", false))
    return invalid_options("The 'capped' option is not supported with 'clusteredIndex'");
  return {};
}

// A collation in full, as it is stored and shown.
Status append_collation(CommandContext& context, const CommandRequest& request,
                        std::shared_ptr<const Collator>* collator, DocumentBuilder& options) {
  const ValueView collation = request.option("collation");
  if (collation.missing()) return {};
  const ValueView locale = collation.as_document()["locale"];
  const CollatorFactory* factory = context.host().collator_factory();
  if (locale.type() == BsonType::kString && locale.as_string() == "simple" &&
      collation.as_document().count() == 1)
    return {};
  if (factory == nullptr)
    return {ErrorCode::kCommandNotSupported,
            "collations need the plugin collation-icu, which is not loaded"};
  MULTIFORA_ASSIGN(*collator, factory->make(collation.as_document()));
  if (*collator) options.append("collation", (*collator)->spec());
  return {};
}

void append_clustered(DocumentView spec, DocumentBuilder& options) {
  auto clustered = options.object("clusteredIndex");
  clustered.append("v", spec["v"].missing() ? 2 : static_cast<std::int32_t>(spec["v"].number_as_int64()));
  clustered.append("key", spec["key"].as_document());
  const ValueView name = spec["name"];
  clustered.append("name", name.type() == BsonType::kString ? name.as_string() : "_id_");
  clustered.append("unique", true);
}

Status build_options(CommandContext& context, const CommandRequest& request,
                     std::shared_ptr<const Collator>* collator, DocumentBuilder& options) {
  for (const char* name : {"capped", "size", "max"}) {
    const ValueView value = request.option(name);
    if (value.missing() || !request.flag("capped", false)) continue;
    if (std::string_view(name) == "capped")
      options.append(name, true);
    else
      options.append(name, value);
  }
  for (const char* name : {"validator", "validationLevel", "validationAction", "viewOn", "pipeline",
                           "storageEngine", "indexOptionDefaults", "expireAfterSeconds"})
    options.append(name, request.option(name));
  if (request.flag("temp", false)) options.append("temp", true);
  if (const ValueView images = request.option("changeStreamPreAndPostImages"); !images.missing())
    options.append("changeStreamPreAndPostImages", images);
  if (const ValueView clustered = request.option("clusteredIndex");
      clustered.type() == BsonType::kObject)
    append_clustered(clustered.as_document(), options);
  return append_collation(context, request, collator, options);
}

Status check_view_options(CommandContext& context, const CommandRequest& request,
                          const Collator* collator) {
  if (!request.has("viewOn")) {
    if (request.has("pipeline"))
      return invalid_options("'viewOn' is required when 'pipeline' is specified");
    return {};
  }
  const std::string_view view_on = request.option("viewOn").as_string();
  if (view_on.empty()) return {ErrorCode::kBadValue, "'viewOn' cannot be empty"};
  for (const char* name : {"capped", "size", "max", "validator", "validationLevel",
                           "validationAction", "clusteredIndex", "storageEngine"})
    if (request.has(name))
      return invalid_options(std::string("Cannot specify '") + name + "' for a view");
  return check_view(context, request.ns(), view_on, request.document("pipeline"), collator);
}

Status run(CommandContext& context, const CommandRequest& request, DocumentBuilder& reply) {
  static_cast<void>(reply);
  if (request.collection().starts_with("system.") && request.collection() != "system.js" &&
      request.collection() != "system.profile" && request.collection() != "system.users")
    return {ErrorCode::kInvalidNamespace,
            "Invalid system namespace: " + request.ns()};
  if (!request.flag("autoIndexId", true))
    return {ErrorCode::kInvalidOptions, "A replicated collection must have an index on _id: the "
                                        "'autoIndexId' option cannot be false"};
  MULTIFORA_TRY(check_capped(request));
  MULTIFORA_TRY(check_clustered(request));
  MULTIFORA_TRY(check_validation_options(context, request));
  std::shared_ptr<const Collator> collator;
  DocumentBuilder builder;
  MULTIFORA_TRY(build_options(context, request, &collator, builder));
  const OwnedDocument options = std::move(builder).finish();
  MULTIFORA_TRY(check_view_options(context, request, collator.get()));
  MULTIFORA_ASSIGN(const LogPosition position,
                   context.store().create_collection(request.ns(), options.view()));
  context.note_write(position);
  return {};
}

}  // namespace

const CommandRow kCreate{
    .name = "create",
    .aliases = {},
    .help = "Creates a collection or a view.",
    .privilege = "createCollection",
    .lock = LockIntent::kCatalog,
    .flags = kCollectionName | kAcceptsWriteConcern | kAllowedInTransaction | kAllowedInStrictApi,
    .options = {{"capped", kOptBoolish},
                {"autoIndexId", kOptBoolish},
                {"idIndex", kOptObject, kUnsupported},
                {"size", kOptNumber},
                {"max", kOptNumber},
                // Kept and shown: clients compare them. No setting of another engine has a meaning here.
                {"storageEngine", kOptObject},
                {"validator", kOptObject},
                {"validationLevel", kOptString},
                {"validationAction", kOptString},
                {"indexOptionDefaults", kOptObject},
                {"viewOn", kOptString},
                {"pipeline", kOptArray, kArrayOfObjects},
                {"collation", kOptObject},
                {"changeStreamPreAndPostImages", kOptObject},
                {"timeseries", kOptObject, kUnsupported},
                {"clusteredIndex", kOptObject | kOptBool},
                {"expireAfterSeconds", kOptNumber | kOptString, kUnsupported},
                {"encryptedFields", kOptObject, kUnsupported},
                {"temp", kOptBool},
                {"flags", kOptNumber, kUnsupported}},
    .run = run,
};

}  // namespace multifora::catalog_commands
