// Where the public test suites (the drivers' specifications and the like) lie. They are read in
// place and are not part of the repository: a test that needs them is skipped without them.
#pragma once

#include <cstdio>
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

// The same for tests that are nothing without it: ends the program with 77, which ctest shows as
// skipped, where the folder is absent. Such tests are a ctest of their own (CORPUS in
// cmake/multifora_targets.cmake).
inline std::filesystem::path corpus_dir(std::string_view name) {
  std::filesystem::path folder = shared_dir(name);
  if (!folder.empty()) return folder;
  std::fprintf(stderr, "skipped: no %.*s (set MULTIFORA_SHARED_DIR)\n",
               static_cast<int>(name.size()), name.data());
  std::exit(77);
}

}  // namespace multifora::test
