// ServerControl of the server: what diagnostic and session commands ask about the process.
#pragma once

#include <string>
#include <vector>

#include "core/plugin/command.h"
#include "server/config/config.h"
#include "server/config/json_log.h"

namespace multifora {

class Dispatcher;
class PluginHost;
namespace net {
class Network;
}

class Control final : public ServerControl {
 public:
  Control(const ServerConfig& config, std::vector<std::string> arguments, JsonLog& log);
  // Once they exist; before the first request.
  void attach(PluginHost& host, Dispatcher& dispatcher, net::Network& network);

  // The codecs for messages that the configuration names, or all that are loaded. BadValue for one that
  // is not loaded or has no wire id.
  static Result<std::vector<std::string>> choose_compressors(const ServerConfig& config,
                                                             const PluginHost& host);
  void set_compressors(std::vector<std::string> names) { compressors_ = std::move(names); }

  void append_server_status(DocumentBuilder& reply) const override;
  std::vector<std::string> recent_log_lines() const override { return log_.recent(); }
  OwnedDocument command_line() const override;
  Status rotate_log() override { return log_.rotate(); }
  void request_shutdown() override;
  void append_operations(ArrayBuilder& out, bool idle_connections) const override;
  Status kill_operation(std::int64_t operation_id) override;
  void kill_sessions(const std::vector<std::string>& lsids) override;
  std::string advertised_address() const override;
  std::string set_name() const override { return config_.replication.set_name; }
  std::int64_t start_wall_ms() const override { return start_wall_ms_; }
  ObjectId process_id() const override { return process_id_; }
  std::vector<std::string> wire_compressors() const override { return compressors_; }

 private:
  void append_connections(DocumentBuilder& reply) const;
  void append_network(DocumentBuilder& reply) const;
  void append_compression(DocumentBuilder& network) const;
  void append_counters(DocumentBuilder& reply) const;
  double metric(std::string_view name) const;

  const ServerConfig& config_;
  const std::vector<std::string> arguments_;
  JsonLog& log_;
  const std::int64_t start_wall_ms_;
  const ObjectId process_id_ = ObjectId::generate();
  std::vector<std::string> compressors_;
  PluginHost* host_ = nullptr;
  Dispatcher* dispatcher_ = nullptr;
  net::Network* network_ = nullptr;
};

}  // namespace multifora
