// The meta page: what a checkpoint publishes. Two slots, at page 0 and page 1 of the data file;
// checkpoint n goes to slot n % 2, so the other slot keeps the checkpoint before it whatever
// happens to the write. Values only; any thread. Byte offsets: docs/format-data.md.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "core/storage/types.h"

namespace multifora {

inline constexpr std::uint32_t kFormatVersion = 1;
inline constexpr std::size_t kMetaSize = 4096;  // the same for every page size
inline constexpr std::size_t kDirectoryPagesMax = 256;

struct MetaPage {
  std::array<char, 16> uuid{};
  std::uint64_t checkpoint = 0;
  Generation generation = 0;
  LogPosition position = 0;
  std::uint64_t chunk_count = 1;
  Buffer store_meta;
  // Empty in a file without any checkpoint: chunk 0 then holds nothing but the meta pages.
  std::vector<PageId> directory_pages;
};

constexpr std::uint64_t meta_offset(std::uint64_t checkpoint) {
  return (checkpoint % 2) * kPageSize;
}

// kMetaSize bytes. Requires store_meta and directory_pages within their limits.
Buffer encode_meta(const MetaPage& meta);

// One slot as it is, for people who look inside.
struct MetaSlotReport {
  std::uint64_t offset = 0;
  // "valid", "damaged", "another version", "another page size", or "foreign" (no magic).
  std::string_view state;
  std::uint32_t version = 0;    // where it can be told
  std::uint32_t page_size = 0;  // likewise
  std::optional<MetaPage> meta; // of a valid one
};
Result<std::array<MetaSlotReport, 2>> report_metas(const File& file);

struct OpenedMeta {
  MetaPage newest;
  // Log position of the older durable checkpoint; of the newest where the other slot is damaged.
  LogPosition older_position = 0;
  Generation older_generation = 0;
};

// Reads both slots and chooses. UnsupportedFormat: another program's file, a version or page size
// that this build does not know. DataCorruptionDetected: no valid slot. A damaged slot beside a
// valid one is logged as a warning.
Result<OpenedMeta> read_metas(const File& file, const std::string& path, LogSink& log);

}  // namespace multifora
