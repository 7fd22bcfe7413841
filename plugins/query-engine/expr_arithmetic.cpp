// $add, $subtract, $multiply, $divide, $mod, $pow, roots and logarithms, rounding.
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "plugins/query-engine/expression_table.h"
#include "plugins/query-engine/numeric.h"

namespace multifora {
namespace {

using enum BsonType;

Result<Value> add(Args args, EvalContext&) {
  NumberSum sum;
  bool have_date = false;
  std::int64_t date = 0;
  for (const Value& v : args) {
    const ValueView view = v.view();
    if (view.is_nullish()) return Value::null();
    if (view.is_number()) {
      sum.add(view);
    } else if (view.type() == kDate) {
      if (have_date) return fail_code(16612, "only one date allowed in an $add expression");
      have_date = true;
      date = view.as_date_ms();
    } else {
      return fail(ErrorCode::kTypeMismatch,
                  fmt::format("$add only supports numeric or date types, not {}", type_text(view)));
    }
  }
  if (!have_date) return sum.total();
  std::int64_t ms = 0;
  if (!sum.as_int64(&ms) || __builtin_add_overflow(ms, date, &ms))
    return fail(ErrorCode::kOverflow, "date overflow in $add");
  return Value::date_ms(ms);
}

Result<Value> subtract(Args args, EvalContext&) {
  const ValueView a = args[0].view();
  const ValueView b = args[1].view();
  if (a.is_nullish() || b.is_nullish()) return Value::null();
  if (a.is_number() && b.is_number()) return subtract_numbers(a, b);
  if (a.type() == kDate) {
    std::int64_t ms = 0;
    if (b.type() == kDate) {
      if (__builtin_sub_overflow(a.as_date_ms(), b.as_date_ms(), &ms))
        return fail(ErrorCode::kOverflow, "date overflow in $subtract");
      return Value::of(ms);
    }
    if (b.is_number()) {
      NumberSum sum;
      sum.add(b);
      if (!sum.as_int64(&ms) || __builtin_sub_overflow(a.as_date_ms(), ms, &ms))
        return fail(ErrorCode::kOverflow, "date overflow in $subtract");
      return Value::date_ms(ms);
    }
  }
  return fail(ErrorCode::kTypeMismatch,
              fmt::format("can't $subtract {} from {}", type_text(b), type_text(a)));
}

Result<Value> multiply(Args args, EvalContext&) {
  Value product = Value::of(std::int32_t{1});
  for (const Value& v : args) {
    const ValueView view = v.view();
    if (view.is_nullish()) return Value::null();
    if (!view.is_number())
      return fail(ErrorCode::kTypeMismatch,
                  fmt::format("$multiply only supports numeric types, not {}", type_text(view)));
    product = multiply_numbers(product.view(), view);
  }
  return product;
}

Result<Value> divide(Args args, EvalContext&) {
  const ValueView a = args[0].view();
  const ValueView b = args[1].view();
  if (a.is_nullish() || b.is_nullish()) return Value::null();
  if (!a.is_number() || !b.is_number())
    return fail(ErrorCode::kTypeMismatch,
                fmt::format("$divide only supports numeric types, not {} and {}", type_text(a),
                            type_text(b)));
  if (number_is_zero(b)) return fail(ErrorCode::kBadValue, "can't $divide by zero");
  return divide_numbers(a, b);
}

Result<Value> mod(Args args, EvalContext&) {
  const ValueView a = args[0].view();
  const ValueView b = args[1].view();
  if (a.is_nullish() || b.is_nullish()) return Value::null();
  if (!a.is_number() || !b.is_number())
    return fail_code(16611, fmt::format("$mod only supports numeric types, not {} and {}",
                                        type_text(a), type_text(b)));
  if (number_is_zero(b)) return fail_code(16610, "can't $mod by zero");
  switch (wider_number(a.type(), b.type())) {
    case kDecimal128:
      return Value::of(number_as_decimal(a).modulo(number_as_decimal(b)));
    case kDouble:
      return Value::of(std::fmod(a.number_as_double(), b.number_as_double()));
    case kInt64: {
      const std::int64_t d = b.number_as_int64();
      return Value::of(d == -1 ? std::int64_t{0} : a.number_as_int64() % d);
    }
    default: {
      const std::int32_t d = b.as_int32();
      return Value::of(d == -1 ? std::int32_t{0} : a.as_int32() % d);
    }
  }
}

std::unexpected<Status> not_numeric(std::string_view name, const ValueView& v) {
  return fail_code(28765,
                   fmt::format("{} only supports numeric types, not {}", name, type_text(v)));
}

Result<Value> abs(Args args, EvalContext&) {
  const ValueView a = args[0].view();
  switch (a.type()) {
    case kInt32:
      if (a.as_int32() == std::numeric_limits<std::int32_t>::min())
        return Value::of(-static_cast<std::int64_t>(a.as_int32()));
      return Value::of(std::abs(a.as_int32()));
    case kInt64:
      if (a.as_int64() == std::numeric_limits<std::int64_t>::min())
        return fail_code(28680, "can't take $abs of long long min");
      return Value::of(static_cast<std::int64_t>(std::abs(a.as_int64())));
    case kDouble:
      return Value::of(std::fabs(a.as_double()));
    case kDecimal128:
      return Value::of(a.as_decimal().abs());
    default:
      break;
  }
  if (a.is_nullish()) return Value::null();
  return not_numeric("$abs", a);
}

template <auto OnDouble, Decimal128::Round Mode>
Result<Value> to_whole(std::string_view name, Args args) {
  const ValueView a = args[0].view();
  if (a.is_nullish()) return Value::null();
  if (!a.is_number()) return not_numeric(name, a);
  if (a.type() == kDouble) return Value::of(OnDouble(a.as_double()));
  if (a.type() != kDecimal128) return args[0];
  // An infinity cannot be brought to an exponent: the result is NaN.
  const Decimal128 d = a.as_decimal();
  return Value::of(d.is_finite() ? d.round_to_integral(Mode) : Decimal128::nan());
}
double ceil_double(double v) {
  return std::ceil(v);
}
double floor_double(double v) {
  return std::floor(v);
}
Result<Value> ceil(Args args, EvalContext&) {
  return to_whole<ceil_double, Decimal128::Round::kUp>("$ceil", args);
}
Result<Value> floor(Args args, EvalContext&) {
  return to_whole<floor_double, Decimal128::Round::kDown>("$floor", args);
}

Result<Value> exp(Args args, EvalContext&) {
  const ValueView a = args[0].view();
  if (a.is_nullish()) return Value::null();
  if (!a.is_number()) return not_numeric("$exp", a);
  if (a.type() == kDecimal128) return Value::of(a.as_decimal().exponential());
  return Value::of(std::exp(a.number_as_double()));
}

bool is_positive(const ValueView& v) {  // NaN too: it goes through to the result
  if (number_is_nan(v)) return true;
  return !number_is_zero(v) &&
         (v.type() == kDecimal128 ? !v.as_decimal().is_negative() : v.number_as_double() > 0);
}

Result<Value> ln(Args args, EvalContext&) {
  const ValueView a = args[0].view();
  if (a.is_nullish()) return Value::null();
  if (!a.is_number()) return not_numeric("$ln", a);
  if (!is_positive(a))
    return fail_code(
        28766, fmt::format("$ln's argument must be a positive number, but is {}", value_text(a)));
  if (a.type() == kDecimal128) return Value::of(a.as_decimal().natural_log());
  return Value::of(std::log(a.number_as_double()));
}

Result<Value> log10(Args args, EvalContext&) {
  const ValueView a = args[0].view();
  if (a.is_nullish()) return Value::null();
  if (!a.is_number()) return not_numeric("$log10", a);
  if (!is_positive(a))
    return fail_code(28761, fmt::format("$log10's argument must be a positive number, but is {}",
                                        value_text(a)));
  if (a.type() == kDecimal128) return Value::of(a.as_decimal().log10());
  return Value::of(std::log10(a.number_as_double()));
}

Result<Value> log(Args args, EvalContext&) {
  const ValueView a = args[0].view();
  const ValueView b = args[1].view();
  if (a.is_nullish() || b.is_nullish()) return Value::null();
  if (!a.is_number())
    return fail_code(28756, fmt::format("$log's argument must be numeric, not {}", type_text(a)));
  if (!b.is_number())
    return fail_code(28757, fmt::format("$log's base must be numeric, not {}", type_text(b)));
  if (!is_positive(a))
    return fail_code(
        28758, fmt::format("$log's argument must be a positive number, but is {}", value_text(a)));
  if (!is_positive(b) || b.number_as_double() == 1)
    return fail_code(28759, fmt::format("$log's base must be a positive number not equal to 1, but "
                                        "is {}",
                                        value_text(b)));
  if (wider_number(a.type(), b.type()) == kDecimal128)
    return Value::of(number_as_decimal(a).natural_log().divide(number_as_decimal(b).natural_log()));
  return Value::of(std::log(a.number_as_double()) / std::log(b.number_as_double()));
}

Result<Value> sqrt(Args args, EvalContext&) {
  const ValueView a = args[0].view();
  if (a.is_nullish()) return Value::null();
  if (!a.is_number()) return not_numeric("$sqrt", a);
  if (!number_is_nan(a) && !number_is_zero(a) && !is_positive(a))
    return fail_code(28714, "$sqrt's argument must be greater than or equal to 0");
  if (a.type() == kDecimal128) return Value::of(a.as_decimal().square_root());
  return Value::of(std::sqrt(a.number_as_double()));
}

// base^exponent in whole numbers; false where it does not fit.
bool whole_power(std::int64_t base, std::int64_t exponent, std::int64_t* out) {
  std::int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) return false;
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return false;
  }
  *out = result;
  return true;
}

Value power_of_whole(const ValueView& a, const ValueView& b) {
  const std::int64_t base = a.number_as_int64();
  const std::int64_t exponent = b.number_as_int64();
  const bool narrow = wider_number(a.type(), b.type()) == kInt32;
  const auto whole = [&](std::int64_t v) { return narrow ? int_or_long(v) : Value::of(v); };
  if (base == 0 && exponent > 0) return whole(0);
  if (base == 1 || exponent == 0) return whole(1);
  if (base == -1) return whole((exponent & 1) != 0 ? -1 : 1);
  std::int64_t v = 0;
  if (exponent > 0 && whole_power(base, exponent, &v)) return whole(v);
  return Value::of(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
}

Result<Value> pow(Args args, EvalContext&) {
  const ValueView a = args[0].view();
  const ValueView b = args[1].view();
  if (a.is_nullish() || b.is_nullish()) return Value::null();
  if (!a.is_number())
    return fail_code(28762, fmt::format("$pow's base must be numeric, not {}", type_text(a)));
  if (!b.is_number())
    return fail_code(28763, fmt::format("$pow's exponent must be numeric, not {}", type_text(b)));
  if (number_is_zero(a) && !number_is_nan(b) && !number_is_zero(b) && !is_positive(b))
    return fail_code(28764, "$pow cannot take a base of 0 and a negative exponent");
  switch (wider_number(a.type(), b.type())) {
    case kDecimal128:
      return Value::of(number_as_decimal(a).power(number_as_decimal(b)));
    case kDouble:
      return Value::of(std::pow(a.number_as_double(), b.number_as_double()));
    default:
      return power_of_whole(a, b);
  }
}

// $round and $trunc to `place` digits after the point (before it where negative).
Result<Value> round_to(std::string_view name, Args args, Decimal128::Round mode) {
  const ValueView a = args[0].view();
  std::int32_t place = 0;
  if (args.size() == 2) {
    const ValueView p = args[1].view();
    if (p.is_nullish()) return Value::null();
    if (!p.is_number() || !exact_int32(p, &place))
      return fail_code(51082,
                       fmt::format("precision argument to  {} must be a integral value", name));
    if (place < -20 || place > 100)
      return fail_code(51083,
                       fmt::format("cannot apply {} with precision value {} value must be in "
                                   "[-20, 100]",
                                   name, place));
  }
  if (a.is_nullish()) return Value::null();
  if (!a.is_number())
    return fail_code(51081,
                     fmt::format("{} only supports numeric types, not {}", name, type_text(a)));
  const std::string text = fmt::format("1E{}", -place);
  const Decimal128 quantum = *Decimal128::parse(text);
  switch (a.type()) {
    case kDecimal128: {
      const Decimal128 d = a.as_decimal();
      return Value::of(d.is_finite() ? d.quantize(quantum, mode) : Decimal128::nan());
    }
    case kDouble: {
      if (!std::isfinite(a.as_double())) return args[0];
      if (place == 0)
        return Value::of(mode == Decimal128::Round::kTowardZero ? std::trunc(a.as_double())
                                                                : std::nearbyint(a.as_double()));
      const Decimal128 exact = Decimal128::from_double_34(a.as_double());
      const Decimal128 rounded = exact.quantize(quantum, mode);
      return rounded.is_nan() ? args[0] : Value::of(rounded.to_double());
    }
    default:
      break;
  }
  if (place >= 0) return args[0];
  std::uint32_t flags = 0;
  const Decimal128 rounded = Decimal128(a.number_as_int64()).quantize(quantum, mode);
  const std::int64_t v = rounded.to_int64(Decimal128::Round::kTiesToEven, &flags);
  if ((flags & Decimal128::kInvalid) != 0)
    return fail_code(51080, fmt::format("invalid conversion from Decimal128 result in {} resulting "
                                        "from arguments: [{}, {}]",
                                        name, value_text(a), place));
  return a.type() == kInt32 ? int_or_long(v) : Value::of(v);
}
Result<Value> round(Args args, EvalContext&) {
  return round_to("$round", args, Decimal128::Round::kTiesToEven);
}
Result<Value> trunc(Args args, EvalContext&) {
  return round_to("$trunc", args, Decimal128::Round::kTowardZero);
}

Result<Value> sigmoid(Args args, EvalContext&) {
  const ValueView a = args[0].view();
  if (a.is_nullish()) return Value::null();
  if (!a.is_number())
    return fail(ErrorCode::kTypeMismatch,
                fmt::format("$sigmoid only supports numeric types, not {}", type_text(a)));
  if (a.type() == kDecimal128) {
    const Decimal128 one(std::int32_t{1});
    return Value::of(one.divide(one.add(a.as_decimal().negate().exponential())));
  }
  return Value::of(1.0 / (1.0 + std::exp(-a.number_as_double())));
}

constexpr OperatorRow kRows[] = {
    {.name = "$abs", .min_args = 1, .max_args = 1, .strict = abs},
    {.name = "$add", .strict = add},
    {.name = "$ceil", .min_args = 1, .max_args = 1, .strict = ceil},
    {.name = "$divide", .min_args = 2, .max_args = 2, .strict = divide},
    {.name = "$exp", .min_args = 1, .max_args = 1, .strict = exp},
    {.name = "$floor", .min_args = 1, .max_args = 1, .strict = floor},
    {.name = "$ln", .min_args = 1, .max_args = 1, .strict = ln},
    {.name = "$log", .min_args = 2, .max_args = 2, .strict = log},
    {.name = "$log10", .min_args = 1, .max_args = 1, .strict = log10},
    {.name = "$mod", .min_args = 2, .max_args = 2, .strict = mod},
    {.name = "$multiply", .strict = multiply},
    {.name = "$pow", .min_args = 2, .max_args = 2, .strict = pow},
    {.name = "$round", .min_args = 1, .max_args = 2, .strict = round},
    {.name = "$sigmoid", .min_args = 1, .max_args = 1, .strict = sigmoid},
    {.name = "$sqrt", .min_args = 1, .max_args = 1, .strict = sqrt},
    {.name = "$subtract", .min_args = 2, .max_args = 2, .strict = subtract},
    {.name = "$trunc", .min_args = 1, .max_args = 2, .strict = trunc},
};

}  // namespace

std::span<const OperatorRow> arithmetic_operators() {
  return kRows;
}

}  // namespace multifora
