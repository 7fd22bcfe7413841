#include "server/config/config.h"

#include <doctest/doctest.h>

#include <cstdlib>

#include "server/config/schema.h"

namespace multifora {
namespace {

std::string refusal(std::string_view text) {
  ServerConfig config;
  const Status status = read_config_text(text, "my.json", config);
  CHECK_FALSE(status.ok());
  return status.message();
}

bool contains(const std::string& text, std::string_view part) {
  INFO(text);
  const bool found = text.find(part) != std::string::npos;
  CHECK(found);
  return found;
}

}  // namespace

TEST_CASE("values of every type") {
  ServerConfig config;
  REQUIRE(read_config_text(R"({
    // a comment
    "net": {"port": 0, "compressors": ["zstd"], "bind_ip": "0.0.0.0"},
    "storage": {"read_only": true},
    "plugins": ["a.so", "b.so"],
    "codec-zstd": {"level": 7, "name": "x", "fast": true}
  })", "my.json", config).ok());
  CHECK(config.net.port == 0);
  CHECK(config.net.compressors == std::vector<std::string>{"zstd"});
  CHECK(config.net.bind_ip == "0.0.0.0");
  CHECK(config.storage.read_only);
  CHECK(config.plugins.size() == 2);
  CHECK(config.net.connections_max == 10'000);

  const ConfigForPlugins plugins(config);
  CHECK(plugins.integer("codec-zstd", "level") == 7);
  CHECK(plugins.integer("codec-zstd", "fast") == 1);
  CHECK(plugins.text("codec-zstd", "name") == "x");
  CHECK_FALSE(plugins.integer("codec-zstd", "other").has_value());
  CHECK(plugins.integer("log", "slow_ms") == 100);
}

TEST_CASE("refusals name file, line, key and what is near") {
  contains(refusal("{\n  \"net\": {\n    \"prot\": 1\n  }\n}"),
           "my.json:3: unknown key 'net.prot' (did you mean 'net.port'?)");
  contains(refusal("{\n\n\"storage\": {\"dbpath\": 5}}"),
           "my.json:3: storage.dbpath is 5; it must be a string");
  contains(refusal("{\"net\": {\"port\": 65536}}"),
           "my.json:1: net.port is 65536; it must be a number from 0 to 65535");
  contains(refusal("{\"net\": {\"port\": \"80\"}}"), "net.port is \"80\"; it must be a number");
  contains(refusal("{\"net\": {\"port\": 1.5}}"), "net.port is 1.5");
  contains(refusal("{\"net\": {\"port\": null}}"), "net.port is null");
  contains(refusal("{\"net\": {\"port\": [1]}}"), "net.port is a list");
  contains(refusal("{\"log\": {\"level\": \"loud\"}}"), "one of debug, info, warning, error");
  contains(refusal("{\"plugin\": []}"), "unknown key 'plugin' (did you mean 'plugins'?)");
  contains(refusal("{\"net\": 1}"), "net must be an object");
  contains(refusal("{\"plugins\": [1]}"), "plugins is 1; it must be a list of strings");
  contains(refusal("{\n\"net\": {\n"), "my.json:3: not valid JSON");
  contains(refusal("[]"), "the file must hold one JSON object");
  contains(refusal("{\"codec-zstd\": {\"deep\": {}}}"), "codec-zstd.deep is an object");
}

TEST_CASE("sections of plugins are checked once the plugins are there") {
  ServerConfig config;
  REQUIRE(read_config_text("{\"codec-zstd\": {\n\"levle\": 7}}", "my.json", config).ok());
  ConfigForPlugins plugins(config);
  (void)plugins.integer("codec-zstd", "level");
  contains(plugins.check_sections({{"codec-lz4", "1", ""}}).message(),
           "my.json:2: 'codec-zstd' is neither a section nor a loaded plugin");
  contains(plugins.check_sections({{"codec-zstd", "1", ""}}).message(),
           "my.json:2: unknown key 'codec-zstd.levle' (did you mean 'level'?)");
  // Asking later makes no key valid, and notes nothing.
  (void)plugins.integer("codec-zstd", "levle");
  contains(plugins.check_sections({{"codec-zstd", "1", ""}}).message(), "unknown key");
  contains(ConfigForPlugins(config).check_sections({{"codec-zstd", "1", ""}}).message(),
           "unknown key 'codec-zstd.levle'; this plugin has no settings");
  ServerConfig none;
  REQUIRE(read_config_text("{\"nett\": {\"port\": 7}}", "my.json", none).ok());
  contains(ConfigForPlugins(none).check_sections({}).message(), "(did you mean 'net'?)");
}

TEST_CASE("values of plugins have the type that the plugin asks for") {
  const auto refusal_of = [](std::string_view text) {
    ServerConfig config;
    REQUIRE(read_config_text(text, "my.json", config).ok());
    ConfigForPlugins plugins(config);
    (void)plugins.integer("codec-zstd", "level");
    (void)plugins.text("codec-zstd", "dictionary");
    return plugins.check_sections({{"codec-zstd", "1", ""}}).message();
  };
  CHECK(refusal_of(R"({"codec-zstd": {"level": 3, "dictionary": "x"}})").empty());
  CHECK(refusal_of(R"({"codec-zstd": {"level": "3"}})") ==
        "my.json:1: codec-zstd.level is \"3\"; it must be a number, true or false");
  CHECK(refusal_of(R"({"codec-zstd": {"dictionary": 3}})") ==
        "my.json:1: codec-zstd.dictionary is 3; it must be a string");
  ServerConfig config;
  REQUIRE(set_config_value("codec-zstd.level", "high", config).ok());
  ConfigForPlugins plugins(config);
  CHECK_FALSE(plugins.integer("codec-zstd", "level").has_value());
  CHECK(plugins.check_sections({{"codec-zstd", "1", ""}}).message() ==
        "codec-zstd.level is \"high\"; it must be a number, true or false");
}

TEST_CASE("config/multiforadb.json has every key with its default") {
  const char* root = std::getenv("MULTIFORA_SOURCE_DIR");
  REQUIRE(root != nullptr);
  const std::string path = std::string(root) + "/config/multiforadb.json";
  ServerConfig config;
  const Status status = read_config_file(path, config);
  INFO(status.message());
  REQUIRE(status.ok());
  CHECK(config_values(config) == config_values(ServerConfig()));
  // Every key is really in the file: another value of it would be seen.
  for (const ConfigKey& key : config_keys()) {
    ServerConfig other;
    const ConfigSlot slot = key.slot(other);
    if (auto* number = std::get_if<std::int64_t*>(&slot)) **number = -1;
    if (auto* flag = std::get_if<bool*>(&slot)) **flag = !**flag;
    if (auto* text = std::get_if<std::string*>(&slot)) **text = "another";
    if (auto* list = std::get_if<std::vector<std::string>*>(&slot)) (*list)->push_back("another");
    REQUIRE(read_config_file(path, other).ok());
    INFO(key.name);
    CHECK(config_values(other) == config_values(ServerConfig()));
  }
}

TEST_CASE("a missing file") {
  ServerConfig config;
  CHECK(read_config_file("/no/such/file.json", config).code() == ErrorCode::kNoSuchKey);
}

}  // namespace multifora
