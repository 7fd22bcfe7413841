// A codec compresses blocks of bytes: log blocks, later cold segments, and wire messages.
//
// A codec is one immutable static descriptor, registered in a PluginHost by its plugin. Its *name*
// is what files record. Functions are called from any thread, allocate nothing that outlives the
// call, and are safe on hostile input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/base/bytes.h"

namespace multifora {

struct Codec {
  // Persisted and used in configuration: "none", "lz4", "zstd".
  std::string_view name;
  // Compressor id of OP_COMPRESSED where the protocol has one (snappy 1, zlib 2, zstd 3), else 0.
  std::uint8_t wire_id = 0;
  int level_min = 0;
  int level_max = 0;
  int level_default = 0;

  // Largest compressed size of `size` bytes.
  std::size_t (*bound)(std::size_t size);
  // Compresses all of `from` into `to` (capacity bytes). nullopt: declined (does not fit or is not
  // worth it); the caller then stores the bytes raw.
  std::optional<std::size_t> (*compress)(Bytes from, char* to, std::size_t capacity, int level);
  // Decompresses exactly `size` bytes into `to`. False on anything else: malformed input, another
  // size. Never reads or writes outside its arguments.
  bool (*decompress)(Bytes from, char* to, std::size_t size);
};

}  // namespace multifora
