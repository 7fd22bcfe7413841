// The codec "lz4": LZ4's block format, without a frame. For log blocks; the protocol has no id for it.
#include <lz4.h>

#include <climits>

#include "core/plugin/codec.h"
#include "core/plugin/plugin.h"

namespace multifora {
namespace {

std::size_t bound(std::size_t size) {
  return size > LZ4_MAX_INPUT_SIZE
             ? 0
             : static_cast<std::size_t>(LZ4_compressBound(static_cast<int>(size)));
}

int clamp(std::size_t size) { return size > INT_MAX ? INT_MAX : static_cast<int>(size); }

std::optional<std::size_t> compress(Bytes from, char* to, std::size_t capacity, int) {
  if (from.size() > LZ4_MAX_INPUT_SIZE) return std::nullopt;
  const int n =
      LZ4_compress_default(from.data(), to, static_cast<int>(from.size()), clamp(capacity));
  if (n <= 0) return std::nullopt;
  return static_cast<std::size_t>(n);
}

bool decompress(Bytes from, char* to, std::size_t size) {
  if (from.size() > INT_MAX || size > INT_MAX) return false;
  const int n =
      LZ4_decompress_safe(from.data(), to, static_cast<int>(from.size()), static_cast<int>(size));
  return n >= 0 && static_cast<std::size_t>(n) == size;
}

constexpr Codec kCodec{
    .name = "lz4",
    .wire_id = 0,
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

MULTIFORA_PLUGIN(codec_lz4, "codec-lz4", "1.0.0", multifora::register_plugin)
