// explain of pipelines.
#include "plugins/query-engine/explain.h"
#include "plugins/query-engine/find_source.h"

namespace multifora {
namespace {

Status drain(PipelineRun& run, std::uint64_t& returned) {
  while (true) {
    MULTIFORA_ASSIGN(const auto document, run.next());
    if (!document) return {};
    ++returned;
  }
}

}  // namespace

Status explain_pipeline(CommandContext& context, const CommandRequest& request,
                        std::string_view collection, const PipelineArguments& arguments,
                        ExplainVerbosity verbosity, DocumentBuilder& reply) {
  PipelineArguments wanted = arguments;
  wanted.explain = true;
  MULTIFORA_ASSIGN(const auto run, PipelineRun::open(context, request.db(), collection, wanted));
  QueryExplain explain;
  explain.ns = run->source_ns();
  explain.verbosity = verbosity;
  std::uint64_t returned = 0;
  if (verbosity != ExplainVerbosity::kQueryPlanner && !run->pipeline().writes()) {
    const std::int64_t start = context.host().clock().monotonic_us();
    explain.outcome = drain(*run, returned);
    explain.millis = (context.host().clock().monotonic_us() - start) / 1000;
  }
  if (const QuerySource* source = run->source(); source != nullptr) {
    explain.query = &source->query();
    explain.executor = source->executor();
    explain.rejected = &source->rejected();
    if (source->view() != nullptr) {
      explain.index_filter =
          source->query().index_filter(source->view()->info().id) != nullptr;
      if (verbosity == ExplainVerbosity::kAllPlansExecution)
        MULTIFORA_TRY(run_trials(source->query(), *source->view(), context.interrupt(),
                                 context.store().temp_directory(), explain));
    }
    if (explain.executor != nullptr) explain.returned = explain.executor->root().advanced();
  }
  reply.append("explainVersion", "1");
  if (run->pipeline().empty()) {
    append_query_explain(explain, reply);
  } else {
    ArrayBuilder stages = reply.array("stages");
    if (run->pipeline().needs_source()) {
      DocumentBuilder stage = stages.object();
      DocumentBuilder cursor = stage.object("$cursor");
      append_query_explain(explain, cursor);
      cursor.close();
      if (verbosity != ExplainVerbosity::kQueryPlanner) {
        stage.append("nReturned", static_cast<std::int64_t>(explain.returned));
        stage.append("executionTimeMillisEstimate", std::int64_t{0});
      }
    }
    run->pipeline().append_explain(stages);
  }
  append_explain_tail(context, request, reply);
  return run->detach();
}

}  // namespace multifora
