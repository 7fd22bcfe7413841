#include "server/config/flags.h"

#include <doctest/doctest.h>

namespace multifora {

TEST_CASE("flags override defaults") {
  auto line = parse_command_line({"--port", "0", "--bind_ip=::1", "--db", "/tmp/x",
                                        "--ttl-sweep-secs", "5", "--checkpoint-log-mb", "32",
                                        "--log-level", "debug", "--set",
                                        "replication.set_name=", "--set", "net.threads=3",
                                        "--set", "codec-zstd.level=7"});
  REQUIRE(line.has_value());
  CHECK(line->config.plugin_sections["codec-zstd"]["level"].integer == 7);
  CHECK(line->config.net.port == 0);
  CHECK(line->config.net.bind_ip == "::1");
  CHECK(line->config.storage.dbpath == "/tmp/x");
  CHECK(line->config.plugin_sections["index-ttl"]["monitor_sleep_secs"].integer == 5);
  CHECK(line->config.storage.checkpoint_log_mb == 32);
  CHECK(log_level(line->config) == LogLevel::kDebug);
  CHECK(line->config.replication.set_name.empty());
  CHECK(line->config.net.threads == 3);
}

TEST_CASE("a switch needs no value") {
  CHECK_FALSE(parse_command_line({})->config.test_commands.enabled);
  CHECK(parse_command_line({"--test-commands"})->config.test_commands.enabled);
  CHECK(parse_command_line({"--test-commands", "--port", "0"})->config.test_commands.enabled);
  CHECK_FALSE(parse_command_line({"--test-commands=false"})->config.test_commands.enabled);
}

TEST_CASE("mistakes on the command line") {
  const auto refusal = [](std::vector<std::string> arguments) {
    const auto line = parse_command_line(arguments);
    REQUIRE_FALSE(line.has_value());
    return line.error().message();
  };
  CHECK(refusal({"--prot", "1"}) == "unknown option --prot (did you mean '--port'?); see --help");
  CHECK(refusal({"--port", "x"}) ==
        "--port: net.port is 'x'; it must be a number from 0 to 65535");
  CHECK(refusal({"--port", "70000"}).find("net.port is 70000") != std::string::npos);
  CHECK(refusal({"--db", "a", "--dbpath", "b"}).find("same option") != std::string::npos);
  CHECK(refusal({"--set", "net.port"}).find("section.key=value") != std::string::npos);
  CHECK(refusal({"--set", "net.prt=1"}).find("did you mean 'net.port'") != std::string::npos);
  CHECK(refusal({"stray"}).find("--help") != std::string::npos);
  CHECK(refusal({"--config", "/no/such"}).find("/no/such") != std::string::npos);
}

TEST_CASE("help and version only print") {
  const auto help = parse_command_line({"--help"});
  REQUIRE(help.has_value());
  CHECK(help->only_print);
  for (const char* part : {"--port", "--dbpath", "--db ", "net.connections_max", "--version"})
    CHECK(help->text.find(part) != std::string::npos);
  CHECK(parse_command_line({"--version"})->text.find("multiforadb ") == 0);
}

}  // namespace multifora
