// Wal::read(): batches from the segment files, then from memory.
#include <limits>

#include "core/storage/wal_blocks.h"
#include "core/storage/wal_impl.h"

namespace multifora {

namespace {

// What one reader looks at: chosen under the mutex, read without it.
struct View {
  std::vector<wal::SegmentPtr> segments;  // pinned
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::vector<std::shared_ptr<wal::SealedBlock>> pending;
  Buffer open_payload;
};

// Delivers what is asked for and remembers when to stop.
class Delivery {
 public:
  Delivery(LogPosition from, LogPosition limit,
           const std::function<bool(LogPosition, Bytes)>& visit)
      : from_(from), limit_(limit), visit_(visit) {}
  bool operator()(LogPosition position, Bytes batch) const {
    if (position <= from_) return true;
    return position <= limit_ && visit_(position, batch);
  }

 private:
  LogPosition from_;
  LogPosition limit_;
  const std::function<bool(LogPosition, Bytes)>& visit_;
};

Result<bool> deliver_files(const View& view, std::uint32_t log_id, const Delivery& deliver) {
  wal::BatchAssembler batches;
  Buffer scratch;
  return wal::for_each_block(
      view.segments, view.begin, view.end, log_id,
      [&](wal::Segment& segment, const wal::BlockView& block) -> Result<bool> {
        MULTIFORA_ASSIGN_R(const Bytes raw, wal::raw_payload(block, segment.codec, scratch));
        return batches.feed(block.header, raw, [&](LogPosition position, Bytes batch) {
          return Result<bool>(deliver(position, batch));
        });
      });
}

bool deliver_payload(Bytes payload, const Delivery& deliver) {
  while (!payload.empty()) {
    const auto position = load_le<std::uint64_t>(payload.data());
    const auto size = load_le<std::uint32_t>(payload.data() + 8);
    if (!deliver(position, payload.substr(wal::kBatchHeaderSize, size))) return false;
    payload.remove_prefix(wal::kBatchHeaderSize + size);
  }
  return true;
}

}  // namespace

Status Wal::Impl::read(LogPosition from, bool include_unsynced,
                       const std::function<bool(LogPosition, Bytes)>& visit) {
  View view;
  Lock lock(mutex);
  if (segments.empty()) return failure;  // closed
  if (from < base)
    return Status(ErrorCode::kCappedPositionLost, "the log no longer holds what follows position " +
                                                      std::to_string(from) + "; it begins after " +
                                                      std::to_string(base));
  const LogPosition limit = include_unsynced ? last_batch : durable;
  if (from >= limit) return {};
  if (from < last_written) {
    view.segments.assign(segments.begin(),
                         segments.begin() + static_cast<std::ptrdiff_t>(active + 1));
    view.begin = wal::find_mark(view.segments, from).value_or(log_begin);
    view.end = written_end;
    for (const wal::SegmentPtr& segment : view.segments) ++segment->readers;
  }
  if (include_unsynced) {
    view.pending.assign(pending.begin(), pending.end());
    view.open_payload = open_block.payload();
  }
  lock.unlock();

  const Delivery deliver(from, limit, visit);
  Result<bool> go_on = view.segments.empty() ? true : deliver_files(view, log_id, deliver);
  for (std::size_t i = 0; i < view.pending.size() && go_on && *go_on; ++i)
    go_on = deliver_payload(view.pending[i]->payload(), deliver);
  if (go_on && *go_on) (void)deliver_payload(view.open_payload, deliver);

  lock.lock();
  for (const wal::SegmentPtr& segment : view.segments) --segment->readers;
  view.pending.clear();
  return go_on ? Status() : std::move(go_on).error();
}

}  // namespace multifora
