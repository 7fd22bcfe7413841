// explain: plans and their execution in MongoDB's shape, and the registry through which the explain
// command finds how each command explains itself (commands do not link one another).
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/plugin/command.h"
#include "plugins/query-engine/executor.h"
#include "plugins/query-engine/read_source.h"

namespace multifora {

enum class ExplainVerbosity { kQueryPlanner, kExecutionStats, kAllPlansExecution };

// Appends the reply of explain for `request` (the inner command), without `command` and serverInfo.
using ExplainFunction = Status (*)(CommandContext& context, const CommandRequest& request,
                                   ExplainVerbosity verbosity, DocumentBuilder& reply);

// A service of the PluginHost, filled while plugins register.
class ExplainRegistry {
 public:
  Status add(std::string_view command, ExplainFunction function);
  ExplainFunction find(std::string_view command) const;  // null: cannot be explained

 private:
  std::unordered_map<std::string, ExplainFunction> functions_;
};

// FailedToParse for an unknown one.
Result<ExplainVerbosity> parse_verbosity(const ValueView& value);

// What one query's explain shows.
struct QueryExplain {
  std::string ns;
  const CompiledQuery* query = nullptr;         // null: no filter (a missing collection)
  const QueryExecutor* executor = nullptr;      // null: EOF
  const std::vector<PlanPtr>* rejected = nullptr;
  bool index_filter = false;
  // For kAllPlansExecution: every plan that there was to choose from, after run_trials.
  std::vector<std::unique_ptr<QueryExecutor>> trials;
  ExplainVerbosity verbosity = ExplainVerbosity::kQueryPlanner;
  // A stage above the plan: COUNT, UPDATE, DELETE ... with what it adds to its statistics.
  std::string_view outer_stage;
  OwnedDocument outer_fields;
  // Of the execution.
  std::uint64_t returned = 0;
  std::int64_t millis = 0;
  Status outcome;
};
// Plans `query` anew on `view` and runs each plan for a first batch; nothing where there is only one.
Status run_trials(CompiledQuery& query, CollectionView& view, Interrupt& interrupt,
                  const std::string& temp_directory, QueryExplain& explain);
// queryPlanner and, by the verbosity, executionStats.
void append_query_explain(const QueryExplain& explain, DocumentBuilder& reply);
// The whole reply for an aggregate, or for a read on a view as the pipeline that it comes to.
struct PipelineArguments;
Status explain_pipeline(CommandContext& context, const CommandRequest& request,
                        std::string_view collection, const PipelineArguments& arguments,
                        ExplainVerbosity verbosity, DocumentBuilder& reply);
// command, serverInfo, serverParameters.
void append_explain_tail(CommandContext& context, const CommandRequest& request,
                         DocumentBuilder& reply);

}  // namespace multifora
