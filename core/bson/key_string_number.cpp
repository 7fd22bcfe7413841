// Numbers in key strings. The format is described at the top of key_string.cpp.
#include <array>
#include <cmath>
#include <limits>

#include "core/bson/key_string_format.h"

namespace multifora::key_string {
namespace {

__extension__ using UInt128 = unsigned __int128;

constexpr std::uint64_t kTwo63 = std::uint64_t{1} << 63;
constexpr std::uint64_t kCanonicalNaN = 0x7ff8000000000000ull;
constexpr int kExponentMin = -6176;
constexpr int kExponentMax = 6111;
constexpr int kExponentBias = 8192;  // of the continuation's exponent
constexpr int kDigitsMax = 34;

constexpr auto kPowersOf10 = [] {
  std::array<UInt128, kDigitsMax + 1> powers{};
  powers[0] = 1;
  for (std::size_t i = 1; i < powers.size(); ++i) powers[i] = powers[i - 1] * 10;
  return powers;
}();
constexpr UInt128 power_of_10(int n) {
  return kPowersOf10[static_cast<std::size_t>(n)];
}
constexpr UInt128 kCoefficientEnd = power_of_10(kDigitsMax);

int digit_count(UInt128 value) {
  int n = 1;
  while (n < kDigitsMax && value >= power_of_10(n)) ++n;
  return n;
}

// A finite decimal as sign * coefficient * 10^exponent, coefficient without trailing zeros.
struct Parts {
  bool negative = false;
  UInt128 coefficient = 0;
  int exponent = 0;
  int zeros = 0;  // trailing zeros that the original coefficient had
};

Parts split(Decimal128 d) {
  Parts parts;
  parts.negative = (d.high() >> 63) != 0;
  if (((d.high() >> 61) & 3) == 3) return parts;  // a non-canonical coefficient stands for zero
  parts.exponent = static_cast<int>((d.high() >> 49) & 0x3fff) + kExponentMin;
  parts.coefficient = static_cast<UInt128>(d.high() & 0x1ffffffffffffull) << 64 | d.low();
  if (parts.coefficient >= kCoefficientEnd) parts.coefficient = 0;
  if (parts.coefficient == 0) return parts;
  while (parts.coefficient % 10 == 0) {
    parts.coefficient /= 10;
    ++parts.exponent;
    ++parts.zeros;
  }
  return parts;
}

// Writes the marker and bytes of one number, inverting the bytes of negative ones.
class NumberWriter {
 public:
  explicit NumberWriter(char* to) : start_(to), at_(to) {}

  // Before the marker.
  void set_negative(bool negative) { flip_ = negative ? ~std::uint64_t{0} : 0; }
  std::uint8_t size() const { return static_cast<std::uint8_t>(at_ - start_); }

  void marker(std::uint8_t positive, std::uint8_t negative) {
    *at_++ = static_cast<char>(flip_ != 0 ? negative : positive);
  }
  void byte(std::uint8_t value) { *at_++ = static_cast<char>(value ^ flip_); }
  // The `count` highest bytes of `value`; eight are written.
  void high_bytes(std::uint64_t value, int count) {
    store_be(at_, value ^ flip_);
    at_ += count;
  }

  void integral(std::uint64_t magnitude) {
    const std::uint64_t word = magnitude << 1;
    const int n = length(word);
    marker_of_length(n);
    high_bytes(word << (64 - 8 * n), n);
  }
  // `fraction` in units of 2^-fraction_bits(whole).
  void fractional(std::uint64_t whole, std::uint64_t fraction, bool more) {
    const std::uint64_t word = whole << 1 | 1;
    const int n = length(word);
    marker_of_length(n);
    high_bytes(n == 8 ? word : word << (64 - 8 * n) | fraction << 1 | std::uint64_t{more}, 8);
  }
  void small(double magnitude, bool more) {
    marker(kPositiveSmall, kNegativeSmall);
    high_bytes(std::bit_cast<std::uint64_t>(magnitude) << 1 | std::uint64_t{more}, 8);
  }
  void large(double magnitude, bool more) {
    marker(kPositiveLarge, kNegativeLarge);
    high_bytes(std::bit_cast<std::uint64_t>(magnitude) << 1 | std::uint64_t{more}, 8);
  }
  // The lowest `count` decimal digits of `value`, in pairs.
  void digits(UInt128 value, int count) {
    if (count % 2 != 0) {
      value *= 10;
      ++count;
    }
    for (int left = count - 2; left >= 0; left -= 2) {
      const UInt128 unit = power_of_10(left);
      const auto pair = static_cast<std::uint8_t>(value / unit);
      value %= unit;
      byte(static_cast<std::uint8_t>(pair << 1 | (left > 0 ? 1 : 0)));
    }
  }

  static int length(std::uint64_t word) { return (std::bit_width(word) + 7) / 8; }

 private:
  void marker_of_length(int n) {
    marker(static_cast<std::uint8_t>(kPositive1 + n - 1),
           static_cast<std::uint8_t>(kNegative1 - n + 1));
  }
  char* start_;
  char* at_;
  std::uint64_t flip_ = 0;
};

// How many binary digits of the fraction a key holds, by the length of its whole part. A double
// with a whole part of that length has no more: 53 less the digits of the least such whole part.
constexpr int fraction_bits(int length) {
  return length == 8 ? 0 : 8 * (8 - length) - 1;
}

void encode_integer(std::int64_t value, NumberWriter& writer) {
  const bool negative = value < 0;
  writer.set_negative(negative);
  const auto bits = static_cast<std::uint64_t>(value);
  const std::uint64_t magnitude = negative ? 0 - bits : bits;
  if (magnitude == 0) {
    writer.marker(kZero, kZero);
  } else if (magnitude == kTwo63) {
    writer.large(0x1p63, false);
  } else {
    writer.integral(magnitude);
  }
}

bool fits_int32(std::int64_t value) {
  return value == static_cast<std::int32_t>(value);
}

// 1 <= |value| < 2^63. The mantissa's bits are the number's binary digits: no arithmetic is needed.
void encode_middle_double(std::uint64_t bits, NumberWriter& writer, EncodedNumber& out) {
  constexpr int kMantissaBits = 52;
  const int exponent = static_cast<int>(bits >> kMantissaBits & 0x7ff) - 1023;
  const std::uint64_t mantissa =
      (bits & ((std::uint64_t{1} << kMantissaBits) - 1)) | std::uint64_t{1} << kMantissaBits;
  const int point = kMantissaBits - exponent;  // digits after the binary point
  const std::uint64_t whole = point > 0 ? mantissa >> point : mantissa << -point;
  const std::uint64_t fraction = point > 0 ? mantissa & ((std::uint64_t{1} << point) - 1) : 0;
  if (fraction == 0) {
    writer.integral(whole);
    out.code = NumberCode::kDouble;
  } else {  // there is room for at least `point` digits, see fraction_bits
    const int room = fraction_bits(NumberWriter::length(whole << 1 | 1));
    writer.fractional(whole, fraction << (room - point), false);
  }
}

void encode_double(double value, NumberWriter& writer, EncodedNumber& out) {
  writer.set_negative(value < 0);
  const double magnitude = std::fabs(value);
  if (magnitude >= 1 && magnitude < 0x1p63) {
    encode_middle_double(std::bit_cast<std::uint64_t>(magnitude), writer, out);
  } else if (std::isnan(value)) {
    writer.marker(kNaN, kNaN);
    const bool canonical = std::bit_cast<std::uint64_t>(value) == kCanonicalNaN;
    out.code = canonical ? NumberCode::kDefault : NumberCode::kRaw;
  } else if (magnitude == 0) {
    writer.marker(kZero, kZero);
    out.code = std::signbit(value) ? NumberCode::kRaw : NumberCode::kDouble;
  } else if (magnitude < 1) {
    writer.small(magnitude, false);
  } else {
    writer.large(magnitude, false);
  }
}

// |d| < 1 or |d| >= 2^63: the double below it in magnitude, and the decimal where that is not
// exact.
void encode_decimal_by_double(Decimal128 d, const Parts& parts, int magnitude, bool is_large,
                              NumberWriter& writer, EncodedNumber& out) {
  std::uint32_t flags = 0;
  const double below = d.abs().to_double(&flags, Decimal128::Round::kTowardZero);
  const bool more = (flags & Decimal128::kInexact) != 0;
  if (is_large) {
    writer.large(below, more);
  } else {
    writer.small(below, more);
  }
  if (more) {
    const int biased = magnitude + kExponentBias;
    writer.byte(static_cast<std::uint8_t>(biased >> 8));
    writer.byte(static_cast<std::uint8_t>(biased));
    writer.digits(parts.coefficient, digit_count(parts.coefficient));
  }
  const bool is_default = more && parts.zeros == 0;
  out.code = is_default ? NumberCode::kDefault : NumberCode::kDecimal;
}

// 1 <= |d| < 2^63 with a fraction: its first binary digits, then where they are not all of it the
// fraction's decimal digits. `rest` is the fraction's numerator over 10^scale.
void encode_decimal_fraction(std::uint64_t whole, UInt128 rest, int scale, int zeros,
                             NumberWriter& writer, EncodedNumber& out) {
  const UInt128 numerator = rest;
  const UInt128 unit = power_of_10(scale);
  std::uint64_t fraction = 0;
  for (int i = fraction_bits(NumberWriter::length(whole << 1 | 1)); i > 0; --i) {
    rest *= 2;
    fraction <<= 1;
    if (rest >= unit) {
      fraction |= 1;
      rest -= unit;
    }
  }
  const bool more = rest != 0;
  writer.fractional(whole, fraction, more);
  if (more) writer.digits(numerator, scale);
  out.code = more && zeros == 0 ? NumberCode::kDefault : NumberCode::kDecimal;
}

void encode_finite_decimal(Decimal128 d, const Parts& parts, NumberWriter& writer,
                           EncodedNumber& out) {
  out.zeros = static_cast<std::uint8_t>(parts.zeros);
  const int magnitude = digit_count(parts.coefficient) + parts.exponent;  // |d| < 10^magnitude
  if (magnitude <= 0 || magnitude > 19) {
    return encode_decimal_by_double(d, parts, magnitude, magnitude > 0, writer, out);
  }
  if (parts.exponent >= 0) {
    const UInt128 whole = parts.coefficient * power_of_10(parts.exponent);
    if (whole >= kTwo63) return encode_decimal_by_double(d, parts, magnitude, true, writer, out);
    writer.integral(static_cast<std::uint64_t>(whole));
    out.code = NumberCode::kDecimal;
    return;
  }
  const UInt128 unit = power_of_10(-parts.exponent);
  const UInt128 whole = parts.coefficient / unit;
  if (whole >= kTwo63) return encode_decimal_by_double(d, parts, magnitude, true, writer, out);
  encode_decimal_fraction(static_cast<std::uint64_t>(whole), parts.coefficient % unit,
                          -parts.exponent, parts.zeros, writer, out);
}

void encode_decimal(Decimal128 d, NumberWriter& writer, EncodedNumber& out) {
  writer.set_negative(d.is_negative());
  if (d.is_nan()) {
    writer.marker(kNaN, kNaN);
    out.code = NumberCode::kRaw;
  } else if (d.is_infinite()) {
    writer.large(std::numeric_limits<double>::infinity(), false);
    out.code = NumberCode::kRaw;
  } else if (const Parts parts = split(d); parts.coefficient == 0) {
    writer.marker(kZero, kZero);
    out.code = NumberCode::kRaw;
  } else {
    encode_finite_decimal(d, parts, writer, out);
  }
}

// ---- decoding -----------------------------------------------------------------------------------

// What the key bytes alone say.
struct Decoded {
  enum class Form { kNaN, kZero, kIntegral, kFraction, kDouble } form = Form::kNaN;
  bool negative = false;
  bool more = false;           // `coefficient` and `exponent` are the value
  std::uint64_t whole = 0;     // kIntegral, kFraction
  std::uint64_t fraction = 0;  // kFraction, in units of 2^-bits
  int bits = 0;
  double magnitude = 0;  // kDouble
  UInt128 coefficient = 0;
  int exponent = 0;
};

class NumberReader {
 public:
  NumberReader(KeyReader& reader, std::uint8_t marker) : reader_(reader), marker_(marker) {
    negative_ = marker < kZero;
  }

  Decoded read() {
    Decoded d;
    d.negative = negative_ && marker_ != kNaN;
    if (marker_ == kZero) {
      d.form = Decoded::Form::kZero;
    } else if (marker_ == kPositiveSmall || marker_ == kNegativeSmall ||
               marker_ == kPositiveLarge || marker_ == kNegativeLarge) {
      read_double(d);
    } else if (marker_ != kNaN) {
      read_by_length(d, negative_ ? kNegative1 - marker_ + 1 : marker_ - kPositive1 + 1);
    }
    return d;
  }

 private:
  std::uint64_t be(int count) {
    const std::uint64_t value = reader_.be(static_cast<std::size_t>(count));
    if (!negative_) return value;
    return ~value & (count == 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << (8 * count)) - 1);
  }

  void read_double(Decoded& d) {
    d.form = Decoded::Form::kDouble;
    const std::uint64_t word = be(8);
    d.magnitude = std::bit_cast<double>(word >> 1);
    d.more = (word & 1) != 0;
    if (!d.more) return;
    const int magnitude = static_cast<int>(be(2)) - kExponentBias;
    const int count = read_digits(d.coefficient);
    d.exponent = magnitude - count;
  }

  void read_by_length(Decoded& d, int length) {
    const std::uint64_t word = be(length);
    d.whole = word >> 1;
    d.form = Decoded::Form::kIntegral;
    if ((word & 1) == 0) return;
    d.form = Decoded::Form::kFraction;
    d.bits = fraction_bits(length);
    d.more = true;
    if (length < 8) {
      const std::uint64_t tail = be(8 - length);
      d.fraction = tail >> 1;
      d.more = (tail & 1) != 0;
    }
    if (!d.more) return;
    UInt128 rest = 0;
    const int count = read_digits(rest);
    d.coefficient = d.whole;
    for (int i = 0; i < count; ++i) {  // verified by encoding again, but must not overflow unseen
      if (d.coefficient >= kCoefficientEnd) return reader_.fail();
      d.coefficient *= 10;
    }
    d.coefficient += rest;
    d.exponent = -count;
  }

  // Returns how many digits there were, without the zero that fills the last pair.
  int read_digits(UInt128& value) {
    int count = 0;
    for (bool more = true; more && reader_.ok(); count += 2) {
      if (count >= kDigitsMax) {
        reader_.fail();
        return 0;
      }
      const auto byte = static_cast<std::uint8_t>(be(1));
      more = (byte & 1) != 0;
      value = value * 100 + (byte >> 1);
    }
    if (value % 10 == 0) {
      value /= 10;
      --count;
    }
    return count;
  }

  KeyReader& reader_;
  std::uint8_t marker_;
  bool negative_;
};

bool make_decimal(bool negative, UInt128 coefficient, int exponent, int zeros, Decimal128* out) {
  for (; zeros > 0; --zeros, --exponent) {
    if (coefficient >= kCoefficientEnd) return false;
    coefficient *= 10;
  }
  if (coefficient >= kCoefficientEnd) return false;
  if (exponent < kExponentMin || exponent > kExponentMax) return false;
  const std::uint64_t high = (negative ? kTwo63 : 0) |
                             static_cast<std::uint64_t>(exponent - kExponentMin) << 49 |
                             static_cast<std::uint64_t>(coefficient >> 64);
  *out = Decimal128(static_cast<std::uint64_t>(coefficient), high);
  return true;
}

bool decimal_of(const Decoded& d, int zeros, Decimal128* out) {
  using Form = Decoded::Form;
  if (d.more) return make_decimal(d.negative, d.coefficient, d.exponent, zeros, out);
  if (d.form == Form::kIntegral || d.form == Form::kDouble) {
    // Exact: whoever wrote the key had this value in 34 digits.
    const Parts parts =
        split(d.form == Form::kIntegral ? Decimal128(static_cast<std::int64_t>(d.whole))
                                        : Decimal128::from_double_34(d.magnitude));
    return make_decimal(d.negative, parts.coefficient, parts.exponent, zeros, out);
  }
  if (d.form != Form::kFraction) return false;
  std::uint64_t numerator = d.whole << d.bits | d.fraction;  // over 2^bits
  if (numerator == 0) return false;
  const int shift = std::countr_zero(numerator);
  if (shift >= d.bits) return false;
  UInt128 coefficient = numerator >> shift;
  const int scale = d.bits - shift;
  for (int i = 0; i < scale; ++i) {  // n / 2^k = n * 5^k / 10^k
    if (coefficient >= kCoefficientEnd) return false;
    coefficient *= 5;
  }
  return make_decimal(d.negative, coefficient, -scale, zeros, out);
}

double double_of(const Decoded& d) {
  using Form = Decoded::Form;
  double magnitude = 0;
  switch (d.form) {
    case Form::kNaN:
      return std::bit_cast<double>(kCanonicalNaN);
    case Form::kZero:
      return 0;
    case Form::kIntegral:
      magnitude = static_cast<double>(d.whole);
      break;
    case Form::kFraction: {
      // At most 53 digits in a key made from a double; any other is found out by encoding again.
      const auto unit = std::bit_cast<double>(static_cast<std::uint64_t>(1023 - d.bits) << 52);
      magnitude = static_cast<double>(d.whole << d.bits | d.fraction) * unit;
      break;
    }
    case Form::kDouble:
      magnitude = d.magnitude;
      break;
  }
  return d.negative ? -magnitude : magnitude;
}

std::int64_t int64_of(const Decoded& d) {
  if (d.form == Decoded::Form::kDouble) return std::numeric_limits<std::int64_t>::min();
  return static_cast<std::int64_t>(d.negative ? 0 - d.whole : d.whole);
}

BsonType append_int(std::int64_t value, bool wide, Buffer& out) {
  if (wide || !fits_int32(value)) {
    append_le(out, value);
    return BsonType::kInt64;
  }
  append_le(out, static_cast<std::int32_t>(value));
  return BsonType::kInt32;
}

BsonType append_decimal(const Decoded& d, int zeros, KeyReader& reader, Buffer& out) {
  Decimal128 decimal;
  if (!decimal_of(d, zeros, &decimal)) reader.fail();
  append_le(out, decimal.low());
  append_le(out, decimal.high());
  return BsonType::kDecimal128;
}

BsonType append_raw(TypeBitsReader& bits, Buffer& out) {
  const bool is_decimal = bits.bit();
  append_le(out, bits.take(64));
  if (!is_decimal) return BsonType::kDouble;
  append_le(out, bits.take(64));
  return BsonType::kDecimal128;
}

BsonType append_default(const Decoded& d, KeyReader& reader, Buffer& out) {
  using Form = Decoded::Form;
  if (d.more) return append_decimal(d, 0, reader, out);
  if (d.form == Form::kZero || d.form == Form::kIntegral)
    return append_int(int64_of(d), false, out);
  append_le(out, double_of(d));
  return BsonType::kDouble;
}

}  // namespace

EncodedNumber encode_number(const ValueView& number, char* to) {
  EncodedNumber out;
  NumberWriter writer(to);
  switch (number.type()) {
    case BsonType::kInt32:
      encode_integer(number.as_int32(), writer);
      break;
    case BsonType::kInt64: {
      const std::int64_t value = number.as_int64();
      encode_integer(value, writer);
      const bool is_default =
          !fits_int32(value) && value != std::numeric_limits<std::int64_t>::min();
      out.code = is_default ? NumberCode::kDefault : NumberCode::kInt64;
      break;
    }
    case BsonType::kDouble:
      encode_double(number.as_double(), writer, out);
      break;
    default:
      encode_decimal(number.as_decimal(), writer, out);
      break;
  }
  out.size = writer.size();
  return out;
}

BsonType decode_number(std::uint8_t marker, KeyReader& reader, TypeBitsReader& bits, Buffer& out) {
  const char* from = reader.position() - 1;
  const Decoded decoded = NumberReader(reader, marker).read();
  const auto code = bits.bit() ? static_cast<NumberCode>(1 + bits.take(2)) : NumberCode::kDefault;
  const int zeros = code == NumberCode::kDecimal ? static_cast<int>(bits.take(6)) : 0;
  const std::size_t start = out.size();
  BsonType type = BsonType::kDouble;
  switch (code) {
    case NumberCode::kDefault:
      type = append_default(decoded, reader, out);
      break;
    case NumberCode::kDouble:
      append_le(out, double_of(decoded));
      break;
    case NumberCode::kInt64:
      type = append_int(int64_of(decoded), true, out);
      break;
    case NumberCode::kDecimal:
      type = append_decimal(decoded, zeros, reader, out);
      break;
    case NumberCode::kRaw:
      type = append_raw(bits, out);
      break;
  }
  if (!reader.ok()) return type;
  // One rule refuses every key that is not the encoding of its own value.
  const ValueView value(type, out.data() + start, static_cast<std::uint32_t>(out.size() - start));
  char bytes[kNumberSizeMax];
  const EncodedNumber again = encode_number(value, bytes);
  if (again.code != code || (code == NumberCode::kDecimal && again.zeros != zeros) ||
      !reader.consumed_equals(from, {bytes, again.size})) {
    reader.fail();
  }
  return type;
}

void skip_number(std::uint8_t marker, KeyReader& reader) {
  NumberReader(reader, marker).read();
}

}  // namespace multifora::key_string
