// find.
#include "core/base/limits.h"
#include "plugins/command-crud/commands.h"

namespace multifora::crud {
namespace {

QueryArguments arguments_of(const CommandRequest& request) {
  QueryArguments arguments;
  arguments.filter = request.document("filter");
  arguments.sort = request.document("sort");
  arguments.projection = request.document("projection");
  arguments.let = request.document("let");
  arguments.min = request.document("min");
  arguments.max = request.document("max");
  arguments.hint = hint_of(request.option("hint"));
  arguments.collation = request.option("collation");
  arguments.skip = request.integer("skip", 0);
  arguments.limit = request.integer("limit", 0);
  arguments.return_key = request.flag("returnKey", false);
  arguments.show_record_id = request.flag("showRecordId", false);
  arguments.tailable = request.flag("tailable", false);
  arguments.await_data = request.flag("awaitData", false);
  arguments.allow_disk_use = request.flag("allowDiskUse", true);
  return arguments;
}

Status check_natural(const QueryArguments& arguments) {
  const ValueView sort = arguments.sort["$natural"];
  if (sort.missing() || arguments.hint.missing()) return {};
  if (arguments.hint.type() == BsonType::kObject) {
    const ValueView hint = arguments.hint.as_document()["$natural"];
    if (!hint.missing()) return {};
  }
  return {ErrorCode::kBadValue,
          "Cannot use a $natural sort together with a hint that is not $natural"};
}

Status check_tailable(const QueryArguments& arguments, bool single_batch) {
  if (!arguments.tailable) {
    if (arguments.await_data)
      return {ErrorCode::kFailedToParse, "Cannot set 'awaitData' without also setting 'tailable'"};
    return {};
  }
  if (single_batch)
    return {ErrorCode::kFailedToParse, "cannot use tailable option with the 'singleBatch' option"};
  if (arguments.sort.empty()) return {};
  const ValueView natural = arguments.sort["$natural"];
  if (!natural.missing() && natural.number_as_double() == 1) return {};
  return {ErrorCode::kBadValue,
          "cannot use tailable option with a sort other than {$natural: 1}"};
}

Status check_arguments(const QueryArguments& arguments, const CommandRequest& request) {
  MULTIFORA_TRY(check_collection_name(request.collection()));
  MULTIFORA_TRY(check_hint(arguments.hint));
  MULTIFORA_TRY(check_natural(arguments));
  return check_tailable(arguments, request.flag("singleBatch", false));
}

BatchLimits limits_of(const CommandRequest& request) {
  BatchLimits batch;
  batch.documents = request.integer("batchSize", limits::kCursorBatchFirstDocuments);
  return batch;
}

OwnedDocument stage(std::string_view name, const ValueView& value) {
  DocumentBuilder document;
  document.append(name, value);
  return std::move(document).finish();
}
OwnedDocument stage(std::string_view name, std::int64_t value) {
  DocumentBuilder document;
  document.append(name, value);
  return std::move(document).finish();
}

// A find on a view, as the pipeline that it comes to.
Result<std::vector<OwnedDocument>> stages_of(const QueryArguments& arguments) {
  const auto unsupported = [](std::string_view option) {
    return fail(ErrorCode::kInvalidPipelineOperator,
                "Option " + std::string(option) + " not supported in aggregation.");
  };
  if (!arguments.min.empty()) return unsupported("min");
  if (!arguments.max.empty()) return unsupported("max");
  if (arguments.return_key) return unsupported("returnKey");
  if (arguments.show_record_id) return unsupported("showRecordId");
  if (arguments.tailable) return unsupported("tailable");
  if (!arguments.sort["$natural"].missing()) return unsupported("$natural");
  std::vector<OwnedDocument> stages;
  if (!arguments.filter.empty()) stages.push_back(stage("$match", as_value(arguments.filter)));
  if (!arguments.sort.empty()) stages.push_back(stage("$sort", as_value(arguments.sort)));
  if (arguments.skip > 0) stages.push_back(stage("$skip", arguments.skip));
  if (arguments.limit > 0) stages.push_back(stage("$limit", arguments.limit));
  if (!arguments.projection.empty())
    stages.push_back(stage("$project", as_value(arguments.projection)));
  return stages;
}

std::unique_ptr<OpenCursor> open_cursor(const CommandRequest& request,
                                        std::unique_ptr<ClientCursor> cursor) {
  auto open = std::make_unique<OpenCursor>();
  open->ns = request.ns();
  open->cursor = std::move(cursor);
  open->no_timeout = request.flag("noCursorTimeout", false);
  return open;
}

Status find_on_view(CommandContext& context, const CommandRequest& request,
                    const QueryArguments& arguments, DocumentBuilder& reply) {
  MULTIFORA_ASSIGN(const auto stages, stages_of(arguments));
  MULTIFORA_ASSIGN(auto run, open_on_view(context, request, arguments, stages));
  return reply_first_batch(context, open_cursor(request, make_pipeline_cursor(std::move(run))),
                           limits_of(request), request.flag("singleBatch", false), reply);
}

Status find(CommandContext& context, const CommandRequest& request, DocumentBuilder& reply) {
  const QueryArguments arguments = arguments_of(request);
  MULTIFORA_TRY(check_arguments(arguments, request));
  const std::string ns = request.ns();
  MULTIFORA_ASSIGN(auto view, context.store().read(ns));
  if (view && view->info().is_view) {
    view.reset();
    return find_on_view(context, request, arguments, reply);
  }
  MULTIFORA_ASSIGN(auto query, CompiledQuery::compile(QueryEnvironment::of(context),
                                                      view ? &view->info() : nullptr, arguments));
  if (!view) {
    reply_empty_cursor(context, ns, reply);
    return {};
  }
  if (arguments.tailable && !view->info().capped)
    return {ErrorCode::kBadValue, "error processing query: ns=" + ns +
                                      " tailable cursor requested on non capped collection"};
  MULTIFORA_ASSIGN(auto source, QuerySource::open(std::move(query), std::move(view),
                                                  context.store(), context.interrupt()));
  return reply_first_batch(context, open_cursor(request, make_query_cursor(std::move(source))),
                           limits_of(request), request.flag("singleBatch", false), reply);
}

}  // namespace

Status explain_find(CommandContext& context, const CommandRequest& request,
                    ExplainVerbosity verbosity, DocumentBuilder& reply) {
  const QueryArguments arguments = arguments_of(request);
  MULTIFORA_TRY(check_arguments(arguments, request));
  const std::string ns = request.ns();
  const auto info = context.store().info(ns);
  if (info && info->is_view) {
    MULTIFORA_ASSIGN(const auto stages, stages_of(arguments));
    return explain_view(context, request, stages, verbosity, reply);
  }
  MULTIFORA_ASSIGN(auto query, CompiledQuery::compile(QueryEnvironment::of(context), info.get(),
                                                      arguments));
  return explain_query(context, request, ns, std::move(query), verbosity, "", reply);
}

const CommandRow kFind{
    .name = "find",
    .aliases = {},
    .help = "query for documents",
    .privilege = "find",
    .lock = LockIntent::kRead,
    .flags = kAllowedInTransaction | kAcceptsReadConcern | kCollectionName | kAllowedInStrictApi,
    .options =
        {
            {"filter", kOptObject},
            {"projection", kOptObject},
            {"sort", kOptObject},
            {"hint", kOptString | kOptObject},
            {"skip", kOptNumber, kNonNegative},
            {"limit", kOptNumber, kNonNegative},
            {"batchSize", kOptNumber, kNonNegative},
            {"ntoreturn", kOptAny, kUnsupported},
            {"singleBatch", kOptBool},
            {"allowDiskUse", kOptBool},
            {"min", kOptObject},
            {"max", kOptObject},
            {"returnKey", kOptBool},
            {"showRecordId", kOptBool},
            {"tailable", kOptBool},
            {"awaitData", kOptBool},
            // Deprecated; MongoDB ignores it too since 4.4.
            {"oplogReplay", kOptBool, kNoEffect},
            {"noCursorTimeout", kOptBool},
            // There are no shards that could be down.
            {"allowPartialResults", kOptBool, kNoEffect},
            {"collation", kOptObject},
            {"let", kOptObject},
            {"collectionUUID", kOptAny, kUnsupported},
            {"resumeAfter", kOptAny, kUnsupported},
            {"startAt", kOptAny, kUnsupported},
            {"requestResumeToken", kOptAny, kUnsupported},
            {"encryptionInformation", kOptAny, kUnsupported},
            {"includeQueryStatsMetrics", kOptAny, kUnsupported},
            {"querySettings", kOptAny, kUnsupported},
            {"legacyRuntimeConstants", kOptAny, kUnsupported},
            {"term", kOptAny, kUnsupported},
        },
    .run = find,
};

}  // namespace multifora::crud
