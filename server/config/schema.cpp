#include "server/config/schema.h"

#include <algorithm>
#include <limits>

namespace multifora {
namespace {

constexpr std::int64_t kNoMax = std::numeric_limits<std::int64_t>::max();

#define MULTIFORA_SLOT(member) [](ServerConfig& c) { return ConfigSlot(&c.member); }

const ConfigKey kKeys[] = {
    {"net.bind_ip", MULTIFORA_SLOT(net.bind_ip), 0, 0, "bind_ip",
     "addresses to listen on, separated by commas"},
    {"net.port", MULTIFORA_SLOT(net.port), 0, 65535, "port", "port to listen on; 0: a free one"},
    {"net.connections_max", MULTIFORA_SLOT(net.connections_max), 1, 1'000'000, "",
     "connections at once"},
    {"net.compressors", MULTIFORA_SLOT(net.compressors), 0, 0, "",
     "codecs offered to clients for messages; *: every loaded one that the protocol knows"},
    {"net.threads", MULTIFORA_SLOT(net.threads), 0, 1024, "",
     "serving threads; 0: one a processor, at least two"},
    {"net.threads_max", MULTIFORA_SLOT(net.threads_max), 1, 4096, "",
     "serving threads while long commands hold the others"},
    {"net.stall_secs", MULTIFORA_SLOT(net.stall_secs), 1, 86'400, "",
     "a connection that stands still inside a message for this long is closed"},
    {"storage.dbpath", MULTIFORA_SLOT(storage.dbpath), 0, 0, "dbpath", "directory of the database"},
    {"storage.memory_budget_mb", MULTIFORA_SLOT(storage.memory_budget_mb), 0, 1 << 24, "",
     "resident data; 0: a quarter of the machine's memory"},
    {"storage.checkpoint_log_mb", MULTIFORA_SLOT(storage.checkpoint_log_mb), 1, 1 << 20,
     "checkpoint-log-mb", "checkpoint when the log has grown by this"},
    {"storage.checkpoint_secs", MULTIFORA_SLOT(storage.checkpoint_secs), 1, 86'400, "checkpoint-secs",
     "checkpoint when there were writes for this long"},
    {"storage.log_codec", MULTIFORA_SLOT(storage.log_codec), 0, 0, "",
     "codec of large log blocks: none or a loaded one (lz4, zstd ...)"},
    {"storage.cohort_wait_us", MULTIFORA_SLOT(storage.cohort_wait_us), 0, 10'000, "",
     "how long a log sync waits for other writers, while there are any"},
    {"storage.history_mb", MULTIFORA_SLOT(storage.history_mb), 0, 1 << 24, "",
     "history of changes, for change streams that resume: at most so much; 0: none"},
    {"storage.history_hours", MULTIFORA_SLOT(storage.history_hours), 0, 1 << 20, "",
     "and so old; 0: any age"},
    {"storage.history_codecs", MULTIFORA_SLOT(storage.history_codecs), 0, 0, "",
     "codecs for it, separated by commas: the first that is loaded; none: raw"},
    {"storage.read_only", MULTIFORA_SLOT(storage.read_only), 0, 0, "",
     "serve an existing database without changing a file of it; its log is replayed in memory"},
    {"replication.set_name", MULTIFORA_SLOT(replication.set_name), 0, 0, "",
     "name of the one-node replica set; empty: a standalone"},
    {"replication.advertised_address", MULTIFORA_SLOT(replication.advertised_address), 0, 0, "",
     "host:port that clients are told to use; empty: the one they dialled"},
    {"log.level", MULTIFORA_SLOT(log.level), 0, 0, "log-level", "what is logged",
     {"debug", "info", "warning", "error"}},
    {"log.path", MULTIFORA_SLOT(log.path), 0, 0, "log-path", "log file; empty: standard output"},
    {"log.slow_ms", MULTIFORA_SLOT(log.slow_ms), 0, kNoMax / 1000, "",
     "commands that take longer are logged"},
    {"test_commands.enabled", MULTIFORA_SLOT(test_commands.enabled), 0, 0, "test-commands",
     "offer commands that only tests need (failCommand)"},
    {"plugins", MULTIFORA_SLOT(plugins), 0, 0, "", "shared objects to load"},
};

#undef MULTIFORA_SLOT

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

std::string join(const std::vector<std::string_view>& words) {
  std::string text;
  for (const std::string_view word : words) {
    if (!text.empty()) text += ", ";
    text += word;
  }
  return text;
}

}  // namespace

std::span<const ConfigKey> config_keys() { return kKeys; }

const ConfigKey* find_config_key(std::string_view name) {
  for (const ConfigKey& key : kKeys)
    if (key.name == name) return &key;
  return nullptr;
}

bool is_config_section(std::string_view section) {
  for (const ConfigKey& key : kKeys)
    if (key.name.size() > section.size() && key.name.starts_with(section) &&
        key.name[section.size()] == '.')
      return true;
  return false;
}

std::string describe(const ConfigKey& key) {
  ServerConfig config;
  const ConfigSlot slot = key.slot(config);
  if (std::holds_alternative<std::int64_t*>(slot))
    return "a number from " + std::to_string(key.min) + " to " + std::to_string(key.max);
  if (std::holds_alternative<bool*>(slot)) return "true or false";
  if (std::holds_alternative<std::vector<std::string>*>(slot)) return "a list of strings";
  return key.choices.empty() ? "a string" : "one of " + join(key.choices);
}

Status check_value(const ConfigKey& key, ServerConfig& config) {
  const ConfigSlot slot = key.slot(config);
  bool good = true;
  std::string shown;
  if (const auto* number = std::get_if<std::int64_t*>(&slot)) {
    good = **number >= key.min && **number <= key.max;
    shown = std::to_string(**number);
  } else if (const auto* text = std::get_if<std::string*>(&slot)) {
    good = key.choices.empty() ||
           std::find(key.choices.begin(), key.choices.end(), **text) != key.choices.end();
    shown = "'" + **text + "'";
  }
  if (good) return {};
  return {ErrorCode::kBadValue,
          std::string(key.name) + " is " + shown + "; it must be " + describe(key)};
}

std::string nearest(std::string_view name, const std::vector<std::string>& candidates) {
  const std::string* best = nullptr;
  std::size_t best_distance = name.size() / 2 + 2;  // farther ones are no help
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(name, candidate);
    if (distance >= best_distance) continue;
    best_distance = distance;
    best = &candidate;
  }
  return best == nullptr ? "" : " (did you mean '" + *best + "'?)";
}

}  // namespace multifora
