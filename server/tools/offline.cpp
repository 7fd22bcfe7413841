#include "server/tools/offline.h"

#include <algorithm>
#include <iostream>

#include "core/base/bus_guard.h"
#include "core/plugin/plugin.h"
#include "server/config/flags.h"
#include "server/config/json_log.h"
#include "server/runtime/linked_plugins.h"

namespace multifora::tools {

void ToolLog::event(LogLevel level, std::string_view component, std::string_view message,
                    std::initializer_list<LogField> fields) {
  if (!wants(level)) return;
  const std::string line =
      json_log_line(system_clock().wall_ms(), level, component, message, fields) + "\n";
  std::cerr << line;
}

Result<std::unique_ptr<OfflineDatabase>> OfflineDatabase::prepare(const std::string& path,
                                                                  const ServerConfig& config) {
  BusGuard::install(-1);
  auto database = std::make_unique<OfflineDatabase>();
  database->path_ = path;
  if (!posix_file_system().exists(path + "/data.mfdb"))
    return fail(ErrorCode::kNoSuchKey,
                path + " is no database directory: there is no data.mfdb in it" +
                    (posix_file_system().exists(path) ? "" : ", and it does not exist"));
  PluginHost& host = database->host_;
  host.set_log(&database->log_);
  for (const LinkedPlugin plugin : linked_plugins()) MULTIFORA_TRY_R(host.load(*plugin(), ""));
  for (const std::string& file : config.plugins) MULTIFORA_TRY_R(host.load_shared(file));
  host.freeze();
  return database;
}

OfflineDatabase::~OfflineDatabase() = default;

Status OfflineDatabase::open() {
  StoreOptions options;
  options.path = path_;
  options.checkpoint_interval_ms = std::int64_t{1} << 40;
  MULTIFORA_ASSIGN(store_, Store::open(options, host_, files_, &report_));
  return {};
}

std::optional<OfflineArguments> parse_offline(std::string_view tool, const Arguments& arguments,
                                              const std::vector<std::string>& flags) {
  OfflineArguments parsed;
  const auto refuse = [&](const std::string& why) {
    std::cerr << "multiforadb " << tool << ": " << why << "\nUsage: multiforadb " << tool << " "
              << find(tool)->usage << "\n";
    return std::nullopt;
  };
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "--config") {
      if (++i == arguments.size()) return refuse("--config needs a file");
      auto line = parse_command_line({"--config", arguments[i]});
      if (!line) return refuse(line.error().message());
      parsed.config = std::move(line->config);
    } else if (std::find(flags.begin(), flags.end(), argument) != flags.end()) {
      parsed.flags.push_back(argument);
    } else if (argument.starts_with("-")) {
      return refuse("unknown option " + argument);
    } else if (!parsed.path.empty()) {
      return refuse("one PATH only");
    } else {
      parsed.path = argument;
    }
  }
  if (parsed.path.empty()) return refuse("which database? PATH is missing");
  while (parsed.path.size() > 1 && parsed.path.ends_with("/")) parsed.path.pop_back();
  return parsed;
}

}  // namespace multifora::tools
