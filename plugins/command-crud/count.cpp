// count.
#include <algorithm>

#include "plugins/command-crud/commands.h"

namespace multifora::crud {
namespace {

Result<QueryArguments> arguments_of(const CommandRequest& request) {
  QueryArguments arguments;
  MULTIFORA_TRY_R(check_collection_name(request.collection()));
  arguments.filter = request.document("query");
  arguments.hint = hint_of(request.option("hint"));
  MULTIFORA_TRY_R(check_hint(arguments.hint));
  arguments.collation = request.option("collation");
  arguments.skip = request.integer("skip", 0);
  arguments.limit = request.integer("limit", 0);
  if (arguments.limit < 0) {
    if (arguments.limit == std::numeric_limits<std::int64_t>::min())
      return fail(ErrorCode::kBadValue, "limit value for count cannot be min long");
    arguments.limit = -arguments.limit;
  }
  return arguments;
}

std::uint64_t between(std::uint64_t count, const QueryArguments& arguments) {
  const auto skip = static_cast<std::uint64_t>(arguments.skip);
  count = count > skip ? count - skip : 0;
  if (arguments.limit > 0) count = std::min(count, static_cast<std::uint64_t>(arguments.limit));
  return count;
}

void append_n(DocumentBuilder& reply, std::uint64_t n) {
  constexpr std::uint64_t kInt32Max = 0x7fffffff;
  if (n <= kInt32Max)
    reply.append("n", static_cast<std::int32_t>(n));
  else
    reply.append("n", static_cast<std::int64_t>(n));
}

std::vector<OwnedDocument> stages_of(const QueryArguments& arguments) {
  std::vector<OwnedDocument> stages;
  const auto add = [&stages](DocumentBuilder stage) {
    stages.push_back(std::move(stage).finish());
  };
  if (!arguments.filter.empty()) {
    DocumentBuilder match;
    match.append("$match", arguments.filter);
    add(std::move(match));
  }
  if (arguments.skip > 0) {
    DocumentBuilder skip;
    skip.append("$skip", arguments.skip);
    add(std::move(skip));
  }
  if (arguments.limit > 0) {
    DocumentBuilder limit;
    limit.append("$limit", arguments.limit);
    add(std::move(limit));
  }
  DocumentBuilder count;
  count.append("$count", "count");
  add(std::move(count));
  return stages;
}

Status count_view(CommandContext& context, const CommandRequest& request,
                  const QueryArguments& arguments, DocumentBuilder& reply) {
  const auto stages = stages_of(arguments);
  MULTIFORA_ASSIGN(auto run, open_on_view(context, request, arguments, stages));
  MULTIFORA_ASSIGN(const auto document, run->next());
  append_n(reply, document ? static_cast<std::uint64_t>((*document)["count"].number_as_int64()) : 0);
  return run->detach();
}

Result<std::unique_ptr<CompiledQuery>> compile(CommandContext& context, const CollectionInfo* info,
                                               const QueryArguments& arguments) {
  MULTIFORA_ASSIGN_R(auto query, CompiledQuery::compile(QueryEnvironment::of(context), info,
                                                        arguments));
  query->request().count_only = true;
  return query;
}

Status count(CommandContext& context, const CommandRequest& request, DocumentBuilder& reply) {
  MULTIFORA_ASSIGN(const QueryArguments arguments, arguments_of(request));
  MULTIFORA_ASSIGN(auto view, context.store().read(request.ns()));
  if (view && view->info().is_view) {
    view.reset();
    return count_view(context, request, arguments, reply);
  }
  MULTIFORA_ASSIGN(const auto query,
                   compile(context, view ? &view->info() : nullptr, arguments));
  if (!view) {
    append_n(reply, 0);
    return {};
  }
  MULTIFORA_ASSIGN(const auto executor, query->start(*view, context.interrupt(),
                                                     context.store().temp_directory()));
  MULTIFORA_ASSIGN(std::uint64_t n, executor->count());
  const PlanKind kind = executor->plan().kind;
  if (kind == PlanKind::kCountScan || kind == PlanKind::kRecordCount) n = between(n, arguments);
  append_n(reply, n);
  return {};
}

}  // namespace

Status explain_count(CommandContext& context, const CommandRequest& request,
                     ExplainVerbosity verbosity, DocumentBuilder& reply) {
  MULTIFORA_ASSIGN(const QueryArguments arguments, arguments_of(request));
  const auto info = context.store().info(request.ns());
  if (info && info->is_view)
    return explain_view(context, request, stages_of(arguments), verbosity, reply);
  MULTIFORA_ASSIGN(auto query, compile(context, info.get(), arguments));
  return explain_query(context, request, request.ns(), std::move(query), verbosity, "COUNT", reply);
}

const CommandRow kCount{
    .name = "count",
    .aliases = {},
    .help = "counts documents",
    .privilege = "find",
    .lock = LockIntent::kRead,
    .flags = kAcceptsReadConcern | kCollectionName | kAllowedInStrictApi,
    .options =
        {
            {"query", kOptObject},
            {"limit", kOptNumber},
            {"skip", kOptNumber, kNonNegative},
            {"hint", kOptString | kOptObject},
            {"collation", kOptObject},
            // Older drivers send it; documents are only counted.
            {"fields", kOptObject, kNoEffect},
            {"collectionUUID", kOptAny, kUnsupported},
            {"encryptionInformation", kOptAny, kUnsupported},
            // Older drivers' way to send a read preference: one node serves all.
            {"queryOptions", kOptObject, kNoEffect},
        },
    .run = count,
};

}  // namespace multifora::crud
