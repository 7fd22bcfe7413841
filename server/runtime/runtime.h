// A database without a network: the host with its plugins, the store, the dispatcher and the
// background tasks, opened and closed in the right order. The server puts a network before it,
// libmultifora a function call.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/log.h"
#include "core/base/status.h"
#include "core/plugin/command.h"
#include "core/plugin/host.h"
#include "core/store/store.h"
#include "server/dispatch/dispatcher.h"

namespace multifora {

class Scheduler;

struct RuntimeOptions {
  StoreOptions store;
  DispatchOptions dispatch;
  std::vector<std::string> shared_plugins;      // files
  std::shared_ptr<const PluginConfig> config;   // null: plugins' defaults
  // Called when the plugins are registered, before the store is touched.
  std::function<Status(PluginHost& host)> check_plugins;
  std::shared_ptr<ServerControl> control;       // null: none
  LogSink* log = &null_log();
  bool background = true;
};

class Runtime {
 public:
  // Loads the linked and the shared plugins, opens the store. Each refusal says what to do.
  static Result<std::unique_ptr<Runtime>> open(const RuntimeOptions& options);
  // Calls close().
  ~Runtime();
  // Ends background work, checkpoints, closes the store. No request may run any more.
  Status close();

  PluginHost& host() { return *host_; }
  Store& store() { return *store_; }
  Dispatcher& dispatcher() { return *dispatcher_; }
  const OpenReport& report() const { return report_; }

 private:
  class StoreDurability;
  class RunnerProxy;

  Runtime();
  Status load_plugins(const RuntimeOptions& options);
  Status open_store(const RuntimeOptions& options);

  std::unique_ptr<PluginHost> host_;
  std::unique_ptr<FileSystem> private_files_;  // of a database opened read-only
  std::shared_ptr<RunnerProxy> runner_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<StoreDurability> durability_;
  std::unique_ptr<Dispatcher> dispatcher_;
  std::unique_ptr<Scheduler> scheduler_;
  OpenReport report_;
};

}  // namespace multifora
