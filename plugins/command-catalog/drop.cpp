// drop, dropDatabase and renameCollection.
#include "plugins/command-catalog/commands.h"

namespace multifora::catalog_commands {
namespace {

Status run_drop(CommandContext& context, const CommandRequest& request, DocumentBuilder& reply) {
  const std::string ns = request.ns();
  MULTIFORA_TRY(check_collection_name(request.collection()));
  const auto info = context.store().info(ns);
  if (!info) return {};  // since 7.0 dropping what is not there succeeds
  std::size_t indexes = 0;
  if (!info->is_view) {
    MULTIFORA_ASSIGN(const auto specs, context.store().index_specs(ns));
    indexes = specs.size();
  }
  auto position = context.store().drop_collection(ns);
  if (!position) {
    if (position.error().code() == ErrorCode::kNamespaceNotFound) return {};
    return position.error();
  }
  context.note_write(*position);
  if (!info->is_view) reply.append("nIndexesWas", static_cast<std::int32_t>(indexes));
  reply.append("ns", ns);
  return {};
}

Status run_drop_database(CommandContext& context, const CommandRequest& request,
                         DocumentBuilder& reply) {
  if (request.integer("dropDatabase", 0) != 1)
    return {location_code(5255000), "Invalid value for the 'dropDatabase' field: it must be 1"};
  MULTIFORA_ASSIGN(const LogPosition position, context.store().drop_database(request.db()));
  context.note_write(position);
  if (position != 0) reply.append("dropped", request.db());
  return {};
}

Status run_rename(CommandContext& context, const CommandRequest& request, DocumentBuilder&) {
  const std::string_view from = request.target().as_string();
  const std::string_view to = request.option("to").as_string();
  for (const std::string_view ns : {from, to})
    if (Namespace::split(ns).db.empty() || Namespace::split(ns).collection.empty())
      return {ErrorCode::kInvalidNamespace, "Invalid namespace specified '" + std::string(ns) + "'"};
  MULTIFORA_ASSIGN(const LogPosition position,
                   context.store().rename_collection(from, to, request.flag("dropTarget", false)));
  context.note_write(position);
  return {};
}

}  // namespace

const CommandRow kDrop{
    .name = "drop",
    .aliases = {},
    .help = "Removes a collection or a view.",
    .privilege = "dropCollection",
    .lock = LockIntent::kCatalog,
    .flags = kCollectionName | kAcceptsWriteConcern | kAllowedInStrictApi,
    .options = {},
    .run = run_drop,
};

const CommandRow kDropDatabase{
    .name = "dropDatabase",
    .aliases = {},
    .help = "Removes a database with all its collections.",
    .privilege = "dropDatabase",
    .lock = LockIntent::kCatalog,
    .flags = kAcceptsWriteConcern | kAllowedInStrictApi,
    .options = {},
    .run = run_drop_database,
};

const CommandRow kRenameCollection{
    .name = "renameCollection",
    .aliases = {},
    .help = "Renames a collection, also into another database.",
    .privilege = "renameCollection",
    .lock = LockIntent::kCatalog,
    .flags = kAdminOnly | kAcceptsWriteConcern | kCollectionName,
    .options = {{"to", kOptString, kRequired},
                {"dropTarget", kOptBoolish},
                {"stayTemp", kOptBool, kUnsupported},
                {"collectionUUID", kOptBinary, kUnsupported}},
    .run = run_rename,
};

}  // namespace multifora::catalog_commands
