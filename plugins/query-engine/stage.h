// How a stage is written: a row {name, parse} in its family's table (stage_*.cpp), and a class.
// parse appends one stage or several ($sortByCount is a $group and a $sort) to the list.
//
// Stages evaluate through context().eval, whose root they set to the document at hand. What they
// give out lives in a buffer of their own until the next call of next().
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/bson/builder.h"
#include "plugins/query-engine/operator.h"
#include "plugins/query-engine/pipeline.h"
#include "plugins/query-engine/spool.h"

namespace multifora {

enum StageFlags : std::uint32_t {
  kMustBeFirst = 1u << 0,      // 40602
  kMustBeLast = 1u << 1,       // 40601
  kNotInFacet = 1u << 2,       // 40600
  kNotInSubPipeline = 1u << 3,  // 51047, not in $lookup, $unionWith
  kNoCollection = 1u << 4,     // only {aggregate: 1}
  kMakesDocuments = 1u << 5,   // has no source
  kNotInStrictApi = 1u << 6,   // APIStrictError for clients that ask for the versioned API only
  kAnyTarget = 1u << 7,        // on a collection or with {aggregate: 1}
};

// What $unwind was told; other stages can do it on the way.
struct UnwindSpec {
  std::string path;
  bool preserve = false;
  std::string index;  // includeArrayIndex; empty: none
};

class PipelineStage : public Stage {
 public:
  explicit PipelineStage(PipelineContext& context) : context_(context) {}

  // Which paths of its input the rest of the pipeline depends on.
  enum class Needs {
    kNext,   // those added, and what the following stages need
    kOnly,   // those added and no others
    kWhole,  // the whole document
  };
  virtual Needs add_dependencies(std::vector<std::string>&) const { return Needs::kWhole; }

  // Takes over what the following stage does, which is then dropped. False: it cannot.
  virtual bool absorb(const PipelineStage&) { return false; }
  virtual const UnwindSpec* unwind() const { return nullptr; }
  // Not null: a source that never ends.
  virtual StreamSource* stream() { return nullptr; }
  // Looks at the whole pipeline once it is parsed; for rules about what follows.
  virtual Status check_followers(std::span<const std::unique_ptr<PipelineStage>> followers) const {
    static_cast<void>(followers);
    return {};
  }

  // $out and $merge: first collects everything, then (no lock is held) writes.
  virtual bool writes() const { return false; }
  virtual Status collect() { return {}; }
  virtual Status write() { return {}; }

  std::uint32_t flags() const { return flags_; }
  void set_flags(std::uint32_t flags) { flags_ = flags; }

 protected:
  PipelineContext& context() const { return context_; }
  Status poll() const { return context_.interrupt != nullptr ? context_.interrupt->check() : Status(); }
  SpillOptions spill_options(std::string_view stage) const;

 private:
  PipelineContext& context_;
  std::uint32_t flags_ = 0;
};

using StagePtr = std::unique_ptr<PipelineStage>;
using StageList = std::vector<StagePtr>;

struct StageRow;
using StageParse = Status (*)(const StageRow& row, const ValueView& spec, PipelineContext& context,
                              StageList& out);
struct StageRow {
  std::string_view name;
  StageParse parse;
  std::uint32_t flags = 0;
};

// Stages of other plugins. A service of the PluginHost; filled while plugins register.
class StageRegistry {
 public:
  // AlreadyInitialized for a name that there is already.
  Status add(const StageRow* row);
  const StageRow* find(std::string_view name) const;

 private:
  std::vector<const StageRow*> rows_;
};

// stage_table.cpp; null: unknown. `host` may be null: only this plugin's own.
const StageRow* find_stage(std::string_view name, const PluginHost* host);
// Parses {name: spec}; for stages that are made of others.
Status parse_stage(std::string_view name, const ValueView& spec, PipelineContext& context,
                   StageList& out);

// The optimiser: coalesces and reorders without changing results. pipeline_optimise.cpp.
void optimise(StageList& stages);

// --- a pipeline inside a stage ------------------------------------------------------------------

// A context for a pipeline on another collection, with its own variables (copies of the outer ones).
// MaxSubPipelineDepthExceeded past 20 levels.
Result<std::unique_ptr<PipelineContext>> make_sub_context(const PipelineContext& outer,
                                                          std::string_view collection);
// After the outer context changed hands (getMore).
void refresh_sub_context(PipelineContext& sub, const PipelineContext& outer);
// The stages of an array; TypeMismatch for anything else.
Result<std::vector<OwnedDocument>> stage_documents(std::string_view op, const ValueView& pipeline);
std::vector<DocumentView> views_of(const std::vector<OwnedDocument>& documents);
// Parses a sub-pipeline for its mistakes only.
Status check_pipeline(const std::vector<OwnedDocument>& stages, PipelineContext& sub);
// Checks `flag`ged stages: fails with `code` where one of them has the flag.
Status forbid_stages(const std::vector<OwnedDocument>& stages, std::uint32_t flag, int code,
                     std::string_view inside, const PluginHost* host);

// A source over documents in memory or a spool.
class ListSource final : public Stage {
 public:
  explicit ListSource(std::vector<OwnedDocument> documents) : documents_(std::move(documents)) {}
  Result<std::optional<DocumentView>> next() override {
    if (at_ == documents_.size()) return std::nullopt;
    return documents_[at_++].view();
  }
  std::string_view name() const override { return "$documents"; }
  void append_to(ArrayBuilder&) const override {}

 private:
  std::vector<OwnedDocument> documents_;
  std::size_t at_ = 0;
};

// The document as a whole must not outgrow what may be stored or sent (BSONObjectTooLarge).
Status check_document_size(std::size_t bytes);

// --- the families' tables -----------------------------------------------------------------------
std::span<const StageRow> streaming_stages();
std::span<const StageRow> sort_stages();
std::span<const StageRow> group_stages();
std::span<const StageRow> bucket_stages();
std::span<const StageRow> lookup_stages();
std::span<const StageRow> graph_lookup_stages();
std::span<const StageRow> union_stages();
std::span<const StageRow> redact_stages();
std::span<const StageRow> window_stages();
std::span<const StageRow> densify_stages();
std::span<const StageRow> write_stages();
std::span<const StageRow> source_stages();
std::span<const StageRow> unsupported_stages();

}  // namespace multifora
