#include "core/bson/key_string.h"

#include <doctest/doctest.h>
#include <algorithm>

#include "core/bson/compare.h"
#include "tests/support/random_bson.h"

namespace multifora {
namespace {

using test::RandomBson;

int sign(int n) {
  return n < 0 ? -1 : static_cast<int>(n > 0);
}
int memcmp_order(Bytes a, Bytes b) {
  return sign(a.compare(b));
}

std::string hex(Bytes bytes) {
  std::string out;
  for (const char c : bytes) {
    constexpr char kDigits[] = "0123456789abcdef";
    out.push_back(kDigits[static_cast<std::uint8_t>(c) >> 4]);
    out.push_back(kDigits[static_cast<std::uint8_t>(c) & 15]);
  }
  return out;
}

KeyStringBuilder key_of(const ValueView& value, bool descending = false) {
  KeyStringBuilder key;
  key.append(value, descending);
  return key;
}

template <class T>
OwnedDocument holding(const T& value) {
  DocumentBuilder b;
  b.append("", value);
  return std::move(b).finish();
}

template <class T>
std::string key_hex(const T& value) {
  const OwnedDocument d = holding(value);
  return hex(key_of(d.view().first().value()).key());
}

template <class T>
std::string type_bits_hex(const T& value) {
  const OwnedDocument d = holding(value);
  return hex(key_of(d.view().first().value()).type_bits());
}

Decimal128 decimal(std::string_view text) {
  return *Decimal128::parse(text);
}

OwnedDocument one_value(RandomBson& random) {
  DocumentBuilder b;
  random.append_value(b, "");
  return std::move(b).finish();
}

OwnedDocument one_number(RandomBson& random) {
  DocumentBuilder b;
  random.append_number(b, "");
  return std::move(b).finish();
}

// Encode, decode, compare with the original; the field's size; the successor.
void check_round_trip(const ValueView& value, bool descending) {
  const KeyStringBuilder key = key_of(value, descending);
  DocumentBuilder out;
  const Status status = decode_key_string(key.key(), key.type_bits(), {"v"}, {descending}, out);
  REQUIRE_MESSAGE(status.ok(), status.message() << " key " << hex(key.key()));
  const OwnedDocument decoded = std::move(out).finish();
  const bool same = identical_values(decoded.view().first().value(), value);
  CHECK_MESSAGE(same, hex(value.bytes())
                          << " came back as " << hex(decoded.view().first().value().bytes())
                          << " from " << hex(key.key()));
  CHECK(key_string_field_size(key.key(), descending) == key.key().size());
  CHECK(key_string_successor(key.key()) > key.key());
}

void check_pair(const ValueView& a, const ValueView& b) {
  const int expected = sign(compare_values(a, b));
  const int up = memcmp_order(key_of(a).key(), key_of(b).key());
  const int down = memcmp_order(key_of(a, true).key(), key_of(b, true).key());
  const bool agree = up == expected && down == -expected;
  CHECK_MESSAGE(agree, "type " << int(a.type()) << " " << hex(a.bytes()) << " and type "
                               << int(b.type()) << " " << hex(b.bytes()) << ": values " << expected
                               << ", keys " << up << " " << down << " (" << hex(key_of(a).key())
                               << " " << hex(key_of(b).key()) << ")");
}

TEST_CASE("key string: the written format") {
  CHECK(key_hex(std::int32_t{0}) == "2b");
  CHECK(key_hex(std::int32_t{1}) == "2d02");
  CHECK(key_hex(std::int32_t{127}) == "2dfe");
  CHECK(key_hex(std::int32_t{128}) == "2e0100");
  CHECK(key_hex(std::int32_t{-1}) == "29fd");
  CHECK(key_hex(1.5) == "2d0380000000000000");
  CHECK(key_hex(19.99) == "2d27fd70a3d70a3d00");
  CHECK(key_hex(0.5) == "2c7fc0000000000000");
  CHECK(key_hex(decimal("19.99")) == "2d27fd70a3d70a3d71c6");
  CHECK(key_hex("a\x01") == "3c61010200");
  CHECK(key_hex(std::string("a\0", 2)) == "3c61010100");
  CHECK(key_hex(true) == "6f");
}

TEST_CASE("key string: equal numbers of all types have one key, defaults have no type bits") {
  for (const std::int32_t n : {0, 1, -1, 63, 64, 127, 128, 1000, -70000, INT32_MAX, INT32_MIN}) {
    const std::string key = key_hex(n);
    CHECK(key == key_hex(std::int64_t{n}));
    CHECK(key == key_hex(double(n)));
    CHECK(key == key_hex(Decimal128(n)));
    CHECK(type_bits_hex(n).empty());
    CHECK(type_bits_hex(double(n)) == "01");
    CHECK(type_bits_hex(std::int64_t{n}) == "03");
  }
  CHECK(key_hex(decimal("1.50")) == key_hex(1.5));
  CHECK(key_hex(-0.0) == key_hex(0));
  CHECK(key_hex(INT64_MIN) == key_hex(-0x1p63));
  CHECK(key_hex(INT64_MIN) == key_hex(decimal("-9223372036854775808")));
  CHECK(type_bits_hex(INT64_MAX).empty());
  CHECK(type_bits_hex(0.1).empty());
  CHECK(type_bits_hex(1e300).empty());
  CHECK(type_bits_hex(decimal("19.99")).empty());
  CHECK(type_bits_hex("text").empty());
}

TEST_CASE("key string: numbers in ascending order, every pair") {
  DocumentBuilder b;
  const auto decimal_of = [](const char* text) { return decimal(text); };
  b.append("", decimal_of("NaN")).append("", -HUGE_VAL).append("", decimal_of("-1E+6144"));
  b.append("", -1e308).append("", decimal_of("-9223372036854775808.5")).append("", INT64_MIN);
  b.append("", INT64_MIN + 1).append("", -9007199254740992.0).append("", -1.5);
  b.append("", decimal_of("-1.49999999999999999999999")).append("", std::int32_t{-1});
  b.append("", -0.1).append("", decimal_of("-0.1")).append("", -5e-324);
  b.append("", decimal_of("-1E-6176"))
      .append("", std::int32_t{0})
      .append("", decimal_of("1E-6176"));
  b.append("", 5e-324)
      .append("", decimal_of("5E-324"))
      .append("", decimal_of("0.1"))
      .append("", 0.1);
  b.append("", decimal_of("0.9999999999999999999999999999999999")).append("", std::int32_t{1});
  b.append("", decimal_of("1.000000000000000000000000000000001")).append("", 1.5);
  b.append("", 9007199254740992.0).append("", std::int64_t{9007199254740993});
  b.append("", decimal_of("9007199254740993.5")).append("", INT64_MAX);
  b.append("", decimal_of("9223372036854775807.5")).append("", 0x1p63);
  b.append("", 1.7976931348623157e308).append("", decimal_of("1.8E+308"));
  b.append("", decimal_of("9.999999999999999999999999999999999E+6144")).append("", HUGE_VAL);
  const OwnedDocument d = std::move(b).finish();
  for (auto i = d.view().begin(); i != d.view().end(); ++i) {
    auto j = i;
    for (++j; j != d.view().end(); ++j) {
      const bool equal_pair = i->type() == BsonType::kDouble && i->value().as_double() == -5e-324;
      if (!equal_pair) check_pair(i->value(), j->value());
      CHECK(key_of(i->value()).key() <= key_of(j->value()).key());
    }
  }
}

TEST_CASE("key string: order and identity for random values") {
  const std::uint64_t seed = test::test_seed();
  INFO("MULTIFORA_TEST_SEED=" << seed);
  RandomBson random(seed);
  for (int i = 0; i < 20000; ++i) {
    const OwnedDocument a = one_value(random);
    const OwnedDocument b = one_value(random);
    check_pair(a.view().first().value(), b.view().first().value());
    if (a.view().first().type() != BsonType::kUndefined) {
      check_round_trip(a.view().first().value(), random.one_in(2));
    }
  }
}

TEST_CASE("key string: order and identity for random numbers") {
  const std::uint64_t seed = test::test_seed();
  INFO("MULTIFORA_TEST_SEED=" << seed);
  RandomBson random(seed);
  std::vector<OwnedDocument> numbers;
  for (int i = 0; i < 400; ++i) numbers.push_back(one_number(random));
  for (const OwnedDocument& a : numbers) {
    check_round_trip(a.view().first().value(), false);
    check_round_trip(a.view().first().value(), true);
    for (const OwnedDocument& b : numbers) {
      check_pair(a.view().first().value(), b.view().first().value());
    }
  }
}

TEST_CASE("key string: a decimal beside every double it could be taken for") {
  const std::uint64_t seed = test::test_seed();
  INFO("MULTIFORA_TEST_SEED=" << seed);
  RandomBson random(seed);
  for (int i = 0; i < 20000; ++i) {
    const Decimal128 d = random.decimal();
    const OwnedDocument a = holding(d);
    double near = d.to_double();
    for (const double x : {near, std::nextafter(near, HUGE_VAL), std::nextafter(near, -HUGE_VAL)}) {
      const OwnedDocument b = holding(x);
      check_pair(a.view().first().value(), b.view().first().value());
    }
  }
}

TEST_CASE("key string: compound keys with mixed directions") {
  const std::uint64_t seed = test::test_seed();
  INFO("MULTIFORA_TEST_SEED=" << seed);
  RandomBson random(seed);
  for (int i = 0; i < 5000; ++i) {
    const std::size_t fields = 1 + random.below(4);
    std::vector<bool> descending;
    std::vector<std::string_view> names;
    DocumentBuilder x, y;
    KeyStringBuilder key_x, key_y;
    int expected = 0;
    for (std::size_t f = 0; f < fields; ++f) {
      const OwnedDocument a = one_value(random);
      const OwnedDocument b = random.one_in(2) ? a : one_value(random);
      const ValueView u = a.view().first().value();
      const ValueView v = b.view().first().value();
      descending.push_back(random.one_in(2));
      names.push_back("f");
      key_x.append(u, descending[f]);
      key_y.append(v, descending[f]);
      x.append("f", u);
      y.append("f", v);
      if (expected == 0) expected = descending[f] ? -compare_values(u, v) : compare_values(u, v);
    }
    CHECK(memcmp_order(key_x.key(), key_y.key()) == sign(expected));
    DocumentBuilder out;
    REQUIRE(decode_key_string(key_x.key(), key_x.type_bits(), names, descending, out).ok());
    const bool same = std::move(out).finish().bytes() == std::move(x).finish().bytes();
    CHECK(same);
  }
}

TEST_CASE("key string: bounds of a prefix") {
  for (const bool descending : {false, true}) {
    KeyStringBuilder middle;
    const OwnedDocument d = holding(std::string("x\0", 2));
    middle.append(d.view().first().value());
    Buffer low(middle.key()), high(middle.key());
    low.push_back('\x00');
    high.push_back('\xff');
    RandomBson random(7);
    for (int i = 0; i < 200; ++i) {
      const OwnedDocument next = one_value(random);
      KeyStringBuilder key = middle;
      key.append(next.view().first().value(), descending);
      CHECK(low < key.key());
      CHECK(key.key() < high);
    }
    // A longer string is outside the prefix.
    KeyStringBuilder longer;
    const OwnedDocument e = holding(std::string("x\0\0", 3));
    longer.append(e.view().first().value());
    CHECK(high < longer.key());
  }
}

TEST_CASE("key string: missing is undefined; clear starts anew") {
  KeyStringBuilder key;
  key.append(ValueView());
  CHECK(hex(key.key()) == "0f");
  const OwnedDocument d = holding(1.0);
  key.append(d.view().first().value());
  CHECK_FALSE(key.type_bits().empty());
  key.clear();
  CHECK(key.key().empty());
  CHECK(key.type_bits().empty());
}

// A collation of which every sort key holds bytes that need escaping.
class CaseBlind : public Collator {
 public:
  int compare(std::string_view a, std::string_view b) const override {
    Buffer x, y;
    append_sort_key(a, x);
    append_sort_key(b, y);
    return x.compare(y);
  }
  void append_sort_key(std::string_view text, Buffer& out) const override {
    for (const char c : text) out.push_back(static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' : c));
  }
  DocumentView spec() const override { return {}; }
};

TEST_CASE("key string: a collator orders strings at every depth") {
  const CaseBlind collator;
  const std::uint64_t seed = test::test_seed();
  INFO("MULTIFORA_TEST_SEED=" << seed);
  RandomBson random(seed);
  for (int i = 0; i < 5000; ++i) {
    const OwnedDocument a = one_value(random);
    const OwnedDocument b = one_value(random);
    KeyStringBuilder x, y;
    x.append(a.view().first().value(), false, &collator);
    y.append(b.view().first().value(), false, &collator);
    const int expected =
        sign(compare_values(a.view().first().value(), b.view().first().value(), &collator));
    CHECK(memcmp_order(x.key(), y.key()) == expected);
  }
}

TEST_CASE("key string: bytes that no encoder wrote are refused") {
  const auto refused = [](std::string_view key, std::string_view type_bits = "") {
    DocumentBuilder out;
    const Status status = decode_key_string(key, type_bits, {}, {}, out);
    return !status.ok() && status.code() == ErrorCode::kInternalError;
  };
  using namespace std::string_view_literals;
  CHECK(refused("\x00"sv));
  CHECK(refused("\xff"sv));
  CHECK(refused("\x2d"sv));                      // no payload
  CHECK(refused("\x2d\x00"sv));                  // zero that is not 2b
  CHECK(refused("\x2e\x00\x02"sv));              // 1 in two bytes
  CHECK(refused("\x2d\x03\0\0\0\0\0\0\0"sv));    // a fraction of nothing
  CHECK(refused("\x2c\x7f\xe0\0\0\0\0\0\0"sv));  // 1.0 as a small number
  CHECK(
      refused("\x3c"
              "a"sv));  // no end
  CHECK(
      refused("\x3c"
              "a\x01\x03\x00"sv));  // no such escape
  CHECK(
      refused("\x46\x1e"
              "a\x00\x3c\x00\x00"sv));                  // a string in a number's bracket
  CHECK(refused("\x5a\xff\0\0\0\x01\0a"sv));            // a short length written long
  CHECK(refused("\x5a\x05\x02\0\0\0\0z"sv));            // old binary data of a wrong inner length
  CHECK(refused("\x6f\x6f"sv.substr(0, 1), "\x01"sv));  // type bits of nothing
  CHECK(refused("\x2b"sv, "\x00"sv));                   // a superfluous byte
  CHECK(refused(std::string(500, '\x50')));             // too deep
  CHECK_FALSE(refused("\x6f\x6f"sv));
  DocumentBuilder out;
  CHECK_FALSE(decode_key_string("\x6f\x6f"sv, "", {"a"}, {}, out).ok());
}

}  // namespace
}  // namespace multifora
