// The streaming stages that the optimiser knows by type.
#pragma once

#include <limits>

#include "plugins/query-engine/matcher.h"
#include "plugins/query-engine/projection.h"
#include "plugins/query-engine/sort_key.h"
#include "plugins/query-engine/stage.h"

namespace multifora {

class MatchStage final : public PipelineStage {
 public:
  MatchStage(PipelineContext& context, std::unique_ptr<const Matcher> matcher)
      : PipelineStage(context), matcher_(std::move(matcher)) {}
  static Result<std::unique_ptr<MatchStage>> make(PipelineContext& context, DocumentView filter);
  Result<std::optional<DocumentView>> next() override;
  std::string_view name() const override { return "$match"; }
  void append_to(ArrayBuilder& out) const override;
  Needs add_dependencies(std::vector<std::string>& paths) const override;
  const Matcher& matcher() const { return *matcher_; }
  PipelineContext& pipeline_context() const { return context(); }

 private:
  std::unique_ptr<const Matcher> matcher_;
};

// A filter without $expr that lets through at least what `filter` does; for the query layer.
OwnedDocument pushable_filter(DocumentView filter, PipelineContext& context);

class SkipStage final : public PipelineStage {
 public:
  SkipStage(PipelineContext& context, std::int64_t n) : PipelineStage(context), n_(n) {}
  Result<std::optional<DocumentView>> next() override;
  std::string_view name() const override { return "$skip"; }
  void append_to(ArrayBuilder& out) const override;
  Needs add_dependencies(std::vector<std::string>&) const override { return Needs::kNext; }
  std::int64_t n() const { return n_; }
  void set_n(std::int64_t n) { n_ = n; }

 private:
  std::int64_t n_;
  std::int64_t skipped_ = 0;
};

class LimitStage final : public PipelineStage {
 public:
  LimitStage(PipelineContext& context, std::int64_t n) : PipelineStage(context), n_(n) {}
  Result<std::optional<DocumentView>> next() override;
  std::string_view name() const override { return "$limit"; }
  void append_to(ArrayBuilder& out) const override;
  Needs add_dependencies(std::vector<std::string>&) const override { return Needs::kNext; }
  std::int64_t n() const { return n_; }
  void set_n(std::int64_t n) { n_ = n; }

 private:
  std::int64_t n_;
  std::int64_t given_ = 0;
};

class CountStage final : public PipelineStage {
 public:
  CountStage(PipelineContext& context, std::string_view field) : PipelineStage(context), field_(field) {}
  Result<std::optional<DocumentView>> next() override;
  std::string_view name() const override { return "$count"; }
  void append_to(ArrayBuilder& out) const override;
  Needs add_dependencies(std::vector<std::string>&) const override { return Needs::kOnly; }
  const std::string& field() const { return field_; }

 private:
  std::string field_;
  OwnedDocument result_;
  bool done_ = false;
};

// stage_sort.cpp
class SortStage final : public PipelineStage {
 public:
  SortStage(PipelineContext& context, SortPattern pattern)
      : PipelineStage(context), pattern_(std::move(pattern)) {}
  Result<std::optional<DocumentView>> next() override;
  std::string_view name() const override { return "$sort"; }
  void append_to(ArrayBuilder& out) const override;
  Needs add_dependencies(std::vector<std::string>& paths) const override;
  const SortPattern& pattern() const { return pattern_; }
  // Only the first n are wanted; 0: all.
  std::int64_t limit() const { return limit_; }
  void set_limit(std::int64_t n) { limit_ = n; }

 private:
  Status load();
  SortPattern pattern_;
  std::int64_t limit_ = 0;
  std::unique_ptr<ExternalSorter> sorter_;
};

// $project, $addFields, $set, $unset
class ProjectStage final : public PipelineStage {
 public:
  ProjectStage(PipelineContext& context, std::string_view name, OwnedDocument spec,
               std::unique_ptr<const Projection> projection)
      : PipelineStage(context), name_(name), spec_(std::move(spec)), projection_(std::move(projection)) {}
  Result<std::optional<DocumentView>> next() override;
  std::string_view name() const override { return name_; }
  void append_to(ArrayBuilder& out) const override;
  Needs add_dependencies(std::vector<std::string>& paths) const override;
  // The top-level fields that it may change; false: unknown or all.
  bool changed_fields(std::vector<std::string>& fields) const;

 private:
  std::string_view name_;
  OwnedDocument spec_;
  std::unique_ptr<const Projection> projection_;
  Buffer out_;
};

}  // namespace multifora
