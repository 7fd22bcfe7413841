// A database that no server has open, opened without changing its files: the log is replayed in
// memory. For check and inspect. One thread.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "core/base/file_overlay.h"
#include "core/plugin/host.h"
#include "core/store/store.h"
#include "server/config/config.h"
#include "server/tools/tools.h"

namespace multifora::tools {

// Prints warnings and errors of the storage to standard error.
class ToolLog final : public LogSink {
 public:
  bool wants(LogLevel level) const override { return level >= LogLevel::kWarning; }
  void event(LogLevel level, std::string_view component, std::string_view message,
             std::initializer_list<LogField> fields) override;
};

class OfflineDatabase {
 public:
  // Plugins: those linked in and those that the configuration names. NoSuchKey where `path` is no
  // database's directory.
  static Result<std::unique_ptr<OfflineDatabase>> prepare(const std::string& path,
                                                          const ServerConfig& config);
  ~OfflineDatabase();
  // The failure says what is wrong with the files.
  Status open();
  FileSystem& files() { return files_; }
  Store& store() { return *store_; }
  const OpenReport& report() const { return report_; }

 private:
  ToolLog log_;
  std::string path_;
  OverlayFileSystem files_;
  PluginHost host_;
  OpenReport report_;
  std::unique_ptr<Store> store_;
};

// PATH, flags and --config of a tool. Prints what is wrong with them and returns none.
struct OfflineArguments {
  std::string path;
  ServerConfig config;
  std::vector<std::string> flags;
};
std::optional<OfflineArguments> parse_offline(std::string_view tool, const Arguments& arguments,
                                              const std::vector<std::string>& flags);

}  // namespace multifora::tools
