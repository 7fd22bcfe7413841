// The server's configuration: every key with its default, read from a JSON file and overridden by
// flags. The keys are the rows of one table (schema.h), which reading, checking, --help and --set
// all use. Plain values; built on one thread before anything starts.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/log.h"
#include "core/base/status.h"
#include "core/plugin/host.h"

namespace multifora {

struct ServerConfig {
  struct {
    std::string bind_ip = "127.0.0.1";
    std::int64_t port = 27017;
    std::int64_t connections_max = 10'000;
    std::vector<std::string> compressors{"*"};
    std::int64_t threads = 0;
    std::int64_t threads_max = 128;
    std::int64_t stall_secs = 30;
  } net;
  struct {
    std::string dbpath = "data";
    std::int64_t memory_budget_mb = 0;
    std::int64_t checkpoint_log_mb = 256;
    std::int64_t checkpoint_secs = 60;
    std::string log_codec = "none";
    std::int64_t cohort_wait_us = 150;
    std::int64_t history_mb = 1024;
    std::int64_t history_hours = 24;
    std::string history_codecs = "lz4,zstd";
    bool read_only = false;
  } storage;
  struct {
    std::string set_name = "rs0";
    std::string advertised_address;
  } replication;
  struct {
    std::string level = "info";
    std::string path;
    std::int64_t slow_ms = 100;
  } log;
  struct {
    bool enabled = false;
  } test_commands;
  std::vector<std::string> plugins;

  // A plugin's own section, e.g. {"codec-zstd": {"level": 3}}.
  struct PluginValue {
    std::string text;          // where it is a string
    std::int64_t integer = 0;  // where it is a number or a boolean
    bool is_text = false;
    int line = 0;  // in the file; 0: from a flag
  };
  std::map<std::string, std::map<std::string, PluginValue>> plugin_sections;
  std::string file;  // what it was read from; empty: defaults and flags only
};

// Reads `path` into `config`. BadValue with file, line, key, and the nearest valid key for an unknown
// one; NoSuchKey where there is no such file.
Status read_config_file(const std::string& path, ServerConfig& config);
// The same from text; `name` stands for the file in messages.
Status read_config_text(std::string_view text, const std::string& name, ServerConfig& config);
// Sets "section.key" from the text of a flag. A section that is none of the server's is taken for a
// plugin's and checked once the plugins are there (ConfigForPlugins::check_sections).
Status set_config_value(std::string_view key, std::string_view text, ServerConfig& config);

LogLevel log_level(const ServerConfig& config);
// Every key and its value, one a line; for --help and getCmdLineOpts.
std::vector<std::pair<std::string, std::string>> config_values(const ServerConfig& config);

// What plugins see: their own sections, and the server's keys too. Plugins ask while they register, on
// one thread: what they ask for are the keys that exist. check_sections() ends that; from then on
// nothing is noted, and any thread may ask.
class ConfigForPlugins final : public PluginConfig {
 public:
  explicit ConfigForPlugins(const ServerConfig& config) : config_(config) {}
  std::optional<std::int64_t> integer(std::string_view section,
                                      std::string_view key) const override;
  std::optional<std::string> text(std::string_view section, std::string_view key) const override;

  // After the plugins registered: BadValue for a section of a plugin that is not loaded, for a key
  // that its plugin did not ask for, and for a value of another type than was asked for.
  Status check_sections(const std::vector<PluginHost::Loaded>& loaded);

 private:
  enum class Type { kInteger, kText };
  const ServerConfig::PluginValue* find(std::string_view section, std::string_view key,
                                        Type type) const;
  Status check_section(const std::string& section,
                       const std::map<std::string, ServerConfig::PluginValue>& values) const;
  std::string where(int line) const;

  const ServerConfig& config_;
  bool noting_ = true;
  mutable std::map<std::string, std::map<std::string, Type>, std::less<>> asked_;
};

}  // namespace multifora
