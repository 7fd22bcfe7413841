// The pager's state, shared by the sources that implement it: pager.cpp (open, close, first reads),
// pager_pages.cpp (pages, stashes, growth, snapshots), pager_checkpoint.cpp, pager_check.cpp,
// pager_memory.cpp and record_space.cpp. Private to the storage layer.
//
// Locks: growth_mutex, then meta_mutex, then mutex. `mutex` guards everything below it except where
// a member says otherwise; it is held for short sections and never across a write or sync of the
// file. Functions named *_locked expect it; those that take a std::unique_lock may let go of it
// meanwhile.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/storage/checkpoint.h"
#include "core/storage/chunk_table.h"
#include "core/storage/meta_page.h"
#include "core/storage/pager.h"
#include "core/storage/record_space.h"
#include "core/storage/retired_queue.h"

namespace multifora {

struct Pager::Impl {
  using Lock = std::unique_lock<std::mutex>;

  Impl(Pager& owner, LogSink& log_sink, Metrics& metrics);
  ~Impl();

  // --- fixed after open -------------------------------------------------------------------------
  Pager& pager;
  LogSink& log;
  std::unique_ptr<File> file;
  std::string path;
  PagerOptions options;
  CheckpointImage opened;
  bool created = false;
  bool recovering = false;  // between begin_recovery() and end_recovery(); under the mutex
  std::uint64_t reserve_bytes = 0;
  std::unique_ptr<RecordSpace> records;
  Counter& checkpoints_total;
  Counter& page_copies_total;
  Counter& growths_total;

  std::mutex referenced_mutex;      // guards `referenced`; below every other lock
  std::vector<Extent> referenced;   // by log batches; not yet durable

  std::mutex growth_mutex;  // one thread grows the file
  std::mutex meta_mutex;    // one thread publishes a meta page; between growth_mutex and mutex

  // --- any thread, without the mutex ------------------------------------------------------------
  std::atomic<bool> failed{false};
  std::atomic<std::uint64_t> file_bytes{0};  // what may be touched through the mapping
  std::atomic<std::uint64_t> retired_bytes{0};
  // Of those retired before the newest checkpoint began, and not settled yet.
  std::atomic<std::uint64_t> settling_bytes{0};
  std::atomic<std::uint64_t> dirty_bytes{0};
  std::atomic<std::uint64_t> referenced_bytes{0};  // since the last checkpoint began

  // --- under the mutex --------------------------------------------------------------------------
  mutable std::mutex mutex;
  Status failure;
  ChunkTable table;
  RetiredQueue retired;
  std::vector<PageId> reserve;  // promised pages for checkpoints and for whoever frees space
  std::vector<PageId> born;     // since the last checkpoint began
  std::map<Generation, std::size_t> snapshots;  // alive, with their counts
  MetaPage meta;                                // the newest durable checkpoint
  Generation older_generation = 0;              // of the durable checkpoint before it
  LogPosition older_position = 0;
  std::uint64_t older_chunk_count = ~std::uint64_t{0};  // unknown until this process publishes
  std::uint64_t shrink_keep_chunks = ~std::uint64_t{0};  // see shrink_at_next_checkpoint
  std::vector<PageId> table_pages;  // current; only begin_checkpoint changes it
  std::unique_ptr<Checkpoint> checkpoint;
  std::vector<ChunkEntry>
      spare_entries;            // fresh memory is dear: kept from one checkpoint to the next
  std::uint64_t trim_hand = 0;  // next chunk that trim_memory looks at

  // --- pager.cpp --------------------------------------------------------------------------------
  static Status create(FileSystem& files, const std::string& path);
  Status open(FileSystem& files, const std::string& file_path, const PagerOptions& wanted);
  Status map_file();
  Status confirm_newest(FileSystem& files);
  Status load_table();
  // The chunk table of an image, and where its pages are.
  Result<std::vector<ChunkEntry>> read_table(const MetaPage& image,
                                             std::vector<PageId>* pages) const;
  Result<const char*> table_page(PageId id, const char* what) const;
  Status check_entry(const MetaPage& image, std::uint64_t chunk, const ChunkEntry& entry) const;
  Status page_damaged(PageId id, std::string_view how) const;
  Status health() const;
  void fail_for_good(const Status& status);

  // --- pager_pages.cpp --------------------------------------------------------------------------
  const PageHeader* header(PageId id) const {
    return reinterpret_cast<const PageHeader*>(pager.read_base_ + id * kPageSize);
  }
  char* writable(PageId id) const { return pager.write_base_ + id * kPageSize; }
  Generation now() const { return pager.generation_.load(std::memory_order_relaxed); }
  void set_verified(PageId id) const {
    pager.verified_[id / 64].fetch_or(std::uint64_t{1} << (id % 64), std::memory_order_release);
  }
  // Brings `pages` up to `count`.
  Status promise_pages(Lock& lock, std::vector<PageId>* pages, std::size_t count, bool frees_space);
  char* fill_header(PageId id, PageKind kind, std::uint32_t owner) const;
  // A promised page becomes a used one, born now.
  char* use_page_locked(PageId id, PageKind kind, std::uint32_t owner);
  void retire_page_locked(PageId id);
  char* make_writable_locked(PageId* id, std::vector<PageId>& promised);
  char* move_page_locked(PageId* id, std::vector<PageId>& promised);
  void give_back_locked(std::vector<PageId>* pages);
  // More free chunks at the end, at least `chunks_min`. OutOfDiskSpace: nothing changed.
  Status grow(Lock& lock, std::uint64_t chunks_min);
  Status extend_file(std::uint64_t chunks_now, std::uint64_t chunks_min, std::uint64_t* added);
  Status out_of_space(const Status& cause) const;
  // Worst case of a checkpoint: every table and directory page is copied.
  std::size_t checkpoint_pages_locked() const;
  void top_up_reserve_locked();
  Generation reusable_limit_locked() const;
  void release_retired(Lock& lock);
  void end_snapshot(Generation generation);

  // --- pager_checkpoint.cpp ---------------------------------------------------------------------
  // A page for the image: used, but its header is written by the second step.
  Result<PageId> image_page(Lock& lock);
  Status assign_table_pages(Lock& lock, Checkpoint* next);
  Status assign_table_page(Lock& lock, Checkpoint* next, std::uint64_t index);
  void capture_locked(Checkpoint* next);
  void set_checksums(const Checkpoint& image);
  char* image_header(PageId id, const Checkpoint& image);
  void write_table_pages(const Checkpoint& image);
  // Writes and syncs `next` with the next number, and makes it the newest durable one.
  Status publish_meta(MetaPage next);
  // The same with the newest durable one.
  Status publish_again();
  Status publish_in_turn(MetaPage next);
  // Drops free chunks at the end from the tables.
  void shrink_locked();
  // The file ends where neither the tables nor a durable checkpoint need it.
  Status cut_tail();
  // All that was free at open can be used from here on. Where the older meta page describes another
  // checkpoint, the opened one is published once more, so that nothing older is needed.
  Status thaw(Lock& lock);
  // --- pager_copy.cpp ---------------------------------------------------------------------------
  // The newest durable checkpoint, and a snapshot that keeps all of it.
  Snapshot hold_newest(MetaPage* image);
  Status check_copied_pages(std::uint64_t chunk, const ChunkEntry& entry, const char* bytes) const;

  // --- pager_write_back.cpp ---------------------------------------------------------------------
  // Brings what changed since `generation` to the disk, a slice at a time, so that the sync after it is
  // short and the log's syncs beside it never queue behind much.
  void write_back_slices(Generation generation);
  // Does more space wait for this checkpoint than is allowed to?
  bool pressed() const { return pager.waiting_bytes() > pager.waiting_bytes_allowed(); }
  void write_back_pass(Generation generation);
  void unfreeze_locked();
};

}  // namespace multifora
