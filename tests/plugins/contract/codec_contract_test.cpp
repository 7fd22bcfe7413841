// What core/plugin/codec.h promises, for every registered codec.
#include <doctest/doctest.h>

#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/plugin/codec.h"
#include "tests/plugins/contract/guarded_bytes.h"
#include "tests/plugins/contract/registered_host.h"
#include "tests/support/random_bson.h"

namespace multifora::contract {
namespace {

constexpr std::size_t kNameSizeMax = 8;  // of the log's file header

class Codecs {
 public:
  Codecs() {
    load_registered(host_);
    host_.freeze();
    REQUIRE(!host_.codecs().empty());
  }
  const std::vector<const Codec*>& all() const { return host_.codecs(); }

 private:
  PluginHost host_;
};

std::string noise(std::mt19937_64& random, std::size_t size) {
  std::string bytes(size, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  return bytes;
}

std::string text(std::mt19937_64& random, std::size_t size) {
  std::string bytes(size, '\0');
  for (char& c : bytes) c = static_cast<char>('a' + random() % 5);
  return bytes;
}

std::string repeated(std::mt19937_64& random, std::size_t size) {
  std::string bytes = noise(random, 1 + random() % 300);
  while (bytes.size() < size) bytes += bytes;
  bytes.resize(size);
  return bytes;
}

std::vector<std::string> payloads(std::mt19937_64& random, std::size_t size) {
  return {std::string(size, '\0'), noise(random, size), text(random, size), repeated(random, size)};
}

// Compresses with `capacity` bytes of room; nullopt: declined.
std::optional<std::string> compress(const Codec& codec, const std::string& raw,
                                    std::size_t capacity, int level) {
  GuardedBytes from(raw);
  GuardedBytes to(capacity);
  const auto size = codec.compress(from.view(), to.data(), capacity, level);
  CHECK(to.margin_is_whole());
  CHECK(from.view() == raw);
  if (!size) return std::nullopt;
  REQUIRE(*size <= capacity);
  return std::string(to.data(), *size);
}

// The decompressed bytes; nullopt: refused.
std::optional<std::string> decompress(const Codec& codec, const std::string& packed,
                                      std::size_t size) {
  GuardedBytes from(packed);
  GuardedBytes to(size);
  const bool whole = codec.decompress(from.view(), to.data(), size);
  CHECK(to.margin_is_whole());
  if (!whole) return std::nullopt;
  return std::string(to.view());
}

void check_round_trip(const Codec& codec, const std::string& raw, int level) {
  const std::size_t bound = codec.bound(raw.size());
  const auto packed = compress(codec, raw, bound, level);
  if (!packed) return;  // declined: the caller stores it raw
  REQUIRE(decompress(codec, *packed, raw.size()) == raw);
  CHECK_FALSE(decompress(codec, *packed, raw.size() + 1));
  CHECK_FALSE(decompress(codec, *packed, 2 * raw.size() + 100));
  if (raw.empty()) return;
  CHECK_FALSE(decompress(codec, *packed, raw.size() - 1));
  CHECK_FALSE(decompress(codec, *packed, 0));
}

void check_small_capacity(const Codec& codec, const std::string& raw) {
  const auto packed = compress(codec, raw, codec.bound(raw.size()), codec.level_default);
  if (!packed) return;
  const std::size_t size = packed->size();
  for (const std::size_t capacity : {std::size_t{0}, std::size_t{1}, size / 2, size - 1, size}) {
    const auto fitted = compress(codec, raw, capacity, codec.level_default);
    if (fitted) CHECK(decompress(codec, *fitted, raw.size()) == raw);
  }
}

}  // namespace

TEST_CASE("codec rows: names, levels, functions, wire ids") {
  const Codecs codecs;
  std::set<int> wire_ids;
  for (const Codec* codec : codecs.all()) {
    CAPTURE(codec->name);
    CHECK(!codec->name.empty());
    CHECK(codec->name != "none");
    CHECK(codec->name.size() <= kNameSizeMax);
    CHECK((codec->bound != nullptr));
    CHECK((codec->compress != nullptr));
    CHECK((codec->decompress != nullptr));
    CHECK(codec->level_min <= codec->level_default);
    CHECK(codec->level_default <= codec->level_max);
    if (codec->wire_id != 0) CHECK(wire_ids.insert(codec->wire_id).second);
  }
}

TEST_CASE("what a codec compresses it gives back, and only at the exact size") {
  const std::uint64_t seed = test::test_seed();
  CAPTURE(seed);
  const Codecs codecs;
  for (const Codec* codec : codecs.all()) {
    CAPTURE(codec->name);
    std::mt19937_64 random(seed);
    for (const std::size_t size :
         {0, 1, 2, 3, 15, 16, 17, 63, 64, 65, 255, 257, 4095, 4097, 65'535, 65'537, 262'144}) {
      CAPTURE(size);
      for (const std::string& raw : payloads(random, size))
        check_round_trip(*codec, raw, codec->level_default);
    }
    for (const std::string& raw : payloads(random, 3'000'003))
      check_round_trip(*codec, raw, codec->level_default);
  }
}

TEST_CASE("every level gives the bytes back") {
  const std::uint64_t seed = test::test_seed();
  CAPTURE(seed);
  const Codecs codecs;
  for (const Codec* codec : codecs.all()) {
    CAPTURE(codec->name);
    std::mt19937_64 random(seed);
    const int step = std::max(1, (codec->level_max - codec->level_min) / 8);
    for (int level = codec->level_min; level <= codec->level_max; level += step) {
      CAPTURE(level);
      for (const std::string& raw : payloads(random, 20'000)) check_round_trip(*codec, raw, level);
    }
    for (const std::string& raw : payloads(random, 20'000))
      check_round_trip(*codec, raw, codec->level_max);
  }
}

TEST_CASE("a codec keeps to its capacity, and declines what does not fit") {
  const std::uint64_t seed = test::test_seed();
  CAPTURE(seed);
  const Codecs codecs;
  for (const Codec* codec : codecs.all()) {
    CAPTURE(codec->name);
    std::mt19937_64 random(seed);
    for (const std::size_t size : {1, 17, 300, 5000, 100'000})
      for (const std::string& raw : payloads(random, size)) check_small_capacity(*codec, raw);
    CHECK_FALSE(compress(*codec, noise(random, 10'000), 100, codec->level_default));
  }
}

TEST_CASE("truncated and prolonged input is refused") {
  const std::uint64_t seed = test::test_seed();
  CAPTURE(seed);
  const Codecs codecs;
  for (const Codec* codec : codecs.all()) {
    CAPTURE(codec->name);
    std::mt19937_64 random(seed);
    for (const std::size_t size : {0, 1, 40, 700}) {
      for (const std::string& raw : payloads(random, size)) {
        const auto packed = compress(*codec, raw, codec->bound(size), codec->level_default);
        if (!packed) continue;
        for (std::size_t keep = 0; keep < packed->size(); ++keep) {
          CAPTURE(keep);
          CHECK_FALSE(decompress(*codec, packed->substr(0, keep), size));
        }
        CHECK_FALSE(decompress(*codec, *packed + '\0', size));
        if (size > 0) CHECK_FALSE(decompress(*codec, *packed + *packed, size));
      }
    }
  }
}

TEST_CASE("hostile input never leads outside the arguments") {
  const std::uint64_t seed = test::test_seed();
  CAPTURE(seed);
  const Codecs codecs;
  for (const Codec* codec : codecs.all()) {
    CAPTURE(codec->name);
    std::mt19937_64 random(seed);
    const std::string raw = text(random, 3000);
    const auto packed = compress(*codec, raw, codec->bound(raw.size()), codec->level_default);
    for (int i = 0; i < 3000; ++i) {
      std::string damaged = packed && i % 4 != 0 ? *packed : noise(random, random() % 200);
      for (std::uint64_t flips = 1 + random() % 4; flips > 0 && !damaged.empty(); --flips)
        damaged[random() % damaged.size()] ^= static_cast<char>(1 + random() % 255);
      if (i % 3 == 0) damaged.resize(random() % (damaged.size() + 1));
      const std::size_t size = i % 2 == 0 ? raw.size() : random() % (2 * raw.size());
      (void)decompress(*codec, damaged, size);  // the guards are the check
    }
  }
}

TEST_CASE("a codec serves many threads at once") {
  const Codecs codecs;
  for (const Codec* codec : codecs.all()) {
    CAPTURE(codec->name);
    std::vector<int> wrong(4);
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < wrong.size(); ++t)
      threads.emplace_back([&, t] {
        std::mt19937_64 random(t);
        for (int i = 0; i < 100; ++i) {
          const std::string raw = text(random, random() % 20'000);
          std::string packed(codec->bound(raw.size()), '\0');
          const auto size =
              codec->compress(raw, packed.data(), packed.size(), codec->level_default);
          std::string back(raw.size(), '\0');
          if (size &&
              (!codec->decompress({packed.data(), *size}, back.data(), back.size()) || back != raw))
            ++wrong[t];
        }
      });
    for (std::thread& thread : threads) thread.join();
    CHECK(wrong == std::vector<int>(4));
  }
}

}  // namespace multifora::contract
