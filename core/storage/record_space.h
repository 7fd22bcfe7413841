// Record space: where document bytes live. A record is a contiguous range in the data file with a
// 16-byte header; ranges are multiples of kRecordUnit; published bytes never change.
//
//   record at byte offset location * kRecordUnit
//   0   4  size_bytes of the payload (u32)
//   4   4  collection id (u32)
//   8   8  XXH3-64 of the payload, seeded with the record id
//   16  n  payload
//
// The record id is not stored: the seed of the hash proves that the record belongs to it.
// Each record chunk has a bitmap page, one bit a unit. A collection writes into chunks of its own
// once it is larger than kSharedChunkBytesMax; small collections share chunks. A record larger than
// a chunk takes a run of adjacent ones.
//
// Threads: allocate/publish from the thread that holds the collection's exclusive lock; several
// collections at once. retire likewise. Reads from anywhere.
#pragma once

#include <cstdint>
#include <span>

#include "core/base/bytes.h"
#include "core/base/status.h"
#include "core/storage/pager.h"
#include "core/storage/types.h"

namespace multifora {

inline constexpr std::size_t kRecordHeaderSize = 16;
inline constexpr std::size_t kSharedChunkBytesMax = 256 * 1024;

// Units that a payload of `size_bytes` takes, header included.
constexpr std::uint64_t record_units(std::size_t size_bytes) {
  return (size_bytes + kRecordHeaderSize + kRecordUnit - 1) / kRecordUnit;
}

struct RecordPool;

// A collection's own allocation state (the chunks it fills and refills). In memory only. Guarded by
// the pager's mutex; see record_pool.h.
class RecordAllocator {
 public:
  ~RecordAllocator();
  CollectionId collection() const { return collection_; }
  // Do its records lie in chunks that no other collection has records in? For the thread that
  // reserves.
  bool has_own_chunks() const { return own_ != nullptr; }

 private:
  friend class RecordSpace;
  RecordAllocator(RecordSpace& space, CollectionId collection);
  RecordSpace& space_;
  const CollectionId collection_;
  std::unique_ptr<RecordPool> own_;  // null while the collection shares chunks
};

// A range that one writer holds and has not yet published; given back if it is destroyed
// unpublished.
class RecordReservation {
 public:
  RecordReservation() = default;
  RecordReservation(RecordReservation&& other) noexcept;
  RecordReservation& operator=(RecordReservation&& other) noexcept;
  ~RecordReservation();
  RecordLocation location() const { return location_; }

 private:
  friend class RecordSpace;
  RecordSpace* space_ = nullptr;
  RecordLocation location_ = 0;
  std::uint64_t units_ = 0;
};

// Where a record may go. A moved one fills holes and free chunks, whatever there is of them, where
// the file is being vacated before that place; the file does not grow for it.
enum class RecordPlacement { kNew, kMoved };

// Records on their way to the file: adjacent ones are joined into large writes, which cost a third a
// byte of small ones. What was published through it must not be read before flush(), and is lost
// without one. One writer's; one thread.
class RecordWrites {
 public:
  explicit RecordWrites(RecordSpace& space) : space_(space) {}
  RecordWrites(const RecordWrites&) = delete;
  ~RecordWrites();
  // A failed write turns the pager read-only.
  Status flush();

 private:
  friend class RecordSpace;
  Status add(std::uint64_t offset, Bytes header, Bytes payload);
  RecordSpace& space_;
  std::uint64_t offset_ = 0;
  Buffer bytes_;
};

class RecordSpace {
 public:
  // `data_bytes`: the collection's size at open, to choose shared or own chunks.
  std::unique_ptr<RecordAllocator> make_allocator(CollectionId collection,
                                                  std::uint64_t data_bytes);

  // Finds space for a payload of `size_bytes` and makes the bitmap pages that it needs writable, so
  // that publish cannot fail. OutOfDiskSpace otherwise.
  Result<RecordReservation> reserve(RecordAllocator& allocator, PageStash& stash,
                                    std::size_t size_bytes,
                                    RecordPlacement placement = RecordPlacement::kNew);
  // Writes header and payload (a failed write turns the pager read-only) and marks the range used.
  // `payload` has the size that was reserved. `hash`, if asked for, is what the header holds.
  // `writes`: the bytes go there instead.
  Status publish(RecordReservation reservation, RecordId id, CollectionId collection, Bytes payload,
                 PageStash& stash, std::uint64_t* hash = nullptr, RecordWrites* writes = nullptr);

  // --- recovery: records whose bytes the log refers to, in chunks of their collection's own ---------
  struct Claim {
    RecordLocation location = 0;
    std::uint32_t size_bytes = 0;  // of the payload
    CollectionId collection = 0;
  };
  // Takes the ranges, in the order of `claims`; the file may have grown beyond what its checkpoint
  // knows. Once, after the open and before anything is allocated; from then on everything else that is
  // free in the checkpoint may be used. DataCorruptionDetected where something else is there.
  Result<std::vector<RecordReservation>> claim(std::span<const Claim> claims);
  // The payload of a claimed record, in `to`. DataCorruptionDetected where it is not what `hash` says.
  Result<Bytes> read_back(const Claim& claim, RecordId id, std::uint64_t hash, Buffer& to) const;
  // publish() of a record whose bytes are in the file already.
  Status attach(RecordReservation reservation, CollectionId collection, PageStash& stash);

  // Pages that retire() may need in the stash; publish() too, where a snapshot was begun since the
  // reserve().
  static constexpr std::size_t kRetirePages = 18;
  static constexpr std::size_t kPublishPages = 18;
  // The record is no longer part of the current state. Cannot fail once the stash is ensured.
  void retire(RecordLocation location, std::size_t size_bytes, PageStash& stash);

  // The payload, without looking at its hash. Lives while the collection's lock or a snapshot that
  // sees it is held. DataCorruptionDetected where the header is impossible.
  Result<Bytes> peek(RecordLocation location, CollectionId collection) const;
  // The payload, its hash checked against `id`; DataCorruptionDetected where it is wrong.
  Result<Bytes> read(RecordLocation location, RecordId id, CollectionId collection) const;
  // The same, but the hash is checked only the first time that this process meets the record (what it
  // wrote itself is known to be good): for scans, which must not walk damaged bytes either.
  Result<Bytes> read_known(RecordLocation location, RecordId id, CollectionId collection) const;
  // Asks the processor for the record's first cache lines.
  void prefetch(RecordLocation location) const;
  // For scans, once a chunk: asks the system to read what follows in the file, unless it is likely
  // to be in memory. `continued`: the same was asked for the chunk before.
  void read_ahead(RecordLocation location, bool continued) const;

  // --- moving records, see core/store/space_keeper.h ---------------------------------------------
  // What the chunks of a collection (0: those that small collections share) are used for, in bytes.
  struct Use {
    CollectionId collection = 0;
    std::uint64_t chunk_bytes = 0;
    std::uint64_t free_bytes = 0;     // may be used again, what an allocator has in hand included
    std::uint64_t retired_bytes = 0;  // not yet; filled in by use_of() alone, which walks
  };
  std::vector<Use> uses() const;
  Use use_of(CollectionId collection) const;

  // Chunks mostly dead, the deadest first: the store moves what lives in them.
  struct Sparse {
    std::uint64_t chunk = 0;
    CollectionId collection = 0;
    double live_fraction = 0;
  };
  std::vector<Sparse> sparse_chunks(CollectionId collection, double live_fraction_max,
                                    std::size_t count_max) const;
  // The last chunk of records that is not before `chunk`; 0: there is none.
  std::uint64_t last_record_chunk(std::uint64_t chunk) const;
  // Calls `visit` for each record that lies in `chunk`, as a whole or in part, while it lives. The
  // caller holds a pin (Pager::pin) from before, and finds out whether the record map still points
  // there.
  Status visit_chunk(std::uint64_t chunk,
                     const std::function<void(RecordLocation, CollectionId, Bytes)>& visit) const;
  // Nothing is put into the chunk any more, so that it empties; or again.
  void quarantine(std::uint64_t chunk);
  void end_quarantine(std::uint64_t chunk);

 private:
  friend class Pager;
  friend class RecordAllocator;
  friend class RecordReservation;
  friend class RecordWrites;
  explicit RecordSpace(Pager& pager);
  // For the pager, under its allocator mutex. Pending ranges of generations <= limit are free
  // again.
  void release_pending_locked(std::uint64_t chunk, Generation limit);
  // The chunk holds nothing any more; its bitmap page is retired.
  void free_chunk_locked(std::uint64_t chunk);
  // The file ends before this chunk now.
  void forget_behind_locked(std::uint64_t chunk);
  // Nobody has ranges in hand from the ceiling on; bitmaps lie before it.
  void leave_tail_locked();
  struct Impl;
  std::unique_ptr<Impl> impl_;

 public:
  ~RecordSpace();
};

}  // namespace multifora
