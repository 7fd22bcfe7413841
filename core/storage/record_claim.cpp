// Records that the log refers to instead of holding their bytes: recovery finds them where they were
// written, before it allocates anything, and takes them back into the current state.
#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>

#include "core/base/limits.h"
#include "core/storage/record_pool.h"

namespace multifora {

namespace {

Status misfit(const std::string& path, RecordLocation location, std::string_view how) {
  return Status(ErrorCode::kDataCorruptionDetected,
                fmt::format("the log refers to a record at offset {} of {}: {}",
                            location * kRecordUnit, path, how));
}

// A record cannot have been where another one of the same log tail is.
bool overlapping(std::vector<RecordSpace::Claim> claims, RecordLocation* where) {
  std::ranges::sort(claims, {}, &RecordSpace::Claim::location);
  for (std::size_t i = 1; i < claims.size(); ++i) {
    *where = claims[i].location;
    if (claims[i - 1].location + record_units(claims[i - 1].size_bytes) > *where) return true;
  }
  return false;
}

}  // namespace

// Chunks that the file had already, but that its newest checkpoint does not know.
Status RecordSpace::Impl::cover_claims(std::span<const Claim> claims) {
  std::uint64_t last = 0;
  for (const Claim& claim : claims) {
    if (claim.location == 0 || claim.size_bytes > limits::kDocumentSizeMax + limits::kDocumentSizeSlack ||
        claim.location >= kernel.reserve_bytes / kRecordUnit)
      return misfit(kernel.path, claim.location, "that is impossible");
    last = std::max(last, claim.location + record_units(claim.size_bytes) - 1);
  }
  const std::uint64_t chunks = chunk_of_location(last) + 1;
  if (chunks <= table().size()) return {};
  MULTIFORA_ASSIGN(const std::uint64_t size, kernel.file->size());
  if (size / kChunkSize < chunks)
    return misfit(kernel.path, last, "the file ends before it");
  table().append_free(chunks - table().size());
  kernel.file_bytes.store(chunks * kChunkSize, std::memory_order_release);
  return {};
}

// The chunks that are not yet the collections' own.
Status RecordSpace::Impl::claim_chunks(std::span<const Claim> claims,
                                       std::vector<std::pair<std::uint64_t, CollectionId>>* fresh) {
  Status status;
  for (const Claim& claim : claims) {
    for_each_piece(claim.location, record_units(claim.size_bytes),
                   [&](std::uint64_t chunk, std::uint32_t, std::uint32_t, bool) {
                     const ChunkEntry& entry = table()[chunk].entry;
                     if (!status.ok() || (entry.kind == ChunkKind::kRecords &&
                                          entry.owner == claim.collection))
                       return;
                     if (table().claim_for_records(chunk, claim.collection))
                       fresh->emplace_back(chunk, claim.collection);
                     else
                       status = misfit(kernel.path, claim.location, "something else is there");
                   });
  }
  return status;
}

Status RecordSpace::Impl::check_claim(const Claim& claim) {
  Status status;
  for_each_piece(claim.location, record_units(claim.size_bytes),
                 [&](std::uint64_t chunk, std::uint32_t first, std::uint32_t units, bool) {
                   const ChunkEntry& entry = table()[chunk].entry;
                   const Result<const char*> bitmap = pager.read(entry.bitmap_page);
                   if (!bitmap)
                     status = bitmap.error();
                   else if (!units_are(*bitmap, entry, first, units, false))
                     status = misfit(kernel.path, claim.location, "another record is there");
                 });
  return status;
}

Result<std::vector<RecordReservation>> RecordSpace::claim(std::span<const Claim> claims) {
  Impl& impl = *impl_;
  Impl::Lock lock(impl.kernel.mutex);
  RecordLocation where = 0;
  if (overlapping({claims.begin(), claims.end()}, &where))
    return fail(misfit(impl.kernel.path, where, "another one is there"));
  // What wrote the log may have filled all that was free in the checkpoint.
  if (impl.table().frozen_below() > 0) MULTIFORA_TRY_R(impl.kernel.thaw(lock));
  MULTIFORA_TRY_R(impl.cover_claims(claims));
  std::vector<std::pair<std::uint64_t, CollectionId>> fresh;
  MULTIFORA_TRY_R(impl.claim_chunks(claims, &fresh));
  // Only now may pages be taken: what is still free is not claimed.
  std::vector<PageId> bitmaps;
  MULTIFORA_TRY_R(impl.kernel.promise_pages(lock, &bitmaps, fresh.size(), false));
  for (const auto& [chunk, collection] : fresh) {
    char* const page =
        impl.kernel.use_page_locked(bitmaps.back(), PageKind::kRecordBitmap, collection);
    std::memset(page + kPageHeaderSize, 0, kPageSize - kPageHeaderSize);
    impl.table().start_record_chunk(chunk, collection, bitmaps.back());
    bitmaps.pop_back();
  }
  std::vector<RecordReservation> reservations;
  reservations.reserve(claims.size());
  for (const Claim& claim : claims) {
    MULTIFORA_TRY_R(impl.check_claim(claim));
    RecordReservation& reservation = reservations.emplace_back();
    reservation.space_ = this;
    reservation.location_ = claim.location;
    reservation.units_ = record_units(claim.size_bytes);
    for_each_piece(claim.location, reservation.units_,
                   [&](std::uint64_t chunk, std::uint32_t, std::uint32_t, bool) {
                     ++impl.table()[chunk].reservations;
                   });
  }
  lock.unlock();
  return reservations;
}

// By pread: most of these bytes will not be looked at again soon, and touching the mapping for the first
// time is dearer.
Result<Bytes> RecordSpace::read_back(const Claim& claim, RecordId id, std::uint64_t hash,
                                     Buffer& to) const {
  const Pager::Impl& kernel = impl_->kernel;
  const std::size_t size = kRecordHeaderSize + claim.size_bytes;
  Result<std::size_t> got = std::size_t{0};
  // Not the size that the callee is told: GCC 12's library says how much it has allocated.
  to.resize_and_overwrite(size, [&](char* at, std::size_t) {
    got = kernel.file->read(claim.location * kRecordUnit, at, size);
    return size;
  });
  if (!got) return fail(got.error());
  const Bytes payload = Bytes(to).substr(kRecordHeaderSize);
  if (*got == size && load_le<std::uint32_t>(to.data()) == claim.size_bytes &&
      load_le<CollectionId>(to.data() + 4) == claim.collection &&
      load_le<std::uint64_t>(to.data() + 8) == hash &&
      XXH3_64bits_withSeed(payload.data(), payload.size(), id) == hash)
    return payload;
  return fail(misfit(kernel.path, claim.location, "its bytes are not those that were written"));
}

Status RecordSpace::attach(RecordReservation reservation, CollectionId collection,
                           PageStash& stash) {
  if (impl_->kernel.failed) return impl_->kernel.health();
  return impl_->mark_used(std::move(reservation), collection, stash);
}

}  // namespace multifora
