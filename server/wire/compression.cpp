#include "server/wire/compression.h"

#include <cstring>

#include "core/base/limits.h"
#include "core/plugin/codec.h"
#include "core/plugin/host.h"
#include "server/wire/message.h"

namespace multifora::wire {
namespace {

constexpr std::size_t kEnvelopeSize = kHeaderSize + 4 + 4 + 1;
constexpr std::uint8_t kNoop = 0;

Status refuse(const std::string& what) {
  return {ErrorCode::kProtocolError, "malformed OP_COMPRESSED: " + what};
}

Status unpack(const PluginHost& host, std::uint8_t id, Bytes from, char* to, std::size_t size) {
  if (id == kNoop) {
    if (from.size() != size) return refuse("size differs from the one stated");
    std::memcpy(to, from.data(), size);
    return {};
  }
  const Codec* codec = host.wire_codec(id);
  if (codec == nullptr) return refuse("compressor " + std::to_string(id) + " is not loaded");
  if (!codec->decompress(from, to, size))
    return refuse(std::string(codec->name) + " data is damaged or of another size than stated");
  return {};
}

}  // namespace

Status decompress_message(const PluginHost& host, Bytes message, Buffer& out,
                          std::uint8_t* compressor) {
  if (message.size() < kEnvelopeSize) return refuse("cut short");
  Header header = parse_header(message);
  const auto op_code = load_le<std::int32_t>(message.data() + kHeaderSize);
  const auto stated = load_le<std::int32_t>(message.data() + kHeaderSize + 4);
  *compressor = static_cast<std::uint8_t>(message[kHeaderSize + 8]);
  if (op_code != kOpMsg && op_code != kOpQuery)
    return refuse("contains opcode " + std::to_string(op_code));
  if (stated < 0 || static_cast<std::size_t>(stated) > limits::kMessageSizeMax - kHeaderSize)
    return refuse("states a size of " + std::to_string(stated));
  const auto size = static_cast<std::size_t>(stated);
  out.clear();
  // Not the size that the callee is told: GCC 12's library says how much it has allocated.
  out.resize_and_overwrite(kHeaderSize + size,
                           [size](char*, std::size_t) { return kHeaderSize + size; });
  store_le(out.data(), static_cast<std::int32_t>(out.size()));
  store_le(out.data() + 4, header.request_id);
  store_le(out.data() + 8, header.response_to);
  store_le(out.data() + 12, op_code);
  return unpack(host, *compressor, message.substr(kEnvelopeSize), out.data() + kHeaderSize, size);
}

bool compress_message(const PluginHost& host, std::uint8_t compressor, Bytes message,
                      Buffer& out) {
  const Header header = parse_header(message);
  const Bytes body = message.substr(kHeaderSize);
  const Codec* codec = compressor == kNoop ? nullptr : host.wire_codec(compressor);
  if (codec == nullptr) return false;
  const std::size_t capacity = codec->bound(body.size());
  out.clear();
  bool packed = false;
  out.resize_and_overwrite(kEnvelopeSize + capacity, [&](char* to, std::size_t) {
    const auto size =
        codec->compress(body, to + kEnvelopeSize, capacity, codec->level_default);
    packed = size.has_value() && kEnvelopeSize + *size <= limits::kMessageSizeMax;
    return packed ? kEnvelopeSize + *size : 0;
  });
  if (!packed) return false;
  char* to = out.data();
  store_le(to, static_cast<std::int32_t>(out.size()));
  store_le(to + 4, header.request_id);
  store_le(to + 8, header.response_to);
  store_le(to + 12, std::int32_t{kOpCompressed});
  store_le(to + kHeaderSize, header.op_code);
  store_le(to + kHeaderSize + 4, static_cast<std::int32_t>(body.size()));
  to[kHeaderSize + 8] = static_cast<char>(compressor);
  return true;
}

}  // namespace multifora::wire
