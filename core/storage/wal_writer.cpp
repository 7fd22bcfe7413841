#include "core/storage/wal_writer.h"

#include <algorithm>

#include "core/base/assert.h"
#include "core/plugin/codec.h"

namespace multifora::wal {

namespace {

// Below this much room the end of a segment is left empty rather than given a piece of a batch.
constexpr std::uint64_t kPieceRoomMin = 128;
// Payloads below this are not worth a codec's while.
constexpr std::size_t kCompressSizeMin = 16 * 1024;
constexpr std::size_t kProbeSize = 8 * 1024;
// After a probe that did not pay, so many blocks are stored raw untried.
constexpr int kSkipsAfterDecline = 15;

// What fits of a payload into the end of a segment.
struct Cut {
  LogPosition last;          // newest batch that is whole before the cut; 0: none
  LogPosition cut_position;  // the batch that is cut; 0: the cut falls between two
  std::size_t rest;          // bytes of that batch after the cut
};

Cut find_cut(Bytes payload, std::size_t room) {
  Cut cut{};
  std::size_t at = 0;
  while (at < room) {
    const auto position = load_le<std::uint64_t>(payload.data() + at);
    const std::size_t end = at + kBatchHeaderSize + load_le<std::uint32_t>(payload.data() + at + 8);
    if (end > room) return {cut.last, position, end - room};
    cut.last = position;
    at = end;
  }
  return cut;
}

// Would compressing save at least an eighth?
bool pays(Bytes raw, std::size_t compressed_size) {
  return compressed_size <= raw.size() - raw.size() / 8;
}

}  // namespace

BlockWriter::BlockWriter(WriteState state, NextSegment next_segment, Metrics& metrics)
    : state_(std::move(state)),
      next_segment_(std::move(next_segment)),
      blocks_(metrics.counter("wal_blocks_total", "Log blocks written")),
      bytes_(metrics.counter("wal_written_bytes_total", "Bytes written to the log")),
      compressed_blocks_(
          metrics.counter("wal_compressed_blocks_total", "Log blocks stored compressed")) {}

BlockHeader BlockWriter::make_header(BlockKind kind, std::size_t size, LogPosition last) const {
  BlockHeader header{};
  header.stream = state_.stream;
  header.after = state_.last;
  header.last = last;
  header.durable = durable_;
  header.previous_hash = state_.previous_hash;
  header.log_id = state_.log_id;
  header.session = state_.session;
  header.stored_size = static_cast<std::uint32_t>(size);
  header.raw_size = header.stored_size;
  header.kind = kind;
  header.coding = BlockCoding::kRaw;
  return header;
}

Status BlockWriter::write(SealedBlock& block, LogPosition durable, bool compress) {
  durable_ = durable;
  if (compress) {
    MULTIFORA_ASSIGN(const bool done, write_compressed(block));
    if (done) return {};
  }
  if (block.buffer.size() > room() && room() < kBlockHeaderSize + kPieceRoomMin) switch_segment();
  if (block.buffer.size() <= room()) return write_in_place(block);
  return write_in_pieces(block);
}

Status BlockWriter::write_in_place(SealedBlock& block) {
  BlockHeader header = make_header(BlockKind::kWhole, block.payload().size(), block.last);
  seal_header_at(block.buffer.data(), header);
  return put(header, block.buffer, block.last);
}

// True if the block was written compressed. The codec may decline, and so may we.
Result<bool> BlockWriter::write_compressed(const SealedBlock& block) {
  const Codec* codec = state_.segment->codec;
  const Bytes raw = block.payload();
  if (codec == nullptr || raw.size() < kCompressSizeMin) return false;
  if (compress_skips_ > 0) {
    --compress_skips_;
    return false;
  }
  compressed_.resize(kBlockHeaderSize + codec->bound(raw.size()));
  char* const to = compressed_.data() + kBlockHeaderSize;
  const std::size_t capacity = compressed_.size() - kBlockHeaderSize;
  const Bytes probe = raw.substr(0, kProbeSize);
  auto size = codec->compress(probe, to, capacity, codec->level_default);
  if (size && pays(probe, *size))
    size = codec->compress(raw, to, capacity, codec->level_default);
  else
    size.reset();
  if (!size || !pays(raw, *size)) {
    compress_skips_ = kSkipsAfterDecline;
    return false;
  }
  if (kBlockHeaderSize + *size > room()) return false;
  BlockHeader header = make_header(BlockKind::kWhole, *size, block.last);
  header.raw_size = static_cast<std::uint32_t>(raw.size());
  header.coding = BlockCoding::kCodec;
  seal_header_at(compressed_.data(), header);
  MULTIFORA_TRY_R(put(header, Bytes(compressed_).substr(0, kBlockHeaderSize + *size), block.last));
  compressed_blocks_.add();
  return true;
}

// The payload does not fit what is left of the segment: it is cut there, wherever that falls.
Status BlockWriter::write_in_pieces(const SealedBlock& block) {
  Bytes rest = block.payload();
  while (!rest.empty()) {
    if (room() < kBlockHeaderSize + kPieceRoomMin) switch_segment();
    const std::size_t fits = room() - kBlockHeaderSize;
    if (rest.size() <= fits) {
      MULTIFORA_TRY(write_piece(BlockKind::kWhole, rest, block.last, block.last));
      return {};
    }
    const Cut cut = find_cut(rest, fits);
    const LogPosition last = cut.last ? cut.last : state_.last;
    const bool between = cut.cut_position == 0;
    MULTIFORA_TRY(write_piece(between ? BlockKind::kWhole : BlockKind::kFirst, rest.substr(0, fits),
                              last, between ? last : cut.cut_position));
    rest.remove_prefix(fits);
    for (std::size_t left = cut.rest; left > 0;) {
      switch_segment();
      const std::size_t n = std::min<std::size_t>(left, room() - kBlockHeaderSize);
      const bool ends = n == left;
      MULTIFORA_TRY(write_piece(ends ? BlockKind::kLast : BlockKind::kMiddle, rest.substr(0, n),
                                ends ? cut.cut_position : state_.last, cut.cut_position));
      rest.remove_prefix(n);
      left -= n;
    }
  }
  return {};
}

// Pieces have no room for a header before them: readers may be looking at the bytes there.
Status BlockWriter::write_piece(BlockKind kind, Bytes piece, LogPosition last, LogPosition newest) {
  BlockHeader header = make_header(kind, piece.size(), last);
  seal_header(header, piece);
  const std::uint64_t offset = state_.stream - state_.segment->start;
  MULTIFORA_TRY(state_.segment->file->write(offset + kBlockHeaderSize, piece));
  return put(header, Bytes(reinterpret_cast<const char*>(&header), kBlockHeaderSize), newest);
}

Status BlockWriter::put(const BlockHeader& header, Bytes bytes, LogPosition newest) {
  if (unsynced_.empty() || unsynced_.back() != state_.segment) unsynced_.push_back(state_.segment);
  MULTIFORA_TRY(state_.segment->file->write(state_.stream - state_.segment->start, bytes));
  advance(header, newest);
  return {};
}

void BlockWriter::advance(const BlockHeader& header, LogPosition newest) {
  placed_.push_back({state_.segment, state_.stream, header.after, newest,
                     header.kind == BlockKind::kWhole || header.kind == BlockKind::kFirst});
  const std::uint64_t size = align_block(kBlockHeaderSize + header.stored_size);
  state_.stream += size;
  state_.previous_hash = header.hash;
  state_.last = header.last;
  state_.durable = header.durable;
  blocks_.add();
  bytes_.add(size);
}

void BlockWriter::switch_segment() {
  state_.segment = next_segment_();
  MULTIFORA_ASSERT(state_.segment != nullptr &&
                   state_.segment->size > sizeof(FileHeader) + kBlockHeaderSize + kPieceRoomMin);
  state_.stream = state_.segment->first_block();
}

// Oldest first: a later block that is durable must not stand behind one that can still be lost
// for longer than one round.
Status BlockWriter::sync() {
  for (const SegmentPtr& segment : unsynced_) MULTIFORA_TRY(segment->file->sync());
  unsynced_.clear();
  return {};
}

}  // namespace multifora::wal
