// The structs and codecs of the write-ahead log: names of segment files, file header, block header,
// batch records. Their offsets, and the rules that reading and writing keep, stand in
// docs/format-log.md. All numbers are little-endian. Nothing here touches a file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/bytes.h"
#include "core/base/status.h"
#include "core/storage/types.h"

namespace multifora::wal {

inline constexpr std::uint8_t kFormatVersion = 1;
inline constexpr std::size_t kCodecNameSizeMax = 8;
inline constexpr std::size_t kBlockAlignment = 8;
inline constexpr std::size_t kBatchHeaderSize = 12;
// The largest batch. A transaction is one batch, so this is well above one message's 48 MB.
inline constexpr std::size_t kBatchSizeMax = std::size_t{1} << 30;
// No block says more than this about its raw size; bounds what hostile files make us allocate.
inline constexpr std::size_t kRawSizeMax = kBatchSizeMax + (std::size_t{64} << 20);

struct FileHeader {
  char magic[4];
  std::uint8_t version;
  std::uint8_t reserved;
  std::uint16_t block_target_kib;
  char codec[kCodecNameSizeMax];
};
static_assert(sizeof(FileHeader) == 16);

enum class BlockKind : std::uint8_t {
  kWhole = 1,   // whole batches only (or none: a note of what is durable)
  kFirst = 2,   // any number of whole batches, then the beginning of one
  kMiddle = 3,  // a piece of a batch, neither its beginning nor its end
  kLast = 4,    // the end of a batch, nothing else
};
enum class BlockCoding : std::uint8_t { kRaw = 0, kCodec = 1 };

struct BlockHeader {
  std::uint64_t hash;
  std::uint64_t stream;
  LogPosition after;
  LogPosition last;
  LogPosition durable;
  std::uint64_t previous_hash;
  std::uint32_t log_id;
  std::uint32_t stored_size;
  std::uint32_t raw_size;
  BlockKind kind;
  BlockCoding coding;
  std::uint16_t session;
};
static_assert(sizeof(BlockHeader) == 64);
inline constexpr std::size_t kBlockHeaderSize = sizeof(BlockHeader);

inline constexpr std::uint64_t align_block(std::uint64_t size) {
  return (size + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
}
// Log bytes that a batch takes at most, whatever blocks it ends up in (segment ends apart).
inline constexpr std::uint64_t batch_charge(std::uint64_t size) {
  return kBlockHeaderSize + kBatchHeaderSize + size + kBlockAlignment;
}

// "00000000000a0000.wal"
std::string segment_name(std::uint64_t stream_start);
std::optional<std::uint64_t> parse_segment_name(std::string_view name);

FileHeader make_file_header(std::string_view codec_name, std::size_t block_bytes);
// UnsupportedFormat for another program's or version's file.
Status check_file_header(const FileHeader& header);
std::string_view codec_name(const FileHeader& header);  // lives as long as the header

// Fills in header.hash. Header and payload need not be contiguous.
void seal_header(BlockHeader& header, Bytes stored);
// The same where the payload follows the room for its header at `at`: one pass, one write.
void seal_header_at(char* at, BlockHeader& header);
// Everything that can be checked without the payload: sizes, kind, its own place in the stream.
bool plausible(const BlockHeader& header, std::uint64_t stream, std::uint64_t room);
// `block` is the header and the stored payload, contiguous.
bool hash_matches(Bytes block);

// Appends a batch record to a payload.
void append_batch(Buffer& to, LogPosition position, Bytes batch);

}  // namespace multifora::wal
