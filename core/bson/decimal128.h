// IEEE 754-2008 decimal128 (BID encoding, as BSON stores it): a thin value over Intel's decimal
// library. Thread-safe: rounding mode and status flags are passed, never global. Where a function
// takes `flags`, bits are added to *flags (never cleared); null means that nobody asks.
// Arithmetic rounds ties to even. Encodings that are not canonical (a coefficient above 10^34 - 1)
// mean zero.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/status.h"

namespace multifora {

class Decimal128 {
 public:
  // Bits set by operations that were asked to report them (IEEE exceptions).
  enum Flags : std::uint32_t {
    kInvalid = 0x01,
    kDenormal = 0x02,
    kDivideByZero = 0x04,
    kOverflow = 0x08,
    kUnderflow = 0x10,
    kInexact = 0x20,
  };
  enum class Round { kTiesToEven, kDown, kUp, kTowardZero, kTiesToAway };

  constexpr Decimal128() = default;  // 0E0
  constexpr Decimal128(std::uint64_t low, std::uint64_t high) : low_(low), high_(high) {}
  explicit Decimal128(std::int32_t value);
  explicit Decimal128(std::int64_t value);
  // Exact expansion of the double rounded to 34 digits.
  static Decimal128 from_double_34(double value);
  // As MongoDB converts (15 significant digits, trailing zeros kept: 1.1 is 1.10000000000000). Zero
  // is 0 and keeps its sign.
  static Decimal128 from_double(double value);
  // Parses "1.5E3", "NaN", "Infinity", "-inf" ... (letters of any case, no spaces), rounding to 34
  // digits (kInexact), to infinity (kOverflow) or towards zero (kUnderflow); BadValue on anything
  // else.
  static Result<Decimal128> parse(std::string_view text, std::uint32_t* flags = nullptr);

  static Decimal128 zero();  // 0E0
  static Decimal128 nan();
  static Decimal128 infinity(bool negative = false);

  std::uint64_t low() const { return low_; }
  std::uint64_t high() const { return high_; }

  // The form of the BSON specification's decimal128 appendix ("1.50E+3", "NaN").
  std::string to_string() const;

  bool is_nan() const;
  bool is_infinite() const;
  bool is_negative() const;  // sign bit, also of -0 and NaN
  bool is_zero() const;
  bool is_finite() const { return !is_nan() && !is_infinite(); }

  Decimal128 add(Decimal128 other, std::uint32_t* flags = nullptr) const;
  Decimal128 subtract(Decimal128 other, std::uint32_t* flags = nullptr) const;
  Decimal128 multiply(Decimal128 other, std::uint32_t* flags = nullptr) const;
  Decimal128 divide(Decimal128 other, std::uint32_t* flags = nullptr) const;
  Decimal128 modulo(Decimal128 other, std::uint32_t* flags = nullptr) const;  // C fmod's sign
  Decimal128 negate() const;
  Decimal128 abs() const;
  Decimal128 square_root(std::uint32_t* flags = nullptr) const;
  Decimal128 exponential() const;
  Decimal128 natural_log() const;
  Decimal128 log10() const;
  Decimal128 power(Decimal128 exponent, std::uint32_t* flags = nullptr) const;
  // sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh, by name of the function.
  enum class Trig {
    kSin,
    kCos,
    kTan,
    kAsin,
    kAcos,
    kAtan,
    kSinh,
    kCosh,
    kTanh,
    kAsinh,
    kAcosh,
    kAtanh
  };
  Decimal128 trig(Trig function) const;
  Decimal128 atan2(Decimal128 x) const;  // this is y
  // Rounded to the exponent of `reference` (IEEE quantize).
  Decimal128 quantize(Decimal128 reference, Round mode = Round::kTiesToEven,
                      std::uint32_t* flags = nullptr) const;
  Decimal128 round_to_integral(Round mode) const;

  // kInvalid is set in *flags where the value does not fit; kInexact where a fraction was cut.
  std::int32_t to_int32(Round mode, std::uint32_t* flags) const;
  std::int64_t to_int64(Round mode, std::uint32_t* flags) const;
  double to_double(std::uint32_t* flags = nullptr, Round mode = Round::kTiesToEven) const;

  // -1, 0, 1 by value; NaN equals NaN and is below every number (MongoDB's order).
  int compare(Decimal128 other) const;
  // Exact comparisons with the binary types, same conventions.
  int compare(double other) const;
  int compare(std::int64_t other) const;
  // The one of this value's forms (1.0, 1, 10E-1 ...) whose coefficient has the fewest digits; zero
  // is 0E0 whatever its sign, a NaN is nan().
  Decimal128 normalized() const;
  // Same bits.
  bool identical(Decimal128 other) const { return low_ == other.low_ && high_ == other.high_; }

 private:
  std::uint64_t low_ = 0;
  std::uint64_t high_ = 0x3040000000000000ull;
};

}  // namespace multifora
