// The used-bitmap of a record chunk, one bit a record unit. With pages of 4 KiB the page's header
// leaves no room for the last 256 bits; they are in the chunk's entry. A view; the caller holds the
// pager's allocator mutex and, for changes, has made the page writable.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "core/base/bytes.h"
#include "core/storage/chunk_table.h"
#include "core/storage/types.h"

namespace multifora {

inline constexpr std::size_t kUnitWords = kUnitsPerChunk / 64;
inline constexpr std::size_t kUnitWordsInPage =
    std::min(kUnitWords, (kPageSize - kPageHeaderSize) / 8);
static_assert(kUnitWords - kUnitWordsInPage <= kChunkEntryWords);

using UnitWords = std::array<std::uint64_t, kUnitWords>;

// Calls visit(word index, mask of the range's bits in that word).
template <class Visit>
void for_each_unit_word(std::uint32_t first, std::uint32_t units, Visit&& visit) {
  while (units > 0) {
    const std::uint32_t shift = first % 64;
    const std::uint32_t count = std::min(units, 64 - shift);
    const std::uint64_t ones = count == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
    visit(first / 64, ones << shift);
    first += count;
    units -= count;
  }
}

inline void set_units(UnitWords& words, std::uint32_t first, std::uint32_t units) {
  for_each_unit_word(first, units, [&](std::size_t w, std::uint64_t mask) { words[w] |= mask; });
}

// Both work on the page's bytes and the entry's spare words.
inline std::uint64_t unit_word(const char* page, const ChunkEntry& entry, std::size_t w) {
  return w < kUnitWordsInPage ? load_le<std::uint64_t>(page + kPageHeaderSize + 8 * w)
                              : entry.bits[w - kUnitWordsInPage];
}
inline void store_unit_word(char* page, ChunkEntry* entry, std::size_t w, std::uint64_t value) {
  if (w < kUnitWordsInPage)
    store_le(page + kPageHeaderSize + 8 * w, value);
  else
    entry->bits[w - kUnitWordsInPage] = value;
}

// Are the bits of the range all `set`?
inline bool units_are(const char* page, const ChunkEntry& entry, std::uint32_t first,
                      std::uint32_t units, bool set) {
  bool all = true;
  for_each_unit_word(first, units, [&](std::size_t w, std::uint64_t mask) {
    all &= (unit_word(page, entry, w) & mask) == (set ? mask : 0);
  });
  return all;
}

inline UnitWords load_units(const char* page, const ChunkEntry& entry) {
  UnitWords words;
  for (std::size_t w = 0; w < kUnitWords; ++w) words[w] = unit_word(page, entry, w);
  return words;
}

// Calls visit(first, units) for each run of clear bits, in order.
template <class Visit>
void for_each_hole(const UnitWords& words, Visit&& visit) {
  std::uint32_t start = 0, length = 0;
  const auto end_run = [&] {
    if (length > 0) visit(start, length);
    length = 0;
  };
  for (std::uint32_t w = 0; w < kUnitWords; ++w) {
    std::uint32_t bit = 0;
    while (bit < 64) {
      const std::uint64_t rest = words[w] >> bit;
      const auto zeros =
          std::min<std::uint32_t>(static_cast<std::uint32_t>(std::countr_zero(rest)), 64 - bit);
      if (zeros > 0) {
        if (length == 0) start = w * 64 + bit;
        length += zeros;
        bit += zeros;
        continue;
      }
      end_run();
      bit += static_cast<std::uint32_t>(std::countr_one(rest));
    }
  }
  end_run();
}

}  // namespace multifora
