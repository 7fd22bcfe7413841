// $and, $or, $not: the first two stop at the argument that decides.
#include "plugins/query-engine/expression_table.h"

namespace multifora {
namespace {

template <bool Decisive>
Result<Value> first_that_is(const Node& node, EvalContext& context) {
  for (std::size_t i = 0; i < node.size(); ++i) {
    MULTIFORA_ASSIGN_R(const Value v, node.eval_passing(i, context));
    if (v.view().truthy() == Decisive) return Value::of(Decisive);
  }
  return Value::of(!Decisive);
}

Result<Value> negate(Args args, EvalContext&) { return Value::of(!args[0].view().truthy()); }

constexpr OperatorRow kRows[] = {
    {.name = "$and", .lazy = first_that_is<false>},
    {.name = "$not", .min_args = 1, .max_args = 1, .strict = negate},
    {.name = "$or", .lazy = first_that_is<true>},
};

}  // namespace

std::span<const OperatorRow> boolean_operators() { return kRows; }

}  // namespace multifora
