// Documents for benchmarks: text-like, of an exact size, from a seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/bson/view.h"

namespace multifora::bench {

// What the text is made of.
enum class Payload {
  kText,        // words of a small vocabulary: compresses about as prose does
  kRepetitive,  // lines of a log that differ in a number: compresses very well, unlike most documents
};
// The one of that name ("text", "repetitive"); ends the program where there is none.
Payload payload_named(std::string_view name);

// {_id: id, k: id mod 1000, text: "..."} of exactly `size_bytes` (at least 64).
OwnedDocument make_document(std::int64_t id, std::size_t size_bytes, Payload payload = Payload::kText);

// The size of document `id` where sizes are mixed: from 300 bytes to `size_max`, small ones most often.
std::size_t mixed_size(std::int64_t id, std::size_t size_max);

}  // namespace multifora::bench
