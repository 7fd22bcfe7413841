#include "core/bson/decimal128.h"

#include <algorithm>
#include <cmath>

// How Debian's libbidgcc000 was built: arguments by value, rounding mode by value, flags by
// pointer. The archive's name spells the three switches in this order.
#define DECIMAL_CALL_BY_REFERENCE 0
#define DECIMAL_GLOBAL_ROUNDING 0
#define DECIMAL_GLOBAL_EXCEPTION_FLAGS 0
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#include <bid_conf.h>
//
#include <bid_functions.h>
#pragma GCC diagnostic pop

namespace multifora {

namespace {

__extension__ using Uint128 = unsigned __int128;

constexpr int kExponentBias = 6176;
constexpr int kExponentMax = 6111;
constexpr int kDigitsMax = 34;
constexpr int kDoubleDigits = 15;

static_assert(Decimal128::kInvalid == BID_INVALID_EXCEPTION);
static_assert(Decimal128::kDenormal == BID_DENORMAL_EXCEPTION);
static_assert(Decimal128::kDivideByZero == BID_ZERO_DIVIDE_EXCEPTION);
static_assert(Decimal128::kOverflow == BID_OVERFLOW_EXCEPTION);
static_assert(Decimal128::kUnderflow == BID_UNDERFLOW_EXCEPTION);
static_assert(Decimal128::kInexact == BID_INEXACT_EXCEPTION);
static_assert(static_cast<int>(Decimal128::Round::kTiesToEven) == BID_ROUNDING_TO_NEAREST);
static_assert(static_cast<int>(Decimal128::Round::kDown) == BID_ROUNDING_DOWN);
static_assert(static_cast<int>(Decimal128::Round::kUp) == BID_ROUNDING_UP);
static_assert(static_cast<int>(Decimal128::Round::kTowardZero) == BID_ROUNDING_TO_ZERO);
static_assert(static_cast<int>(Decimal128::Round::kTiesToAway) == BID_ROUNDING_TIES_AWAY);

BID_UINT128 bid(Decimal128 value) {
  BID_UINT128 result;
  result.w[0] = value.low();
  result.w[1] = value.high();
  return result;
}

Decimal128 decimal(BID_UINT128 value) {
  return {value.w[0], value.w[1]};
}

// Intel's functions take a place for their flags always; ours only where the caller wants them.
class FlagsOut {
 public:
  explicit FlagsOut(std::uint32_t* to) : to_(to) {}
  FlagsOut(const FlagsOut&) = delete;
  FlagsOut& operator=(const FlagsOut&) = delete;
  ~FlagsOut() {
    if (to_ != nullptr) *to_ |= flags_;
  }
  operator _IDEC_flags*() { return &flags_; }

 private:
  std::uint32_t* to_;
  _IDEC_flags flags_ = 0;
};

// A finite value taken apart: coefficient * 10^exponent.
struct Parts {
  Uint128 coefficient;
  int exponent;
};

constexpr Uint128 coefficient_max() {
  Uint128 power = 1;
  for (int i = 0; i < kDigitsMax; ++i) power *= 10;
  return power - 1;
}

Parts parts_of(Decimal128 value) {
  // The form with the bits 11 holds coefficients of 2^113 and more. All are above 10^34 - 1: they
  // are not canonical and mean zero, like a large coefficient in the usual form.
  if ((value.high() >> 61 & 3) == 3)
    return {0, static_cast<int>(value.high() >> 47 & 0x3fff) - kExponentBias};
  const Uint128 coefficient =
      Uint128{value.high() & 0x1ffffffffffffull} << 64 | Uint128{value.low()};
  const int exponent = static_cast<int>(value.high() >> 49 & 0x3fff) - kExponentBias;
  return {coefficient > coefficient_max() ? 0 : coefficient, exponent};
}

std::string digits_of(Uint128 coefficient) {
  std::string digits;
  do {
    digits.push_back(static_cast<char>('0' + static_cast<int>(coefficient % 10)));
    coefficient /= 10;
  } while (coefficient != 0);
  std::reverse(digits.begin(), digits.end());
  return digits;
}

// 10^exponent, for quantize().
Decimal128 power_of_ten(int exponent) {
  exponent = std::clamp(exponent, -kExponentBias, kExponentMax);
  return {1, static_cast<std::uint64_t>(exponent + kExponentBias) << 49};
}

// ---- Text ----

bool equals_ignoring_case(std::string_view text, std::string_view lower) {
  return text.size() == lower.size() &&
         std::equal(text.begin(), text.end(), lower.begin(), [](char a, char b) {
           return (a >= 'A' && a <= 'Z' ? static_cast<char>(a + ('a' - 'A')) : a) == b;
         });
}

// The number as text that every reader of decimals takes: few digits and a small exponent.
struct ParsedNumber {
  std::string digits;  // significant ones; at most kKept, then one that stands for the rest
  std::int64_t exponent = 0;
};

// Far beyond 34: what follows can only break a tie, for which one digit serves.
constexpr std::size_t kKept = 50;
// Far beyond what a number can have; sums with lengths of text cannot overflow.
constexpr std::int64_t kExponentLimit = 1'000'000'000'000;

class NumberParser {
 public:
  explicit NumberParser(std::string_view text) : text_(text) {}

  bool parse(ParsedNumber* out) {
    bool any = parse_digits(false);
    if (eat('.')) any = parse_digits(true) || any;
    if (!any) return false;
    if ((eat('e') || eat('E')) && !parse_exponent()) return false;
    if (at_ != text_.size()) return false;
    if (dropped_nonzero_)
      out->digits = digits_ + '1';
    else
      out->digits = digits_.empty() ? "0" : digits_;
    // The digit for the rest stands one place to the right of the last that was kept.
    out->exponent = exponent_ - (dropped_nonzero_ ? 1 : 0);
    return true;
  }

 private:
  bool eat(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool at_digit() const { return at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; }

  bool parse_digits(bool fraction) {
    const std::size_t start = at_;
    for (; at_digit(); ++at_) take_digit(text_[at_], fraction);
    return at_ > start;
  }

  void take_digit(char digit, bool fraction) {
    if (digits_.empty() && digit == '0') {
      if (fraction) --exponent_;
    } else if (digits_.size() < kKept) {
      digits_.push_back(digit);
      if (fraction) --exponent_;
    } else {
      dropped_nonzero_ = dropped_nonzero_ || digit != '0';
      if (!fraction) ++exponent_;
    }
  }

  bool parse_exponent() {
    const bool negative = eat('-');
    if (!negative) eat('+');
    if (!at_digit()) return false;
    std::int64_t value = 0;
    for (; at_digit(); ++at_) value = std::min(value * 10 + (text_[at_] - '0'), kExponentLimit);
    exponent_ += negative ? -value : value;
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string digits_;
  std::int64_t exponent_ = 0;
  bool dropped_nonzero_ = false;
};

}  // namespace

// ---- Construction ----

Decimal128::Decimal128(std::int32_t value) : Decimal128(static_cast<std::int64_t>(value)) {}

Decimal128::Decimal128(std::int64_t value)
    : low_(value < 0 ? -static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value)),
      high_(0x3040000000000000ull | (value < 0 ? 1ull << 63 : 0)) {}

Decimal128 Decimal128::from_double_34(double value) {
  return decimal(binary64_to_bid128(value, BID_ROUNDING_TO_NEAREST, FlagsOut(nullptr)));
}

Decimal128 Decimal128::from_double(double value) {
  const Decimal128 wide = from_double_34(value);
  if (!wide.is_finite() || wide.is_zero()) return wide;
  const Parts parts = parts_of(wide);
  const int leading = parts.exponent + static_cast<int>(digits_of(parts.coefficient).size()) - 1;
  const Decimal128 rounded = wide.quantize(power_of_ten(leading - (kDoubleDigits - 1)));
  // 9.999... may have become 10.00...: one digit too many.
  if (digits_of(parts_of(rounded).coefficient).size() == kDoubleDigits) return rounded;
  return wide.quantize(power_of_ten(leading - (kDoubleDigits - 2)));
}

Result<Decimal128> Decimal128::parse(std::string_view text, std::uint32_t* flags) {
  const auto bad = [&] {
    return fail(ErrorCode::kBadValue,
                "Failed to parse '" + std::string(text) + "' as a decimal number");
  };
  std::string_view rest = text;
  const bool negative = rest.starts_with('-');
  if (negative || rest.starts_with('+')) rest.remove_prefix(1);
  if (equals_ignoring_case(rest, "nan")) return nan();
  if (equals_ignoring_case(rest, "inf") || equals_ignoring_case(rest, "infinity"))
    return infinity(negative);
  ParsedNumber number;
  if (!NumberParser(rest).parse(&number)) return bad();
  // Beyond these bounds the result is zero, infinity or clamped all the same.
  const std::int64_t exponent = std::clamp<std::int64_t>(number.exponent, -20'000, 20'000);
  std::string plain = negative ? "-" : "";
  plain.append(number.digits).append("E").append(std::to_string(exponent));
  // Intel's reader calls a zero whose exponent it clamps inexact; it is exact.
  if (number.digits == "0") flags = nullptr;
  return decimal(bid128_from_string(plain.data(), BID_ROUNDING_TO_NEAREST, FlagsOut(flags)));
}

Decimal128 Decimal128::zero() {
  return {};
}
Decimal128 Decimal128::nan() {
  return {0, 0x7c00000000000000ull};
}
Decimal128 Decimal128::infinity(bool negative) {
  return {0, negative ? 0xf800000000000000ull : 0x7800000000000000ull};
}

std::string Decimal128::to_string() const {
  if (is_nan()) return "NaN";
  std::string text = is_negative() ? "-" : "";
  if (is_infinite()) return text + "Infinity";
  const Parts parts = parts_of(*this);
  const std::string digits = digits_of(parts.coefficient);
  const int count = static_cast<int>(digits.size());
  const int adjusted = parts.exponent + count - 1;
  if (parts.exponent > 0 || adjusted < -6) {
    text.append(digits, 0, 1);
    if (count > 1) text.append(".").append(digits, 1);
    return text.append(adjusted < 0 ? "E" : "E+").append(std::to_string(adjusted));
  }
  if (parts.exponent == 0) return text + digits;
  const int whole = count + parts.exponent;  // digits before the point
  if (whole > 0) return text.append(digits, 0, whole).append(".").append(digits, whole);
  return text.append("0.").append(-whole, '0').append(digits);
}

// ---- Predicates ----

bool Decimal128::is_nan() const {
  return (high_ >> 58 & 0x1f) == 0x1f;
}
bool Decimal128::is_infinite() const {
  return (high_ >> 58 & 0x1f) == 0x1e;
}
bool Decimal128::is_negative() const {
  return high_ >> 63 != 0;
}
bool Decimal128::is_zero() const {
  return is_finite() && parts_of(*this).coefficient == 0;
}

// ---- Arithmetic ----

Decimal128 Decimal128::add(Decimal128 other, std::uint32_t* flags) const {
  return decimal(bid128_add(bid(*this), bid(other), BID_ROUNDING_TO_NEAREST, FlagsOut(flags)));
}

Decimal128 Decimal128::subtract(Decimal128 other, std::uint32_t* flags) const {
  return decimal(bid128_sub(bid(*this), bid(other), BID_ROUNDING_TO_NEAREST, FlagsOut(flags)));
}

Decimal128 Decimal128::multiply(Decimal128 other, std::uint32_t* flags) const {
  return decimal(bid128_mul(bid(*this), bid(other), BID_ROUNDING_TO_NEAREST, FlagsOut(flags)));
}

Decimal128 Decimal128::divide(Decimal128 other, std::uint32_t* flags) const {
  return decimal(bid128_div(bid(*this), bid(other), BID_ROUNDING_TO_NEAREST, FlagsOut(flags)));
}

Decimal128 Decimal128::modulo(Decimal128 other, std::uint32_t* flags) const {
  return decimal(bid128_fmod(bid(*this), bid(other), FlagsOut(flags)));
}

Decimal128 Decimal128::negate() const {
  return {low_, high_ ^ 1ull << 63};
}
Decimal128 Decimal128::abs() const {
  return {low_, high_ & ~(1ull << 63)};
}

Decimal128 Decimal128::square_root(std::uint32_t* flags) const {
  return decimal(bid128_sqrt(bid(*this), BID_ROUNDING_TO_NEAREST, FlagsOut(flags)));
}

Decimal128 Decimal128::exponential() const {
  return decimal(bid128_exp(bid(*this), BID_ROUNDING_TO_NEAREST, FlagsOut(nullptr)));
}

Decimal128 Decimal128::natural_log() const {
  return decimal(bid128_log(bid(*this), BID_ROUNDING_TO_NEAREST, FlagsOut(nullptr)));
}

Decimal128 Decimal128::log10() const {
  return decimal(bid128_log10(bid(*this), BID_ROUNDING_TO_NEAREST, FlagsOut(nullptr)));
}

Decimal128 Decimal128::power(Decimal128 exponent, std::uint32_t* flags) const {
  return decimal(bid128_pow(bid(*this), bid(exponent), BID_ROUNDING_TO_NEAREST, FlagsOut(flags)));
}

Decimal128 Decimal128::trig(Trig function) const {
  using Function = BID_UINT128 (*)(BID_UINT128, _IDEC_round, _IDEC_flags*);
  static constexpr Function kFunctions[] = {bid128_sin,  bid128_cos,   bid128_tan,   bid128_asin,
                                            bid128_acos, bid128_atan,  bid128_sinh,  bid128_cosh,
                                            bid128_tanh, bid128_asinh, bid128_acosh, bid128_atanh};
  return decimal(kFunctions[static_cast<int>(function)](bid(*this), BID_ROUNDING_TO_NEAREST,
                                                        FlagsOut(nullptr)));
}

Decimal128 Decimal128::atan2(Decimal128 x) const {
  return decimal(bid128_atan2(bid(*this), bid(x), BID_ROUNDING_TO_NEAREST, FlagsOut(nullptr)));
}

Decimal128 Decimal128::quantize(Decimal128 reference, Round mode, std::uint32_t* flags) const {
  return decimal(
      bid128_quantize(bid(*this), bid(reference), static_cast<_IDEC_round>(mode), FlagsOut(flags)));
}

Decimal128 Decimal128::round_to_integral(Round mode) const {
  return decimal(
      bid128_round_integral_exact(bid(*this), static_cast<_IDEC_round>(mode), FlagsOut(nullptr)));
}

// ---- Conversion ----

std::int32_t Decimal128::to_int32(Round mode, std::uint32_t* flags) const {
  using Function = int (*)(BID_UINT128, _IDEC_flags*);
  static constexpr Function kByMode[] = {bid128_to_int32_xrnint, bid128_to_int32_xfloor,
                                         bid128_to_int32_xceil, bid128_to_int32_xint,
                                         bid128_to_int32_xrninta};
  return kByMode[static_cast<int>(mode)](bid(*this), FlagsOut(flags));
}

std::int64_t Decimal128::to_int64(Round mode, std::uint32_t* flags) const {
  using Function = BID_SINT64 (*)(BID_UINT128, _IDEC_flags*);
  static constexpr Function kByMode[] = {bid128_to_int64_xrnint, bid128_to_int64_xfloor,
                                         bid128_to_int64_xceil, bid128_to_int64_xint,
                                         bid128_to_int64_xrninta};
  return kByMode[static_cast<int>(mode)](bid(*this), FlagsOut(flags));
}

double Decimal128::to_double(std::uint32_t* flags, Round mode) const {
  return bid128_to_binary64(bid(*this), static_cast<_IDEC_round>(mode), FlagsOut(flags));
}

// ---- Order ----

int Decimal128::compare(Decimal128 other) const {
  if (is_nan() || other.is_nan())
    return static_cast<int>(other.is_nan()) - static_cast<int>(is_nan());
  const BID_UINT128 a = bid(*this);
  const BID_UINT128 b = bid(other);
  if (bid128_quiet_less(a, b, FlagsOut(nullptr))) return -1;
  return bid128_quiet_equal(a, b, FlagsOut(nullptr)) ? 0 : 1;
}

int Decimal128::compare(double other) const {
  if (std::isnan(other)) return is_nan() ? 0 : 1;
  // The largest decimal that is not above `other`. Where it is not `other` itself, no decimal lies
  // between the two, so that its neighbours decide.
  std::uint32_t flags = 0;
  const Decimal128 floor = decimal(binary64_to_bid128(other, BID_ROUNDING_DOWN, FlagsOut(&flags)));
  const int order = compare(floor);
  if ((flags & kInexact) == 0) return order;
  return order <= 0 ? -1 : 1;
}

Decimal128 Decimal128::normalized() const {
  if (is_nan()) return nan();
  if (is_infinite()) return infinity(is_negative());
  Parts parts = parts_of(*this);
  if (parts.coefficient == 0) return zero();
  while (parts.coefficient % 10 == 0 && parts.exponent < kExponentMax) {
    parts.coefficient /= 10;
    ++parts.exponent;
  }
  const std::uint64_t sign = high_ & 1ull << 63;
  const auto biased = static_cast<std::uint64_t>(parts.exponent + kExponentBias);
  return {static_cast<std::uint64_t>(parts.coefficient),
          sign | biased << 49 | static_cast<std::uint64_t>(parts.coefficient >> 64)};
}

int Decimal128::compare(std::int64_t other) const {
  return compare(Decimal128(other));
}

}  // namespace multifora
