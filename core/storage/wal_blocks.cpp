#include "core/storage/wal_blocks.h"

#include <algorithm>

#include "core/plugin/codec.h"
#include "core/storage/wal_segments.h"

namespace multifora::wal {

namespace {

constexpr std::size_t kWindowSize = 256 * 1024;

std::unexpected<Status> damaged(std::string what) {
  return fail(ErrorCode::kDataCorruptionDetected, std::move(what));
}

// The size of the batch record that `rest` starts with, if its header is there.
std::optional<std::size_t> record_size(Bytes rest) {
  if (rest.size() < kBatchHeaderSize) return {};
  return kBatchHeaderSize + load_le<std::uint32_t>(rest.data() + 8);
}

}  // namespace

Result<Bytes> SegmentWindow::view_some(std::uint64_t offset, std::size_t size) {
  const bool hit = offset >= buffer_offset_ && offset + size <= buffer_offset_ + buffer_.size();
  if (!hit) {
    const std::uint64_t left = segment_.size > offset ? segment_.size - offset : 0;
    buffer_.resize(std::min<std::uint64_t>(std::max(size, kWindowSize), left));
    buffer_offset_ = offset;
    MULTIFORA_ASSIGN_R(const std::size_t got,
                       segment_.file->read(offset, buffer_.data(), buffer_.size()));
    buffer_.resize(got);
  }
  return Bytes(buffer_).substr(offset - buffer_offset_);
}

Result<Bytes> SegmentWindow::view(std::uint64_t offset, std::size_t size) {
  MULTIFORA_ASSIGN_R(const Bytes bytes, view_some(offset, size));
  return bytes.substr(0, size);
}

Result<std::optional<BlockView>> read_block(SegmentWindow& window, std::uint64_t stream,
                                            std::uint32_t log_id) {
  const Segment& segment = window.segment();
  const std::uint64_t offset = stream - segment.start;
  const std::uint64_t room = segment.size > offset ? segment.size - offset : 0;
  if (room < kBlockHeaderSize) return std::nullopt;
  MULTIFORA_ASSIGN_R(const Bytes head, window.view(offset, kBlockHeaderSize));
  if (head.size() < kBlockHeaderSize) return std::nullopt;
  BlockView block;
  std::memcpy(&block.header, head.data(), kBlockHeaderSize);
  if (!plausible(block.header, stream, room)) return std::nullopt;
  if (log_id != 0 && block.header.log_id != log_id) return std::nullopt;
  const std::size_t size = kBlockHeaderSize + block.header.stored_size;
  MULTIFORA_ASSIGN_R(const Bytes bytes, window.view(offset, size));
  if (bytes.size() < size || !hash_matches(bytes)) return std::nullopt;
  block.stored = bytes.substr(kBlockHeaderSize);
  block.stream_end = stream + align_block(size);
  return block;
}

std::string describe_place(const Segment& segment, std::uint64_t stream) {
  return segment.path + " at offset " + std::to_string(stream - segment.start);
}

Result<bool> for_each_block(std::span<const std::shared_ptr<Segment>> segments, std::uint64_t begin,
                            std::uint64_t end, std::uint32_t log_id,
                            const std::function<Result<bool>(Segment&, const BlockView&)>& visit) {
  std::optional<std::uint64_t> previous_hash;
  std::uint64_t stream = begin;
  const Segment* place = nullptr;
  for (const auto& segment : segments) {
    if (segment->end() <= begin) continue;
    if (segment->first_block() >= end) break;
    place = segment.get();
    SegmentWindow window(*segment);
    stream = std::max(begin, segment->first_block());
    while (stream < end) {
      MULTIFORA_ASSIGN_R(const auto block, read_block(window, stream, log_id));
      if (!block) break;
      if (previous_hash && block->header.previous_hash != *previous_hash) break;
      MULTIFORA_ASSIGN_R(const bool go_on, visit(*segment, *block));
      if (!go_on) return false;
      previous_hash = block->header.hash;
      stream = block->stream_end;
    }
    if (stream >= end) return true;
  }
  if (stream >= end) return true;
  return damaged("the log is damaged: " +
                 (place ? "no whole block in " + describe_place(*place, stream)
                        : std::string("a segment is missing")));
}

Result<Bytes> raw_payload(const BlockView& block, const Codec* codec, Buffer& scratch) {
  if (block.header.coding == BlockCoding::kRaw) return block.stored;
  if (codec == nullptr) return damaged("a compressed block in a segment that names no codec");
  scratch.resize(block.header.raw_size);
  if (!codec->decompress(block.stored, scratch.data(), scratch.size()))
    return damaged("a block that codec " + std::string(codec->name) + " cannot decompress");
  return Bytes(scratch);
}

// Delivers the record that `rest` starts with (it is there whole) and removes it.
Result<bool> BatchAssembler::deliver(Bytes& rest, LogPosition& last, const Visit& visit) {
  const auto position = load_le<std::uint64_t>(rest.data());
  if (position <= last) return damaged("batches out of order");
  last = position;
  const std::size_t size = *record_size(rest);
  const Bytes batch = rest.substr(kBatchHeaderSize, size - kBatchHeaderSize);
  rest.remove_prefix(size);
  return visit(position, batch);
}

Result<bool> BatchAssembler::feed(const BlockHeader& header, Bytes raw, const Visit& visit) {
  if (header.kind == BlockKind::kMiddle || header.kind == BlockKind::kLast)
    return feed_piece(header, raw, visit);
  // What a crash left unfinished was given up when this block was written in its place.
  started_ = false;
  carry_.clear();
  LogPosition last = header.after;
  bool go_on = true;
  while (go_on) {
    const auto size = record_size(raw);
    if (!size || *size > raw.size()) break;
    MULTIFORA_ASSIGN_R(go_on, deliver(raw, last, visit));
  }
  if (!go_on) return false;
  if (last != header.last) return damaged("a block that does not end where its header says");
  if (raw.empty() != (header.kind == BlockKind::kWhole))
    return damaged("a block whose batches do not fit its kind");
  started_ = header.kind == BlockKind::kFirst;
  carry_.assign(raw);
  return true;
}

// A log whose first segments were recycled may begin with the rest of a batch: that is skipped.
Result<bool> BatchAssembler::feed_piece(const BlockHeader& header, Bytes raw, const Visit& visit) {
  if (!started_) return true;
  carry_.append(raw);
  if (header.kind == BlockKind::kMiddle) {
    if (header.last != header.after) return damaged("a piece of a batch that claims an end");
    return true;
  }
  Bytes rest(carry_);
  const auto size = record_size(rest);
  if (!size || *size != rest.size()) return damaged("a batch whose pieces do not fit together");
  LogPosition last = header.after;
  const Result<bool> go_on = deliver(rest, last, visit);
  started_ = false;
  carry_.clear();
  if (carry_.capacity() > 4 * kWindowSize) carry_ = Buffer();
  if (go_on && last != header.last) return damaged("a batch with another position than its block");
  return go_on;
}

}  // namespace multifora::wal
