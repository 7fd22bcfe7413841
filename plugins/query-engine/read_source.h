// A query compiled once a command: filter, sort, projection, collation and variables, with all the
// bytes they view. find, count, distinct, update, delete, findAndModify and the query part of
// pipelines run one. Not movable, because plans and stages point into it. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/base/interrupt.h"
#include "core/base/status.h"
#include "core/plugin/command.h"
#include "core/plugin/host.h"
#include "core/store/store.h"
#include "plugins/query-engine/executor.h"
#include "plugins/query-engine/index_filters.h"
#include "plugins/query-engine/matcher.h"
#include "plugins/query-engine/planner.h"
#include "plugins/query-engine/projection.h"
#include "plugins/query-engine/sort_key.h"

namespace multifora {

// As the request gives it; views need not outlive compile().
struct QueryArguments {
  DocumentView filter, sort, projection, let, min, max;
  ValueView hint;
  ValueView collation;  // missing: the collection's
  std::int64_t skip = 0;
  std::int64_t limit = 0;  // 0: all
  bool return_key = false;
  bool show_record_id = false;
  bool tailable = false;
  bool await_data = false;
  bool allow_disk_use = true;
  bool missing_sorts_first = false;  // as aggregation sorts
  // Only used where it lets an index answer alone; otherwise rows keep their whole document.
  bool projection_only_if_covered = false;
  bool allow_expr = true;
  // Instead of `collation`, where it was resolved already.
  bool has_collator = false;
  std::shared_ptr<const Collator> collator;
};

// What a command's `hint` comes to: an empty document is none.
ValueView hint_of(const ValueView& given);

// The collator that a command's `collation` asks for; the collection's default where it is missing.
// Null: binary order.
Result<std::shared_ptr<const Collator>> make_collator(const PluginHost& host,
                                                      const ValueView& collation,
                                                      const CollectionInfo* info);

// What a query needs of its surroundings while it is compiled.
struct QueryEnvironment {
  PluginHost& host;
  Store* store;
  Interrupt& interrupt;
  static QueryEnvironment of(CommandContext& context) {
    return {context.host(), context.has_store() ? &context.store() : nullptr, context.interrupt()};
  }
};

// A fresh evaluation context for a command.
EvalContext make_eval_context(const QueryEnvironment& environment);

class CompiledQuery {
 public:
  // `info` is null for a missing collection.
  static Result<std::unique_ptr<CompiledQuery>> compile(const QueryEnvironment& environment,
                                                        const CollectionInfo* info,
                                                        const QueryArguments& arguments);
  CompiledQuery(const CompiledQuery&) = delete;
  CompiledQuery& operator=(const CompiledQuery&) = delete;

  const Matcher& matcher() const { return *matcher_; }
  const SortPattern& sort() const { return sort_; }
  const Projection* projection() const { return projection_.get(); }
  const Collator* collator() const { return collator_.get(); }
  EvalContext& eval() { return eval_; }
  VariableScope& scope() { return scope_; }
  const QueryArguments& arguments() const { return arguments_; }  // views the copies

  // What the planner is asked; change it before plan() where a command needs something else.
  PlanRequest& request() { return request_; }
  Result<PlannedQuery> plan(const CollectionView& view) const;
  // The index filter that plan() obeys on this collection; null: none.
  std::shared_ptr<const IndexFilter> index_filter(CollectionId collection) const {
    return filters_ == nullptr ? nullptr : filters_->find(collection, *this);
  }
  // The collation that was asked for; empty: the collection's, or none.
  DocumentView collation_spec() const { return collation_spec_.view(); }
  // An executor for `plan` over `view`. This must outlive it.
  std::unique_ptr<QueryExecutor> execute(PlanPtr plan, CollectionView& view, Interrupt& interrupt,
                                         const std::string& temp_directory);
  // Both in one.
  Result<std::unique_ptr<QueryExecutor>> start(CollectionView& view, Interrupt& interrupt,
                                               const std::string& temp_directory);
  // Rows carry MatchDetails (positional operators).
  void need_match_details() { match_details_ = true; }
  // After the command that made it (getMore).
  void set_interrupt(Interrupt* interrupt) { eval_.interrupt = interrupt; }

 private:
  CompiledQuery() = default;
  OwnedDocument filter_, projection_spec_, sort_spec_, min_, max_, hint_, collation_spec_;
  const IndexFilters* filters_ = nullptr;
  std::shared_ptr<const Collator> collator_;
  VariableScope scope_;
  EvalContext eval_;
  std::unique_ptr<const Matcher> matcher_;
  SortPattern sort_;
  std::unique_ptr<const Projection> projection_;
  QueryArguments arguments_;
  PlanRequest request_;
  std::uint64_t memory_limit_bytes_ = limits::kQueryMemoryMax;
  bool match_details_ = false;
};

}  // namespace multifora
