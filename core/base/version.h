// What this program is, and which MongoDB it stands in for: the one place for both.
#pragma once

#include <cstdint>

namespace multifora {

// Its own version: the project's in CMakeLists.txt.
inline constexpr const char* kServerVersion = MULTIFORA_VERSION;

// Drivers, shells and ODMs choose their features by these: the behaviour offered is MongoDB 8.0's.
inline constexpr const char* kMongoVersion = "8.0.0";
inline constexpr std::int32_t kMongoVersionParts[] = {8, 0, 0, 0};
inline constexpr const char* kFeatureCompatibilityVersion = "8.0";
inline constexpr std::int32_t kWireVersionMin = 0;
inline constexpr std::int32_t kWireVersionMax = 25;

}  // namespace multifora
