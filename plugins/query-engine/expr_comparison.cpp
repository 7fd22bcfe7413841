// $cmp, $eq, $ne, $gt, $gte, $lt, $lte. They never fold: the collation is not known while parsing.
#include "core/bson/compare.h"
#include "plugins/query-engine/expression_table.h"

namespace multifora {
namespace {

int compare(Args args, EvalContext& context) {
  return compare_values(args[0].view(), args[1].view(), context.collator);
}

Result<Value> cmp(Args args, EvalContext& context) {
  const int order = compare(args, context);
  return Value::of(std::int32_t{order < 0 ? -1 : order > 0 ? 1 : 0});
}
Result<Value> eq(Args args, EvalContext& context) {
  return Value::of(equal_values(args[0].view(), args[1].view(), context.collator));
}
Result<Value> ne(Args args, EvalContext& context) {
  return Value::of(!equal_values(args[0].view(), args[1].view(), context.collator));
}
Result<Value> gt(Args args, EvalContext& c) { return Value::of(compare(args, c) > 0); }
Result<Value> gte(Args args, EvalContext& c) { return Value::of(compare(args, c) >= 0); }
Result<Value> lt(Args args, EvalContext& c) { return Value::of(compare(args, c) < 0); }
Result<Value> lte(Args args, EvalContext& c) { return Value::of(compare(args, c) <= 0); }

constexpr OperatorRow row(std::string_view name, StrictFunction f) {
  return {.name = name, .min_args = 2, .max_args = 2, .strict = f, .flags = kNoFold};
}
constexpr OperatorRow kRows[] = {
    row("$cmp", cmp), row("$eq", eq), row("$gt", gt),   row("$gte", gte),
    row("$lt", lt),   row("$lte", lte), row("$ne", ne),
};

}  // namespace

std::span<const OperatorRow> comparison_operators() { return kRows; }

}  // namespace multifora
