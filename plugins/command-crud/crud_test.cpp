// The commands through their handlers.
#include "plugins/command-crud/crud_test_support.h"

#include <atomic>
#include <mutex>
#include <random>
#include <thread>

namespace multifora::crud {
namespace {

TEST_CASE("insert, find, update, delete") {
  Commands db;
  CHECK(db.batch(R"({"find":"c"})") == "[]");
  CHECK(db(R"({"insert":"c","documents":[{"_id":1,"a":1},{"a":2,"_id":2},{"_id":3,"a":3}]})") ==
        R"({"n":3})");
  CHECK(db.batch(R"({"find":"c","filter":{"a":{"$gt":1}},"sort":{"a":-1}})") ==
        R"([{"_id":3,"a":3},{"_id":2,"a":2}])");
  CHECK(db.batch(R"({"find":"c","filter":{"_id":2}})") == R"([{"_id":2,"a":2}])");
  CHECK(db.batch(R"({"find":"c","sort":{"_id":1},"skip":1,"limit":1,"projection":{"a":1,"_id":0}})") ==
        R"([{"a":2}])");
  CHECK(db(R"({"update":"c","updates":[{"q":{"_id":1},"u":{"$inc":{"a":10}}}]})") ==
        R"({"n":1,"nModified":1})");
  CHECK(db(R"({"update":"c","updates":[{"q":{},"u":{"$set":{"b":1}},"multi":true}]})") ==
        R"({"n":3,"nModified":3})");
  CHECK(db(R"({"update":"c","updates":[{"q":{"_id":9},"u":{"$set":{"b":1}},"upsert":true}]})") ==
        R"({"n":1,"upserted":[{"index":0,"_id":9}],"nModified":0})");
  CHECK(db(R"({"count":"c"})") == R"({"n":4})");
  CHECK(db(R"({"count":"c","query":{"a":{"$gt":2}}})") == R"({"n":2})");
  CHECK(db(R"({"delete":"c","deletes":[{"q":{"b":1},"limit":1},{"q":{"_id":9},"limit":0}]})") ==
        R"({"n":2})");
  CHECK(db(R"({"distinct":"c","key":"a"})") == R"({"values":[2,3]})");
  CHECK(db(R"({"delete":"c","deletes":[{"q":{},"limit":0}]})") == R"({"n":2})");
  CHECK(db.store->check().empty());
}

TEST_CASE("write errors name the statement, and ordered commands stop at the first") {
  Commands db;
  db(R"({"insert":"c","documents":[{"_id":1},{"_id":2}]})");
  CHECK(db(R"({"insert":"c","documents":[{"_id":3},{"_id":1},{"_id":4}]})") ==
        R"({"n":1,"writeErrors":[{"index":1,"code":11000,"errmsg":"E11000 duplicate key error )"
        R"(collection: db.c index: _id_ dup key: { _id: 1 }","keyPattern":{"_id":1},)"
        R"("keyValue":{"_id":1}}]})");
  CHECK(db(R"({"count":"c"})") == R"({"n":3})");
  db(R"({"insert":"c","documents":[{"_id":1},{"_id":4},{"_id":1},{"_id":5}],"ordered":false})");
  CHECK(db(R"({"count":"c"})") == R"({"n":5})");
  CHECK(db(R"({"insert":"c","documents":[]})") == "error 16");
  CHECK(db(R"({"update":"c","updates":[{"q":{},"u":{"$set":{"a":1}},"foo":1}]})") == "error 40415");
  CHECK(db(R"({"update":"c","updates":[{"q":{}}]})") == "error 40414");
  CHECK(db(R"({"delete":"c","deletes":[{"q":{},"limit":2}]})") == "error 9");
}

TEST_CASE("an expression of constants that fails, fails the command also without documents") {
  Commands db;
  const std::string bad = R"({"$expr":{"$eq":[{"$divide":[1,0]},1]}})";
  CHECK(db(R"({"find":"none","filter":)" + bad + "}") == "error 2");
  CHECK(db(R"({"count":"none","query":)" + bad + "}") == "error 2");
  CHECK(db(R"({"find":"none","projection":{"x":{"$divide":[1,0]}}})") == "error 2");
  // Mistakes of syntax further on come first.
  CHECK(db(R"({"find":"none","filter":)" + bad + R"(,"projection":{"x":{"$foo":1}}})") == "error 31325");
  CHECK(db.batch(R"({"find":"none","filter":{"$expr":{"$eq":[{"$divide":["$a",2]},1]}}})") == "[]");
}

TEST_CASE("findAndModify") {
  Commands db;
  db(R"({"insert":"c","documents":[{"_id":1,"a":1,"b":3},{"_id":2,"a":1,"b":2}]})");
  CHECK(db(R"({"findAndModify":"c","query":{"a":1},"sort":{"b":1},"update":{"$set":{"x":1}}})") ==
        R"({"lastErrorObject":{"n":1,"updatedExisting":true},"value":{"_id":2,"a":1,"b":2}})");
  CHECK(db(R"({"findAndModify":"c","query":{"_id":1},"update":{"$inc":{"a":1}},"new":true,"fields":{"a":1}})") ==
        R"({"lastErrorObject":{"n":1,"updatedExisting":true},"value":{"_id":1,"a":2}})");
  CHECK(db(R"({"findAndModify":"c","query":{"_id":7},"update":{"$set":{"a":1}},"upsert":true})") ==
        R"({"lastErrorObject":{"n":1,"updatedExisting":false,"upserted":7},"value":null})");
  CHECK(db(R"({"findandmodify":"c","query":{"_id":7},"remove":true})") ==
        R"({"lastErrorObject":{"n":1},"value":{"_id":7,"a":1}})");
  CHECK(db(R"({"findAndModify":"c","query":{"_id":7},"remove":true})") ==
        R"({"lastErrorObject":{"n":0},"value":null})");
  CHECK(db(R"({"findAndModify":"c","remove":true,"update":{"a":1}})") == "error 9");
  CHECK(db(R"({"findAndModify":"c"})") == "error 9");
}

TEST_CASE("retryable statements give their first answer again") {
  Commands db;
  db.session.lsid = "0123456789abcdef";
  db.session.txn_number = 1;
  const auto insert = R"({"insert":"c","documents":[{"_id":1,"a":1}]})";
  CHECK(db(insert) == R"({"n":1})");
  CHECK(db(insert) == R"({"n":1,"retriedStmtIds":[0]})");
  db.session.txn_number = 2;
  const auto update = R"({"update":"c","updates":[{"q":{"_id":1},"u":{"$inc":{"a":1}}},)"
                      R"({"q":{"_id":5},"u":{"$set":{"a":5}},"upsert":true}]})";
  const std::string first =
      R"({"n":2,"upserted":[{"index":1,"_id":5}],"nModified":1)";
  CHECK(db(update) == first + "}");
  CHECK(db(update) == first + R"(,"retriedStmtIds":[0,1]})");
  db.session.txn_number = 3;
  const auto modify = R"({"findAndModify":"c","query":{"_id":1},"update":{"$inc":{"a":1}}})";
  const std::string value = R"({"lastErrorObject":{"n":1,"updatedExisting":true},"value":{"_id":1,"a":2})";
  CHECK(db(modify) == value + "}");
  CHECK(db(modify) == value + R"(,"retriedStmtId":0})");
  db.session.txn_number = 1;
  CHECK(db(insert) == "error 225");
  db.session.txn_number = 4;
  CHECK(db(R"({"delete":"c","deletes":[{"q":{},"limit":0}]})") == "error 72");
  db.session.txn_number = -1;
  CHECK(db.batch(R"({"find":"c","sort":{"_id":1}})") == R"([{"_id":1,"a":3},{"_id":5,"a":5}])");
}

// {getMore: id, ...}
OwnedDocument get_more(std::int64_t id, int batch_size) {
  DocumentBuilder command;
  command.append("getMore", id).append("collection", "c");
  if (batch_size > 0) command.append("batchSize", batch_size);
  return std::move(command).finish();
}

TEST_CASE("cursors go on over changes, end with their collection, and are their session's own") {
  Commands db;
  for (int i = 0; i < 300; ++i) {
    DocumentBuilder command;
    command.append("insert", "c");
    ArrayBuilder documents = command.array("documents");
    documents.object().append("_id", i).append("a", i % 10);
    documents.close();
    const OwnedDocument insert = std::move(command).finish();
    db.run(insert.view());
  }
  db.create_index("db.c", R"({"key":{"a":1},"name":"a_1"})");
  for (const char* find : {R"({"find":"c","batchSize":10})",
                           R"({"find":"c","filter":{"a":{"$gte":0}},"batchSize":10})",
                           R"({"find":"c","sort":{"_id":-1},"batchSize":10})"}) {
    const auto command = from_extended_json(find);
    OwnedDocument reply = db.run(command->view());
    REQUIRE(db.status.ok());
    std::int64_t id = reply.view()["cursor"].as_document()["id"].as_int64();
    REQUIRE(id != 0);
    std::size_t seen = reply.view()["cursor"].as_document()["firstBatch"].as_document().count();
    while (id != 0) {
      db(R"({"update":"c","updates":[{"q":{"_id":299},"u":{"$inc":{"x":1}}}]})");
      const OwnedDocument more = get_more(id, 50);
      reply = db.run(more.view());
      REQUIRE(db.status.ok());
      const DocumentView cursor = reply.view()["cursor"].as_document();
      seen += cursor["nextBatch"].as_document().count();
      id = cursor["id"].as_int64();
    }
    CHECK(seen == 300);
  }
  const auto find = from_extended_json(R"({"find":"c","batchSize":1})");
  const auto open = [&] {
    const OwnedDocument reply = db.run(find->view());
    return reply.view()["cursor"].as_document()["id"].as_int64();
  };
  const auto code_of_more = [&](std::int64_t id) {
    const OwnedDocument more = get_more(id, 0);
    db.run(more.view());
    return static_cast<int>(db.status.code());
  };
  CHECK(code_of_more(12345) == 43);
  std::int64_t id = open();
  db.session.lsid = "0123456789abcdef";
  CHECK(code_of_more(id) == 50736);
  id = open();
  db.session.lsid.clear();
  CHECK(code_of_more(id) == 50737);
  id = open();
  REQUIRE(db.store->drop_collection("db.c"));
  CHECK(code_of_more(id) == 175);
}

TEST_CASE("a tailable cursor waits for new documents") {
  Commands db;
  const auto options = from_extended_json(R"({"capped":true,"size":100000})");
  REQUIRE(db.store->create_collection("db.c", options->view()));
  db(R"({"insert":"c","documents":[{"_id":1}]})");
  const auto find = from_extended_json(R"({"find":"c","tailable":true,"awaitData":true})");
  const OwnedDocument reply = db.run(find->view());
  const std::int64_t id = reply.view()["cursor"].as_document()["id"].as_int64();
  REQUIRE(id != 0);
  const OwnedDocument more = get_more(id, 0);
  db.run(more.view());
  CHECK(db.status.ok());
  CHECK(db.waits);
  db(R"({"insert":"c","documents":[{"_id":2}]})");
  const OwnedDocument next = db.run(more.view());
  CHECK(!db.waits);
  CHECK(to_extended_json(next.view()["cursor"].as_document()["nextBatch"]) == R"([{"_id":2}])");
  CHECK(db(R"({"find":"d","tailable":true,"sort":{"a":1}})") == "error 2");
  CHECK(db(R"({"find":"c","awaitData":true})") == "error 9");
}

// Runs one command with everything of its own but the store.
Result<OwnedDocument> run_beside(Commands& db, std::string_view json) {
  const auto command = from_extended_json(json);
  if (!command) return fail(command.error());
  ClientInfo client;
  Interrupt interrupt(system_clock());
  CommandContext context(db.host, db.store.get(), client, interrupt);
  const CommandRequest request(command->view(), "db", {});
  DocumentBuilder reply;
  MULTIFORA_TRY_R(db.host.command(request.name())->run(context, request, reply));
  return std::move(reply).finish();
}

TEST_CASE("scans give way to writers and see every document once") {
  Commands db;
  constexpr int kDocuments = 2000;
  for (int i = 0; i < kDocuments; i += 500) {
    std::string insert = R"({"insert":"c","documents":[)";
    for (int k = i; k < i + 500; ++k)
      insert += (k > i ? ",{" : "{") + std::string("\"_id\":") + std::to_string(k) + ",\"a\":" +
                std::to_string(k % 7) + ",\"n\":0}";
    CHECK(db(insert + "]}") == R"({"n":500})");
  }
  db.create_index("db.c", R"({"key":{"a":1},"name":"a_1"})");
  std::atomic<int> increments{0};
  std::mutex mutex;
  std::vector<std::string> wrong;
  const auto complain = [&](std::string what) {
    std::lock_guard lock(mutex);
    wrong.push_back(std::move(what));
  };
  std::atomic<bool> done{false};
  const auto write = [&](std::uint64_t seed) {
    std::mt19937_64 random(seed);
    for (int i = 0; i < 150; ++i) {
      const std::string a = std::to_string(random() % 7);
      const auto reply = run_beside(
          db, i % 10 == 0
                  ? R"({"update":"c","updates":[{"q":{"a":)" + a +
                        R"(},"u":{"$inc":{"n":1}},"multi":true}]})"
                  : R"({"update":"c","updates":[{"q":{"_id":)" + std::to_string(random() % kDocuments) +
                        R"(},"u":{"$inc":{"n":1},"$set":{"a":)" + a + "}}}]}");
      if (!reply) complain(reply.error().message());
      else increments += reply->view()["nModified"].as_int32();
    }
  };
  const auto read = [&] {
    while (!done) {
      const auto scan = run_beside(db, R"({"find":"c","filter":{"n":{"$gte":0}},"batchSize":5000,"projection":{"n":1}})");
      const auto sorted = run_beside(db, R"({"find":"c","sort":{"a":1,"_id":1},"batchSize":5000})");
      for (const auto& reply : {&scan, &sorted}) {
        if (!*reply) {
          complain(reply->error().message());
          continue;
        }
        const auto n =
            (*reply)->view()["cursor"].as_document()["firstBatch"].as_document().count();
        if (n != kDocuments)
          complain((reply == &scan ? "scan " : "sorted ") + std::to_string(n));
      }
      const auto by_index = run_beside(db, R"({"find":"c","filter":{"a":{"$gte":2}},"batchSize":5000})");
      if (!by_index) {
        complain(by_index.error().message());
        continue;
      }
      for (const Element& one :
           by_index->view()["cursor"].as_document()["firstBatch"].as_document())
        if (one->as_document()["a"].as_int32() < 2)
          complain("by index: " + to_extended_json(one->as_document()));
    }
  };
  std::vector<std::thread> readers, writers;
  for (int i = 0; i < 2; ++i) readers.emplace_back(read);
  for (int i = 0; i < 3; ++i) writers.emplace_back(write, i + 1);
  for (std::thread& thread : writers) thread.join();
  done = true;
  for (std::thread& thread : readers) thread.join();
  for (std::size_t i = 0; i < wrong.size() && i < 5; ++i) MESSAGE(wrong[i]);
  CHECK(wrong.empty());
  const OwnedDocument all = *run_beside(db, R"({"find":"c","batchSize":5000})");
  int total = 0;
  for (const Element& one : all.view()["cursor"].as_document()["firstBatch"].as_document())
    total += one->as_document()["n"].as_int32();
  CHECK(total == increments);
  CHECK(db.store->check().empty());
}

std::string stage_of(Commands& db, std::string_view find) {
  const auto command = from_extended_json(
      R"({"explain":)" + std::string(find) + R"(,"verbosity":"executionStats"})");
  REQUIRE(command);
  const OwnedDocument reply = db.run(command->view());
  if (!db.status.ok()) return db.status.message();
  std::string stages;
  ValueView plan = reply.view()["queryPlanner"].as_document()["winningPlan"];
  while (plan.type() == BsonType::kObject) {
    stages += (stages.empty() ? "" : " ") + std::string(plan.as_document()["stage"].as_string());
    plan = plan.as_document()["inputStage"];
  }
  return stages;
}

TEST_CASE("plans") {
  Commands db;
  db(R"({"insert":"c","documents":[{"_id":1,"a":1,"b":1},{"_id":2,"a":2,"b":2},{"_id":3,"a":3}]})");
  db.create_index("db.c", R"({"key":{"a":1,"b":-1},"name":"ab"})");
  db.create_index("db.c", R"({"key":{"u":1},"name":"u","unique":true,"sparse":true})");
  CHECK(stage_of(db, R"({"find":"c"})") == "COLLSCAN");
  CHECK(stage_of(db, R"({"find":"c","filter":{"_id":1}})") == "EXPRESS_IXSCAN");
  CHECK(stage_of(db, R"({"find":"c","filter":{"u":1}})") == "EXPRESS_IXSCAN");
  CHECK(stage_of(db, R"({"find":"c","filter":{"a":1}})") == "FETCH IXSCAN");
  CHECK(stage_of(db, R"({"find":"c","filter":{"b":1}})") == "COLLSCAN");
  CHECK(stage_of(db, R"({"find":"c","filter":{"a":1},"projection":{"_id":0,"a":1,"b":1}})") ==
        "PROJECTION_COVERED IXSCAN");
  CHECK(stage_of(db, R"({"find":"c","sort":{"a":1,"b":-1}})") == "FETCH IXSCAN");
  CHECK(stage_of(db, R"({"find":"c","sort":{"a":-1,"b":1}})") == "FETCH IXSCAN");
  CHECK(stage_of(db, R"({"find":"c","sort":{"a":1,"b":1}})") == "SORT COLLSCAN");
  CHECK(stage_of(db, R"({"find":"c","filter":{"a":2},"sort":{"b":1}})") == "FETCH IXSCAN");
  CHECK(stage_of(db, R"({"find":"c","filter":{"a":{"$in":[1,2]}},"sort":{"b":1}})") ==
        "FETCH SORT_MERGE");
  CHECK(stage_of(db, R"({"find":"c","filter":{"$or":[{"a":1,"x":1},{"_id":2}]}})") == "FETCH OR");
  CHECK(stage_of(db, R"({"find":"c","filter":{"u":null}})") == "COLLSCAN");
  CHECK(stage_of(db, R"({"count":"c","query":{"a":{"$gt":1}}})") == "COUNT COUNT_SCAN");
  CHECK(stage_of(db, R"({"count":"c"})") == "COUNT RECORD_STORE_FAST_COUNT");
  CHECK(stage_of(db, R"({"distinct":"c","key":"a"})") == "DISTINCT_SCAN");
  CHECK(db(R"({"count":"c","query":{"a":{"$gt":1}}})") == R"({"n":2})");
  CHECK(db(R"({"distinct":"c","key":"b"})") == R"({"values":[1,2]})");
  CHECK(db(R"({"find":"c","hint":"nope"})") == "error 2");
  CHECK(db.batch(R"({"find":"c","filter":{"a":1},"projection":{"_id":0,"a":1,"b":1}})") ==
        R"([{"a":1,"b":1}])");
  CHECK(db.batch(R"({"find":"c","filter":{"a":3},"projection":{"_id":0,"a":1,"b":1}})") ==
        R"([{"a":3}])");
  CHECK(db.batch(R"({"find":"c","min":{"a":2,"b":5},"max":{"a":3,"b":0},"hint":"ab"})") ==
        R"([{"_id":2,"a":2,"b":2}])");
  CHECK(db(R"({"find":"c","min":{"a":2}})") == "error 51173");
}

}  // namespace
}  // namespace multifora::crud
