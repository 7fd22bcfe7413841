// The pipeline optimiser: rules that keep results as they are.
//   $match $match -> one $match          $sort $match -> $match $sort
//   $addFields $match -> $match first, where the filter reads none of the fields
//   $lookup $unwind of its field -> one, that never builds the array
//   $skip $skip, $limit $limit -> one    $sort [$skip] $limit -> the sort keeps only so many
#include <algorithm>

#include "plugins/query-engine/stage_streaming.h"

namespace multifora {
namespace {

template <class T>
T* at(const StageList& stages, std::size_t i) {
  return i < stages.size() ? dynamic_cast<T*>(stages[i].get()) : nullptr;
}

StagePtr merge_matches(const MatchStage& a, const MatchStage& b) {
  DocumentBuilder filter;
  {
    ArrayBuilder both = filter.array("$and");
    both.append(a.matcher().filter());
    both.append(b.matcher().filter());
  }
  const OwnedDocument built = std::move(filter).finish();
  auto merged = MatchStage::make(a.pipeline_context(), built.view());
  if (!merged) return nullptr;
  return std::move(*merged);
}

// May the filter run before the stage's fields are set?
bool independent(const MatchStage& match, const ProjectStage& project) {
  std::vector<std::string> changed;
  std::vector<std::string> read;
  if (!project.changed_fields(changed) || !match.matcher().add_dependencies(read)) return false;
  return std::none_of(read.begin(), read.end(), [&](const std::string& path) {
    return std::find(changed.begin(), changed.end(), path.substr(0, path.find('.'))) !=
           changed.end();
  });
}

// One rule at position i; true where something changed.
bool apply_at(StageList& stages, std::size_t i) {
  const auto drop = [&](std::size_t k) {
    stages.erase(stages.begin() + static_cast<std::ptrdiff_t>(k));
  };
  if (i + 1 < stages.size() && stages[i]->absorb(*stages[i + 1])) {
    drop(i + 1);
    return true;
  }
  if (const auto* match = at<MatchStage>(stages, i + 1)) {
    if (const auto* before = at<MatchStage>(stages, i)) {
      StagePtr merged = merge_matches(*before, *match);
      if (!merged) return false;
      stages[i] = std::move(merged);
      drop(i + 1);
      return true;
    }
    const auto* sort = at<SortStage>(stages, i);
    const auto* project = at<ProjectStage>(stages, i);
    if ((sort != nullptr && sort->limit() == 0) ||
        (project != nullptr && independent(*match, *project))) {
      std::swap(stages[i], stages[i + 1]);
      return true;
    }
  }
  if (auto* skip = at<SkipStage>(stages, i); skip != nullptr) {
    if (const auto* next = at<SkipStage>(stages, i + 1)) {
      std::int64_t sum = 0;
      if (__builtin_add_overflow(skip->n(), next->n(), &sum)) return false;
      skip->set_n(sum);
      drop(i + 1);
      return true;
    }
  }
  if (auto* limit = at<LimitStage>(stages, i); limit != nullptr) {
    if (const auto* next = at<LimitStage>(stages, i + 1)) {
      limit->set_n(std::min(limit->n(), next->n()));
      drop(i + 1);
      return true;
    }
  }
  auto* sort = at<SortStage>(stages, i);
  if (sort == nullptr) return false;
  const auto set_limit = [&](std::int64_t n) {
    sort->set_limit(sort->limit() == 0 ? n : std::min(n, sort->limit()));
  };
  if (const auto* limit = at<LimitStage>(stages, i + 1)) {
    set_limit(limit->n());
    drop(i + 1);
    return true;
  }
  const auto* skip = at<SkipStage>(stages, i + 1);
  const auto* limit = at<LimitStage>(stages, i + 2);
  std::int64_t sum = 0;
  if (skip == nullptr || limit == nullptr || __builtin_add_overflow(skip->n(), limit->n(), &sum))
    return false;
  set_limit(sum);
  drop(i + 2);
  return true;
}

}  // namespace

void optimise(StageList& stages) {
  for (std::size_t i = 0; i < stages.size();) {
    if (apply_at(stages, i))
      i = i > 0 ? i - 1 : 0;
    else
      ++i;
  }
}

}  // namespace multifora
