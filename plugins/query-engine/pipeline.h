// Aggregation pipelines: a chain of stages that pull documents from one another.
//
// Stages are rows `{name, parse}` in stage_table.cpp, one file a stage or family. A Pipeline is
// parsed and optimised once; run() may happen over several commands (getMore): between commands it
// gives up every lock (detach) and takes them again (attach). One thread at a time.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/interrupt.h"
#include "core/base/limits.h"
#include "core/base/status.h"
#include "core/bson/collator.h"
#include "core/bson/view.h"
#include "core/store/store.h"
#include "plugins/query-engine/expression.h"

namespace multifora {

class CommandContext;
class DocumentBuilder;
class Pipeline;

// Everything a stage may need from its surroundings. One a command; outlives the pipeline's runs.
struct PipelineContext {
  Store* store = nullptr;
  PluginHost* host = nullptr;
  Interrupt* interrupt = nullptr;          // replaced at each getMore
  CommandContext* command = nullptr;       // for stages that write or look at the session
  std::string db;
  std::string collection;                  // empty: database-level aggregate
  std::shared_ptr<const Collator> collator;
  EvalContext eval;
  VariableScope scope;
  bool allow_disk_use = true;
  std::uint64_t memory_limit_bytes = limits::kQueryMemoryMax;  // a stage
  bool explain = false;
  bool bypass_validation = false;          // of what $out and $merge write
  int depth = 0;                           // of sub-pipelines
  // Opens a source for `pipeline` on another collection ($lookup, $unionWith ...): resolves views,
  // pushes leading $match/$sort into the query layer. Set by the executor.
  std::function<Result<std::unique_ptr<Pipeline>>(PipelineContext& context, std::string_view ns,
                                                  std::vector<OwnedDocument> stages)>
      open_pipeline;
};

// A stage at work. next() gives a document that lives until the following call of next().
class Stage {
 public:
  virtual ~Stage() = default;
  virtual Result<std::optional<DocumentView>> next() = 0;
  void set_source(Stage* source) { source_ = source; }
  // Before locks are given up / after they were taken again. Pass on to nothing: the pipeline calls each.
  virtual Status detach() { return {}; }
  virtual Status attach() { return {}; }
  virtual std::string_view name() const = 0;           // "$match"
  virtual void append_to(ArrayBuilder& out) const = 0;  // as explain shows it

 protected:
  Stage* source_ = nullptr;
};

// A source whose documents never end, such as a change stream. The cursor over it stays open without
// documents, and asks here when there may be more and what its replies say beside them.
class StreamSource {
 public:
  virtual ~StreamSource() = default;
  // The pipeline's latest document was put into a batch.
  virtual void delivered() = 0;
  // The source's latest document was its last one ever.
  virtual bool ended() const = 0;
  // Appends fields to the reply's cursor.
  virtual void append_to_reply(DocumentBuilder& cursor) const = 0;
  // Calls `wake` once when there may be more than now; returns a function that unregisters. Both may
  // be called when this source is gone.
  using Subscribe = std::function<std::function<void()>(std::function<void()> wake)>;
  virtual Subscribe subscriber() const = 0;
  // May the pipeline give out `document`, made from the source's latest one?
  virtual Status check_output(DocumentView document) const = 0;
};

class Pipeline {
 public:
  // Codes: 40323 (a stage has not exactly one field), 40324 (unknown stage), 40601/40602 (position) ...
  static Result<std::unique_ptr<Pipeline>> parse(const std::vector<DocumentView>& stages,
                                                 PipelineContext& context);
  ~Pipeline();

  // The leading part that the query layer can run: taken off the pipeline by the executor, which then
  // sets the source. Filters and sorts as BSON; skip/limit -1: none.
  struct QueryPart {
    OwnedDocument filter, sort, projection;
    std::int64_t skip = 0, limit = -1;
    // The whole pipeline only counts what the filter matches: one document with this field, or none
    // where the count is 0.
    std::string count_field;
    std::vector<std::string> needed_paths;  // dependency analysis; empty and !all: none
    bool needs_whole_document = true;
  };
  QueryPart take_query_part();
  // Stages that make their own documents ($documents, $collStats, $currentOp ...) come first and need none.
  bool needs_source() const;
  void set_source(std::unique_ptr<Stage> source);

  Result<std::optional<DocumentView>> next();
  Status detach();
  Status attach();
  bool writes() const;     // ends in $out or $merge
  bool empty() const;      // no stage left
  StreamSource* stream() const;  // of the first stage; null: its documents end
  void append_explain(ArrayBuilder& out) const;

 private:
  Pipeline();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

std::vector<std::string_view> stage_names();
std::vector<std::string_view> accumulator_names();

}  // namespace multifora
