// What this program says that it is.
#pragma once

#include <string>

#include "core/base/version.h"

namespace multifora {

// For --version: several lines.
std::string version_text();

}  // namespace multifora
