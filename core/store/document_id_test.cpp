#include <doctest/doctest.h>

#include "core/bson/builder.h"
#include "core/store/store.h"

namespace multifora {
namespace {

TEST_CASE("ensure_id puts _id first, makes one, and refuses impossible ones") {
  Buffer out;
  DocumentBuilder with;
  with.append("a", 1).append("_id", 5).append("b", 2);
  const OwnedDocument moved = std::move(with).finish();
  const auto first = ensure_id(moved.view(), out);
  REQUIRE(first);
  CHECK(first->first().name() == "_id");
  CHECK(first->count() == 3);
  CHECK(first->size_bytes() == moved.bytes().size());

  DocumentBuilder without;
  without.append("a", 1);
  const OwnedDocument plain = std::move(without).finish();
  const auto made = ensure_id(plain.view(), out);
  REQUIRE(made);
  CHECK(made->first().type() == BsonType::kObjectId);

  DocumentBuilder array;
  array.array("_id").append(1);
  const OwnedDocument bad = std::move(array).finish();
  CHECK(!ensure_id(bad.view(), out));

  DocumentBuilder dollar;
  dollar.object("_id").append("$a", 1);
  const OwnedDocument dollared = std::move(dollar).finish();
  const auto refused = ensure_id(dollared.view(), out);
  REQUIRE(!refused);
  CHECK(refused.error().code() == ErrorCode::kDollarPrefixedFieldName);
}

}  // namespace
}  // namespace multifora
