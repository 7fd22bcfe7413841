// listCollections, listDatabases and listIndexes.
#include <algorithm>

#include "plugins/command-catalog/commands.h"

namespace multifora::catalog_commands {
namespace {

OwnedDocument describe(const CollectionInfo& info, bool name_only) {
  DocumentBuilder out;
  out.append("name", info.name);
  out.append("type", info.is_view ? "view" : "collection");
  if (!name_only) {
    out.append("options", info.options.view());
    {
      auto details = out.object("info");
      details.append("readOnly", info.is_view);
      if (!info.is_view) details.append_binary("uuid", Bytes(info.uuid.data(), 16), 4);
    }
    if (!info.is_view && !info.clustered) {
      auto id_index = out.object("idIndex");
      id_index.append("v", 2);
      id_index.object("key").append("_id", 1);
      id_index.append("name", "_id_");
      if (info.collator) id_index.append("collation", info.collator->spec());
    }
  }
  return std::move(out).finish();
}

// Where MongoDB keeps the definitions of views; listed wherever a database has one.
CollectionInfo system_views(std::string_view db, const CollectionInfo& some_view) {
  CollectionInfo info;
  info.db = db;
  info.name = "system.views";
  info.uuid = some_view.uuid;
  return info;
}

Status run_list_collections(CommandContext& context, const CommandRequest& request,
                            DocumentBuilder& reply) {
  const bool name_only = request.flag("nameOnly", false);
  MULTIFORA_ASSIGN(const ListFilter filter, ListFilter::make(request));
  std::vector<OwnedDocument> rows;
  const auto add = [&](const CollectionInfo& info) -> Status {
    OwnedDocument whole = describe(info, false);
    MULTIFORA_ASSIGN(const bool wanted, filter.matches(whole.view()));
    if (wanted) rows.push_back(name_only ? describe(info, true) : std::move(whole));
    return {};
  };
  std::shared_ptr<const CollectionInfo> view;
  for (const auto& info : context.store().collections(request.db())) {
    MULTIFORA_TRY(add(*info));
    if (info->is_view) view = info;
  }
  if (view) MULTIFORA_TRY(add(system_views(request.db(), *view)));
  const std::string ns = std::string(request.db()) + ".$cmd.listCollections";
  return reply_with_cursor(context, request, ns, std::move(rows), reply);
}

Status run_list_databases(CommandContext& context, const CommandRequest& request,
                          DocumentBuilder& reply) {
  const bool name_only = request.flag("nameOnly", false);
  MULTIFORA_ASSIGN(const ListFilter filter, ListFilter::make(request));
  std::int64_t total = 0;
  {
    auto rows = reply.array("databases");
    for (const std::string& db : context.store().database_names()) {
      std::int64_t size = 0;
      for (const auto& info : context.store().collections(db)) {
        const auto stats = context.store().collection_stats(info->ns);
        if (!stats) continue;
        size += static_cast<std::int64_t>(stats->storage_bytes);
        for (const auto& index : stats->indexes) size += static_cast<std::int64_t>(index.size_bytes);
      }
      DocumentBuilder row;
      row.append("name", db).append("sizeOnDisk", size).append("empty", false);
      const OwnedDocument whole = std::move(row).finish();
      MULTIFORA_ASSIGN(const bool wanted, filter.matches(whole.view()));
      if (!wanted) continue;
      total += size;
      if (name_only)
        rows.object().append("name", db);
      else
        rows.append(whole.view());
    }
  }
  if (name_only) return {};
  reply.append("totalSize", total);
  reply.append("totalSizeMb", total / (1024 * 1024));
  return {};
}

Status run_list_indexes(CommandContext& context, const CommandRequest& request,
                        DocumentBuilder& reply) {
  const std::string ns = request.ns();
  const auto info = context.store().info(ns);
  if (!info) return {ErrorCode::kNamespaceNotFound, "ns does not exist: " + ns};
  if (info->is_view)
    return {ErrorCode::kCommandNotSupportedOnView,
            "Namespace " + ns + " is a view, not a collection"};
  MULTIFORA_ASSIGN(std::vector<OwnedDocument> specs, context.store().index_specs(ns));
  if (info->clustered && !specs.empty()) {
    DocumentBuilder clustered;
    clustered.append_all(info->options.view()["clusteredIndex"].as_document());
    clustered.append("clustered", true);
    specs.front() = std::move(clustered).finish();
  }
  return reply_with_cursor(context, request, ns, std::move(specs), reply);
}

}  // namespace

const CommandRow kListCollections{
    .name = "listCollections",
    .aliases = {},
    .help = "Lists the collections and views of a database.",
    .privilege = "listCollections",
    .lock = LockIntent::kRead,
    .flags = kAllowedInStrictApi,
    .options = {{"filter", kOptObject},
                {"nameOnly", kOptBoolish},
                // There are no users: everybody may see everything.
                {"authorizedCollections", kOptBoolish, kNoEffect},
                // Drops are never pending.
                {"includePendingDrops", kOptBoolish, kNoEffect},
                {"cursor", kOptObject}},
    .run = run_list_collections,
};

const CommandRow kListDatabases{
    .name = "listDatabases",
    .aliases = {},
    .help = "Lists the databases with their sizes.",
    .privilege = "listDatabases",
    .lock = LockIntent::kRead,
    .flags = kAdminOnly | kAllowedInStrictApi,
    .options = {{"filter", kOptObject},
                {"nameOnly", kOptBoolish},
                // There are no users: everybody may see everything.
                {"authorizedDatabases", kOptBoolish, kNoEffect}},
    .run = run_list_databases,
};

const CommandRow kListIndexes{
    .name = "listIndexes",
    .aliases = {},
    .help = "Lists the indexes of a collection.",
    .privilege = "listIndexes",
    .lock = LockIntent::kRead,
    .flags = kCollectionName | kAllowedInStrictApi,
    .options = {{"cursor", kOptObject},
                {"includeBuildUUIDs", kOptBool, kUnsupported},
                {"includeIndexBuildInfo", kOptBool, kUnsupported}},
    .run = run_list_indexes,
};

}  // namespace multifora::catalog_commands
