// The matcher: MongoDB's query language, compiled once a command, run on bytes.
//
// Operators are rows in one table a family (match_compare.cpp, match_logic.cpp ...). A Matcher is
// immutable; matches() may be called from several threads with a context of their own. The filter's
// bytes are copied: they need not outlive compile.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/bson/collator.h"
#include "core/bson/view.h"
#include "plugins/query-engine/expression.h"

namespace multifora {

struct MatchDetails {
  std::int64_t array_index = -1;  // for the positional operator: index in the first array matched
};

struct MatcherOptions {
  const Collator* collator = nullptr;   // outlives the matcher
  VariableScope* scope = nullptr;       // for $expr; null: only system variables
  bool allow_expr = true;               // false for an upsert's query: QueryFeatureNotAllowed 224
  bool allow_text_and_geo = true;       // parsed positions where MongoDB allows them at all
};

class MatchNode;  // match_node.h: the tree, for the planner

class Matcher {
 public:
  static Result<std::unique_ptr<const Matcher>> compile(DocumentView filter,
                                                        const MatcherOptions& options);
  ~Matcher();

  // `context` is needed where the filter has $expr (needs_context()); its root is set here.
  // An $expr that fails while running is a failed Result (MongoDB fails the command).
  Result<bool> matches(DocumentView document, EvalContext* context = nullptr,
                       MatchDetails* details = nullptr) const;
  bool needs_context() const;
  bool always_true() const;  // the empty filter
  const MatchNode& root() const;
  DocumentView filter() const;           // as given
  void append_parsed(DocumentBuilder& out, std::string_view name) const;  // explain's parsedQuery
  // Dotted paths it reads; false: the whole document ($expr on $$ROOT, $where ...).
  bool add_dependencies(std::vector<std::string>& paths) const;

 private:
  Matcher();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// An array element against an $elemMatch / $pull condition: operators apply to the element itself.
class ElementMatcher {
 public:
  // {$gt: 1, $lt: 5} (operators), or a filter on the element's fields, or a plain value (equality).
  static Result<std::unique_ptr<const ElementMatcher>> compile(const ValueView& condition,
                                                               const MatcherOptions& options);
  virtual ~ElementMatcher() = default;
  virtual Result<bool> matches(const ValueView& element, EvalContext* context) const = 0;
};

std::vector<std::string_view> match_operator_names();

}  // namespace multifora
