// OP_COMPRESSED: any other message in a compressed envelope. The codecs come from the host, by the
// ids that the protocol gives them (snappy 1, zlib 2, zstd 3; 0 is "noop", a plain copy).
//
// The size that a message states for its contents is believed only up to the message limit, and a
// codec writes into exactly that much: a small message cannot take more memory than a large one.
#pragma once

#include "core/base/bytes.h"
#include "core/base/status.h"

namespace multifora {
class PluginHost;
}

namespace multifora::wire {

// Undoes the envelope of `message` (opcode OP_COMPRESSED) into `out`, a whole message. Stores the
// compressor's id. ProtocolError for anything malformed, an envelope inside an envelope, or a
// compressor that is not loaded: the connection is to be closed.
Status decompress_message(const PluginHost& host, Bytes message, Buffer& out,
                          std::uint8_t* compressor);

// Wraps the whole message in `message` into `out`. False: the codec declined, send it as it is.
bool compress_message(const PluginHost& host, std::uint8_t compressor, Bytes message, Buffer& out);

}  // namespace multifora::wire
