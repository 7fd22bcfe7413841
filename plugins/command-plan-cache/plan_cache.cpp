// planCacheClear, planCacheSetFilter, planCacheListFilters, planCacheClearFilters.
#include "core/plugin/plugin.h"

#include "core/store/store.h"
#include "plugins/query-engine/index_filters.h"
#include "plugins/query-engine/read_source.h"

namespace multifora {
namespace {

// The collection's description; null where there is none.
Result<std::shared_ptr<const CollectionInfo>> collection_of(CommandContext& context,
                                                            const CommandRequest& request) {
  auto info = context.store().info(request.ns());
  if (info && info->is_view)
    return fail(ErrorCode::kCommandNotSupportedOnView,
                "Namespace " + request.ns() + " is a view, not a collection");
  return info;
}

Status check_has_query(const CommandRequest& request) {
  if (request.has("query")) return {};
  for (const std::string_view option : {"sort", "projection", "collation"})
    if (request.has(option))
      return {ErrorCode::kBadValue, "sort or projection or collation provided without query"};
  return {};
}

Result<std::unique_ptr<CompiledQuery>> compile(CommandContext& context,
                                               const CollectionInfo* info,
                                               const CommandRequest& request) {
  QueryArguments arguments;
  arguments.filter = request.document("query");
  arguments.sort = request.document("sort");
  arguments.projection = request.document("projection");
  arguments.collation = request.option("collation");
  return CompiledQuery::compile(QueryEnvironment::of(context), info, arguments);
}

std::string shape_of(const CompiledQuery& query) {
  const QueryArguments& arguments = query.arguments();
  return query_shape(query.matcher().root(), arguments.sort, arguments.projection,
                     query.collation_spec());
}

Status plan_cache_clear(CommandContext& context, const CommandRequest& request, DocumentBuilder&) {
  MULTIFORA_TRY(check_has_query(request));
  MULTIFORA_ASSIGN(const auto info, collection_of(context, request));
  if (!info || !request.has("query")) return {};
  return status_of(compile(context, info.get(), request));
}

// Names and patterns out of `indexes`.
Status read_indexes(const CommandRequest& request, IndexFilter& filter) {
  const DocumentView indexes = request.option("indexes").as_document();
  if (indexes.empty())
    return {ErrorCode::kBadValue, "required field indexes must contain at least one index"};
  for (const Element& index : indexes) {
    if (index.type() == BsonType::kString) {
      filter.names.emplace_back(index->as_string());
    } else if (index.type() != BsonType::kObject) {
      return {ErrorCode::kBadValue, "each item in indexes must be an object or string"};
    } else if (index->as_document().empty()) {
      return {ErrorCode::kBadValue, "index specification cannot be empty"};
    } else {
      filter.patterns.emplace_back(index->as_document());
    }
  }
  filter.indexes = OwnedDocument(indexes);
  return {};
}

Status set_filter(CommandContext& context, const CommandRequest& request, DocumentBuilder&) {
  IndexFilter filter;
  MULTIFORA_TRY(read_indexes(request, filter));
  MULTIFORA_ASSIGN(const auto info, collection_of(context, request));
  if (!info) return {ErrorCode::kBadValue, "no such collection"};
  MULTIFORA_ASSIGN(const auto query, compile(context, info.get(), request));
  filter.query = OwnedDocument(request.document("query"));
  filter.sort = OwnedDocument(request.document("sort"));
  filter.projection = OwnedDocument(request.document("projection"));
  filter.collation = OwnedDocument(request.document("collation"));
  context.host().service<IndexFilters>()->set(info->id, shape_of(*query), std::move(filter));
  return {};
}

Status list_filters(CommandContext& context, const CommandRequest& request,
                    DocumentBuilder& reply) {
  MULTIFORA_ASSIGN(const auto info, collection_of(context, request));
  ArrayBuilder filters = reply.array("filters");
  if (!info) return {};
  for (const auto& filter : context.host().service<IndexFilters>()->list(info->id)) {
    DocumentBuilder one = filters.object();
    one.append("query", filter->query.view());
    one.append("sort", filter->sort.view());
    one.append("projection", filter->projection.view());
    if (!filter->collation.view().empty()) one.append("collation", filter->collation.view());
    one.append_array("indexes", filter->indexes.view());
  }
  return {};
}

Status clear_filters(CommandContext& context, const CommandRequest& request, DocumentBuilder&) {
  MULTIFORA_TRY(check_has_query(request));
  MULTIFORA_ASSIGN(const auto info, collection_of(context, request));
  if (!info) return {};
  IndexFilters& filters = *context.host().service<IndexFilters>();
  if (!request.has("query")) {
    filters.clear(info->id);
    return {};
  }
  MULTIFORA_ASSIGN(const auto query, compile(context, info.get(), request));
  filters.clear(info->id, shape_of(*query));
  return {};
}

const std::vector<OptionSpec> kShape = {
    {"query", kOptObject}, {"sort", kOptObject}, {"projection", kOptObject}, {"collation", kOptObject}};

std::vector<OptionSpec> shape_and(OptionSpec option) {
  std::vector<OptionSpec> options = kShape;
  options.push_back(option);
  return options;
}

const CommandRow kClear{
    .name = "planCacheClear",
    .aliases = {},
    .help = "drops cached plans; there are none",
    .privilege = "planCacheWrite",
    .lock = LockIntent::kRead,
    .flags = kCollectionName,
    .options = kShape,
    .run = plan_cache_clear,
};
const CommandRow kSetFilter{
    .name = "planCacheSetFilter",
    .aliases = {},
    .help = "says which indexes queries of one shape may use",
    .privilege = "planCacheIndexFilter",
    .lock = LockIntent::kRead,
    .flags = kCollectionName,
    .options = [] {
      std::vector<OptionSpec> options = shape_and({"indexes", kOptArray, kRequired});
      options.front().flags = kRequired;
      return options;
    }(),
    .run = set_filter,
};
const CommandRow kListFilters{
    .name = "planCacheListFilters",
    .aliases = {},
    .help = "the index filters of a collection",
    .privilege = "planCacheIndexFilter",
    .lock = LockIntent::kRead,
    .flags = kCollectionName,
    .options = {},
    .run = list_filters,
};
const CommandRow kClearFilters{
    .name = "planCacheClearFilters",
    .aliases = {},
    .help = "removes index filters of a collection",
    .privilege = "planCacheIndexFilter",
    .lock = LockIntent::kRead,
    .flags = kCollectionName,
    .options = kShape,
    .run = clear_filters,
};

Status register_plugin(PluginHost& host) {
  if (host.service<IndexFilters>() == nullptr)
    return {ErrorCode::kInternalError,
            "command-plan-cache needs the plugin query-engine loaded first"};
  for (const CommandRow* row : {&kClear, &kSetFilter, &kListFilters, &kClearFilters})
    MULTIFORA_TRY(host.add_command(row));
  return {};
}

}  // namespace
}  // namespace multifora

MULTIFORA_PLUGIN(command_plan_cache, "command-plan-cache", "1.0.0", multifora::register_plugin)
