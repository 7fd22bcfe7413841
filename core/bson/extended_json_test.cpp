#include "core/bson/extended_json.h"

#include <doctest/doctest.h>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/base/limits.h"
#include "core/bson/compare.h"
#include "core/bson/json_text.h"
#include "tests/support/random_bson.h"

namespace multifora {
namespace {

std::string relaxed(std::string_view json) {
  const auto parsed = from_extended_json(json);
  if (!parsed) return "error: " + parsed.error().message();
  return to_extended_json(parsed->view());
}
std::string canonical(std::string_view json) {
  const auto parsed = from_extended_json(json);
  if (!parsed) return "error: " + parsed.error().message();
  return to_extended_json(parsed->view(), JsonMode::kCanonical);
}

TEST_CASE("extended JSON: integers take the smallest type that holds them") {
  CHECK(canonical(R"({"a":1,"b":2147483648,"c":9223372036854775808,"d":1.0,"e":1e2,"f":-0})") ==
        R"({"a":{"$numberInt":"1"},"b":{"$numberLong":"2147483648"},)"
        R"("c":{"$numberDouble":"9.223372036854776E+18"},"d":{"$numberDouble":"1.0"},)"
        R"("e":{"$numberDouble":"100.0"},"f":{"$numberInt":"0"}})");
}

TEST_CASE("extended JSON: order and duplicate names are kept") {
  CHECK(relaxed(R"({"b":1,"a":2,"b":3})") == R"({"b":1,"a":2,"b":3})");
}

TEST_CASE("extended JSON: old forms") {
  CHECK(relaxed(R"({"x":{"$regex":"a.b","$options":"xi"}})") ==
        R"({"x":{"$regularExpression":{"pattern":"a.b","options":"ix"}}})");
  CHECK(relaxed(R"({"x":{"$binary":"//8=","$type":"80"}})") ==
        R"({"x":{"$binary":{"base64":"//8=","subType":"80"}}})");
  CHECK(relaxed(R"({"x":{"$type":"80","$binary":"//8="}})") ==
        R"({"x":{"$binary":{"base64":"//8=","subType":"80"}}})");
  CHECK(relaxed(R"({"x":{"$uuid":"73FFD264-44b3-4c69-90e8-e7d1dfc035d4"}})") ==
        R"({"x":{"$binary":{"base64":"c//SZESzTGmQ6OfR38A11A==","subType":"04"}}})");
}

TEST_CASE("extended JSON: query operators stay documents") {
  for (const char* json :
       {R"({"x":{"$regex":"a"}})", R"({"x":{"$regex":"a","$options":"i","$gt":1}})",
        R"({"x":{"$type":"string"}})", R"({"$oid":"not one, at the top"})",
        R"({"x":{"$ref":"c","$id":1}})", R"({"x":{"$scope":{}}})"}) {
    CHECK(relaxed(json) == json);
  }
}

TEST_CASE("extended JSON: dates") {
  const auto ms = [](std::string_view text) { return json_text::parse_iso_date(text); };
  CHECK(ms("1970-01-01T00:00:00Z") == 0);
  CHECK(ms("2012-12-24T12:15:30.501Z") == 1356351330501);
  CHECK(ms("2012-12-24T13:15:30.501+01:00") == 1356351330501);
  CHECK(ms("2012-12-24T07:15:30.501-0500") == 1356351330501);
  CHECK(ms("2012-12-24T12:15:30.5019999+00") == 1356351330501);
  CHECK(ms("2000-02-29T00:00:00.5Z") == 951782400500);
  CHECK(ms("0000-01-01T00:00:00Z") == -62167219200000);
  for (const char* text : {"2001-02-29T00:00:00Z", "2012-12-24T24:00:00Z", "2012-12-24T12:60:00Z",
                           "2012-12-24T12:15:30", "2012-12-24", "2012-12-24T12:15:30.Z", "",
                           "2012-12-24T12:15:30Z ", "2012-13-24T12:15:30Z"}) {
    CHECK_FALSE(ms(text).has_value());
  }
  std::string last;
  json_text::append_iso_date(253402300799999, last);
  CHECK(last == "9999-12-31T23:59:59.999Z");
}

TEST_CASE("extended JSON: doubles read back as themselves") {
  const auto text = [](double d) {
    std::string out;
    json_text::append_double(d, out);
    return out;
  };
  CHECK(text(0.1) == "0.1");
  CHECK(text(100) == "100.0");
  CHECK(text(1e16) == "1.0E+16");
  CHECK(text(5e-324) == "5.0E-324");
  CHECK(text(-1.5e-7) == "-1.5E-07");
  const std::uint64_t seed = test::test_seed();
  INFO("MULTIFORA_TEST_SEED=" << seed);
  test::RandomBson random(seed);
  for (int i = 0; i < 20000; ++i) {
    const double d = random.real();
    if (!std::isfinite(d)) continue;
    const auto parsed = json_text::parse_double(text(d));
    REQUIRE(parsed.has_value());
    CHECK(std::bit_cast<std::uint64_t>(*parsed) == std::bit_cast<std::uint64_t>(d));
  }
}

TEST_CASE("extended JSON: strings") {
  const auto parsed = from_extended_json(R"({"a":"\u00e9\u2606\ud83d\ude00\n\u0000\/\"\\"})");
  REQUIRE(parsed.has_value());
  const bool same = parsed->view()["a"].as_string() ==
                    std::string_view("\xc3\xa9\xe2\x98\x86\xf0\x9f\x98\x80\n\0/\"\\", 14);
  CHECK(same);
  CHECK(to_extended_json(parsed->view()) ==
        "{\"a\":\"\xc3\xa9\xe2\x98\x86\xf0\x9f\x98\x80\\n\\u0000/\\\"\\\\\"}");
  DocumentBuilder b;
  b.append("bad", "x\xff\xc3\xa9\xe2\x98y\xed\xa0\x80");
  const OwnedDocument d = std::move(b).finish();
  const std::string json = to_extended_json(d.view());
  CHECK(nlohmann::json::accept(json));
  CHECK(json.starts_with("{\"bad\":\"x\xef\xbf\xbd\xc3\xa9\xef\xbf\xbd"));
}

TEST_CASE("extended JSON: mistakes have a line and a column") {
  CHECK(relaxed("{\n  \"a\": 1,\n  \"b\": tru\n}") == "error: unexpected text at line 3, column 8");
  CHECK(relaxed("{\"a\": {\"$oid\": 1}}").ends_with(" at line 1, column 7"));
  for (const char* json : {"",
                           " ",
                           "{",
                           "[]",
                           "1",
                           "{}x",
                           "{,}",
                           "{\"a\"}",
                           "{\"a\":}",
                           "{\"a\":1,}",
                           "{a:1}",
                           "{'a':1}",
                           "{\"a\":01}",
                           "{\"a\":1.}",
                           "{\"a\":.5}",
                           "{\"a\":1e}",
                           "{\"a\":-}",
                           "{\"a\":+1}",
                           "{\"a\":1e999}",
                           "{\"a\":NaN}",
                           "{\"a\":[1 2]}",
                           "{\"a\":[1,]}",
                           "{\"a\":\"\n\"}",
                           "{\"a\":\"\\x\"}",
                           "{\"a\":\"\\u12\"}",
                           "{\"a\":\"\\u12g4\"}",
                           "{\"a\":\"\\ud83d\"}",
                           "{\"a\":\"\\ud83d\\u0041\"}",
                           "{\"a\":\"\\ude00\"}",
                           "{\"a\":\"",
                           "{\"\xff\":1}",
                           "{\"a\":{\"$binary\":{\"base64\":\"a\",\"subType\":\"00\"}}}",
                           "{\"a\":{\"$binary\":{\"base64\":\"a=b=\",\"subType\":\"00\"}}}",
                           "{\"a\":{\"$binary\":{\"base64\":\"\",\"subType\":\"000\"}}}",
                           "{\"a\":{\"$numberInt\":\"2147483648\"}}",
                           "{\"a\":{\"$numberInt\":\"1.0\"}}",
                           "{\"a\":{\"$numberDouble\":\"inf\"}}",
                           "{\"a\":{\"$numberDouble\":\"\"}}",
                           "{\"a\":{\"$timestamp\":{\"t\":4294967296,\"i\":0}}}",
                           "{\"a\":{\"$timestamp\":{\"t\":-1,\"i\":0}}}",
                           "{\"a\":{\"$undefined\":false}}"}) {
    INFO(json);
    const auto parsed = from_extended_json(json);
    REQUIRE_FALSE(parsed.has_value());
    CHECK(parsed.error().code() == ErrorCode::kFailedToParse);
  }
}

TEST_CASE("extended JSON: nesting is bounded") {
  const auto nested = [](std::size_t levels) {
    std::string json = "{\"a\":";
    for (std::size_t i = 1; i < levels; ++i) json += "[";
    json += "1";
    for (std::size_t i = 1; i < levels; ++i) json += "]";
    return json + "}";
  };
  CHECK(from_extended_json(nested(limits::kNestingDepthParseMax)).has_value());
  CHECK_FALSE(from_extended_json(nested(limits::kNestingDepthParseMax + 1)).has_value());
  CHECK_FALSE(from_extended_json(nested(100000)).has_value());
}

// Signs and payloads of NaN are not kept by the text, non-canonical decimals become zero, options
// of regular expressions are sorted. All else is.
bool survives(const ValueView& v) {
  switch (v.type()) {
    case BsonType::kDouble:
      return !std::isnan(v.as_double()) ||
             load_le<std::uint64_t>(v.data()) == 0x7ff8000000000000ull;
    case BsonType::kDecimal128: {
      const Decimal128 d = v.as_decimal();
      const auto again = Decimal128::parse(d.to_string());
      return again.has_value() && again->identical(d);
    }
    case BsonType::kObject:
    case BsonType::kArray:
      for (const Element& e : v.as_document()) {
        if (!survives(e.value())) return false;
      }
      return true;
    case BsonType::kCodeWithScope:
      return survives(as_value(v.code_with_scope_scope()));
    default:
      return true;
  }
}

TEST_CASE("extended JSON: random documents") {
  const std::uint64_t seed = test::test_seed();
  INFO("MULTIFORA_TEST_SEED=" << seed);
  test::RandomBson random(seed);
  int identical = 0;
  for (int i = 0; i < 5000; ++i) {
    const OwnedDocument d = random.document(4);
    const std::string json = to_extended_json(d.view(), JsonMode::kCanonical);
    CHECK(nlohmann::json::accept(json));
    CHECK(nlohmann::json::accept(to_extended_json(d.view())));
    const auto parsed = from_extended_json(json);
    REQUIRE_MESSAGE(parsed.has_value(), parsed.error().message() << " " << json);
    CHECK(to_extended_json(parsed->view(), JsonMode::kCanonical) == json);
    if (!survives(as_value(d.view()))) continue;
    ++identical;
    const bool same = parsed->bytes() == d.bytes();
    CHECK_MESSAGE(same, json);
    // Relaxed: numbers may change type, nothing else.
    const auto loose = from_extended_json(to_extended_json(d.view()));
    REQUIRE(loose.has_value());
    CHECK(compare_documents(loose->view(), d.view()) == 0);
  }
  CHECK(identical > 1000);
}

TEST_CASE("extended JSON as a document says what the text says") {
  const std::uint64_t seed = test::test_seed();
  INFO("MULTIFORA_TEST_SEED=" << seed);
  test::RandomBson random(seed);
  for (int i = 0; i < 2000; ++i) {
    const OwnedDocument d = random.document(4);
    for (const JsonMode mode : {JsonMode::kCanonical, JsonMode::kRelaxed}) {
      DocumentBuilder out;
      append_extended_json(out, "v", as_value(d.view()), mode);
      const OwnedDocument wrapped = std::move(out).finish();
      CHECK(to_extended_json(wrapped.view()["v"]) == to_extended_json(d.view(), mode));
    }
  }
}

TEST_CASE("base64 of both alphabets, hexadecimal and UUIDs") {
  using namespace json_text;
  for (const std::string text : {"", "a", "ab", "abc", "\xfb\xff\xfe", "\xfb\xff"}) {
    for (const Base64 alphabet : {Base64::kStandard, Base64::kUrl}) {
      std::string base64;
      append_base64(text, base64, alphabet);
      CHECK(parse_base64(base64, alphabet) == text);
      CHECK(base64.find(alphabet == Base64::kUrl ? '=' : '_') == std::string::npos);
    }
    std::string hex;
    append_hex(text, hex);
    CHECK(parse_hex(hex) == text);
  }
  CHECK(parse_base64("-_8", Base64::kUrl) == "\xfb\xff");
  CHECK(parse_base64("-_8=", Base64::kUrl) == "\xfb\xff");
  for (const char* bad : {"-_8=", "abc", "a===", "====", "ab=c", "ab c"}) CHECK(!parse_base64(bad));
  CHECK(!parse_base64("abcde", Base64::kUrl));
  CHECK(!parse_hex("abc"));
  CHECK(!parse_hex("0g"));
  const auto uuid = parse_uuid("73ffd264-44b3-4c69-90e8-e7d1dfc035d4");
  REQUIRE(uuid);
  CHECK(uuid_text(*uuid) == "73ffd264-44b3-4c69-90e8-e7d1dfc035d4");
}

}  // namespace
}  // namespace multifora
