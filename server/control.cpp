#include "server/control.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include "core/plugin/codec.h"
#include "core/plugin/host.h"
#include "server/dispatch/dispatcher.h"
#include "server/net/network.h"

namespace multifora {

Control::Control(const ServerConfig& config, std::vector<std::string> arguments, JsonLog& log)
    : config_(config),
      arguments_(std::move(arguments)),
      log_(log),
      start_wall_ms_(system_clock().wall_ms()) {}

void Control::attach(PluginHost& host, Dispatcher& dispatcher, net::Network& network) {
  host_ = &host;
  dispatcher_ = &dispatcher;
  network_ = &network;
}

Result<std::vector<std::string>> Control::choose_compressors(const ServerConfig& config,
                                                             const PluginHost& host) {
  std::vector<std::string> offered;
  std::string list;
  for (const Codec* codec : host.codecs()) {
    if (codec->wire_id == 0) continue;
    offered.emplace_back(codec->name);
    list += (list.empty() ? "" : ", ") + offered.back();
  }
  if (config.net.compressors == std::vector<std::string>{"*"}) return offered;
  std::vector<std::string> chosen;
  for (const std::string& name : config.net.compressors) {
    if (std::find(offered.begin(), offered.end(), name) == offered.end())
      return fail(ErrorCode::kBadValue,
                  "net.compressors: '" + name + "' is no loaded codec that the protocol knows; " +
                      (list.empty() ? "none is loaded" : "loaded are: " + list));
    chosen.push_back(name);
  }
  return chosen;
}

// ---------------------------------------------------------------- serverStatus

double Control::metric(std::string_view name) const { return host_->metrics().value(name); }

void Control::append_compression(DocumentBuilder& network) const {
  const auto bytes = [&](const char* name, const std::string& compressor) {
    return static_cast<std::int64_t>(
        host_->metrics().value(name, {{"compressor", compressor}}));
  };
  DocumentBuilder compression = network.object("compression");
  for (const std::string& name : compressors_) {
    DocumentBuilder one = compression.object(name);
    one.object("compressor")
        .append("bytesIn", bytes("network_compress_in_bytes_total", name))
        .append("bytesOut", bytes("network_compress_out_bytes_total", name));
    one.object("decompressor")
        .append("bytesIn", bytes("network_decompress_in_bytes_total", name))
        .append("bytesOut", bytes("network_decompress_out_bytes_total", name));
  }
}

void Control::append_connections(DocumentBuilder& reply) const {
  const auto current = static_cast<std::int32_t>(network_->connections());
  DocumentBuilder connections = reply.object("connections");
  connections.append("current", current);
  connections.append("available", network_->connections_max() - current);
  connections.append("totalCreated", static_cast<std::int64_t>(metric("connections_created_total")));
  connections.append("rejected", static_cast<std::int64_t>(metric("connections_refused_total")));
  connections.append("active", static_cast<std::int32_t>(dispatcher_->operations().running()));
}

void Control::append_network(DocumentBuilder& reply) const {
  DocumentBuilder network = reply.object("network");
  network.append("bytesIn", static_cast<std::int64_t>(metric("network_bytes_in_total")));
  network.append("bytesOut", static_cast<std::int64_t>(metric("network_bytes_out_total")));
  network.append("numRequests", static_cast<std::int64_t>(metric("network_requests_total")));
  append_compression(network);
}

// MongoDB's six kinds; what is none of the first five is a "command".
void Control::append_counters(DocumentBuilder& reply) const {
  std::int64_t insert = 0, query = 0, update = 0, remove = 0, get_more = 0, command = 0;
  host_->metrics().for_each([&](const MetricsRegistry::Sample& sample) {
    if (sample.name != "commands_total" || sample.labels.empty()) return;
    const std::string& name = sample.labels.front().second;
    std::int64_t& kind = name == "insert"    ? insert
                         : name == "find"    ? query
                         : name == "update"  ? update
                         : name == "delete"  ? remove
                         : name == "getMore" ? get_more
                                             : command;
    kind += static_cast<std::int64_t>(sample.value);
  });
  DocumentBuilder counters = reply.object("opcounters");
  counters.append("insert", insert).append("query", query).append("update", update);
  counters.append("delete", remove).append("getmore", get_more).append("command", command);
}

void Control::append_server_status(DocumentBuilder& reply) const {
  if (host_ == nullptr) return;
  append_connections(reply);
  append_network(reply);
  append_counters(reply);
  if (!set_name().empty()) {
    DocumentBuilder set = reply.object("repl");
    set.append("setName", set_name()).append("isWritablePrimary", true);
    set.append("secondary", false);
  }
}

// ---------------------------------------------------------------- the rest

OwnedDocument Control::command_line() const {
  DocumentBuilder document;
  {
    ArrayBuilder argv = document.array("argv");
    for (const std::string& argument : arguments_) argv.append(argument);
  }
  DocumentBuilder parsed = document.object("parsed");
  for (const auto& [key, value] : config_values(config_)) parsed.append(key, value);
  parsed.close();
  return std::move(document).finish();
}

void Control::request_shutdown() { ::kill(::getpid(), SIGTERM); }

void Control::append_operations(ArrayBuilder& out, bool idle_connections) const {
  if (dispatcher_ != nullptr)
    dispatcher_->operations().append(out, idle_connections, host_->clock());
}

Status Control::kill_operation(std::int64_t operation_id) {
  return dispatcher_->operations().kill(operation_id, ErrorCode::kInterrupted);
}

void Control::kill_sessions(const std::vector<std::string>& lsids) {
  dispatcher_->operations().kill_sessions(lsids);
}

std::string Control::advertised_address() const { return config_.replication.advertised_address; }

}  // namespace multifora
