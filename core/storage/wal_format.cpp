#include "core/storage/wal_format.h"

// XXH3_state_t on the stack: its size is only known this way.
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <cstddef>

#include "core/base/assert.h"

namespace multifora::wal {

namespace {

constexpr char kMagic[4] = {'M', 'F', 'W', 'L'};
constexpr std::string_view kNameSuffix = ".wal";
constexpr std::size_t kNameDigits = 16;
constexpr std::size_t kHashedFrom = offsetof(BlockHeader, stream);

}  // namespace

std::string segment_name(std::uint64_t stream_start) {
  std::string name(kNameDigits, '0');
  for (std::size_t i = kNameDigits; i-- > 0; stream_start >>= 4)
    name[i] = "0123456789abcdef"[stream_start & 15];
  return name.append(kNameSuffix);
}

std::optional<std::uint64_t> parse_segment_name(std::string_view name) {
  if (name.size() != kNameDigits + kNameSuffix.size() || !name.ends_with(kNameSuffix)) return {};
  std::uint64_t start = 0;
  const char* end = name.data() + kNameDigits;
  const auto [stop, error] = std::from_chars(name.data(), end, start, 16);
  if (error != std::errc() || stop != end) return {};
  return start;
}

FileHeader make_file_header(std::string_view codec_name, std::size_t block_bytes) {
  MULTIFORA_ASSERT(codec_name.size() <= kCodecNameSizeMax);
  FileHeader header{};
  std::copy(std::begin(kMagic), std::end(kMagic), header.magic);
  header.version = kFormatVersion;
  header.block_target_kib =
      static_cast<std::uint16_t>(std::min<std::size_t>(block_bytes / 1024, 0xffff));
  std::copy(codec_name.begin(), codec_name.end(), header.codec);
  return header;
}

Status check_file_header(const FileHeader& header) {
  if (!std::equal(std::begin(kMagic), std::end(kMagic), header.magic))
    return Status(ErrorCode::kUnsupportedFormat, "not a MultiforaDB log segment (wrong magic)");
  if (header.version != kFormatVersion || header.reserved != 0)
    return Status(ErrorCode::kUnsupportedFormat,
                  "log format version " + std::to_string(header.version) +
                      " is not supported (this program writes version " +
                      std::to_string(kFormatVersion) + ")");
  return {};
}

std::string_view codec_name(const FileHeader& header) {
  const std::string_view padded(header.codec, kCodecNameSizeMax);
  return padded.substr(0, padded.find('\0'));
}

void seal_header(BlockHeader& header, Bytes stored) {
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  XXH3_64bits_update(&state, reinterpret_cast<const char*>(&header) + kHashedFrom,
                     kBlockHeaderSize - kHashedFrom);
  XXH3_64bits_update(&state, stored.data(), stored.size());
  header.hash = XXH3_64bits_digest(&state);
}

void seal_header_at(char* at, BlockHeader& header) {
  std::memcpy(at, &header, kBlockHeaderSize);
  header.hash = XXH3_64bits(at + kHashedFrom, kBlockHeaderSize - kHashedFrom + header.stored_size);
  store_le(at, header.hash);
}

bool plausible(const BlockHeader& header, std::uint64_t stream, std::uint64_t room) {
  if (header.stream != stream || header.log_id == 0) return false;
  if (room < kBlockHeaderSize || header.stored_size > room - kBlockHeaderSize) return false;
  if (header.kind < BlockKind::kWhole || header.kind > BlockKind::kLast) return false;
  if (header.after > header.last || header.raw_size > kRawSizeMax) return false;
  if (header.coding == BlockCoding::kRaw) return header.stored_size == header.raw_size;
  return header.coding == BlockCoding::kCodec && header.stored_size < header.raw_size;
}

bool hash_matches(Bytes block) {
  return load_le<std::uint64_t>(block.data()) ==
         XXH3_64bits(block.data() + kHashedFrom, block.size() - kHashedFrom);
}

void append_batch(Buffer& to, LogPosition position, Bytes batch) {
  MULTIFORA_ASSERT(batch.size() <= kBatchSizeMax);
  append_le<std::uint64_t>(to, position);
  append_le<std::uint32_t>(to, static_cast<std::uint32_t>(batch.size()));
  to.append(batch);
}

}  // namespace multifora::wal
