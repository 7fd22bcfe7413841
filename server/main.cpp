// multiforadb: reads its configuration, opens the database, serves until a signal, closes it.
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>

#include "core/base/bus_guard.h"
#include "core/plugin/codec.h"
#include "server/config/flags.h"
#include "server/config/json_log.h"
#include "server/config/version.h"
#include "server/control.h"
#include "server/net/network.h"
#include "server/runtime/runtime.h"
#include "server/tools/tools.h"

namespace multifora {
namespace {

constexpr std::int64_t kDrainMs = 10'000;

// Signals are taken by the main thread alone, with sigwait.
sigset_t block_signals() {
  ::signal(SIGPIPE, SIG_IGN);
  sigset_t set;
  ::sigemptyset(&set);
  for (const int number : {SIGTERM, SIGINT, SIGUSR1}) ::sigaddset(&set, number);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  return set;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ",") + part;
  return text;
}

net::NetworkOptions network_options(const ServerConfig& config) {
  net::NetworkOptions options;
  options.bind_ip = config.net.bind_ip;
  options.port = static_cast<int>(config.net.port);
  options.connections_max = static_cast<int>(config.net.connections_max);
  options.threads = static_cast<int>(config.net.threads);
  options.threads_max = static_cast<int>(config.net.threads_max);
  options.stall_ms = config.net.stall_secs * 1000;
  return options;
}

RuntimeOptions runtime_options(const ServerConfig& config) {
  RuntimeOptions options;
  options.store.path = config.storage.dbpath;
  options.store.log_codec = config.storage.log_codec;
  options.store.checkpoint_log_bytes =
      static_cast<std::uint64_t>(config.storage.checkpoint_log_mb) << 20;
  options.store.checkpoint_interval_ms = config.storage.checkpoint_secs * 1000;
  options.store.memory_budget_bytes =
      static_cast<std::uint64_t>(config.storage.memory_budget_mb) << 20;
  options.store.cohort_wait_us = static_cast<std::uint32_t>(config.storage.cohort_wait_us);
  options.store.history_bytes_max = static_cast<std::uint64_t>(config.storage.history_mb) << 20;
  options.store.history_seconds_max = config.storage.history_hours * 3600;
  options.store.history_codecs = config.storage.history_codecs;
  options.store.read_only = config.storage.read_only;
  options.dispatch.set_name = config.replication.set_name;
  options.dispatch.slow_ms = config.log.slow_ms;
  options.shared_plugins = config.plugins;
  return options;
}

class Server {
 public:
  Server(const ServerConfig& config, std::vector<std::string> arguments, JsonLog& log)
      : config_(config),
        log_(log),
        control_(std::make_shared<Control>(config, std::move(arguments), log)) {}

  Status open() {
    const auto plugin_config = std::make_shared<ConfigForPlugins>(config_);
    RuntimeOptions options = runtime_options(config_);
    options.config = plugin_config;
    options.control = control_;
    options.log = &log_;
    options.check_plugins = [&](PluginHost& host) -> Status {
      MULTIFORA_TRY(plugin_config->check_sections(host.loaded()));
      // A port in use is found before the database is touched.
      return open_network(host);
    };
    MULTIFORA_ASSIGN(runtime_, Runtime::open(options));
    control_->attach(runtime_->host(), runtime_->dispatcher(), *network_);
    network_->start(runtime_->dispatcher());
    log_ready();
    return {};
  }

  // Until SIGTERM or SIGINT.
  void serve(const sigset_t& signals) {
    while (true) {
      int number = 0;
      if (::sigwait(&signals, &number) != 0) continue;
      if (number != SIGUSR1) break;
      if (const Status status = log_.rotate(); !status.ok())
        log_.event(LogLevel::kError, "server", status.message(), {});
    }
  }

  Status close() {
    log_.event(LogLevel::kInfo, "server", "shutting down", {});
    if (!network_->drain(kDrainMs)) {
      // Acknowledged writes are in the log; closing under a running request would not be safe.
      log_.event(LogLevel::kError, "server",
                 "a request did not end: stopping without a checkpoint", {});
      log_.flush();
      std::_Exit(1);
    }
    MULTIFORA_TRY(runtime_->close());
    log_.event(LogLevel::kInfo, "server", "stopped", {});
    return {};
  }

 private:
  Status open_network(PluginHost& host) {
    MULTIFORA_ASSIGN(const std::vector<std::string> names,
                     Control::choose_compressors(config_, host));
    net::NetworkOptions options = network_options(config_);
    for (const std::string& name : names) 
      options.compressors.push_back({host.codec(name)->wire_id, name});
    control_->set_compressors(names);
    MULTIFORA_ASSIGN(network_, net::Network::open(options, host.clock(), log_, host.metrics()));
    return {};
  }

  void log_ready() {
    std::vector<std::string> plugins;
    for (const PluginHost::Loaded& plugin : runtime_->host().loaded())
      plugins.push_back(plugin.name);
    const std::string addresses = joined(network_->addresses());
    const std::string plugin_list = joined(plugins);
    const OpenReport& report = runtime_->report();
    log_.event(LogLevel::kInfo, "server", "ready",
               {{"address", std::string_view(addresses)},
                {"port", std::int64_t{network_->port()}},
                {"dbpath", std::string_view(config_.storage.dbpath)},
                {"open_ms", report.open_ms},
                {"recovered_batches", static_cast<std::int64_t>(report.recovered_batches)},
                {"set_name", std::string_view(config_.replication.set_name)},
                {"version", std::string_view(kServerVersion)},
                {"pid", std::int64_t{::getpid()}},
                {"plugins", std::string_view(plugin_list)}});
  }

  const ServerConfig& config_;
  JsonLog& log_;
  std::shared_ptr<Control> control_;
  // The network's metrics belong to the runtime's host: it is destroyed first.
  std::unique_ptr<Runtime> runtime_;
  std::unique_ptr<net::Network> network_;
};

int refuse(const Status& status, JsonLog* log) {
  if (log != nullptr) log->event(LogLevel::kError, "server", status.message(), {});
  std::cerr << "multiforadb: " << status.message() << "\n";
  return 1;
}

int run(const std::vector<std::string>& arguments) {
  if (arguments.size() > 1 && !arguments[1].starts_with("-")) {
    const tools::Tool* const tool = tools::find(arguments[1]);
    return tool == nullptr ? tools::unknown(arguments[1])
                           : tool->run({arguments.begin() + 2, arguments.end()});
  }
  const sigset_t signals = block_signals();
  const auto line = parse_command_line({arguments.begin() + 1, arguments.end()});
  if (!line) return refuse(line.error(), nullptr);
  if (line->only_print) {
    std::cout << line->text;
    if (line->help) std::cout << "\n" << tools::help_text();
    return 0;
  }
  const auto log = JsonLog::open(line->config.log.path, log_level(line->config));
  if (!log) return refuse(log.error(), nullptr);
  BusGuard::install((*log)->descriptor());
  Server server(line->config, arguments, **log);
  if (const Status status = server.open(); !status.ok()) return refuse(status, log->get());
  server.serve(signals);
  if (const Status status = server.close(); !status.ok()) return refuse(status, log->get());
  return 0;
}

}  // namespace
}  // namespace multifora

int main(int argc, char** argv) {
  return multifora::run(std::vector<std::string>(argv, argv + argc));
}
