// Window functions of $setWindowFields: one output field over one partition.
//
// A WindowFunction is parsed once; compute() gets the partition's documents, ordered, and gives one
// value a document. Immutable; one thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plugins/query-engine/accumulator.h"
#include "plugins/query-engine/datetime.h"
#include "plugins/query-engine/sort_key.h"

namespace multifora {

// The documents of one partition.
struct Partition {
  std::vector<OwnedDocument> documents;
  std::vector<std::string> sort_keys;  // one a document; empty where there is no sortBy
};

// A bound of a window; nullopt: unbounded.
struct WindowBounds {
  enum class Kind { kDocuments, kRange } kind = Kind::kDocuments;
  std::optional<double> low, high;      // documents: whole numbers
  std::optional<DateUnit> unit;         // of a range over dates
};

class WindowFunction {
 public:
  // {$op: argument, window: {...}}
  static Result<std::unique_ptr<WindowFunction>> parse(std::string_view field, DocumentView spec,
                                                       const SortPattern* sort, VariableScope& scope);
  virtual ~WindowFunction() = default;
  virtual Result<std::vector<Value>> compute(const Partition& partition, EvalContext& eval) const = 0;
};

// Names of those that are no accumulators ($rank ...).
std::vector<std::string_view> window_only_names();

// window_bounds.cpp
Result<WindowBounds> parse_window(const ValueView& window, const SortPattern* sort);
struct IndexRange {
  std::size_t from = 0, to = 0;  // [from, to)
};
// The window of each document.
Result<std::vector<IndexRange>> window_ranges(const Partition& partition, const WindowBounds& bounds,
                                              const SortPattern* sort);

}  // namespace multifora
