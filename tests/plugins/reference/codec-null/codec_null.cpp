// The reference codec: copies. The smallest thing that honours core/plugin/codec.h.
#include <cstring>

#include "core/plugin/codec.h"
#include "core/plugin/plugin.h"

namespace multifora {
namespace {

std::size_t bound(std::size_t size) {
  return size;
}

std::optional<std::size_t> compress(Bytes from, char* to, std::size_t capacity, int) {
  if (from.size() > capacity) return std::nullopt;
  if (!from.empty()) std::memcpy(to, from.data(), from.size());
  return from.size();
}

bool decompress(Bytes from, char* to, std::size_t size) {
  if (from.size() != size) return false;
  if (size != 0) std::memcpy(to, from.data(), size);
  return true;
}

constexpr Codec kNull{
    .name = "null", .bound = bound, .compress = compress, .decompress = decompress};

Status register_plugin(PluginHost& host) {
  return host.add_codec(&kNull);
}

}  // namespace
}  // namespace multifora

MULTIFORA_PLUGIN(codec_null, "codec-null", "1.0.0", multifora::register_plugin)
