// The chunk table: what each chunk of the data file is used for, its persisted entries, and the
// in-memory overlay of what is free in the entry but must not be handed out yet. Owned by the
// pager; every call is made under the pager's allocator mutex.
//
// Page chunks: a page is used (bit set in the entry), busy (promised to a stash, or retired and
// still seen by somebody), or free. Record chunks: units are used (bit set in the chunk's bitmap),
// pending (retired, still seen), or free. A chunk whose units are all free becomes a free chunk,
// which either pool may take. Until the first checkpoint after an open, chunks below frozen_below()
// give nothing.
#pragma once

#include <cstdint>
#include <deque>
#include <set>
#include <unordered_map>
#include <vector>

#include "core/base/assert.h"
#include "core/storage/types.h"

namespace multifora {

enum class ChunkKind : std::uint8_t { kFree = 0, kPages = 1, kRecords = 2 };

inline constexpr std::size_t kChunkEntryWords = 4;

// As persisted; offsets in docs/format-data.md.
struct ChunkEntry {
  ChunkKind kind = ChunkKind::kFree;
  std::uint8_t reserved[3] = {};
  std::uint32_t free_units = 0;  // pages, or record units; 0 for a free chunk
  CollectionId owner = 0;        // of a record chunk; 0: shared by small collections
  std::uint32_t lead_units = 0;  // belong to a record that starts in an earlier chunk
  PageId bitmap_page = kNoPage;  // of a record chunk
  std::uint64_t reserved2 = 0;   // for chunks with cold, compressed records
  // Page chunk: the used pages. Record chunk: the bits that do not fit in the bitmap page.
  std::uint64_t bits[kChunkEntryWords] = {};
};
static_assert(sizeof(ChunkEntry) == 64);
static_assert(kPagesPerChunk <= 64 * kChunkEntryWords);

inline constexpr std::size_t kPageHeaderSize = 32;
inline constexpr std::size_t kEntriesPerTablePage =
    (kPageSize - kPageHeaderSize) / sizeof(ChunkEntry);
inline constexpr std::size_t kIdsPerDirectoryPage = (kPageSize - kPageHeaderSize) / 8;

// Record units retired in `generation`, not yet reusable.
struct PendingRange {
  std::uint32_t first = 0;
  std::uint32_t units = 0;
  Generation generation = 0;
};

inline constexpr std::uint32_t kHoleUnknown = ~std::uint32_t{0};

struct ChunkState {
  ChunkEntry entry;
  std::uint64_t busy[kChunkEntryWords] = {};  // pages promised or pending
  std::vector<PendingRange> pending;          // record ranges, generations rising
  std::uint32_t busy_units = 0;               // busy pages, or units in `pending`
  std::uint32_t reservations = 0;             // record ranges reserved and not yet published
  // No reusable hole is larger, except those that an allocator already holds.
  std::uint32_t hole_max = kHoleUnknown;
  bool held = false;         // an allocator has ranges of it in hand
  bool quarantined = false;  // gives nothing until it is free
  Generation written = 0;    // newest generation in which something was put into it
};

class ChunkTable {
 public:
  std::uint64_t size() const { return states_.size(); }
  ChunkState& operator[](std::uint64_t chunk) { return states_[chunk]; }
  const ChunkState& operator[](std::uint64_t chunk) const { return states_[chunk]; }

  // A new file: chunk 0 with the meta pages.
  void init_new();
  // Entries as loaded; `frozen`: they give nothing yet.
  void init_loaded(const std::vector<ChunkEntry>& entries, bool frozen);
  // Free chunks at the end.
  void append_free(std::uint64_t count);

  std::uint64_t frozen_below() const { return frozen_below_; }
  bool frozen(std::uint64_t chunk) const { return chunk < frozen_below_; }
  // Record chunks that are all free by then are appended to `empty`, for the record space to free; not
  // those whose bitmap page is free as well, which only damage does.
  void unfreeze(std::vector<std::uint64_t>* empty);

  // --- dirty entries, by table page -------------------------------------------------------------
  void mark_dirty(std::uint64_t chunk) { mark_table_page_dirty(chunk / kEntriesPerTablePage); }
  void mark_table_page_dirty(std::uint64_t index);
  // In the order in which they became dirty; grows while the caller looks at it.
  const std::vector<std::uint64_t>& dirty_table_pages() const { return dirty_; }
  void clear_dirty();

  // --- pages ------------------------------------------------------------------------------------
  // Promises up to `count` pages, appended in rising order; returns how many.
  std::size_t promise_pages(std::size_t count, std::vector<PageId>* pages);
  // Promised -> used.
  void use_page(PageId id, Generation generation);
  // Promised -> free.
  void unpromise_page(PageId id);
  // Used -> pending. The caller keeps the queue.
  void suspend_page(PageId id);
  // Pending -> free.
  void release_page(PageId id);
  bool page_used(PageId id) const;

  // --- free chunks ------------------------------------------------------------------------------
  // The first of `count` adjacent free chunks before the ceiling, now of `kind`; size() where there
  // are none.
  std::uint64_t take_free_run(std::uint64_t count, ChunkKind kind);
  // Takes exactly `chunk`; false where it is not free.
  bool take_free(std::uint64_t chunk, ChunkKind kind);
  // For recovery: makes a chunk that holds nothing a record chunk, also a frozen one. The caller gives
  // it a bitmap page. False where it holds something.
  bool claim_for_records(std::uint64_t chunk, CollectionId owner);
  bool is_free_run(std::uint64_t first, std::uint64_t count) const;
  std::uint64_t free_chunks() const { return free_.size(); }
  // The run of free chunks at the end of the file.
  std::uint64_t trailing_free() const;
  // The last `count` chunks, all free, are no longer part of the file.
  void drop_free_tail(std::uint64_t count);
  // While there is one, chunks from here on are handed out only where nothing before them will do;
  // that ends it.
  std::uint64_t ceiling() const { return ceiling_; }
  void set_ceiling(std::uint64_t chunk) { ceiling_ = chunk; }
  void lift_ceiling() { ceiling_ = kNoCeiling; }
  static constexpr std::uint64_t kNoCeiling = ~std::uint64_t{0};
  // A record chunk that holds nothing any more. The caller has dealt with its bitmap page.
  void free_record_chunk(std::uint64_t chunk);
  bool record_chunk_empty(std::uint64_t chunk) const;

  // --- record chunks ----------------------------------------------------------------------------
  struct Owner {
    std::set<std::uint64_t> chunks;
    std::uint64_t reusable_units = 0;  // neither used nor pending, in all of them
  };
  const std::unordered_map<CollectionId, Owner>& owners() const { return owners_; }
  // Null where the collection has no chunks.
  const Owner* owner(CollectionId collection) const;
  // A chunk just taken for records, with its bitmap page.
  void start_record_chunk(std::uint64_t chunk, CollectionId owner, PageId bitmap_page);
  void use_units(std::uint64_t chunk, std::uint32_t units, Generation generation);
  void suspend_units(std::uint64_t chunk, PendingRange range);
  // Pending ranges of generations <= limit are free from here.
  void release_units(std::uint64_t chunk, Generation limit);

 private:
  std::uint64_t* word(PageId id);
  void page_became_free(std::uint64_t chunk);
  void make_free(std::uint64_t chunk);
  void note_kind(std::uint64_t chunk, ChunkKind kind);
  std::size_t promise_from(std::uint64_t chunk, std::size_t count, std::vector<PageId>* pages);

  std::deque<ChunkState> states_;
  std::vector<std::uint64_t> dirty_;   // table pages
  std::vector<bool> is_dirty_;         // by table page
  std::set<std::uint64_t> free_;       // free chunks that may be taken
  std::set<std::uint64_t> page_room_;  // page chunks with a free page that may be taken
  std::unordered_map<CollectionId, Owner> owners_;
  std::uint64_t frozen_below_ = 0;
  std::uint64_t ceiling_ = kNoCeiling;
};

}  // namespace multifora
