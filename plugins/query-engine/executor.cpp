#include "plugins/query-engine/executor.h"

#include "core/base/assert.h"
#include "plugins/query-engine/bounds_scan.h"
#include "plugins/query-engine/document_edit.h"
#include "plugins/query-engine/planner_index.h"

namespace multifora {

void ExecContext::save_positions() {
  for (ScanStage* scan : scans) scan->save_position();
  ++epoch;
}

Status ExecContext::poll_slow() {
  if (interrupt != nullptr) MULTIFORA_TRY(interrupt->check_slow());
  if (!view->contended()) return {};
  save_positions();
  return view->yield();
}

Result<bool> row_matches(const std::vector<const MatchNode*>& filter, DocumentView document,
                         ExecContext& context, Row& row) {
  if (context.match_details) {
    MatchDetails details;
    const Result<bool> matched = context.matcher->matches(document, context.eval, &details);
    row.array_index = details.array_index;
    return matched;
  }
  if (filter.empty()) return true;
  if (context.eval != nullptr) context.eval->root = document;
  MatchState state;
  state.context = context.eval;
  for (std::size_t i = 0; i < filter.size(); ++i) {
    const bool matched = ((i & 15) != 15 || !state.stopped(document.bytes().size())) &&
                         filter[i]->matches(document, state);
    if (!state.error.ok()) return fail(std::move(state.error));
    if (!matched) return false;
  }
  return true;
}

Result<const IndexRef*> plan_index(const PlanNode& plan, const ExecContext& context) {
  const IndexRef* ref = context.view->index_named(plan.index_name);
  if (ref == nullptr || ref->building ||
      ref->index->spec().key_pattern.view().bytes() !=
          plan.index_spec.view()["key"].as_document().bytes())
    return fail(ErrorCode::kQueryPlanKilled, "index '" + plan.index_name + "' dropped");
  return ref;
}

Result<std::optional<OwnedDocument>> key_document(const Index& index, Bytes key, Bytes type_bits) {
  DocumentBuilder flat;
  MULTIFORA_TRY_R(index.decode(key, type_bits, flat));
  OwnedDocument decoded = std::move(flat).finish();
  bool dotted = false;
  for (const Element& field : decoded.view()) {
    if (field->is_nullish()) return std::nullopt;
    dotted = dotted || field.name().find('.') != std::string_view::npos;
  }
  if (!dotted) return decoded;
  OwnedDocument nested;
  for (const Element& field : decoded.view()) {
    Buffer next;
    append_with_path(next, nested.view(), field.name(), field.value());
    nested = OwnedDocument::assume_valid(std::move(next));
  }
  return nested;
}

std::unique_ptr<ExecStage> make_stage(const PlanNode& plan, ExecContext& context) {
  std::unique_ptr<ExecStage> stage;
  switch (plan.kind) {
    case PlanKind::kEof:
    case PlanKind::kCollScan:
    case PlanKind::kIndexScan:
    case PlanKind::kCountScan:
    case PlanKind::kRecordCount:
    case PlanKind::kDistinctScan:
      stage = make_scan_stage(plan, context);
      break;
    case PlanKind::kExpressId:
    case PlanKind::kExpressIndex:
      stage = make_express_stage(plan, context);
      break;
    case PlanKind::kOr:
    case PlanKind::kMerge:
      stage = make_combine_stage(plan, context);
      break;
    case PlanKind::kSort:
      stage = make_sort_stage(plan, context);
      break;
    default:
      stage = make_shape_stage(plan, context);
      break;
  }
  for (const PlanPtr& child : plan.children) stage->add_child(make_stage(*child, context));
  return stage;
}

QueryExecutor::QueryExecutor(PlanPtr plan, CollectionView& view, const ExecutorOptions& options)
    : plan_(std::move(plan)) {
  context_.view = &view;
  context_.interrupt = options.interrupt;
  context_.eval = options.eval;
  context_.matcher = options.matcher;
  context_.match_details = options.match_details;
  context_.collator = options.collator;
  context_.temp_directory = options.temp_directory;
  context_.allow_disk_use = options.allow_disk_use;
  context_.memory_limit_bytes = options.memory_limit_bytes;
  context_.tailable = options.tailable;
  root_ = make_stage(*plan_, context_);
}

QueryExecutor::~QueryExecutor() = default;

Result<bool> QueryExecutor::next(Row& row) { return root_->next(row); }

Result<std::uint64_t> QueryExecutor::count_ranges(const PlanNode& plan) {
  MULTIFORA_ASSIGN_R(const IndexRef* ref, plan_index(plan, context_));
  ref->note_use();
  const ScanBounds bounds(*ref->index, plan.key_pattern.view(), plan.bounds);
  std::uint64_t total = 0;
  for (const ScanBounds::Range& range : bounds.ranges(planner::kRangesMax).ranges) {
    MULTIFORA_ASSIGN_R(const std::uint64_t keys,
                       ref->index->count_range(ref->state, range.from, range.to));
    total += keys;
  }
  return total;
}

Result<std::uint64_t> QueryExecutor::count() {
  if (plan_->kind == PlanKind::kRecordCount) return context_.view->record_count();
  if (plan_->kind == PlanKind::kCountScan) return count_ranges(*plan_);
  std::uint64_t total = 0;
  Row row;
  while (true) {
    MULTIFORA_ASSIGN_R(const bool more, next(row));
    if (!more) return total;
    ++total;
  }
}

void QueryExecutor::detach() {
  context_.save_positions();
  context_.view = nullptr;
  context_.interrupt = nullptr;
}

void QueryExecutor::attach(CollectionView& view, Interrupt& interrupt) {
  context_.view = &view;
  context_.interrupt = &interrupt;
}

}  // namespace multifora
