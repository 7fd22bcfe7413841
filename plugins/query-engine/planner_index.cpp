#include "plugins/query-engine/planner_index.h"

#include <algorithm>
#include <set>

#include "core/bson/compare.h"

namespace multifora::planner {
namespace {

struct KeyPart {
  std::string_view path;
  bool ordered = true;     // otherwise only equality, e.g. hashed
  bool descending = false;
  bool multikey = false;
};

std::string_view first_part(std::string_view path) { return path.substr(0, path.find('.')); }

bool has_position(std::string_view path) {
  const FieldPath parts(path);
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (parts.index(i) >= 0) return true;
  return false;
}

std::vector<KeyPart> key_parts(DocumentView pattern, std::uint64_t multikey) {
  std::vector<KeyPart> parts;
  for (const Element& element : pattern) {
    KeyPart part;
    part.path = element.name();
    part.ordered = element->is_number();
    part.descending = part.ordered && element->number_as_double() < 0;
    part.multikey = (multikey >> std::min<std::size_t>(parts.size(), 63) & 1) != 0;
    parts.push_back(part);
  }
  return parts;
}

// Every path that some predicate is about, also inside $elemMatch.
void add_paths(const MatchNode& node, const std::string& prefix, std::set<std::string>& out) {
  std::string path = prefix;
  if (!node.path().empty()) {
    if (!path.empty()) path += '.';
    path += node.path();
    out.insert(path);
  }
  const bool relative = node.kind() == MatchKind::kElemMatchObject;
  for (const MatchNode::Ptr& child : node.children())
    add_paths(*child, relative ? path : prefix, out);
}

// Could a value in the interval be an object that is not empty?
bool may_hold_objects(const Interval& interval) {
  const Value lowest = Value::object(OwnedDocument());
  if (interval.is_point && compare_values(interval.low.view(), lowest.view()) == 0) return false;
  const int high = compare_values(interval.high.view(), lowest.view());
  const bool reaches = high > 0 || (high == 0 && interval.high_inclusive);
  return reaches && compare_values(interval.low.view(), Value::empty_array().view()) < 0;
}

// Where an index that serves many paths has no entries: missing fields, and objects with content.
bool has_entries_for(const FieldBounds& bounds) {
  return !bounds.contains_null() &&
         std::none_of(bounds.intervals.begin(), bounds.intervals.end(), may_hold_objects);
}

// The values of the path field that are about `paths`, and, with `below`, about all that lies below.
FieldBounds path_bounds(const std::vector<std::string>& paths, bool below) {
  FieldBounds bounds;
  for (const std::string& path : paths) {
    bounds.intervals.push_back(Interval::point(Value::string(path)));
    if (!below) continue;
    Interval content;
    content.low = Value::string(path + ".");
    content.high = Value::string(path + "/");  // the byte after the dot
    content.high_inclusive = false;
    bounds.intervals.push_back(std::move(content));
  }
  return unite_bounds(bounds, FieldBounds(), nullptr);
}

class Examination {
 public:
  // `paths`: how the index reads for one path; null: it is an index on its fields.
  Examination(const IndexRef& ref, const IndexPaths* paths, const Conjuncts& conjuncts,
              const PlanRequest& request, bool forced)
      : ref_(ref),
        paths_(paths),
        spec_(ref.index->spec()),
        conjuncts_(conjuncts),
        request_(request),
        forced_(forced),
        settled_(conjuncts.size(), false) {}

  Result<std::optional<IndexChoice>> run() {
    const std::uint32_t capabilities = ref_.index->capabilities();
    choice_.ref = &ref_;
    choice_.key_pattern = paths_ != nullptr ? paths_->key_pattern : spec_.key_pattern;
    choice_.multikey_fields =
        paths_ != nullptr ? paths_->multikey_fields : ref_.index->multikey_fields(ref_.state);
    choice_.repeats = choice_.multikey_fields != 0;
    parts_ = key_parts(choice_.key_pattern.view(), choice_.multikey_fields);
    agree_ = collators_agree(spec_.collator.get(), request_.collator);
    for (const KeyPart& part : parts_)
      if (!part.ordered && (capabilities & kIndexEquality) == 0) return std::nullopt;
    MULTIFORA_ASSIGN_R(const bool complete, holds_every_match());
    if (!complete && !forced_) return std::nullopt;
    for (std::size_t i = 0; i < parts_.size(); ++i) choose_bounds(i);
    if (paths_ != nullptr && !settle_paths()) return std::nullopt;
    choice_.bounded = !choice_.bounds[0].is_all();
    if (spec_.sparse && !forced_ && !sparse_serves()) return std::nullopt;
    collect_residual();
    find_order(capabilities);
    if (!choice_.bounded && !forced_ && !choice_.gives_order && !sparse_exists_ &&
        choice_.merge_fields == 0)
      return std::nullopt;
    choice_.covered = covers(capabilities);
    MULTIFORA_TRY_R(count());
    return std::move(choice_);
  }

 private:
  Result<bool> holds_every_match() {
    const ValueView partial = spec_.spec.view()["partialFilterExpression"];
    if (partial.type() != BsonType::kObject) return true;
    MatcherOptions options;
    options.collator = spec_.collator.get();
    MULTIFORA_ASSIGN_R(const auto matcher, Matcher::compile(partial.as_document(), options));
    if (!agree_) return false;
    return request_.matcher != nullptr &&
           implies(request_.matcher->root(), matcher->root(), request_.collator);
  }

  bool is_path_field(std::size_t field) const {
    return paths_ != nullptr && field == paths_->path_field;
  }

  // Without bounds on the values at the path, only that it exists can be asked.
  bool settle_paths() {
    if (!choice_.bounds[paths_->value_field].is_all()) return true;
    const bool exists = std::find(exists_fields_.begin(), exists_fields_.end(),
                                  paths_->value_field) != exists_fields_.end();
    if (!exists || !paths_->whole) return false;
    choice_.bounds[paths_->path_field] = path_bounds(paths_->paths, true);
    choice_.repeats = true;
    return true;
  }

  void choose_bounds(std::size_t field) {
    if (is_path_field(field)) {
      choice_.bounds.push_back(path_bounds(paths_->paths, false));
      return;
    }
    const KeyPart& part = parts_[field];
    BoundsContext context;
    context.collator = spec_.collator.get();
    context.collators_agree = agree_;
    context.multikey = part.multikey;
    context.positional = part.multikey && has_position(part.path);
    std::optional<FieldBounds> chosen;
    std::size_t chosen_from = 0;
    for (std::size_t i = 0; i < conjuncts_.size(); ++i) {
      auto bounds = bounds_on_path(*conjuncts_[i], part.path, context);
      if (!bounds) continue;
      if (context.positional) {
        // {a: [{x: 1}]} matches {"a.0": null} (its element has no field "0"), but has no null key.
        if (bounds->contains_null()) continue;
        bounds->exact = false;
      }
      if (conjuncts_[i]->kind() == MatchKind::kExists) exists_fields_.push_back(field);
      if (bounds->is_all()) continue;
      if (paths_ != nullptr && field == paths_->value_field && !has_entries_for(*bounds)) continue;
      if (!part.ordered) {
        if (!usable_points(*bounds)) continue;
        bounds->exact = false;  // what the index keeps of a value may be that of others too
      }
      if (part.multikey && !may_combine(field, *bounds)) continue;
      if (!chosen) {
        chosen = std::move(bounds);
        chosen_from = i;
        settled_[i] = chosen->exact;
      } else if (!part.multikey) {
        settled_[i] = bounds->exact;
        chosen = intersect_bounds(*chosen, *bounds, spec_.collator.get());
      } else if (is_tighter(*bounds, *chosen)) {
        settled_[chosen_from] = false;
        settled_[i] = bounds->exact;
        chosen = std::move(bounds);
        chosen_from = i;
      }
    }
    choice_.bounds.push_back(chosen ? std::move(*chosen) : FieldBounds::all());
  }

  static bool usable_points(const FieldBounds& bounds) {
    return !bounds.intervals.empty() && bounds.all_points();
  }

  // Two fields below one array: their conditions may be met by different elements.
  bool may_combine(std::size_t field, const FieldBounds& bounds) const {
    for (std::size_t i = 0; i < field; ++i) {
      if (!parts_[i].multikey || choice_.bounds[i].is_all()) continue;
      if (first_part(parts_[i].path) != first_part(parts_[field].path)) continue;
      if (bounds.elem_match == nullptr || bounds.elem_match != choice_.bounds[i].elem_match)
        return false;
    }
    return true;
  }

  static bool is_tighter(const FieldBounds& a, const FieldBounds& b) {
    if (a.all_points() != b.all_points()) return a.all_points();
    return a.intervals.size() < b.intervals.size();
  }

  // Does every matching document have at least one of the fields?
  bool sparse_serves() {
    for (const FieldBounds& bounds : choice_.bounds)
      if (!bounds.is_all() && !bounds.contains_null()) return true;
    sparse_exists_ = !exists_fields_.empty();
    return sparse_exists_;
  }

  void collect_residual() {
    for (std::size_t i = 0; i < conjuncts_.size(); ++i) {
      if (settled_[i] || conjuncts_[i]->kind() == MatchKind::kAlwaysTrue) continue;
      const bool sparse_exists = sparse_exists_ && parts_.size() == 1 &&
                                 choice_.multikey_fields == 0 &&
                                 conjuncts_[i]->kind() == MatchKind::kExists &&
                                 conjuncts_[i]->path() == parts_[0].path;
      if (!sparse_exists) choice_.residual.push_back(conjuncts_[i]);
    }
  }

  void find_order(std::uint32_t capabilities) {
    const SortPattern* sort = request_.sort;
    if (sort == nullptr || sort->empty() || (capabilities & kIndexOrder) == 0) return;
    if (!agree_ || (spec_.sparse && !choice_.bounded && !forced_)) return;
    if (orders(*sort, false, 0)) {
      choice_.gives_order = true;
    } else if (orders(*sort, true, 0)) {
      choice_.gives_order = choice_.backward = true;
    } else {
      find_merge(*sort);
    }
  }

  // The first `merged` fields count as constant.
  bool orders(const SortPattern& sort, bool backward, std::size_t merged) const {
    std::size_t field = 0;
    for (const SortPattern::Part& wanted : sort.parts()) {
      if (is_constant(wanted.path)) continue;
      while (field < parts_.size() && parts_[field].path != wanted.path &&
             (field < merged || choice_.bounds[field].single_point()))
        ++field;
      if (field == parts_.size() || parts_[field].path != wanted.path) return false;
      const KeyPart& part = parts_[field];
      if (part.multikey || !part.ordered) return false;
      if ((part.descending != backward) != wanted.descending) return false;
      ++field;
    }
    return true;
  }

  // One value only, so that sorting by it changes nothing.
  bool is_constant(std::string_view path) const {
    for (std::size_t i = 0; i < parts_.size(); ++i)
      if (parts_[i].path == path)
        return !parts_[i].multikey && choice_.bounds[i].single_point();
    return false;
  }

  void find_merge(const SortPattern& sort) {
    std::size_t scans = 1;
    for (std::size_t merged = 1; merged < parts_.size(); ++merged) {
      const FieldBounds& bounds = choice_.bounds[merged - 1];
      if (bounds.intervals.empty() || !bounds.all_points()) return;
      scans *= bounds.intervals.size();
      if (scans > kMergeMax) return;
      for (const bool backward : {false, true}) {
        if (!orders(sort, backward, merged)) continue;
        choice_.merge_fields = merged;
        choice_.backward = backward;
        return;
      }
    }
  }

  bool covers(std::uint32_t capabilities) const {
    if ((capabilities & kIndexCovered) == 0 || request_.needs_document) return false;
    if (!choice_.residual.empty()) return false;
    if (request_.return_key) return true;
    if (request_.projection == nullptr || !request_.projection->simple_inclusion()) return false;
    std::vector<std::string> paths;
    if (!request_.projection->add_dependencies(paths)) return false;
    for (const std::string& path : paths) {
      const auto part = std::find_if(parts_.begin(), parts_.end(),
                                     [&](const KeyPart& p) { return p.path == path; });
      if (part == parts_.end() || part->multikey || !part->ordered) return false;
    }
    return true;
  }

  Status count() {
    const ScanBounds scan(*ref_.index, choice_.key_pattern.view(), choice_.bounds);
    const ScanBounds::Ranges found = scan.ranges(kRangesMax);
    choice_.ranges = found.ranges.size();
    choice_.ranges_exact = found.exact;
    if ((ref_.index->capabilities() & kIndexCount) == 0) {
      choice_.ranges_exact = false;
      choice_.keys = ref_.index->stats(ref_.state).entries / (choice_.bounded ? 10 : 1);
      return {};
    }
    for (const ScanBounds::Range& range : found.ranges) {
      MULTIFORA_ASSIGN(const std::uint64_t keys,
                       ref_.index->count_range(ref_.state, range.from, range.to));
      choice_.keys += keys;
    }
    return {};
  }

  const IndexRef& ref_;
  const IndexPaths* const paths_;
  const IndexSpec& spec_;
  const Conjuncts& conjuncts_;
  const PlanRequest& request_;
  const bool forced_;
  bool agree_ = true;
  bool sparse_exists_ = false;
  std::vector<KeyPart> parts_;
  std::vector<bool> settled_;
  std::vector<std::size_t> exists_fields_;
  IndexChoice choice_;
};

}  // namespace

void append_conjuncts(const MatchNode& node, Conjuncts& out) {
  if (node.kind() != MatchKind::kAnd) out.push_back(&node);
  // Those of an $expr follow from it.
  if (node.kind() != MatchKind::kAnd && node.kind() != MatchKind::kExpr) return;
  for (const MatchNode::Ptr& child : node.children()) append_conjuncts(*child, out);
}

Status examine_index(const IndexRef& ref, const Conjuncts& conjuncts, const PlanRequest& request,
                     bool forced, std::vector<IndexChoice>& out) {
  const std::uint32_t capabilities = ref.index->capabilities();
  if (ref.building || (ref.index->spec().hidden && !forced) ||
      (capabilities & (kIndexEquality | kIndexRange)) == 0)
    return {};
  if ((capabilities & kIndexPaths) == 0) {
    MULTIFORA_ASSIGN(auto choice, Examination(ref, nullptr, conjuncts, request, forced).run());
    if (choice) out.push_back(std::move(*choice));
    return {};
  }
  std::set<std::string> wanted;
  for (const MatchNode* node : conjuncts) add_paths(*node, "", wanted);
  for (const std::string& path : wanted) {
    MULTIFORA_ASSIGN(const auto paths, ref.index->paths_for(ref.state, path));
    if (!paths) continue;
    MULTIFORA_ASSIGN(auto choice, Examination(ref, &*paths, conjuncts, request, forced).run());
    if (choice) out.push_back(std::move(*choice));
  }
  return {};
}

}  // namespace multifora::planner
