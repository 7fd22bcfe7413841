#include "core/bson/decimal128.h"

#include <doctest/doctest.h>

#include <boost/multiprecision/cpp_int.hpp>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/base/bytes.h"
#include "tests/support/hex.h"
#include "tests/support/random_bson.h"
#include "tests/support/shared_dir.h"

using namespace multifora;
using Integer = boost::multiprecision::cpp_int;
using Round = Decimal128::Round;

namespace {

Decimal128 dec(std::string_view text) {
  const auto parsed = Decimal128::parse(text);
  REQUIRE_MESSAGE(parsed.has_value(), std::string(text));
  return *parsed;
}

std::string text_of(double value) {
  return Decimal128::from_double(value).to_string();
}

// A fraction with a denominator above zero. (Boost 1.81's cpp_rational divides by large integers
// wrongly, so only its integers are used.)
struct Fraction {
  Integer numerator;
  Integer denominator;
};

// whole * base^exponent
Fraction scale(const Integer& whole, int base, int exponent) {
  const Integer power =
      boost::multiprecision::pow(Integer(base), static_cast<unsigned>(std::abs(exponent)));
  if (exponent >= 0) return {whole * power, 1};
  return {whole, power};
}

int order(const Fraction& a, const Fraction& b) {
  const Integer left = a.numerator * b.denominator;
  const Integer right = b.numerator * a.denominator;
  return left < right ? -1 : left > right ? 1 : 0;
}

// The exact value, from the text (an oracle that shares nothing with the library's arithmetic).
Fraction exact(Decimal128 value) {
  std::string text = value.to_string();
  int exponent = 0;
  if (const std::size_t e = text.find('E'); e != std::string::npos) {
    exponent = std::stoi(text.substr(e + 1));
    text.resize(e);
  }
  if (const std::size_t dot = text.find('.'); dot != std::string::npos) {
    exponent -= static_cast<int>(text.size() - dot - 1);
    text.erase(dot, 1);
  }
  const bool negative = text[0] == '-';
  if (negative) text.erase(0, 1);
  text.erase(0, std::min(text.find_first_not_of('0'), text.size() - 1));  // no octal
  Integer whole(text);
  if (negative) whole = -whole;
  return scale(whole, 10, exponent);
}

Fraction exact(double value) {
  int exponent = 0;
  const double mantissa = std::frexp(value, &exponent);
  const Integer whole = static_cast<std::int64_t>(std::ldexp(mantissa, 53));
  return scale(whole, 2, exponent - 53);
}

}  // namespace

TEST_CASE("BSON corpus: text and bytes go both ways") {
  const auto folder = test::corpus_dir("spec-tests/bson-corpus");
  const auto number_in = [](const std::string& json) {
    return nlohmann::json::parse(json)["d"]["$numberDecimal"].get<std::string>();
  };
  int good = 0;
  int bad = 0;
  for (int file = 1; file <= 7; ++file) {
    std::ifstream stream(folder / ("decimal128-" + std::to_string(file) + ".json"));
    const auto json = nlohmann::json::parse(stream);
    for (const auto& test : json.value("valid", nlohmann::json::array())) {
      const std::string name = test["description"];
      const std::string bytes = test::from_hex(test["canonical_bson"].get<std::string>());
      REQUIRE(bytes.size() == 24);
      const Decimal128 value(load_le<std::uint64_t>(bytes.data() + 7),
                             load_le<std::uint64_t>(bytes.data() + 15));
      const std::string canonical = number_in(test["canonical_extjson"]);
      CHECK_MESSAGE(value.to_string() == canonical, name);
      if (!test.value("lossy", false)) CHECK_MESSAGE(dec(canonical).identical(value), name);
      if (test.contains("degenerate_extjson") && !test.value("lossy", false))
        CHECK_MESSAGE(dec(number_in(test["degenerate_extjson"])).identical(value), name);
      ++good;
    }
    // Drivers refuse what would be rounded; here it is rounded and reported.
    for (const auto& test : json.value("parseErrors", nlohmann::json::array())) {
      std::uint32_t flags = 0;
      const auto parsed = Decimal128::parse(test["string"].get<std::string>(), &flags);
      const bool reported =
          !parsed || (flags & (Decimal128::kInexact | Decimal128::kOverflow)) != 0;
      CHECK_MESSAGE(reported, test["description"] << " " << test["string"]);
      ++bad;
    }
  }
  CHECK(good == 605);
  CHECK(bad == 131);
}

TEST_CASE("parsing: forms, bounds and rounding") {
  CHECK(dec("+1.50e+3").to_string() == "1.50E+3");
  CHECK(dec(".5").to_string() == "0.5");
  CHECK(dec("5.").to_string() == "5");
  CHECK(dec("-0").to_string() == "-0");
  CHECK(dec("0E+9999").to_string() == "0E+6111");
  CHECK(dec("0E-9999").to_string() == "0E-6176");
  CHECK(dec("nAn").is_nan());
  CHECK(dec("-INF").compare(Decimal128::infinity(true)) == 0);
  CHECK(dec("+infinity").to_string() == "Infinity");
  CHECK(dec("1E99999999999999999999999").is_infinite());
  CHECK(dec("1E-99999999999999999999999").is_zero());
  CHECK(dec("0." + std::string(7000, '0') + "1E7001").to_string() == "1");
  CHECK(dec("1" + std::string(7000, '0') + "E-7000").compare(Decimal128(1)) == 0);
  for (const char* bad :
       {"",      " ",    "+",     ".",   "e5", "1e",      "1e+",  "1 ",   " 1",  "1..2",
        "1.2.3", "0x10", "1e5.5", "--1", "in", "infinit", "nan1", "snan", "1_0", "١"}) {
    const auto parsed = Decimal128::parse(bad);
    CHECK_MESSAGE(!parsed.has_value(), bad);
    if (!parsed) CHECK(parsed.error().code() == ErrorCode::kBadValue);
  }
  // Ties to even at the 34th digit, and a digit far beyond that breaks the tie.
  const std::string even = "1000000000000000000000000000000002";
  CHECK(dec(even + "5").to_string() == "1.000000000000000000000000000000002E+34");
  CHECK(dec(even + "5" + std::string(200, '0') + "1E-201").to_string() ==
        "1.000000000000000000000000000000003E+34");
  CHECK(dec(even + "." + "5" + std::string(200, '0')).to_string() == even);
  std::uint32_t flags = 0;
  CHECK(Decimal128::parse("1E7000", &flags)->is_infinite());
  CHECK((flags & Decimal128::kOverflow) != 0);
  flags = 0;
  CHECK(Decimal128::parse("1E-7000", &flags)->is_zero());
  CHECK((flags & Decimal128::kUnderflow) != 0);
  flags = 0;
  CHECK(Decimal128::parse("1.5", &flags).has_value());
  CHECK(flags == 0);
}

TEST_CASE("doubles become 15 digits, as $toDecimal shows them") {
  CHECK(text_of(1.1) == "1.10000000000000");
  CHECK(text_of(5) == "5.00000000000000");
  CHECK(text_of(-2.5) == "-2.50000000000000");
  CHECK(text_of(0.1) == "0.100000000000000");
  CHECK(text_of(1.0 / 3) == "0.333333333333333");
  CHECK(text_of(2.0 / 3) == "0.666666666666667");
  CHECK(text_of(1e15) == "1.00000000000000E+15");
  CHECK(text_of(123456789012345.0) == "123456789012345");
  CHECK(text_of(99999999999999.95) == "100000000000000");
  CHECK(text_of(0) == "0");
  CHECK(text_of(-0.0) == "-0");
  CHECK(text_of(5e-324) == "4.94065645841247E-324");
  CHECK(text_of(std::numeric_limits<double>::max()) == "1.79769313486232E+308");
  CHECK(text_of(HUGE_VAL) == "Infinity");
  CHECK(text_of(-HUGE_VAL) == "-Infinity");
  CHECK(text_of(NAN) == "NaN");
  CHECK(Decimal128::from_double_34(0.1).to_string() == "0.1000000000000000055511151231257827");
}

TEST_CASE("integers") {
  CHECK(Decimal128(std::numeric_limits<std::int64_t>::min()).to_string() == "-9223372036854775808");
  CHECK(Decimal128(-5).to_string() == "-5");
  CHECK(Decimal128(0).identical(Decimal128::zero()));
  std::uint32_t flags = 0;
  CHECK(dec("-2147483648").to_int32(Round::kTowardZero, &flags) ==
        std::numeric_limits<std::int32_t>::min());
  CHECK(flags == 0);
  dec("2147483648").to_int32(Round::kTowardZero, &flags);
  CHECK((flags & Decimal128::kInvalid) != 0);
  flags = 0;
  CHECK(dec("2147483647.9").to_int32(Round::kTowardZero, &flags) == 2147483647);
  CHECK(flags == Decimal128::kInexact);
  dec("NaN").to_int64(Round::kTowardZero, &flags);
  CHECK((flags & Decimal128::kInvalid) != 0);
  const auto rounded = [](const char* text, Round mode) {
    return dec(text).to_int64(mode, nullptr);
  };
  CHECK(rounded("2.5", Round::kTiesToEven) == 2);
  CHECK(rounded("2.5", Round::kTiesToAway) == 3);
  CHECK(rounded("2.5", Round::kDown) == 2);
  CHECK(rounded("2.5", Round::kUp) == 3);
  CHECK(rounded("-2.5", Round::kDown) == -3);
  CHECK(rounded("-2.5", Round::kUp) == -2);
  CHECK(rounded("-2.5", Round::kTowardZero) == -2);
  CHECK(rounded("-2.5", Round::kTiesToAway) == -3);
}

TEST_CASE("arithmetic and its flags") {
  CHECK(dec("0.1").add(dec("0.2")).to_string() == "0.3");
  CHECK(dec("1.10").subtract(dec("1.1")).to_string() == "0.00");
  CHECK(dec("1.5").multiply(dec("-2.0")).to_string() == "-3.00");
  CHECK(dec("1").divide(dec("8")).to_string() == "0.125");
  CHECK(dec("-7").modulo(dec("3")).to_string() == "-1");
  CHECK(dec("7.5").modulo(dec("-2")).to_string() == "1.5");
  CHECK(dec("2").power(dec("10")).compare(Decimal128(1024)) == 0);
  CHECK(dec("2").square_root().to_string() == "1.414213562373095048801688724209698");
  CHECK(dec("1").exponential().to_string() == "2.718281828459045235360287471352662");
  CHECK(dec("10").natural_log().to_string() == "2.302585092994045684017991454684364");
  CHECK(dec("1000").log10().compare(Decimal128(3)) == 0);
  CHECK(dec("-1.50").abs().to_string() == "1.50");
  CHECK(dec("1.50").negate().to_string() == "-1.50");
  CHECK(dec("1.2345").quantize(dec("0.01")).to_string() == "1.23");
  CHECK(dec("1.235").quantize(dec("0.01")).to_string() == "1.24");
  CHECK(dec("1.235").quantize(dec("0.01"), Round::kTowardZero).to_string() == "1.23");
  CHECK(dec("-1.5").round_to_integral(Round::kDown).to_string() == "-2");
  CHECK(dec("1").atan2(dec("1")).to_string().substr(0, 20) == "0.785398163397448309");
  std::uint32_t flags = 0;
  CHECK(dec("1").divide(dec("0"), &flags).is_infinite());
  CHECK(flags == Decimal128::kDivideByZero);
  CHECK(dec("0").divide(dec("0"), &flags).is_nan());
  CHECK(flags == (Decimal128::kDivideByZero | Decimal128::kInvalid));  // added, never cleared
  flags = 0;
  CHECK(dec("9E6144").multiply(dec("10"), &flags).is_infinite());
  CHECK((flags & Decimal128::kOverflow) != 0);
  flags = 0;
  CHECK(dec("-1").square_root(&flags).is_nan());
  CHECK((flags & Decimal128::kInvalid) != 0);
}

TEST_CASE("the functions by name are the ones named") {
  using Trig = Decimal128::Trig;
  const struct {
    Trig function;
    double x;
    double (*same)(double);
  } rows[] = {{Trig::kSin, 0.7, std::sin},     {Trig::kCos, 0.7, std::cos},
              {Trig::kTan, 0.7, std::tan},     {Trig::kAsin, 0.7, std::asin},
              {Trig::kAcos, 0.7, std::acos},   {Trig::kAtan, 0.7, std::atan},
              {Trig::kSinh, 0.7, std::sinh},   {Trig::kCosh, 0.7, std::cosh},
              {Trig::kTanh, 0.7, std::tanh},   {Trig::kAsinh, 0.7, std::asinh},
              {Trig::kAcosh, 1.7, std::acosh}, {Trig::kAtanh, 0.7, std::atanh}};
  for (const auto& row : rows) {
    const double result = Decimal128::from_double_34(row.x).trig(row.function).to_double();
    CHECK(result == doctest::Approx(row.same(row.x)).epsilon(1e-14));
  }
}

TEST_CASE("predicates; encodings that are not canonical mean zero") {
  CHECK(Decimal128::nan().is_nan());
  CHECK(!Decimal128::nan().is_finite());
  CHECK(Decimal128::infinity(true).is_infinite());
  CHECK(Decimal128::infinity(true).is_negative());
  CHECK(dec("-0.00").is_zero());
  CHECK(dec("-0.00").is_negative());
  CHECK(!dec("1E-6176").is_zero());
  const Decimal128 large(0x378d8e6400000000ull, 0x3041ed09bead87c0ull);  // 10^34
  CHECK(large.is_zero());
  CHECK(large.to_string() == "0");
  CHECK(large.compare(Decimal128(0)) == 0);
  const Decimal128 form_two(1, 0x6c10000000000000ull);
  CHECK(form_two.is_zero());
  CHECK(form_two.to_string() == "0");
  CHECK(form_two.compare(0.0) == 0);
}

TEST_CASE("normalized: one form for all forms of a value") {
  CHECK(dec("1.500").normalized().to_string() == "1.5");
  CHECK(dec("1500").normalized().to_string() == "1.5E+3");
  CHECK(dec("-0E+9").normalized().identical(Decimal128::zero()));
  CHECK(dec("1E6144").normalized().compare(dec("1E6144")) == 0);
  CHECK(dec("1E6111").normalized().identical(dec("1E6111")));
  const Decimal128 payload(5, 0xfc00000000000000ull);
  CHECK(payload.normalized().identical(Decimal128::nan()));
}

TEST_CASE("order: NaN lowest and equal to itself, zeros equal") {
  const Decimal128 rising[] = {Decimal128::nan(),
                               Decimal128::infinity(true),
                               dec("-1E6144"),
                               dec("-1"),
                               dec("-1E-6176"),
                               dec("0"),
                               dec("1E-6176"),
                               dec("0.9999999999999999999999999999999999"),
                               dec("1"),
                               dec("1.000000000000000000000000000000001"),
                               dec("9223372036854775807"),
                               dec("9223372036854775807.5"),
                               Decimal128::infinity()};
  for (std::size_t i = 0; i < std::size(rising); ++i)
    for (std::size_t k = 0; k < std::size(rising); ++k)
      CHECK(rising[i].compare(rising[k]) == (i < k ? -1 : i > k ? 1 : 0));
  CHECK(dec("-0E5").compare(dec("0")) == 0);
  CHECK(dec("1.0").compare(dec("1")) == 0);
  CHECK(Decimal128(1, 0xfc00000000000000ull).compare(Decimal128::nan()) == 0);
  CHECK(Decimal128::nan().compare(static_cast<double>(NAN)) == 0);
  CHECK(Decimal128::nan().compare(-HUGE_VAL) == -1);
  CHECK(dec("-Infinity").compare(static_cast<double>(NAN)) == 1);
  CHECK(dec("-Infinity").compare(-HUGE_VAL) == 0);
  CHECK(dec("1E400").compare(std::numeric_limits<double>::max()) == 1);
  CHECK(dec("1E400").compare(HUGE_VAL) == -1);
  CHECK(dec("0.1").compare(0.1) == -1);  // the double is a little above a tenth
  CHECK(dec("0.3").compare(0.3) == 1);   // this one below
  CHECK(dec("0.5").compare(0.5) == 0);
  CHECK(dec("9223372036854775807.5").compare(std::numeric_limits<std::int64_t>::max()) == 1);
  CHECK(Decimal128::nan().compare(std::numeric_limits<std::int64_t>::min()) == -1);
}

TEST_CASE("comparison is exact: against fractions of any size") {
  const std::uint64_t seed = test::test_seed();
  CAPTURE(seed);
  test::RandomBson random(seed);
  int close = 0;
  for (int i = 0; i < 4000; ++i) {
    const Decimal128 a = random.decimal();
    const double d = random.real();
    const std::int64_t n = random.integer();
    if (!a.is_finite()) continue;
    // Neighbours of the double in decimal, where rounding would show.
    const Decimal128 near = std::isfinite(d) ? Decimal128::from_double_34(d) : Decimal128::zero();
    CAPTURE(a.to_string());
    CAPTURE(d);
    CAPTURE(n);
    if (std::isfinite(d)) {
      REQUIRE(a.compare(d) == order(exact(a), exact(d)));
      REQUIRE(near.compare(d) == order(exact(near), exact(d)));
      close += near.compare(d) != 0 ? 1 : 0;
      REQUIRE(a.compare(near) == order(exact(a), exact(near)));
    }
    REQUIRE(a.compare(n) == order(exact(a), {Integer(n), 1}));
  }
  CHECK(close > 100);
}

TEST_CASE("conversion to double is the nearest one") {
  const std::uint64_t seed = test::test_seed();
  CAPTURE(seed);
  test::RandomBson random(seed);
  for (int i = 0; i < 3000; ++i) {
    const Decimal128 a = random.decimal();
    if (!a.is_finite()) continue;
    std::uint32_t flags = 0;
    const double d = a.to_double(&flags);
    CAPTURE(a.to_string());
    // The C library's reader is correctly rounded.
    REQUIRE(d == std::strtod(a.to_string().c_str(), nullptr));
    if ((flags & Decimal128::kInexact) == 0) REQUIRE(a.compare(d) == 0);
  }
}
