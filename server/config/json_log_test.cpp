#include "server/config/json_log.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

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

TEST_CASE("whoever logs does not wait for a reader; what is dropped is counted") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const auto start = std::chrono::steady_clock::now();
  std::string text;
  {
    const auto log = JsonLog::to_descriptor(ends[1], LogLevel::kInfo);
    const std::string long_text(1000, 'x');
    for (int i = 0; i < 5000; ++i) log->event(LogLevel::kInfo, "a", long_text, {});
    CHECK(log->recent().size() == 1024);
    std::thread reader([&] {
      std::array<char, 65536> buffer;
      while (true) {
        const ssize_t n = ::read(ends[0], buffer.data(), buffer.size());
        if (n <= 0) return;
        text.append(buffer.data(), static_cast<std::size_t>(n));
      }
    });
    log->flush();
    log->event(LogLevel::kInfo, "a", "the last", {});
    log->flush();
    ::close(ends[1]);
    reader.join();
  }
  ::close(ends[0]);
  const std::size_t dropped = text.find("Lines were dropped");
  REQUIRE(dropped != std::string::npos);
  CHECK(text.find("the last") > dropped);
  std::size_t lines = 0;
  std::uint64_t missing = 0;
  std::istringstream all(text);
  for (std::string line; std::getline(all, line); ++lines) {
    const auto json = nlohmann::json::parse(line);
    if (json.contains("lines")) missing += json["lines"].get<std::uint64_t>();
  }
  CHECK(missing > 0);
  CHECK(lines + missing >= 5001);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
}

TEST_CASE("a log that nobody reads ends nevertheless") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const auto start = std::chrono::steady_clock::now();
  {
    const auto log = JsonLog::to_descriptor(ends[1], LogLevel::kInfo);
    for (int i = 0; i < 500; ++i) log->event(LogLevel::kInfo, "a", std::string(1000, 'x'), {});
  }
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(10));
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace multifora
