// $sort (external, or the first n), $sortByCount, $sample.
#include <algorithm>
#include <random>

#include <fmt/format.h>

#include "plugins/query-engine/stage_streaming.h"

namespace multifora {

using enum BsonType;

Status SortStage::load() {
  sorter_ = std::make_unique<ExternalSorter>(spill_options("Sort"), static_cast<std::uint64_t>(limit_));
  KeyStringBuilder key;
  while (true) {
    MULTIFORA_TRY(poll());
    MULTIFORA_ASSIGN(const std::optional<DocumentView> d, source_->next());
    if (!d) break;
    key.clear();
    MULTIFORA_TRY(pattern_.append_key(*d, context().collator.get(), key));
    MULTIFORA_TRY(sorter_->add(key.key(), *d));
  }
  return sorter_->finish();
}

Result<std::optional<DocumentView>> SortStage::next() {
  if (!sorter_) MULTIFORA_TRY_R(load());
  MULTIFORA_ASSIGN_R(const auto item, sorter_->next());
  if (!item) return std::nullopt;
  return item->document;
}

void SortStage::append_to(ArrayBuilder& out) const {
  DocumentBuilder self = out.object();
  DocumentBuilder spec = self.object("$sort");
  DocumentBuilder key = spec.object("sortKey");
  key.append_all(pattern_.spec());
  key.close();
  if (limit_ > 0) spec.append("limit", limit_);
}

PipelineStage::Needs SortStage::add_dependencies(std::vector<std::string>& paths) const {
  for (const SortPattern::Part& p : pattern_.parts()) paths.push_back(p.path);
  return Needs::kNext;
}

namespace {

Status parse_sort(const StageRow&, const ValueView& spec, PipelineContext& context, StageList& out) {
  if (spec.type() != kObject)
    return {location_code(15973), "the $sort key specification must be an object"};
  if (spec.as_document().empty()) return {location_code(15976), "$sort stage must have at least one sort key"};
  for (const Element& e : spec.as_document()) {
    if (e.type() == kObject) continue;
    if (!e->is_number())
      return {location_code(15974), fmt::format("Illegal key in $sort specification: {}: {}", e.name(),
                                                value_text(e.value()))};
    MULTIFORA_TRY(check_field_path(e.name()));
  }
  MULTIFORA_ASSIGN(SortPattern pattern, SortPattern::parse(spec.as_document()));
  pattern.put_missing_first();
  out.push_back(std::make_unique<SortStage>(context, std::move(pattern)));
  return {};
}

Status parse_sort_by_count(const StageRow&, const ValueView& spec, PipelineContext& context, StageList& out) {
  if (spec.type() == kObject) {
    const std::string_view first = spec.as_document().first().name();
    if (!first.starts_with('$'))
      return {location_code(40147), "the sortByCount field must be defined as a $-prefixed path or an expression "
                                    "inside an object"};
  } else if (spec.type() == kString) {
    if (!spec.as_string().starts_with('$'))
      return {location_code(40148), "the sortByCount field must be defined as a $-prefixed path or an expression "
                                    "inside an object"};
  } else {
    return {location_code(40149), "the sortByCount field must be specified as a string or as an object"};
  }
  DocumentBuilder group;
  group.append("_id", spec);
  group.object("count").append("$sum", std::int32_t{1});
  const OwnedDocument group_spec = std::move(group).finish();
  MULTIFORA_TRY(parse_stage("$group", as_value(group_spec.view()), context, out));
  DocumentBuilder sort;
  sort.append("count", std::int32_t{-1});
  const OwnedDocument sort_spec = std::move(sort).finish();
  return parse_stage("$sort", as_value(sort_spec.view()), context, out);
}

// ---------------------------------------------------------------- $sample

// Gives every document a random key and keeps the n least.
class SampleStage final : public PipelineStage {
 public:
  SampleStage(PipelineContext& context, std::int64_t n) : PipelineStage(context), n_(n) {}
  Result<std::optional<DocumentView>> next() override {
    if (!sorter_) MULTIFORA_TRY_R(load());
    MULTIFORA_ASSIGN_R(const auto item, sorter_->next());
    if (!item) return std::nullopt;
    return item->document;
  }
  std::string_view name() const override { return "$sample"; }
  void append_to(ArrayBuilder& out) const override {
    DocumentBuilder self = out.object();
    self.object("$sample").append("size", n_);
  }
  Needs add_dependencies(std::vector<std::string>&) const override { return Needs::kNext; }

 private:
  Status load() {
    sorter_ = std::make_unique<ExternalSorter>(spill_options("$sample"), static_cast<std::uint64_t>(n_));
    std::mt19937_64 random{std::random_device{}()};
    while (true) {
      MULTIFORA_TRY(poll());
      MULTIFORA_ASSIGN(const std::optional<DocumentView> d, source_->next());
      if (!d) break;
      Buffer key;
      append_be(key, static_cast<std::uint64_t>(random()));
      MULTIFORA_TRY(sorter_->add(key, *d));
    }
    return sorter_->finish();
  }
  std::int64_t n_;
  std::unique_ptr<ExternalSorter> sorter_;
};

Status parse_sample(const StageRow&, const ValueView& spec, PipelineContext& context, StageList& out) {
  if (spec.type() != kObject) return {location_code(28745), "the $sample stage specification must be an object"};
  ValueView size;
  for (const Element& e : spec.as_document()) {
    if (e.name() != "size")
      return {location_code(28748), fmt::format("unrecognized option to $sample: {}", e.name())};
    size = e.value();
    if (!size.is_number()) return {location_code(28746), "size argument to $sample must be a number"};
    if (size.number_as_double() < 0)
      return {location_code(28747), "size argument to $sample must not be negative"};
  }
  if (size.missing()) return {location_code(28749), "$sample stage must specify a size"};
  const std::int64_t n = size.number_as_int64();
  if (n == 0) return {location_code(28747), "size argument to $sample must be a positive integer"};
  out.push_back(std::make_unique<SampleStage>(context, n));
  return {};
}

constexpr StageRow kRows[] = {
    {"$sample", parse_sample},
    {"$sort", parse_sort},
    {"$sortByCount", parse_sort_by_count},
};

}  // namespace

std::span<const StageRow> sort_stages() { return kRows; }

}  // namespace multifora
