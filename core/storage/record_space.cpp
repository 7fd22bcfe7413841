// Publishing, reading and retiring records. Format: top of record_space.h and docs/format-data.md.
#include "core/storage/record_space.h"

#include <sys/mman.h>

#include <fmt/format.h>
#include <xxhash.h>

#include "core/base/bus_guard.h"
#include "core/base/limits.h"
#include "core/storage/record_pool.h"

namespace multifora {

namespace {

// Up to here header and payload are joined and written by one call.
constexpr std::size_t kJoinedSizeMax = 64 * 1024;
// Enough for the disk to have something to do while a chunk is looked at.
constexpr std::uint64_t kReadAheadChunks = 4;
constexpr std::size_t kPayloadSizeMax = limits::kDocumentSizeMax + limits::kDocumentSizeSlack;
static_assert((kPayloadSizeMax + kRecordHeaderSize) / kChunkSize + 2 <= RecordSpace::kRetirePages);

// So much is joined before it is written.
constexpr std::size_t kWritesSizeMax = 256 * 1024;
// Fresh memory is dear: the buffer of a thread's last large writes.
thread_local Buffer spare_writes;

struct RecordHeader {
  std::uint32_t size;
  std::uint32_t collection;
  std::uint64_t hash;
};
static_assert(sizeof(RecordHeader) == kRecordHeaderSize);

std::uint64_t record_hash(Bytes payload, RecordId id) {
  return XXH3_64bits_withSeed(payload.data(), payload.size(), id);
}

}  // namespace

RecordSpace::RecordSpace(Pager& pager) : impl_(std::make_unique<Impl>(pager, *this)) {}
RecordSpace::~RecordSpace() = default;

// --- bitmaps ---

char* RecordSpace::Impl::writable_bitmap(std::uint64_t chunk, std::vector<PageId>& promised) {
  PageId& bitmap = table()[chunk].entry.bitmap_page;
  if (const Result<const char*> page = pager.read(bitmap); !page) {
    kernel.log.event(LogLevel::kError, "storage", "A bitmap of record space is damaged.",
                     {{"chunk", static_cast<std::int64_t>(chunk)},
                      {"reason", std::string_view(page.error().message())}});
    return nullptr;
  }
  if (pager.writable_in_place(bitmap)) return kernel.writable(bitmap);
  std::vector<PageId>& from = promised.empty() ? kernel.reserve : promised;
  if (from.empty() && table().promise_pages(1, &from) == 0) return nullptr;
  char* const page = kernel.make_writable_locked(&bitmap, from);
  table().mark_dirty(chunk);
  return page;
}

// Brings the bitmap into memory before the mutex is taken for it.
void RecordSpace::Impl::touch_bitmap(RecordLocation location) {
  PageId bitmap = kNoPage;
  {
    std::lock_guard lock(kernel.mutex);
    if (chunk_of_location(location) >= table().size()) return;
    bitmap = table()[chunk_of_location(location)].entry.bitmap_page;
    if (bitmap == kNoPage || pager.verified(bitmap)) return;
  }
  static_cast<void>(pager.read(bitmap));
}

// --- publish ---

Status RecordSpace::Impl::write_record(RecordLocation location, CollectionId collection,
                                       std::uint64_t hash, Bytes payload,
                                       RecordWrites* writes) {
  const RecordHeader header{static_cast<std::uint32_t>(payload.size()), collection, hash};
  const Bytes header_bytes(reinterpret_cast<const char*>(&header), sizeof header);
  const std::uint64_t offset = location * kRecordUnit;
  if (writes != nullptr) return writes->add(offset, header_bytes, payload);
  if (payload.size() > kJoinedSizeMax) {
    MULTIFORA_TRY(kernel.file->write(offset, header_bytes));
    return kernel.file->write(offset + sizeof header, payload);
  }
  static thread_local Buffer joined;  // fresh memory is dear
  joined.assign(header_bytes);
  joined.append(payload);
  return kernel.file->write(offset, joined);
}

RecordWrites::~RecordWrites() {
  bytes_.clear();
  if (bytes_.capacity() > spare_writes.capacity()) spare_writes.swap(bytes_);
}

Status RecordWrites::add(std::uint64_t offset, Bytes header, Bytes payload) {
  const bool adjacent = !bytes_.empty() && offset_ + bytes_.size() == offset;
  if (!adjacent || bytes_.size() >= kWritesSizeMax) {
    MULTIFORA_TRY(flush());
    offset_ = offset;
    if (bytes_.capacity() < spare_writes.capacity()) bytes_.swap(spare_writes);
  }
  bytes_.append(header).append(payload);
  bytes_.resize((bytes_.size() + kRecordUnit - 1) / kRecordUnit * kRecordUnit);
  return {};
}

Status RecordWrites::flush() {
  auto& kernel = space_.impl_->kernel;
  if (kernel.failed) return kernel.health();
  if (bytes_.empty()) return {};
  Status status = kernel.file->write(offset_, bytes_);
  if (!status.ok()) kernel.fail_for_good(status);
  // The disk begins while the rest is on its way: these bytes are about to be synced.
  if (status.ok()) kernel.file->write_back(offset_, bytes_.size(), File::WriteBack::kStart);
  bytes_.clear();
  return status;
}

RecordSpace::Impl::~Impl() {
  if (known_ != nullptr) ::munmap(known_, known_bytes_);
}

Status RecordSpace::Impl::map_known() {
  const std::size_t bits = pager.page_limit_ * (kPageSize / kRecordUnit);
  known_bytes_ = (bits / 8 + kPageSize - 1) / kPageSize * kPageSize;
  void* const mapped = ::mmap(nullptr, known_bytes_, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED)
    return Status(ErrorCode::kInternalError, "no address space for the records of " + kernel.path);
  known_ = static_cast<std::atomic<std::uint64_t>*>(mapped);
  return {};
}

Status RecordSpace::publish(RecordReservation reservation, RecordId id, CollectionId collection,
                            Bytes payload, PageStash& stash, std::uint64_t* hash,
                            RecordWrites* writes) {
  Impl& impl = *impl_;
  MULTIFORA_ASSERT(reservation.location_ != 0 &&
                   reservation.units_ == record_units(payload.size()));
  if (impl.kernel.failed) return impl.kernel.health();
  const std::uint64_t own_hash = record_hash(payload, id);
  if (hash != nullptr) *hash = own_hash;
  if (Status status = impl.write_record(reservation.location_, collection, own_hash, payload, writes);
      !status.ok()) {
    // What was written lies in free space: a full disk (of a file system that allocates even where
    // it has allocated) has done no harm.
    if (status.code() == ErrorCode::kOutOfDiskSpace && writes == nullptr)
      return impl.kernel.out_of_space(status);
    impl.kernel.fail_for_good(status);
    return status;
  }
  return impl.mark_used(std::move(reservation), collection, stash);
}

// The last step of publish() and attach(): the range is part of the current state.
Status RecordSpace::Impl::mark_used(RecordReservation reservation, CollectionId collection,
                                    PageStash& stash) {
  Impl& impl = *this;
  const RecordLocation location = reservation.location_;
  const std::uint64_t units = reservation.units_;
  impl.set_known(location);
  std::lock_guard lock(impl.kernel.mutex);
  // All or nothing: the bitmaps first.
  bool ready = true;
  for_each_piece(location, units, [&](std::uint64_t chunk, std::uint32_t, std::uint32_t, bool) {
    ready = ready && impl.writable_bitmap(chunk, stash.pages_) != nullptr;
  });
  if (!ready) {
    reservation.space_ = nullptr;  // its range is left to the next open
    return Status(ErrorCode::kOutOfDiskSpace,
                  "no page for the record bitmap of " + impl.kernel.path);
  }
  for_each_piece(location, units,
                 [&](std::uint64_t chunk, std::uint32_t first, std::uint32_t count, bool is_first) {
                   ChunkState& state = impl.table()[chunk];
                   char* const page = impl.kernel.writable(state.entry.bitmap_page);
                   MULTIFORA_ASSERT(units_are(page, state.entry, first, count, false));
                   for_each_unit_word(first, count, [&](std::size_t w, std::uint64_t mask) {
                     store_unit_word(page, &state.entry, w, unit_word(page, state.entry, w) | mask);
                   });
                   if (!is_first) state.entry.lead_units = count;
                   --state.reservations;
                   impl.table().use_units(chunk, count, impl.kernel.now());
                 });
  reservation.space_ = nullptr;
  impl.kernel.dirty_bytes += units * kRecordUnit;
  if (const auto it = impl.live_bytes.find(collection); it != impl.live_bytes.end())
    it->second += units * kRecordUnit;
  return {};
}

// --- retire ---

bool RecordSpace::Impl::possible(RecordLocation location, std::uint64_t units) const {
  const std::uint64_t last = chunk_of_location(location + units - 1);
  if (location == 0 || last >= kernel.table.size()) return false;
  for (std::uint64_t chunk = chunk_of_location(location); chunk <= last; ++chunk)
    if (kernel.table[chunk].entry.kind != ChunkKind::kRecords) return false;
  return true;
}

void RecordSpace::Impl::retire_piece(std::uint64_t chunk, std::uint32_t first, std::uint32_t units,
                                     bool is_first, std::vector<PageId>& promised) {
  char* const page = writable_bitmap(chunk, promised);
  ChunkState& state = table()[chunk];
  if (page == nullptr || !units_are(page, state.entry, first, units, true)) {
    kernel.log.event(
        LogLevel::kError, "storage", "A retired record is not marked as used; its space is lost.",
        {{"chunk", static_cast<std::int64_t>(chunk)}, {"unit", static_cast<std::int64_t>(first)}});
    return;
  }
  for_each_unit_word(first, units, [&](std::size_t w, std::uint64_t mask) {
    store_unit_word(page, &state.entry, w, unit_word(page, state.entry, w) & ~mask);
  });
  if (!is_first) state.entry.lead_units = 0;
  const Generation now = kernel.now();
  if (state.pending.empty() || state.pending.back().generation != now)
    kernel.retired.push_chunk(now, chunk);
  table().suspend_units(chunk, {first, units, now});
}

void RecordSpace::retire(RecordLocation location, std::size_t size_bytes, PageStash& stash) {
  Impl& impl = *impl_;
  const std::uint64_t units = record_units(size_bytes);
  impl.touch_bitmap(location);
  std::lock_guard lock(impl.kernel.mutex);
  if (!impl.possible(location, units)) {
    impl.kernel.log.event(LogLevel::kError, "storage",
                          "A retired record lies outside record space.",
                          {{"location", static_cast<std::int64_t>(location)},
                           {"size_bytes", static_cast<std::int64_t>(size_bytes)}});
    return;
  }
  CollectionId collection = impl.table()[chunk_of_location(location)].entry.owner;
  if (collection == 0)
    std::memcpy(&collection,
                impl.pager.read_base_ + location * kRecordUnit + offsetof(RecordHeader, collection),
                sizeof collection);
  for_each_piece(location, units,
                 [&](std::uint64_t chunk, std::uint32_t first, std::uint32_t count, bool is_first) {
                   impl.retire_piece(chunk, first, count, is_first, stash.pages_);
                 });
  impl.kernel.retired_bytes += units * kRecordUnit;
  if (const auto it = impl.live_bytes.find(collection); it != impl.live_bytes.end())
    it->second -= std::min(it->second, units * kRecordUnit);
}

void RecordSpace::free_chunk_locked(std::uint64_t chunk) {
  Pager::Impl& kernel = impl_->kernel;
  const PageId bitmap = kernel.table[chunk].entry.bitmap_page;
  kernel.table.free_record_chunk(chunk);
  kernel.retire_page_locked(bitmap);
}

// The bits of a chunk fill one page of memory.
void RecordSpace::forget_behind_locked(std::uint64_t chunk) {
  static_assert(kUnitsPerChunk / 8 % 4096 == 0);
  const std::size_t from = chunk * (kUnitsPerChunk / 8);
  char* const bits = reinterpret_cast<char*>(impl_->known_);
  if (from < impl_->known_bytes_)
    ::madvise(bits + from, impl_->known_bytes_ - from, MADV_DONTNEED);
}

void RecordSpace::leave_tail_locked() {
  Impl& impl = *impl_;
  const std::uint64_t ceiling = impl.table().ceiling();
  for (RecordPool* const pool : impl.pools) impl.leave_from(*pool, ceiling);
}

void RecordSpace::release_pending_locked(std::uint64_t chunk, Generation limit) {
  Pager::Impl& kernel = impl_->kernel;
  if (chunk >= kernel.table.size()) return;  // free since, and no longer in the file
  kernel.table.release_units(chunk, limit);
  if (kernel.table.record_chunk_empty(chunk) && !kernel.table.frozen(chunk))
    free_chunk_locked(chunk);
}

// --- read ---

Status RecordSpace::Impl::unreadable(RecordLocation location) const {
  return Status(ErrorCode::kFileStreamFailed,
                fmt::format("the record at offset {} of {} cannot be read: the disk has failed "
                            "there, or the file was cut short",
                            location * kRecordUnit, kernel.path));
}

Result<Bytes> RecordSpace::peek(RecordLocation location, CollectionId collection) const {
  const Pager::Impl& kernel = impl_->kernel;
  const std::uint64_t end = kernel.file_bytes.load(std::memory_order_acquire);
  const std::uint64_t offset = location * kRecordUnit;
  if (location != 0 && location < end / kRecordUnit) [[likely]] {
    const char* const at = impl_->pager.read_base_ + offset;
    const auto* const header = reinterpret_cast<const RecordHeader*>(at);
    if (header->collection == collection && header->size <= kPayloadSizeMax &&
        header->size <= end - offset - kRecordHeaderSize) [[likely]]
      return Bytes(at + kRecordHeaderSize, header->size);
  }
  return fail(ErrorCode::kDataCorruptionDetected,
              fmt::format("no record of collection {} at offset {} of {}", collection, offset,
                          kernel.path));
}

Result<Bytes> RecordSpace::read(RecordLocation location, RecordId id,
                                CollectionId collection) const {
  Result<Bytes> payload = Bytes();
  bool good = false;
  const bool readable = BusGuard::guarded([&] {
    payload = peek(location, collection);
    if (!payload) return;
    const auto* const header =
        reinterpret_cast<const RecordHeader*>(payload->data() - kRecordHeaderSize);
    good = header->hash == record_hash(*payload, id);
  });
  if (!readable) return fail(impl_->unreadable(location));
  if (!payload || good) [[likely]]
    return payload;
  return fail(ErrorCode::kDataCorruptionDetected,
              fmt::format("record {} of collection {} at offset {} of {} has a wrong hash", id,
                          collection, location * kRecordUnit, impl_->kernel.path));
}

Result<Bytes> RecordSpace::read_known(RecordLocation location, RecordId id,
                                      CollectionId collection) const {
  if (impl_->known(location)) [[likely]]
    return peek(location, collection);
  Result<Bytes> payload = read(location, id, collection);
  if (payload) impl_->set_known(location);
  return payload;
}

void RecordSpace::read_ahead(RecordLocation location, bool continued) const {
  const Pager::Impl& kernel = impl_->kernel;
  const std::uint64_t end = kernel.file_bytes.load(std::memory_order_acquire);
  const std::uint64_t budget = kernel.options.memory_budget_bytes;
  if (impl_->known(location) && (budget == 0 || end <= budget)) return;
  const std::uint64_t chunk = chunk_of_location(location);
  const std::uint64_t first = continued ? chunk + kReadAheadChunks - 1 : chunk;
  const std::uint64_t last = std::min(chunk + kReadAheadChunks, end / kChunkSize);
  if (first >= last) return;
  ::madvise(const_cast<char*>(impl_->pager.read_base_) + first * kChunkSize,
            (last - first) * kChunkSize, MADV_WILLNEED);
}

void RecordSpace::prefetch(RecordLocation location) const {
  // A location out of a damaged tree may be anything: prefetching there does nothing, but a pointer to it
  // must not be computed as one.
  const std::uintptr_t at =
      reinterpret_cast<std::uintptr_t>(impl_->pager.read_base_) + location * kRecordUnit;
  __builtin_prefetch(reinterpret_cast<const char*>(at));
  __builtin_prefetch(reinterpret_cast<const char*>(at + 64));
}

}  // namespace multifora
