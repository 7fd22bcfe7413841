// The codec "snappy": Snappy's raw format, as OP_COMPRESSED's compressor 1 uses it.
#include <snappy.h>

#include <cstring>
#include <limits>
#include <string>

#include "core/plugin/codec.h"
#include "core/plugin/plugin.h"

namespace multifora {
namespace {

// The raw format states its size in 32 bits.
constexpr std::size_t kInputMax = std::numeric_limits<std::uint32_t>::max() / 2;

std::size_t bound(std::size_t size) { return snappy::MaxCompressedLength(size); }

std::optional<std::size_t> compress(Bytes from, char* to, std::size_t capacity, int) {
  if (from.size() > kInputMax) return std::nullopt;
  std::size_t size = 0;
  if (capacity >= bound(from.size())) {
    snappy::RawCompress(from.data(), from.size(), to, &size);
    return size;
  }
  // Snappy cannot stop at a capacity: go through a buffer of its own.
  std::string whole;
  size = snappy::Compress(from.data(), from.size(), &whole);
  if (size > capacity) return std::nullopt;
  std::memcpy(to, whole.data(), size);
  return size;
}

bool decompress(Bytes from, char* to, std::size_t size) {
  std::size_t stated = 0;
  if (!snappy::GetUncompressedLength(from.data(), from.size(), &stated) || stated != size)
    return false;
  return snappy::RawUncompress(from.data(), from.size(), to);
}

constexpr Codec kCodec{
    .name = "snappy",
    .wire_id = 1,
    .level_min = 1,
    .level_max = 1,
    .level_default = 1,
    .bound = bound,
    .compress = compress,
    .decompress = decompress,
};

Status register_plugin(PluginHost& host) { return host.add_codec(&kCodec); }

}  // namespace
}  // namespace multifora

MULTIFORA_PLUGIN(codec_snappy, "codec-snappy", "1.0.0", multifora::register_plugin)
