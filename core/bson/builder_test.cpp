#include "core/bson/builder.h"

#include <doctest/doctest.h>

#include "core/bson/validate.h"
#include "tests/support/hex.h"
#include "tests/support/random_bson.h"

using namespace multifora;
using test::to_hex;

TEST_CASE("the empty document") {
  CHECK(to_hex(DocumentView().bytes()) == "0500000000");
  CHECK(OwnedDocument().bytes() == DocumentBuilder().finish().bytes());
  CHECK(DocumentView().empty());
  CHECK(DocumentView().count() == 0);
  CHECK(DocumentView().first().missing());
  CHECK(DocumentView().find("a").missing());
}

// The bytes are those of the BSON specification's corpus.
TEST_CASE("each append writes the bytes of its type") {
  const auto bytes = [](auto&& append) {
    DocumentBuilder b;
    append(b);
    return to_hex(std::move(b).finish().bytes());
  };
  const ObjectId id = *ObjectId::from_hex("56e1fc72e0c917e9c4714161");
  CHECK(bytes([](auto& b) { b.append("d", 1.0); }) == "10000000016400000000000000F03F00");
  CHECK(bytes([](auto& b) { b.append("a", "b"); }) == "0E00000002610002000000620000");
  CHECK(bytes([](auto& b) { b.append("i", -1); }) == "0C000000106900FFFFFFFF00");
  CHECK(bytes([](auto& b) { b.append("a", 1LL); }) == "10000000126100010000000000000000");
  CHECK(bytes([](auto& b) { b.append("b", true); }) == "090000000862000100");
  CHECK(bytes([](auto& b) { b.append_null("a"); }) == "080000000A610000");
  CHECK(bytes([](auto& b) { b.append_undefined("a"); }) == "0800000006610000");
  CHECK(bytes([](auto& b) { b.append_min_key("a"); }) == "08000000FF610000");
  CHECK(bytes([](auto& b) { b.append_max_key("a"); }) == "080000007F610000");
  CHECK(bytes([](auto& b) { b.append_date_ms("a", 0); }) == "10000000096100000000000000000000");
  CHECK(bytes([](auto& b) { b.append_timestamp("a", 123456789ull << 32 | 42); }) ==
        "100000001161002A00000015CD5B0700");
  CHECK(bytes([](auto& b) { b.append_binary("x", "\xff\xff", 0); }) ==
        "0F0000000578000200000000FFFF00");
  CHECK(bytes([](auto& b) { b.append_regex("a", "abc", "im"); }) ==
        "0F0000000B610061626300696D0000");
  CHECK(bytes([](auto& b) { b.append_code("a", "b"); }) == "0E0000000D610002000000620000");
  CHECK(bytes([](auto& b) { b.append_symbol("a", "b"); }) == "0E0000000E610002000000620000");
  CHECK(bytes([&](auto& b) { b.append("a", id); }) == "1400000007610056E1FC72E0C917E9C471416100");
  CHECK(bytes([&](auto& b) { b.append_dbref("a", "b", id); }) ==
        "1A0000000C610002000000620056E1FC72E0C917E9C471416100");
  CHECK(bytes([](auto& b) { b.append_code_with_scope("a", "", DocumentView()); }) ==
        "160000000F61000E0000000100000000050000000000");
  CHECK(bytes([](auto& b) { b.append("d", Decimal128(1)); }) ==
        "180000001364000100000000000000000000000000403000");
  CHECK(bytes([](auto& b) { b.append("x", DocumentView()); }) == "0D000000037800050000000000");
  CHECK(bytes([](auto& b) { b.append_array("a", DocumentView()); }) ==
        "0D000000046100050000000000");
  CHECK(bytes([](auto& b) { b.append("a", ValueView()); }) == "0500000000");
}

TEST_CASE("nested builders close with their scope, in any mixture") {
  DocumentBuilder b;
  b.append("n", 1);
  {
    DocumentBuilder sub = b.object("o");
    sub.append("x", 2);
    ArrayBuilder list = sub.array("list");
    list.append(1).append("two").append_null();
    list.object().append("three", 3);
    list.array().append(4);
    CHECK(list.count() == 5);
  }
  DocumentBuilder closed = b.object("early");
  closed.close();
  b.append("end", "e");
  const OwnedDocument document = std::move(b).finish();
  const auto view = validate(document.bytes());
  REQUIRE(view.has_value());
  CHECK(view->count() == 4);
  const DocumentView list = (*view)["o"].as_document()["list"].as_document();
  CHECK(list.count() == 5);
  CHECK(list["0"].as_int32() == 1);
  CHECK(list["1"].as_string() == "two");
  CHECK(list["2"].type() == BsonType::kNull);
  CHECK(list["3"].as_document()["three"].as_int32() == 3);
  CHECK(list["4"].as_document()["0"].as_int32() == 4);
  CHECK((*view)["early"].as_document().empty());
  CHECK((*view)["end"].as_string() == "e");
}

TEST_CASE("appending to a buffer leaves what was there") {
  Buffer out = "before";
  {
    DocumentBuilder first(&out);
    first.append("a", 1);
    CHECK(first.size_bytes() == 4 + 7);
  }
  {
    ArrayBuilder second(&out);
    second.append(1.5);
  }
  CHECK(out.substr(0, 6) == "before");
  const auto first = validate_prefix(Bytes(out).substr(6));
  REQUIRE(first.has_value());
  CHECK((*first)["a"].as_int32() == 1);
  const auto second = validate(Bytes(out).substr(6 + first->size_bytes()));
  REQUIRE(second.has_value());
  CHECK((*second)["0"].as_double() == 1.5);
}

TEST_CASE("a builder can be moved, short buffers too") {
  DocumentBuilder a;
  a.append("x", true);
  DocumentBuilder b(std::move(a));
  b.append("y", 2);
  ArrayBuilder c;
  c.append(1);
  ArrayBuilder d(std::move(c));
  d.append(2);
  const OwnedDocument document = std::move(b).finish();
  const OwnedDocument array = std::move(d).finish();
  CHECK(document.view().count() == 2);
  CHECK(array.view()["1"].as_int32() == 2);
}

TEST_CASE("array names count in decimal") {
  ArrayBuilder b;
  for (int i = 0; i < 1200; ++i) b.append(i);
  const OwnedDocument document = std::move(b).finish();
  int i = 0;
  for (const Element& element : document.view()) {
    REQUIRE(element.name() == std::to_string(i));
    REQUIRE(element.value().as_int32() == i);
    ++i;
  }
  CHECK(i == 1200);
}

TEST_CASE("copying element by element, or all at once, gives the same bytes") {
  const std::uint64_t seed = test::test_seed();
  CAPTURE(seed);
  test::RandomBson random(seed);
  for (int i = 0; i < 2000; ++i) {
    const OwnedDocument document = random.document(4);
    REQUIRE(validate(document.bytes()).has_value());
    DocumentBuilder each;
    for (const Element& element : document.view()) each.append(element);
    DocumentBuilder all;
    all.append_all(document.view());
    REQUIRE(std::move(each).finish().bytes() == document.bytes());
    REQUIRE(std::move(all).finish().bytes() == document.bytes());
  }
}
