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
#include "core/base/limits.h"
#include "core/base/status.h"
#include "core/bson/collator.h"
#include "plugins/query-engine/value.h"

namespace multifora {

// What the values hold that an evaluation has in hand at once (arguments of operators, arrays and
// objects half made, variables): beyond, it fails with ExceededMemoryLimit.
inline constexpr std::size_t kExpressionHeldMax = 4 * limits::kExpressionValueSizeMax;
// Of constant expressions in one scope, so much is computed ahead: bytes read and made, and time.
// Whoever asks for more has it computed when it is needed, where it can be interrupted.
inline constexpr std::size_t kFoldBytesMax = 4 * 1024 * 1024;
inline constexpr std::int64_t kFoldMicrosMax = 50'000;
// Work on more bytes than this looks at the clock.
inline constexpr std::size_t kLongWorkBytes = 16 * 1024;

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

  // Whether a constant expression that reads `bytes` may be computed while parsing, and what that
  // took.
  bool may_fold(std::size_t bytes) const {
    return folded_us_ < kFoldMicrosMax && folded_bytes_ + bytes < kFoldBytesMax;
  }
  void note_fold(std::size_t bytes, std::int64_t us) {
    folded_bytes_ += bytes;
    folded_us_ += us;
  }

  // Slots of the names that every scope has. ROOT and CURRENT stand for EvalContext::root.
  enum SystemSlot { kRoot, kRemove, kNow, kClusterTime, kUserRoles, kSearchMeta, kSystemSlots };

 private:
  std::vector<std::pair<std::string, int>> names_;
  std::size_t slots_ = 0;
  Status failure_;
  std::size_t folded_bytes_ = 0;
  std::int64_t folded_us_ = 0;
};

// What evaluation needs besides the document. One a pipeline (or a find command).
struct EvalContext {
  DocumentView root;                     // $$ROOT of the document at hand
  std::vector<Value> variables;          // by slot; at least scope.slots()
  const Collator* collator = nullptr;    // of the command
  Interrupt* interrupt = nullptr;
  std::int64_t now_ms = 0;               // $$NOW, fixed for the command
  std::uint64_t cluster_time = 0;
  std::size_t held_bytes = 0;            // see Held

  // To be called before or after work on so many bytes: the interrupt's reason to stop.
  Status worked(std::size_t bytes) {
    if (interrupt == nullptr) return {};
    return bytes < kLongWorkBytes ? interrupt->check() : interrupt->check_slow();
  }

  // So many bytes more are held; fails where evaluation as a whole holds too much. Who takes them
  // gives them back by setting held_bytes.
  Status hold(std::size_t bytes) {
    held_bytes += bytes;
    return held_bytes > kExpressionHeldMax ? held_too_much() : Status();
  }
  static Status held_too_much();

  // Makes room where needed.
  void set_variable(int slot, Value value) {
    if (variables.size() <= static_cast<std::size_t>(slot)) variables.resize(slot + 1);
    variables[static_cast<std::size_t>(slot)] = std::move(value);
  }
};

// Bytes that a half evaluated expression holds while it evaluates the rest of itself.
class Held {
 public:
  explicit Held(EvalContext& context) : context_(context), before_(context.held_bytes) {}
  ~Held() { context_.held_bytes = before_; }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

  // All together.
  Status set(std::size_t bytes) {
    context_.held_bytes = before_;
    return context_.hold(bytes);
  }
  // A value more: what it views is not its own.
  Status add(const Value& value) {
    return value.is_view() ? Status() : context_.hold(value.view().size_bytes());
  }

 private:
  EvalContext& context_;
  std::size_t before_;
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
