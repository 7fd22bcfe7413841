#include "plugins/query-engine/find_source.h"
#include "plugins/query-engine/query_memory.h"

#include <algorithm>

#include "core/base/limits.h"

namespace multifora {
namespace {

class QueryCursor final : public ClientCursor {
 public:
  explicit QueryCursor(std::unique_ptr<QuerySource> source) : source_(std::move(source)) {}
  Result<std::optional<DocumentView>> next() override { return source_->next(); }
  bool exhausted() const override { return source_->exhausted(); }
  bool tailable() const override { return source_->query().arguments().tailable; }
  bool await_data() const override { return source_->query().arguments().await_data; }
  Status detach() override { return source_->detach(); }
  Status attach(CommandContext& context) override { return source_->attach(context.interrupt()); }

 private:
  std::unique_ptr<QuerySource> source_;
};

class PipelineCursor final : public ClientCursor {
 public:
  explicit PipelineCursor(std::unique_ptr<PipelineRun> run)
      : run_(std::move(run)), stream_(run_->pipeline().stream()) {}
  Result<std::optional<DocumentView>> next() override {
    if (done_ || ended()) return std::nullopt;
    auto next = run_->next();
    if (stream_ != nullptr) {
      if (next && *next) MULTIFORA_TRY_R(stream_->check_output(**next));
      return next;
    }
    if (next && !*next) done_ = true;
    return next;
  }
  bool exhausted() const override { return done_ || ended() || run_->exhausted(); }
  bool tailable() const override { return stream_ != nullptr; }
  bool await_data() const override { return stream_ != nullptr; }
  bool ended() const override { return stream_ != nullptr && stream_->ended(); }
  void delivered() override {
    if (stream_ != nullptr) stream_->delivered();
  }
  void append_to_reply(DocumentBuilder& cursor) const override {
    if (stream_ != nullptr) stream_->append_to_reply(cursor);
  }
  Subscribe subscriber() const override {
    return stream_ != nullptr ? stream_->subscriber() : Subscribe();
  }
  Status detach() override { return run_->detach(); }
  Status attach(CommandContext& context) override { return run_->attach(context); }

 private:
  std::unique_ptr<PipelineRun> run_;
  StreamSource* const stream_;
  bool done_ = false;
};

// The stages of a pipeline pull from this.
class CollectionStage final : public Stage {
 public:
  CollectionStage(std::unique_ptr<QuerySource> source, PipelineContext& context)
      : source_(std::move(source)), context_(context) {}
  Result<std::optional<DocumentView>> next() override { return source_->next(); }
  Status detach() override { return source_->detach(); }
  Status attach() override { return source_->attach(*context_.interrupt); }
  std::string_view name() const override { return "$cursor"; }
  void append_to(ArrayBuilder&) const override {}

 private:
  std::unique_ptr<QuerySource> source_;
  PipelineContext& context_;
};

// A count from the index or the collection, as one document.
class CountedStage final : public Stage {
 public:
  // `id`: of the group that counts; missing for $count.
  CountedStage(std::uint64_t count, const ValueView& id, const std::string& field)
      : count_(count) {
    DocumentBuilder document;
    document.append("_id", id);
    constexpr std::uint64_t kInt32Max = 0x7fffffff;
    if (count <= kInt32Max)
      document.append(field, static_cast<std::int32_t>(count));
    else
      document.append(field, static_cast<std::int64_t>(count));
    document_ = std::move(document).finish();
  }
  Result<std::optional<DocumentView>> next() override {
    if (count_ == 0) return std::nullopt;
    count_ = 0;
    return document_.view();
  }
  std::string_view name() const override { return "$count"; }
  void append_to(ArrayBuilder&) const override {}

 private:
  std::uint64_t count_;
  OwnedDocument document_;
};

// {path: 1, ..., _id: 0 or 1} for what the stages need; empty where it cannot be said like that.
OwnedDocument inclusion_of(std::vector<std::string> paths) {
  std::sort(paths.begin(), paths.end());
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
  DocumentBuilder projection;
  bool id = false;
  const std::string* last = nullptr;
  for (const std::string& path : paths) {
    if (path.empty() || path[0] == '$') return OwnedDocument();
    if (last != nullptr && path.size() > last->size() && path.starts_with(*last) &&
        path[last->size()] == '.')
      continue;
    last = &path;
    if (path == "_id") {
      id = true;
      continue;
    }
    projection.append(path, std::int32_t{1});
  }
  if (!id && last == nullptr) return OwnedDocument();
  projection.append("_id", std::int32_t{id ? 1 : 0});
  return std::move(projection).finish();
}

}  // namespace

// ---------------------------------------------------------------- queries

Result<std::unique_ptr<QuerySource>> QuerySource::open(std::unique_ptr<CompiledQuery> query,
                                                       std::unique_ptr<CollectionView> view,
                                                       Store& store, Interrupt& interrupt) {
  std::unique_ptr<QuerySource> source(new QuerySource());
  source->query_ = std::move(query);
  source->store_ = &store;
  if (!view) return source;
  source->collection_ = view->info().id;
  source->view_ = std::move(view);
  MULTIFORA_ASSIGN_R(PlannedQuery planned, source->query_->plan(*source->view_));
  source->rejected_ = std::move(planned.rejected);
  source->executor_ = source->query_->execute(std::move(planned.plan), *source->view_, interrupt,
                                              store.temp_directory());
  return source;
}

Result<std::optional<DocumentView>> QuerySource::next() {
  if (!executor_) return std::nullopt;
  Row row;
  MULTIFORA_ASSIGN_R(const bool found, executor_->next(row));
  if (!found) return std::nullopt;
  return row.document;
}

Status QuerySource::detach() {
  if (!executor_ || !view_) return {};
  executor_->detach();
  view_.reset();
  return {};
}

Status QuerySource::attach(Interrupt& interrupt) {
  if (!executor_ || view_) return {};
  MULTIFORA_ASSIGN(view_, store_->read(collection_));
  if (!view_) return {ErrorCode::kQueryPlanKilled, "collection dropped between getMore calls"};
  query_->set_interrupt(&interrupt);
  executor_->attach(*view_, interrupt);
  return {};
}

std::unique_ptr<ClientCursor> make_query_cursor(std::unique_ptr<QuerySource> source) {
  return std::make_unique<QueryCursor>(std::move(source));
}

// ---------------------------------------------------------------- views

Result<ResolvedNamespace> resolve_namespace(const Store& store, std::string_view ns) {
  ResolvedNamespace resolved;
  resolved.ns = ns;
  std::vector<std::vector<OwnedDocument>> levels;
  for (std::size_t depth = 0;; ++depth) {
    resolved.info = store.info(resolved.ns);
    if (!resolved.info || !resolved.info->is_view) break;
    if (depth >= limits::kViewDepthMax)
      return fail(ErrorCode::kViewDepthLimitExceeded,
                  "View depth too deep or view cycle detected; maximum depth is " +
                      std::to_string(limits::kViewDepthMax));
    const DocumentView options = resolved.info->options.view();
    if (!resolved.is_view) {
      resolved.collator = resolved.info->collator;
      if (options["collation"].type() == BsonType::kObject)
        resolved.collation = OwnedDocument(options["collation"].as_document());
    }
    resolved.is_view = true;
    std::vector<OwnedDocument> stages;
    if (options["pipeline"].type() == BsonType::kArray)
      for (const Element& stage : options["pipeline"].as_document())
        if (stage.type() == BsonType::kObject) stages.emplace_back(stage->as_document());
    levels.push_back(std::move(stages));
    const ValueView on = options["viewOn"];
    if (on.type() != BsonType::kString)
      return fail(ErrorCode::kInvalidViewDefinition, "view without viewOn: " + resolved.ns);
    resolved.ns = resolved.info->db + "." + std::string(on.as_string());
  }
  for (auto level = levels.rbegin(); level != levels.rend(); ++level)
    for (OwnedDocument& stage : *level) resolved.stages.push_back(std::move(stage));
  return resolved;
}

// ---------------------------------------------------------------- pipelines

namespace {

struct OpenedPipeline {
  std::unique_ptr<Pipeline> pipeline;
  QuerySource* source = nullptr;
};

// {$group: {_id: constant, n: {$sum: 1}}}, as drivers write countDocuments.
struct GroupCount {
  ValueView id;
  std::string_view field;
};
std::optional<GroupCount> as_group_count(const std::vector<DocumentView>& stages) {
  if (stages.empty() || stages.back().first().name() != "$group") return std::nullopt;
  const ValueView spec = stages.back().first().value();
  if (spec.type() != BsonType::kObject || spec.as_document().count() != 2) return std::nullopt;
  GroupCount found;
  for (const Element& field : spec.as_document()) {
    if (field.name() == "_id") {
      if (!field->is_number() && field.type() != BsonType::kNull) return std::nullopt;
      found.id = field.value();
      continue;
    }
    if (field.type() != BsonType::kObject || field->as_document().count() != 1) return std::nullopt;
    const Element sum = field->as_document().first();
    if (sum.name() != "$sum" || sum.type() != BsonType::kInt32 || sum->as_int32() != 1)
      return std::nullopt;
    found.field = field.name();
  }
  // Other names are errors, which $group reports.
  const bool plain = !found.field.empty() && found.field.find_first_of("$.") == std::string_view::npos;
  if (found.id.missing() || !plain) return std::nullopt;
  return found;
}

Result<std::uint64_t> count_matches(PipelineContext& context, CompiledQuery& query,
                                    CollectionView* view) {
  if (view == nullptr) return std::uint64_t{0};
  query.request().count_only = true;
  MULTIFORA_ASSIGN_R(const auto executor, query.start(*view, *context.interrupt,
                                                      context.store->temp_directory()));
  return executor->count();
}

// The same result from a $count, where the query layer can answer that. Null: it cannot.
Result<std::unique_ptr<Pipeline>> try_group_count(PipelineContext& context, const std::string& ns,
                                                  const std::vector<DocumentView>& stages,
                                                  const ValueView& hint) {
  const auto group = as_group_count(stages);
  if (!group) return nullptr;
  DocumentBuilder count_stage;
  count_stage.append("$count", "n");
  const OwnedDocument count_document = std::move(count_stage).finish();
  std::vector<DocumentView> counting = stages;
  counting.back() = count_document.view();
  const std::size_t mark = context.scope.mark();
  auto pipeline = Pipeline::parse(counting, context);
  if (!pipeline || !(*pipeline)->needs_source()) {
    context.scope.release(mark);
    return nullptr;  // the real pipeline says what is wrong with it
  }
  const Pipeline::QueryPart part = (*pipeline)->take_query_part();
  if (part.count_field.empty()) {
    context.scope.release(mark);
    return nullptr;
  }
  QueryArguments arguments;
  arguments.filter = part.filter.view();
  arguments.hint = hint;
  arguments.has_collator = true;
  arguments.collator = context.collator;
  const QueryEnvironment environment{*context.host, context.store, *context.interrupt};
  MULTIFORA_ASSIGN_R(const auto query,
                     CompiledQuery::compile(environment, context.store->info(ns).get(), arguments));
  MULTIFORA_ASSIGN_R(const auto view, context.store->read(ns));
  MULTIFORA_ASSIGN_R(const std::uint64_t count, count_matches(context, *query, view.get()));
  (*pipeline)->set_source(
      std::make_unique<CountedStage>(count, group->id, std::string(group->field)));
  return std::move(*pipeline);
}

Result<OpenedPipeline> open_over(PipelineContext& context, const std::string& ns,
                                 const std::vector<DocumentView>& stages, const ValueView& hint) {
  OpenedPipeline opened;
  if (!context.explain) {
    MULTIFORA_ASSIGN_R(opened.pipeline, try_group_count(context, ns, stages, hint));
    if (opened.pipeline) return opened;
  }
  MULTIFORA_ASSIGN_R(opened.pipeline, Pipeline::parse(stages, context));
  if (!opened.pipeline->needs_source()) return opened;
  Pipeline::QueryPart part = opened.pipeline->take_query_part();

  QueryArguments arguments;
  arguments.filter = part.filter.view();
  arguments.sort = part.sort.view();
  arguments.skip = part.skip;
  arguments.limit = part.limit < 0 ? 0 : part.limit;
  arguments.hint = hint;
  arguments.missing_sorts_first = true;
  arguments.has_collator = true;
  arguments.collator = context.collator;
  arguments.allow_disk_use = context.allow_disk_use;
  OwnedDocument needed;
  if (!part.projection.view().empty()) {
    arguments.projection = part.projection.view();
  } else if (!part.needs_whole_document && part.count_field.empty()) {
    needed = inclusion_of(part.needed_paths);
    arguments.projection = needed.view();
    arguments.projection_only_if_covered = true;
  }
  const QueryEnvironment environment{*context.host, context.store, *context.interrupt};
  const auto info = context.store->info(ns);
  MULTIFORA_ASSIGN_R(auto query, CompiledQuery::compile(environment, info.get(), arguments));
  MULTIFORA_ASSIGN_R(auto view, context.store->read(ns));
  if (!part.count_field.empty()) {
    MULTIFORA_ASSIGN_R(const std::uint64_t count, count_matches(context, *query, view.get()));
    opened.pipeline->set_source(
        std::make_unique<CountedStage>(count, ValueView(), part.count_field));
    return opened;
  }
  MULTIFORA_ASSIGN_R(auto source, QuerySource::open(std::move(query), std::move(view),
                                                    *context.store, *context.interrupt));
  opened.source = source.get();
  opened.pipeline->set_source(std::make_unique<CollectionStage>(std::move(source), context));
  return opened;
}

std::vector<DocumentView> all_stages(const std::vector<OwnedDocument>& first,
                                     const std::vector<DocumentView>& then) {
  std::vector<DocumentView> stages;
  for (const OwnedDocument& stage : first) stages.push_back(stage.view());
  stages.insert(stages.end(), then.begin(), then.end());
  return stages;
}

}  // namespace

Result<std::unique_ptr<Pipeline>> open_pipeline(PipelineContext& context, std::string_view ns,
                                                std::vector<OwnedDocument> stages) {
  MULTIFORA_ASSIGN_R(const ResolvedNamespace resolved, resolve_namespace(*context.store, ns));
  std::vector<DocumentView> own;
  for (const OwnedDocument& stage : stages) own.push_back(stage.view());
  MULTIFORA_ASSIGN_R(auto opened, open_over(context, resolved.ns, all_stages(resolved.stages, own),
                                            ValueView()));
  return std::move(opened.pipeline);
}

Result<std::unique_ptr<PipelineRun>> PipelineRun::open(CommandContext& context,
                                                       std::string_view db,
                                                       std::string_view collection,
                                                       const PipelineArguments& arguments) {
  std::unique_ptr<PipelineRun> run(new PipelineRun());
  run->context_ = std::make_unique<PipelineContext>();
  PipelineContext& p = *run->context_;
  p.store = &context.store();
  p.host = &context.host();
  p.interrupt = &context.interrupt();
  p.command = &context;
  p.db = db;
  p.collection = collection;
  p.allow_disk_use = arguments.allow_disk_use;
  p.memory_limit_bytes = QueryMemory::stage_bytes_of(context.host());
  p.bypass_validation = arguments.bypass_validation;
  p.explain = arguments.explain;
  p.eval = make_eval_context(QueryEnvironment::of(context));
  p.open_pipeline = open_pipeline;

  ResolvedNamespace resolved;
  if (!collection.empty()) {
    MULTIFORA_ASSIGN_R(resolved, resolve_namespace(context.store(),
                                                   std::string(db) + "." + std::string(collection)));
  }
  const bool collation_given = arguments.collation.type() == BsonType::kObject &&
                               !arguments.collation.as_document().empty();
  if (resolved.is_view) {
    p.collator = resolved.collator;
    if (collation_given) {
      MULTIFORA_ASSIGN_R(const auto wanted,
                         make_collator(context.host(), arguments.collation, nullptr));
      if (!collators_agree(wanted.get(), p.collator.get()))
        return fail(ErrorCode::kOptionNotSupportedOnView,
                    "Cannot override a view's default collation" +
                        std::string(db) + "." + std::string(collection));
    }
  } else {
    MULTIFORA_ASSIGN_R(p.collator,
                       make_collator(context.host(), arguments.collation, resolved.info.get()));
  }
  p.eval.collator = p.collator.get();
  if (!arguments.let.empty()) MULTIFORA_TRY_R(bind_let(arguments.let, p.scope, p.eval));
  run->source_ns_ = resolved.ns;
  MULTIFORA_ASSIGN_R(auto opened,
                     open_over(p, resolved.ns, all_stages(resolved.stages, arguments.stages),
                               arguments.hint));
  MULTIFORA_TRY_R(p.scope.failure());
  run->pipeline_ = std::move(opened.pipeline);
  run->source_ = opened.source;
  return run;
}

bool PipelineRun::exhausted() const {
  return pipeline_->empty() && source_ != nullptr && source_->exhausted();
}

Status PipelineRun::detach() {
  context_->interrupt = nullptr;
  context_->command = nullptr;
  return pipeline_->detach();
}

Status PipelineRun::attach(CommandContext& context) {
  context_->interrupt = &context.interrupt();
  context_->command = &context;
  context_->eval.interrupt = &context.interrupt();
  return pipeline_->attach();
}

std::unique_ptr<ClientCursor> make_pipeline_cursor(std::unique_ptr<PipelineRun> run) {
  return std::make_unique<PipelineCursor>(std::move(run));
}

// ---------------------------------------------------------------- waiting

std::function<void()> WriteNotifier::subscribe(Store& store, std::uint64_t after,
                                               std::function<void()> wake) {
  std::uint64_t id = 0;
  bool first = false;
  {
    std::lock_guard lock(mutex_);
    id = next_++;
    waiting_.emplace(id, std::move(wake));
    first = !registered_;
    registered_ = true;
  }
  auto self = shared_from_this();
  // May call back at once, on this thread.
  if (first) store.when_durable(after + 1, [self](const Status&) { self->fire(); }, false);
  return [self, id] {
    std::lock_guard lock(self->mutex_);
    self->waiting_.erase(id);
  };
}

void WriteNotifier::fire() {
  std::unordered_map<std::uint64_t, std::function<void()>> woken;
  {
    std::lock_guard lock(mutex_);
    woken.swap(waiting_);
    registered_ = false;
  }
  for (auto& [id, wake] : woken) wake();
}

}  // namespace multifora
