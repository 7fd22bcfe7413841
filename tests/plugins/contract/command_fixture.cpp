#include "tests/plugins/contract/command_fixture.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/bson/extended_json.h"
#include "core/bson/validate.h"
#include "tests/plugins/contract/registered_host.h"

namespace multifora::contract {

class CommandFixture::Control final : public ServerControl {
 public:
  void append_server_status(DocumentBuilder&) const override {}
  std::vector<std::string> recent_log_lines() const override { return {}; }
  OwnedDocument command_line() const override { return OwnedDocument(); }
  Status rotate_log() override { return {}; }
  void request_shutdown() override {}
  void append_operations(ArrayBuilder&, bool) const override {}
  Status kill_operation(std::int64_t) override { return {}; }
  std::string advertised_address() const override { return "localhost:27017"; }
  std::string set_name() const override { return "rs0"; }
  std::int64_t start_wall_ms() const override { return 0; }
  ObjectId process_id() const override { return process_id_; }
  std::vector<std::string> wire_compressors() const override { return {}; }

 private:
  const ObjectId process_id_ = ObjectId::generate();
};

class CommandFixture::Runner final : public CommandRunner {
 public:
  OwnedDocument run(CommandContext& context, const CommandRequest& request) override {
    return dispatcher->run(context, request);
  }
  Dispatcher* dispatcher = nullptr;
};

CommandFixture::CommandFixture()
    : directory_(std::filesystem::temp_directory_path() /
                 ("multifora_contract_" + std::to_string(::getpid()))),
      runner_(std::make_shared<Runner>()) {
  std::filesystem::remove_all(directory_);
  load_registered(host_);
  REQUIRE(host_.add_service<ServerControl>(std::make_shared<Control>()).ok());
  REQUIRE(host_.add_service<CommandRunner>(runner_).ok());
  host_.freeze();
  StoreOptions options;
  options.path = directory_.string();
  options.memory_budget_bytes = 256u << 20;
  auto opened = Store::open(options, host_, posix_file_system(), nullptr);
  REQUIRE_MESSAGE(opened.has_value(), opened.error().message());
  store_ = std::move(*opened);
  dispatcher_ =
      std::make_unique<Dispatcher>(host_, store_.get(), nullptr, DispatchOptions{"rs0", 1'000'000});
  runner_->dispatcher = dispatcher_.get();
  operation_ = std::make_unique<Operation>(client_);
}

CommandFixture::~CommandFixture() {
  operation_.reset();
  dispatcher_.reset();
  store_.reset();
  std::filesystem::remove_all(directory_);
}

OwnedDocument CommandFixture::run(DocumentView command) {
  operation_->reply.clear();
  client_.speaks_hello = true;
  Dispatcher::Next next = dispatcher_->start(*operation_, command, {}, {});
  // A handler that waits for an event is told that it came; it may wait once more.
  for (int i = 0; i < 3 && next == Dispatcher::Next::kWait; ++i) {
    (void)operation_->take_wait();
    next = dispatcher_->resume(*operation_);
  }
  const bool waits = next == Dispatcher::Next::kWait;
  if (waits) dispatcher_->refuse(*operation_, {ErrorCode::kInterrupted, "still waiting"});
  auto valid = validate(operation_->reply);
  CAPTURE(to_extended_json(command));
  REQUIRE_MESSAGE(valid.has_value(), valid.error().message());
  OwnedDocument reply(*valid);
  dispatcher_->finish(*operation_);
  REQUIRE(reply.view()["ok"].is_number());
  if (reply.view()["ok"].number_as_double() != 1.0) {
    CHECK(reply.view()["code"].is_number());
    CHECK(reply.view()["codeName"].type() == BsonType::kString);
    CHECK(reply.view()["errmsg"].type() == BsonType::kString);
  }
  return reply;
}

int CommandFixture::code(DocumentView reply) {
  const ValueView code = reply["code"];
  return code.missing() ? 0 : static_cast<int>(code.number_as_int64());
}

}  // namespace multifora::contract
