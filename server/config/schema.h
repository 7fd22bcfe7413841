// The table of configuration keys.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "server/config/config.h"

namespace multifora {

using ConfigSlot =
    std::variant<std::int64_t*, std::string*, bool*, std::vector<std::string>*>;

struct ConfigKey {
  std::string_view name;  // "net.port"
  ConfigSlot (*slot)(ServerConfig& config);
  std::int64_t min = 0;  // of numbers
  std::int64_t max = 0;
  std::string_view flag = {};  // "port" where the key has a flag of its own
  std::string_view help = {};
  std::vector<std::string_view> choices = {};  // of strings; empty: any
};

std::span<const ConfigKey> config_keys();
const ConfigKey* find_config_key(std::string_view name);
// Has the table keys "section. ..."? Other sections are plugins'.
bool is_config_section(std::string_view section);

// What a value of this key looks like: "a number from 0 to 65535".
std::string describe(const ConfigKey& key);
// Range and choices of what was stored. BadValue, without file and line.
Status check_value(const ConfigKey& key, ServerConfig& config);

// " (did you mean 'net.port'?)" with the candidate that is nearest to `name`, or nothing.
std::string nearest(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace multifora
