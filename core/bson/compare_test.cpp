#include "core/bson/compare.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <boost/multiprecision/cpp_int.hpp>
#include <cmath>
#include <limits>

#include "core/bson/builder.h"
#include "tests/support/random_bson.h"

using namespace multifora;

namespace {

// Letters compare without case: enough of a collation to see that it is asked.
class CaselessCollator final : public Collator {
 public:
  int compare(std::string_view a, std::string_view b) const override {
    const int order = lower(a).compare(lower(b));
    return order < 0 ? -1 : order > 0 ? 1 : 0;
  }
  void append_sort_key(std::string_view text, Buffer& out) const override { out += lower(text); }
  DocumentView spec() const override { return {}; }

 private:
  static std::string lower(std::string_view text) {
    std::string out(text);
    for (char& c : out)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return out;
  }
};

// Values under one roof; [i] in the order they were appended.
class Values {
 public:
  template <class F>
  explicit Values(F&& fill) {
    DocumentBuilder b;
    fill(b);
    document_ = std::move(b).finish();
    for (const Element& element : document_.view()) values_.push_back(element.value());
  }
  const ValueView& operator[](std::size_t i) const { return values_[i]; }
  std::size_t size() const { return values_.size(); }

 private:
  OwnedDocument document_;
  std::vector<ValueView> values_;
};

int sign(int n) {
  return n < 0 ? -1 : n > 0 ? 1 : 0;
}

void check_equal(const ValueView& a, const ValueView& b, const Collator* collator = nullptr) {
  CHECK(compare_values(a, b, collator) == 0);
  CHECK(compare_values(b, a, collator) == 0);
  CHECK(equal_values(a, b, collator));
  CHECK(hash_value(a, 7, collator) == hash_value(b, 7, collator));
}

Decimal128 dec(std::string_view text) {
  return Decimal128::parse(text).value();
}

}  // namespace

TEST_CASE("the order of the brackets and inside them") {
  const ObjectId low = *ObjectId::from_hex("000000000000000000000001");
  const ObjectId high = *ObjectId::from_hex("ff0000000000000000000000");
  const Values rising([&](DocumentBuilder& b) {
    b.append_min_key("");
    b.append_undefined("");
    b.append_null("");
    b.append("", static_cast<double>(NAN));
    b.append("", -HUGE_VAL).append("", dec("-1E6000")).append("", -1);
    b.append("", dec("-0.5")).append("", 0.0).append("", 5e-324).append("", dec("0.1"));
    b.append("", 0.1).append("", 1).append("", dec("1.000000000000000000000000000000001"));
    b.append("", 9007199254740992.0).append("", std::int64_t{9007199254740993});
    b.append("", dec("9007199254740993.5")).append("", std::numeric_limits<std::int64_t>::max());
    b.append("", 9223372036854775808.0).append("", dec("1E400")).append("", HUGE_VAL);
    b.append("", "").append_symbol("", "A").append("", "a").append("", "aa").append("", "b");
    b.append("", std::string_view("b\0", 2)).append("", "\xc3\xa9");
    b.append("", DocumentView());
    b.object("").append("b", 1);
    b.object("").append("b", 1).append("c", 1);
    b.object("").append("b", 2);
    b.object("").append("c", 0);
    b.object("").append("a", "x");  // the type of the first field decides before its name
    b.append_array("", DocumentView());
    {
      auto a = b.array("");
      a.append(1);
    }
    {
      auto a = b.array("");
      a.append(1).append(0);
    }
    {
      auto a = b.array("");
      a.append(2);
    }
    b.append_binary("", "zz", 0).append_binary("", "aaa", 0).append_binary("", "aab", 0);
    b.append_binary("", "aaa", 4);
    b.append("", low).append("", high).append("", false).append("", true);
    b.append_date_ms("", -1).append_date_ms("", 1);
    b.append_timestamp("", 1).append_timestamp("", 0xffffffffffffffffull);
    b.append_regex("", "a", "").append_regex("", "a", "i").append_regex("", "b", "");
    b.append_dbref("", "z", high).append_dbref("", "aa", low);
    b.append_code("", "a").append_code("", "b");
    b.append_code_with_scope("", "a", DocumentView());
    b.append_max_key("");
  });
  CHECK(rising.size() == 59);
  for (std::size_t i = 0; i < rising.size(); ++i) {
    for (std::size_t k = 0; k < rising.size(); ++k) {
      CAPTURE(i);
      CAPTURE(k);
      REQUIRE(sign(compare_values(rising[i], rising[k])) == (i < k ? -1 : i > k ? 1 : 0));
      REQUIRE(equal_values(rising[i], rising[k]) == (i == k));
    }
  }
}

TEST_CASE("equal across types, and hashed alike") {
  const Values one([](DocumentBuilder& b) {
    b.append("", 1).append("", std::int64_t{1}).append("", 1.0).append("", dec("1"));
    b.append("", dec("1.00")).append("", dec("10E-1"));
  });
  const Values zero([](DocumentBuilder& b) {
    b.append("", 0).append("", -0.0).append("", 0.0).append("", dec("-0")).append("", dec("0E9"));
  });
  const Values nan([](DocumentBuilder& b) {
    b.append("", static_cast<double>(NAN)).append("", -static_cast<double>(NAN));
    b.append("", Decimal128::nan()).append("", Decimal128(3, 0xfc00000000000000ull));
  });
  const Values half([](DocumentBuilder& b) {
    b.append("", 0.5).append("", dec("0.5")).append("", dec("0.500"));
  });
  const Values infinite(
      [](DocumentBuilder& b) { b.append("", HUGE_VAL).append("", Decimal128::infinity()); });
  const Values large([](DocumentBuilder& b) {
    b.append("", 1e22).append("", dec("1E22")).append("", dec("1.00E22"));
  });
  const Values decimal_only([](DocumentBuilder& b) {
    b.append("", dec("0.1")).append("", dec("0.1000")).append("", dec("1E-1"));
  });
  const Values text([](DocumentBuilder& b) { b.append("", "x").append_symbol("", "x"); });
  for (const Values* group : {&one, &zero, &nan, &half, &infinite, &large, &decimal_only, &text})
    for (std::size_t i = 0; i < group->size(); ++i)
      for (std::size_t k = 0; k < group->size(); ++k) check_equal((*group)[i], (*group)[k]);
}

TEST_CASE("missing equals undefined and sorts below null") {
  const Values values([](DocumentBuilder& b) { b.append_undefined("").append_null(""); });
  check_equal(ValueView(), values[0]);
  check_equal(ValueView(), ValueView());
  CHECK(compare_values(ValueView(), values[1]) < 0);
}

TEST_CASE("arrays are compared without their names, objects with them") {
  const Values values([](DocumentBuilder& b) {
    b.object("").append("0", 1).append("1", 2);
    b.object("").append("x", 1).append("y", 2);
  });
  const DocumentView a = values[0].as_document();
  const DocumentView b = values[1].as_document();
  CHECK(compare_documents(a, b) < 0);
  CHECK(compare_documents(a, b, nullptr, true) == 0);
  check_equal(as_value(a, BsonType::kArray), as_value(b, BsonType::kArray));
  CHECK(!equal_values(as_value(a), as_value(b)));
  CHECK(compare_values(as_value(a, BsonType::kArray), as_value(b)) > 0);
}

TEST_CASE("a collator orders strings and symbols at every depth, nothing else") {
  const CaselessCollator caseless;
  const Values values([](DocumentBuilder& b) {
    b.append("", "ABC").append("", "abc").append_symbol("", "aBc");
    b.object("").append("s", "X");
    b.object("").append("s", "x");
    b.append_code("", "F").append_code("", "f");
    b.object("").append("S", "x");
  });
  check_equal(values[0], values[1], &caseless);
  check_equal(values[0], values[2], &caseless);
  check_equal(values[3], values[4], &caseless);
  CHECK(compare_values(values[0], values[1]) < 0);
  CHECK(compare_values(values[5], values[6], &caseless) < 0);
  CHECK(compare_values(values[4], values[7], &caseless) > 0);
}

TEST_CASE("identical means type and bytes") {
  const Values values([](DocumentBuilder& b) {
    b.append("", 1).append("", 1).append("", 1.0).append("", dec("1.0")).append("", dec("1.00"));
  });
  CHECK(identical_values(values[0], values[1]));
  CHECK(!identical_values(values[0], values[2]));
  CHECK(!identical_values(values[3], values[4]));
}

TEST_CASE("numbers: int64 against double and decimal, exactly") {
  using Integer = boost::multiprecision::cpp_int;
  const std::uint64_t seed = test::test_seed();
  CAPTURE(seed);
  test::RandomBson random(seed);
  for (int i = 0; i < 20'000; ++i) {
    const std::int64_t n = random.integer();
    const double d = random.one_in(2) ? random.real()
                                      : std::nextafter(static_cast<double>(n),
                                                       random.one_in(2) ? 1e308 : -1e308);
    if (!std::isfinite(d)) continue;
    CAPTURE(n);
    CAPTURE(d);
    const Values values([&](DocumentBuilder& b) { b.append("", n).append("", d); });
    // d = mantissa * 2^(exponent - 53); both sides times what makes them whole.
    int exponent = 0;
    Integer right = static_cast<std::int64_t>(std::ldexp(std::frexp(d, &exponent), 53));
    Integer left = n;
    (exponent >= 53 ? right : left) <<= static_cast<unsigned>(std::abs(exponent - 53));
    const int expected = left < right ? -1 : left > right ? 1 : 0;
    REQUIRE(compare_numbers(values[0], values[1]) == expected);
    REQUIRE(compare_numbers(values[1], values[0]) == -expected);
  }
}

TEST_CASE("a total order: antisymmetric, transitive, equal values hashed alike") {
  const std::uint64_t seed = test::test_seed();
  CAPTURE(seed);
  test::RandomBson random(seed);
  const CaselessCollator caseless;
  int equal_pairs = 0;
  for (int round = 0; round < 60; ++round) {
    const Collator* collator = round % 3 == 0 ? &caseless : nullptr;
    const Values values([&](DocumentBuilder& b) {
      for (int i = 0; i < 60; ++i) {
        if (round % 2 == 0)
          random.append_number(b, "");
        else
          random.append_value(b, "", 3);
      }
    });
    std::vector<ValueView> sorted;
    for (std::size_t i = 0; i < values.size(); ++i) sorted.push_back(values[i]);
    std::sort(sorted.begin(), sorted.end(), [&](const ValueView& a, const ValueView& b) {
      return compare_values(a, b, collator) < 0;
    });
    // After sorting, every pair must agree with its places: that is transitivity.
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      for (std::size_t k = i; k < sorted.size(); ++k) {
        const int order = compare_values(sorted[i], sorted[k], collator);
        REQUIRE(order <= 0);
        REQUIRE(sign(compare_values(sorted[k], sorted[i], collator)) == -sign(order));
        REQUIRE(equal_values(sorted[i], sorted[k], collator) == (order == 0));
        if (order != 0) continue;
        equal_pairs += i != k ? 1 : 0;
        REQUIRE(hash_value(sorted[i], seed, collator) == hash_value(sorted[k], seed, collator));
      }
    }
  }
  CHECK(equal_pairs > 500);
}

TEST_CASE("hashes differ where values do") {
  const Values same_bits([](DocumentBuilder& b) { b.append("", 5e-324).append("", 1); });
  CHECK(hash_value(same_bits[0], 1) != hash_value(same_bits[1], 1));
  const std::uint64_t seed = test::test_seed();
  CAPTURE(seed);
  test::RandomBson random(seed);
  int differing = 0;
  int collisions = 0;
  for (int i = 0; i < 20'000; ++i) {
    const Values pair([&](DocumentBuilder& b) {
      random.append_value(b, "", 2);
      random.append_value(b, "", 2);
    });
    if (equal_values(pair[0], pair[1])) continue;
    ++differing;
    collisions += hash_value(pair[0], 1) == hash_value(pair[1], 1) ? 1 : 0;
    REQUIRE(hash_value(pair[0], 1) != hash_value(pair[0], 2));
  }
  CHECK(differing > 10'000);
  CHECK(collisions == 0);
}
