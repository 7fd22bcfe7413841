// Documents for benchmarks: text-like, of an exact size, from a seed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/bson/view.h"

namespace multifora::bench {

// {_id: id, k: id mod 1000, text: "words ..."} of exactly `size_bytes` (at least 64). The text is words
// of a small vocabulary: it compresses about as prose does, unlike a repeated character.
OwnedDocument make_document(std::int64_t id, std::size_t size_bytes);

}  // namespace multifora::bench
