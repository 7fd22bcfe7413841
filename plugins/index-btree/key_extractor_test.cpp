#include "plugins/index-btree/key_extractor.h"

#include <doctest/doctest.h>

#include "core/bson/builder.h"
#include "core/bson/extended_json.h"

namespace multifora {
namespace {

// The keys as relaxed extended JSON, one a line, in key order.
std::string keys(const char* pattern_json, const char* document_json, bool sparse = false) {
  const OwnedDocument pattern = *from_extended_json(pattern_json);
  const OwnedDocument document = *from_extended_json(document_json);
  const KeyExtractor extractor(pattern.view());
  IndexKeySet set;
  const Status status = extractor.extract(document.view(), sparse, nullptr, set);
  if (!status.ok()) return std::to_string(static_cast<int>(status.code()));
  std::string text;
  for (const IndexKey& key : set.keys) {
    DocumentBuilder out;
    REQUIRE(decode_key_string(key.key, key.type_bits, {}, extractor.directions(), out).ok());
    const OwnedDocument decoded = std::move(out).finish();
    text += (text.empty() ? "" : " ");
    for (const Element& element : decoded.view()) text += to_extended_json(element.value()) + ",";
  }
  return text;
}

TEST_CASE("plain and missing fields") {
  CHECK(keys(R"({"a":1})", R"({"a":5})") == "5,");
  CHECK(keys(R"({"a":1})", R"({"b":5})") == "null,");
  CHECK(keys(R"({"a":1,"b":-1})", R"({"a":"x","b":2.5})") == R"("x",2.5,)");
  CHECK(keys(R"({"a.b":1})", R"({"a":{"b":7}})") == "7,");
  CHECK(keys(R"({"a.b":1})", R"({"a":3})") == "null,");
  CHECK(keys(R"({"a":1})", R"({"a":{"b":1}})") == R"({"b":1},)");
}

TEST_CASE("sparse leaves out a document without any field") {
  CHECK(keys(R"({"a":1})", R"({"b":5})", true).empty());
  CHECK(keys(R"({"a":1,"b":1})", R"({"b":5})", true) == "null,5,");
  CHECK(keys(R"({"a":1})", R"({"a":null})", true) == "null,");
}

TEST_CASE("arrays") {
  CHECK(keys(R"({"a":1})", R"({"a":[3,1,3,2]})") == "1, 2, 3,");
  CHECK(keys(R"({"a":1})", R"({"a":[]})") == R"({"$undefined":true},)");
  CHECK(keys(R"({"a":1})", R"({"a":[[1,2],3]})") == "3, [1,2],");
  CHECK(keys(R"({"a.b":1})", R"({"a":[{"b":1},{"b":2},{"c":3}]})") == "null, 1, 2,");
  CHECK(keys(R"({"a.b":1})", R"({"a":[{"b":[1,2]},{"b":3}]})") == "1, 2, 3,");
  CHECK(keys(R"({"a.b":1})", R"({"a":[]})") == "null,");
  CHECK(keys(R"({"a.b":1})", R"({"a":[1,2]})") == "null,");
}

TEST_CASE("fields that share an array move through it together") {
  CHECK(keys(R"({"a.x":1,"a.y":1})", R"({"a":[{"x":1,"y":2},{"x":3,"y":4}]})") == "1,2, 3,4,");
  CHECK(keys(R"({"a":1,"b":1})", R"({"a":[1,2],"b":9})") == "1,9, 2,9,");
}

TEST_CASE("positions in arrays") {
  CHECK(keys(R"({"a.0":1})", R"({"a":[7,8]})") == "7,");
  CHECK(keys(R"({"a.1.b":1})", R"({"a":[{"b":1},{"b":2}]})") == "2,");
  CHECK(keys(R"({"a.5":1})", R"({"a":[7,8]})") == "null,");
}

TEST_CASE("parallel arrays are refused") {
  CHECK(keys(R"({"a":1,"b":1})", R"({"a":[1],"b":[2]})") == "171");
  CHECK(keys(R"({"a.x":1,"b.y":1})", R"({"a":[{"x":1}],"b":[{"y":2}]})") == "171");
  CHECK(keys(R"({"a.x":1,"a.y":1})", R"({"a":[{"x":[1],"y":[2]}]})") == "171");
}

}  // namespace
}  // namespace multifora
