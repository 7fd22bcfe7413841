// Puts sealed blocks into segments: place, header, hash, write, sync. One thread at a time: whoever
// is the log writer at the moment. Reads nothing that other threads change.
//
// A failure of write() or sync() is final; the caller must not use the writer again.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/metrics.h"
#include "core/base/status.h"
#include "core/storage/types.h"
#include "core/storage/wal_format.h"
#include "core/storage/wal_segments.h"

namespace multifora::wal {

// Batches that wait to be written: room for a block header, then batch records. Immutable once
// sealed but for the header's room, which only the writer touches.
struct SealedBlock {
  Buffer buffer;
  LogPosition last = 0;
  std::uint64_t charge = 0;  // see batch_charge
  std::uint32_t batches = 0;
  bool refers = false;  // to bytes outside of the log, which must be durable first

  Bytes payload() const { return Bytes(buffer).substr(kBlockHeaderSize); }
};

// Where the log goes on.
struct WriteState {
  SegmentPtr segment;
  std::uint64_t stream = 0;         // of the next block
  std::uint64_t previous_hash = 0;  // of the block before it
  LogPosition last = 0;             // newest batch that has ended
  LogPosition durable = 0;          // newest position on record as durable
  std::uint32_t log_id = 0;
  std::uint16_t session = 0;
};

class BlockWriter {
 public:
  // What was written where; the caller takes it over into what readers see.
  struct Placed {
    SegmentPtr segment;
    std::uint64_t stream;
    LogPosition after;   // batches that end in the block are newer than this
    LogPosition newest;  // the newest batch with bytes in the block
    bool starts;         // a batch starts here: reading may begin with this block
  };
  // The next prepared segment. Space was promised before the append, so there is one.
  using NextSegment = std::function<SegmentPtr()>;

  BlockWriter(WriteState state, NextSegment next_segment, Metrics& metrics);

  // `durable` is the newest position known durable. `compress`: try the segment's codec.
  Status write(SealedBlock& block, LogPosition durable, bool compress);
  // Everything written is durable after OK.
  Status sync();

  const WriteState& state() const { return state_; }
  std::vector<Placed> take_placed() { return std::exchange(placed_, {}); }

 private:
  std::uint64_t room() const { return state_.segment->end() - state_.stream; }
  BlockHeader make_header(BlockKind kind, std::size_t size, LogPosition last) const;
  Status write_in_place(SealedBlock& block);
  Result<bool> write_compressed(const SealedBlock& block);
  Status write_in_pieces(const SealedBlock& block);
  Status write_piece(BlockKind kind, Bytes piece, LogPosition last, LogPosition newest);
  Status put(const BlockHeader& header, Bytes bytes, LogPosition newest);
  void advance(const BlockHeader& header, LogPosition newest);
  void switch_segment();

  WriteState state_;
  const NextSegment next_segment_;
  LogPosition durable_ = 0;
  std::vector<SegmentPtr> unsynced_;
  std::vector<Placed> placed_;
  Buffer compressed_;
  int compress_skips_ = 0;  // blocks to go before the codec is tried again
  Counter& blocks_;
  Counter& bytes_;
  Counter& compressed_blocks_;
};

}  // namespace multifora::wal
