#include "server/config/json_log.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace multifora {

TEST_CASE("an event is one line of JSON") {
  const std::string line = json_log_line(
      1'700'000'000'007, LogLevel::kWarning, "net", "a \"quoted\"\n\x01 message",
      {{"count", std::int64_t{-3}}, {"ratio", 0.5}, {"good", true}, {"bytes", std::string_view("\xff\x80")}});
  CHECK(line.find('\n') == std::string::npos);
  const auto json = nlohmann::json::parse(line);
  CHECK(json["time"] == "2023-11-14T22:13:20.007Z");
  CHECK(json["level"] == "warning");
  CHECK(json["message"] == "a \"quoted\"\n\x01 message");
  CHECK(json["count"] == -3);
  CHECK(json["ratio"] == 0.5);
  CHECK(json["good"] == true);
  CHECK(json.contains("bytes"));
}

TEST_CASE("a file, its level, rotation and the newest lines") {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("json_log_test." + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  const std::string path = folder / "x.log";
  {
    auto log = JsonLog::open(path, LogLevel::kInfo);
    REQUIRE(log.has_value());
    (*log)->event(LogLevel::kDebug, "a", "not written", {});
    (*log)->event(LogLevel::kInfo, "a", "before", {});
    CHECK((*log)->rotate().ok());
    (*log)->event(LogLevel::kInfo, "a", "after", {});
    CHECK((*log)->recent().size() == 2);
    // Within the same second: the earlier file must not be replaced.
    CHECK((*log)->rotate().ok());
    (*log)->event(LogLevel::kInfo, "a", "last", {});
  }
  std::ifstream file(path);
  std::string first, second;
  std::getline(file, first);
  CHECK(first.find("last") != std::string::npos);
  CHECK_FALSE(std::getline(file, second));
  CHECK(std::distance(std::filesystem::directory_iterator(folder), {}) == 3);
  std::filesystem::remove_all(folder);
  CHECK_FALSE(JsonLog::open("/no/such/folder/x.log", LogLevel::kInfo).has_value());
}

}  // namespace multifora
