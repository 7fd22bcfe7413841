// Space of the log: promises, segments made ahead of need, recycling, closing.
#include <algorithm>
#include <bit>

#include "core/base/assert.h"
#include "core/storage/wal_impl.h"

namespace multifora {

namespace {

// Kept back in each segment for the headers of a batch that is cut at its end.
constexpr std::uint64_t kSegmentSlack = 512;
// Of the largest size. With checkpoints at the default volume a steady load makes no new segments.
constexpr std::uint64_t kSparesUnderLoad = 10;
// reserve() waits while so much is appended but not written.
constexpr std::uint64_t kBacklogMax = 64 * 1024 * 1024;

}  // namespace

// --- promises
// -------------------------------------------------------------------------------------

Result<std::uint64_t> Wal::Impl::reserve(std::uint64_t need) {
  Lock lock(mutex);
  changed_cv.wait(lock, [&] { return !failure.ok() || pending_charge <= kBacklogMax; });
  if (!failure.ok()) return fail(failure);
  if (!fits(need)) {
    const std::uint64_t failures_before = make_failures;
    shortage += need;
    shortage_refused = false;
    maker_cv.notify_one();
    space_cv.wait(lock,
                  [&] { return !failure.ok() || fits(need) || make_failures != failures_before; });
    shortage -= need;
    if (!failure.ok()) return fail(failure);
    if (!fits(need)) return fail(make_failure);
  }
  reserved += need;
  return need;
}

void Wal::Impl::give_back(std::uint64_t bytes) {
  std::lock_guard lock(mutex);
  MULTIFORA_ASSERT(reserved >= bytes);
  reserved -= bytes;
  if (shortage > 0) space_cv.notify_all();
}

// What the part of a segment from `stream` on takes for certain.
std::uint64_t Wal::Impl::usable_bytes(const wal::Segment& segment, std::uint64_t stream) {
  const std::uint64_t room = segment.end() > stream ? segment.end() - stream : 0;
  return room > kSegmentSlack ? room - kSegmentSlack : 0;
}

void Wal::Impl::count_ready() {
  ready_bytes = usable_bytes(*segments[active], written_end);
  for (std::size_t i = active + 1; i < segments.size(); ++i)
    ready_bytes += usable_bytes(*segments[i], segments[i]->first_block());
}

// --- segments ahead of need
// -----------------------------------------------------------------------

bool Wal::Impl::segment_wanted() const {
  if (!failure.ok() || stopping) return false;
  if (shortage > 0 && !fits(shortage)) return !shortage_refused;
  const wal::Segment& current = *segments[active];
  const bool half_used = written_end - current.start > current.size / 2;
  return half_used && active + 1 == segments.size() && !ahead_refused;
}

// Segments grow with the part of the log that is in use between checkpoints.
std::uint64_t Wal::Impl::next_segment_size() const {
  const std::uint64_t missing =
      fits(shortage) ? 0 : pending_charge + reserved + shortage - ready_bytes;
  const std::uint64_t wanted = std::max(std::bit_floor(std::max<std::uint64_t>(live_bytes(), 1)),
                                        std::bit_ceil(missing + 2 * kSegmentSlack));
  return std::clamp(wanted, options.segment_bytes_min, options.segment_bytes_max);
}

std::uint64_t Wal::Impl::spare_bytes() const {
  std::uint64_t bytes = 0;
  for (std::size_t i = active + 1; i < segments.size(); ++i) bytes += segments[i]->size;
  return bytes;
}

void Wal::Impl::add_spare(wal::SegmentPtr segment) {
  ready_bytes += usable_bytes(*segment, segment->first_block());
  segments.push_back(std::move(segment));
  ahead_refused = false;
  space_cv.notify_all();
}

// For the writer, in the middle of its work.
wal::SegmentPtr Wal::Impl::next_segment() {
  std::lock_guard lock(mutex);
  MULTIFORA_ASSERT(active + 1 < segments.size());
  return segments[++active];
}

void Wal::Impl::maker_loop() {
  Lock lock(mutex);
  for (;;) {
    maker_cv.wait(lock, [&] { return stopping || segment_wanted(); });
    if (stopping) return;
    make_segment(lock);
  }
}

bool Wal::Impl::in_hurry() const {
  std::lock_guard lock(mutex);
  return shortage > 0 || stopping;
}

void Wal::Impl::make_segment(Lock& lock) {
  lock.unlock();
  std::lock_guard files_lock(files_mutex);
  lock.lock();
  if (!segment_wanted()) return;  // recycling was faster
  const std::uint64_t start = segments.back()->end();
  const std::uint64_t size = next_segment_size();
  lock.unlock();
  auto made = segment_files.make(start, size, [this] { return in_hurry(); });
  lock.lock();
  if (made) {
    segments_made.add();
    add_spare(std::move(*made));
    return;
  }
  make_failure = std::move(made).error().with_context("the log cannot make a segment");
  ++make_failures;
  shortage_refused = ahead_refused = true;
  log.event(LogLevel::kWarning, "storage", "A log segment could not be made.",
            {{"reason", make_failure.message()}, {"bytes", static_cast<std::int64_t>(size)}});
  space_cv.notify_all();
}

// --- recycling
// ------------------------------------------------------------------------------------

Status Wal::Impl::recycle(LogPosition position, bool load) {
  std::lock_guard files_lock(files_mutex);
  Lock lock(mutex);
  if (!failure.ok()) return failure;
  const std::uint64_t needed =
      position >= last_written
          ? written_end
          : wal::find_mark(std::span(segments).first(active + 1), position).value_or(log_begin);
  oldest_needed = std::max(oldest_needed, needed);
  const std::vector<wal::SegmentPtr> old = take_old_segments(position);
  const std::uint64_t largest = options.segment_bytes_max;
  // One more under a load: the next is asked for before the active one is full.
  const std::uint64_t wanted = appended - appended_at_recycle + (load ? largest : 0);
  const std::uint64_t keep_bytes = std::clamp(wanted, options.segment_bytes_min,
                                              load ? kSparesUnderLoad * largest : largest);
  appended_at_recycle = appended;
  lock.unlock();
  Status status;
  for (std::size_t i = 0; i < old.size() && status.ok(); ++i) status = dispose(*old[i], keep_bytes);
  if (status.ok()) status = remove_surplus(keep_bytes);
  if (status.ok()) return {};
  // Which names a crash would leave is not known any more, and a sync is never repeated.
  lock.lock();
  const std::vector<Waiter> failed = fail_log(status);
  const Status reported = failure;
  changed_cv.notify_all();
  lock.unlock();
  for (const Waiter& waiter : failed) waiter.callback(reported);
  return reported;
}

// A segment that reaches past written_end is not old: the writer, who may be further on already, may have put
// blocks there that `last` does not tell of yet.
std::vector<wal::SegmentPtr> Wal::Impl::take_old_segments(LogPosition position) {
  std::vector<wal::SegmentPtr> old;
  while (old.size() < active && segments[old.size()]->end() <= written_end &&
         segments[old.size()]->last <= position && segments[old.size()]->readers == 0) {
    base = std::max(base, segments[old.size()]->last);
    old.push_back(segments[old.size()]);
  }
  if (old.empty()) return old;
  segments.erase(segments.begin(), segments.begin() + static_cast<std::ptrdiff_t>(old.size()));
  active -= old.size();
  log_begin = segments.front()->first_block();
  return old;
}

Status Wal::Impl::dispose(const wal::Segment& segment, std::uint64_t keep_bytes) {
  Lock lock(mutex);
  const bool keep = segment_files.recyclable(segment) && spare_bytes() + segment.size <= keep_bytes;
  const std::uint64_t start = segments.back()->end();
  lock.unlock();
  if (!keep) return segment_files.remove(segment);
  MULTIFORA_ASSIGN(wal::SegmentPtr spare, segment_files.recycle(segment, start));
  lock.lock();
  add_spare(std::move(spare));
  return {};
}

// Spares that the load since the last checkpoint does not call for, from the end of the log.
Status Wal::Impl::remove_surplus(std::uint64_t keep_bytes) {
  Lock lock(mutex);
  while (active + 1 < segments.size() && spare_bytes() > keep_bytes) {
    const wal::SegmentPtr last = segments.back();
    const std::uint64_t usable = usable_bytes(*last, last->first_block());
    if (shortage > 0 || !fits(usable)) break;
    segments.pop_back();
    ready_bytes -= usable;
    lock.unlock();
    MULTIFORA_TRY(segment_files.remove(*last));
    lock.lock();
  }
  return {};
}

// --- closing
// --------------------------------------------------------------------------------------

Status Wal::Impl::close_clean() {
  std::lock_guard files_lock(files_mutex);
  Lock lock(mutex);
  if (!failure.ok()) return failure;
  MULTIFORA_ASSERT(last_batch <= durable);
  failure = Status(ErrorCode::kShutdownInProgress, "the log is closed");
  changed_cv.wait(lock, [&] { return !writer_active; });
  oldest_needed = written_end;
  return empty_log(std::exchange(segments, {}), active);
}

// Oldest first; one small segment stays, at a place in the stream where no block has been. All it
// holds is the position that the data file must have reached: an older state of it is refused.
Status Wal::Impl::empty_log(std::vector<wal::SegmentPtr> all, std::size_t active_index) {
  const bool has_blocks = active_index > 0 || written_end > all.front()->first_block();
  const bool only_notes = has_blocks && active_index == 0 && base == last_batch;
  const std::uint64_t end = all.back()->end();
  wal::SegmentPtr kept;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool small = all[i]->size == options.segment_bytes_min;
    if (kept || !small || !segment_files.recyclable(*all[i])) {
      MULTIFORA_TRY(segment_files.remove(*all[i]));
      continue;
    }
    kept = all[i];
    if (has_blocks && i <= active_index && !only_notes) {
      MULTIFORA_ASSIGN(kept, segment_files.recycle(*kept, end));
    }
  }
  const bool has_note = only_notes && kept == all.front();
  return !kept || has_note || last_batch == 0 ? Status() : write_closing_note(*kept);
}

Status Wal::Impl::write_closing_note(const wal::Segment& segment) const {
  wal::BlockHeader note{};
  note.stream = segment.first_block();
  note.after = note.last = note.durable = last_batch;
  note.log_id = log_id;
  note.kind = wal::BlockKind::kWhole;
  note.coding = wal::BlockCoding::kRaw;
  note.session = writer->state().session;
  wal::seal_header(note, {});
  const Bytes bytes(reinterpret_cast<const char*>(&note), sizeof note);
  MULTIFORA_TRY(segment.file->write(sizeof(wal::FileHeader), bytes));
  return segment.file->sync();
}

}  // namespace multifora
