#include "core/bson/object_id.h"

#include <atomic>
#include <cstdint>
#include <cstring>
#include <random>

#include "core/base/bytes.h"
#include "core/base/clock.h"

namespace multifora {

namespace {

struct ProcessPart {
  char random[5];
  std::atomic<std::uint32_t> counter;

  ProcessPart() {
    std::random_device device;
    const std::uint32_t first = device();
    std::memcpy(random, &first, 4);
    random[4] = static_cast<char>(device());
    counter = device();
  }
};

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

ObjectId ObjectId::generate() {
  static ProcessPart process;
  const auto seconds = static_cast<std::uint32_t>(system_clock().wall_ms() / 1000);
  const std::uint32_t count = process.counter.fetch_add(1, std::memory_order_relaxed);
  ObjectId id;
  store_be(id.bytes.data(), seconds);
  std::memcpy(id.bytes.data() + 4, process.random, 5);
  id.bytes[9] = static_cast<char>(count >> 16);
  id.bytes[10] = static_cast<char>(count >> 8);
  id.bytes[11] = static_cast<char>(count);
  return id;
}

std::optional<ObjectId> ObjectId::from_hex(std::string_view hex24) {
  if (hex24.size() != 24) return std::nullopt;
  ObjectId id;
  for (std::size_t i = 0; i < 12; ++i) {
    const int high = hex_digit(hex24[2 * i]);
    const int low = hex_digit(hex24[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    id.bytes[i] = static_cast<char>(high << 4 | low);
  }
  return id;
}

std::string ObjectId::to_hex() const {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  hex.reserve(24);
  for (const char byte : bytes) {
    hex.push_back(kDigits[static_cast<unsigned char>(byte) >> 4]);
    hex.push_back(kDigits[static_cast<unsigned char>(byte) & 15]);
  }
  return hex;
}

// Unsigned, as the drivers read it: such ids last until 2106.
std::int64_t ObjectId::seconds() const {
  return load_be<std::uint32_t>(bytes.data());
}

}  // namespace multifora
