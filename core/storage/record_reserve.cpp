// Finding space for records. See record_pool.h for the order in which it is looked for.
#include <fmt/format.h>

#include <algorithm>

#include "core/storage/record_pool.h"

namespace multifora {

namespace {

constexpr std::size_t kLookAtChunks = 1024;  // chunks that one look for the best ones goes through
constexpr std::size_t kBestChunks = 16;      // that it keeps
constexpr std::size_t kScanChunks = 8;       // scanned in one refill, at most
constexpr std::uint64_t kScanEnoughUnits = kUnitsPerChunk / 2;

std::uint64_t chunks_for(std::uint64_t units) {
  return (units + kUnitsPerChunk - 1) / kUnitsPerChunk;
}

}  // namespace

// --- allocator and reservation ---

RecordAllocator::RecordAllocator(RecordSpace& space, CollectionId collection)
    : space_(space), collection_(collection) {}

RecordAllocator::~RecordAllocator() {
  RecordSpace::Impl& impl = *space_.impl_;
  std::lock_guard lock(impl.kernel.mutex);
  impl.live_bytes.erase(collection_);
  if (!own_) return;
  impl.drop_holes(*own_);
  impl.drop_bump(*own_);
  std::erase(impl.pools, own_.get());
}

std::unique_ptr<RecordAllocator> RecordSpace::make_allocator(CollectionId collection,
                                                             std::uint64_t data_bytes) {
  std::unique_ptr<RecordAllocator> allocator(new RecordAllocator(*this, collection));
  std::lock_guard lock(impl_->kernel.mutex);
  impl_->live_bytes[collection] = data_bytes;
  impl_->pool_for(*allocator, allocator->own_, 0);
  return allocator;
}

RecordReservation::RecordReservation(RecordReservation&& other) noexcept
    : space_(std::exchange(other.space_, nullptr)),
      location_(std::exchange(other.location_, 0)),
      units_(std::exchange(other.units_, 0)) {}

RecordReservation& RecordReservation::operator=(RecordReservation&& other) noexcept {
  std::swap(space_, other.space_);
  std::swap(location_, other.location_);
  std::swap(units_, other.units_);
  return *this;
}

RecordReservation::~RecordReservation() {
  if (space_ != nullptr) space_->impl_->unreserve(location_, units_);
}

void RecordSpace::Impl::unreserve(RecordLocation location, std::uint64_t units) {
  std::lock_guard lock(kernel.mutex);
  for_each_piece(location, units, [&](std::uint64_t chunk, std::uint32_t, std::uint32_t, bool) {
    ChunkState& state = table()[chunk];
    --state.reservations;
    state.hole_max = kHoleUnknown;
    if (table().record_chunk_empty(chunk) && !table().frozen(chunk)) space.free_chunk_locked(chunk);
  });
}

// --- pools ---

// Once a collection has chunks of its own it keeps to them.
RecordPool& RecordSpace::Impl::pool_for(RecordAllocator& allocator,
                                        std::unique_ptr<RecordPool>& own,
                                        std::uint64_t size_bytes) {
  const CollectionId collection = allocator.collection();
  if (!own && collection != 0 && live_bytes[collection] + size_bytes > kSharedChunkBytesMax) {
    own = std::make_unique<RecordPool>();
    own->owner = collection;
    pools.push_back(own.get());
  }
  return own ? *own : shared;
}

// Chunks that the range has left behind are no longer held.
void RecordSpace::Impl::advance_bump(RecordPool& pool, std::uint64_t units) {
  const std::uint64_t from = chunk_of_location(pool.bump);
  pool.bump += units;
  pool.bump_units -= units;
  for (std::uint64_t chunk = from; chunk < chunk_of_location(pool.bump); ++chunk)
    table()[chunk].held = false;
}

RecordLocation RecordSpace::Impl::take(RecordPool& pool, std::uint64_t units) {
  if (units <= kCrossingUnitsMin && pool.bump_units > 0) {
    // Within one chunk: what is left before the boundary is found by a later scan.
    const std::uint64_t left = kUnitsPerChunk - unit_in_chunk(pool.bump);
    if (left < units && left < pool.bump_units) advance_bump(pool, left);
  }
  if (pool.bump_units >= units) {
    const RecordLocation at = pool.bump;
    advance_bump(pool, units);
    return at;
  }
  return units <= kUnitsPerChunk ? pool.holes.take(static_cast<std::uint32_t>(units)) : 0;
}

// --- refilling ---

bool RecordSpace::Impl::holes_are_worth_it(const RecordPool& pool) const {
  const ChunkTable::Owner* const owner = kernel.table.owner(pool.owner);
  if (owner == nullptr) return false;
  const std::uint64_t in_hand = pool.bump_units + pool.holes.total_units();
  const std::uint64_t all = owner->chunks.size() * kUnitsPerChunk;
  const std::uint64_t reusable = owner->reusable_units - std::min(owner->reusable_units, in_hand);
  return reusable * 10 >= all - owner->reusable_units && reusable > 0;
}

Status RecordSpace::Impl::refill(Lock& lock, RecordPool& pool, std::uint64_t units,
                                 RecordPlacement placement) {
  const bool fits_in_chunk = units <= kUnitsPerChunk;
  const auto hole_units = static_cast<std::uint32_t>(units);
  const bool to_holes = !std::exchange(pool.refilled, true) || placement == RecordPlacement::kMoved ||
                        holes_are_worth_it(pool);
  if (fits_in_chunk && to_holes && refill_holes(lock, pool, hole_units)) return {};
  const Status status = refill_bump(lock, pool, units, placement);
  if (status.code() != ErrorCode::kOutOfDiskSpace || !fits_in_chunk) return status;
  // On a full disk every hole counts, those in the chunk that the bump range holds too.
  drop_bump(pool);
  return refill_holes(lock, pool, hole_units) ? Status() : status;
}

bool RecordSpace::Impl::scannable(const RecordPool& pool, std::uint64_t chunk,
                                  std::uint32_t units) const {
  if (chunk >= kernel.table.size() || kernel.table.frozen(chunk)) return false;
  if (chunk >= kernel.table.ceiling()) return false;
  const ChunkState& state = kernel.table[chunk];
  return state.entry.kind == ChunkKind::kRecords && state.entry.owner == pool.owner &&
         !state.held && !state.quarantined && state.reservations == 0 && state.hole_max >= units &&
         state.entry.free_units - state.busy_units >= std::max(units, kScanUnitsMin);
}

// Goes on round the owner's chunks from where it stopped, and keeps those with the most to reuse.
void RecordSpace::Impl::look_for_chunks(RecordPool& pool, std::uint32_t units) {
  pool.best.clear();
  const ChunkTable::Owner* const owner = table().owner(pool.owner);
  if (owner == nullptr) return;
  const auto reusable = [&](std::uint64_t chunk) {
    return table()[chunk].entry.free_units - table()[chunk].busy_units;
  };
  auto it = owner->chunks.lower_bound(pool.hand);
  const std::size_t steps = std::min(owner->chunks.size(), kLookAtChunks);
  for (std::size_t n = 0; n < steps; ++n, ++it) {
    if (it == owner->chunks.end()) it = owner->chunks.begin();
    pool.hand = *it + 1;
    if (scannable(pool, *it, units)) pool.best.push_back(*it);
  }
  std::sort(pool.best.begin(), pool.best.end(),
            [&](std::uint64_t a, std::uint64_t b) { return reusable(a) > reusable(b); });
  if (pool.best.size() > kBestChunks) pool.best.resize(kBestChunks);
  std::reverse(pool.best.begin(), pool.best.end());
}

// The holes in hand are given up: too small for what is asked for now.
bool RecordSpace::Impl::refill_holes(Lock& lock, RecordPool& pool, std::uint32_t units) {
  if (std::none_of(pool.best.begin(), pool.best.end(),
                   [&](std::uint64_t chunk) { return scannable(pool, chunk, units); }))
    look_for_chunks(pool, units);
  // The bitmaps may have to come from the disk: not under the mutex.
  std::vector<PageId> bitmaps;
  for (const std::uint64_t chunk : pool.best)
    if (scannable(pool, chunk, units)) bitmaps.push_back(table()[chunk].entry.bitmap_page);
  if (bitmaps.empty()) return false;
  lock.unlock();
  for (const PageId bitmap : bitmaps) static_cast<void>(pager.read(bitmap));
  lock.lock();
  drop_holes(pool);
  std::uint32_t largest = 0;
  for (std::size_t n = 0; n < kScanChunks && !pool.best.empty(); ++n) {
    const std::uint64_t chunk = pool.best.back();
    pool.best.pop_back();
    if (scannable(pool, chunk, units)) largest = std::max(largest, scan(pool, chunk));
    if (largest >= units && pool.holes.total_units() >= kScanEnoughUnits) break;
  }
  return largest >= units;
}

std::uint32_t RecordSpace::Impl::scan(RecordPool& pool, std::uint64_t chunk) {
  ChunkState& state = table()[chunk];
  const Result<const char*> bitmap = pager.read(state.entry.bitmap_page);
  if (!bitmap) {
    state.quarantined = true;
    kernel.log.event(LogLevel::kError, "storage",
                     "A chunk of records takes no more: damaged bitmap.",
                     {{"chunk", static_cast<std::int64_t>(chunk)},
                      {"reason", std::string_view(bitmap.error().message())}});
    return 0;
  }
  UnitWords words = load_units(*bitmap, state.entry);
  for (const PendingRange& range : state.pending) set_units(words, range.first, range.units);
  std::uint32_t largest = 0;
  for_each_hole(words, [&](std::uint32_t first, std::uint32_t units) {
    pool.holes.add(chunk * kUnitsPerChunk + first, units);
    largest = std::max(largest, units);
  });
  state.held = true;
  state.hole_max = 0;
  pool.held.push_back(chunk);
  return largest;
}

void RecordSpace::Impl::release_hold(std::uint64_t chunk, std::uint32_t hole_max) {
  ChunkState& state = table()[chunk];
  state.held = false;
  // Space that came back meanwhile is not among the holes that were in hand.
  if (state.hole_max != kHoleUnknown) state.hole_max = hole_max;
  if (table().record_chunk_empty(chunk) && !table().frozen(chunk)) space.free_chunk_locked(chunk);
}

void RecordSpace::Impl::drop_holes(RecordPool& pool) {
  const std::uint32_t hole_max = pool.holes.units_max();
  pool.holes.clear();
  for (const std::uint64_t chunk : std::exchange(pool.held, {})) release_hold(chunk, hole_max);
}

void RecordSpace::Impl::drop_bump(RecordPool& pool) {
  const std::uint64_t units = std::exchange(pool.bump_units, 0);
  const RecordLocation first = std::exchange(pool.bump, 0);
  if (units == 0 && unit_in_chunk(first) == 0) return;
  const RecordLocation last = first + (units > 0 ? units - 1 : 0);
  for (std::uint64_t chunk = chunk_of_location(first); chunk <= chunk_of_location(last); ++chunk)
    release_hold(chunk, kHoleUnknown);
}

void RecordSpace::Impl::leave_from(RecordPool& pool, std::uint64_t chunk) {
  if (pool.bump_units > 0 && chunk_of_location(pool.bump + pool.bump_units - 1) >= chunk)
    drop_bump(pool);
  if (std::any_of(pool.held.begin(), pool.held.end(),
                  [&](std::uint64_t held) { return held >= chunk; }))
    drop_holes(pool);
}

void RecordSpace::Impl::leave_chunk(RecordPool& pool, std::uint64_t chunk) {
  if (pool.bump_units > 0 && chunk >= chunk_of_location(pool.bump) &&
      chunk <= chunk_of_location(pool.bump + pool.bump_units - 1))
    drop_bump(pool);
  if (std::find(pool.held.begin(), pool.held.end(), chunk) != pool.held.end()) drop_holes(pool);
}

void RecordSpace::Impl::start_chunk(RecordPool& pool, std::uint64_t chunk,
                                    std::vector<PageId>& promised) {
  const PageId bitmap = promised.back();
  promised.pop_back();
  char* const page = kernel.use_page_locked(bitmap, PageKind::kRecordBitmap, pool.owner);
  std::memset(page + kPageHeaderSize, 0, kPageSize - kPageHeaderSize);
  table().start_record_chunk(chunk, pool.owner, bitmap);
  table()[chunk].held = true;
}

// The chunks that follow the bump range, where they are free. True where the range is then enough.
bool RecordSpace::Impl::extend_bump(RecordPool& pool, std::uint64_t units,
                                    std::vector<PageId>& promised) {
  if (pool.bump_units == 0 || unit_in_chunk(pool.bump + pool.bump_units) != 0) return false;
  const std::uint64_t next = chunk_of_location(pool.bump + pool.bump_units);
  const std::uint64_t count = chunks_for(units - pool.bump_units);
  if (next + count > table().ceiling() || !table().is_free_run(next, count)) return false;
  for (std::uint64_t i = 0; i < count; ++i) {
    table().take_free(next + i, ChunkKind::kRecords);
    start_chunk(pool, next + i, promised);
  }
  pool.bump_units += count * kUnitsPerChunk;
  return true;
}

void RecordSpace::Impl::start_bump(RecordPool& pool, std::uint64_t first_chunk, std::uint64_t count,
                                   std::vector<PageId>& promised) {
  drop_bump(pool);
  for (std::uint64_t i = 0; i < count; ++i) start_chunk(pool, first_chunk + i, promised);
  pool.bump = first_chunk * kUnitsPerChunk;
  pool.bump_units = count * kUnitsPerChunk;
}

// A large collection takes several adjacent chunks at a time, so that its records can cross.
std::uint64_t RecordSpace::Impl::run_wanted(const RecordPool& pool) const {
  const ChunkTable::Owner* const owner = kernel.table.owner(pool.owner);
  const std::uint64_t chunks = owner == nullptr ? 0 : owner->chunks.size();
  return std::clamp<std::uint64_t>(chunks / 16, 1, 8);
}

Status RecordSpace::Impl::refill_bump(Lock& lock, RecordPool& pool, std::uint64_t units,
                                      RecordPlacement placement) {
  const std::uint64_t needed = chunks_for(units);
  const std::uint64_t wanted = std::max(needed, run_wanted(pool));
  std::vector<PageId> promised;
  Status status;
  for (bool done = false; status.ok() && !done;) {
    status = kernel.promise_pages(lock, &promised, wanted, false);
    if (!status.ok()) break;
    done = units > kCrossingUnitsMin && extend_bump(pool, units, promised);
    for (std::uint64_t count = wanted; !done; count = needed) {
      const std::uint64_t first = table().take_free_run(count, ChunkKind::kRecords);
      done = first < table().size();
      if (done) start_bump(pool, first, count, promised);
      if (count == needed) break;
    }
    if (done) break;
    if (placement == RecordPlacement::kMoved)
      status = Status(ErrorCode::kOutOfDiskSpace, "no room to move a record to");
    else if (table().ceiling() != ChunkTable::kNoCeiling)
      table().lift_ceiling();
    else
      status = kernel.grow(lock, needed - table().trailing_free());
  }
  kernel.give_back_locked(&promised);
  return status;
}

// --- reserving ---

Status RecordSpace::Impl::prepare_bitmaps(Lock& lock, RecordLocation location,
                                          std::uint64_t units) {
  std::vector<PageId> promised;
  Status status;
  for (std::uint64_t chunk = chunk_of_location(location);
       chunk <= chunk_of_location(location + units - 1) && status.ok(); ++chunk) {
    const PageId bitmap = table()[chunk].entry.bitmap_page;
    if (Result<const char*> page = pager.read(bitmap); !page) status = page.error();
    if (!status.ok() || pager.writable_in_place(bitmap)) continue;
    status = kernel.promise_pages(lock, &promised, 1, false);
    if (status.ok()) writable_bitmap(chunk, promised);
    kernel.give_back_locked(&promised);
  }
  return status;
}

Result<RecordReservation> RecordSpace::reserve(RecordAllocator& allocator, PageStash&,
                                               std::size_t size_bytes,
                                               RecordPlacement placement) {
  Impl& impl = *impl_;
  const std::uint64_t units = record_units(size_bytes);
  Impl::Lock lock(impl.kernel.mutex);
  if (impl.kernel.failed) return fail(impl.kernel.failure);
  RecordPool& pool = impl.pool_for(allocator, allocator.own_, size_bytes);
  RecordReservation reservation;
  RecordLocation at = impl.take(pool, units);
  while (at == 0) {
    MULTIFORA_TRY_R(impl.refill(lock, pool, units, placement));
    at = impl.take(pool, units);
  }
  for_each_piece(at, units, [&](std::uint64_t chunk, std::uint32_t, std::uint32_t, bool) {
    ++impl.table()[chunk].reservations;
  });
  reservation.space_ = this;
  reservation.location_ = at;
  reservation.units_ = units;
  const Status status = impl.prepare_bitmaps(lock, at, units);
  lock.unlock();
  if (!status.ok()) return fail(status);
  return reservation;
}

}  // namespace multifora
