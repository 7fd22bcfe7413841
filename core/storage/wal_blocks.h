// Reading the log back: a window on a segment file, one block from it, whole batches out of blocks.
// Used by replay and by Wal::read(). Each object belongs to one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "core/base/bytes.h"
#include "core/base/file.h"
#include "core/base/status.h"
#include "core/storage/types.h"
#include "core/storage/wal_format.h"

namespace multifora {
struct Codec;
}

namespace multifora::wal {

struct Segment;

// Reads a segment in large pieces, so that small blocks do not cost a system call each.
class SegmentWindow {
 public:
  explicit SegmentWindow(const Segment& segment) : segment_(segment) {}
  const Segment& segment() const { return segment_; }
  // Bytes [offset, offset + size) of the file, fewer at its end. Live until the next call.
  Result<Bytes> view(std::uint64_t offset, std::size_t size);
  // As much as is at hand from `offset` on, at least `size` bytes unless the file ends.
  Result<Bytes> view_some(std::uint64_t offset, std::size_t size);

 private:
  const Segment& segment_;
  Buffer buffer_;
  std::uint64_t buffer_offset_ = 0;
};

struct BlockView {
  BlockHeader header;
  Bytes stored;              // lives until the window is used again
  std::uint64_t stream_end;  // where a next block would start
};

// The block at stream offset `stream`, nullopt if there is none that is whole. log_id 0: any log.
// A Status only where the file cannot be read.
Result<std::optional<BlockView>> read_block(SegmentWindow& window, std::uint64_t stream,
                                            std::uint32_t log_id);

// Calls `visit` for each block in [begin, end) of the stream; returns false if it said stop.
// DataCorruptionDetected where the chain of blocks breaks before `end`.
Result<bool> for_each_block(std::span<const std::shared_ptr<Segment>> segments, std::uint64_t begin,
                            std::uint64_t end, std::uint32_t log_id,
                            const std::function<Result<bool>(Segment&, const BlockView&)>& visit);
// "dir/name.wal at offset 4711", for messages.
std::string describe_place(const Segment& segment, std::uint64_t stream);

// The raw payload of a block: `stored` itself or decompressed into `scratch`.
Result<Bytes> raw_payload(const BlockView& block, const Codec* codec, Buffer& scratch);

// Puts batches together. Blocks must be fed in order.
class BatchAssembler {
 public:
  // Returns false to stop. The batch lives for the call.
  using Visit = std::function<Result<bool>(LogPosition, Bytes)>;
  // False if a visit said stop. DataCorruptionDetected where a proven block does not hold what its
  // header says (a bug or a forged file).
  Result<bool> feed(const BlockHeader& header, Bytes raw, const Visit& visit);

 private:
  Result<bool> feed_piece(const BlockHeader& header, Bytes raw, const Visit& visit);
  Result<bool> deliver(Bytes& rest, LogPosition& last, const Visit& visit);

  bool started_ = false;
  Buffer carry_;
};

}  // namespace multifora::wal
