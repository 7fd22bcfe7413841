// dbStats, collStats and dataSize.
#include "core/bson/compare.h"
#include "core/store/store.h"
#include "plugins/command-diagnostic/commands.h"

namespace multifora::diagnostic_commands {
namespace {

// Sizes are divided by `scale` and cut, as MongoDB does.
Result<std::int64_t> scale_of(const CommandRequest& request) {
  const std::int64_t scale = request.integer("scale", 1);
  if (scale < 1)
    return fail(ErrorCode::kBadValue, "BSON field 'scale' value must be >= 1, actual value '" +
                                          std::to_string(scale) + "'");
  return scale;
}

std::int64_t scaled(std::uint64_t bytes, std::int64_t scale) {
  return static_cast<std::int64_t>(bytes) / scale;
}

Status run_db_stats(CommandContext& context, const CommandRequest& request,
                    DocumentBuilder& reply) {
  MULTIFORA_TRY(check_database_name(request.db()));
  MULTIFORA_ASSIGN(const std::int64_t scale, scale_of(request));
  std::int64_t collections = 0, views = 0, objects = 0, indexes = 0;
  std::uint64_t data = 0, storage = 0, index_size = 0, free = 0;
  for (const auto& info : context.store().collections(request.db())) {
    if (info->is_view) {
      ++views;
      continue;
    }
    const auto stats = context.store().collection_stats(info->ns);
    if (!stats) continue;  // dropped meanwhile
    ++collections;
    objects += static_cast<std::int64_t>(stats->count);
    indexes += static_cast<std::int64_t>(stats->indexes.size());
    data += stats->data_bytes;
    storage += stats->storage_bytes;
    free += stats->free_bytes;
    for (const auto& index : stats->indexes) index_size += index.size_bytes;
  }
  const StoreStats whole = context.store().stats();
  reply.append("db", request.db());
  reply.append("collections", collections);
  reply.append("views", views);
  reply.append("objects", objects);
  reply.append("avgObjSize", objects == 0 ? 0.0 : static_cast<double>(data) / static_cast<double>(objects));
  reply.append("dataSize", static_cast<double>(scaled(data, scale)));
  reply.append("storageSize", static_cast<double>(scaled(storage, scale)));
  reply.append("indexes", indexes);
  reply.append("indexSize", static_cast<double>(scaled(index_size, scale)));
  reply.append("totalSize", static_cast<double>(scaled(storage + index_size, scale)));
  reply.append("scaleFactor", static_cast<double>(scale));
  reply.append("fsUsedSize", static_cast<double>(scaled(whole.data_allocated_bytes, scale)));
  if (request.flag("freeStorage", false))
    // Of these collections' chunks. Free chunks of the file belong to no database.
    reply.append("freeStorageSize", static_cast<double>(scaled(free, scale)));
  return {};
}

Status run_coll_stats(CommandContext& context, const CommandRequest& request,
                      DocumentBuilder& reply) {
  const std::string ns = request.ns();
  MULTIFORA_ASSIGN(const std::int64_t scale, scale_of(request));
  const auto info = context.store().info(ns);
  if (info && info->is_view)
    return {ErrorCode::kCommandNotSupportedOnView,
            "Namespace " + ns + " is a view, not a collection"};
  Store::CollectionStats stats;
  if (info) {
    MULTIFORA_ASSIGN(stats, context.store().collection_stats(ns));
  }
  std::uint64_t index_size = 0;
  for (const auto& index : stats.indexes) index_size += index.size_bytes;
  reply.append("ns", ns);
  reply.append("size", scaled(stats.data_bytes, scale));
  reply.append("count", static_cast<std::int64_t>(stats.count));
  if (stats.count > 0)
    reply.append("avgObjSize", static_cast<std::int64_t>(stats.data_bytes / stats.count));
  reply.append("numOrphanDocs", 0);
  reply.append("storageSize", scaled(stats.storage_bytes, scale));
  reply.append("freeStorageSize", scaled(stats.free_bytes, scale));
  reply.append("capped", info && info->capped);
  if (info && info->capped) {
    reply.append("max", info->capped_count_max);
    reply.append("maxSize", info->capped_size_bytes / scale);
  }
  reply.append("nindexes", static_cast<std::int32_t>(stats.indexes.size()));
  {
    auto sizes = reply.object("indexSizes");
    for (const auto& index : stats.indexes) sizes.append(index.name, scaled(index.size_bytes, scale));
  }
  reply.array("indexBuilds");
  reply.append("totalIndexSize", scaled(index_size, scale));
  reply.append("totalSize", scaled(stats.storage_bytes + index_size, scale));
  reply.append("scaleFactor", static_cast<std::int32_t>(scale));
  return {};
}

Status run_data_size(CommandContext& context, const CommandRequest& request,
                     DocumentBuilder& reply) {
  const std::string ns(request.target().as_string());
  std::uint64_t size = 0, count = 0;
  if (context.store().info(ns)) {
    MULTIFORA_ASSIGN(const auto stats, context.store().collection_stats(ns));
    size = stats.data_bytes;
    count = stats.count;
  }
  reply.append("estimate", request.flag("estimate", false));
  reply.append("size", static_cast<std::int64_t>(size));
  reply.append("numObjects", static_cast<std::int64_t>(count));
  reply.append("millis", 0);
  return {};
}

}  // namespace

const CommandRow kDbStats{.name = "dbStats",
                          .aliases = {"dbstats"},
                          .help = "Sizes and counts of a database.",
                          .privilege = "dbStats",
                          .lock = LockIntent::kRead,
                          .flags = 0,
                          .options = {{"scale", kOptNumber}, {"freeStorage", kOptBoolish}},
                          .run = run_db_stats};
const CommandRow kCollStats{.name = "collStats",
                            .aliases = {"collstats"},
                            .help = "Sizes and counts of a collection.",
                            .privilege = "collStats",
                            .lock = LockIntent::kRead,
                            .flags = kCollectionName,
                            .options = {{"scale", kOptNumber},
                                        // Deprecated: there is nothing that only it shows.
                                        {"verbose", kOptBoolish, kNoEffect},
                                        // The lock is held for milliseconds at most.
                                        {"waitForLock", kOptBoolish, kNoEffect},
                                        {"numericOnly", kOptBoolish, kUnsupported}},
                            .run = run_coll_stats};
const CommandRow kDataSize{.name = "dataSize",
                           .aliases = {"datasize"},
                           .help = "Size of a collection's documents.",
                           .privilege = "find",
                           .lock = LockIntent::kRead,
                           .flags = kCollectionName,
                           .options = {{"keyPattern", kOptObject, kUnsupported},
                                       {"min", kOptObject, kUnsupported},
                                       {"max", kOptObject, kUnsupported},
                                       {"estimate", kOptBoolish}},
                           .run = run_data_size};

}  // namespace multifora::diagnostic_commands
