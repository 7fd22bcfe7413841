// What this program says that it is.
#pragma once

#include <string>

namespace multifora {

inline constexpr const char* kServerVersion = "0.1.0";

// For --version: several lines.
std::string version_text();

}  // namespace multifora
