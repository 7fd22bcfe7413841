// serverStatus: counters of the server, its storage and its commands.
#include <unistd.h>

#include <fstream>
#include <string>

#include "core/base/version.h"
#include "core/plugin/host.h"
#include "core/store/store.h"
#include "plugins/command-diagnostic/commands.h"

namespace multifora::diagnostic_commands {
namespace {

// Resident memory in KiB, by what backs it: a mapping's page cache is not the program's own.
struct Resident {
  std::int64_t anonymous_kib = 0, file_kib = 0, virtual_kib = 0;
};

Resident resident() {
  Resident found;
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);) {
    const auto number = [&] { return std::strtoll(line.c_str() + line.find(':') + 1, nullptr, 10); };
    if (line.starts_with("RssAnon:")) found.anonymous_kib = number();
    if (line.starts_with("RssFile:")) found.file_kib = number();
    if (line.starts_with("VmSize:")) found.virtual_kib = number();
  }
  return found;
}

void append_memory(DocumentBuilder& reply) {
  const Resident now = resident();
  auto memory = reply.object("mem");
  memory.append("bits", 64);
  memory.append("resident", static_cast<std::int32_t>((now.anonymous_kib + now.file_kib) / 1024));
  memory.append("virtual", static_cast<std::int32_t>(now.virtual_kib / 1024));
  memory.append("anonymous_kib", now.anonymous_kib);
  memory.append("file_kib", now.file_kib);
  memory.append("supported", true);
}

void append_storage(PluginHost& host, Store& store, DocumentBuilder& reply) {
  {
    auto engine = reply.object("storageEngine");
    engine.append("name", "multifora");
    engine.append("supportsCommittedReads", true);
    engine.append("persistent", true);
    engine.append("readOnly", !store.health().ok());
  }
  const StoreStats stats = store.stats();
  auto storage = reply.object("multifora");
  storage.append("data_file_bytes", static_cast<std::int64_t>(stats.data_file_bytes));
  storage.append("data_free_bytes", static_cast<std::int64_t>(stats.data_free_bytes));
  storage.append("log_live_bytes", static_cast<std::int64_t>(stats.log_live_bytes));
  storage.append("log_allocated_bytes", static_cast<std::int64_t>(stats.log_allocated_bytes));
  storage.append("log_syncs", static_cast<std::int64_t>(host.metrics().value("wal_syncs_total")));
  storage.append("log_written_bytes",
                 static_cast<std::int64_t>(host.metrics().value("wal_written_bytes_total")));
  storage.append("checkpoints", static_cast<std::int64_t>(stats.checkpoints));
  storage.append("writers_held_back", static_cast<std::int64_t>(stats.held_back_writers));
  storage.append("writers_held_back_ms", static_cast<std::int64_t>(stats.held_back_us / 1000));
  storage.append("writers_held_back_now", static_cast<std::int64_t>(stats.held_back_now));
}

void append_metrics(PluginHost& host, DocumentBuilder& reply) {
  auto metrics = reply.object("metrics");
  auto commands = metrics.object("commands");
  host.metrics().for_each([&](const Metrics::Sample& sample) {
    if (sample.name != "commands_total") return;
    for (const auto& [label, value] : sample.labels)
      if (label == "command")
        commands.object(value).append("total", static_cast<std::int64_t>(sample.value));
  });
  commands.close();
  auto ttl = metrics.object("ttl");
  ttl.append("deletedDocuments",
             static_cast<std::int64_t>(host.metrics().value("ttl_deleted_documents_total")));
  ttl.append("passes", static_cast<std::int64_t>(host.metrics().value("ttl_passes_total")));
}

Status run(CommandContext& context, const CommandRequest& request, DocumentBuilder& reply) {
  PluginHost& host = context.host();
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  const auto* server = host.service<ServerControl>();
  const std::int64_t now_ms = host.clock().wall_ms();
  const std::int64_t up_ms = server != nullptr ? now_ms - server->start_wall_ms() : 0;
  reply.append("host", name);
  reply.append("version", kMongoVersion);
  reply.append("process", "multiforadb");
  reply.append("pid", static_cast<std::int64_t>(getpid()));
  reply.append("uptime", static_cast<double>(up_ms / 1000));
  reply.append("uptimeMillis", up_ms);
  reply.append("uptimeEstimate", up_ms / 1000);
  reply.append_date_ms("localTime", now_ms);
  if (server != nullptr) server->append_server_status(reply);
  append_memory(reply);
  append_storage(host, context.store(), reply);
  if (request.flag("metrics", true)) append_metrics(host, reply);
  return {};
}

}  // namespace

const CommandRow kServerStatus{.name = "serverStatus",
                               .aliases = {},
                               .help = "Counters of the server and its storage.",
                               .privilege = "serverStatus",
                               .flags = kAnyOptions,
                               .options = {},
                               .run = run};

}  // namespace multifora::diagnostic_commands
