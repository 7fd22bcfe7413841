#include "bench/payload.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "core/base/assert.h"
#include "core/bson/builder.h"

namespace multifora::bench {
namespace {

constexpr std::array<std::string_view, 32> kWords = {
    "the",   "of",     "harbour", "engine", "record", "and",   "winter", "to",
    "copper", "letter", "in",     "morning", "a",     "index", "garden", "is",
    "river", "that",   "signal", "paper",  "for",    "bridge", "it",    "station",
    "was",   "lantern", "on",    "orchard", "with",  "page",  "quarry", "as"};

// splitmix64
std::uint64_t next(std::uint64_t& state) {
  state += 0x9e3779b97f4a7c15ull;
  std::uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

std::string text(std::int64_t id, std::size_t size) {
  std::uint64_t state = static_cast<std::uint64_t>(id) * 0x2545f4914f6cdd1dull + 7;
  std::string out;
  out.reserve(size + 16);
  while (out.size() < size) {
    const std::uint64_t bits = next(state);
    out += kWords[bits & 31];
    // Now and then a number, as prose about things has.
    if ((bits >> 8) % 11 == 0) out += ' ' + std::to_string(bits >> 40);
    out += ' ';
  }
  out.resize(size);
  return out;
}

std::string lines(std::int64_t id, std::size_t size) {
  std::uint64_t state = static_cast<std::uint64_t>(id) + 1;
  std::string out;
  out.reserve(size + 64);
  while (out.size() < size) {
    out += "level=info component=ledger message=\"request served\" micros=";
    out += std::to_string(next(state) % 1000);
    out += '\n';
  }
  out.resize(size);
  return out;
}

OwnedDocument with_text(std::int64_t id, std::size_t text_size, Payload payload) {
  DocumentBuilder b;
  b.append("_id", id).append("k", static_cast<std::int32_t>(id % 1000));
  b.append("text", payload == Payload::kText ? text(id, text_size) : lines(id, text_size));
  return std::move(b).finish();
}

}  // namespace

Payload payload_named(std::string_view name) {
  if (name == "text") return Payload::kText;
  if (name == "repetitive") return Payload::kRepetitive;
  std::fprintf(stderr, "there is no payload '%.*s': text or repetitive\n", static_cast<int>(name.size()),
               name.data());
  std::exit(1);
}

OwnedDocument make_document(std::int64_t id, std::size_t size_bytes, Payload payload) {
  static const std::size_t overhead = with_text(0, 0, payload).bytes().size();
  MULTIFORA_ASSERT(size_bytes >= overhead);
  return with_text(id, size_bytes - overhead, payload);
}

std::size_t mixed_size(std::int64_t id, std::size_t size_max) {
  constexpr std::size_t kSizeMin = 300;
  if (size_max <= kSizeMin) return size_max;
  std::uint64_t state = static_cast<std::uint64_t>(id);
  const std::uint64_t bits = next(state);
  // A size class by halving, then anywhere in it.
  std::size_t top = size_max;
  for (std::uint64_t b = bits & 7; b > 0 && top / 2 > kSizeMin; --b) top /= 2;
  return kSizeMin + (bits >> 8) % (top - kSizeMin + 1);
}

}  // namespace multifora::bench
