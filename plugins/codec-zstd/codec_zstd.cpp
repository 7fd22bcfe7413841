// The codec "zstd": Zstandard frames, as OP_COMPRESSED's compressor 3 uses them, and for the log.
#include <zstd.h>

#include "core/plugin/codec.h"
#include "core/plugin/context_pool.h"
#include "core/plugin/plugin.h"

namespace multifora {
namespace {

constexpr int kLevelMin = 1;
constexpr int kLevelMax = 19;  // above: windows of many MiB for each context

void free_compressor(ZSTD_CCtx* context) { ZSTD_freeCCtx(context); }
void free_decompressor(ZSTD_DCtx* context) { ZSTD_freeDCtx(context); }
using Compressors = ContextPool<ZSTD_CCtx, free_compressor>;
using Decompressors = ContextPool<ZSTD_DCtx, free_decompressor>;

// Never destroyed: a thread may still use them while the process ends.
Compressors& compressors() {
  static Compressors& pool = *new Compressors();
  return pool;
}
Decompressors& decompressors() {
  static Decompressors& pool = *new Decompressors();
  return pool;
}

std::size_t bound(std::size_t size) { return ZSTD_compressBound(size); }

std::optional<std::size_t> compress(Bytes from, char* to, std::size_t capacity, int level) {
  Compressors::Owned context = compressors().take();
  if (!context) context.reset(ZSTD_createCCtx());
  if (!context) return std::nullopt;
  const std::size_t size =
      ZSTD_compressCCtx(context.get(), to, capacity, from.data(), from.size(), level);
  compressors().give(std::move(context));
  if (ZSTD_isError(size)) return std::nullopt;
  return size;
}

bool decompress(Bytes from, char* to, std::size_t size) {
  // Exactly one frame: the library would take none, or several, for an answer too.
  if (from.empty() || ZSTD_findFrameCompressedSize(from.data(), from.size()) != from.size())
    return false;
  Decompressors::Owned context = decompressors().take();
  if (!context) context.reset(ZSTD_createDCtx());
  if (!context) return false;
  const std::size_t got =
      ZSTD_decompressDCtx(context.get(), to, size, from.data(), from.size());
  decompressors().give(std::move(context));
  return !ZSTD_isError(got) && got == size;
}

Codec codec{
    .name = "zstd",
    .wire_id = 3,
    .level_min = kLevelMin,
    .level_max = kLevelMax,
    .level_default = 3,
    .bound = bound,
    .compress = compress,
    .decompress = decompress,
};

Status register_plugin(PluginHost& host) {
  if (const auto level = host.config().integer("codec-zstd", "level")) {
    if (*level < kLevelMin || *level > kLevelMax)
      return Status(ErrorCode::kBadValue, "codec-zstd.level must be from 1 to 19");
    codec.level_default = static_cast<int>(*level);
  }
  return host.add_codec(&codec);
}

}  // namespace
}  // namespace multifora

MULTIFORA_PLUGIN(codec_zstd, "codec-zstd", "1.0.0", multifora::register_plugin)
