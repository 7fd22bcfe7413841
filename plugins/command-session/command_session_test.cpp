#include <doctest/doctest.h>

#include <optional>

#include "core/base/version.h"
#include "core/plugin/plugin.h"
#include "plugins/command-session/rows.h"

const multifora::PluginEntry* multifora_plugin_command_session();

namespace multifora {
namespace {

class FakeControl final : public ServerControl {
 public:
  std::string set = "rs0", advertised;
  ObjectId id = ObjectId::generate();
  std::vector<std::vector<std::string>> killed;
  void append_server_status(DocumentBuilder&) const override {}
  std::vector<std::string> recent_log_lines() const override { return {}; }
  OwnedDocument command_line() const override { return {}; }
  Status rotate_log() override { return {}; }
  void request_shutdown() override {}
  void append_operations(ArrayBuilder&, bool) const override {}
  Status kill_operation(std::int64_t) override { return {}; }
  void kill_sessions(const std::vector<std::string>& lsids) override { killed.push_back(lsids); }
  std::string advertised_address() const override { return advertised; }
  std::string set_name() const override { return set; }
  std::int64_t start_wall_ms() const override { return 0; }
  ObjectId process_id() const override { return id; }
  std::vector<std::string> wire_compressors() const override { return {"zstd", "snappy"}; }
};

enum class Next { kReply, kWait };

// Calls handlers as the dispatcher does.
class Fixture {
 public:
  Fixture() {
    REQUIRE(host.load(*multifora_plugin_command_session(), "").ok());
    REQUIRE(host.add_service<ServerControl>(control).ok());
    host.freeze();
    client.local = "127.0.0.1:27017";
  }
  template <class Fill>
  Next start(Fill fill, bool exhaust = false) {
    DocumentBuilder b;
    fill(b);
    body = std::move(b).finish();
    context.emplace(host, nullptr, client, interrupt);
    context->exhaust_allowed = exhaust;
    return run();
  }
  // The next call of the same request: after a wait, or for a stream's next reply.
  Next run() {
    const CommandRequest request(body.view(), "admin", {});
    context->more_to_come = false;
    DocumentBuilder reply;
    status = host.command(request.name())->run(*context, request, reply);
    document = std::move(reply).finish();
    return context->take_wait() == nullptr ? Next::kReply : Next::kWait;
  }
  DocumentView reply() const { return document.view(); }
  int code() const { return static_cast<int>(status.code()); }

  std::shared_ptr<FakeControl> control = std::make_shared<FakeControl>();
  PluginHost host;
  ClientInfo client;
  Interrupt interrupt{system_clock()};
  std::optional<CommandContext> context;
  OwnedDocument body, document;
  Status status;
};

void append_version(DocumentBuilder& b, ObjectId id, std::int64_t counter) {
  DocumentBuilder version = b.object("topologyVersion");
  version.append("processId", id).append("counter", counter);
}

}  // namespace

TEST_CASE("hello of a replica set's primary") {
  Fixture f;
  f.start([](auto& b) {
    b.append("hello", 1).append("helloOk", true).append("saslSupportedMechs", "admin.u");
    ArrayBuilder names = b.array("compression");
    names.append("snappy").append("lz77").append("zstd");
  });
  const DocumentView reply = f.reply();
  CHECK(reply["isWritablePrimary"].as_bool());
  CHECK(reply["ismaster"].missing());
  CHECK(reply["setName"].as_string() == "rs0");
  CHECK(reply["me"].as_string() == "127.0.0.1:27017");
  CHECK(reply["hosts"].as_document().first()->as_string() == "127.0.0.1:27017");
  CHECK(reply["maxWireVersion"].as_int32() == kWireVersionMax);
  CHECK(reply["maxMessageSizeBytes"].as_int32() == 48'000'000);
  CHECK(reply["logicalSessionTimeoutMinutes"].as_int32() == 30);
  CHECK(reply["compression"].as_document().count() == 2);
  CHECK(reply["compression"].as_document().first()->as_string() == "snappy");
  CHECK(reply["saslSupportedMechs"].as_document().empty());
  CHECK(f.status.ok());
}

TEST_CASE("isMaster of a standalone, with an advertised address unused") {
  Fixture f;
  f.control->set = "";
  f.start([](auto& b) { b.append("ismaster", 1).append("helloOk", true); });
  CHECK(f.reply()["ismaster"].as_bool());
  CHECK(f.reply()["helloOk"].as_bool());
  CHECK(f.reply()["setName"].missing());
  f.control->set = "rs1";
  f.control->advertised = "db.example:27017";
  f.start([](auto& b) { b.append("isMaster", 1); });
  CHECK(f.reply()["me"].as_string() == "db.example:27017");
  CHECK(f.reply()["helloOk"].missing());
}

TEST_CASE("client metadata is kept once") {
  Fixture f;
  f.start([](auto& b) {
    b.append("hello", 1);
    DocumentBuilder client = b.object("client");
    client.object("application").append("name", "shop");
  });
  CHECK(f.client.app_name == "shop");
  f.start([](auto& b) { b.append("hello", 1).object("client").append("x", 1); });
  CHECK(f.status.ok());
  CHECK(f.client.app_name == "shop");
}

TEST_CASE("awaitable hello") {
  Fixture f;
  const auto ask = [&](ObjectId id, std::int64_t counter, bool exhaust) {
    return f.start([&](auto& b) {
      b.append("hello", 1).append("maxAwaitTimeMS", 50);
      append_version(b, id, counter);
    }, exhaust);
  };
  // What the client knows is current: wait, then the same again.
  CHECK(ask(f.control->id, 6, false) == Next::kWait);
  CHECK(f.run() == Next::kReply);
  CHECK_FALSE(f.context->more_to_come);
  // Another process: at once.
  CHECK(ask(ObjectId::generate(), 6, false) == Next::kReply);
  // A stream: at once, then a reply after each wait.
  CHECK(ask(ObjectId::generate(), 6, true) == Next::kReply);
  for (int i = 0; i < 3; ++i) {
    CHECK(f.context->more_to_come);
    CHECK(f.run() == Next::kWait);
    CHECK(f.run() == Next::kReply);
  }
  // Mistakes.
  f.start([](auto& b) { b.append("hello", 1).append("maxAwaitTimeMS", 50); });
  CHECK(f.code() == 31368);
  ask(f.control->id, -1, false);
  CHECK(f.code() == 31372);
  ask(f.control->id, 7, false);
  CHECK(f.code() == 31382);
}

TEST_CASE("session commands") {
  Fixture f;
  f.start([](auto& b) { b.append("startSession", 1); });
  const ValueView id = f.reply()["id"].as_document()["id"];
  CHECK(id.binary_subtype() == 4);
  CHECK(f.reply()["timeoutMinutes"].as_int32() == 30);

  const auto with_list = [&](std::string_view name, std::string uuid) {
    f.start([&](auto& b) {
      ArrayBuilder list = b.array(name);
      list.object().append_binary("id", uuid, 4);
    });
    return f.code();
  };
  const std::string uuid(16, 's');
  CHECK(with_list("endSessions", uuid) == 0);
  CHECK(with_list("refreshSessions", uuid) == 0);
  CHECK(with_list("endSessions", "short") == 207);
  CHECK(with_list("killSessions", uuid) == 0);
  REQUIRE(f.control->killed.size() == 1);
  CHECK(f.control->killed[0] == std::vector<std::string>{uuid});
  f.start([](auto& b) { b.append("endSessions", 1); });
  CHECK(f.code() == 14);
  f.start([](auto& b) { b.array("killAllSessions"); });
  CHECK(f.control->killed.back().empty());
}

}  // namespace multifora
