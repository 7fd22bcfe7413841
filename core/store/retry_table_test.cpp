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

const std::string kSession(16, 's'), kOther(16, 'o');

// The rows of the tree, and a disk that may be full.
struct Rows {
  RetryTable::ReadRow read = [this](Bytes lsid) -> Result<std::optional<Buffer>> {
    ++reads;
    const auto at = rows.find(std::string(lsid));
    if (at == rows.end()) return std::nullopt;
    return at->second;
  };
  RetryTable::SaveRow save = [this](const std::string& lsid, Bytes row) -> Status {
    if (full) return {ErrorCode::kOutOfDiskSpace, "full"};
    rows[lsid] = Buffer(row);
    return {};
  };
  std::map<std::string, Buffer> rows;
  bool full = false;
  int reads = 0;
};

int n_of(const Result<std::optional<OwnedDocument>>& found) {
  REQUIRE(found.has_value());
  return *found ? (**found).view()["n"].as_int32() : -1;
}

TEST_CASE("a statement's result is found again; a newer transaction number forgets the older") {
  RetryTable table;
  Rows tree;
  CHECK(n_of(table.find({kSession, 1, 0}, tree.read)) == -1);
  const OwnedDocument one = n(1);
  table.record(kSession, 1, 0, one.view(), 100);
  CHECK(n_of(table.find({kSession, 1, 0}, tree.read)) == 1);
  CHECK(n_of(table.find({kSession, 1, 1}, tree.read)) == -1);
  CHECK(n_of(table.find({kSession, 2, 0}, tree.read)) == -1);
  table.record(kSession, 2, 0, one.view(), 101);
  CHECK(table.find({kSession, 1, 0}, tree.read).error().code() == ErrorCode::kTransactionTooOld);
  CHECK(tree.reads == 1);  // a session that is known is not read again
}

TEST_CASE("what is drained is found in the tree, by another table, too") {
  RetryTable table;
  Rows tree;
  const OwnedDocument one = n(1), two = n(2);
  table.record(kSession, 4, 0, one.view(), 100);
  table.record(kSession, 4, 3, two.view(), 101);
  tree.full = true;
  CHECK(!table.drain_changes(tree.read, tree.save).ok());
  CHECK(table.changes() == 1);  // what could not be saved comes again
  tree.full = false;
  REQUIRE(table.drain_changes(tree.read, tree.save).ok());
  REQUIRE(tree.rows.size() == 1);
  CHECK(table.changes() == 0);
  CHECK(RetryTable::last_use_of(Bytes(tree.rows[kSession]).substr(0, 40)).value() == 101);
  CHECK(RetryTable::check_row(tree.rows[kSession]).ok());

  RetryTable again;
  CHECK(n_of(again.find({kSession, 4, 3}, tree.read)) == 2);
  CHECK(n_of(again.find({kSession, 4, 1}, tree.read)) == -1);
  CHECK(again.find({kSession, 3, 0}, tree.read).error().code() == ErrorCode::kTransactionTooOld);
  CHECK(again.find({kOther, 3, 0}, tree.read).has_value());
}

TEST_CASE("what the log says after a checkpoint is added to the row, or replaces it") {
  Rows tree;
  const OwnedDocument one = n(1), two = n(2), three = n(3);
  {
    RetryTable before;
    before.record(kSession, 4, 0, one.view(), 100);
    before.record(kOther, 4, 0, one.view(), 100);
    REQUIRE(before.drain_changes(tree.read, tree.save).ok());
  }
  RetryTable table;  // as recovery has it: records without a find
  table.record(kSession, 4, 1, two.view(), 102);
  table.record(kOther, 5, 0, three.view(), 103);
  CHECK(n_of(table.find({kSession, 4, 0}, tree.read)) == 1);
  CHECK(n_of(table.find({kSession, 4, 1}, tree.read)) == 2);
  CHECK(table.find({kOther, 4, 0}, tree.read).error().code() == ErrorCode::kTransactionTooOld);

  RetryTable saved_unseen;
  saved_unseen.record(kSession, 4, 1, two.view(), 102);
  saved_unseen.record(kOther, 5, 0, three.view(), 103);
  REQUIRE(saved_unseen.drain_changes(tree.read, tree.save).ok());
  RetryTable again;
  CHECK(n_of(again.find({kSession, 4, 0}, tree.read)) == 1);
  CHECK(n_of(again.find({kSession, 4, 1}, tree.read)) == 2);
  CHECK(n_of(again.find({kOther, 5, 0}, tree.read)) == 3);
}

TEST_CASE("memory is given back once it is saved; old sessions are forgotten unless in use") {
  RetryTable table;
  Rows tree;
  DocumentBuilder big;
  big.append("n", 7).append("text", std::string(1 << 20, 'x'));
  const OwnedDocument image = std::move(big).finish();
  for (int i = 0; i < 40; ++i) {
    std::string lsid(16, 'b');
    lsid[0] = static_cast<char>(i);
    table.record(lsid, 1, 0, image.view(), 100);
    table.record(lsid, 1, 0, image.view(), 100);
  }
  CHECK(table.cached_bytes() > 40u << 20);
  CHECK(table.cached_bytes() < 41u << 20);
  REQUIRE(table.drain_changes(tree.read, tree.save).ok());
  CHECK(table.cached_bytes() == 0);
  std::string first(16, 'b');
  first[0] = 0;
  CHECK(n_of(table.find({first, 1, 0}, tree.read)) == 7);

  CHECK(table.forget(first));
  CHECK(table.cached_bytes() == 0);
  const OwnedDocument one = n(1);
  table.record(first, 2, 0, one.view(), 200);
  CHECK(!table.forget(first));
  CHECK(n_of(table.find({first, 2, 0}, tree.read)) == 1);
  CHECK(table.forget(kOther));
}

TEST_CASE("rubbish is no row") {
  RetryTable table;
  Rows tree;
  tree.rows[kSession] = "rubbish";
  CHECK(table.find({kSession, 1, 0}, tree.read).error().code() == ErrorCode::kDataCorruptionDetected);
  CHECK(!RetryTable::check_row("rubbish").ok());
  CHECK(!RetryTable::check_row(n(1).bytes()).ok());
  CHECK(!RetryTable::last_use_of(std::string(40, 'x')).has_value());
}

}  // namespace
}  // namespace multifora
