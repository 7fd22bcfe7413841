// Diagnostic commands over a store in memory, with a server that notes what it is asked.
#include <doctest/doctest.h>

#include "core/base/version.h"
#include "tests/support/command_host.h"

const multifora::PluginEntry* multifora_plugin_index_btree();
const multifora::PluginEntry* multifora_plugin_query_engine();
const multifora::PluginEntry* multifora_plugin_command_diagnostic();

namespace multifora {
namespace {

class NotingControl final : public ServerControl {
 public:
  void append_server_status(DocumentBuilder&) const override {}
  std::vector<std::string> recent_log_lines() const override { return {"one", "two"}; }
  OwnedDocument command_line() const override { return OwnedDocument(); }
  Status rotate_log() override { return {}; }
  void request_shutdown() override { ++shutdowns; }
  void append_operations(ArrayBuilder& out, bool) const override {
    out.object().append("opid", 7).append("op", "command");
    out.object().append("opid", 8).append("op", "none");
  }
  Status kill_operation(std::int64_t id) override {
    killed.push_back(id);
    return id == 7 ? Status() : Status(ErrorCode::kNoSuchKey, "no such operation");
  }
  std::string advertised_address() const override { return "h:1"; }
  std::string set_name() const override { return "rs0"; }
  std::int64_t start_wall_ms() const override { return 0; }
  ObjectId process_id() const override { return ObjectId(); }
  std::vector<std::string> wire_compressors() const override { return {}; }

  std::vector<std::int64_t> killed;
  int shutdowns = 0;
};

struct Env {
  Env()
      : host({multifora_plugin_index_btree(), multifora_plugin_query_engine(),
              multifora_plugin_command_diagnostic()},
             control) {}
  std::string run(std::string_view json) { return host.run(json); }

  std::shared_ptr<NotingControl> control = std::make_shared<NotingControl>();
  test::CommandHost host;
};

TEST_CASE("killOp hands the operation to the server, known or not") {
  Env env;
  const std::string attempted = R"({"info":"attempting to kill op"})";
  CHECK(env.run(R"({"killOp":1,"op":7})") == attempted);
  CHECK(env.run(R"({"killOp":1,"op":{"$numberLong":"5000000000"}})") == attempted);
  CHECK(env.control->killed == std::vector<std::int64_t>{7, 5'000'000'000});
  CHECK(env.run(R"({"killOp":1,"op":"7"})") == "error 4");
  CHECK(env.run(R"({"killOp":1})") == "error 4");
  CHECK(env.control->killed.size() == 2);
}

TEST_CASE("currentOp shows the operations that match its other fields") {
  Env env;
  const std::string seven = R"({"opid":7,"op":"command"})";
  const std::string eight = R"({"opid":8,"op":"none"})";
  CHECK(env.run(R"({"currentOp":1,"$all":true,"comment":"x"})") == R"({"inprog":[)" + seven + "," + eight + "]}");
  CHECK(env.run(R"({"currentOp":true,"op":"none"})") == R"({"inprog":[)" + eight + "]}");
  CHECK(env.run(R"({"currentOp":1,"opid":{"$lt":8},"$or":[{"op":"command"},{"op":"x"}]})") ==
        R"({"inprog":[)" + seven + "]}");
  CHECK(env.run(R"({"currentOp":1,"$foo":1})") == "error 2");
}

TEST_CASE("setParameter says which key decides a parameter, or that it is fixed") {
  Env env;
  CHECK(env.run(R"({"setParameter":1,"ttlMonitorSleepSecs":5})") == "error 20");
  CHECK(env.host.status.message().find("index-ttl.monitor_sleep_secs") != std::string::npos);
  CHECK(env.run(R"({"setParameter":1,"comment":"x","quiet":true})") == "error 20");
  CHECK(env.host.status.message().find("fixed") != std::string::npos);
  CHECK(env.run(R"({"setParameter":1,"noSuchThing":5})") == "error 72");
  CHECK(env.run(R"({"setParameter":1,"lsid":{"id":1}})") == "error 72");
}

TEST_CASE("getParameter by name, all of them, and with details") {
  Env env;
  CHECK(env.run(R"({"getParameter":1,"quiet":1})") == R"({"quiet":false})");
  CHECK(env.run(R"({"getParameter":1,"noSuchThing":1})") == "error 72");
  CHECK(env.run(R"({"getParameter":"*"})").find("featureCompatibilityVersion") !=
        std::string::npos);
  CHECK(env.run(R"({"getParameter":{"showDetails":true},"logLevel":1})") ==
        R"({"logLevel":{"value":0,"settableAtRuntime":false,"settableAtStartup":true}})");
  CHECK(env.run(R"({"getParameter":{"showDetails":true},"quiet":1})") ==
        R"({"quiet":{"value":false,"settableAtRuntime":false,"settableAtStartup":false}})");
}

TEST_CASE("dataSize counts a collection's documents") {
  Env env;
  env.host.fill("db.c", 0, 10, 100);
  const std::uint64_t bytes = env.host.store->collection_stats("db.c")->data_bytes;
  const std::string counted =
      R"("size":)" + std::to_string(bytes) + R"(,"numObjects":10,"millis":0})";
  CHECK(env.run(R"({"dataSize":"db.c"})") == R"({"estimate":false,)" + counted);
  CHECK(env.run(R"({"dataSize":"db.c","estimate":true})") == R"({"estimate":true,)" + counted);
  CHECK(env.run(R"({"dataSize":"db.none"})") ==
        R"({"estimate":false,"size":0,"numObjects":0,"millis":0})");
}

TEST_CASE("collStats, dbStats and validate of the same collection agree") {
  Env env;
  env.host.fill("db.c", 0, 10, 100);
  CHECK(env.run(R"({"collStats":"c"})").find(R"("count":10,)") != std::string::npos);
  CHECK(env.run(R"({"collStats":"c","scale":0})") == "error 2");
  CHECK(env.run(R"({"dbStats":1})").find(R"("objects":10,)") != std::string::npos);
  const std::string report = env.run(R"({"validate":"c","full":true})");
  CHECK(report.find(R"("nrecords":10,)") != std::string::npos);
  CHECK(report.find(R"("valid":true)") != std::string::npos);
  CHECK(env.run(R"({"validate":"none"})") == "error 26");
  CHECK(env.run(R"({"validate":"c","repair":true})") == "error 115");
}

TEST_CASE("what the server is and does") {
  Env env;
  CHECK(env.run(R"({"buildInfo":1})").find("\"version\":\"" + std::string(kMongoVersion)) !=
        std::string::npos);
  CHECK(env.run(R"({"shutdown":1})") == "{}");
  CHECK(env.control->shutdowns == 1);
  CHECK(env.run(R"({"fsync":1})") == R"({"numFiles":1})");
  CHECK(env.run(R"({"fsync":1,"lock":true})") == "error 115");
  CHECK(env.run(R"({"getLog":"global"})").find("\"totalLinesWritten\":2") != std::string::npos);
}

}  // namespace
}  // namespace multifora
