#include "plugins/command-crud/commands.h"

namespace multifora::crud {

Status check_hint(const ValueView& hint) {
  if (hint.missing() || hint.type() == BsonType::kString || hint.type() == BsonType::kObject)
    return {};
  return {ErrorCode::kFailedToParse, "Hint must be a string or an object"};
}

Result<std::unique_ptr<PipelineRun>> open_on_view(CommandContext& context,
                                                  const CommandRequest& request,
                                                  const QueryArguments& arguments,
                                                  const std::vector<OwnedDocument>& stages) {
  PipelineArguments pipeline;
  for (const OwnedDocument& stage : stages) pipeline.stages.push_back(stage.view());
  pipeline.collation = arguments.collation;
  pipeline.hint = arguments.hint;
  pipeline.let = arguments.let;
  pipeline.allow_disk_use = arguments.allow_disk_use;
  return PipelineRun::open(context, request.db(), request.collection(), pipeline);
}

namespace {

Status drain(QueryExecutor& executor, std::uint64_t& returned) {
  Row row;
  while (true) {
    MULTIFORA_ASSIGN(const bool more, executor.next(row));
    if (!more) return {};
    ++returned;
  }
}

OwnedDocument outer_fields(std::string_view stage, std::uint64_t returned) {
  DocumentBuilder fields;
  const auto n = static_cast<std::int64_t>(returned);
  if (stage == "COUNT") {
    fields.append("nCounted", n).append("nSkipped", std::int64_t{0});
  } else if (stage == "UPDATE") {
    fields.append("nMatched", n).append("nWouldModify", n).append("nWouldUpsert", std::int64_t{0});
  } else if (stage == "DELETE") {
    fields.append("nWouldDelete", n);
  }
  return std::move(fields).finish();
}

}  // namespace

Status explain_query(CommandContext& context, const CommandRequest& request, const std::string& ns,
                     std::unique_ptr<CompiledQuery> query, ExplainVerbosity verbosity,
                     std::string_view outer_stage, DocumentBuilder& reply) {
  MULTIFORA_ASSIGN(auto view, context.store().read(ns));
  MULTIFORA_ASSIGN(const auto source, QuerySource::open(std::move(query), std::move(view),
                                                        context.store(), context.interrupt()));
  QueryExplain explain;
  explain.ns = ns;
  explain.query = &source->query();
  explain.executor = source->executor();
  explain.rejected = &source->rejected();
  if (source->view() != nullptr)
    explain.index_filter =
        source->query().index_filter(source->view()->info().id) != nullptr;
  explain.verbosity = verbosity;
  explain.outer_stage = outer_stage;
  if (verbosity != ExplainVerbosity::kQueryPlanner && source->executor() != nullptr) {
    const std::int64_t start = context.host().clock().monotonic_us();
    QueryExecutor& executor = *source->executor();
    const PlanKind kind = executor.plan().kind;
    if (kind == PlanKind::kCountScan || kind == PlanKind::kRecordCount) {
      auto counted = executor.count();
      explain.outcome = counted ? Status() : counted.error();
      explain.returned = counted.value_or(0);
    } else {
      explain.outcome = drain(executor, explain.returned);
    }
    explain.millis = (context.host().clock().monotonic_us() - start) / 1000;
  }
  if (verbosity == ExplainVerbosity::kAllPlansExecution && source->view() != nullptr)
    MULTIFORA_TRY(run_trials(source->query(), *source->view(), context.interrupt(),
                             context.store().temp_directory(), explain));
  if (!outer_stage.empty()) {
    explain.outer_fields = outer_fields(outer_stage, explain.returned);
    explain.returned = 0;
  }
  reply.append("explainVersion", "1");
  append_query_explain(explain, reply);
  append_explain_tail(context, request, reply);
  return {};
}

Status explain_view(CommandContext& context, const CommandRequest& request,
                    const std::vector<OwnedDocument>& stages, ExplainVerbosity verbosity,
                    DocumentBuilder& reply) {
  PipelineArguments pipeline;
  for (const OwnedDocument& stage : stages) pipeline.stages.push_back(stage.view());
  pipeline.collation = request.option("collation");
  pipeline.hint = request.option("hint");
  return explain_pipeline(context, request, request.collection(), pipeline, verbosity, reply);
}

}  // namespace multifora::crud
