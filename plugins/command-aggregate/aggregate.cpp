#include "plugins/command-aggregate/aggregate.h"

#include "core/base/limits.h"
#include "plugins/query-engine/find_source.h"
#include "plugins/query-engine/read_source.h"

namespace multifora {
namespace {

// The collection's name; empty for {aggregate: 1}.
Result<std::string_view> collection_of(const CommandRequest& request) {
  const ValueView target = request.target();
  if (target.type() == BsonType::kString) {
    MULTIFORA_TRY_R(check_collection_name(target.as_string()));
    return target.as_string();
  }
  if (!target.is_number())
    return fail(ErrorCode::kFailedToParse,
                "collection name has invalid type " + std::string(type_name(target.type())));
  if (target.number_as_double() != 1)
    return fail(ErrorCode::kFailedToParse,
                "Invalid command format: the 'aggregate' field must specify a collection name or 1");
  return std::string_view();
}

Result<PipelineArguments> arguments_of(const CommandRequest& request) {
  PipelineArguments arguments;
  for (const Element& stage : request.document("pipeline")) {
    if (stage.type() != BsonType::kObject)
      return fail(ErrorCode::kTypeMismatch,
                  "Each element of the 'pipeline' array must be an object");
    arguments.stages.push_back(stage->as_document());
  }
  arguments.collation = request.option("collation");
  arguments.hint = hint_of(request.option("hint"));
  arguments.let = request.document("let");
  arguments.allow_disk_use = request.flag("allowDiskUse", true);
  arguments.bypass_validation = request.flag("bypassDocumentValidation", false);
  return arguments;
}

Result<BatchLimits> batch_of(const CommandRequest& request) {
  if (!request.has("cursor"))
    return fail(ErrorCode::kFailedToParse,
                "The 'cursor' option is required, except for aggregate with the explain argument");
  return read_cursor_option(request, limits::kCursorBatchFirstDocuments);
}

Status check_read_level(const CommandRequest& request) {
  const ValueView level = request.document("readConcern")["level"];
  if (level.type() != BsonType::kString || level.as_string() != "linearizable") return {};
  return {ErrorCode::kInvalidOptions,
          "$out and $merge cannot be used with a 'linearizable' read concern level"};
}

Status aggregate(CommandContext& context, const CommandRequest& request, DocumentBuilder& reply) {
  if (request.flag("explain", false))
    return explain_aggregate(context, request, ExplainVerbosity::kQueryPlanner, reply);
  MULTIFORA_ASSIGN(const std::string_view collection, collection_of(request));
  MULTIFORA_ASSIGN(const BatchLimits batch, batch_of(request));
  MULTIFORA_ASSIGN(const PipelineArguments arguments, arguments_of(request));
  MULTIFORA_ASSIGN(auto run, PipelineRun::open(context, request.db(), collection, arguments));
  const std::string ns = std::string(request.db()) + "." +
                         (collection.empty() ? "$cmd.aggregate" : std::string(collection));
  if (run->pipeline().writes()) {
    if (context.transaction() != nullptr)
      return {ErrorCode::kOperationNotSupportedInTransaction,
              "Operation not permitted in transaction :: caused by :: Aggregation stages $out and "
              "$merge cannot run within a multi-document transaction"};
    MULTIFORA_TRY(check_read_level(request));
    MULTIFORA_TRY(status_of(run->next()));
    reply_empty_cursor(context, ns, reply);
    return run->detach();
  }
  auto open = std::make_unique<OpenCursor>();
  open->ns = ns;
  open->cursor = make_pipeline_cursor(std::move(run));
  return reply_first_batch(context, std::move(open), batch, false, reply);
}

}  // namespace

Status explain_aggregate(CommandContext& context, const CommandRequest& request,
                         ExplainVerbosity verbosity, DocumentBuilder& reply) {
  MULTIFORA_ASSIGN(const std::string_view collection, collection_of(request));
  MULTIFORA_ASSIGN(const PipelineArguments arguments, arguments_of(request));
  return explain_pipeline(context, request, collection, arguments, verbosity, reply);
}

const CommandRow kAggregate{
    .name = "aggregate",
    .aliases = {},
    .help = "runs a pipeline of stages over documents",
    .privilege = "find",
    .lock = LockIntent::kRead,
    .flags = kAllowedInTransaction | kAcceptsReadConcern | kAcceptsWriteConcern |
             kAllowedInStrictApi,
    .options =
        {
            {"pipeline", kOptArray, kRequired},
            {"cursor", kOptObject},
            {"explain", kOptBool},
            {"allowDiskUse", kOptBool},
            {"bypassDocumentValidation", kOptBoolish},
            {"collation", kOptObject},
            {"hint", kOptString | kOptObject},
            {"let", kOptObject},
            {"collectionUUID", kOptAny, kUnsupported},
            {"encryptionInformation", kOptAny, kUnsupported},
            {"exchange", kOptAny, kUnsupported},
            {"fromMongos", kOptBool, kUnsupported},
            {"fromRouter", kOptBool, kUnsupported},
            {"needsMerge", kOptBool, kUnsupported},
            {"isMapReduceCommand", kOptBool, kUnsupported},
            {"legacyRuntimeConstants", kOptAny, kUnsupported},
            {"requestReshardingResumeToken", kOptAny, kUnsupported},
            {"requestResumeToken", kOptAny, kUnsupported},
            {"includeQueryStatsMetrics", kOptAny, kUnsupported},
            {"querySettings", kOptAny, kUnsupported},
        },
    .run = aggregate,
};

}  // namespace multifora
