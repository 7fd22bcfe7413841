// Random BSON for property tests and fuzz seeds. Values are drawn from small pools as often as from
// everything, so that equal values, near values and equal names meet. One generator, one thread;
// the same seed gives the same values everywhere (only the engine's own numbers are used, not the
// standard library's distributions).
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <string_view>

#include "core/bson/builder.h"

namespace multifora::test {

class RandomBson {
 public:
  explicit RandomBson(std::uint64_t seed) : engine_(seed) {}

  std::uint64_t bits() { return engine_(); }
  std::uint64_t below(std::uint64_t n) { return engine_() % n; }
  bool one_in(std::uint64_t n) { return below(n) == 0; }

  // Appends a value of any type; deprecated ones too.
  void append_value(DocumentBuilder& to, std::string_view name, int depth = 3) {
    switch (below(depth > 0 ? 24 : 18)) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4:
      case 5:
        append_number(to, name);
        break;
      case 6:
        to.append(name, text());
        break;
      case 7:
        to.append_symbol(name, text());
        break;
      case 8:
        append_binary(to, name);
        break;
      case 9:
        to.append(name, object_id());
        break;
      case 10:
        to.append(name, one_in(2));
        break;
      case 11:
        to.append_date_ms(name, integer());
        break;
      case 12:
        to.append_timestamp(name, static_cast<std::uint64_t>(integer()));
        break;
      case 13:
        append_regex(to, name);
        break;
      case 14:
        to.append_code(name, text());
        break;
      case 15:
        append_dbref(to, name);
        break;
      case 16:
        to.append_null(name);
        break;
      case 17:
        append_rare(to, name);
        break;
      default:
        append_nested(to, name, depth - 1);
        break;
    }
  }

  void append_number(DocumentBuilder& to, std::string_view name) {
    switch (below(4)) {
      case 0:
        to.append(name, static_cast<std::int32_t>(integer()));
        break;
      case 1:
        to.append(name, integer());
        break;
      case 2:
        to.append(name, real());
        break;
      default:
        to.append(name, decimal());
        break;
    }
  }

  OwnedDocument document(int depth = 3) {
    DocumentBuilder b;
    for (std::uint64_t n = below(5); n > 0; --n) append_value(b, field_name(), depth);
    return std::move(b).finish();
  }

  OwnedDocument array(int depth = 3) {
    ArrayBuilder b;
    for (std::uint64_t n = below(5); n > 0; --n) append_value(b.raw(), b.next_name(), depth);
    return std::move(b).finish();
  }

  std::string field_name() {
    static constexpr std::string_view kNames[] = {"a",   "b", "c", "ab",      "",
                                                  "_id", "0", "1", "\xc3\xa9"};
    return std::string(kNames[below(std::size(kNames))]);
  }

  std::string text() {
    static constexpr std::string_view kTexts[] = {"", "a", "ab", "b", "\xc3\xa9", "abcdefghijk"};
    if (one_in(2)) return std::string(kTexts[below(std::size(kTexts))]);
    std::string out;
    for (std::uint64_t n = below(12); n > 0; --n) {
      static constexpr char kChars[] = {'\0', '\1', '\2', 'a', 'b', '\x7f'};
      out.push_back(kChars[below(sizeof kChars)]);
    }
    return out;
  }
  std::string c_string() {
    std::string out = text();
    std::erase(out, '\0');
    return out;
  }
  std::string binary() {
    std::string out;
    const std::uint64_t n = one_in(20) ? 250 + below(10) : below(6);
    for (std::uint64_t i = 0; i < n; ++i) out.push_back(static_cast<char>(bits()));
    return out;
  }
  std::uint8_t binary_subtype() {
    static constexpr std::uint8_t kSubtypes[] = {0, 1, 3, 4, 5, 6, 7, 9, 127, 128, 255};
    return kSubtypes[below(std::size(kSubtypes))];
  }
  ObjectId object_id() {
    ObjectId id;
    for (char& c : id.bytes) c = one_in(2) ? '\0' : static_cast<char>(bits());
    return id;
  }

  // All magnitudes, and neighbours of powers of two.
  std::int64_t integer() {
    if (one_in(3)) return static_cast<std::int64_t>(below(7)) - 3;
    const std::uint64_t wide =
        one_in(2) ? bits() >> below(64) : (std::uint64_t{1} << below(64)) + below(3) - 1;
    return static_cast<std::int64_t>(one_in(2) ? 0 - wide : wide);
  }

  double real() {
    switch (below(6)) {
      case 0:
        return static_cast<double>(integer());
      case 1: {
        const auto numerator = static_cast<double>(integer());
        return numerator / static_cast<double>(1 + below(16));
      }
      case 2:
        return std::bit_cast<double>(bits());  // any, NaN payloads too
      case 3: {
        const double mantissa = 1.0 + static_cast<double>(below(4)) / 4;
        return std::ldexp(mantissa, static_cast<int>(below(2140)) - 1075);
      }
      case 4: {
        static constexpr double kSpecial[] = {
            0.0,      -0.0,      0.1, 0.5,    1.5,     1e300,  5e-324,
            HUGE_VAL, -HUGE_VAL, NAN, 0x1p63, -0x1p63, 0x1p64, 1.7976931348623157e308};
        return kSpecial[below(std::size(kSpecial))];
      }
      default: {
        const auto near = static_cast<double>(integer());
        return std::nextafter(near, one_in(2) ? 1e308 : -1e308);
      }
    }
  }

  Decimal128 decimal() {
    switch (below(7)) {
      case 0:
        return Decimal128(integer());
      case 1:
        return Decimal128::from_double_34(real());
      case 2: {  // any bits, non-canonical too
        const std::uint64_t low = bits();
        return {low, bits()};
      }
      case 3:
        return scaled(0, static_cast<int>(below(60)) - 40);
      case 4: {
        const std::uint64_t zeros = below(14);
        return scaled(zeros, static_cast<int>(below(12288)) - 6160);
      }
      case 5: {
        static constexpr std::string_view kSpecial[] = {"0",
                                                        "-0",
                                                        "0E+3",
                                                        "0.1",
                                                        "0.10",
                                                        "0.5",
                                                        "1",
                                                        "1.0",
                                                        "1.00",
                                                        "-1.5",
                                                        "NaN",
                                                        "Infinity",
                                                        "-Infinity",
                                                        "9223372036854775807",
                                                        "9223372036854775807.5",
                                                        "9223372036854775808",
                                                        "-9223372036854775808",
                                                        "9007199254740993",
                                                        "9007199254740993.5",
                                                        "9.999999999999999999999999999999999E+6144",
                                                        "1E-6176",
                                                        "5E-324",
                                                        "2.5E-324",
                                                        "1E+308",
                                                        "1.8E+308",
                                                        "0.1000000000000000055511151231257827",
                                                        "0.9999999999999999999999999999999999",
                                                        "0.3333333333333333333333333333333333"};
        return parse_decimal(kSpecial[below(std::size(kSpecial))]);
      }
      default: {  // a double and the smallest step beside it
        const Decimal128 near = Decimal128::from_double_34(real());
        return one_in(2) ? near.add(parse_decimal("1E-20"))
                         : near.multiply(parse_decimal("1.000000000000000000000000000000001"));
      }
    }
  }

 private:
  void append_binary(DocumentBuilder& to, std::string_view name) {
    const std::string bytes = binary();
    to.append_binary(name, bytes, one_in(2) ? 0 : binary_subtype());
  }
  void append_regex(DocumentBuilder& to, std::string_view name) {
    const std::string pattern = c_string();
    to.append_regex(name, pattern, one_in(2) ? "" : "im");
  }
  void append_dbref(DocumentBuilder& to, std::string_view name) {
    const std::string ns = text();
    to.append_dbref(name, ns, object_id());
  }
  void append_nested(DocumentBuilder& to, std::string_view name, int depth) {
    const std::uint64_t kind = below(6);
    const OwnedDocument nested = kind < 2 ? array(depth) : document(depth);
    if (kind < 2) {
      to.append_array(name, nested.view());
    } else if (kind < 5) {
      to.append(name, nested.view());
    } else {
      to.append_code_with_scope(name, text(), nested.view());
    }
  }
  Decimal128 scaled(std::size_t zeros, int exponent) {
    const std::string digits = std::to_string(integer()) + std::string(zeros, '0');
    return parse_decimal(digits + "E" + std::to_string(exponent));
  }
  static Decimal128 parse_decimal(std::string_view text) {
    const auto parsed = Decimal128::parse(text);
    if (!parsed) std::abort();
    return *parsed;
  }
  void append_rare(DocumentBuilder& to, std::string_view name) {
    switch (below(3)) {
      case 0:
        to.append_min_key(name);
        break;
      case 1:
        to.append_max_key(name);
        break;
      default:
        to.append_undefined(name);
        break;
    }
  }
  std::mt19937_64 engine_;
};

// The seed of a property test: MULTIFORA_TEST_SEED, or one that changes with every run. Print it.
inline std::uint64_t test_seed() {
  if (const char* text = std::getenv("MULTIFORA_TEST_SEED"))
    return std::strtoull(text, nullptr, 10);
  return std::random_device()();
}

}  // namespace multifora::test
