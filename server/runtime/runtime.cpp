#include "server/runtime/runtime.h"

#include "core/base/file.h"
#include "core/base/file_overlay.h"
#include "core/plugin/fail_points.h"
#include "core/plugin/plugin.h"
#include "server/runtime/linked_plugins.h"
#include "server/runtime/scheduler.h"

namespace multifora {

// The store's log as the dispatcher sees it.
class Runtime::StoreDurability final : public Durability {
 public:
  explicit StoreDurability(Store& store) : store_(store) {}
  std::uint64_t last_position() const override { return store_.last_position(); }
  std::uint64_t durable_position() const override { return store_.durable_position(); }
  void advance_to(std::uint64_t position) override { store_.advance_to(position); }
  // Serving threads may lead a sync: others take the next requests meanwhile.
  void when_durable(std::uint64_t position, Callback callback) override {
    store_.when_durable(position, std::move(callback), true);
  }
  Status health() const override { return store_.health(); }

 private:
  Store& store_;
};

// Commands that run commands find the dispatcher under this service, which must be registered
// before the dispatcher can be made.
class Runtime::RunnerProxy final : public CommandRunner {
 public:
  OwnedDocument run(CommandContext& context, const CommandRequest& request) override {
    return dispatcher->run(context, request);
  }
  Dispatcher* dispatcher = nullptr;
};

Runtime::Runtime() = default;

Runtime::~Runtime() { static_cast<void>(close()); }

Result<std::unique_ptr<Runtime>> Runtime::open(const RuntimeOptions& options) {
  std::unique_ptr<Runtime> runtime(new Runtime());
  MULTIFORA_TRY_R(runtime->load_plugins(options));
  MULTIFORA_TRY_R(runtime->open_store(options));
  return runtime;
}

Status Runtime::load_plugins(const RuntimeOptions& options) {
  host_ = std::make_unique<PluginHost>();
  host_->set_log(options.log);
  if (options.config) host_->set_config(options.config);
  if (host_->config().integer("test_commands", "enabled").value_or(0) != 0)
    MULTIFORA_TRY(host_->add_service<FailPoints>(std::make_shared<FailPoints>()));
  for (const LinkedPlugin plugin : linked_plugins()) MULTIFORA_TRY(host_->load(*plugin(), ""));
  for (const std::string& file : options.shared_plugins) MULTIFORA_TRY(host_->load_shared(file));
  if (options.control)
    MULTIFORA_TRY(host_->add_service<ServerControl>(options.control));
  runner_ = std::make_shared<RunnerProxy>();
  MULTIFORA_TRY(host_->add_service<CommandRunner>(runner_));
  host_->freeze();
  return options.check_plugins ? options.check_plugins(*host_) : Status();
}

Status Runtime::open_store(const RuntimeOptions& options) {
  if (options.store.read_only) private_files_ = std::make_unique<OverlayFileSystem>();
  FileSystem& files = private_files_ ? *private_files_ : posix_file_system();
  MULTIFORA_ASSIGN(store_, Store::open(options.store, *host_, files, &report_));
  durability_ = std::make_unique<StoreDurability>(*store_);
  dispatcher_ =
      std::make_unique<Dispatcher>(*host_, store_.get(), durability_.get(), options.dispatch);
  runner_->dispatcher = dispatcher_.get();
  if (options.background) scheduler_ = std::make_unique<Scheduler>(*host_, *store_);
  return {};
}

Status Runtime::close() {
  scheduler_.reset();
  Status status;
  if (store_) status = store_->close();
  dispatcher_.reset();
  durability_.reset();
  store_.reset();
  return status;
}

}  // namespace multifora
