#include "plugins/query-engine/numeric.h"

#include <cmath>
#include <limits>

#include "core/base/assert.h"

namespace multifora {
namespace {

int rank(BsonType t) {
  switch (t) {
    case BsonType::kInt32:
      return 0;
    case BsonType::kInt64:
      return 1;
    case BsonType::kDouble:
      return 2;
    default:
      return 3;
  }
}

// The sum of two doubles and what it lost.
void two_sum(double a, double b, double* sum, double* lost) {
  *sum = a + b;
  const double bb = *sum - a;
  *lost = (a - (*sum - bb)) + (b - bb);
}

}  // namespace

BsonType wider_number(BsonType a, BsonType b) {
  return rank(a) >= rank(b) ? a : b;
}

Decimal128 number_as_decimal(const ValueView& number) {
  switch (number.type()) {
    case BsonType::kInt32:
      return Decimal128(number.as_int32());
    case BsonType::kInt64:
      return Decimal128(number.as_int64());
    case BsonType::kDouble:
      return Decimal128::from_double(number.as_double());
    case BsonType::kDecimal128:
      return number.as_decimal();
    default:
      return Decimal128::zero();
  }
}

bool number_is_nan(const ValueView& number) {
  if (number.type() == BsonType::kDouble) return std::isnan(number.as_double());
  return number.type() == BsonType::kDecimal128 && number.as_decimal().is_nan();
}

bool number_is_zero(const ValueView& number) {
  switch (number.type()) {
    case BsonType::kInt32:
      return number.as_int32() == 0;
    case BsonType::kInt64:
      return number.as_int64() == 0;
    case BsonType::kDouble:
      return number.as_double() == 0;
    case BsonType::kDecimal128:
      return number.as_decimal().is_zero();
    default:
      return false;
  }
}

Value int_or_long(std::int64_t v) {
  if (v >= std::numeric_limits<std::int32_t>::min() &&
      v <= std::numeric_limits<std::int32_t>::max())
    return Value::of(static_cast<std::int32_t>(v));
  return Value::of(v);
}

bool exact_int32(const ValueView& number, std::int32_t* out) {
  std::int64_t v = 0;
  if (!number.exact_int64(&v)) return false;
  if (v < std::numeric_limits<std::int32_t>::min() || v > std::numeric_limits<std::int32_t>::max())
    return false;
  *out = static_cast<std::int32_t>(v);
  return true;
}

namespace {

template <class Whole, class Double, class Decimal>
Value combine(const ValueView& a, const ValueView& b, Whole whole, Double on_double,
              Decimal on_decimal) {
  const BsonType type = wider_number(a.type(), b.type());
  if (type == BsonType::kDecimal128)
    return Value::of(on_decimal(number_as_decimal(a), number_as_decimal(b)));
  if (type != BsonType::kDouble) {
    std::int64_t v = 0;
    if (!whole(a.number_as_int64(), b.number_as_int64(), &v))
      return type == BsonType::kInt32 ? int_or_long(v) : Value::of(v);
  }
  return Value::of(on_double(a.number_as_double(), b.number_as_double()));
}

}  // namespace

Value add_numbers(const ValueView& a, const ValueView& b) {
  return combine(
      a, b, [](auto x, auto y, auto* r) { return __builtin_add_overflow(x, y, r); },
      [](double x, double y) { return x + y; }, [](auto x, auto y) { return x.add(y); });
}

Value subtract_numbers(const ValueView& a, const ValueView& b) {
  return combine(
      a, b, [](auto x, auto y, auto* r) { return __builtin_sub_overflow(x, y, r); },
      [](double x, double y) { return x - y; }, [](auto x, auto y) { return x.subtract(y); });
}

Value multiply_numbers(const ValueView& a, const ValueView& b) {
  return combine(
      a, b, [](auto x, auto y, auto* r) { return __builtin_mul_overflow(x, y, r); },
      [](double x, double y) { return x * y; }, [](auto x, auto y) { return x.multiply(y); });
}

Value divide_numbers(const ValueView& a, const ValueView& b) {
  if (wider_number(a.type(), b.type()) == BsonType::kDecimal128)
    return Value::of(number_as_decimal(a).divide(number_as_decimal(b)));
  return Value::of(a.number_as_double() / b.number_as_double());
}

void NumberSum::add_double(double v) {
  if (!std::isfinite(v)) {
    special_ = specials_++ == 0 ? v : special_ + v;
    return;
  }
  double lost = 0;
  two_sum(sum_, v, &sum_, &lost);
  rest_ += lost;
}

void NumberSum::add(const ValueView& number) {
  type_ = wider_number(type_, number.type());
  switch (number.type()) {
    case BsonType::kInt32:
    case BsonType::kInt64:
      whole_ += number.number_as_int64();
      break;
    case BsonType::kDouble:
      add_double(number.as_double());
      break;
    default:
      decimal_ = decimal_.add(number.as_decimal());
      break;
  }
}

void NumberSum::subtract(const ValueView& number) {
  switch (number.type()) {
    case BsonType::kInt32:
    case BsonType::kInt64:
      whole_ -= number.number_as_int64();
      break;
    case BsonType::kDouble:
      add_double(-number.as_double());
      break;
    default:
      decimal_ = decimal_.subtract(number.as_decimal());
      break;
  }
}

double NumberSum::as_double() const {
  if (type_ == BsonType::kDecimal128) return as_decimal().to_double();
  if (specials_ > 0) return special_;
  // The whole part as two doubles that together are exact (it has at most 127 bits in theory, and
  // fewer than 106 in practice).
  const auto high = static_cast<double>(whole_);
  const auto low = static_cast<double>(whole_ - static_cast<Wide>(high));
  double sum = 0;
  double lost = 0;
  two_sum(sum_, high, &sum, &lost);
  return sum + (lost + rest_ + low);
}

Decimal128 NumberSum::as_decimal() const {
  Decimal128 total = decimal_;
  if (whole_ != 0) {
    const auto high = static_cast<std::int64_t>(whole_ >> 62);
    const auto low = static_cast<std::int64_t>(whole_ & ((Wide{1} << 62) - 1));
    const Decimal128 scale(std::int64_t{1} << 62);
    total = total.add(Decimal128(high).multiply(scale).add(Decimal128(low)));
  }
  if (specials_ > 0) return total.add(Decimal128::from_double(special_));
  if (sum_ != 0 || rest_ != 0) {
    total = total.add(Decimal128::from_double(sum_));
    if (rest_ != 0) total = total.add(Decimal128::from_double(rest_));
  }
  return total;
}

bool NumberSum::as_int64(std::int64_t* out) const {
  Wide total = whole_;
  if (type_ == BsonType::kDecimal128) {
    std::uint32_t flags = 0;
    *out = as_decimal().to_int64(Decimal128::Round::kTiesToEven, &flags);
    return (flags & Decimal128::kInvalid) == 0;
  }
  if (specials_ > 0) return false;
  const double fraction = std::nearbyint(sum_ + rest_);
  if (std::fabs(fraction) > 9.3e18) return false;
  total += static_cast<Wide>(fraction);
  if (total < std::numeric_limits<std::int64_t>::min() ||
      total > std::numeric_limits<std::int64_t>::max())
    return false;
  *out = static_cast<std::int64_t>(total);
  return true;
}

Value NumberSum::state() const {
  ArrayBuilder out;
  out.append(static_cast<std::int32_t>(type_));
  out.append(static_cast<std::int64_t>(whole_ >> 64));
  out.append(static_cast<std::int64_t>(whole_));
  out.append(sum_).append(rest_).append(special_).append(specials_).append(decimal_);
  return Value::array(std::move(out).finish());
}

void NumberSum::merge(const ValueView& state) {
  auto it = state.as_document().begin();
  type_ = wider_number(type_, static_cast<BsonType>(it->value().as_int32()));
  const std::int64_t high = (++it)->value().as_int64();
  const auto low = static_cast<std::uint64_t>((++it)->value().as_int64());
  whole_ += (static_cast<Wide>(high) << 64) + low;
  add_double((++it)->value().as_double());
  add_double((++it)->value().as_double());
  const double special = (++it)->value().as_double();
  const std::int64_t specials = (++it)->value().as_int64();
  if (specials > 0) {
    special_ = specials_ > 0 ? special_ + special : special;
    specials_ += specials;
  }
  decimal_ = decimal_.add((++it)->value().as_decimal());
}

Value NumberSum::total() const {
  switch (type_) {
    case BsonType::kDecimal128:
      return Value::of(as_decimal());
    case BsonType::kDouble:
      return Value::of(as_double());
    default:
      break;
  }
  if (whole_ < std::numeric_limits<std::int64_t>::min() ||
      whole_ > std::numeric_limits<std::int64_t>::max())
    return Value::of(static_cast<double>(whole_));
  const auto v = static_cast<std::int64_t>(whole_);
  return type_ == BsonType::kInt32 ? int_or_long(v) : Value::of(v);
}

}  // namespace multifora
