// Projections: find's projection, $project, $addFields/$set and $unset. Parsed once, run on bytes.
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

enum class ProjectionKind { kFind, kProject, kAddFields };

// Values of $meta, and what a positional projection needs.
struct ProjectionInput {
  DocumentView document;
  const MatchDetails* match = nullptr;   // positional $
};

class Projection {
 public:
  // `filter` (may be null) is the query of a find, needed by the positional operator.
  // 8.0's codes: 31253, 31254, 31249, 31250, 31324, 31325, 31394, 31395, 51246 ...
  static Result<std::unique_ptr<const Projection>> parse(DocumentView spec, ProjectionKind kind,
                                                         const Matcher* filter,
                                                         const MatcherOptions& options,
                                                         VariableScope& scope);
  virtual ~Projection() = default;
  // Appends the projected document to `out` (a whole document). context.root is set here.
  virtual Status apply(const ProjectionInput& input, EvalContext& context, Buffer& out) const = 0;
  virtual bool is_inclusion() const = 0;
  virtual bool needs_match_details() const = 0;
  // Paths of the input that the output depends on; false: whole document.
  virtual bool add_dependencies(std::vector<std::string>& paths) const = 0;
  // Only plain inclusions, so an index that holds the fields can cover it.
  virtual bool simple_inclusion() const = 0;
  virtual void append_to(DocumentBuilder& out, std::string_view name) const = 0;
};

}  // namespace multifora
