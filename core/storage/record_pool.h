// What one owner of record chunks (a large collection, or all small ones together) has in hand for
// new records, and the state of the record space. Private to the record space; under the pager's
// allocator mutex.
//
// Space is taken, in this order, from the bump range (the untouched rest of the newest chunk), from
// holes (found by scanning the bitmaps of a few chunks at a time), and, where neither has it, from
// a refill: more chunks to scan while a tenth or more of the owner's space lies about in holes,
// else new chunks. A chunk that a pool has ranges of is `held`; a chunk with reservations that are
// not yet published is not scanned, since its bitmap does not show them.
#pragma once

#include <atomic>
#include <unordered_map>
#include <vector>

#include "core/storage/hole_set.h"
#include "core/storage/pager_impl.h"
#include "core/storage/record_space.h"
#include "core/storage/unit_bits.h"

namespace multifora {

struct RecordPool {
  CollectionId owner = 0;
  RecordLocation bump = 0;  // may go on over several chunks; they are held
  std::uint64_t bump_units = 0;
  HoleSet holes;
  std::vector<std::uint64_t> held;  // chunks that `holes` come from
  std::vector<std::uint64_t> best;  // chunks to scan next, the best last
  std::uint64_t hand = 0;           // where the next look for such chunks starts
  // The first refill looks for holes in any case: what an earlier process had in hand is one now.
  bool refilled = false;
};

// Larger records may cross into the next chunk, so that little of a chunk's end is lost.
inline constexpr std::uint64_t kCrossingUnitsMin = kUnitsPerChunk / 16;
// Chunks with less than this to reuse are not scanned.
inline constexpr std::uint32_t kScanUnitsMin = kUnitsPerChunk / 32;

inline std::uint64_t chunk_of_location(RecordLocation location) {
  return location / kUnitsPerChunk;
}
inline std::uint32_t unit_in_chunk(RecordLocation location) {
  return static_cast<std::uint32_t>(location % kUnitsPerChunk);
}

// Calls visit(chunk, first unit in it, units in it, is this the record's first chunk).
template <class Visit>
void for_each_piece(RecordLocation location, std::uint64_t units, Visit&& visit) {
  for (bool first = true; units > 0; first = false) {
    const std::uint32_t at = unit_in_chunk(location);
    const auto count =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(units, kUnitsPerChunk - at));
    visit(chunk_of_location(location), at, count, first);
    location += count;
    units -= count;
  }
}

struct RecordSpace::Impl {
  using Lock = Pager::Impl::Lock;
  Impl(Pager& owner_pager, RecordSpace& owner_space)
      : pager(owner_pager), kernel(*owner_pager.impl_), space(owner_space) {}
  ~Impl();
  Impl(const Impl&) = delete;

  Pager& pager;
  Pager::Impl& kernel;
  RecordSpace& space;
  RecordPool shared;
  std::unordered_map<CollectionId, std::uint64_t> live_bytes;  // collections with an allocator
  std::vector<RecordPool*> pools{&shared};

  ChunkTable& table() { return kernel.table; }

  // One bit a unit: a record that starts there was written by this process or has had its hash checked.
  // Address space for the largest file; memory only where records were met. A location out of a damaged
  // tree may be anything: none past the largest file is known.
  Status map_known();
  bool known(RecordLocation location) const {
    return location / 8 < known_bytes_ &&
           (known_[location / 64].load(std::memory_order_acquire) >> (location % 64) & 1) != 0;
  }
  void set_known(RecordLocation location) const {
    known_[location / 64].fetch_or(std::uint64_t{1} << (location % 64), std::memory_order_release);
  }
  std::atomic<std::uint64_t>* known_ = nullptr;
  std::size_t known_bytes_ = 0;

  // --- record_reserve.cpp -----------------------------------------------------------------------
  RecordPool& pool_for(RecordAllocator& allocator, std::unique_ptr<RecordPool>& own,
                       std::uint64_t size_bytes);
  RecordLocation take(RecordPool& pool, std::uint64_t units);
  void advance_bump(RecordPool& pool, std::uint64_t units);
  std::uint64_t run_wanted(const RecordPool& pool) const;
  void start_bump(RecordPool& pool, std::uint64_t first_chunk, std::uint64_t count,
                  std::vector<PageId>& promised);
  // Changes the pool so that another take() may succeed; OutOfDiskSpace where nothing helps.
  Status refill(Lock& lock, RecordPool& pool, std::uint64_t units, RecordPlacement placement);
  bool holes_are_worth_it(const RecordPool& pool) const;
  bool refill_holes(Lock& lock, RecordPool& pool, std::uint32_t units);
  void look_for_chunks(RecordPool& pool, std::uint32_t units);
  bool scannable(const RecordPool& pool, std::uint64_t chunk, std::uint32_t units) const;
  // Returns the largest hole found.
  std::uint32_t scan(RecordPool& pool, std::uint64_t chunk);
  Status refill_bump(Lock& lock, RecordPool& pool, std::uint64_t units, RecordPlacement placement);
  bool extend_bump(RecordPool& pool, std::uint64_t units, std::vector<PageId>& promised);
  void start_chunk(RecordPool& pool, std::uint64_t chunk, std::vector<PageId>& promised);
  void drop_holes(RecordPool& pool);
  void drop_bump(RecordPool& pool);
  // What the pool has in hand from there on, or from that chunk, is given up.
  void leave_from(RecordPool& pool, std::uint64_t chunk);
  void leave_chunk(RecordPool& pool, std::uint64_t chunk);
  void release_hold(std::uint64_t chunk, std::uint32_t hole_max);
  // Makes the bitmap pages under the range writable.
  Status prepare_bitmaps(Lock& lock, RecordLocation location, std::uint64_t units);
  void unreserve(RecordLocation location, std::uint64_t units);

  // --- record_claim.cpp -------------------------------------------------------------------------
  Status cover_claims(std::span<const Claim> claims);
  Status claim_chunks(std::span<const Claim> claims,
                      std::vector<std::pair<std::uint64_t, CollectionId>>* fresh);
  Status check_claim(const Claim& claim);

  // --- record_space.cpp -------------------------------------------------------------------------
  // The chunk's bitmap page for changes, or null where it is damaged or there is no page to copy it
  // to. Takes from `promised`, else from the pager's own reserve.
  char* writable_bitmap(std::uint64_t chunk, std::vector<PageId>& promised);
  Status write_record(RecordLocation location, CollectionId collection, std::uint64_t hash,
                      Bytes payload, RecordWrites* writes);
  Status mark_used(RecordReservation reservation, CollectionId collection, PageStash& stash);
  Status unreadable(RecordLocation location) const;
  bool possible(RecordLocation location, std::uint64_t units) const;
  void touch_bitmap(RecordLocation location);
  Result<UnitWords> used_units(std::uint64_t chunk, ChunkEntry* entry) const;
  Result<RecordLocation> crossing_into(std::uint64_t chunk) const;
  void retire_piece(std::uint64_t chunk, std::uint32_t first, std::uint32_t units, bool is_first,
                    std::vector<PageId>& promised);
};

}  // namespace multifora
