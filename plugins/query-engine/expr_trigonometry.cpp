// $sin ... $atanh, $atan2, $degreesToRadians, $radiansToDegrees.
#include <cmath>
#include <limits>
#include <numbers>

#include <fmt/format.h>

#include "plugins/query-engine/expression_table.h"
#include "plugins/query-engine/numeric.h"

namespace multifora {
namespace {

using Trig = Decimal128::Trig;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Function {
  std::string_view name;
  double (*on_double)(double);
  Trig on_decimal;
  double low, high;
  bool closed;  // are the limits themselves allowed?
};

constexpr Function kFunctions[] = {
    {"$sin", std::sin, Trig::kSin, -kInfinity, kInfinity, false},
    {"$cos", std::cos, Trig::kCos, -kInfinity, kInfinity, false},
    {"$tan", std::tan, Trig::kTan, -kInfinity, kInfinity, false},
    {"$asin", std::asin, Trig::kAsin, -1, 1, true},
    {"$acos", std::acos, Trig::kAcos, -1, 1, true},
    {"$atan", std::atan, Trig::kAtan, -kInfinity, kInfinity, true},
    {"$sinh", std::sinh, Trig::kSinh, -kInfinity, kInfinity, true},
    {"$cosh", std::cosh, Trig::kCosh, -kInfinity, kInfinity, true},
    {"$tanh", std::tanh, Trig::kTanh, -kInfinity, kInfinity, true},
    {"$asinh", std::asinh, Trig::kAsinh, -kInfinity, kInfinity, true},
    {"$acosh", std::acosh, Trig::kAcosh, 1, kInfinity, true},
    {"$atanh", std::atanh, Trig::kAtanh, -1, 1, true},
};

bool in_range(const Function& f, const ValueView& v) {
  if (v.type() == BsonType::kDecimal128) {
    const int low = v.as_decimal().compare(f.low);
    const int high = v.as_decimal().compare(f.high);
    return f.closed ? low >= 0 && high <= 0 : low > 0 && high < 0;
  }
  const double d = v.number_as_double();
  return f.closed ? d >= f.low && d <= f.high : d > f.low && d < f.high;
}

Result<Value> apply(const Function& f, const Value& arg) {
  const ValueView a = arg.view();
  if (a.is_nullish()) return Value::null();
  if (!a.is_number())
    return fail_code(28765,
                     fmt::format("{} only supports numeric types, not {}", f.name, type_text(a)));
  if (number_is_nan(a)) return arg;
  if (!in_range(f, a))
    return fail_code(50989, fmt::format("cannot apply {} to {}, value must be in {}{},{}{}", f.name,
                                        value_text(a), f.closed ? '[' : '(', f.low, f.high,
                                        f.closed ? ']' : ')'));
  if (a.type() == BsonType::kDecimal128) return Value::of(a.as_decimal().trig(f.on_decimal));
  return Value::of(f.on_double(a.number_as_double()));
}

template <std::size_t I>
Result<Value> function(Args args, EvalContext&) {
  return apply(kFunctions[I], args[0]);
}

Result<Value> atan2(Args args, EvalContext&) {
  const ValueView y = args[0].view();
  const ValueView x = args[1].view();
  if (y.is_nullish() || x.is_nullish()) return Value::null();
  if (!y.is_number() || !x.is_number())
    return fail_code(y.is_number() ? 51045 : 51044,
                     fmt::format("$atan2 only supports numeric types, not {} and {}", type_text(y),
                                 type_text(x)));
  if (wider_number(y.type(), x.type()) == BsonType::kDecimal128)
    return Value::of(number_as_decimal(y).atan2(number_as_decimal(x)));
  return Value::of(std::atan2(y.number_as_double(), x.number_as_double()));
}

constexpr std::string_view kPiOver180 = "0.01745329251994329576923690768488613";
constexpr std::string_view k180OverPi = "57.29577951308232087679815481410517";

Result<Value> scaled(std::string_view name, const Value& arg, std::string_view factor) {
  const ValueView a = arg.view();
  if (a.is_nullish()) return Value::null();
  if (!a.is_number())
    return fail_code(28765,
                     fmt::format("{} only supports numeric types, not {}", name, type_text(a)));
  const Decimal128 f = *Decimal128::parse(factor);
  if (a.type() == BsonType::kDecimal128) return Value::of(a.as_decimal().multiply(f));
  return Value::of(a.number_as_double() * f.to_double());
}
Result<Value> degrees_to_radians(Args args, EvalContext&) {
  return scaled("$degreesToRadians", args[0], kPiOver180);
}
Result<Value> radians_to_degrees(Args args, EvalContext&) {
  return scaled("$radiansToDegrees", args[0], k180OverPi);
}

template <std::size_t I>
constexpr OperatorRow row() {
  return {.name = kFunctions[I].name, .min_args = 1, .max_args = 1, .strict = function<I>};
}

constexpr OperatorRow kRows[] = {
    row<0>(),
    row<1>(),
    row<2>(),
    row<3>(),
    row<4>(),
    row<5>(),
    row<6>(),
    row<7>(),
    row<8>(),
    row<9>(),
    row<10>(),
    row<11>(),
    {.name = "$atan2", .min_args = 2, .max_args = 2, .strict = atan2},
    {.name = "$degreesToRadians", .min_args = 1, .max_args = 1, .strict = degrees_to_radians},
    {.name = "$radiansToDegrees", .min_args = 1, .max_args = 1, .strict = radians_to_degrees},
};

}  // namespace

std::span<const OperatorRow> trigonometry_operators() {
  return kRows;
}

}  // namespace multifora
