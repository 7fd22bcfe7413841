#include "core/store/retry_table.h"

#include <doctest/doctest.h>

#include <map>

#include "core/bson/builder.h"

namespace multifora {
namespace {

OwnedDocument n(int value) {
  DocumentBuilder b;
  b.append("n", value);
  return std::move(b).finish();
}

const std::string kSession(16, 's');

TEST_CASE("a statement's result is found again; a newer transaction number forgets the older") {
  RetryTable table;
  CHECK(!table.find({kSession, 1, 0}).value());
  const OwnedDocument one = n(1);
  table.record(kSession, 1, 0, one.view(), 100);
  REQUIRE(table.find({kSession, 1, 0}).value());
  CHECK(table.find({kSession, 1, 0}).value()->view()["n"].as_int32() == 1);
  CHECK(!table.find({kSession, 1, 1}).value());
  CHECK(!table.find({kSession, 2, 0}).value());
  table.record(kSession, 2, 0, one.view(), 101);
  CHECK(table.find({kSession, 1, 0}).error().code() == ErrorCode::kTransactionTooOld);
}

TEST_CASE("what is drained can be loaded; old sessions are forgotten") {
  RetryTable table;
  const OwnedDocument one = n(1), two = n(2);
  table.record(kSession, 4, 0, one.view(), 100);
  table.record(kSession, 4, 3, two.view(), 101);
  std::map<std::string, std::string> saved;
  bool full = true;
  const auto save = [&](const std::string& lsid, Bytes bytes) -> Status {
    if (full) return {ErrorCode::kOutOfDiskSpace, "full"};
    saved[lsid] = Buffer(bytes);
    return {};
  };
  const auto forget = [&](const std::string& lsid) -> Status {
    if (full) return {ErrorCode::kOutOfDiskSpace, "full"};
    saved.erase(lsid);
    return {};
  };
  CHECK(!table.drain_changes(0, save, forget).ok());
  full = false;  // what could not be saved comes again
  REQUIRE(table.drain_changes(0, save, forget).ok());
  REQUIRE(saved.size() == 1);

  RetryTable again;
  REQUIRE(again.load(kSession, saved[kSession]).ok());
  CHECK(again.find({kSession, 4, 3}).value()->view()["n"].as_int32() == 2);
  CHECK(!again.load(kSession, "rubbish").ok());

  full = true;
  CHECK(!table.drain_changes(102, save, forget).ok());
  CHECK(table.find({kSession, 4, 0}).value());
  full = false;
  REQUIRE(table.drain_changes(102, save, forget).ok());
  CHECK(saved.empty());
  CHECK(!table.find({kSession, 4, 0}).value());
}

}  // namespace
}  // namespace multifora
