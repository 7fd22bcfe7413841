#include "server/dispatch/concerns.h"

#include <doctest/doctest.h>

#include "core/bson/builder.h"

namespace multifora {
namespace {

template <class Fill>
OwnedDocument document(Fill fill) {
  DocumentBuilder b;
  fill(b);
  return std::move(b).finish();
}

template <class Fill>
Result<WriteConcern> write_concern(Fill fill) {
  const OwnedDocument d = document(fill);
  return parse_write_concern(d.view());
}

template <class Fill>
Result<ReadConcern> read_concern(Fill fill) {
  const OwnedDocument d = document(fill);
  return parse_read_concern("find", d.view());
}

}  // namespace

TEST_CASE("write concerns that one node satisfies") {
  CHECK(write_concern([](auto&) {})->waits_for_disk());
  CHECK(write_concern([](auto& b) { b.append("w", 1); })->waits_for_disk());
  CHECK(write_concern([](auto& b) { b.append("w", "majority"); })->waits_for_disk());
  CHECK_FALSE(write_concern([](auto& b) { b.append("w", 0); })->waits_for_disk());
  CHECK_FALSE(write_concern([](auto& b) { b.append("w", 1).append("j", false); })->waits_for_disk());
  CHECK(unsatisfiable(*write_concern([](auto& b) { b.append("w", "majority"); })).ok());
}

TEST_CASE("write concerns that it does not satisfy") {
  const auto two = write_concern([](auto& b) { b.append("w", 2).append("wtimeout", 5); });
  CHECK(two->timeout_ms == 5);
  CHECK(unsatisfiable(*two).code() == ErrorCode::kUnsatisfiableWriteConcern);
  CHECK(refused_by_standalone(*two).code() == ErrorCode::kBadValue);
  const auto mode = write_concern([](auto& b) { b.append("w", "east"); });
  CHECK(unsatisfiable(*mode).code() == ErrorCode::kUnknownReplWriteConcern);
}

TEST_CASE("malformed write concerns") {
  const auto code = [](auto fill) { return write_concern(fill).error().code(); };
  CHECK(code([](auto& b) { b.append("w", -1); }) == ErrorCode::kFailedToParse);
  CHECK(code([](auto& b) { b.append("w", 51); }) == ErrorCode::kFailedToParse);
  CHECK(code([](auto& b) { b.append("w", true); }) == ErrorCode::kFailedToParse);
  CHECK(code([](auto& b) { b.append("j", "yes"); }) == ErrorCode::kTypeMismatch);
  CHECK(code([](auto& b) { b.append("wtimout", 1); }) == location_code(40415));
  CHECK(code([](auto& b) { b.append("fsync", true).append("j", true); }) ==
        ErrorCode::kFailedToParse);
}

TEST_CASE("read concerns") {
  CHECK(read_concern([](auto& b) { b.append("level", "majority"); })->waits_for_disk());
  CHECK_FALSE(read_concern([](auto& b) { b.append("level", "local"); })->waits_for_disk());
  const auto code = [](auto fill) { return read_concern(fill).error().code(); };
  CHECK(code([](auto& b) { b.append("level", "best"); }) == ErrorCode::kBadValue);
  CHECK(code([](auto& b) { b.append("level", 1); }) == ErrorCode::kTypeMismatch);
  CHECK(code([](auto& b) { b.append("levle", "local"); }) == location_code(40415));
  CHECK(code([](auto& b) {
          b.append("level", "linearizable").append_timestamp("afterClusterTime", 1);
        }) == ErrorCode::kInvalidOptions);
}

}  // namespace multifora
