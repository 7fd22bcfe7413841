// Where the public test suites (the drivers' specifications and the like) lie. They are read in
// place and are not part of the repository: a test that needs them says so and is skipped.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

namespace multifora::test {

// The folder `name` of MULTIFORA_SHARED_DIR (default: ../shared beside MULTIFORA_SOURCE_DIR, which
// ctest sets); empty where it is absent.
inline std::filesystem::path shared_dir(std::string_view name) {
  const char* shared = std::getenv("MULTIFORA_SHARED_DIR");
  const char* source = std::getenv("MULTIFORA_SOURCE_DIR");
  const std::filesystem::path base =
      shared != nullptr ? std::filesystem::path(shared)
                        : std::filesystem::path(source != nullptr ? source : ".") / "../shared";
  std::error_code ignored;
  return std::filesystem::is_directory(base / name, ignored) ? base / name
                                                             : std::filesystem::path();
}

}  // namespace multifora::test
