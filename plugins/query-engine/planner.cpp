#include "plugins/query-engine/planner.h"

#include <algorithm>
#include <limits>
#include <cmath>

#include "core/bson/compare.h"
#include "core/bson/extended_json.h"
#include "core/bson/key_string.h"
#include "plugins/query-engine/index_filters.h"
#include "plugins/query-engine/planner_index.h"

namespace multifora {
namespace planner {
namespace {

// Collections below this take an index wherever there is one, as people expect of explain.
constexpr std::uint64_t kSmallCollection = 10'000;
constexpr double kCostScanDocument = 0.5;  // documents in a row, prefetched
constexpr double kCostKey = 0.5;
constexpr double kCostFetch = 1.5;
constexpr double kCostSeek = 2;
constexpr double kCostSortDocument = 1;

Status bad_hint() {
  return {ErrorCode::kBadValue,
          "error processing query: planner returned error :: caused by :: hint provided does not "
          "correspond to an existing index"};
}

class Planner {
 public:
  Planner(const CollectionView& view, const PlanRequest& request)
      : view_(view), request_(request) {
    append_conjuncts(request.matcher->root(), conjuncts_);
    for (const IndexRef& ref : view.indexes())
      if (is_allowed(ref)) indexes_.push_back(&ref);
    std::erase_if(conjuncts_,
                  [](const MatchNode* node) { return node->kind() == MatchKind::kAlwaysTrue; });
  }

  Result<PlannedQuery> run() {
    MULTIFORA_ASSIGN_R(PlanPtr access, choose_access());
    PlannedQuery planned;
    planned.plan = finish(std::move(access));
    for (PlanPtr& other : rejected_) planned.rejected.push_back(finish(std::move(other)));
    return planned;
  }

 private:
  // How an access path stands to the rest of the plan.
  struct Access {
    PlanPtr plan;
    bool ordered = false;
    bool covered = false;
    double cost = 0;
    std::uint64_t keys = 0;
    bool bounded = false;
  };

  bool is_allowed(const IndexRef& ref) const {
    const IndexSpec& spec = ref.index->spec();
    return request_.index_filter == nullptr ||
           request_.index_filter->allows(spec.name, spec.key_pattern.view());
  }

  bool wants_order() const {
    return request_.sort != nullptr && !request_.sort->parts().empty();
  }

  Result<PlanPtr> choose_access() {
    const int natural = natural_direction();
    if (!request_.min.empty() || !request_.max.empty()) return range_access();
    if (natural != 0 && hint_is_natural()) return note(scan_collection(natural < 0));
    if (!request_.hint.missing() && !hint_is_natural() && request_.index_filter == nullptr)
      return hinted_access();
    if (always_false()) return note({make_plan(PlanKind::kEof), true, false, 0, 0, false});
    if (natural != 0 || request_.tailable) return note(scan_collection(natural < 0));
    if (conjuncts_.empty() && !wants_order() && request_.distinct_field.empty()) {
      if (request_.count_only)
        return note({make_plan(PlanKind::kRecordCount), true, false, 0, 0, false});
      return note(scan_collection(false));
    }
    if (PlanPtr express = express_access()) return note({std::move(express), true, false, 0, 0, true});
    return cheapest();
  }

  int natural_direction() const {
    if (hint_is_natural()) {
      const ValueView direction = request_.hint.as_document()["$natural"];
      return direction.number_as_double() < 0 ? -1 : 1;
    }
    return request_.sort == nullptr ? 0 : request_.sort->natural();
  }
  bool hint_is_natural() const {
    return request_.hint.type() == BsonType::kObject &&
           !request_.hint.as_document()["$natural"].missing();
  }
  bool always_false() const {
    return std::any_of(conjuncts_.begin(), conjuncts_.end(), [](const MatchNode* node) {
      return node->kind() == MatchKind::kAlwaysFalse ||
             (node->kind() == MatchKind::kIn && node->children().empty() &&
              static_cast<const InNode*>(node)->values().empty());
    });
  }

  // --- single documents ---------------------------------------------------------------------------

  PlanPtr express_access() const {
    if (!request_.allow_express || conjuncts_.size() != 1) return nullptr;
    const MatchNode& node = *conjuncts_[0];
    if (node.kind() != MatchKind::kEq) return nullptr;
    const ValueView& value = node.operand();
    if (value.is_nullish() || value.type() == BsonType::kArray) return nullptr;
    for (const IndexRef& ref : view_.indexes()) {
      const IndexSpec& spec = ref.index->spec();
      const Element key = spec.key_pattern.view().first();
      const bool is_id = spec.name == "_id_";
      if (!is_id && !is_allowed(ref)) continue;  // no index filter is about a look-up by _id
      if (key.name() != node.path() || ref.building || spec.hidden) continue;
      if (!is_id && (!spec.unique || spec.key_pattern.view().count() != 1)) continue;
      if (!key->is_number() || (ref.index->capabilities() & kIndexEquality) == 0) continue;
      if (!spec.spec.view()["partialFilterExpression"].missing()) continue;
      if (!collators_agree(spec.collator.get(), request_.collator) && depends_on_collation(value))
        continue;
      if (is_id && !collators_agree(view_.info().collator.get(), request_.collator) &&
          depends_on_collation(value))
        continue;
      PlanPtr plan = make_plan(is_id ? PlanKind::kExpressId : PlanKind::kExpressIndex);
      plan->index_name = spec.name;
      plan->index_spec = spec.spec;
      plan->point = Value(value);
      plan->keys = 1;
      return plan;
    }
    return nullptr;
  }

  static bool depends_on_collation(const ValueView& value) {
    return value.type() == BsonType::kString || value.type() == BsonType::kSymbol ||
           value.type() == BsonType::kObject || value.type() == BsonType::kArray;
  }

  // --- scans --------------------------------------------------------------------------------------

  Access scan_collection(bool backward) const {
    Access access;
    access.plan = make_plan(PlanKind::kCollScan);
    access.plan->backward = backward;
    access.plan->filter = conjuncts_;
    access.keys = access.plan->keys = view_.record_count();
    access.ordered = !wants_order();
    return access;
  }

  PlanPtr index_scan(const IndexChoice& choice) const {
    const IndexSpec& spec = choice.ref->index->spec();
    PlanPtr scan = make_plan(PlanKind::kIndexScan);
    scan->index_name = spec.name;
    scan->index_spec = spec.spec;
    scan->key_pattern = choice.key_pattern;
    scan->multikey_fields = choice.multikey_fields;
    scan->bounds = choice.bounds;
    scan->backward = choice.backward;
    scan->keys = choice.keys;
    scan->dedup = choice.repeats;
    return scan;
  }

  // One scan for each combination of the first fields' points.
  PlanPtr merge_scan(const IndexChoice& choice) const {
    PlanPtr merge = make_plan(PlanKind::kMerge);
    merge->sort = request_.sort;
    merge->merge_prefix = choice.merge_fields;
    merge->backward = choice.backward;
    merge->dedup = choice.repeats;
    std::vector<std::size_t> at(choice.merge_fields, 0);
    while (true) {
      PlanPtr scan = index_scan(choice);
      for (std::size_t i = 0; i < at.size(); ++i)
        scan->bounds[i].intervals = {choice.bounds[i].intervals[at[i]]};
      scan->keys = 0;
      merge->children.push_back(std::move(scan));
      std::size_t field = at.size();
      while (field > 0 && ++at[field - 1] == choice.bounds[field - 1].intervals.size())
        at[--field] = 0;
      if (field == 0) return merge;
    }
  }

  Access access_by(const IndexChoice& choice) const {
    Access access;
    const bool merge = wants_order() && !choice.gives_order && choice.merge_fields > 0;
    access.ordered = !wants_order() || choice.gives_order || merge;
    access.covered = choice.covered && access.ordered && !merge;
    access.plan = merge ? merge_scan(choice) : index_scan(choice);
    access.keys = choice.keys;
    access.bounded = choice.bounded;
    const bool fetch = !access.covered && !(request_.count_only && choice.residual.empty());
    if (fetch) {
      access.plan = make_plan(PlanKind::kFetch, std::move(access.plan));
      access.plan->filter = choice.residual;
    }
    access.cost = static_cast<double>(choice.keys) * (fetch ? kCostKey + kCostFetch : kCostKey) +
                  static_cast<double>(choice.ranges) * kCostSeek;
    return access;
  }

  // --- choosing -----------------------------------------------------------------------------------

  // How many documents skip and limit let be read.
  std::int64_t last_wanted() const {
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    return request_.skip > kMost - request_.limit ? kMost : request_.skip + request_.limit;
  }

  // Reading stops early where nothing has to be sorted.
  double with_limit_and_sort(const Access& access, double cost, std::uint64_t matches) const {
    if (!access.ordered)
      return cost + static_cast<double>(std::min(access.keys, matches)) * kCostSortDocument;
    if (request_.limit <= 0) return cost;
    const double wanted = static_cast<double>(last_wanted());
    return cost * std::min(1.0, (wanted + 1) / (static_cast<double>(matches) + 1));
  }

  Result<PlanPtr> cheapest() {
    std::vector<IndexChoice> choices;
    for (const IndexRef* ref : indexes_)
      MULTIFORA_TRY_R(examine_index(*ref, conjuncts_, request_, false, choices));
    if (!request_.distinct_field.empty())
      if (PlanPtr plan = distinct_scan(choices)) return plan;
    if (request_.count_only)
      if (PlanPtr plan = count_scan(choices)) return plan;
    std::vector<Access> accesses;
    for (const IndexChoice& choice : choices) accesses.push_back(access_by(choice));
    MULTIFORA_TRY_R(add_unions(accesses));
    return pick(std::move(accesses));
  }

  Result<PlanPtr> pick(std::vector<Access> accesses) {
    const std::uint64_t records = view_.record_count();
    std::uint64_t matches = records;
    bool bounded = false;
    for (const Access& access : accesses) {
      matches = std::min(matches, access.keys);
      bounded = bounded || access.bounded;
    }
    Access scan = scan_collection(false);
    if (accesses.empty()) return note(std::move(scan));
    for (Access& access : accesses) access.cost = with_limit_and_sort(access, access.cost, matches);
    std::stable_sort(accesses.begin(), accesses.end(),
                     [](const Access& a, const Access& b) { return a.cost < b.cost; });
    scan.cost = with_limit_and_sort(scan, static_cast<double>(records) * kCostScanDocument, matches);
    if (records > kSmallCollection && scan.cost * 1.5 < accesses[0].cost && !accesses[0].covered)
      return note(std::move(scan));
    for (std::size_t i = 1; i < accesses.size(); ++i)
      rejected_.push_back(note(std::move(accesses[i])));
    return note(std::move(accesses[0]));
  }

  // {$or: [...]}: each branch by an index of its own.
  Status add_unions(std::vector<Access>& accesses) {
    for (std::size_t i = 0; i < conjuncts_.size(); ++i) {
      if (conjuncts_[i]->kind() != MatchKind::kOr) continue;
      MULTIFORA_ASSIGN(auto access, unite(i));
      if (access) accesses.push_back(std::move(*access));
    }
    return {};
  }

  Result<std::optional<Access>> unite(std::size_t which) {
    PlanPtr all = make_plan(PlanKind::kOr);
    all->dedup = true;
    Access access;
    bool settled = true;
    for (const MatchNode::Ptr& branch : conjuncts_[which]->children()) {
      if (branch->kind() == MatchKind::kAlwaysFalse) continue;
      MULTIFORA_ASSIGN_R(auto choice, best_for_branch(which, *branch));
      if (!choice) return std::nullopt;
      access.keys += choice->keys;
      access.cost += static_cast<double>(choice->keys) * kCostKey +
                     static_cast<double>(choice->ranges) * kCostSeek;
      settled = settled && choice->residual.empty();
      choice->backward = false;
      all->children.push_back(index_scan(*choice));
    }
    if (all->children.empty()) return std::nullopt;
    access.bounded = true;
    access.ordered = !wants_order();
    access.plan = std::move(all);
    if (!settled || !request_.count_only || request_.needs_document) {
      access.plan = make_plan(PlanKind::kFetch, std::move(access.plan));
      if (!settled) access.plan->filter = conjuncts_;
      access.cost += static_cast<double>(access.keys) * kCostFetch;
    }
    return access;
  }

  Result<std::optional<IndexChoice>> best_for_branch(std::size_t which, const MatchNode& branch) {
    Conjuncts conjuncts;
    append_conjuncts(branch, conjuncts);
    for (std::size_t i = 0; i < conjuncts_.size(); ++i)
      if (i != which) conjuncts.push_back(conjuncts_[i]);
    PlanRequest request = request_;
    request.sort = nullptr;
    std::optional<IndexChoice> best;
    for (const IndexRef* ref : indexes_) {
      // A partial index must hold what the whole query may match in this branch; the query as a whole
      // implies less than the branch, which is safe.
      std::vector<IndexChoice> choices;
      MULTIFORA_TRY_R(examine_index(*ref, conjuncts, request, false, choices));
      for (IndexChoice& choice : choices)
        if (choice.bounded && (!best || choice.keys < best->keys)) best = std::move(choice);
    }
    return best;
  }

  // --- counts and distinct values -----------------------------------------------------------------

  PlanPtr count_scan(const std::vector<IndexChoice>& choices) const {
    if (request_.needs_document) return nullptr;
    for (const IndexChoice& choice : choices) {
      if (!choice.bounded || !choice.residual.empty() || !choice.ranges_exact) continue;
      if ((choice.ref->index->capabilities() & kIndexCount) == 0) continue;
      // Documents with several keys are counted once where only one of their keys can be inside.
      const bool once = !choice.repeats ||
                        std::all_of(choice.bounds.begin(), choice.bounds.end(),
                                    [](const FieldBounds& b) { return b.single_point(); });
      if (!once) continue;
      PlanPtr plan = index_scan(choice);
      plan->kind = PlanKind::kCountScan;
      return plan;
    }
    return nullptr;
  }

  PlanPtr distinct_scan(const std::vector<IndexChoice>& choices) const {
    for (const IndexChoice& choice : choices)
      if (PlanPtr plan = distinct_by(choice)) return plan;
    if (!conjuncts_.empty()) return nullptr;
    for (const IndexRef* one : indexes_) {
      const IndexRef& ref = *one;
      const IndexSpec& spec = ref.index->spec();
      if (ref.building || spec.hidden || spec.sparse ||
          (ref.index->capabilities() & kIndexPaths) != 0 ||
          !spec.spec.view()["partialFilterExpression"].missing())
        continue;
      IndexChoice choice;
      choice.ref = &ref;
      choice.key_pattern = spec.key_pattern;
      choice.multikey_fields = ref.index->multikey_fields(ref.state);
      choice.bounds.assign(spec.key_pattern.view().count(), FieldBounds::all());
      if (PlanPtr plan = distinct_by(choice)) return plan;
    }
    return nullptr;
  }

  PlanPtr distinct_by(const IndexChoice& choice) const {
    const IndexSpec& spec = choice.ref->index->spec();
    if (!choice.residual.empty() || choice.repeats || choice.multikey_fields != 0 || spec.collator ||
        (choice.ref->index->capabilities() & kIndexCovered) == 0 || request_.collator != nullptr)
      return nullptr;
    std::size_t field = 0;
    for (const Element& part : choice.key_pattern.view()) {
      if (!part->is_number()) return nullptr;
      if (part.name() == request_.distinct_field) {
        PlanPtr plan = index_scan(choice);
        plan->kind = PlanKind::kDistinctScan;
        plan->distinct_field = field;
        plan->backward = false;
        return plan;
      }
      if (!choice.bounds[field].single_point()) return nullptr;
      ++field;
    }
    return nullptr;
  }

  // --- hints --------------------------------------------------------------------------------------

  // Of a hinted index: the way with the fewest keys.
  Result<std::optional<IndexChoice>> best_use(const IndexRef& ref,
                                              const Conjuncts& conjuncts) const {
    std::vector<IndexChoice> choices;
    MULTIFORA_TRY_R(examine_index(ref, conjuncts, request_, true, choices));
    const auto best = std::min_element(
        choices.begin(), choices.end(),
        [](const IndexChoice& a, const IndexChoice& b) { return a.keys < b.keys; });
    if (best == choices.end()) return std::nullopt;
    return std::move(*best);
  }

  Result<PlanPtr> hinted_access() {
    const IndexRef* ref = find_hinted_index(view_, request_.hint);
    if (ref == nullptr) return fail(bad_hint());
    MULTIFORA_ASSIGN_R(const auto choice, best_use(*ref, conjuncts_));
    if (!choice)
      return fail(ErrorCode::kNoQueryExecutionPlans,
                  "error processing query: planner returned error :: caused by :: No query solutions");
    return note(access_by(*choice));
  }

  Result<PlanPtr> range_access() {
    if (request_.hint.missing())
      return fail(location_code(51173),
                  "When using min()/max() a hint of which index to use must be provided");
    if (hint_is_natural())
      return fail(ErrorCode::kNoQueryExecutionPlans,
                  "min and max are incompatible with $natural hint");
    const IndexRef* ref = find_hinted_index(view_, request_.hint);
    if (ref == nullptr) return fail(bad_hint());
    constexpr std::uint32_t kNeeded = kIndexRange | kIndexPaths;
    MULTIFORA_ASSIGN_R(const auto choice, best_use(*ref, conjuncts_));
    if (!choice || (ref->index->capabilities() & kNeeded) != kIndexRange)
      return fail(ErrorCode::kNoQueryExecutionPlans, "No query solutions");
    if (!collators_agree(ref->index->spec().collator.get(), request_.collator))
      return fail(location_code(51174), "min and max need the collation of the hinted index");
    IndexChoice whole = *choice;
    whole.bounds.assign(choice->bounds.size(), FieldBounds::all());
    whole.residual = conjuncts_;
    whole.merge_fields = 0;
    whole.gives_order = false;
    whole.covered = choice->covered && conjuncts_.empty();
    Access access = access_by(whole);
    PlanNode* scan = access.plan.get();
    while (scan->kind != PlanKind::kIndexScan) scan = scan->children[0].get();
    scan->fixed_range = true;
    MULTIFORA_ASSIGN_R(scan->range_from, range_key(*ref, request_.min));
    MULTIFORA_ASSIGN_R(scan->range_to, range_key(*ref, request_.max));
    if (!request_.min.empty() && !request_.max.empty() && scan->range_from >= scan->range_to)
      return fail(location_code(51175), "max() must be greater than min()");
    if (wants_order()) order_range(*ref, *scan, access);
    return note(std::move(access));
  }

  // A walk over the whole index in its own order.
  void order_range(const IndexRef& ref, PlanNode& scan, Access& access) const {
    const auto choice = best_use(ref, Conjuncts());
    if (!choice || !*choice || !(*choice)->gives_order) return;
    scan.backward = (*choice)->backward;
    access.ordered = true;
  }

  Result<Buffer> range_key(const IndexRef& ref, DocumentView values) const {
    if (values.empty()) return Buffer();
    KeyStringBuilder key;
    std::size_t field = 0;
    auto value = values.begin();
    for (const Element& part : ref.index->spec().key_pattern.view()) {
      if (value == values.end() || value->name() != part.name())
        return fail(location_code(51174),
                    "Bad min/max: the fields must be those of the hinted index, in its order");
      ref.index->append_bound(key, field++, value->value());
      ++value;
    }
    if (value != values.end())
      return fail(location_code(51174),
                  "Bad min/max: the fields must be those of the hinted index, in its order");
    return key.key();
  }

  // --- the rest of the plan -----------------------------------------------------------------------

  // Remembers how the path stands to the rest, in the plan itself: finish() reads it.
  PlanPtr note(Access access) {
    access.plan->cost = access.cost;
    if (!access.ordered) unordered_.push_back(access.plan.get());
    if (access.covered) covered_.push_back(access.plan.get());
    return std::move(access.plan);
  }

  PlanPtr finish(PlanPtr plan) const {
    const PlanNode* access = plan.get();
    if (access->kind == PlanKind::kCountScan || access->kind == PlanKind::kDistinctScan ||
        access->kind == PlanKind::kRecordCount)
      return plan;
    const double cost = access->cost;
    const bool covered = std::find(covered_.begin(), covered_.end(), access) != covered_.end();
    const bool sort =
        std::find(unordered_.begin(), unordered_.end(), access) != unordered_.end();
    if (sort && wants_order()) {
      plan = make_plan(PlanKind::kSort, std::move(plan));
      plan->sort = request_.sort;
      if (request_.limit > 0) plan->sort_limit = last_wanted();
    }
    if (request_.skip > 0) {
      plan = make_plan(PlanKind::kSkip, std::move(plan));
      plan->number = request_.skip;
    }
    if (request_.limit > 0) {
      plan = make_plan(PlanKind::kLimit, std::move(plan));
      plan->number = request_.limit;
    }
    if (request_.return_key) {
      plan = make_plan(PlanKind::kReturnKey, std::move(plan));
    } else if (request_.projection != nullptr) {
      plan = make_plan(covered ? PlanKind::kProjectionCovered : PlanKind::kProjection,
                       std::move(plan));
      plan->projection = request_.projection;
    }
    if (request_.show_record_id && !request_.return_key)
      plan = make_plan(PlanKind::kRecordId, std::move(plan));
    plan->cost = cost;
    return plan;
  }

  const CollectionView& view_;
  const PlanRequest& request_;
  std::vector<const IndexRef*> indexes_;  // those that may be used without a hint
  Conjuncts conjuncts_;
  std::vector<const PlanNode*> unordered_;
  std::vector<const PlanNode*> covered_;
  std::vector<PlanPtr> rejected_;
};

}  // namespace
}  // namespace planner

const IndexRef* find_hinted_index(const CollectionView& view, const ValueView& hint) {
  for (const IndexRef& ref : view.indexes()) {
    const IndexSpec& spec = ref.index->spec();
    if (ref.building || spec.hidden) continue;
    if (hint.type() == BsonType::kString && spec.name == hint.as_string()) return &ref;
    if (hint.type() == BsonType::kObject &&
        compare_documents(spec.key_pattern.view(), hint.as_document()) == 0)
      return &ref;
  }
  return nullptr;
}

Result<PlannedQuery> plan_query(const CollectionView& view, const PlanRequest& request) {
  return planner::Planner(view, request).run();
}

}  // namespace multifora
