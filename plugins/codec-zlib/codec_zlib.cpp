// The codec "zlib": RFC 1950 streams, as OP_COMPRESSED's compressor 2 uses them.
#include <zlib.h>

#include <limits>

#include "core/plugin/codec.h"
#include "core/plugin/context_pool.h"
#include "core/plugin/plugin.h"

namespace multifora {
namespace {

constexpr std::size_t kSizeMax = std::numeric_limits<uInt>::max();

void end_deflate(z_stream* stream) {
  deflateEnd(stream);
  delete stream;
}
void end_inflate(z_stream* stream) {
  inflateEnd(stream);
  delete stream;
}
using Deflaters = ContextPool<z_stream, end_deflate>;
using Inflaters = ContextPool<z_stream, end_inflate>;

// Never destroyed: a thread may still use them while the process ends.
Deflaters& deflaters() {
  static Deflaters& pool = *new Deflaters();
  return pool;
}
Inflaters& inflaters() {
  static Inflaters& pool = *new Inflaters();
  return pool;
}

void point(z_stream& stream, Bytes from, char* to, std::size_t capacity) {
  // zlib's C interface has no const; it does not write to its input.
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(from.data()));
  stream.avail_in = static_cast<uInt>(from.size());
  stream.next_out = reinterpret_cast<Bytef*>(to);
  stream.avail_out = static_cast<uInt>(capacity);
}

std::size_t bound(std::size_t size) { return compressBound(size); }

Deflaters::Owned deflater(int level) {
  Deflaters::Owned stream = deflaters().take();
  if (stream) {
    deflateReset(stream.get());
    deflateParams(stream.get(), level, Z_DEFAULT_STRATEGY);
    return stream;
  }
  auto fresh = std::make_unique<z_stream>();
  if (deflateInit(fresh.get(), level) != Z_OK) return nullptr;
  return Deflaters::Owned(fresh.release());
}

std::optional<std::size_t> compress(Bytes from, char* to, std::size_t capacity, int level) {
  if (from.size() > kSizeMax || capacity > kSizeMax) return std::nullopt;
  Deflaters::Owned stream = deflater(level);
  if (!stream) return std::nullopt;
  point(*stream, from, to, capacity);
  const bool whole = deflate(stream.get(), Z_FINISH) == Z_STREAM_END;
  const std::size_t size = stream->total_out;
  deflaters().give(std::move(stream));
  if (!whole) return std::nullopt;
  return size;
}

Inflaters::Owned inflater() {
  Inflaters::Owned stream = inflaters().take();
  if (stream) {
    inflateReset(stream.get());
    return stream;
  }
  auto fresh = std::make_unique<z_stream>();
  if (inflateInit(fresh.get()) != Z_OK) return nullptr;
  return Inflaters::Owned(fresh.release());
}

bool decompress(Bytes from, char* to, std::size_t size) {
  if (from.size() > kSizeMax || size > kSizeMax) return false;
  Inflaters::Owned stream = inflater();
  if (!stream) return false;
  // inflate refuses a null output even where none is expected.
  char none = 0;
  point(*stream, from, size == 0 ? &none : to, size);
  const bool whole = inflate(stream.get(), Z_FINISH) == Z_STREAM_END && stream->total_out == size &&
                     stream->avail_in == 0;
  inflaters().give(std::move(stream));
  return whole;
}

Codec codec{
    .name = "zlib",
    .wire_id = 2,
    .level_min = 1,
    .level_max = 9,
    .level_default = 6,
    .bound = bound,
    .compress = compress,
    .decompress = decompress,
};

Status register_plugin(PluginHost& host) {
  if (const auto level = host.config().integer("codec-zlib", "level")) {
    if (*level < codec.level_min || *level > codec.level_max)
      return Status(ErrorCode::kBadValue, "codec-zlib.level must be from 1 to 9");
    codec.level_default = static_cast<int>(*level);
  }
  return host.add_codec(&codec);
}

}  // namespace
}  // namespace multifora

MULTIFORA_PLUGIN(codec_zlib, "codec-zlib", "1.0.0", multifora::register_plugin)
