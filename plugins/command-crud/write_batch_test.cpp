// Many statements, one log batch; results, retries and errors as if each had its own.
#include "plugins/command-crud/crud_test_support.h"

using namespace multifora;
using namespace multifora::crud;

namespace {

double batches(Commands& db) { return db.host.metrics().value("wal_batches_total"); }

std::string numbered(std::string_view text, int n) {
  std::string out(text);
  for (std::size_t at; (at = out.find('#')) != std::string::npos;)
    out.replace(at, 1, std::to_string(n));
  return out;
}

// An array of `count` elements.
std::string repeated(std::string_view element, int count) {
  std::string out = "[";
  for (int i = 0; i < count; ++i) out += (i > 0 ? "," : "") + numbered(element, i);
  return out + "]";
}

}  // namespace

TEST_CASE("statements by _id share a log batch") {
  Commands db;
  db(R"({"insert": "c", "documents": )" + repeated(R"({"_id": #, "n": 0})", 50) + "}");
  double before = batches(db);
  CHECK(db(R"({"update": "c", "updates": )" +
           repeated(R"({"q": {"_id": #}, "u": {"$inc": {"n": 1}}})", 50) + "}") ==
        R"({"n":50,"nModified":50})");
  CHECK(batches(db) == before + 1);
  before = batches(db);
  CHECK(db(R"({"delete": "c", "deletes": )" +
           repeated(R"({"q": {"_id": #}, "limit": 1})", 20) + "}") == R"({"n":20})");
  CHECK(batches(db) == before + 1);
  CHECK(db(R"({"count": "c", "query": {"n": 1}})") == R"({"n":30})");
}

TEST_CASE("bulkWrite: one batch a collection, whatever the operations") {
  Commands db;
  db(R"({"insert": "a", "documents": [{"_id": 0, "n": 0}]})");
  db(R"({"insert": "b", "documents": [{"_id": 0, "n": 0}]})");
  const double before = batches(db);
  const std::string reply = db(R"({"bulkWrite": 1, "ops": [
      {"insert": 0, "document": {"_id": 1, "n": 0}}, {"update": 0, "filter": {"_id": 1}, "updateMods": {"$inc": {"n": 5}}},
      {"update": 0, "filter": {"_id": 2}, "updateMods": {"$set": {"n": 7}}, "upsert": true},
      {"delete": 0, "filter": {"_id": 0}}, {"insert": 0, "document": {"_id": 3, "n": 0}},
      {"insert": 1, "document": {"_id": 1, "n": 0}}, {"update": 1, "filter": {"_id": 0}, "updateMods": {"$inc": {"n": 1}}}],
      "nsInfo": [{"ns": "db.a"}, {"ns": "db.b"}], "errorsOnly": true})");
  CHECK(reply.find(R"("nErrors":0,"nInserted":3,"nMatched":2,"nModified":2,"nUpserted":1,"nDeleted":1)") !=
        std::string::npos);
  CHECK(batches(db) == before + 2);
  CHECK(db(R"({"count": "a", "query": {"n": {"$gte": 5}}})") == R"({"n":2})");
}

TEST_CASE("a statement that fails leaves the others of its batch") {
  Commands db;
  db(R"({"insert": "c", "documents": [{"_id": 5}]})");
  const std::string ops = R"([{"insert": 0, "document": {"_id": 4}}, {"insert": 0, "document": {"_id": 5}},
      {"insert": 0, "document": {"_id": 6}}], "nsInfo": [{"ns": "db.c"}], "errorsOnly": true)";
  CHECK(db(R"({"bulkWrite": 1, "ops": )" + ops + "}").find(R"("nErrors":1,"nInserted":1)") !=
        std::string::npos);
  CHECK(db(R"({"count": "c"})") == R"({"n":2})");
  CHECK(db(R"({"bulkWrite": 1, "ordered": false, "ops": )" + ops + "}").find(R"("nErrors":2,"nInserted":1)") !=
        std::string::npos);
  CHECK(db(R"({"count": "c"})") == R"({"n":3})");
  // A statement that needs a plan of its own ends the batch before it, and sees what it did.
  CHECK(db(R"({"update": "c", "updates": [{"q": {"_id": 4}, "u": {"$set": {"k": 1}}},
      {"q": {"k": 1}, "u": {"$inc": {"k": 1}}, "multi": true}, {"q": {"k": 2}, "u": {"$inc": {"k": 1}}},
      {"q": {"_id": 4, "k": 3}, "u": {"$inc": {"k": 1}}}]})") == R"({"n":4,"nModified":4})");
  CHECK(db(R"({"count": "c", "query": {"k": 4}})") == R"({"n":1})");
}

TEST_CASE("retryable statements of one batch give their first answers again") {
  Commands db;
  db.session.lsid = std::string(16, 'x');
  db.session.txn_number = 1;
  const std::string update =
      R"({"update": "c", "updates": )" +
      repeated(R"({"q": {"_id": #}, "u": {"$inc": {"n": 1}}, "upsert": true})", 10) + "}";
  const std::string first = db(update);
  CHECK(first.find(R"("n":10)") != std::string::npos);
  const std::string again = db(update);
  CHECK(again.starts_with(first.substr(0, first.size() - 1)));
  CHECK(again.find(R"("retriedStmtIds":[0,1,2,3,4,5,6,7,8,9])") != std::string::npos);
  db.session.txn_number = 2;
  const std::string bulk = R"({"bulkWrite": 1, "ops": )" +
                           repeated(R"({"update": 0, "filter": {"_id": #}, "updateMods": {"$inc": {"n": 1}}})", 10) +
                           R"(, "nsInfo": [{"ns": "db.c"}], "errorsOnly": true})";
  CHECK(db(bulk).find(R"("nModified":10)") != std::string::npos);
  CHECK(db(bulk).find(R"("nModified":10)") != std::string::npos);
  CHECK(db(R"({"count": "c", "query": {"n": 2}})") == R"({"n":10})");
}

TEST_CASE("a batch is bounded") {
  Commands db;
  const double before = batches(db);
  db(R"({"insert": "c", "documents": )" + repeated(R"({"_id": #})", 2500) + "}");
  CHECK(batches(db) >= before + 3);
  CHECK(db(R"({"count": "c"})") == R"({"n":2500})");
}
