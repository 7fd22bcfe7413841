// Where documents of reads come from: a collection through the executor, or, for views and
// aggregates, a pipeline over one. Both become ClientCursors.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/query-engine/cursor_manager.h"
#include "plugins/query-engine/pipeline.h"
#include "plugins/query-engine/read_source.h"

namespace multifora {

// A query at work on a collection, which gives its view up between commands.
class QuerySource {
 public:
  // `view` may be null: no such collection, no documents.
  static Result<std::unique_ptr<QuerySource>> open(std::unique_ptr<CompiledQuery> query,
                                                   std::unique_ptr<CollectionView> view,
                                                   Store& store, Interrupt& interrupt);
  Result<std::optional<DocumentView>> next();
  bool exhausted() const { return !executor_ || executor_->exhausted(); }
  Status detach();
  Status attach(Interrupt& interrupt);

  CompiledQuery& query() const { return *query_; }
  QueryExecutor* executor() const { return executor_.get(); }  // null: no such collection
  CollectionView* view() const { return view_.get(); }         // null: none, or detached
  const std::vector<PlanPtr>& rejected() const { return rejected_; }

 private:
  QuerySource() = default;
  // Order matters: the executor points into the query and the view.
  std::unique_ptr<CompiledQuery> query_;
  Store* store_ = nullptr;
  CollectionId collection_ = 0;
  std::unique_ptr<CollectionView> view_;
  std::unique_ptr<QueryExecutor> executor_;
  std::vector<PlanPtr> rejected_;
};

// find's cursor.
std::unique_ptr<ClientCursor> make_query_cursor(std::unique_ptr<QuerySource> source);

// A namespace through its views: the collection below, and the stages above it.
struct ResolvedNamespace {
  std::string ns;  // the collection (which may not exist)
  bool is_view = false;
  std::vector<OwnedDocument> stages;  // of the views, innermost first
  std::shared_ptr<const CollectionInfo> info;  // of `ns` itself; null: missing
  std::shared_ptr<const Collator> collator;    // of the outermost view
  OwnedDocument collation;                     // its specification
};
// ViewDepthLimitExceeded past 20 views.
Result<ResolvedNamespace> resolve_namespace(const Store& store, std::string_view ns);

// A pipeline over a namespace: views resolved, its leading part run by the planner and executor, its
// source set. `context` outlives it. For PipelineContext::open_pipeline.
Result<std::unique_ptr<Pipeline>> open_pipeline(PipelineContext& context, std::string_view ns,
                                                std::vector<OwnedDocument> stages);

struct PipelineArguments {
  std::vector<DocumentView> stages;
  ValueView collation, hint;
  DocumentView let;
  bool allow_disk_use = true;
  bool bypass_validation = false;  // of what $out and $merge write
  bool explain = false;
};

// An aggregate, ready to run; kept by its cursor.
class PipelineRun {
 public:
  // `collection` empty: {aggregate: 1}.
  static Result<std::unique_ptr<PipelineRun>> open(CommandContext& context, std::string_view db,
                                                   std::string_view collection,
                                                   const PipelineArguments& arguments);
  Pipeline& pipeline() { return *pipeline_; }
  PipelineContext& context() { return *context_; }
  // The query layer's part; null where the pipeline makes its own documents.
  const QuerySource* source() const { return source_; }
  const std::string& source_ns() const { return source_ns_; }
  bool exhausted() const;
  Result<std::optional<DocumentView>> next() { return pipeline_->next(); }
  Status detach();
  Status attach(CommandContext& context);

 private:
  friend Result<std::unique_ptr<Pipeline>> open_pipeline(PipelineContext&, std::string_view,
                                                         std::vector<OwnedDocument>);
  std::unique_ptr<PipelineContext> context_;
  std::unique_ptr<Pipeline> pipeline_;
  QuerySource* source_ = nullptr;
  std::string source_ns_;
};

std::unique_ptr<ClientCursor> make_pipeline_cursor(std::unique_ptr<PipelineRun> run);

// --- waiting for new documents --------------------------------------------------------------------

// Calls back after the next write to the store becomes durable, whatever it was. One registration
// with the log serves all waiters. A service of the PluginHost.
class WriteNotifier : public std::enable_shared_from_this<WriteNotifier> {
 public:
  // Returns a function that unregisters. `wake` is called at most once, from any thread.
  std::function<void()> subscribe(Store& store, std::uint64_t after, std::function<void()> wake);

 private:
  void fire();
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::function<void()>> waiting_;
  std::uint64_t next_ = 1;
  bool registered_ = false;
};

}  // namespace multifora
