// Indexes of the kind "sorted": one top-level field over a sorted array.
//
//   array key:   key string, then the record id (8 bytes, big-endian)
//   array value: the key string's type bits (usually empty)
//   IndexState:  SortedState (24 bytes), u64 multikey (0 or 1), 32 bytes zero
#pragma once

#include <memory>

#include "core/plugin/index.h"

namespace multifora {

inline constexpr std::uint32_t kSortedCapabilities =
    kIndexEquality | kIndexRange | kIndexOrder | kIndexCovered | kIndexUnique;

std::unique_ptr<Index> open_sorted_index(Pager& pager, IndexSpec spec, const IndexState& state);

}  // namespace multifora
