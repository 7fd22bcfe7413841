// Aggregation expressions: parsed and folded once a command, evaluated on bytes.
//
// Operators are rows: `{name, parse function}` in one table a file (expr_arithmetic.cpp, expr_array.cpp,
// ...; see operator.h), collected in expression_table.cpp; adding an operator touches its family's
// file only.
// An Expression is immutable after parsing and may be evaluated by one thread at a time.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/interrupt.h"
#include "core/base/status.h"
#include "core/bson/collator.h"
#include "plugins/query-engine/value.h"

namespace multifora {

// Names visible while parsing: ROOT, CURRENT, REMOVE, NOW, CLUSTER_TIME, USER_ROLES and user
// variables (let, $let, $map, $lookup ...). Each name has a slot in EvalContext::variables.
class VariableScope {
 public:
  VariableScope();
  // Slot of `name`, or -1. User names start lower-case or non-ASCII; checked by define.
  int find(std::string_view name) const;
  Result<int> define(std::string_view name);  // FailedToParse (codes 16866..16868 etc.) for a bad name
  // Makes a name of the server visible ($redact's DESCEND, $merge's new): no check of the name.
  int define_system(std::string_view name);
  // A nested scope: names defined after mark() vanish with release(mark).
  std::size_t mark() const { return names_.size(); }
  void release(std::size_t mark);
  std::size_t slots() const { return slots_; }

  // The first failure of an expression of constants, such as {$divide: [1, 0]}, in what was parsed so
  // far. Whoever is about to run it fails with it, also where there is no document to evaluate it
  // for; what is only parsed (a view, a validator) does not.
  void note_failure(Status failure) {
    if (failure_.ok()) failure_ = std::move(failure);
  }
  const Status& failure() const { return failure_; }

  // Slots of the names that every scope has. ROOT and CURRENT stand for EvalContext::root.
  enum SystemSlot { kRoot, kRemove, kNow, kClusterTime, kUserRoles, kSearchMeta, kSystemSlots };

 private:
  std::vector<std::pair<std::string, int>> names_;
  std::size_t slots_ = 0;
  Status failure_;
};

// What evaluation needs besides the document. One a pipeline (or a find command).
struct EvalContext {
  DocumentView root;                     // $$ROOT of the document at hand
  std::vector<Value> variables;          // by slot; at least scope.slots()
  const Collator* collator = nullptr;    // of the command
  Interrupt* interrupt = nullptr;
  std::int64_t now_ms = 0;               // $$NOW, fixed for the command
  std::uint64_t cluster_time = 0;

  // Makes room where needed.
  void set_variable(int slot, Value value) {
    if (variables.size() <= static_cast<std::size_t>(slot)) variables.resize(slot + 1);
    variables[static_cast<std::size_t>(slot)] = std::move(value);
  }
};

class Expression {
 public:
  virtual ~Expression() = default;
  // Missing is a value of its own (a field that is not there); errors carry MongoDB's codes.
  virtual Result<Value> evaluate(EvalContext& context) const = 0;
  // Constant folding: the value where it does not depend on document or variables.
  virtual const Value* constant() const { return nullptr; }
  // Dotted paths of the root document that it reads; false: the whole document.
  virtual bool add_dependencies(std::vector<std::string>& paths) const = 0;
  // As explain shows it.
  virtual void append_to(DocumentBuilder& out, std::string_view name) const = 0;
  // "a.b" where it is exactly the field path "$a.b"; empty otherwise.
  virtual std::string_view field_path() const { return {}; }
};

using ExpressionPtr = std::unique_ptr<Expression>;

// A constant, and the field path "a.b" of the root document.
ExpressionPtr make_constant(Value value);
Result<ExpressionPtr> make_field_path(std::string_view dotted);

// Checks a dotted path as MongoDB's FieldPath does: 15998 (empty name), 40353 (ends with a dot),
// 16410 (starts with $), 16411 (NUL).
Status check_field_path(std::string_view dotted);
// The same for one name: also 16412 (contains a dot).
Status check_field_name(std::string_view name);

// Parses any expression: literal, "$path", "$$var.path", {operator: args}, object, array.
Result<std::unique_ptr<Expression>> parse_expression(const ValueView& spec, VariableScope& scope);

// Defines the variables of a `let` document in `scope`; evaluates them (constants or other let
// variables only) into context.variables.
Status bind_let(DocumentView let, VariableScope& scope, EvalContext& context);

// Registered names ("$add", ...), sorted: for the operator report.
std::vector<std::string_view> expression_names();

}  // namespace multifora
