// ObjectId: 4 bytes seconds (big-endian), 5 random bytes a process, 3 bytes counter.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace multifora {

struct ObjectId {
  std::array<char, 12> bytes{};

  // A fresh id; any thread. Seconds come from the system clock.
  static ObjectId generate();
  static std::optional<ObjectId> from_hex(std::string_view hex24);
  std::string to_hex() const;
  std::int64_t seconds() const;
  auto operator<=>(const ObjectId&) const = default;
};

}  // namespace multifora
