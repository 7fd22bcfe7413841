// $bitAnd, $bitOr, $bitXor, $bitNot.
#include <fmt/format.h>

#include "plugins/query-engine/expression_table.h"

namespace multifora {
namespace {

using enum BsonType;

enum class Bit { kAnd, kOr, kXor };

Result<Value> combine(std::string_view name, Bit bit, Args args) {
  std::int64_t result = bit == Bit::kAnd ? -1 : 0;
  bool wide = false;
  bool null = false;
  for (const Value& v : args) {
    const ValueView view = v.view();
    if (view.is_nullish()) {
      null = true;
      continue;
    }
    if (view.type() != kInt32 && view.type() != kInt64)
      return fail(
          ErrorCode::kTypeMismatch,
          fmt::format("{} only supports int and long operands, not {}.", name, type_text(view)));
    wide = wide || view.type() == kInt64;
    const std::int64_t n = view.number_as_int64();
    result = bit == Bit::kAnd ? result & n : bit == Bit::kOr ? result | n : result ^ n;
  }
  if (null) return Value::null();
  return wide ? Value::of(result) : Value::of(static_cast<std::int32_t>(result));
}

Result<Value> bit_and(Args args, EvalContext&) {
  return combine("$bitAnd", Bit::kAnd, args);
}
Result<Value> bit_or(Args args, EvalContext&) {
  return combine("$bitOr", Bit::kOr, args);
}
Result<Value> bit_xor(Args args, EvalContext&) {
  return combine("$bitXor", Bit::kXor, args);
}

Result<Value> bit_not(Args args, EvalContext&) {
  const ValueView a = args[0].view();
  if (a.is_nullish()) return Value::null();
  if (a.type() == kInt32) return Value::of(~a.as_int32());
  if (a.type() == kInt64) return Value::of(~a.as_int64());
  return fail(ErrorCode::kTypeMismatch,
              fmt::format("$bitNot only supports int and long, not {}.", type_text(a)));
}

constexpr OperatorRow kRows[] = {
    {.name = "$bitAnd", .strict = bit_and},
    {.name = "$bitNot", .min_args = 1, .max_args = 1, .strict = bit_not},
    {.name = "$bitOr", .strict = bit_or},
    {.name = "$bitXor", .strict = bit_xor},
};

}  // namespace

std::span<const OperatorRow> bitwise_operators() {
  return kRows;
}

}  // namespace multifora
