#include "server/dispatch/arguments.h"

#include <doctest/doctest.h>

namespace multifora {
namespace {

CommandRow row() {
  CommandRow r;
  r.name = "find";
  r.options = {
      {"filter", kOptObject},
      {"limit", kOptNumber, kNonNegative},
      {"batch", kOptBoolish},
      {"documents", kOptArray, kArrayOfObjects},
      {"hint", kOptString | kOptObject},
      {"tailable", kOptBool, kUnsupported},
      {"let", kOptObject | kOptNull},
  };
  return r;
}

struct Parsed {
  OwnedDocument body;
  Arguments arguments;
  Status status;
};

template <class Fill>
Parsed parse(Fill fill, const CommandRow& r = row()) {
  Parsed parsed;
  DocumentBuilder b;
  b.append("find", "c").append("$db", "test");
  fill(b);
  parsed.body = std::move(b).finish();
  parsed.status = parse_arguments(r, parsed.body.view(), {}, parsed.arguments);
  return parsed;
}

}  // namespace

TEST_CASE("options by the table") {
  CHECK(parse([](auto& b) { b.append("limit", 1).append("batch", 0); }).status.ok());

  Status s = parse([](auto& b) { b.append("foo", 1); }).status;
  CHECK(s.code() == location_code(40415));
  CHECK(s.message() == "BSON field 'find.foo' is an unknown field.");

  s = parse([](auto& b) { b.append("limit", "x"); }).status;
  CHECK(s.code() == ErrorCode::kTypeMismatch);
  CHECK(s.message() ==
        "BSON field 'find.limit' is the wrong type 'string', expected types '[long, int, decimal, "
        "double]'");
  s = parse([](auto& b) { b.append("batch", "x"); }).status;
  CHECK(s.message() ==
        "BSON field 'find.batch' is the wrong type 'string', expected types '[bool, long, int, "
        "decimal, double]'");
  s = parse([](auto& b) { b.append("filter", 1); }).status;
  CHECK(s.message() == "BSON field 'find.filter' is the wrong type 'int', expected type 'object'");

  s = parse([](auto& b) { b.append("limit", -3); }).status;
  CHECK(s.code() == location_code(51024));
  CHECK(s.message() == "BSON field 'limit' value must be >= 0, actual value '-3'");

  s = parse([](auto& b) { b.append("limit", 1).append("limit", 2); }).status;
  CHECK(s.code() == location_code(40413));
  CHECK(s.message() == "BSON field 'find.limit' is a duplicate field");

  s = parse([](auto& b) { b.append("tailable", true); }).status;
  CHECK(s.code() == ErrorCode::kCommandNotSupported);
  CHECK(parse([](auto& b) { b.append("tailable", false); }).status.ok());

  s = parse([](auto& b) { b.array("documents").append(1); }).status;
  CHECK(s.message() ==
        "BSON field 'find.documents.0' is the wrong type 'int', expected type 'object'");
}

TEST_CASE("required options, also as document sequences") {
  CommandRow r = row();
  r.options[3].flags |= kRequired;
  Parsed parsed = parse([](auto&) {}, r);
  CHECK(parsed.status.code() == location_code(40414));
  CHECK(parsed.status.message() ==
        "BSON field 'find.documents' is missing but a required field");
  Arguments arguments;
  CHECK(parse_arguments(r, parsed.body.view(), {{"documents", {}}}, arguments).ok());
  CHECK(parse_arguments(r, parsed.body.view(), {{"other", {}}}, arguments).code() ==
        location_code(40415));
  parsed = parse([](auto& b) { b.array("documents"); }, r);
  CHECK(parse_arguments(r, parsed.body.view(), {{"documents", {}}}, arguments).code() ==
        location_code(40413));
}

TEST_CASE("nulls are as if not given, unless the table takes them") {
  const Parsed parsed = parse([](auto& b) { b.append_null("filter").append_null("let"); });
  REQUIRE(parsed.status.ok());
  CHECK(parsed.arguments.has_ignored_nulls);
  const OwnedDocument clean = without_ignored_nulls(row(), parsed.body.view());
  CHECK(clean.view()["filter"].missing());
  CHECK(clean.view()["let"].type() == BsonType::kNull);
  CHECK(clean.view()["$db"].as_string() == "test");
}

TEST_CASE("generic arguments") {
  const std::string uuid(16, 'u');
  const Parsed parsed = parse([&](auto& b) {
    b.object("lsid").append_binary("id", uuid, 4);
    b.append("txnNumber", std::int64_t{5}).append("maxTimeMS", 1000).append("comment", 1);
    b.object("$clusterTime").append_timestamp("clusterTime", 7);
    b.object("$readPreference").append("mode", "secondaryPreferred");
    b.append("apiVersion", "1").append("apiStrict", true);
  });
  REQUIRE(parsed.status.ok());
  CHECK(parsed.arguments.db == "test");
  CHECK(parsed.arguments.lsid == uuid);
  CHECK(parsed.arguments.txn_number == 5);
  CHECK(parsed.arguments.max_time_ms == 1000);
  CHECK(parsed.arguments.cluster_time == 7);
  CHECK(parsed.arguments.api_strict);

  const auto code = [](auto fill) { return parse(fill).status.code(); };
  CHECK(code([](auto& b) { b.append("lsid", 1); }) == ErrorCode::kTypeMismatch);
  CHECK(code([](auto& b) { b.object("lsid"); }) == location_code(40414));
  CHECK(code([](auto& b) { b.object("$clusterTime"); }) == location_code(40414));
  CHECK(code([](auto& b) { b.object("$clusterTime").append("clusterTime", 1); }) ==
        ErrorCode::kTypeMismatch);
  CHECK(code([](auto& b) { b.object("lsid").append_binary("id", "short", 4); }) ==
        ErrorCode::kInvalidUUID);
  CHECK(code([](auto& b) { b.object("lsid").append("x", 1); }) == location_code(40415));
  CHECK(code([](auto& b) { b.append("txnNumber", 5); }) == ErrorCode::kTypeMismatch);
  CHECK(code([](auto& b) { b.append("txnNumber", std::int64_t{-5}); }) ==
        ErrorCode::kInvalidOptions);
  CHECK(code([](auto& b) { b.append("maxTimeMS", -1); }) == location_code(51024));
  CHECK(code([](auto& b) { b.append("maxTimeMS", 1.5); }) == ErrorCode::kBadValue);
  CHECK(code([](auto& b) { b.append("maxTimeMS", std::int64_t{1} << 40); }) ==
        ErrorCode::kBadValue);
  CHECK(code([](auto& b) { b.object("$readPreference").append("mode", "best"); }) ==
        ErrorCode::kFailedToParse);
  CHECK(code([](auto& b) { b.append("$db", "again"); }) == location_code(40413));
}

}  // namespace multifora
