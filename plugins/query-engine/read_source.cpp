#include "plugins/query-engine/query_memory.h"
#include "plugins/query-engine/read_source.h"

namespace multifora {

ValueView hint_of(const ValueView& given) {
  const bool empty = given.type() == BsonType::kObject && given.as_document().empty();
  return empty ? ValueView() : given;
}

Result<std::shared_ptr<const Collator>> make_collator(const PluginHost& host,
                                                      const ValueView& collation,
                                                      const CollectionInfo* info) {
  const bool given = collation.type() == BsonType::kObject && !collation.as_document().empty();
  if (!given) return info == nullptr ? nullptr : info->collator;
  const CollatorFactory* factory = host.collator_factory();
  if (factory != nullptr) return factory->make(collation.as_document());
  const ValueView locale = collation.as_document()["locale"];
  if (locale.type() == BsonType::kString && locale.as_string() == "simple") return nullptr;
  return fail(ErrorCode::kCommandNotSupported,
              "collation needs a collation plugin, such as collation-icu, which is not loaded");
}

EvalContext make_eval_context(const QueryEnvironment& environment) {
  EvalContext eval;
  eval.interrupt = &environment.interrupt;
  eval.now_ms = environment.host.clock().wall_ms();
  eval.cluster_time = environment.store != nullptr ? environment.store->last_position() : 0;
  return eval;
}

Result<std::unique_ptr<CompiledQuery>> CompiledQuery::compile(const QueryEnvironment& environment,
                                                              const CollectionInfo* info,
                                                              const QueryArguments& given) {
  std::unique_ptr<CompiledQuery> query(new CompiledQuery());
  CompiledQuery& q = *query;
  q.filter_ = OwnedDocument(given.filter);
  q.projection_spec_ = OwnedDocument(given.projection);
  q.sort_spec_ = OwnedDocument(given.sort);
  q.min_ = OwnedDocument(given.min);
  q.max_ = OwnedDocument(given.max);
  DocumentBuilder hint;
  hint.append("hint", given.hint);
  q.hint_ = std::move(hint).finish();
  q.arguments_ = given;
  q.arguments_.filter = q.filter_.view();
  q.arguments_.projection = q.projection_spec_.view();
  q.arguments_.sort = q.sort_spec_.view();
  q.arguments_.min = q.min_.view();
  q.arguments_.max = q.max_.view();
  q.arguments_.hint = q.hint_.view()["hint"];
  q.arguments_.let = DocumentView();
  q.arguments_.collation = ValueView();
  if (given.collation.type() == BsonType::kObject)
    q.collation_spec_ = OwnedDocument(given.collation.as_document());
  q.filters_ = environment.host.service<IndexFilters>();

  if (given.has_collator) {
    q.collator_ = given.collator;
  } else {
    MULTIFORA_ASSIGN_R(q.collator_, make_collator(environment.host, given.collation, info));
  }
  q.eval_ = make_eval_context(environment);
  q.memory_limit_bytes_ = QueryMemory::stage_bytes_of(environment.host);
  q.eval_.collator = q.collator_.get();
  if (!given.let.empty()) MULTIFORA_TRY_R(bind_let(given.let, q.scope_, q.eval_));

  MatcherOptions options;
  options.collator = q.collator_.get();
  options.scope = &q.scope_;
  options.allow_expr = given.allow_expr;
  MULTIFORA_ASSIGN_R(q.matcher_, Matcher::compile(q.arguments_.filter, options));
  MULTIFORA_ASSIGN_R(q.sort_, SortPattern::parse(q.arguments_.sort));
  if (given.missing_sorts_first) q.sort_.put_missing_first();
  if (!given.projection.empty()) {
    MULTIFORA_ASSIGN_R(q.projection_,
                       Projection::parse(q.arguments_.projection, ProjectionKind::kFind,
                                         q.matcher_.get(), options, q.scope_));
    if (q.projection_->needs_match_details()) q.match_details_ = true;
  }
  MULTIFORA_TRY_R(q.scope_.failure());
  // Parsing may have made more variables.
  if (q.eval_.variables.size() < q.scope_.slots()) q.eval_.variables.resize(q.scope_.slots());

  PlanRequest& r = q.request_;
  r.matcher = q.matcher_.get();
  r.sort = &q.sort_;
  r.projection = q.projection_.get();
  r.collator = q.collator_.get();
  r.hint = q.arguments_.hint;
  r.min = q.arguments_.min;
  r.max = q.arguments_.max;
  r.return_key = given.return_key;
  r.show_record_id = given.show_record_id;
  r.skip = given.skip;
  r.limit = given.limit;
  r.tailable = given.tailable;
  return query;
}

namespace {

// Takes a projection that covers nothing off the plan: whoever asked wants whole documents then.
void strip_projection(PlanPtr& plan) {
  if (plan->kind == PlanKind::kProjection) plan = std::move(plan->children[0]);
}

}  // namespace

Result<PlannedQuery> CompiledQuery::plan(const CollectionView& view) const {
  PlanRequest request = request_;
  const auto filter = index_filter(view.info().id);
  request.index_filter = filter.get();
  MULTIFORA_ASSIGN_R(PlannedQuery planned, plan_query(view, request));
  if (arguments_.projection_only_if_covered) {
    strip_projection(planned.plan);
    for (PlanPtr& other : planned.rejected) strip_projection(other);
  }
  return planned;
}

std::unique_ptr<QueryExecutor> CompiledQuery::execute(PlanPtr plan, CollectionView& view,
                                                      Interrupt& interrupt,
                                                      const std::string& temp_directory) {
  ExecutorOptions options;
  options.interrupt = &interrupt;
  options.eval = &eval_;
  options.matcher = matcher_.get();
  options.match_details = match_details_;
  options.collator = collator_.get();
  options.temp_directory = temp_directory;
  options.allow_disk_use = arguments_.allow_disk_use;
  options.memory_limit_bytes = memory_limit_bytes_;
  options.tailable = arguments_.tailable;
  return std::make_unique<QueryExecutor>(std::move(plan), view, options);
}

Result<std::unique_ptr<QueryExecutor>> CompiledQuery::start(CollectionView& view,
                                                            Interrupt& interrupt,
                                                            const std::string& temp_directory) {
  MULTIFORA_ASSIGN_R(PlannedQuery planned, plan(view));
  return execute(std::move(planned.plan), view, interrupt, temp_directory);
}

}  // namespace multifora
