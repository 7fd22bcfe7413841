// Small types of the storage layer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

namespace multifora {

#ifndef MULTIFORA_PAGE_SIZE
#define MULTIFORA_PAGE_SIZE 4096
#endif
inline constexpr std::size_t kPageSize = MULTIFORA_PAGE_SIZE;
static_assert(kPageSize == 4096 || kPageSize == 8192 || kPageSize == 16384);
// Space is handed out to pools in chunks.
inline constexpr std::size_t kChunkSize = 1024 * 1024;
inline constexpr std::size_t kPagesPerChunk = kChunkSize / kPageSize;
// Records are placed at multiples of this.
inline constexpr std::size_t kRecordUnit = 32;
inline constexpr std::size_t kUnitsPerChunk = kChunkSize / kRecordUnit;

// Number of a page in the data file: offset / kPageSize. 0 (the first meta page) means "none".
using PageId = std::uint64_t;
inline constexpr PageId kNoPage = 0;

// Counts snapshots: every page knows the generation it was born in.
using Generation = std::uint64_t;

// A position in the log = cluster time of the batch there: seconds since 1970 in the high 32 bits,
// an increment in the low 32. Strictly increasing from batch to batch. 0: before everything.
using LogPosition = std::uint64_t;

// Key of a record within its collection; increases with insertion, never used twice. 0: none.
using RecordId = std::uint64_t;

// Where a record's header starts in the data file, in units of kRecordUnit. 0: no record.
using RecordLocation = std::uint64_t;

using CollectionId = std::uint32_t;

}  // namespace multifora
