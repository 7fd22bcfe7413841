#include <chrono>
#include <condition_variable>
#include <mutex>
#include <shared_mutex>

#include "core/bson/validate.h"
#include "server/dispatch/reply.h"
#include "server/embed/multifora.h"
#include "server/runtime/runtime.h"

namespace multifora {
namespace {

// Answers the diagnostic commands for a process without a network.
class EmbeddedControl final : public ServerControl {
 public:
  explicit EmbeddedControl(std::string set_name) : set_name_(std::move(set_name)) {}
  void set_dispatcher(Dispatcher* dispatcher) { dispatcher_ = dispatcher; }

  void append_server_status(DocumentBuilder& reply) const override {
    reply.object("connections").append("current", 0).append("available", 0);
  }
  std::vector<std::string> recent_log_lines() const override { return {}; }
  OwnedDocument command_line() const override {
    DocumentBuilder b;
    b.array("argv");
    b.object("parsed");
    return std::move(b).finish();
  }
  Status rotate_log() override {
    return {ErrorCode::kCommandNotSupported, "an embedded database's log belongs to its program"};
  }
  void request_shutdown() override {}  // the program closes it
  void append_operations(ArrayBuilder& out, bool idle) const override {
    if (dispatcher_ != nullptr) dispatcher_->operations().append(out, idle, system_clock());
  }
  Status kill_operation(std::int64_t id) override {
    return dispatcher_->operations().kill(id, ErrorCode::kInterrupted);
  }
  void kill_sessions(const std::vector<std::string>& lsids) override {
    dispatcher_->operations().kill_sessions(lsids);
  }
  std::string advertised_address() const override { return "localhost:0"; }
  std::string set_name() const override { return set_name_; }
  std::int64_t start_wall_ms() const override { return start_wall_ms_; }
  ObjectId process_id() const override { return process_id_; }
  std::vector<std::string> wire_compressors() const override { return {}; }

 private:
  const std::string set_name_;
  Dispatcher* dispatcher_ = nullptr;
  const std::int64_t start_wall_ms_ = system_clock().wall_ms();
  const ObjectId process_id_ = ObjectId::generate();
};

// Blocks until the handler's event or its deadline.
void sleep_through(const Wait& wait, Clock& clock) {
  struct Gate {
    std::mutex mutex;
    std::condition_variable open;
    bool woken = false;
  };
  const auto gate = std::make_shared<Gate>();
  const std::function<void()> unsubscribe = wait.subscribe([gate] {
    std::lock_guard lock(gate->mutex);
    gate->woken = true;
    gate->open.notify_all();
  });
  {
    std::unique_lock lock(gate->mutex);
    const std::int64_t left_us = wait.deadline_us - clock.monotonic_us();
    gate->open.wait_for(lock, std::chrono::microseconds(left_us), [&] { return gate->woken; });
  }
  unsubscribe();
}

OwnedDocument failure(const Status& status) {
  DocumentBuilder reply;
  append_error(reply, status);
  return std::move(reply).finish();
}

// Keeps an operation in the registry while it runs.
class Attached {
 public:
  Attached(OperationRegistry& registry, Operation& operation)
      : registry_(registry), operation_(operation) {
    registry_.attach(&operation_);
  }
  ~Attached() { registry_.detach(&operation_); }

 private:
  OperationRegistry& registry_;
  Operation& operation_;
};

}  // namespace

struct Database::Impl {
  std::shared_ptr<EmbeddedControl> control;
  std::unique_ptr<Runtime> runtime;  // null: closed
  mutable std::shared_mutex open_mutex;  // shared while a command runs

  OwnedDocument run(std::string_view db, DocumentView command);
  void wait_for_disk(Operation& operation);
};

void Database::Impl::wait_for_disk(Operation& operation) {
  runtime->dispatcher().durable(operation,
                                runtime->store().wait_durable(operation.durable_position()));
}

OwnedDocument Database::Impl::run(std::string_view db, DocumentView command) {
  std::shared_lock lock(open_mutex);
  if (!runtime) return failure({ErrorCode::kShutdownInProgress, "the database is closed"});
  ClientInfo client;
  Operation operation(client);
  Dispatcher& dispatcher = runtime->dispatcher();
  const Attached attached(dispatcher.operations(), operation);
  Dispatcher::Next next = dispatcher.start(operation, command, {}, {.db = db});
  while (next == Dispatcher::Next::kWait) {
    const std::unique_ptr<Wait> wait = operation.take_wait();
    sleep_through(*wait, runtime->host().clock());
    next = dispatcher.resume(operation);
  }
  if (next == Dispatcher::Next::kDurable) wait_for_disk(operation);
  if (next == Dispatcher::Next::kClose)
    dispatcher.refuse(operation, {ErrorCode::kHostUnreachable, "the connection was closed"});
  dispatcher.finish(operation);
  return OwnedDocument::assume_valid(std::move(operation.reply));
}

Database::Database(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Database::~Database() { static_cast<void>(close()); }

Result<std::unique_ptr<Database>> Database::open(const std::string& path,
                                                 const DatabaseOptions& options) {
  auto impl = std::make_unique<Impl>();
  impl->control = std::make_shared<EmbeddedControl>(options.set_name);
  RuntimeOptions runtime;
  runtime.store.path = path;
  runtime.store.checkpoint_log_bytes = options.checkpoint_log_bytes;
  runtime.store.memory_budget_bytes = options.memory_budget_bytes;
  runtime.dispatch.set_name = options.set_name;
  runtime.control = impl->control;
  runtime.background = options.background;
  if (options.log != nullptr) runtime.log = options.log;
  MULTIFORA_ASSIGN_R(impl->runtime, Runtime::open(runtime));
  impl->control->set_dispatcher(&impl->runtime->dispatcher());
  return std::unique_ptr<Database>(new Database(std::move(impl)));
}

Status Database::close() {
  std::unique_lock lock(impl_->open_mutex);
  if (!impl_->runtime) return {};
  const Status status = impl_->runtime->close();
  impl_->runtime.reset();
  return status;
}

OwnedDocument Database::run_command(std::string_view db, DocumentView command) {
  return impl_->run(db, command);
}

OwnedDocument Database::run_command_bytes(std::string_view db, std::string_view bson) {
  const auto command = validate(bson);
  return command ? impl_->run(db, *command) : failure(command.error());
}

}  // namespace multifora
