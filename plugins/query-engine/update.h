// Updates: operator documents, replacements and pipelines, compiled once a command and applied to
// one document's bytes at a time. Operators are rows in one table (update_*.cpp).
// Immutable; apply() from one thread at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/bson/view.h"
#include "plugins/query-engine/expression.h"
#include "plugins/query-engine/matcher.h"

namespace multifora {

struct UpdateOptions {
  const Collator* collator = nullptr;
  DocumentView array_filters;          // an array; empty where none
  DocumentView constants;              // `c` of a pipeline update / let
  bool upsert = false;
};

struct UpdateInput {
  DocumentView document;               // current content, or the upsert's seed
  const MatchDetails* match = nullptr; // positional $
  bool is_insert = false;              // an upsert: $setOnInsert applies, _id is put first (the
                                       // caller makes one where the result has none)
  std::uint64_t cluster_time = 0;      // $currentDate timestamp
  std::int64_t now_ms = 0;
  // Receives the paths of objects and arrays that were set as a whole, for UpdateShape; may be null.
  std::vector<std::string>* assigned = nullptr;
};

class Update {
 public:
  // `spec`: an operator document, a replacement document, or an array (pipeline).
  static Result<std::unique_ptr<const Update>> compile(const ValueView& spec,
                                                       const UpdateOptions& options,
                                                       VariableScope& scope);
  virtual ~Update() = default;
  virtual bool is_replacement() const = 0;
  virtual bool is_pipeline() const = 0;
  // Appends the new document to `out` (a whole one; out may hold other bytes before it; what it holds
  // after a failure is worthless) and says
  // whether it differs from input.document. Checks _id immutability (66), document size (17419 /
  // 10334), depth, and every operator's own errors.
  virtual Result<bool> apply(const UpdateInput& input, EvalContext& context, Buffer& out) const = 0;
  virtual bool needs_match_details() const = 0;
};

// The document an upsert starts from: the equality conditions of `filter` (with $and, $eq, $in of one,
// $all of one), nested by dotted paths; codes 54 NotSingleValueField and others as MongoDB.
// For a replacement only _id is taken.
Result<OwnedDocument> upsert_seed(const Matcher& filter, bool replacement);

std::vector<std::string_view> update_operator_names();

}  // namespace multifora
