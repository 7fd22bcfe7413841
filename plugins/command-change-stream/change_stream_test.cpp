// Change streams through the commands: events, resuming, rules of the pipeline, ends.
#include <chrono>
#include <thread>

#include "core/store/transaction.h"
#include "plugins/command-change-stream/resume_token.h"
#include "plugins/command-crud/crud_test_support.h"

const multifora::PluginEntry* multifora_plugin_command_aggregate();
const multifora::PluginEntry* multifora_plugin_command_catalog();
const multifora::PluginEntry* multifora_plugin_command_change_stream();

namespace multifora::change_stream {
namespace {

using crud::Commands;

struct Env {
  Commands run{1,
               {multifora_plugin_command_aggregate(), multifora_plugin_command_catalog(),
                multifora_plugin_command_change_stream()}};

  struct Reply {
    std::vector<OwnedDocument> events;
    std::int64_t cursor = 0;
    std::string ns;
    OwnedDocument token;
    int code = 0;
    bool waits = false;
  };

  Reply reply_of(const OwnedDocument& document) {
    Reply reply;
    reply.code = run.status.ok() ? 0 : static_cast<int>(run.status.code());
    reply.waits = run.waits;
    if (reply.code != 0 || document.view().empty()) return reply;
    const DocumentView cursor = document.view()["cursor"].as_document();
    const ValueView first = cursor["firstBatch"];
    for (const Element& e : (first.missing() ? cursor["nextBatch"] : first).as_document())
      reply.events.emplace_back(e->as_document());
    if (cursor["id"].missing()) return reply;  // it waits
    reply.cursor = cursor["id"].as_int64();
    reply.ns = cursor["ns"].as_string();
    const ValueView token = cursor["postBatchResumeToken"];
    if (token.type() == BsonType::kObject) reply.token = OwnedDocument(token.as_document());
    return reply;
  }
  Reply command(std::string_view json) {
    const auto parsed = from_extended_json(json);
    REQUIRE_MESSAGE(parsed.has_value(), json);
    return reply_of(run.run(parsed->view()));
  }
  // `target`: "\"c\"" or "1".
  Reply watch(std::string_view stage = "{}", std::string_view more = "", std::string_view target = "\"c\"",
              std::string_view batch = "{}") {
    return command(R"({"aggregate":)" + std::string(target) + R"(,"pipeline":[{"$changeStream":)" +
                   std::string(stage) + "}" + (more.empty() ? "" : ",") + std::string(more) +
                   R"(],"cursor":)" + std::string(batch) + "}");
  }
  Reply more(const Reply& stream, int batch = 0) {
    durable();
    DocumentBuilder get;
    get.append("getMore", stream.cursor);
    get.append("collection", Namespace::split(stream.ns).collection);
    if (batch > 0) get.append("batchSize", batch);
    get.append("maxTimeMS", std::int32_t{1});
    const OwnedDocument document = std::move(get).finish();
    return reply_of(run.run(document.view()));
  }
  // Commands wait for nothing here; streams tell what is durable.
  void durable() { REQUIRE(run.store->wait_durable(run.store->last_position()).ok()); }
  void must(std::string_view json) {
    run(json);
    REQUIRE_MESSAGE(run.status.ok(), run.status.message());
    durable();
  }
  void insert(int id) {
    must(R"({"insert":"c","documents":[{"_id":)" + std::to_string(id) + R"(,"a":1}]})");
  }
  static std::string resume(const OwnedDocument& token, std::string_view how = "resumeAfter") {
    return "{\"" + std::string(how) + "\":" + to_extended_json(token.view()) + "}";
  }
  static std::string type(const OwnedDocument& event) {
    return std::string(event.view()["operationType"].as_string());
  }
  static std::vector<std::string> types(const Reply& reply) {
    std::vector<std::string> all;
    for (const OwnedDocument& event : reply.events) all.push_back(type(event));
    return all;
  }
  static OwnedDocument id(const OwnedDocument& event) {
    return OwnedDocument(event.view()["_id"].as_document());
  }
};

using Types = std::vector<std::string>;

TEST_CASE_FIXTURE(Env, "documents as they were are told for as long as changeStreamOptions says") {
  const auto parameter = [&](std::string_view json) { return command(json).code; };
  const auto shown = [&] {
    const auto reply = from_extended_json(run(R"({"getClusterParameter":"changeStreamOptions","$db":"admin"})"));
    const DocumentView one = reply->view()["clusterParameters"].as_document()["0"].as_document();
    return to_extended_json(one["preAndPostImages"].as_document());
  };
  CHECK(shown() == R"({"expireAfterSeconds":"off"})");
  CHECK(parameter(R"({"getClusterParameter":"nothing","$db":"admin"})") == 4);
  CHECK(parameter(R"({"getClusterParameter":[],"$db":"admin"})") == 2);
  CHECK(parameter(R"({"setClusterParameter":{},"$db":"admin"})") == 72);
  CHECK(parameter(R"({"setClusterParameter":{"nothing":{}},"$db":"admin"})") == 4);
  for (const char* wrong : {R"("on")", "0", "-5"})
    CHECK(parameter(R"({"setClusterParameter":{"changeStreamOptions":{"preAndPostImages":{"expireAfterSeconds":)" +
                    std::string(wrong) + R"(}}},"$db":"admin"})") == 2);
  must(R"({"create":"c","changeStreamPreAndPostImages":{"enabled":true}})");
  insert(1);
  const Reply at = watch();
  must(R"({"update":"c","updates":[{"q":{"_id":1},"u":{"$set":{"a":2}}}]})");
  const auto before = [&] {
    const Reply told = watch(R"({"fullDocumentBeforeChange":"whenAvailable","resumeAfter":)" +
                             to_extended_json(at.token.view()) + "}");
    REQUIRE(told.events.size() == 1);
    return told.events[0].view()["fullDocumentBeforeChange"].type();
  };
  must(R"({"setClusterParameter":{"changeStreamOptions":{"preAndPostImages":{"expireAfterSeconds":1}}},"$db":"admin"})");
  CHECK(shown() == R"({"expireAfterSeconds":1})");
  CHECK(before() == BsonType::kObject);
  std::this_thread::sleep_for(std::chrono::milliseconds(3100));
  CHECK(before() == BsonType::kNull);
  CHECK(watch(R"({"fullDocumentBeforeChange":"required","resumeAfter":)" + to_extended_json(at.token.view()) +
              "}").code == 47);
  must(R"({"setClusterParameter":{"changeStreamOptions":{"preAndPostImages":{"expireAfterSeconds":"off"}}},"$db":"admin"})");
  CHECK(before() == BsonType::kObject);
}

TEST_CASE_FIXTURE(Env, "an update is told by the fields that its operators name") {
  must(R"({"insert":"c","documents":[{"_id":1,"o":{"x":1,"y":{"z":1,"w":1}},"few":[1,2,3],"none":[],
          "deep":[{"k":1,"v":{"a":1,"b":1}},{"k":2,"v":{"a":1,"b":1}}]}]})");
  Reply stream = watch();
  const auto told = [&](const std::string& update, const std::string& more_options = "") {
    must(R"({"update":"c","updates":[{"q":{"_id":1},"u":)" + update + more_options + "}]}");
    const Reply reply = more(stream);
    REQUIRE(reply.events.size() == 1);
    const DocumentView what = reply.events[0].view()["updateDescription"].as_document();
    return to_extended_json(what["updatedFields"].as_document()) +
           (what["truncatedArrays"].as_document().empty() ? "" : " truncated");
  };
  CHECK(told(R"({"$set":{"o":{"x":1,"y":{"z":2,"w":1}}}})") == R"({"o":{"x":1,"y":{"z":2,"w":1}}})");
  CHECK(told(R"({"$set":{"o.y":{"z":3,"w":1}}})") == R"({"o.y":{"z":3,"w":1}})");
  CHECK(told(R"({"$set":{"o.y.z":4}})") == R"({"o.y.z":4})");
  CHECK(told(R"({"$max":{"o.y":{"z":9,"w":1}}})") == R"({"o.y":{"z":9,"w":1}})");
  CHECK(told(R"({"$set":{"deep.$[d].v":{"a":2,"b":1}}})", R"(,"arrayFilters":[{"d.k":2}])") ==
        R"({"deep.1.v":{"a":2,"b":1}})");
  // Arrays: as MongoDB's manual shows, only a value pushed behind others is told by its place.
  CHECK(told(R"({"$push":{"none":1}})") == R"({"none":[1]})");
  CHECK(told(R"({"$push":{"none":2}})") == R"({"none.1":2})");
  CHECK(told(R"({"$push":{"none":{"$each":[0],"$position":0}}})") == R"({"none":[0,1,2]})");
  CHECK(told(R"({"$pull":{"few":3}})") == R"({"few":[1,2]})");
  CHECK(told(R"({"$pop":{"few":1}})") == R"({"few":[1]})");
  CHECK(told(R"({"$addToSet":{"few":7}})") == R"({"few":[1,7]})");
  // A pipeline names no fields: what differs is told.
  CHECK(told(R"([{"$set":{"o":{"x":1,"y":{"z":10,"w":1}}}}])") == R"({"o.y.z":10})");
  CHECK(told(R"([{"$set":{"few":{"$slice":["$few",1]}}}])") == "{} truncated");
}

TEST_CASE("tokens: what is made is read, in the order of events") {
  std::vector<ResumeToken> tokens = {ResumeToken::from(5 << 8),
                                     {5 << 8, ResumeToken::Kind::kEvent, 0, false, 0},
                                     {5 << 8, ResumeToken::Kind::kEvent, 0, false, 1},
                                     {5 << 8, ResumeToken::Kind::kEvent, 0, true, 0},
                                     {5 << 8, ResumeToken::Kind::kEvent, 300, false, 0},
                                     ResumeToken::seen(5 << 8),
                                     ResumeToken::from(6 << 8)};
  std::string before;
  for (const ResumeToken& token : tokens) {
    const OwnedDocument document = token.to_document();
    const auto parsed = ResumeToken::parse(document.view());
    REQUIRE(parsed);
    CHECK(*parsed == token);
    const std::string text(document.view()["_data"].as_string());
    CHECK(text > before);
    before = text;
  }
  const auto code = [](std::string_view json) {
    const auto document = from_extended_json(json);
    return static_cast<int>(ResumeToken::parse(document->view()).error().code());
  };
  CHECK(code("{}") == 40647);
  CHECK(code(R"({"_data":1})") == 14);
  CHECK(code(R"({"_data":"zz"})") == 9);
  CHECK(code(R"({"_data":"82"})") == 260);
  CHECK(code(R"({"_data":"8200000000000005004000"})") == 260);
}

TEST_CASE("a collection's stream tells inserts, updates, replacements and deletes") {
  Env env;
  env.insert(0);
  const auto stream = env.watch();
  REQUIRE(stream.code == 0);
  CHECK(stream.events.empty());
  CHECK(stream.ns == "db.c");
  CHECK(!stream.token.view().empty());
  CHECK(env.more(stream).waits);
  env.insert(1);
  env.must(R"({"update":"c","updates":[{"q":{"_id":1},"u":{"$set":{"b":2},"$unset":{"a":1}}}]})");
  env.must(R"({"update":"c","updates":[{"q":{"_id":1},"u":{"z":9}}]})");
  env.must(R"({"insert":"other","documents":[{"_id":1}]})");
  env.must(R"({"delete":"c","deletes":[{"q":{"_id":1},"limit":1}]})");
  const auto reply = env.more(stream);
  REQUIRE(Env::types(reply) == Types{"insert", "update", "replace", "delete"});
  const DocumentView insert = reply.events[0].view(), update = reply.events[1].view();
  CHECK(to_extended_json(insert["fullDocument"].as_document()) == R"({"_id":1,"a":1})");
  CHECK(to_extended_json(insert["ns"].as_document()) == R"({"db":"db","coll":"c"})");
  CHECK(to_extended_json(insert["documentKey"].as_document()) == R"({"_id":1})");
  CHECK(insert["clusterTime"].type() == BsonType::kTimestamp);
  CHECK(insert["wallTime"].type() == BsonType::kDate);
  CHECK(insert["lsid"].missing());
  CHECK(insert["collectionUUID"].missing());
  CHECK(to_extended_json(update["updateDescription"].as_document()) ==
        R"({"updatedFields":{"b":2},"removedFields":["a"],"truncatedArrays":[]})");
  CHECK(update["fullDocument"].missing());
  CHECK(to_extended_json(reply.events[2].view()["fullDocument"].as_document()) == R"({"_id":1,"z":9})");
  CHECK(reply.token.view()["_data"].as_string() >
        reply.events[3].view()["_id"].as_document()["_data"].as_string());
}

TEST_CASE("streams resume after any event, from a time, and across restarts") {
  Env env;
  const auto stream = env.watch();
  env.must(R"({"insert":"c","documents":[{"_id":1},{"_id":2},{"_id":3}]})");
  const auto all = env.more(stream);
  REQUIRE(all.events.size() == 3);
  CHECK(all.events[0].view()["clusterTime"].as_timestamp() <
        all.events[1].view()["clusterTime"].as_timestamp());
  const auto check = [&] {
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(env.watch(Env::resume(Env::id(all.events[i]))).events.size() == 2 - i);
      CHECK(env.watch(Env::resume(Env::id(all.events[i]), "startAfter")).events.size() == 2 - i);
      DocumentBuilder time;
      time.append_timestamp("startAtOperationTime",
                            all.events[i].view()["clusterTime"].as_timestamp());
      const OwnedDocument stage = std::move(time).finish();
      CHECK(env.watch(to_extended_json(stage.view())).events.size() == 3 - i);
    }
    CHECK(env.watch(Env::resume(all.token)).events.empty());
    CHECK(env.watch(Env::resume(stream.token)).events.size() == 3);
  };
  check();
  REQUIRE(env.run.store->checkpoint().ok());
  check();
  // One document a batch: the token is that of the batch's last event.
  const auto one = env.watch(Env::resume(stream.token), "", "\"c\"", R"({"batchSize":1})");
  REQUIRE(one.events.size() == 1);
  CHECK(one.token.bytes() == Env::id(all.events[0]).bytes());
  CHECK(env.more(one, 1).token.bytes() == Env::id(all.events[1]).bytes());
}

TEST_CASE("a transaction's events share a cluster time and name their session") {
  Env env;
  env.insert(0);
  const auto stream = env.watch();
  auto transaction = Transaction::begin(*env.run.store, {});
  REQUIRE(transaction);
  bind_transaction(transaction->get());
  env.run(R"({"insert":"c","documents":[{"_id":1},{"_id":2}]})");
  unbind_transaction();
  REQUIRE((*transaction)->commit(StatementId{std::string(16, 's'), 7, -1}));
  const auto reply = env.more(stream);
  REQUIRE(reply.events.size() == 2);
  const DocumentView a = reply.events[0].view(), b = reply.events[1].view();
  CHECK(a["clusterTime"].as_timestamp() == b["clusterTime"].as_timestamp());
  CHECK(Env::id(reply.events[0]).bytes() != Env::id(reply.events[1]).bytes());
  CHECK(a["txnNumber"].as_int64() == 7);
  CHECK(a["lsid"].as_document()["id"].binary_bytes() == std::string(16, 's'));
  CHECK(env.watch(Env::resume(Env::id(reply.events[0]))).events.size() == 1);
}

TEST_CASE("drops and renames end a collection's stream, not the database's") {
  Env env;
  env.insert(0);
  const auto stream = env.watch(), wide = env.watch("{}", "", "1");
  CHECK(wide.ns == "db.$cmd.aggregate");
  std::string last;
  SUBCASE("drop") {
    env.must(R"({"drop":"c"})");
    last = "drop";
  }
  SUBCASE("rename") {
    REQUIRE(env.run.store->rename_collection("db.c", "db.d", false));
    last = "rename";
  }
  const auto reply = env.more(stream);
  CHECK(Env::types(reply) == Types{last, "invalidate"});
  CHECK(reply.cursor == 0);
  CHECK(Env::types(env.more(wide)) == Types{last});
  CHECK(env.more(wide).waits);
  // After the event: the invalidation again. After that: only startAfter.
  const auto again = env.watch(Env::resume(Env::id(reply.events[0])));
  CHECK(Env::types(again) == Types{"invalidate"});
  CHECK(again.cursor == 0);
  CHECK(env.watch(Env::resume(Env::id(reply.events[1]))).code == 260);
  const auto after = env.watch(Env::resume(Env::id(reply.events[1]), "startAfter"));
  REQUIRE(after.code == 0);
  env.insert(5);
  CHECK(Env::types(env.more(after)) == Types{"insert"});
  env.must(R"({"dropDatabase":1})");
  const auto end = env.more(wide);
  REQUIRE(end.events.size() >= 2);
  CHECK(Env::type(end.events.back()) == "invalidate");
  CHECK(Env::type(end.events[end.events.size() - 2]) == "dropDatabase");
  CHECK(end.cursor == 0);
}

TEST_CASE("looked-up and kept documents") {
  Env env;
  env.must(R"({"create":"c","changeStreamPreAndPostImages":{"enabled":true}})");
  env.insert(1);
  const auto lookup = env.watch(R"({"fullDocument":"updateLookup"})");
  const auto images =
      env.watch(R"({"fullDocument":"required","fullDocumentBeforeChange":"required"})");
  env.must(R"({"update":"c","updates":[{"q":{"_id":1},"u":{"$set":{"a":2}}}]})");
  env.must(R"({"update":"c","updates":[{"q":{"_id":1},"u":{"$set":{"a":3}}}]})");
  const auto looked = env.more(lookup);
  REQUIRE(looked.events.size() == 2);
  CHECK(to_extended_json(looked.events[0].view()["fullDocument"].as_document()) == R"({"_id":1,"a":3})");
  env.must(R"({"delete":"c","deletes":[{"q":{"_id":1},"limit":1}]})");
  const auto kept = env.more(images);
  REQUIRE(Env::types(kept) == Types{"update", "update", "delete"});
  CHECK(to_extended_json(kept.events[0].view()["fullDocument"].as_document()) == R"({"_id":1,"a":2})");
  CHECK(to_extended_json(kept.events[0].view()["fullDocumentBeforeChange"].as_document()) ==
        R"({"_id":1,"a":1})");
  CHECK(to_extended_json(kept.events[2].view()["fullDocumentBeforeChange"].as_document()) ==
        R"({"_id":1,"a":3})");
  // Without images: null, or an error.
  env.must(R"({"insert":"d","documents":[{"_id":1,"a":1}]})");
  const auto none = env.watch(R"({"fullDocument":"whenAvailable"})", "", "\"d\"");
  const auto must = env.watch(R"({"fullDocument":"required"})", "", "\"d\"");
  env.must(R"({"update":"d","updates":[{"q":{"_id":1},"u":{"$set":{"a":2}}}]})");
  const auto told = env.more(none);
  REQUIRE(told.events.size() == 1);
  CHECK(told.events[0].view()["fullDocument"].type() == BsonType::kNull);
  CHECK(env.more(must).code == 47);
}

TEST_CASE("expanded events") {
  Env env;
  const auto stream = env.watch(R"({"showExpandedEvents":true})", "", "1");
  env.insert(1);
  env.must(R"({"createIndexes":"c","indexes":[{"key":{"a":1},"name":"a_1"}]})");
  env.must(R"({"collMod":"c","index":{"name":"a_1","hidden":true}})");
  env.must(R"({"dropIndexes":"c","index":"a_1"})");
  env.must(R"({"update":"c","updates":[{"q":{"_id":1},"u":{"$set":{"a":{"0":1}}}}]})");
  const auto reply = env.more(stream);
  REQUIRE(Env::types(reply) ==
          Types{"create", "insert", "createIndexes", "modify", "dropIndexes", "update"});
  for (const OwnedDocument& event : reply.events)
    CHECK(event.view()["collectionUUID"].type() == BsonType::kBinData);
  const DocumentView built = reply.events[2].view()["operationDescription"].as_document();
  CHECK(built["indexes"].as_document().first()->as_document()["name"].as_string() == "a_1");
  CHECK(!reply.events[5].view()["updateDescription"].as_document()["disambiguatedPaths"].missing());
}

TEST_CASE("a collection that becomes capped is told as any change of its options") {
  Env env;
  env.must(R"({"create":"c"})");
  env.must(R"({"createIndexes":"c","indexes":[{"key":{"a":1},"name":"a_1"}]})");
  const auto stream = env.watch(R"({"showExpandedEvents":true})", "", "1");
  env.must(R"({"convertToCapped":"c","size":100000})");
  const auto reply = env.more(stream);
  REQUIRE(Env::types(reply) == Types{"dropIndexes", "modify"});
  const DocumentView dropped = reply.events[0].view()["operationDescription"].as_document();
  CHECK(dropped["indexes"].as_document().first()->as_document()["name"].as_string() == "a_1");
  const DocumentView changed = reply.events[1].view()["operationDescription"].as_document();
  CHECK(changed["capped"].truthy());
}

TEST_CASE("what may follow the stage, and what may not") {
  Env env;
  env.insert(0);
  CHECK(env.watch("{}", R"({"$group":{"_id":1}})").code == 20);
  CHECK(env.watch("{}", R"({"$sort":{"_id":1}})").code == 20);
  CHECK(env.command(R"({"aggregate":"c","pipeline":[{"$match":{}},{"$changeStream":{}}],"cursor":{}})").code ==
        40602);
  const auto some = env.watch("{}", R"({"$match":{"fullDocument._id":{"$gt":1}}},{"$project":{"ns":0}})");
  const auto bad = env.watch("{}", R"({"$unset":"_id"})");
  REQUIRE(some.code == 0);
  env.insert(1);
  env.insert(2);
  const auto reply = env.more(some);
  REQUIRE(reply.events.size() == 1);
  CHECK(reply.events[0].view()["ns"].missing());
  CHECK(env.more(bad).code == 280);
  CHECK(env.watch(R"({"nonsense":1})").code == 40415);
  CHECK(env.watch(R"({"fullDocument":"x"})").code == 2);
  CHECK(env.watch(R"({"allChangesForCluster":true})").code == 72);
  CHECK(env.watch(R"({"resumeAfter":{"_data":"8200000001000000000000"}})").code == 260);
}

TEST_CASE("a position that is not kept any more is lost") {
  Env env;
  env.insert(0);
  REQUIRE(env.run.store->close().ok());
  env.run.store.reset();
  const auto names = env.run.files.list("/db/history");
  for (const std::string& name : *names)
    REQUIRE(env.run.files.remove("/db/history/" + name).ok());
  StoreOptions options;
  options.path = "/db";
  options.memory_budget_bytes = 256u << 20;
  env.run.store = std::move(*Store::open(options, env.run.host, env.run.files, nullptr));
  CHECK(env.watch(R"({"startAtOperationTime":{"$timestamp":{"t":1,"i":1}}})").code == 286);
  CHECK(env.watch().code == 0);
}

TEST_CASE("an event that is too large is split on demand") {
  Env env;
  env.must(R"({"create":"c","changeStreamPreAndPostImages":{"enabled":true}})");
  DocumentBuilder insert;
  insert.append("insert", "c");
  {
    ArrayBuilder documents = insert.array("documents");
    DocumentBuilder document = documents.object();
    document.append("_id", 1).append("pad", std::string(9 << 20, 'p'));
  }
  const OwnedDocument command = std::move(insert).finish();
  env.run.run(command.view());
  REQUIRE(env.run.status.ok());
  env.durable();
  const std::string options =
      R"({"fullDocument":"required","fullDocumentBeforeChange":"required"})";
  const auto whole = env.watch(options);
  const auto split = env.watch(options, R"({"$changeStreamSplitLargeEvent":{}})");
  env.must(R"({"update":"c","updates":[{"q":{"_id":1},"u":{"$set":{"a":2}}}]})");
  CHECK(env.more(whole).code == 10334);
  const auto first = env.more(split);
  REQUIRE(first.events.size() == 1);
  const auto second = env.more(split);
  REQUIRE(second.events.size() == 1);
  CHECK(to_extended_json(first.events[0].view()["splitEvent"].as_document()) ==
        R"({"fragment":1,"of":2})");
  CHECK(to_extended_json(second.events[0].view()["splitEvent"].as_document()) ==
        R"({"fragment":2,"of":2})");
  const OwnedDocument token = Env::id(first.events[0]);
  const std::string rest = R"({"resumeAfter":)" + to_extended_json(token.view()) + "," +
                           options.substr(1);
  const auto resumed = env.watch(rest, R"({"$changeStreamSplitLargeEvent":{}})");
  REQUIRE(resumed.events.size() == 1);
  CHECK(resumed.events[0].bytes() == second.events[0].bytes());
}

}  // namespace
}  // namespace multifora::change_stream
