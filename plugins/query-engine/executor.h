// The executor: runs a plan (plan_node.h) over a CollectionView, one row at a time.
//
// Long scans poll the interrupt and give the view's lock to waiting writers: positions are kept as
// record ids and index keys and sought again, so what a row holds lives only until the next call of
// next(). Between commands (detach, attach) an executor holds neither lock nor view.
// One thread at a time. Errors: the interrupt's, QueryPlanKilled (175) where the collection or the
// index went away, those of expressions, and of memory limits.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/interrupt.h"
#include "core/base/limits.h"
#include "core/base/status.h"
#include "core/store/collection.h"
#include "plugins/query-engine/matcher.h"
#include "plugins/query-engine/plan_node.h"

namespace multifora {

// What a stage hands up: a record, as an index entry (key, type_bits, index), as a document, or both.
struct Row {
  RecordId id = 0;
  bool has_document = false;
  DocumentView document;
  Bytes key, type_bits;
  const Index* index = nullptr;
  std::int64_t array_index = -1;  // MatchDetails
  std::uint64_t epoch = 0;        // of ExecContext, when the index entry was read
};

class ScanStage;

// What the stages of one executor share.
struct ExecContext {
  CollectionView* view = nullptr;
  Interrupt* interrupt = nullptr;
  EvalContext* eval = nullptr;
  const Matcher* matcher = nullptr;
  bool match_details = false;  // rows carry array_index
  const Collator* collator = nullptr;
  std::string temp_directory;
  bool allow_disk_use = true;
  std::uint64_t memory_limit_bytes = limits::kQueryMemoryMax;
  bool tailable = false;

  // Counts how often the view's pages were given up: what pointed into them is gone.
  std::uint64_t epoch = 0;
  std::vector<ScanStage*> scans;
  std::uint32_t polls = 0;

  // Called by scans before each step, while no row is in use.
  Status poll() {
    if ((++polls & 127) != 0) return {};
    return poll_slow();
  }
  Status poll_slow();
  void save_positions();
};

class ExecStage {
 public:
  ExecStage(const PlanNode& plan, ExecContext& context) : plan_(plan), context_(context) {}
  virtual ~ExecStage() = default;
  ExecStage(const ExecStage&) = delete;
  ExecStage& operator=(const ExecStage&) = delete;

  // False at the end. The row lives until the next call.
  Result<bool> next(Row& row) {
    ++works_;
    Result<bool> found = advance(row);
    if (found && *found) ++advanced_;
    return found;
  }
  // Known to have no further row, without asking for one.
  virtual bool exhausted() const { return false; }

  const PlanNode& plan() const { return plan_; }
  const std::vector<std::unique_ptr<ExecStage>>& children() const { return children_; }
  std::uint64_t works() const { return works_; }
  std::uint64_t advanced() const { return advanced_; }
  std::uint64_t keys_examined() const { return keys_examined_; }
  std::uint64_t docs_examined() const { return docs_examined_; }
  std::uint64_t seeks() const { return seeks_; }
  std::uint64_t spills() const { return spills_; }
  std::uint64_t memory_bytes() const { return memory_bytes_; }

  void add_child(std::unique_ptr<ExecStage> child) { children_.push_back(std::move(child)); }

 protected:
  virtual Result<bool> advance(Row& row) = 0;
  ExecStage& child() { return *children_[0]; }
  const ExecStage& child() const { return *children_[0]; }

  const PlanNode& plan_;
  ExecContext& context_;
  std::vector<std::unique_ptr<ExecStage>> children_;
  std::uint64_t works_ = 0, advanced_ = 0, keys_examined_ = 0, docs_examined_ = 0, seeks_ = 0,
                spills_ = 0, memory_bytes_ = 0;
};

// A stage with a position in the view.
class ScanStage : public ExecStage {
 public:
  ScanStage(const PlanNode& plan, ExecContext& context) : ExecStage(plan, context) {
    context.scans.push_back(this);
  }
  // The view is about to be given up.
  virtual void save_position() = 0;
};

struct ExecutorOptions {
  Interrupt* interrupt = nullptr;
  EvalContext* eval = nullptr;
  const Matcher* matcher = nullptr;
  bool match_details = false;
  const Collator* collator = nullptr;
  std::string temp_directory;
  bool allow_disk_use = true;
  std::uint64_t memory_limit_bytes = limits::kQueryMemoryMax;  // a stage
  bool tailable = false;
};

class QueryExecutor {
 public:
  QueryExecutor(PlanPtr plan, CollectionView& view, const ExecutorOptions& options);
  ~QueryExecutor();

  Result<bool> next(Row& row);
  bool exhausted() const { return root_->exhausted(); }
  // How many rows there are, from the index alone where the plan says so.
  Result<std::uint64_t> count();

  // Before the view goes away, and with the one that replaces it.
  void detach();
  void attach(CollectionView& view, Interrupt& interrupt);

  const PlanNode& plan() const { return *plan_; }
  const ExecStage& root() const { return *root_; }

 private:
  Result<std::uint64_t> count_ranges(const PlanNode& plan);
  PlanPtr plan_;
  ExecContext context_;
  std::unique_ptr<ExecStage> root_;
};

// --- the stages' makers, one file a family --------------------------------------------------------
std::unique_ptr<ExecStage> make_scan_stage(const PlanNode& plan, ExecContext& context);
std::unique_ptr<ExecStage> make_express_stage(const PlanNode& plan, ExecContext& context);
std::unique_ptr<ExecStage> make_combine_stage(const PlanNode& plan, ExecContext& context);
std::unique_ptr<ExecStage> make_sort_stage(const PlanNode& plan, ExecContext& context);
std::unique_ptr<ExecStage> make_shape_stage(const PlanNode& plan, ExecContext& context);
std::unique_ptr<ExecStage> make_stage(const PlanNode& plan, ExecContext& context);

// Does `document` match every node of `filter`? Sets row.array_index where the context asks for it.
Result<bool> row_matches(const std::vector<const MatchNode*>& filter, DocumentView document,
                         ExecContext& context, Row& row);
// The index of a scan in the context's view; QueryPlanKilled where it is gone.
Result<const IndexRef*> plan_index(const PlanNode& plan, const ExecContext& context);
// One key as a document with nested fields, as a projection expects it. Null where a key holds a
// value that does not tell the whole truth (null may be a missing field).
Result<std::optional<OwnedDocument>> key_document(const Index& index, Bytes key, Bytes type_bits);

}  // namespace multifora
