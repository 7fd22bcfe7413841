#include "core/bson/types.h"

#include <doctest/doctest.h>

#include "core/bson/object_id.h"

using namespace multifora;

TEST_CASE("aliases go both ways; missing and number are not types") {
  for (int byte = -1; byte <= 127; ++byte) {
    if (!is_valid_type(byte)) continue;
    const auto type = static_cast<BsonType>(byte);
    CHECK(type_from_name(type_name(type)) == type);
  }
  CHECK(type_name(BsonType::kEOO) == "missing");
  CHECK(type_name(BsonType::kInt64) == "long");
  CHECK(type_name(BsonType::kCodeWithScope) == "javascriptWithScope");
  CHECK(!type_from_name("missing").has_value());
  CHECK(!type_from_name("number").has_value());
  CHECK(!type_from_name("Int").has_value());
}

TEST_CASE("21 type bytes are valid") {
  int count = 0;
  for (int byte = 0; byte < 256; ++byte) count += is_valid_type(byte) ? 1 : 0;
  CHECK(count == 21);
  CHECK(is_valid_type(-1));
  CHECK(!is_valid_type(0));
  CHECK(!is_valid_type(20));
}

TEST_CASE("brackets") {
  CHECK(canonical_type(BsonType::kMinKey) == -1);
  CHECK(canonical_type(BsonType::kEOO) == canonical_type(BsonType::kUndefined));
  CHECK(canonical_type(BsonType::kString) == canonical_type(BsonType::kSymbol));
  CHECK(canonical_type(BsonType::kInt32) == canonical_type(BsonType::kDecimal128));
  CHECK(canonical_type(BsonType::kMaxKey) == 127);
}

TEST_CASE("ObjectId: text, time and uniqueness") {
  const auto id = ObjectId::from_hex("507f1f77bcf86cd799439011");
  REQUIRE(id.has_value());
  CHECK(id->to_hex() == "507f1f77bcf86cd799439011");
  CHECK(id->seconds() == 1350508407);
  CHECK(ObjectId::from_hex("507F1F77BCF86CD799439011") == id);
  CHECK(!ObjectId::from_hex("507f1f77bcf86cd79943901").has_value());
  CHECK(!ObjectId::from_hex("507f1f77bcf86cd79943901g").has_value());
  CHECK(ObjectId::from_hex("ffffffff0000000000000000")->seconds() == 4294967295);

  const ObjectId a = ObjectId::generate();
  const ObjectId b = ObjectId::generate();
  CHECK(a != b);
  CHECK(a.to_hex().substr(8, 10) == b.to_hex().substr(8, 10));
  const auto count = [](const ObjectId& x) {
    return std::stoul(x.to_hex().substr(18), nullptr, 16);
  };
  CHECK(((count(a) + 1) & 0xffffff) == count(b));
  CHECK(a.seconds() > 1'700'000'000);
}
