#include "core/bson/view.h"

#include <doctest/doctest.h>

#include <limits>

#include "core/bson/builder.h"

using namespace multifora;

namespace {

constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

template <class T>
OwnedDocument one(T value) {
  DocumentBuilder b;
  b.append("v", value);
  return std::move(b).finish();
}

OwnedDocument decimal(const char* text) {
  return one(Decimal128::parse(text).value());
}

std::int64_t truncated(const OwnedDocument& document) {
  return document.view()["v"].number_as_int64();
}

// The exact int64, or nullopt.
std::optional<std::int64_t> exact(const OwnedDocument& document) {
  std::int64_t out = 0;
  if (!document.view()["v"].exact_int64(&out)) return std::nullopt;
  return out;
}

double as_double(const OwnedDocument& document) {
  return document.view()["v"].number_as_double();
}

bool truth(const OwnedDocument& document) {
  return document.view()["v"].truthy();
}

}  // namespace

TEST_CASE("find takes the first of equal names and no prefix") {
  DocumentBuilder b;
  b.append("ab", 1).append("a", 2).append("a", 3).append("", 4);
  const OwnedDocument document = std::move(b).finish();
  CHECK(document.view()["a"].as_int32() == 2);
  CHECK(document.view()["ab"].as_int32() == 1);
  CHECK(document.view()[""].as_int32() == 4);
  CHECK(document.view()["abc"].missing());
  CHECK(document.view().find("a").name() == "a");
  CHECK(document.view().first().name() == "ab");
  CHECK(document.view().count() == 4);
}

TEST_CASE("accessors of every type, the last element included") {
  const ObjectId id = *ObjectId::from_hex("0102030405060708090a0b0c");
  DocumentBuilder scope;
  scope.append("s", 1);
  const OwnedDocument scope_document = std::move(scope).finish();
  DocumentBuilder b;
  b.append("double", 1.5).append("text", std::string_view("a\0b", 3)).append("oid", id);
  b.append_binary("bin", "xyz", 4).append_regex("re", "a.b", "im").append_symbol("sym", "S");
  b.append_dbref("ref", "db.c", id).append_code("code", "f()");
  b.append_code_with_scope("scoped", "g()", scope_document.view());
  b.append_timestamp("ts", 7ull << 32 | 9).append_date_ms("date", -5).append("dec", Decimal128(3));
  b.append_min_key("min");
  const OwnedDocument document = std::move(b).finish();
  const DocumentView view = document.view();
  CHECK(view["double"].as_double() == 1.5);
  CHECK(view["text"].as_string() == std::string_view("a\0b", 3));
  CHECK(view["oid"].as_object_id() == id);
  CHECK(view["bin"].binary_bytes() == "xyz");
  CHECK(view["bin"].binary_subtype() == 4);
  CHECK(view["re"].regex_pattern() == "a.b");
  CHECK(view["re"].regex_options() == "im");
  CHECK(view["sym"].as_string() == "S");
  CHECK(view["ref"].dbref_namespace() == "db.c");
  CHECK(view["ref"].dbref_id() == id);
  CHECK(view["code"].as_string() == "f()");
  CHECK(view["scoped"].code_with_scope_code() == "g()");
  CHECK(view["scoped"].code_with_scope_scope()["s"].as_int32() == 1);
  CHECK(view["ts"].as_timestamp() == (7ull << 32 | 9));
  CHECK(view["date"].as_date_ms() == -5);
  CHECK(view["dec"].as_decimal().to_string() == "3");
  CHECK(view["min"].type() == BsonType::kMinKey);
  CHECK(view["min"].size_bytes() == 0);
  CHECK(view.count() == 13);
  CHECK(as_value(view).as_document().bytes() == view.bytes());
}

TEST_CASE("truncation to int64 saturates") {
  CHECK(truncated(one(2.9)) == 2);
  CHECK(truncated(one(-2.9)) == -2);
  CHECK(truncated(one(1e300)) == kMax);
  CHECK(truncated(one(-1e300)) == kMin);
  CHECK(truncated(one(9223372036854775808.0)) == kMax);
  CHECK(truncated(one(-9223372036854775808.0)) == kMin);
  CHECK(truncated(one(std::numeric_limits<double>::quiet_NaN())) == 0);
  CHECK(truncated(one(-7)) == -7);
  CHECK(truncated(one(kMin)) == kMin);
  CHECK(truncated(decimal("-2.99")) == -2);
  CHECK(truncated(decimal("1E6000")) == kMax);
  CHECK(truncated(decimal("-1E6000")) == kMin);
  CHECK(truncated(decimal("-Infinity")) == kMin);
  CHECK(truncated(decimal("NaN")) == 0);
  CHECK(truncated(one("5")) == 0);
}

TEST_CASE("exact int64 of every number type") {
  CHECK(exact(one(5)) == 5);
  CHECK(exact(one(kMin)) == kMin);
  CHECK(exact(one(-0.0)) == 0);
  CHECK(exact(one(-9223372036854775808.0)) == kMin);
  CHECK(!exact(one(9223372036854775808.0)).has_value());
  CHECK(!exact(one(0.5)).has_value());
  CHECK(!exact(one(std::numeric_limits<double>::infinity())).has_value());
  CHECK(!exact(one(std::numeric_limits<double>::quiet_NaN())).has_value());
  CHECK(exact(decimal("9223372036854775807")) == kMax);
  CHECK(exact(decimal("9223372036854775807.0")) == kMax);
  CHECK(exact(decimal("-9223372036854775808")) == kMin);
  CHECK(exact(decimal("12E2")) == 1200);
  CHECK(!exact(decimal("9223372036854775808")).has_value());
  CHECK(!exact(decimal("9223372036854775807.5")).has_value());
  CHECK(!exact(decimal("-9223372036854775808.5")).has_value());
  CHECK(!exact(decimal("1E-6176")).has_value());
  CHECK(!exact(decimal("NaN")).has_value());
  CHECK(!exact(one(true)).has_value());
}

TEST_CASE("number_as_double") {
  CHECK(as_double(one(3)) == 3.0);
  CHECK(as_double(one(kMin)) == -9223372036854775808.0);
  CHECK(as_double(decimal("0.1")) == 0.1);
  CHECK(as_double(decimal("1E400")) == std::numeric_limits<double>::infinity());
  CHECK(as_double(one("x")) == 0);
}

TEST_CASE("truth") {
  for (const OwnedDocument& no : {one(0), one(0.0), one(-0.0), one(std::int64_t{0}), one(false),
                                  decimal("0"), decimal("-0E5")})
    CHECK(!truth(no));
  for (const OwnedDocument& yes :
       {one(1), one(1e-300), one(std::numeric_limits<double>::quiet_NaN()), one(true), one(""),
        one(DocumentView()), decimal("NaN"), decimal("1E-6176"), decimal("-Infinity")})
    CHECK(truth(yes));
  CHECK(!ValueView().truthy());
  DocumentBuilder b;
  b.append_null("v");
  CHECK(!truth(std::move(b).finish()));
}

TEST_CASE("an owned document keeps its bytes") {
  OwnedDocument a = one(1);
  const OwnedDocument b(a.view());
  CHECK(a.bytes() == b.bytes());
  const Buffer bytes = std::move(a).take();
  const OwnedDocument again = OwnedDocument::assume_valid(bytes);
  CHECK(again.view()["v"].as_int32() == 1);
}
