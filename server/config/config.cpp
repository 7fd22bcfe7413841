#include "server/config/config.h"

#include <algorithm>
#include <charconv>

#include "server/config/schema.h"

namespace multifora {
namespace {

Status wrong(const ConfigKey& key, std::string_view text) {
  return {ErrorCode::kBadValue, std::string(key.name) + " is '" + std::string(text) +
                                    "'; it must be " + describe(key)};
}

bool parse_bool(std::string_view text, bool* out) {
  *out = text == "true" || text == "1" || text == "on";
  return *out || text == "false" || text == "0" || text == "off";
}

bool parse_number(std::string_view text, std::int64_t* out) {
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, *out);
  return error == std::errc() && at == end && !text.empty();
}

std::vector<std::string> parse_list(std::string_view text) {
  std::vector<std::string> list;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    if (end > 0) list.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return list;
}

std::string show(const ConfigSlot& slot) {
  if (const auto* number = std::get_if<std::int64_t*>(&slot)) return std::to_string(**number);
  if (const auto* flag = std::get_if<bool*>(&slot)) return **flag ? "true" : "false";
  if (const auto* text = std::get_if<std::string*>(&slot)) return **text;
  std::string list;
  for (const std::string& item : *std::get<std::vector<std::string>*>(slot))
    list += (list.empty() ? "" : ",") + item;
  return list;
}

}  // namespace

Status set_config_value(std::string_view name, std::string_view text, ServerConfig& config) {
  const ConfigKey* key = find_config_key(name);
  if (key == nullptr) {
    if (const std::size_t dot = name.find('.'); dot != std::string_view::npos && dot > 0 &&
                                                !is_config_section(name.substr(0, dot))) {
      ServerConfig::PluginValue value;
      bool flag = false;
      value.is_text = !parse_number(text, &value.integer) && !parse_bool(text, &flag);
      if (value.is_text) value.text = text;
      if (flag) value.integer = 1;
      config.plugin_sections[std::string(name.substr(0, dot))][std::string(name.substr(dot + 1))] =
          value;
      return {};
    }
    std::vector<std::string> names;
    for (const ConfigKey& known : config_keys()) names.emplace_back(known.name);
    return {ErrorCode::kBadValue, "unknown configuration key '" + std::string(name) + "'" +
                                      nearest(name, names)};
  }
  const ConfigSlot slot = key->slot(config);
  if (const auto* number = std::get_if<std::int64_t*>(&slot)) {
    if (!parse_number(text, *number)) return wrong(*key, text);
  } else if (const auto* flag = std::get_if<bool*>(&slot)) {
    if (!parse_bool(text, *flag)) return wrong(*key, text);
  } else if (const auto* string = std::get_if<std::string*>(&slot)) {
    **string = text;
  } else {
    *std::get<std::vector<std::string>*>(slot) = parse_list(text);
  }
  return check_value(*key, config);
}

LogLevel log_level(const ServerConfig& config) {
  if (config.log.level == "debug") return LogLevel::kDebug;
  if (config.log.level == "warning") return LogLevel::kWarning;
  if (config.log.level == "error") return LogLevel::kError;
  return LogLevel::kInfo;
}

std::vector<std::pair<std::string, std::string>> config_values(const ServerConfig& config) {
  ServerConfig copy = config;
  std::vector<std::pair<std::string, std::string>> values;
  for (const ConfigKey& key : config_keys())
    values.emplace_back(key.name, show(key.slot(copy)));
  return values;
}

// ---------------------------------------------------------------- for plugins

const ServerConfig::PluginValue* ConfigForPlugins::find(std::string_view section,
                                                        std::string_view key, Type type) const {
  if (noting_) asked_[std::string(section)].emplace(key, type);
  const auto at = config_.plugin_sections.find(std::string(section));
  if (at == config_.plugin_sections.end()) return nullptr;
  const auto value = at->second.find(std::string(key));
  return value == at->second.end() ? nullptr : &value->second;
}

std::optional<std::int64_t> ConfigForPlugins::integer(std::string_view section,
                                                      std::string_view key) const {
  if (const auto* value = find(section, key, Type::kInteger))
    return value->is_text ? std::nullopt : std::optional(value->integer);
  const ConfigKey* own = find_config_key(std::string(section) + "." + std::string(key));
  if (own == nullptr) return std::nullopt;
  const ConfigSlot slot = own->slot(const_cast<ServerConfig&>(config_));
  if (const auto* number = std::get_if<std::int64_t*>(&slot)) return **number;
  if (const auto* flag = std::get_if<bool*>(&slot)) return **flag ? 1 : 0;
  return std::nullopt;
}

std::optional<std::string> ConfigForPlugins::text(std::string_view section,
                                                  std::string_view key) const {
  if (const auto* value = find(section, key, Type::kText))
    return value->is_text ? std::optional(value->text) : std::nullopt;
  const ConfigKey* own = find_config_key(std::string(section) + "." + std::string(key));
  if (own == nullptr) return std::nullopt;
  const ConfigSlot slot = own->slot(const_cast<ServerConfig&>(config_));
  const auto* string = std::get_if<std::string*>(&slot);
  return string == nullptr ? std::nullopt : std::optional(**string);
}

// "my.json:3: ", or nothing for what came from a flag.
std::string ConfigForPlugins::where(int line) const {
  return line == 0 ? "" : config_.file + ":" + std::to_string(line) + ": ";
}

Status ConfigForPlugins::check_sections(const std::vector<PluginHost::Loaded>& loaded) {
  noting_ = false;
  std::vector<std::string> known;
  for (const PluginHost::Loaded& plugin : loaded) known.push_back(plugin.name);
  for (const ConfigKey& key : config_keys())
    known.emplace_back(key.name.substr(0, key.name.find('.')));
  for (const auto& [section, values] : config_.plugin_sections) {
    if (std::find(known.begin(), known.end(), section) == known.end())
      return {ErrorCode::kBadValue, where(values.empty() ? 0 : values.begin()->second.line) + "'" +
                                        section + "' is neither a section nor a loaded plugin" +
                                        nearest(section, known)};
    MULTIFORA_TRY(check_section(section, values));
  }
  return {};
}

Status ConfigForPlugins::check_section(
    const std::string& section,
    const std::map<std::string, ServerConfig::PluginValue>& values) const {
  static const std::map<std::string, Type> kNone;
  const auto found = asked_.find(section);
  const std::map<std::string, Type>& asked = found == asked_.end() ? kNone : found->second;
  for (const auto& [key, value] : values) {
    const auto at = asked.find(key);
    if (at == asked.end()) {
      std::vector<std::string> names;
      for (const auto& [name, type] : asked) names.push_back(name);
      return {ErrorCode::kBadValue,
              where(value.line) + "unknown key '" + section + "." + key + "'" +
                  (names.empty() ? "; this plugin has no settings" : nearest(key, names))};
    }
    if (value.is_text == (at->second == Type::kText)) continue;
    return {ErrorCode::kBadValue,
            where(value.line) + section + "." + key + " is " +
                (value.is_text ? "\"" + value.text + "\"" : std::to_string(value.integer)) +
                "; it must be " + (value.is_text ? "a number, true or false" : "a string")};
  }
  return {};
}

}  // namespace multifora
