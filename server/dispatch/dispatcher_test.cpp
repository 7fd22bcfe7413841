#include "server/dispatch/dispatcher.h"

#include <doctest/doctest.h>

#include <chrono>
#include <stdexcept>
#include <thread>

#include "core/bson/validate.h"

namespace multifora {
namespace {

Status run_ping(CommandContext&, const CommandRequest&, DocumentBuilder&) { return {}; }

Status run_echo(CommandContext& context, const CommandRequest& request, DocumentBuilder& reply) {
  reply.append("ns", request.ns());
  reply.append("documents", static_cast<int>(request.documents("documents").size()));
  reply.append("lsid_bytes", static_cast<int>(context.session().lsid.size()));
  return {};
}

Status run_write(CommandContext& context, const CommandRequest& request, DocumentBuilder& reply) {
  context.note_write(static_cast<std::uint64_t>(request.integer("position", 0)));
  reply.append("n", 1);
  if (request.flag("fail", false)) {
    DocumentBuilder extra;
    extra.object("keyPattern").append("a", 1);
    return Status(ErrorCode::kDuplicateKey, "E11000").with_extra(
        std::string(std::move(extra).finish().bytes()));
  }
  return {};
}

Status run_vain_write(CommandContext&, const CommandRequest& request, DocumentBuilder& reply) {
  reply.append("n", 0);
  if (request.flag("fail", false)) return {ErrorCode::kDuplicateKey, "E11000"};
  return {};
}

Status run_throw(CommandContext&, const CommandRequest&, DocumentBuilder& reply) {
  reply.append("half", 1);
  throw std::runtime_error("boom");
}

// Waits once, then streams three replies.
Status run_wait(CommandContext& context, const CommandRequest&, DocumentBuilder& reply) {
  if (!context.wait_state()) {
    context.wait_state() = std::make_shared<int>(0);
    context.wait_for({1, [](std::function<void()>) { return [] {}; }});
    return {};
  }
  int& count = *static_cast<int*>(context.wait_state().get());
  reply.append("count", ++count);
  context.more_to_come = context.exhaust_allowed && count < 3;
  return {};
}

Status run_interrupted(CommandContext& context, const CommandRequest&, DocumentBuilder&) {
  while (true) MULTIFORA_TRY(context.interrupt().check_slow());
}

CommandRow with_lock(LockIntent lock, CommandRow row) {
  row.lock = lock;
  return row;
}

CommandRow make(std::string_view name, std::uint32_t flags, std::vector<OptionSpec> options,
                decltype(CommandRow::run) run) {
  CommandRow row;
  row.name = name;
  row.flags = flags;
  row.options = std::move(options);
  row.run = run;
  return row;
}

const CommandRow* const kRows[] = {
    new CommandRow(make("ping", kAllowedInStrictApi, {}, run_ping)),
    new CommandRow(make("echo", kCollectionName | kAcceptsReadConcern,
                        {{"documents", kOptArray, kArrayOfObjects}}, run_echo)),
    new CommandRow(make("write", kAcceptsWriteConcern | kRetryableWrite,
                        {{"position", kOptNumber}, {"fail", kOptBool}}, run_write)),
    new CommandRow(with_lock(LockIntent::kWrite,
                             make("vain", kAcceptsWriteConcern | kAllowedInTransaction,
                                  {{"fail", kOptBool}}, run_vain_write))),
    new CommandRow(make("admin", kAdminOnly, {}, run_ping)),
    new CommandRow(make("throw", 0, {}, run_throw)),
    new CommandRow(make("wait", 0, {}, run_wait)),
    new CommandRow(make("spin", 0, {}, run_interrupted)),
};

class FakeLog final : public Durability {
 public:
  std::uint64_t last = 100, durable = 100;
  std::uint64_t last_position() const override { return last; }
  std::uint64_t durable_position() const override { return durable; }
  void when_durable(std::uint64_t, Callback callback) override { callback({}); }
  Status health() const override { return {}; }
};

class Fixture {
 public:
  explicit Fixture(std::string set_name = "rs0") {
    for (const CommandRow* row : kRows) REQUIRE(host.add_command(row).ok());
    REQUIRE(host.add_service<FailPoints>(points).ok());
    host.freeze();
    dispatcher = std::make_unique<Dispatcher>(host, nullptr, &log,
                                              DispatchOptions{std::move(set_name), 100});
  }

  template <class Fill>
  Dispatcher::Next start(Fill fill, RequestTraits traits = {},
                         std::vector<DocumentSequence> sequences = {}) {
    DocumentBuilder b;
    fill(b);
    b.append("$db", "test");
    body = std::move(b).finish();
    operation.reply.assign("frame");
    return dispatcher->start(operation, body.view(), std::move(sequences), traits);
  }
  DocumentView reply() const {
    auto view = validate(Bytes(operation.reply).substr(5));
    REQUIRE(view.has_value());
    return *view;
  }
  template <class Fill>
  int code(Fill fill) {
    start(fill);
    const ValueView code = reply()["code"];
    const int number = code.missing() ? 0 : code.as_int32();
    CHECK(reply()["ok"].as_double() == (number == 0 ? 1.0 : 0.0));
    dispatcher->finish(operation);
    return number;
  }

  // Turns failCommand on for `command`, once.
  template <class Fill>
  void fail_next(std::string_view command, Fill fill) {
    DocumentBuilder b;
    b.object("mode").append("times", 1);
    {
      DocumentBuilder data = b.object("data");
      data.array("failCommands").append(command);
      fill(data);
    }
    const OwnedDocument set = std::move(b).finish();
    const auto done = points->configure(kFailCommand, set.view()["mode"],
                                        set.view()["data"].as_document());
    REQUIRE(done.has_value());
  }

  std::shared_ptr<FailPoints> points = std::make_shared<FailPoints>();
  PluginHost host;
  FakeLog log;
  std::unique_ptr<Dispatcher> dispatcher;
  ClientInfo client;
  Operation operation{client};
  OwnedDocument body;
};

}  // namespace

TEST_CASE("a reply has ok and the times of a replica set") {
  Fixture f;
  CHECK(f.start([](auto& b) { b.append("ping", 1); }) == Dispatcher::Next::kReply);
  CHECK(f.reply()["ok"].as_double() == 1.0);
  CHECK(f.reply()["operationTime"].as_timestamp() == 100);
  CHECK(f.reply()["$clusterTime"].as_document()["clusterTime"].as_timestamp() == 100);
  CHECK(f.operation.reply.starts_with("frame"));
  Fixture alone("");
  alone.start([](auto& b) { b.append("ping", 1); });
  CHECK(alone.reply()["operationTime"].missing());
}

TEST_CASE("refusals before the handler") {
  Fixture f;
  CHECK(f.code([](auto& b) { b.append("pong", 1); }) == 59);
  CHECK(f.reply()["errmsg"].as_string() == "no such command: 'pong'");
  CHECK(f.reply()["codeName"].as_string() == "CommandNotFound");
  CHECK(f.code([](auto& b) { b.append("admin", 1); }) == 13);
  CHECK(f.code([](auto& b) { b.append("echo", 1); }) == 73);
  CHECK(f.code([](auto& b) { b.append("echo", ""); }) == 73);
  CHECK(f.code([](auto& b) { b.append("ping", 1).append("x", 1); }) == 40415);
  CHECK(f.code([](auto& b) { b.append("ping", 1).append("apiVersion", "2"); }) == 322);
  CHECK(f.code([](auto& b) { b.append("ping", 1).append("apiStrict", true); }) == 4886600);
  CHECK(f.code([](auto& b) {
          b.append("throw", 1).append("apiVersion", "1").append("apiStrict", true);
        }) == 323);
  CHECK(f.code([](auto& b) { b.append("ping", 1).object("writeConcern").append("w", 1); }) == 72);
  CHECK(f.code([](auto& b) {
          b.append("ping", 1).object("readConcern").append("level", "majority");
        }) == 72);
  CHECK(f.code([](auto& b) {
          b.append("echo", "c").object("readConcern").append_timestamp("afterClusterTime", 101);
        }) == 72);
  CHECK(f.code([](auto& b) {
          b.append("echo", "c").object("readConcern").append_timestamp("afterClusterTime", 100);
        }) == 0);
}

TEST_CASE("an OP_MSG without $db, and a database given beside the body") {
  Fixture f;
  DocumentBuilder b;
  b.append("echo", "c");
  f.body = std::move(b).finish();
  f.operation.reply.assign("frame");
  f.dispatcher->start(f.operation, f.body.view(), {}, {});
  CHECK(f.reply()["code"].as_int32() == 40571);
  f.operation.reply.assign("frame");
  f.dispatcher->start(f.operation, f.body.view(), {}, {.db = "given"});
  CHECK(f.reply()["ns"].as_string() == "given.c");
}

TEST_CASE("sessions and transaction numbers") {
  Fixture f;
  const auto lsid = [](auto& b) { b.object("lsid").append_binary("id", std::string(16, 'x'), 4); };
  f.start([&](auto& b) {
    b.append("echo", "c");
    lsid(b);
  });
  CHECK(f.reply()["lsid_bytes"].as_int32() == 16);
  f.dispatcher->finish(f.operation);
  const std::int64_t one = 1;
  CHECK(f.code([&](auto& b) { b.append("write", 1).append("txnNumber", one); }) == 72);
  CHECK(f.code([&](auto& b) {
          b.append("ping", 1).append("txnNumber", one);
          lsid(b);
        }) == 50768);
  CHECK(f.code([&](auto& b) {
          b.append("write", 1).append("txnNumber", one);
          lsid(b);
        }) == 0);
  CHECK(f.code([&](auto& b) {
          b.append("write", 1).append("txnNumber", one).append("autocommit", false);
          b.append("startTransaction", true);
          lsid(b);
        }) == 263);
  Fixture alone("");
  CHECK(alone.code([&](auto& b) {
          b.append("write", 1).append("txnNumber", one);
          lsid(b);
        }) == 20);
}

TEST_CASE("a write's reply is held until it is durable, unless the client said otherwise") {
  Fixture f;
  const auto write = [&](auto more) {
    return f.start([&](auto& b) {
      b.append("write", 1).append("position", 200);
      more(b);
    });
  };
  CHECK(write([](auto&) {}) == Dispatcher::Next::kDurable);
  CHECK(f.operation.durable_position() == 200);
  CHECK(f.reply()["operationTime"].as_timestamp() == 200);
  f.dispatcher->durable(f.operation, Status(ErrorCode::kFileStreamFailed, "disk gone"));
  CHECK(f.reply()["code"].as_int32() == 39);
  f.dispatcher->finish(f.operation);
  CHECK(write([](auto& b) { b.append("fail", true); }) == Dispatcher::Next::kDurable);
  CHECK(write([](auto& b) { b.object("writeConcern").append("w", 0); }) ==
        Dispatcher::Next::kReply);
  CHECK(write([](auto& b) { b.object("writeConcern").append("j", false); }) ==
        Dispatcher::Next::kReply);
  CHECK(write([](auto& b) { b.object("writeConcern").append("w", 2); }) ==
        Dispatcher::Next::kDurable);
  const DocumentView error = f.reply()["writeConcernError"].as_document();
  CHECK(error["code"].as_int32() == 100);
  CHECK(f.reply()["ok"].as_double() == 1.0);
  f.log.durable = 200;
  CHECK(write([](auto&) {}) == Dispatcher::Next::kReply);
}

TEST_CASE("a write that changed nothing waits for what it saw") {
  Fixture f;
  f.log.last = 150;
  const auto write = [&](auto more) {
    return f.start([&](auto& b) {
      b.append("vain", 1);
      more(b);
    });
  };
  CHECK(write([](auto&) {}) == Dispatcher::Next::kDurable);
  CHECK(f.operation.durable_position() == 150);
  CHECK(f.operation.durable_timeout_ms() == 0);
  f.dispatcher->finish(f.operation);
  CHECK(write([](auto& b) { b.append("fail", true); }) == Dispatcher::Next::kDurable);
  f.dispatcher->finish(f.operation);
  CHECK(write([](auto& b) {
          b.object("writeConcern").append("w", "majority").append("wtimeout", 7);
        }) == Dispatcher::Next::kDurable);
  CHECK(f.operation.durable_timeout_ms() == 7);
  f.dispatcher->finish(f.operation);
  CHECK(write([](auto& b) { b.object("writeConcern").append("w", 0); }) ==
        Dispatcher::Next::kReply);
  f.dispatcher->finish(f.operation);
  CHECK(write([](auto& b) { b.object("writeConcern").append("j", false); }) ==
        Dispatcher::Next::kReply);
  f.dispatcher->finish(f.operation);
  f.log.durable = 150;
  CHECK(write([](auto&) {}) == Dispatcher::Next::kReply);
}

TEST_CASE("majority reads wait for what they read") {
  Fixture f;
  f.log.last = 150;
  CHECK(f.start([](auto& b) {
    b.append("echo", "c").object("readConcern").append("level", "majority");
  }) == Dispatcher::Next::kDurable);
  CHECK(f.operation.durable_position() == 150);
}

TEST_CASE("failures replace what the handler appended") {
  Fixture f;
  CHECK(f.code([](auto& b) { b.append("write", 1).append("fail", true); }) == 11000);
  CHECK(f.reply()["n"].missing());
  CHECK(f.reply()["keyPattern"].as_document()["a"].as_int32() == 1);
  CHECK(f.code([](auto& b) { b.append("throw", 1); }) == 1);
  CHECK(f.reply()["half"].missing());
  CHECK(f.host.metrics().value("commands_failed_total", {{"command", "throw"}}) == 1);
}

TEST_CASE("waits, and streams of replies") {
  Fixture f;
  REQUIRE(f.start([](auto& b) { b.append("wait", 1); }, {.exhaust_allowed = true}) ==
          Dispatcher::Next::kWait);
  CHECK(f.operation.take_wait() != nullptr);
  f.dispatcher->keep_request(f.operation);
  f.body = OwnedDocument();  // the message goes
  for (int count = 1; count <= 3; ++count) {
    CHECK((count == 1 ? f.dispatcher->resume(f.operation) : f.dispatcher->again(f.operation)) ==
          Dispatcher::Next::kReply);
    CHECK(f.reply()["count"].as_int32() == count);
    CHECK(f.operation.more_to_come() == (count < 3));
    f.operation.reply.assign("frame");
  }
}

TEST_CASE("deadlines") {
  Fixture f;
  CHECK(f.code([](auto& b) { b.append("spin", 1).append("maxTimeMS", 5); }) == 50);
}

TEST_CASE("document sequences reach the handler") {
  Fixture f;
  const OwnedDocument one;
  f.start([](auto& b) { b.append("echo", "c"); }, {},
          {{"documents", {one.view(), one.view()}}});
  CHECK(f.reply()["documents"].as_int32() == 2);
}

TEST_CASE("commands inside commands") {
  Fixture f;
  DocumentBuilder b;
  b.append("echo", "c");
  const OwnedDocument inner = std::move(b).finish();
  Interrupt interrupt(f.host.clock());
  CommandContext context(f.host, nullptr, f.client, interrupt);
  const OwnedDocument reply =
      f.dispatcher->run(context, CommandRequest(inner.view(), "other", {}));
  CHECK(reply.view()["ns"].as_string() == "other.c");
  CHECK(reply.view()["ok"].as_double() == 1.0);
}

TEST_CASE("the registry shows and kills what runs") {
  Fixture f;
  OperationRegistry& registry = f.dispatcher->operations();
  registry.attach(&f.operation);
  CHECK(registry.running() == 0);
  f.start([](auto& b) { b.append("ping", 1); });
  CHECK(registry.running() == 1);
  ArrayBuilder shown;
  registry.append(shown, false, f.host.clock());
  const OwnedDocument list = std::move(shown).finish();
  const DocumentView entry = list.view().first()->as_document();
  CHECK(entry["ns"].as_string() == "test.$cmd");
  CHECK(registry.kill(entry["opid"].as_int64(), ErrorCode::kInterrupted).ok());
  f.dispatcher->finish(f.operation);
  CHECK(registry.running() == 0);
  CHECK(registry.kill(entry["opid"].as_int64(), ErrorCode::kInterrupted).code() ==
        ErrorCode::kNoSuchKey);
  registry.detach(&f.operation);
}

TEST_CASE("failCommand: an error instead of the command") {
  Fixture f;
  const auto ping = [](auto& b) { b.append("ping", 1); };
  f.fail_next("ping", [](auto& b) { b.append("errorCode", 91); });
  CHECK(f.code([](auto& b) { b.append("echo", "c"); }) == 0);  // another command
  f.start(ping);
  CHECK(f.reply()["code"].as_int32() == 91);
  CHECK(f.reply()["codeName"].as_string() == "ShutdownInProgress");
  CHECK(f.reply()["errorLabels"].missing());
  CHECK(f.code(ping) == 0);

  const auto write = [](auto& b) {
    b.append("write", 1).append("txnNumber", std::int64_t{1});
    b.object("lsid").append_binary("id", std::string(16, 'x'), 4);
  };
  f.fail_next("write", [](auto& b) { b.append("errorCode", 91); });
  f.start(write);
  CHECK(f.reply()["errorLabels"].as_document().first()->as_string() == "RetryableWriteError");
  f.fail_next("write", [](auto& b) {
    b.append("errorCode", 91);
    b.array("errorLabels");
  });
  f.start(write);
  CHECK(f.reply()["errorLabels"].missing());
}

TEST_CASE("failCommand: only the client and the collection that are named") {
  Fixture f;
  f.client.app_name = "mine";
  const auto echo = [](auto& b) { b.append("echo", "c"); };
  f.fail_next("echo", [](auto& b) { b.append("errorCode", 1).append("appName", "other"); });
  CHECK(f.code(echo) == 0);
  f.fail_next("echo", [](auto& b) { b.append("errorCode", 1).append("namespace", "test.d"); });
  CHECK(f.code(echo) == 0);
  f.fail_next("echo", [](auto& b) {
    b.append("errorCode", 1).append("appName", "mine").append("namespace", "test.c");
  });
  CHECK(f.code(echo) == 1);
}

TEST_CASE("failCommand: a closed connection, a write concern error") {
  Fixture f;
  f.fail_next("ping", [](auto& b) { b.append("closeConnection", true); });
  CHECK(f.start([](auto& b) { b.append("ping", 1); }) == Dispatcher::Next::kClose);
  f.dispatcher->finish(f.operation);
  // Of a command that does not exist, too.
  f.fail_next("pong", [](auto& b) { b.append("closeConnection", true); });
  CHECK(f.start([](auto& b) { b.append("pong", 1); }) == Dispatcher::Next::kClose);
  f.dispatcher->finish(f.operation);
  CHECK(f.code([](auto& b) { b.append("pong", 1); }) == 59);
  f.fail_next("write", [](auto& b) {
    b.object("writeConcernError").append("code", 91).append("errmsg", "x");
  });
  f.start([](auto& b) { b.append("write", 1); });
  CHECK(f.reply()["ok"].as_double() == 1.0);
  CHECK(f.reply()["n"].as_int32() == 1);
  CHECK(f.reply()["writeConcernError"].as_document()["code"].as_int32() == 91);
}

TEST_CASE("failCommand: a blocked command keeps its documents and its deadline") {
  Fixture f;
  const auto block = [](auto& b) { b.append("blockConnection", true).append("blockTimeMS", 30); };
  f.fail_next("echo", block);
  {
    // The message goes away while the command is blocked.
    DocumentBuilder one;
    one.append("a", 1);
    const OwnedDocument document = std::move(one).finish();
    std::string name = "documents";
    const auto next = f.start([](auto& b) { b.append("echo", "c"); }, {},
                              {{name, {document.view(), document.view()}}});
    REQUIRE(next == Dispatcher::Next::kWait);
    f.dispatcher->keep_request(f.operation);
    name = "nothing!!";
    f.body = OwnedDocument();
  }
  CHECK(f.operation.take_wait()->deadline_us > system_clock().monotonic_us());
  CHECK(f.dispatcher->resume(f.operation) == Dispatcher::Next::kReply);
  CHECK(f.reply()["documents"].as_int32() == 2);
  CHECK(f.reply()["ns"].as_string() == "test.c");
  f.dispatcher->finish(f.operation);

  f.fail_next("ping", block);
  REQUIRE(f.start([](auto& b) { b.append("ping", 1).append("maxTimeMS", 1); }) ==
          Dispatcher::Next::kWait);
  std::this_thread::sleep_for(std::chrono::milliseconds(3));
  CHECK(f.dispatcher->resume(f.operation) == Dispatcher::Next::kReply);
  CHECK(f.reply()["code"].as_int32() == 50);
}

TEST_CASE("failCommand: mistakes in its data") {
  const auto code = [](auto fill) {
    DocumentBuilder b;
    fill(b);
    const OwnedDocument data = std::move(b).finish();
    return static_cast<int>(check_fail_command(data.view()).code());
  };
  CHECK(code([](auto& b) { b.append("errorCode", 1); }) == 40414);
  CHECK(code([](auto& b) { b.append("failCommands", "ping"); }) == 14);
  CHECK(code([](auto& b) {
          b.array("failCommands");
          b.append("whatever", 1);
        }) == 40415);
  CHECK(code([](auto& b) {
          b.array("failCommands");
          b.append("blockConnection", true);
        }) == 72);
  CHECK(code([](auto& b) {
          b.array("failCommands");
          b.append("threadName", "x");
        }) == 115);
}

}  // namespace multifora
