// The pager owns the data file: pages (copy-on-write by generation), record space, snapshots and
// checkpoints. The file's format stands in docs/format-data.md.
//
// Invariants
//  1. A page is written only while its born generation is the current one. Older pages are
//     published: immutable until nothing can see them. Debug builds give readers a read-only
//     mapping, so that a stray store traps.
//  2. A page or record range retired in generation r is used again only when no snapshot of a
//     generation < r is alive and the two newest durable checkpoints are of generations >= r.
//     After an open, what is free in the file is used once both meta pages describe the same
//     checkpoint: at once where they do, else from recovery or the first checkpoint on.
//  3. One-page allocations and record ranges come from chunks of different kinds.
//  4. Space is promised per operation: a PageStash holds real pages; never a shared counter.
//
// Generations: begin_snapshot() returns S with generation g and makes g + 1 current. S sees pages
// born <= g and retired > g. The caller makes sure that nobody is in the middle of a change of
// the structures whose roots it captures (the store's commit gate).
//
// Threads: everything may be called from any thread. A page's bytes are changed only by the thread
// that owns the structure the page belongs to (the collection's exclusive lock).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/assert.h"
#include "core/base/bytes.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/metrics.h"
#include "core/base/status.h"
#include "core/storage/types.h"

namespace multifora {

enum class PageKind : std::uint8_t {
  kFree = 0,
  kTreeLeaf = 1,
  kTreeInner = 2,
  kOverflow = 3,
  kArray = 4,  // PagedArray
  kRecordBitmap = 5,
  kChunkTable = 6,
};

// First bytes of every page but the meta pages.
struct PageHeader {
  std::uint64_t checksum;    // XXH3-64 of bytes [8, kPageSize), set at the checkpoint
  std::uint64_t page_id;     // own number
  std::uint64_t generation;  // born in
  std::uint32_t owner;       // collection, for reports
  std::uint8_t kind;         // PageKind
  std::uint8_t reserved[3];
};
static_assert(sizeof(PageHeader) == 32);

// What the store keeps in the meta page: small, opaque to the pager.
inline constexpr std::size_t kStoreMetaSizeMax = 1024;

struct PagerOptions {
  std::uint64_t reserve_bytes = std::uint64_t{1} << 40;  // address range; also the largest file
  std::uint64_t growth_bytes_max = 64 * 1024 * 1024;     // step = size / 64 between 1 MiB and this
  std::uint64_t memory_budget_bytes = 0;                 // 0: no limit on resident file pages
};

// Stands in the pages of forks (see PageStash) for the generation they were born in.
inline constexpr Generation kForkGeneration = ~Generation{0};

class Pager;

// A read view at one instant. Move-only; while it lives what it sees is not reused.
class Snapshot {
 public:
  Snapshot() = default;
  Snapshot(Snapshot&& other) noexcept;
  Snapshot& operator=(Snapshot&& other) noexcept;
  ~Snapshot();
  Generation generation() const { return generation_; }
  explicit operator bool() const { return pager_ != nullptr; }

 private:
  friend class Pager;
  Snapshot(Pager* pager, Generation generation) : pager_(pager), generation_(generation) {}
  Pager* pager_ = nullptr;
  Generation generation_ = 0;
};

// Pages promised to one writer. An operation first calls ensure(worst case); taking from the stash
// then cannot fail. Kept between operations by its owner (a collection); one thread at a time.
// What is left goes back at destruction. Stashed pages count as free in a checkpoint.
//
// An unlinked stash is for structures that are built while nothing refers to them (an index build):
// the pages taken from it also count as free in a checkpoint, so that a crash loses none of them,
// and go back at destruction, until link() makes them ordinary pages of the current state. Until
// then a structure made of them may be changed with this stash (and no other), like any other one.
// Call link() under the commit gate, with the change that refers to them; its cost is some
// nanoseconds a page, and it touches none of them.
//
// A fork stash is for a private branch of structures that a snapshot holds (a transaction's writes):
// its pages are like an unlinked stash's, and whatever the branch copies or drops of the snapshot's
// pages stays, as others still use them. It is never linked: the branch ends with its stash. The
// snapshot must outlive it.
class PageStash {
 public:
  enum class Mode { kLinked, kUnlinked, kFork };
  explicit PageStash(Pager& pager, Mode mode = Mode::kLinked) : pager_(pager), mode_(mode) {}
  PageStash(const PageStash&) = delete;
  ~PageStash();
  // At least `count` pages are held after OK; OutOfDiskSpace otherwise (nothing lost). An operation
  // that gives space back (`frees_space`) may use the last pages of a full disk.
  Status ensure(std::size_t count, bool frees_space = false);
  // A fresh page with its header filled in (born now); requires ensure() to have promised it.
  // The rest of the page is uninitialised.
  char* take(PageKind kind, std::uint32_t owner, PageId* id);
  std::size_t size() const { return pages_.size(); }
  void give_back_all();  // what was not taken
  // `id`, a page of the structure that this stash is for, is no longer part of it.
  void retire(PageId id);
  void link();  // see above; for an unlinked stash

 private:
  friend class Pager;
  friend class RecordSpace;
  char* copy_to_fork(PageId* id);
  Pager& pager_;
  Mode mode_;
  std::vector<PageId> pages_;     // rising towards the front
  // Of an unlinked stash: what was taken from it, and what of that was retired again.
  std::vector<PageId> unlinked_;
  std::vector<PageId> unlinked_retired_;
};

struct CheckpointImage {
  LogPosition position = 0;  // every batch up to this one is in the image
  Buffer store_meta;         // <= kStoreMetaSizeMax bytes
};

struct SpaceUse {  // bytes, by what they are used for; sums to file_bytes
  std::uint64_t file_bytes = 0;
  std::uint64_t meta_bytes = 0;
  std::uint64_t page_bytes = 0;     // pages in use
  std::uint64_t record_bytes = 0;   // record units in use
  std::uint64_t retired_bytes = 0;  // waiting for invariant 2
  std::uint64_t free_bytes = 0;
  std::uint64_t free_chunk_bytes = 0;  // of free_bytes: in whole chunks, open to any use
  std::uint64_t tail_bytes = 0;        // of that: at the end of the file
};

class Pager {
 public:
  // Creates the file where it is absent. Fails, changing nothing: UnsupportedFormat for a file of
  // another program, version or page size; DataCorruptionDetected where no meta page is valid.
  static Result<std::unique_ptr<Pager>> open(FileSystem& files, const std::string& path,
                                             const PagerOptions& options, LogSink& log,
                                             MetricsRegistry& metrics);
  ~Pager();

  // The newest valid checkpoint found at open. position 0 and empty meta for a new file.
  const CheckpointImage& opened_image() const;
  bool created() const;

  // Around the replay of the log, which has to find room wherever the process that wrote the log has
  // found some: nothing is set aside for later, and begin_recovery() comes before anything is allocated.
  void begin_recovery();
  void end_recovery();

  // --- pages ------------------------------------------------------------------------------------
  // The page's bytes, for reading. Its checksum was checked on first touch:
  // DataCorruptionDetected naming page and offset. Lives while its structure's lock or a snapshot
  // that sees it is held.
  Result<const char*> read(PageId id) const {
    if (id < page_limit_ && verified(id)) [[likely]]
      return read_base_ + id * kPageSize;
    return read_first(id);
  }
  // The same for a page that this process has read or written before (asserted in debug).
  const char* peek(PageId id) const {
    MULTIFORA_DASSERT(id < page_limit_ && verified(id));
    return read_base_ + id * kPageSize;
  }
  // Asks the processor for a part of the page, whose number may be any. Does nothing for a page
  // that is not in memory.
  void prefetch(PageId id, std::size_t offset, std::size_t size_bytes) const {
    if (id >= page_limit_) return;
    const char* const from = read_base_ + id * kPageSize + offset;
    for (std::size_t at = 0; at < size_bytes; at += 64) __builtin_prefetch(from + at);
  }
  // For writing; requires born() == current generation.
  char* write(PageId id) {
    MULTIFORA_DASSERT(writable_in_place(id));
    return write_base_ + id * kPageSize;
  }
  Generation born(PageId id) const {
    return load_le<Generation>(peek(id) + offsetof(PageHeader, generation));
  }
  // Born in the current generation, or of a fork: only the fork itself ever meets those.
  bool writable_in_place(PageId id) const {
    const Generation generation = born(id);
    return generation == current_generation() || generation == kForkGeneration;
  }
  Generation current_generation() const { return generation_.load(std::memory_order_acquire); }
  // `id` is no longer part of the current state.
  void retire(PageId id);
  // Makes `*id` writable: itself if born now, else a copy taken from the stash (the old page is
  // retired, *id is updated). Cannot fail once the stash has a page.
  char* make_writable(PageId* id, PageStash& stash);

  // --- records ----------------------------------------------------------------------------------
  // Contiguous record space, one range a record: see record_space.h for the calls.
  class RecordSpace& records();

  // --- what the log refers to -------------------------------------------------------------------
  // Bytes of the data file (records) that a log batch refers to instead of holding them. Say so before
  // the batch is appended; the log calls sync_referenced() before it writes the batch, which makes
  // durable what was noted. A failure is final.
  struct Extent {
    std::uint64_t offset = 0, size_bytes = 0;
  };
  void note_referenced(std::span<const Extent> extents);
  Status sync_referenced();
  // Asks the system to begin with that. Any time between the two; takes some tens of microseconds.
  void start_write_back(std::span<const Extent> extents) const;
  std::uint64_t referenced_since_checkpoint_bytes() const;

  // --- snapshots and checkpoints ----------------------------------------------------------------
  Snapshot begin_snapshot();
  // Keeps what is visible now from being reused, without a new generation: for looking at records
  // outside of their collection's lock.
  Snapshot pin();
  // Step 1, under the store's commit gate: captures the space tables and bumps the generation.
  // Step 2, without it: writes, syncs, publishes the meta page. Only one checkpoint at a time; each
  // begin has its finish, which ends the object. OutOfDiskSpace from the finish leaves everything
  // as it was (try again later); any other failure is final, see health().
  class Checkpoint* begin_checkpoint(const CheckpointImage& image);
  Status finish_checkpoint(class Checkpoint* checkpoint);
  // Publishes the newest checkpoint once more, so that both meta pages describe it: what was retired
  // up to it can be reused and the log before it is not needed any more. One small write and a sync.
  // What lies behind the space tables goes back to the file system. Not while a checkpoint is
  // between its steps. A failure is final.
  Status settle();
  // Free chunks at the file's end beyond `keep_bytes` leave the space tables with the next
  // checkpoint, and the file with the settle() after it.
  void shrink_at_next_checkpoint(std::uint64_t keep_bytes);

  // --- vacating the end of the file (pager_vacate.cpp) --------------------------------------------
  // From now on pages and records go before this offset, and what the pager has in hand behind it is
  // given up. Ends by itself as soon as there is no room before it for somebody.
  void begin_vacating(std::uint64_t from_bytes);
  static constexpr PageId kNotVacating = ~PageId{0};
  PageId vacating_from() const;  // kNotVacating: ended
  void end_vacating();
  // Moves bitmaps of record chunks, up to `pages_max`, as vacating asks for.
  Status move_bitmaps(std::size_t pages_max);
  // Collections that have pages of trees or arrays from there on; 0: the catalog.
  std::vector<std::uint32_t> page_owners_from(PageId from) const;
  // A page that was read moves to a page of the stash, which must have one; its owner takes note of
  // the new number. False, and nothing done, where that is not nearer to the front.
  bool move_page(PageId* id, PageStash& stash);
  // Batches up to this position are in every durable checkpoint: the log may drop them.
  LogPosition oldest_needed_position() const;
  // Bytes retired since the last checkpoint began: a trigger for the next one.
  std::uint64_t retired_since_checkpoint_bytes() const;
  std::uint64_t dirty_since_checkpoint_bytes() const;
  // Bytes retired that wait for a checkpoint to become reusable: what the file has to grow by if writers
  // need so much before. What only a snapshot holds back is not counted. Any thread, cheap.
  std::uint64_t waiting_bytes() const;
  // So much may wait before it is worth hurrying a checkpoint and holding writers back: a sixteenth of
  // the file, at least 16 MiB. Any thread, cheap.
  std::uint64_t waiting_bytes_allowed() const;
  // In whole chunks, open to any use. Any thread; takes the allocator's mutex.
  std::uint64_t free_chunk_bytes() const;

  // Writes the newest durable checkpoint as a data file of its own at `to`, which must not exist,
  // while writers and checkpoints go on: what the checkpoint holds is kept from being reused until
  // the call returns. Every page is checked on the way; the file is synced, its name is not.
  // `progress` gets bytes done and to do, and may stop the copy by failing. After a failure a part
  // of the file may be left behind.
  struct Copied {
    LogPosition position = 0;      // every batch up to it is in the copy
    std::uint64_t file_bytes = 0;  // size of the copy
    std::uint64_t copied_bytes = 0;
  };
  using CopyProgress = std::function<Status(std::uint64_t done, std::uint64_t total)>;
  Result<Copied> copy_checkpoint(FileSystem& files, const std::string& to,
                                 const CopyProgress& progress);

  // --- reports ----------------------------------------------------------------------------------
  SpaceUse space_use() const;  // walks the space tables
  // As far as the space tables reach. Cheap.
  std::uint64_t file_bytes() const;
  struct ChunkUse {  // counts of chunks, and of what is in them
    std::uint64_t free_chunks = 0, page_chunks = 0, record_chunks = 0;
    std::uint64_t used_pages = 0, free_pages = 0, waiting_pages = 0;
    std::uint64_t trailing_free_chunks = 0;
    std::map<std::uint32_t, std::uint64_t> record_chunks_of;  // by collection; 0: shared ones
  };
  ChunkUse chunk_use() const;
  // The newest durable checkpoint.
  struct CheckpointInfo {
    std::uint64_t number = 0;
    Generation generation = 0;
    LogPosition position = 0, older_position = 0;
  };
  CheckpointInfo newest_checkpoint() const;
  // After a failed write or sync: every later change fails with this.
  Status health() const;
  const std::string& path() const;
  // Gives memory of cold, clean ranges back until the budget holds; called by background work.
  void trim_memory();

  // Verifies the space tables against the set of pages and record ranges in use, which the caller
  // collects by walking every structure of the current state: each is used exactly once and
  // nothing else is marked as used. Requires that nobody writes. Errors are appended.
  class SpaceCheck* begin_check();
  void check_page(SpaceCheck* check, PageId id, std::string_view what);
  void check_record(SpaceCheck* check, RecordLocation location, std::size_t size_bytes,
                    std::string_view what);
  void finish_check(SpaceCheck* check, std::vector<std::string>* errors);

 private:
  friend class Snapshot;
  friend class PageStash;
  friend class RecordSpace;
  Pager();
  bool verified(PageId id) const {
    return (verified_[id / 64].load(std::memory_order_acquire) >> (id % 64) & 1) != 0;
  }
  Result<const char*> read_first(PageId id) const;

  // Here so that the calls above inline to a bit test and an addition.
  const char* read_base_ = nullptr;
  char* write_base_ = nullptr;
  std::atomic<std::uint64_t>* verified_ =
      nullptr;             // a bit a page: checked, or born in this process
  PageId page_limit_ = 0;  // pages in the reserved address range
  std::atomic<Generation> generation_{1};
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace multifora
