// Bytes of the write-ahead log: names of segment files, file header, block header, batch records.
// The prose is docs/format-log.md. All numbers are little-endian. Nothing here touches a file.
//
// The log is one endless stream of bytes, cut into segment files. A segment is named after the
// stream offset of its first byte, and the next segment starts where this one's size ends; so a
// block knows where it belongs, and a recycled file's old blocks are at the wrong place.
//
// File header, 16 bytes             Block header, 64 bytes
//   0  4  magic "MFWL"                0  8  XXH3-64 of bytes [8, 64 + stored size)
//   4  1  version                     8  8  own stream offset
//   5  1  zero                       16  8  position of the last batch that ended before this block
//   6  2  block target in KiB        24  8  position of the last batch that ends in this block
//   8  8  codec name, zero padded    32  8  newest position known durable when this was written
//                                    40  8  hash of the block before this one (0: none)
// Batch record in a block's payload  48  4  log id: random, the same in the whole log, not 0
//   0  8  position                   52  4  stored size of the payload
//   8  4  size                       56  4  raw size of the payload
//  12  n  the batch                  60  1  kind     61  1  stored how     62  2  session
//
// Invariants
//  1. Blocks start at multiples of 8. A block is followed by the next block in the same segment or
//     by the first block of the next segment, and that one carries the hash of this one.
//  2. Positions increase from batch to batch; `after` of a block is `last` of the one before it
//     (the first block of a log that was empty: the position that the data file stood at).
//  3. A batch is cut only at the end of a segment: kFirst there, then kMiddle and kLast blocks that
//     hold nothing else. A kFirst not followed by its rest was given up at a crash.
//  4. Every opening of the log has a session number that no readable block outside of the chain
//     has. So a block written anew in the place of a lost one never has its hash, even if it says
//     the same, and what once followed the lost one stays cut off.
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
