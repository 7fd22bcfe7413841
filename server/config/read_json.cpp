// Reads the configuration file: JSON with // comments, objects two deep. Values go where the schema's
// table says; what it does not know goes to the plugins' sections, or is refused.
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "server/config/config.h"
#include "server/config/schema.h"

namespace multifora {
namespace {

using Json = nlohmann::json;

// Counts the lines that the parser has read, so that a key's line is known when it is met.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, int* line) : at_(at), line_(line) {}
  const char& operator*() const { return *at_; }
  CountingIterator& operator++() {
    if (*at_ == '\n') ++*line_;
    ++at_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator old = *this;
    ++*this;
    return old;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }

 private:
  const char* at_;
  int* line_;
};

class Reader : public nlohmann::json_sax<Json> {
 public:
  Reader(ServerConfig& config, const std::string& name, const int& line)
      : config_(config), name_(name), line_(line) {}
  const Status& status() const { return status_; }

  bool null() override { return value("null", [](auto&&) { return false; }); }
  bool boolean(bool given) override {
    return value(given ? "true" : "false", [&](const ConfigSlot& slot) {
      const auto* to = std::get_if<bool*>(&slot);
      if (to != nullptr) **to = given;
      return to != nullptr;
    }, plugin_number(given ? 1 : 0));
  }
  bool number_integer(std::int64_t given) override { return number(given, std::to_string(given)); }
  bool number_unsigned(std::uint64_t given) override {
    if (given > static_cast<std::uint64_t>(INT64_MAX)) return wrong(std::to_string(given));
    return number(static_cast<std::int64_t>(given), std::to_string(given));
  }
  bool number_float(double, const std::string& text) override { return wrong(text); }
  bool string(std::string& given) override {
    return value("\"" + given + "\"", [&](const ConfigSlot& slot) {
      if (const auto* list = std::get_if<std::vector<std::string>*>(&slot); list && in_list_) {
        (*list)->push_back(given);
        return true;
      }
      const auto* to = std::get_if<std::string*>(&slot);
      if (to == nullptr || in_list_) return false;
      **to = given;
      return true;
    }, plugin_text(given));
  }
  bool binary(binary_t&) override { return false; }

  bool start_object(std::size_t) override {
    if (in_list_) return wrong("an object");
    if (depth_ == 0) return ++depth_ > 0;
    if (depth_ == 1 && find_config_key(key_) == nullptr) {
      section_ = key_;
      known_section_ = is_config_section(section_);
      return ++depth_ > 0;
    }
    return wrong("an object");
  }
  bool end_object() override {
    --depth_;
    section_.clear();
    return true;
  }
  bool start_array(std::size_t) override {
    const ConfigKey* key = find_config_key(path());
    if (key == nullptr || in_list_) return wrong("a list");
    const ConfigSlot slot = key->slot(config_);
    const auto* list = std::get_if<std::vector<std::string>*>(&slot);
    if (list == nullptr) return wrong("a list");
    (*list)->clear();
    return in_list_ = true;
  }
  bool end_array() override {
    in_list_ = false;
    return true;
  }
  bool key(std::string& name) override {
    key_ = name;
    key_line_ = line_;
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const Json::exception& error) override {
    std::string text = error.what();
    if (const std::size_t at = text.find("] "); at != std::string::npos) text.erase(0, at + 2);
    return fail_with(line_, "not valid JSON: " + text);
  }

 private:
  std::string path() const { return section_.empty() ? key_ : section_ + "." + key_; }

  bool fail_with(int line, const std::string& text) {
    status_ = {ErrorCode::kBadValue, name_ + ":" + std::to_string(line) + ": " + text};
    return false;
  }
  bool wrong(const std::string& shown) {
    if (depth_ == 0) return fail_with(line_, "the file must hold one JSON object");
    const ConfigKey* key = find_config_key(path());
    if (key == nullptr) return unknown_or(path() + " is " + shown + "; it must be a number, a "
                                          "string, true or false");
    return fail_with(key_line_, path() + " is " + shown + "; it must be " + describe(*key));
  }
  // A key that is in no table: a mistake, unless its section is a plugin's.
  bool unknown_or(const std::string& otherwise) {
    if (!section_.empty() && !known_section_) return fail_with(key_line_, otherwise);
    if (section_.empty() && is_config_section(key_))
      return fail_with(key_line_, key_ + " must be an object with keys of its own");
    std::vector<std::string> names;
    for (const ConfigKey& key : config_keys()) {
      names.emplace_back(key.name);
      names.emplace_back(key.name.substr(0, key.name.find('.')));
    }
    return fail_with(key_line_, "unknown key '" + path() + "'" + nearest(path(), names));
  }

  ServerConfig::PluginValue plugin_number(std::int64_t given) const {
    return {{}, given, false, key_line_};
  }
  ServerConfig::PluginValue plugin_text(const std::string& given) const {
    return {given, 0, true, key_line_};
  }

  bool number(std::int64_t given, const std::string& shown) {
    return value(shown, [&](const ConfigSlot& slot) {
      const auto* to = std::get_if<std::int64_t*>(&slot);
      if (to != nullptr) **to = given;
      return to != nullptr;
    }, plugin_number(given));
  }

  template <class Store>
  bool value(const std::string& shown, Store store, const ServerConfig::PluginValue& for_plugin) {
    if (depth_ > 0 && find_config_key(path()) == nullptr && !section_.empty() && !known_section_) {
      config_.plugin_sections[section_][key_] = for_plugin;
      return true;
    }
    return value(shown, store);
  }
  template <class Store>
  bool value(const std::string& shown, Store store) {
    if (depth_ == 0) return wrong(shown);
    const ConfigKey* key = find_config_key(path());
    if (key == nullptr) return unknown_or(path() + " may not be " + shown);
    if (!store(key->slot(config_))) return wrong(shown);
    const Status checked = check_value(*key, config_);
    return checked.ok() || fail_with(key_line_, checked.message());
  }

  ServerConfig& config_;
  const std::string& name_;
  const int& line_;
  Status status_;
  int depth_ = 0;
  bool in_list_ = false;
  bool known_section_ = false;
  std::string section_;
  std::string key_;
  int key_line_ = 1;
};

}  // namespace

Status read_config_text(std::string_view text, const std::string& name, ServerConfig& config) {
  int line = 1;
  Reader reader(config, name, line);
  config.file = name;
  const CountingIterator begin(text.data(), &line);
  const CountingIterator end(text.data() + text.size(), &line);
  const bool read = Json::sax_parse(begin, end, &reader, nlohmann::detail::input_format_t::json,
                                    true, true);
  if (read && reader.status().ok()) return {};
  if (!reader.status().ok()) return reader.status();
  return {ErrorCode::kBadValue, name + ": not valid JSON"};
}

Status read_config_file(const std::string& path, ServerConfig& config) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return {ErrorCode::kNoSuchKey, "cannot read the configuration file " + path +
                                       "; give another with --config, or none for the defaults"};
  std::ostringstream text;
  text << file.rdbuf();
  return read_config_text(text.str(), path, config);
}

}  // namespace multifora
