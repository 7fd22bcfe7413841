#include "core/storage/wal_replay.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <limits>
#include <set>

#include "core/storage/wal_blocks.h"
#include "core/storage/wal_format.h"

namespace multifora::wal {

namespace {

bool is_rest(BlockKind kind) {
  return kind == BlockKind::kMiddle || kind == BlockKind::kLast;
}
bool is_cut_off(BlockKind kind) {
  return kind == BlockKind::kFirst || kind == BlockKind::kMiddle;
}

// Follows the chain from block to block and notes what it sees.
class Chain {
 public:
  explicit Chain(ScanResult& log) : log_(log) {}

  Status walk() {
    for (std::size_t i = 0; i < log_.segments.size(); ++i) {
      MULTIFORA_ASSIGN(const bool any, walk_segment(*log_.segments[i]));
      if (!any) break;
      log_.active = i;
    }
    log_.unproven = doubtful_.empty() ? log_.end : doubtful_.front().stream;
    return {};
  }

 private:
  struct Doubtful {  // a block not known to be durable
    std::uint64_t stream;
    LogPosition newest;  // newest batch with bytes in it; kUnknown while that has not ended
    Segment* segment;
  };
  static constexpr LogPosition kUnknown = std::numeric_limits<LogPosition>::max();

  // Did the chain have a block in this segment?
  Result<bool> walk_segment(Segment& segment) {
    SegmentWindow window(segment);
    bool any = false;
    for (std::uint64_t stream = segment.first_block();;) {
      MULTIFORA_ASSIGN_R(const auto block, read_block(window, stream, log_.log_id));
      if (!block || !continues(block->header)) return any;
      if (!segment.header_status.ok()) return fail(segment.header_status);
      // A note needs no codec: a log that was closed cleanly can be taken over without it.
      if (block->header.raw_size > 0 && !segment.codec_status.ok())
        return fail(segment.codec_status);
      if (!log_.any_block) begin(block->header);
      add(segment, *block);
      any = true;
      stream = block->stream_end;
    }
  }

  bool continues(const BlockHeader& header) const {
    if (!log_.any_block) return true;
    return header.previous_hash == log_.end_hash && header.after == log_.last;
  }

  void begin(const BlockHeader& header) {
    log_.any_block = true;
    log_.log_id = header.log_id;
    log_.begin = header.stream;
    log_.base = header.after;
  }

  void add(Segment& segment, const BlockView& block) {
    const BlockHeader& header = block.header;
    // A log may begin with the rest of a batch whose beginning was recycled.
    only_rests_ = only_rests_ && is_rest(header.kind);
    if (only_rests_) log_.base = header.last;
    if (!is_rest(header.kind)) add_mark(segment, header.after, header.stream);
    segment.last = std::max(segment.last, header.last);
    resolve_pieces(header);
    doubtful_.push_back(
        {header.stream, is_cut_off(header.kind) ? kUnknown : header.last, &segment});
    while (!doubtful_.empty() && doubtful_.front().newest <= header.durable) doubtful_.pop_front();
    log_.durable = std::max(log_.durable, header.durable);
    log_.last = header.last;
    log_.end = block.stream_end;
    log_.end_hash = header.hash;
    log_.next_session = static_cast<std::uint16_t>(header.session + 1);
  }

  // A batch in pieces has ended (or was given up): now it is known which batch they belong to.
  void resolve_pieces(const BlockHeader& header) {
    if (header.kind == BlockKind::kMiddle) return;
    const LogPosition newest = header.kind == BlockKind::kLast ? header.last : header.after;
    for (auto it = doubtful_.rbegin(); it != doubtful_.rend() && it->newest == kUnknown; ++it) {
      it->newest = newest;
      it->segment->last = std::max(it->segment->last, newest);
    }
  }

  ScanResult& log_;
  bool only_rests_ = true;
  std::deque<Doubtful> doubtful_;
};

// Readable blocks that the chain does not reach.
struct Evidence {
  LogPosition durable = 0;
  std::uint64_t end = 0;  // stream offset after the last of them; 0: none
  std::set<std::uint16_t> sessions;
};

// The first place from `stream` on where a block says it belongs; the segment's end if none.
Result<std::uint64_t> next_candidate(SegmentWindow& window, std::uint64_t stream) {
  constexpr std::size_t kStreamAt = 8;
  const Segment& segment = window.segment();
  while (stream + kBlockHeaderSize <= segment.end()) {
    MULTIFORA_ASSIGN_R(const Bytes bytes,
                       window.view_some(stream - segment.start, kBlockHeaderSize));
    std::size_t at = 0;
    for (; at + kBlockHeaderSize <= bytes.size(); at += kBlockAlignment)
      if (load_le<std::uint64_t>(bytes.data() + at + kStreamAt) == stream + at) return stream + at;
    if (at == 0) break;
    stream += at;
  }
  return segment.end();
}

Status find_evidence(const Segment& segment, std::uint64_t stream, std::uint32_t log_id,
                     Evidence& found) {
  SegmentWindow window(segment);
  for (;;) {
    MULTIFORA_ASSIGN(stream, next_candidate(window, stream));
    if (stream >= segment.end()) return {};
    MULTIFORA_ASSIGN(const auto block, read_block(window, stream, log_id));
    if (block) {
      found.durable = std::max(found.durable, block->header.durable);
      found.end = std::max(found.end, block->stream_end);
      found.sessions.insert(block->header.session);
    }
    stream = block ? block->stream_end : stream + kBlockAlignment;
  }
}

// Splits off everything but the newest unbroken run of segments that reaches back to `from`.
// More than one run is left where removals before a crash became durable out of order.
Status choose_run(std::vector<SegmentPtr> all, LogPosition from, ScanResult& log) {
  std::vector<std::size_t> starts;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (i == 0 || all[i]->start != all[i - 1]->end()) starts.push_back(i);
  std::size_t begin = 0;
  for (const std::size_t start : starts) {
    SegmentWindow window(*all[start]);
    MULTIFORA_ASSIGN(const auto block, read_block(window, all[start]->first_block(), 0));
    if (block && block->header.after <= from) begin = start;
  }
  std::size_t end = begin + 1;
  while (end < all.size() && all[end]->start == all[end - 1]->end()) ++end;
  for (std::size_t i = 0; i < all.size(); ++i)
    (i >= begin && i < end ? log.segments : log.unused).push_back(std::move(all[i]));
  return {};
}

// Bytes that a block torn at the end of the log would have had; 0 where there is none.
Result<std::uint64_t> torn_block_size(const Segment& segment, const ScanResult& log) {
  BlockHeader header;
  const std::uint64_t offset = log.end - segment.start;
  MULTIFORA_ASSIGN_R(const std::size_t got, segment.file->read(offset, &header, sizeof header));
  if (got < sizeof header || !plausible(header, log.end, segment.end() - log.end)) return 0;
  return align_block(kBlockHeaderSize + header.stored_size);
}

// Nothing on record as durable may be missing behind the end of the chain.
Status check_end(ScanResult& log, LogPosition from) {
  const Segment& active = *log.segments[log.active];
  Evidence evidence;
  MULTIFORA_TRY(find_evidence(active, log.end, log.log_id, evidence));
  for (std::size_t i = log.active + 1; i < log.segments.size(); ++i)
    MULTIFORA_TRY(
        find_evidence(*log.segments[i], log.segments[i]->first_block(), log.log_id, evidence));
  for (const SegmentPtr& segment : log.unused)
    if (segment->start >= active.end())
      MULTIFORA_TRY(find_evidence(*segment, segment->first_block(), log.log_id, evidence));
  if (evidence.durable > std::max(log.last, from))
    return Status(ErrorCode::kDataCorruptionDetected,
                  "the log is damaged in " + describe_place(active, log.end) +
                      ": batches up to position " + std::to_string(evidence.durable) +
                      " were durable, but only those up to " + std::to_string(log.last) +
                      " can be read");
  for (std::size_t i = 0; i < evidence.sessions.size(); ++i)
    if (evidence.sessions.contains(log.next_session)) ++log.next_session;
  MULTIFORA_ASSIGN(log.truncated_bytes, torn_block_size(active, log));
  if (evidence.end > log.end)
    log.truncated_bytes = std::max(log.truncated_bytes, evidence.end - log.end);
  return {};
}

}  // namespace

Result<ScanResult> scan(std::vector<SegmentPtr> segments, LogPosition from) {
  ScanResult log;
  if (segments.empty()) return log;
  MULTIFORA_TRY_R(choose_run(std::move(segments), from, log));
  log.end = log.segments.front()->first_block();
  MULTIFORA_TRY_R(Chain(log).walk());
  if (log.any_block && log.base > from)
    return fail(ErrorCode::kDataCorruptionDetected,
                "the log begins after position " + std::to_string(log.base) + " in " +
                    log.segments.front()->path + ", but the data stands at position " +
                    std::to_string(from));
  MULTIFORA_TRY_R(check_end(log, from));
  return log;
}

Status replay(const ScanResult& log, LogPosition from,
              const std::function<Status(LogPosition, Bytes)>& apply) {
  if (!log.any_block || log.last <= from) return {};
  BatchAssembler batches;
  Buffer scratch;
  const auto visit_batch = [&](LogPosition position, Bytes batch) -> Result<bool> {
    if (position > from) MULTIFORA_TRY_R(apply(position, batch));
    return true;
  };
  const auto visit_block = [&](Segment& segment, const BlockView& block) -> Result<bool> {
    Result<Bytes> raw = raw_payload(block, segment.codec, scratch);
    if (!raw)
      return fail(
          std::move(raw).error().with_context(describe_place(segment, block.header.stream)));
    return batches.feed(block.header, *raw, visit_batch);
  };
  const std::uint64_t begin = find_mark(log.segments, from).value_or(log.begin);
  MULTIFORA_ASSIGN(const bool all,
                   for_each_block(log.segments, begin, log.end, log.log_id, visit_block));
  (void)all;
  return {};
}

Status make_durable(const ScanResult& log) {
  if (log.unproven >= log.end) return {};
  std::vector<Segment*> touched;
  const auto rewrite = [&](Segment& segment, const BlockView& block) -> Result<bool> {
    const char* at = block.stored.data() - kBlockHeaderSize;
    const Bytes bytes(at, kBlockHeaderSize + block.stored.size());
    MULTIFORA_TRY_R(segment.file->write(block.header.stream - segment.start, bytes));
    if (touched.empty() || touched.back() != &segment) touched.push_back(&segment);
    return true;
  };
  MULTIFORA_ASSIGN(const bool all,
                   for_each_block(log.segments, log.unproven, log.end, log.log_id, rewrite));
  (void)all;
  for (Segment* segment : touched) MULTIFORA_TRY(segment->file->sync());
  return {};
}

}  // namespace multifora::wal
