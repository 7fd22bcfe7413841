// The public face of the log, its opening, and append().
#include "core/storage/wal.h"

#include <algorithm>
#include <random>

#include "core/base/assert.h"
#include "core/plugin/codec.h"
#include "core/storage/wal_impl.h"

namespace multifora {

namespace {

std::uint32_t random_log_id() {
  std::random_device random;
  std::uint32_t id = 0;
  while (id == 0) id = random();
  return id;
}

Status check_options(const WalOptions& options) {
  if (options.codec && options.codec->name.size() > wal::kCodecNameSizeMax)
    return Status(ErrorCode::kBadValue, "codec name '" + std::string(options.codec->name) +
                                            "' is too long for the log's file header");
  constexpr std::uint64_t kUnit = 4096;
  if (options.block_bytes == 0 || options.segment_bytes_min < kUnit ||
      options.segment_bytes_min % kUnit != 0 || options.segment_bytes_max % kUnit != 0 ||
      options.segment_bytes_min > options.segment_bytes_max)
    return Status(ErrorCode::kBadValue, "unusable block or segment sizes for the log");
  return {};
}

}  // namespace

Wal::Impl::Impl(FileSystem& files_in, const WalOptions& options_in, const Clock& clock_in,
                LogSink& log_in, Metrics& metrics_in)
    : files(files_in),
      options(options_in),
      clock(clock_in),
      log(log_in),
      metrics(metrics_in),
      segment_files(files_in, options_in.directory, options_in.codec, options_in.block_bytes),
      syncs(metrics_in.counter("wal_syncs_total", "Log syncs")),
      batches(metrics_in.counter("wal_batches_total", "Batches appended to the log")),
      waiters_covered(
          metrics_in.counter("wal_waiters_total", "Waits for durability that a sync ended")),
      cohort_waits(metrics_in.counter("wal_cohort_waits_total",
                                      "Syncs that waited for other writers before they began")),
      cohort_timeouts(metrics_in.counter("wal_cohort_timeouts_total",
                                         "Such waits that ended before all had come")),
      referenced_syncs(metrics_in.counter("wal_referenced_syncs_total",
                                          "Syncs of what batches refer to, before their blocks")),
      segments_made(metrics_in.counter("wal_segments_made_total",
                                       "Log segments that were written with zeros")) {
  open_block.buffer.assign(wal::kBlockHeaderSize, '\0');
}

Wal::Impl::~Impl() {
  {
    Lock lock(mutex);
    stopping = true;
    log_thread_cv.notify_all();
    maker_cv.notify_all();
    cohort_cv.notify_all();
    changed_cv.wait(lock, [&] { return leaders == 0; });
  }
  if (log_thread.joinable()) log_thread.join();
  if (maker_thread.joinable()) maker_thread.join();
}

// --- opening
// --------------------------------------------------------------------------------------

Status Wal::Impl::open(LogPosition from, const std::function<Status(LogPosition, Bytes)>& apply,
                       WalReplay* replayed) {
  MULTIFORA_TRY(files.create_directory(options.directory));
  MULTIFORA_ASSIGN(auto found, segment_files.load(options.find_codec));
  MULTIFORA_ASSIGN(wal::ScanResult scanned, wal::scan(std::move(found), from));
  WalReplay count;
  count.truncated_bytes = scanned.truncated_bytes;
  if (options.survey) MULTIFORA_TRY(wal::replay(scanned, from, options.survey));
  MULTIFORA_TRY(wal::replay(scanned, from, [&](LogPosition position, Bytes batch) {
    ++count.batches;
    count.bytes += batch.size();
    return apply(position, batch);
  }));
  if (count.truncated_bytes > 0)
    log.event(LogLevel::kWarning, "storage", "The log had a torn tail, which was cut off.",
              {{"bytes", static_cast<std::int64_t>(count.truncated_bytes)}});
  MULTIFORA_TRY(wal::make_durable(scanned));
  MULTIFORA_TRY(segment_files.remove_leftovers());
  // A segment may have got its name just before the last process died or failed.
  MULTIFORA_TRY(files.sync_directory(options.directory));
  MULTIFORA_TRY(adopt(scanned, from));
  if (replayed) *replayed = count;
  start_threads();
  return {};
}

Status Wal::Impl::adopt(wal::ScanResult& scanned, LogPosition from) {
  MULTIFORA_TRY(keep_usable_spares(scanned));
  if (scanned.segments.empty()) {
    const std::uint64_t size = options.segment_bytes_min;
    MULTIFORA_ASSIGN(wal::SegmentPtr first,
                     segment_files.make(scanned.end, size, [] { return false; }));
    scanned.begin = scanned.end = first->first_block();
    scanned.segments.push_back(std::move(first));
  }
  segments = std::move(scanned.segments);
  active = scanned.active;
  log_id = scanned.log_id ? scanned.log_id : random_log_id();
  if (!scanned.any_block) scanned.begin = scanned.end;
  last_batch = last_written = durable = scanned.any_block ? scanned.last : from;
  base = scanned.any_block ? scanned.base : from;
  clock_position = std::max(last_batch, from);
  log_begin = scanned.begin;
  written_end = scanned.end;
  oldest_needed =
      from >= last_batch ? written_end : wal::find_mark(segments, from).value_or(log_begin);
  wal::WriteState state;
  state.segment = segments[active];
  state.stream = scanned.end;
  state.previous_hash = scanned.end_hash;
  state.last = last_batch;
  state.durable = scanned.any_block ? scanned.durable : durable;
  state.log_id = log_id;
  state.session = scanned.next_session;
  writer = std::make_unique<wal::BlockWriter>(
      std::move(state), [this] { return next_segment(); }, metrics);
  count_ready();
  return {};
}

// Segments after the active one can be spares if new blocks may be written to them as they are.
// Newest first, so that what is left is an unbroken run whenever this is interrupted.
Status Wal::Impl::keep_usable_spares(wal::ScanResult& scanned) {
  auto& run = scanned.segments;
  const std::size_t used = scanned.any_block ? scanned.active + 1 : 0;
  std::size_t keep = used;
  while (keep < run.size() && segment_files.recyclable(*run[keep]) &&
         run[keep]->size >= options.segment_bytes_min)
    ++keep;
  while (run.size() > keep) {
    MULTIFORA_TRY(segment_files.remove(*run.back()));
    run.pop_back();
  }
  for (const wal::SegmentPtr& segment : scanned.unused)
    MULTIFORA_TRY(segment_files.remove(*segment));
  if (run.empty()) scanned.end = 0;
  return {};
}

void Wal::Impl::start_threads() {
  log_thread = std::thread([this] { log_thread_loop(); });
  maker_thread = std::thread([this] { maker_loop(); });
}

// --- appending
// ------------------------------------------------------------------------------------

Result<LogPosition> Wal::Impl::append(Bytes batch, std::uint64_t* reserved_bytes, bool refers,
                                      std::uint32_t width) {
  MULTIFORA_ASSERT(width > 0);
  if (batch.size() > wal::kBatchSizeMax)
    return fail(ErrorCode::kBadValue, "a log batch of " + std::to_string(batch.size()) +
                                          " bytes is larger than the limit of " +
                                          std::to_string(wal::kBatchSizeMax));
  const std::uint64_t charge = wal::batch_charge(batch.size());
  std::uint64_t promised = std::min(reserved_bytes ? *reserved_bytes : 0, charge);
  // A large batch is copied before the mutex is taken; its position is filled in afterwards.
  wal::SealedBlock own_block;
  const bool is_large = batch.size() >= options.block_bytes;
  if (is_large) {
    own_block.buffer.reserve(wal::kBlockHeaderSize + wal::kBatchHeaderSize + batch.size());
    own_block.buffer.assign(wal::kBlockHeaderSize, '\0');
    wal::append_batch(own_block.buffer, 0, batch);
  }
  const std::int64_t wall_ms = clock.wall_ms();
  for (;;) {
    Lock lock(mutex);
    if (!failure.ok()) {
      if (!reserved_bytes) reserved -= promised;
      return fail(failure);
    }
    if (!fits(charge - promised)) {
      lock.unlock();
      MULTIFORA_ASSIGN_R(const std::uint64_t more, reserve(charge - promised));
      promised += more;
      if (reserved_bytes) *reserved_bytes += more;
      continue;
    }
    reserved -= promised;
    if (reserved_bytes) *reserved_bytes -= promised;
    pending_charge += charge;
    const LogPosition position =
        put_batch(batch, is_large ? &own_block : nullptr, wall_ms, refers, width);
    const bool wake = log_thread_asleep || (!pending.empty() && !writer_active);
    if (wake) {
      log_thread_asleep = false;
      log_thread_cv.notify_one();
    }
    return position;
  }
}

LogPosition Wal::Impl::put_batch(Bytes batch, wal::SealedBlock* own_block, std::int64_t wall_ms,
                                 bool refers, std::uint32_t width) {
  const auto seconds = static_cast<std::uint64_t>(std::max<std::int64_t>(wall_ms, 0)) / 1000;
  const LogPosition position = std::max(clock_position + 1, seconds << 32 | 1) + (width - 1);
  const LogPosition before = last_batch;
  if (last_batch <= durable) dirty_since_us = clock.monotonic_us();
  const std::uint64_t charge = wal::batch_charge(batch.size());
  if (own_block) {
    seal_open();
    store_le<std::uint64_t>(own_block->buffer.data() + wal::kBlockHeaderSize, position);
  } else {
    wal::append_batch(open_block.buffer, position, batch);
  }
  wal::SealedBlock& block = own_block ? *own_block : open_block;
  block.last = position;
  block.charge += charge;
  block.refers = block.refers || refers;
  ++block.batches;
  clock_position = last_batch = position;
  appended += charge;
  batches.add();
  if (options.appended) options.appended(before, position, batch);
  if (own_block)
    pending.push_back(std::make_shared<wal::SealedBlock>(std::move(*own_block)));
  else if (open_block.buffer.size() >= options.block_bytes)
    seal_open();
  return position;
}

void Wal::Impl::seal_open() {
  if (open_block.batches == 0) return;
  pending.push_back(std::make_shared<wal::SealedBlock>(std::move(open_block)));
  open_block = wal::SealedBlock();
  if (!free_buffers.empty()) {
    open_block.buffer = std::move(free_buffers.back());
    free_buffers.pop_back();
  }
  open_block.buffer.assign(wal::kBlockHeaderSize, '\0');
}

// --- the public face
// ------------------------------------------------------------------------------

Wal::Wal() = default;
Wal::~Wal() = default;

Result<std::unique_ptr<Wal>> Wal::open(
    FileSystem& files, const WalOptions& options, const Clock& clock, LogSink& log,
    Metrics& metrics, LogPosition from,
    const std::function<Status(LogPosition position, Bytes batch)>& apply, WalReplay* replay) {
  MULTIFORA_TRY_R(check_options(options));
  std::unique_ptr<Wal> wal(new Wal());
  wal->impl_ = std::make_unique<Impl>(files, options, clock, log, metrics);
  MULTIFORA_TRY_R(wal->impl_->open(from, apply, replay));
  return wal;
}

Result<Wal::Reservation> Wal::reserve(std::size_t size_bytes) {
  MULTIFORA_ASSIGN_R(const std::uint64_t bytes, impl_->reserve(wal::batch_charge(size_bytes)));
  Reservation reservation;
  reservation.wal_ = this;
  reservation.bytes_ = bytes;
  return reservation;
}

Result<LogPosition> Wal::append(Bytes batch, Reservation* reservation, bool refers,
                                std::uint32_t width) {
  const bool promised = reservation && reservation->wal_ == this;
  return impl_->append(batch, promised ? &reservation->bytes_ : nullptr, refers, width);
}

void Wal::when_durable(LogPosition position, Callback callback, bool allow_lead) {
  impl_->when_durable(position, std::move(callback), allow_lead);
}

Status Wal::wait_durable(LogPosition position) {
  struct {
    std::mutex mutex;
    std::condition_variable cv;
    bool done = false;
    Status status;
  } wait;
  impl_->when_durable(
      position,
      [&wait](const Status& status) {
        std::lock_guard lock(wait.mutex);
        wait.status = status;
        wait.done = true;
        wait.cv.notify_one();
      },
      true);
  std::unique_lock lock(wait.mutex);
  wait.cv.wait(lock, [&] { return wait.done; });
  return wait.status;
}

LogPosition Wal::last_appended() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->clock_position;
}

LogPosition Wal::last_durable() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->last_batch > impl_->durable ? impl_->durable : impl_->clock_position;
}

void Wal::advance_to(LogPosition position) {
  std::lock_guard lock(impl_->mutex);
  impl_->clock_position = std::max(impl_->clock_position, position);
}

Status Wal::recycle(LogPosition position, bool load) {
  return impl_->recycle(position, load);
}

std::uint64_t Wal::live_bytes() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->live_bytes();
}

std::uint64_t Wal::allocated_bytes() const {
  std::lock_guard lock(impl_->mutex);
  std::uint64_t bytes = 0;
  for (const wal::SegmentPtr& segment : impl_->segments) bytes += segment->size;
  return bytes;
}

std::uint64_t Wal::appended_bytes() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->appended;
}

Status Wal::close_clean() {
  MULTIFORA_TRY(wait_durable(last_appended()));
  return impl_->close_clean();
}

Status Wal::read(LogPosition from, bool include_unsynced,
                 const std::function<bool(LogPosition, Bytes)>& visit) const {
  return impl_->read(from, include_unsynced, visit);
}

Status Wal::health() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->failure;
}

Wal::Reservation::Reservation(Reservation&& other) noexcept
    : wal_(std::exchange(other.wal_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Wal::Reservation& Wal::Reservation::operator=(Reservation&& other) noexcept {
  std::swap(wal_, other.wal_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Wal::Reservation::~Reservation() {
  if (wal_ && bytes_ > 0) wal_->impl_->give_back(bytes_);
}

}  // namespace multifora
