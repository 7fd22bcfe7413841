#include "plugins/query-engine/explain.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "core/base/version.h"
#include "core/bson/extended_json.h"

namespace multifora {
namespace {

std::string_view stage_name(const PlanNode& plan) {
  switch (plan.kind) {
    case PlanKind::kEof:
      return "EOF";
    case PlanKind::kCollScan:
      return "COLLSCAN";
    case PlanKind::kIndexScan:
      return "IXSCAN";
    case PlanKind::kCountScan:
      return "COUNT_SCAN";
    case PlanKind::kRecordCount:
      return "RECORD_STORE_FAST_COUNT";
    case PlanKind::kDistinctScan:
      return "DISTINCT_SCAN";
    case PlanKind::kExpressId:
    case PlanKind::kExpressIndex:
      return "EXPRESS_IXSCAN";
    case PlanKind::kFetch:
      return "FETCH";
    case PlanKind::kMerge:
      return "SORT_MERGE";
    case PlanKind::kOr:
      return "OR";
    case PlanKind::kSort:
      return "SORT";
    case PlanKind::kSkip:
      return "SKIP";
    case PlanKind::kLimit:
      return "LIMIT";
    case PlanKind::kProjection:
      return plan.projection->simple_inclusion() ? "PROJECTION_SIMPLE" : "PROJECTION_DEFAULT";
    case PlanKind::kProjectionCovered:
      return "PROJECTION_COVERED";
    case PlanKind::kReturnKey:
      return "RETURN_KEY";
    case PlanKind::kRecordId:
      return "RECORD_ID";
  }
  return "UNKNOWN";
}

void append_filter(const std::vector<const MatchNode*>& filter, DocumentBuilder& out) {
  if (filter.empty()) return;
  DocumentBuilder shown = out.object("filter");
  if (filter.size() == 1) {
    filter[0]->append_to(shown);
    return;
  }
  ArrayBuilder all = shown.array("$and");
  for (const MatchNode* node : filter) {
    DocumentBuilder one = all.object();
    node->append_to(one);
  }
}

void append_bounds(const PlanNode& plan, DocumentBuilder& out) {
  DocumentBuilder shown = out.object("indexBounds");
  std::size_t field = 0;
  for (const Element& part : plan.key_pattern.view()) {
    const bool descending = part->is_number() && part->number_as_double() < 0;
    const bool reversed = descending != plan.backward;
    ArrayBuilder intervals = shown.array(part.name());
    const auto& bounds = plan.bounds[field++].intervals;
    for (std::size_t i = 0; i < bounds.size(); ++i)
      intervals.append(interval_text(bounds[reversed ? bounds.size() - 1 - i : i], reversed));
  }
}

void append_index(const PlanNode& plan, DocumentBuilder& out) {
  const DocumentView spec = plan.index_spec.view();
  const DocumentView key = plan.key_pattern.view();
  out.append("keyPattern", key);
  out.append("indexName", plan.index_name);
  if (spec["collation"].type() == BsonType::kObject)
    out.append("collation", spec["collation"].as_document());
  out.append("isMultiKey", plan.multikey_fields != 0);
  {
    DocumentBuilder paths = out.object("multiKeyPaths");
    std::size_t field = 0;
    for (const Element& part : key) {
      ArrayBuilder array = paths.array(part.name());
      if ((plan.multikey_fields >> std::min<std::size_t>(field++, 63) & 1) != 0)
        array.append(part.name());
    }
  }
  const bool is_id = plan.index_name == "_id_";
  out.append("isUnique", is_id || spec["unique"].truthy());
  // An index that serves many paths has entries only where they exist.
  const bool of_paths = key.bytes() != spec["key"].as_document().bytes();
  out.append("isSparse", of_paths || spec["sparse"].truthy());
  out.append("isPartial", !spec["partialFilterExpression"].missing());
  out.append("indexVersion", std::int32_t{2});
  out.append("direction", plan.backward ? "backward" : "forward");
  if (!plan.fixed_range) append_bounds(plan, out);
}

// What the planner decided about one stage, without its children.
void append_decision(const PlanNode& plan, DocumentBuilder& out) {
  switch (plan.kind) {
    case PlanKind::kCollScan:
      append_filter(plan.filter, out);
      out.append("direction", plan.backward ? "backward" : "forward");
      break;
    case PlanKind::kFetch:
      append_filter(plan.filter, out);
      break;
    case PlanKind::kIndexScan:
    case PlanKind::kCountScan:
    case PlanKind::kDistinctScan:
      append_index(plan, out);
      break;
    case PlanKind::kExpressId:
    case PlanKind::kExpressIndex:
      out.append("keyPattern", to_extended_json(plan.index_spec.view()["key"].as_document()));
      out.append("indexName", plan.index_name);
      break;
    case PlanKind::kSort:
      out.append("sortPattern", plan.sort->spec());
      out.append("memLimit", std::int32_t{104857600});
      if (plan.sort_limit > 0) out.append("limitAmount", plan.sort_limit);
      out.append("type", "simple");
      break;
    case PlanKind::kMerge:
      out.append("sortPattern", plan.sort->spec());
      break;
    case PlanKind::kSkip:
      out.append("skipAmount", plan.number);
      break;
    case PlanKind::kLimit:
      out.append("limitAmount", plan.number);
      break;
    case PlanKind::kProjection:
    case PlanKind::kProjectionCovered:
      plan.projection->append_to(out, "transformBy");
      break;
    default:
      break;
  }
}

void append_plan_fields(const PlanNode& plan, DocumentBuilder& out) {
  out.append("stage", stage_name(plan));
  append_decision(plan, out);
  if (plan.children.size() == 1) {
    DocumentBuilder input = out.object("inputStage");
    append_plan_fields(*plan.children[0], input);
  } else if (!plan.children.empty()) {
    ArrayBuilder inputs = out.array("inputStages");
    for (const PlanPtr& child : plan.children) {
      DocumentBuilder input = inputs.object();
      append_plan_fields(*child, input);
    }
  }
}

std::int64_t as_int(std::uint64_t n) { return static_cast<std::int64_t>(n); }

void append_count(DocumentBuilder& out, std::string_view name, std::uint64_t n) {
  if (n <= 0x7fffffff)
    out.append(name, static_cast<std::int32_t>(n));
  else
    out.append(name, as_int(n));
}

void append_works(DocumentBuilder& out, std::uint64_t returned, std::uint64_t works, bool eof) {
  append_count(out, "nReturned", returned);
  out.append("executionTimeMillisEstimate", std::int32_t{0});
  append_count(out, "works", works);
  append_count(out, "advanced", returned);
  append_count(out, "needTime", works > returned ? works - returned : 0);
  out.append("needYield", std::int32_t{0});
  out.append("saveState", std::int32_t{0});
  out.append("restoreState", std::int32_t{0});
  out.append("isEOF", std::int32_t{eof ? 1 : 0});
}

void append_stats_fields(const ExecStage& stage, DocumentBuilder& out) {
  const PlanNode& plan = stage.plan();
  out.append("stage", stage_name(plan));
  if (plan.kind == PlanKind::kCollScan || plan.kind == PlanKind::kFetch)
    append_filter(plan.filter, out);
  append_works(out, stage.advanced(), stage.works(), stage.exhausted());
  switch (plan.kind) {
    case PlanKind::kCollScan:
      out.append("direction", plan.backward ? "backward" : "forward");
      append_count(out, "docsExamined", stage.docs_examined());
      break;
    case PlanKind::kFetch:
      append_count(out, "docsExamined", stage.docs_examined());
      out.append("alreadyHasObj", std::int32_t{0});
      break;
    case PlanKind::kIndexScan:
    case PlanKind::kCountScan:
    case PlanKind::kDistinctScan:
      append_index(plan, out);
      append_count(out, "keysExamined", stage.keys_examined());
      append_count(out, "seeks", stage.seeks());
      out.append("dupsTested", std::int32_t{0});
      out.append("dupsDropped", std::int32_t{0});
      break;
    case PlanKind::kExpressId:
    case PlanKind::kExpressIndex:
      append_decision(plan, out);
      append_count(out, "keysExamined", stage.keys_examined());
      append_count(out, "docsExamined", stage.docs_examined());
      break;
    case PlanKind::kSort:
      append_decision(plan, out);
      append_count(out, "totalDataSizeSorted", stage.memory_bytes());
      out.append("usedDisk", stage.spills() > 0);
      append_count(out, "spills", stage.spills());
      break;
    default:
      append_decision(plan, out);
      break;
  }
  if (stage.children().size() == 1) {
    DocumentBuilder input = out.object("inputStage");
    append_stats_fields(*stage.children()[0], input);
  } else if (!stage.children().empty()) {
    ArrayBuilder inputs = out.array("inputStages");
    for (const auto& child : stage.children()) {
      DocumentBuilder input = inputs.object();
      append_stats_fields(*child, input);
    }
  }
}

void sum_examined(const ExecStage& stage, std::uint64_t& keys, std::uint64_t& docs) {
  keys += stage.keys_examined();
  docs += stage.docs_examined();
  for (const auto& child : stage.children()) sum_examined(*child, keys, docs);
}

void append_winning_plan(const QueryExplain& explain, DocumentBuilder& out) {
  DocumentBuilder plan = out.object("winningPlan");
  plan.append("isCached", false);
  if (explain.outer_stage.empty()) {
    if (explain.executor == nullptr)
      plan.append("stage", "EOF");
    else
      append_plan_fields(explain.executor->plan(), plan);
    return;
  }
  plan.append("stage", explain.outer_stage);
  DocumentBuilder input = plan.object("inputStage");
  if (explain.executor == nullptr)
    input.append("stage", "EOF");
  else
    append_plan_fields(explain.executor->plan(), input);
}

void append_execution_stages(const QueryExplain& explain, DocumentBuilder& out) {
  DocumentBuilder stages = out.object("executionStages");
  stages.append("isCached", false);
  const auto input_stage = [&](DocumentBuilder& into) {
    if (explain.executor == nullptr) {
      into.append("stage", "EOF");
      append_works(into, 0, 1, true);
    } else {
      append_stats_fields(explain.executor->root(), into);
    }
  };
  if (explain.outer_stage.empty()) {
    input_stage(stages);
    return;
  }
  stages.append("stage", explain.outer_stage);
  append_works(stages, explain.returned, explain.returned + 1, true);
  stages.append_all(explain.outer_fields.view());
  DocumentBuilder input = stages.object("inputStage");
  input_stage(input);
}

// One of the plans that were to choose from, run for a while.
void append_trial(const QueryExecutor& trial, ArrayBuilder& out) {
  std::uint64_t keys = 0, docs = 0;
  sum_examined(trial.root(), keys, docs);
  DocumentBuilder stats = out.object();
  append_count(stats, "nReturned", trial.root().advanced());
  stats.append("executionTimeMillisEstimate", std::int32_t{0});
  append_count(stats, "totalKeysExamined", keys);
  append_count(stats, "totalDocsExamined", docs);
  stats.append("score", trial.root().works() == 0
                            ? 1.0
                            : 1.0 + static_cast<double>(trial.root().advanced()) /
                                        static_cast<double>(trial.root().works()));
  DocumentBuilder stages = stats.object("executionStages");
  append_stats_fields(trial.root(), stages);
}

}  // namespace

Status ExplainRegistry::add(std::string_view command, ExplainFunction function) {
  if (!functions_.emplace(command, function).second)
    return {ErrorCode::kInternalError,
            "two plugins explain the command " + std::string(command)};
  return {};
}

ExplainFunction ExplainRegistry::find(std::string_view command) const {
  const auto at = functions_.find(std::string(command));
  return at == functions_.end() ? nullptr : at->second;
}

Result<ExplainVerbosity> parse_verbosity(const ValueView& value) {
  if (value.missing()) return ExplainVerbosity::kAllPlansExecution;
  const std::string_view text =
      value.type() == BsonType::kString ? value.as_string() : std::string_view();
  if (text == "queryPlanner") return ExplainVerbosity::kQueryPlanner;
  if (text == "executionStats") return ExplainVerbosity::kExecutionStats;
  if (text == "allPlansExecution") return ExplainVerbosity::kAllPlansExecution;
  return fail(ErrorCode::kBadValue, "Enumeration value '" + std::string(text) +
                                        "' for field 'explain.verbosity' is not a valid value.");
}

Status run_trials(CompiledQuery& query, CollectionView& view, Interrupt& interrupt,
                  const std::string& temp_directory, QueryExplain& explain) {
  constexpr std::uint64_t kRowsMax = 101;
  constexpr std::uint64_t kWorksMax = 10'000;
  MULTIFORA_ASSIGN(PlannedQuery planned, query.plan(view));
  if (planned.rejected.empty()) return {};
  std::vector<PlanPtr> plans;
  plans.push_back(std::move(planned.plan));
  for (PlanPtr& other : planned.rejected) plans.push_back(std::move(other));
  for (PlanPtr& plan : plans) {
    auto trial = query.execute(std::move(plan), view, interrupt, temp_directory);
    Row row;
    while (trial->root().advanced() < kRowsMax && trial->root().works() < kWorksMax) {
      MULTIFORA_ASSIGN(const bool more, trial->next(row));
      if (!more) break;
    }
    explain.trials.push_back(std::move(trial));
  }
  return {};
}

void append_query_explain(const QueryExplain& explain, DocumentBuilder& reply) {
  {
    DocumentBuilder planner = reply.object("queryPlanner");
    planner.append("namespace", explain.ns);
    if (explain.query != nullptr)
      explain.query->matcher().append_parsed(planner, "parsedQuery");
    else
      planner.append("parsedQuery", DocumentView());
    planner.append("indexFilterSet", explain.index_filter);
    planner.append("optimizationTimeMillis", std::int32_t{0});
    planner.append("maxIndexedOrSolutionsReached", false);
    planner.append("maxIndexedAndSolutionsReached", false);
    planner.append("maxScansToExplodeReached", false);
    planner.append("prunedSimilarIndexes", false);
    append_winning_plan(explain, planner);
    ArrayBuilder rejected = planner.array("rejectedPlans");
    if (explain.rejected != nullptr)
      for (const PlanPtr& plan : *explain.rejected) {
        DocumentBuilder shown = rejected.object();
        shown.append("isCached", false);
        append_plan_fields(*plan, shown);
      }
  }
  if (explain.verbosity == ExplainVerbosity::kQueryPlanner) return;
  DocumentBuilder stats = reply.object("executionStats");
  std::uint64_t keys = 0, docs = 0;
  if (explain.executor != nullptr) sum_examined(explain.executor->root(), keys, docs);
  stats.append("executionSuccess", explain.outcome.ok());
  if (!explain.outcome.ok()) {
    stats.append("errorMessage", explain.outcome.message());
    stats.append("errorCode", static_cast<std::int32_t>(explain.outcome.code()));
  }
  append_count(stats, "nReturned", explain.returned);
  append_count(stats, "executionTimeMillis", static_cast<std::uint64_t>(explain.millis));
  append_count(stats, "totalKeysExamined", keys);
  append_count(stats, "totalDocsExamined", docs);
  append_execution_stages(explain, stats);
  if (explain.verbosity != ExplainVerbosity::kAllPlansExecution) return;
  ArrayBuilder all = stats.array("allPlansExecution");
  for (const auto& trial : explain.trials) append_trial(*trial, all);
}

void append_explain_tail(CommandContext& context, const CommandRequest& request,
                         DocumentBuilder& reply) {
  {
    DocumentBuilder command = reply.object("command");
    for (const Element& field : request.body())
      if (field.name() != "lsid" && field.name() != "$clusterTime") command.append(field);
    if (request.body()["$db"].missing()) command.append("$db", request.db());
  }
  DocumentBuilder info = reply.object("serverInfo");
  char name[256] = "localhost";
  gethostname(name, sizeof name - 1);
  const std::string_view local = context.client().local;
  const std::size_t colon = local.rfind(':');
  std::int32_t port = 27017;
  if (colon != std::string_view::npos) port = std::atoi(std::string(local.substr(colon + 1)).c_str());
  info.append("host", std::string_view(name));
  info.append("port", port);
  info.append("version", kMongoVersion);
  info.append("gitVersion", "multiforadb");
  info.close();
  DocumentBuilder parameters = reply.object("serverParameters");
  parameters.append("internalQueryFacetBufferSizeBytes", std::int32_t{104857600});
  parameters.append("internalQueryMaxBlockingSortMemoryUsageBytes", std::int32_t{104857600});
}

}  // namespace multifora
