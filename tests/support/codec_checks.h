// Checks that hold for every codec; used by the unit tests of the codec plugins.
#pragma once

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

#include "core/plugin/codec.h"
#include "core/plugin/plugin.h"

namespace multifora::testing {

// Loads one plugin into a fresh host and returns its codec, which lives as long as the process.
inline const Codec* load_codec(const PluginEntry& entry, std::string_view name) {
  PluginHost host;
  REQUIRE(host.load(entry, "").ok());
  return host.codec(name);
}

// Compressible where `alphabet` is small.
inline std::string random_text(std::mt19937_64& random, std::size_t size, int alphabet) {
  std::string text(size, '\0');
  const auto letters = static_cast<unsigned>(alphabet);
  for (char& c : text) c = static_cast<char>('a' + static_cast<int>(random() % letters));
  return text;
}

inline void check_round_trip(const Codec& codec, const std::string& text, int level) {
  std::string packed(codec.bound(text.size()), '\0');
  const auto size = codec.compress(text, packed.data(), packed.size(), level);
  REQUIRE(size.has_value());
  REQUIRE(*size <= packed.size());
  packed.resize(*size);
  std::string back(text.size(), '\0');
  CHECK(codec.decompress(packed, back.data(), back.size()));
  CHECK(back == text);
  // Any other size is refused.
  std::string longer(text.size() + 1, '\0');
  CHECK_FALSE(codec.decompress(packed, longer.data(), longer.size()));
  if (!text.empty()) CHECK_FALSE(codec.decompress(packed, back.data(), back.size() - 1));
}

inline void check_codec(const Codec& codec) {
  const std::uint64_t seed = std::random_device{}();
  INFO("seed ", seed);
  std::mt19937_64 random(seed);
  CHECK(codec.level_min <= codec.level_default);
  CHECK(codec.level_default <= codec.level_max);
  for (const std::size_t size : {0, 1, 2, 63, 64, 1000, 65'536, 300'000}) {
    check_round_trip(codec, random_text(random, size, 3), codec.level_default);
    check_round_trip(codec, random_text(random, size, 26), codec.level_min);
  }
  // Text shrinks.
  std::string text = random_text(random, 1000, 26);
  while (text.size() < 100'000) text += text;
  std::string packed(codec.bound(text.size()), '\0');
  const auto packed_size =
      codec.compress(text, packed.data(), packed.size(), codec.level_default);
  REQUIRE(packed_size.has_value());
  CHECK(*packed_size < text.size() / 2);
  // It declines what does not fit, and keeps to its capacity.
  std::string small(17, 'x');
  CHECK_FALSE(codec.compress(text, small.data(), 16, codec.level_default).has_value());
  CHECK(small.back() == 'x');
  // Damage of every kind is refused or gives other bytes, but never leaves the buffers (ASan).
  packed.resize(*packed_size);
  std::string back(text.size(), '\0');
  for (int i = 0; i < 300; ++i) {
    std::string damaged = packed;
    damaged[random() % damaged.size()] ^= static_cast<char>(1 + random() % 255);
    damaged.resize(1 + random() % damaged.size());
    (void)codec.decompress(damaged, back.data(), back.size());
    std::string noise(random() % 100, '\0');
    for (char& c : noise) c = static_cast<char>(random());
    (void)codec.decompress(noise, back.data(), 1 + random() % back.size());
  }
  CHECK_FALSE(codec.decompress(std::string_view(packed).substr(0, packed.size() / 2), back.data(),
                               back.size()));
}

}  // namespace multifora::testing
