// Accumulators: what $group, $bucket, $setWindowFields and their relatives compute over many
// documents.
//
// An AccumulatorSpec is one parsed `{$sum: <expression>}`; it makes Accumulators, one a group. For
// each document the stage evaluates input() and add()s it. Accumulators are rows, one table a file
// (acc_*.cpp). When a stage runs out of memory it writes state() to disk and merge()s later, in the
// order in which the states were made.
//
// A spec is immutable; an accumulator belongs to one thread.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/query-engine/operator.h"

namespace multifora {

class Accumulator {
 public:
  virtual ~Accumulator() = default;
  virtual Status add(const Value& input) = 0;
  virtual Result<Value> result() const = 0;
  // Undoes the oldest add that is still counted (its input given), for sliding windows. False where
  // that cannot be done: the window is then computed anew.
  virtual bool remove(const Value&) { return false; }
  virtual Value state() const = 0;
  virtual Status merge(const ValueView& state) = 0;
  virtual std::size_t memory_bytes() const { return 64; }
};

struct AccumulatorRow;

class AccumulatorSpec {
 public:
  // `argument` is the value of {$name: argument}. 15952 for an unknown name.
  static Result<std::unique_ptr<AccumulatorSpec>> parse(std::string_view name,
                                                        const ValueView& argument,
                                                        VariableScope& scope);
  virtual ~AccumulatorSpec() = default;
  // The document's contribution (context.root); what add() takes.
  virtual Result<Value> input(EvalContext& context) const = 0;
  // A fresh one. Arguments such as $firstN's n are evaluated with context.root as the group's key.
  virtual Result<std::unique_ptr<Accumulator>> make(EvalContext& context) const = 0;
  virtual bool add_dependencies(std::vector<std::string>& paths) const = 0;
  virtual void append_to(DocumentBuilder& out, std::string_view name) const = 0;
};

using SpecPtr = std::unique_ptr<AccumulatorSpec>;
using AccumulatorPtr = std::unique_ptr<Accumulator>;

// What the rows' make functions know.
struct AccumulatorArguments {
  const Collator* collator = nullptr;
  std::int64_t n = 1;          // $firstN ...
};

struct AccumulatorRow {
  std::string_view name;
  // Either the common case, one expression as argument ...
  AccumulatorPtr (*make)(const AccumulatorArguments& arguments) = nullptr;
  // ... or its own parsing.
  Result<SpecPtr> (*parse)(const AccumulatorRow& row, const ValueView& argument,
                           VariableScope& scope) = nullptr;
};

std::span<const AccumulatorRow> number_accumulators();
std::span<const AccumulatorRow> order_accumulators();
std::span<const AccumulatorRow> collection_accumulators();
std::span<const AccumulatorRow> top_accumulators();
std::span<const AccumulatorRow> percentile_accumulators();

// Null: unknown.
const AccumulatorRow* find_accumulator(std::string_view name);

// One expression as argument; `n` (may be null) an expression of the group's key.
SpecPtr make_simple_spec(const AccumulatorRow& row, ExpressionPtr input, ExpressionPtr n);
// The n of $firstN and its kind: 5787902 not a whole number, 5787908 not positive.
Result<std::int64_t> check_n(std::string_view op, const ValueView& v);

// --- accumulators that expressions share -------------------------------------------------------
// The percentiles `p` of numbers that were sorted.
double percentile_of(std::span<const double> sorted, double p);
// Checks {p: [...], method: ...} of $percentile and $median.
Status check_percentiles(const ValueView& p, std::vector<double>* out);
Status check_percentile_method(std::string_view op, const ValueView& method);

}  // namespace multifora
