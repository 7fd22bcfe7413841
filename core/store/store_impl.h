// The inside of a Store, shared by its source files: store.cpp (open, close, look-up),
// store_catalog.cpp (DDL), store_recovery.cpp, store_checkpoint.cpp, store_index_build.cpp and
// store_check.cpp. Lock order: ddl_mutex -> collection locks (by id) -> gate -> small mutexes.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "core/base/interrupt.h"
#include "core/plugin/host.h"
#include "core/storage/wal.h"
#include "core/store/catalog_table.h"
#include "core/store/collection_impl.h"
#include "core/store/log_record.h"
#include "core/store/retry_table.h"
#include "core/store/space_keeper.h"
#include "core/store/store.h"
#include "core/store/transaction.h"
#include "core/store/writer_queue.h"

namespace multifora {

class ChangeFeed;
class History;

using CollectionPtr = std::shared_ptr<Collection>;

// Records of a dropped collection that the dropping command itself frees; the rest is background work.
inline constexpr std::size_t kReclaimAtOnce = 20'000;

// Page stashes lent to writers, so that promised pages are bounded by writers, not by collections.
class StashPool {
 public:
  explicit StashPool(Pager& pager) : pager_(pager) {}
  std::unique_ptr<PageStash> borrow();
  void give_back(std::unique_ptr<PageStash> stash);
  // Nobody holds promised pages for later.
  void drop_idle();

 private:
  Pager& pager_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<PageStash>> idle_;
};

// A stash for one scope.
class BorrowedStash {
 public:
  explicit BorrowedStash(StashPool& pool) : pool_(pool), stash_(pool.borrow()) {}
  BorrowedStash(const BorrowedStash&) = delete;
  ~BorrowedStash() { pool_.give_back(std::move(stash_)); }
  PageStash& operator*() { return *stash_; }

 private:
  StashPool& pool_;
  std::unique_ptr<PageStash> stash_;
};

// Inside the commit gate for one scope.
class GateEntry {
 public:
  explicit GateEntry(CommitGate& gate) : gate_(&gate) { gate_->enter(); }
  GateEntry(const GateEntry&) = delete;
  ~GateEntry() { leave(); }
  void leave() {
    if (gate_ != nullptr) gate_->leave();
    gate_ = nullptr;
  }

 private:
  CommitGate* gate_;
};

struct Store::Impl {
  Impl(const StoreOptions& store_options, PluginHost& plugin_host, FileSystem& file_system)
      : options(store_options), host(plugin_host), files(file_system) {}

  StoreOptions options;
  PluginHost& host;
  FileSystem& files;
  std::string temp_directory;
  std::unique_ptr<File> lock_file;
  std::unique_ptr<Pager> pager;
  std::unique_ptr<CatalogTable> table;
  std::unique_ptr<StashPool> stashes;
  std::shared_ptr<ChangeFeed> feed;  // the log calls it; followers may outlive the store
  std::shared_ptr<History> history;
  std::unique_ptr<Wal> wal;
  SpaceKeeper keeper{*this};
  // Checkpoints change the catalog's tree (inside the closed gate); results of retryable writes are read
  // from it. Below the gate.
  mutable std::shared_mutex table_mutex;
  RetryTable retry;
  Buffer sessions_swept_to;  // the checkpoint's own
  CommitGate gate;

  OpenSnapshots snapshots;  // of transactions
  std::mutex transactions_mutex;
  std::condition_variable transaction_ended;
  std::uint64_t transactions_ended = 0;
  std::vector<Transaction::Impl*> live_transactions;
  // Names that a collection lost (dropped, renamed) while there were snapshots, and when.
  std::map<std::string, Generation, std::less<>> lost_names;  // under names_mutex

  std::mutex ddl_mutex;  // one change of the catalog at a time
  mutable std::shared_mutex names_mutex;
  std::map<std::string, CollectionPtr, std::less<>> by_name;
  std::unordered_map<CollectionId, CollectionPtr> by_id;
  CollectionId next_collection_id = 1;  // under ddl_mutex (or recovery)

  std::mutex dirty_mutex;
  std::vector<CollectionPtr> dirty;      // to save at the next checkpoint
  std::vector<CollectionPtr> graveyard;  // dropped, space still to be reclaimed
  std::vector<CollectionId> reclaimed;   // to erase from the catalog at the next checkpoint

  mutable std::mutex failure_mutex;
  Status failure;  // why the store is read-only
  std::atomic<bool> failed{false};

  // The checkpoint thread.
  std::mutex checkpoint_mutex;  // one checkpoint at a time
  std::mutex reclaim_mutex;
  std::mutex worker_mutex;
  std::condition_variable worker_wake;
  bool stopping = false;
  bool checkpoint_wanted = false;
  bool space_wanted = false;  // a second checkpoint is to follow
  std::atomic<bool> log_refers{true};  // to documents in the data file, since the last checkpoint
  std::atomic<bool> disk_full{false};  // since the history was last written
  std::atomic<int> quiet_checkpoints{0};  // made since the last change
  std::thread worker;
  std::atomic<std::uint64_t> log_bytes_at_checkpoint{0};
  std::atomic<std::uint64_t> checkpoints{0};
  std::atomic<bool> log_kept_for_load{false};  // the log has spares that only a load needs
  std::atomic<bool> changed_since_checkpoint{false};

  // --- writers that outrun checkpoints: store_pressure.cpp ---------------------------------------
  WriterQueue writers{[this](std::uint64_t retiring) { return pressure(retiring); },
                      [this] { note_progress(); }};
  std::atomic<bool> no_waits{false};  // closing
  // Log bytes appended until the checkpoint up to which the log is free.
  std::atomic<std::uint64_t> log_bytes_gone{0};

  // --- the history's thread: store_history.cpp ---------------------------------------------------
  // Writing the history may take longer than a checkpoint; the next one need not wait for it. What the
  // log refers to is kept from being reused until then.
  struct HistoryWork {
    LogPosition position = 0;  // of the checkpoint
    std::uint64_t log_bytes = 0;
    bool load = false;
    Snapshot pin;  // null: the log before it refers to nothing
    std::uint64_t held_bytes = 0;  // that would be free without the pin
  };
  std::mutex history_writing;  // one writes the history; before history_mutex
  std::mutex history_mutex;    // guards what follows
  std::condition_variable history_wake;
  std::deque<HistoryWork> history_work;  // oldest first
  int pinned_works = 0;  // queued or at work
  bool history_stopping = false;
  std::atomic<std::uint64_t> held_bytes{0};  // sum of those that wait
  std::thread history_worker;
  Snapshot epoch_pin;  // the checkpoint's own: since the last one

  // A running index build, as others see it. Its texts never change; `abort` is set under
  // builds_mutex, once.
  enum class BuildPhase { kScan, kWrite, kDrain };
  struct Build {
    std::string ns;
    std::vector<OwnedDocument> specs;
    std::vector<std::string> names;
    std::int64_t started_us = 0;
    std::atomic<BuildPhase> phase{BuildPhase::kScan};
    std::atomic<std::uint64_t> done{0}, total{0};
    std::atomic<bool> abort{false};
    std::string abort_reason;
  };
  std::mutex backup_mutex;  // one backup at a time
  std::atomic<bool> backup_running{false};
  std::atomic<std::uint64_t> backup_done{0}, backup_total{0};

  mutable std::mutex builds_mutex;
  std::condition_variable build_ended;
  std::vector<std::shared_ptr<Build>> builds;
  bool closed = false;

  Status open(WalReplay* replayed);
  // --- look-up ----------------------------------------------------------------------------------
  CollectionPtr find(std::string_view ns) const;
  CollectionPtr find(CollectionId id) const;
  // The same with its lock taken exclusively; null where it is gone.
  CollectionPtr find_locked(std::string_view ns);

  // --- failure ----------------------------------------------------------------------------------
  // The store is read-only from now on.
  void fail_store(const Status& status);
  Status writable() const;  // OK, or why not
  Status alive() const;     // the same, but a database that is meant to be read-only is well

  // --- documents --------------------------------------------------------------------------------
  // Size and validator; the second for a document that replaces `before`.
  Status check_document(const CollectionInfo& info, DocumentView document, bool bypass) const;
  Status check_replacement(const CollectionInfo& info, DocumentView before, DocumentView document,
                           bool bypass) const;

  // --- transactions: transaction.cpp ------------------------------------------------------------
  // The work of a change of the catalog, again and again until no transaction works on what it
  // changes; `change` says so with WriteConflict, having changed nothing and holding no lock.
  // LockTimeout where they do not end.
  template <class Change>
  auto without_transactions(Change change) -> decltype(change()) {
    for (int attempt = 0;; ++attempt) {
      auto done = change();
      if (done || done.error().code() != ErrorCode::kWriteConflict) return done;
      MULTIFORA_TRY_R(wait_for_a_transaction(attempt));
    }
  }
  Transaction::Impl* transaction() const;
  Status wait_for_a_transaction(int attempt);
  void note_transaction_end(Transaction::Impl* transaction);
  // At close: whoever still has one finds it aborted.
  void end_transactions();
  // WriteConflict where a transaction works on one of them. With their locks held.
  static Status check_no_forks(const std::vector<CollectionPtr>& collections);

  // --- logging changes --------------------------------------------------------------------------
  // Appends a batch inside the gate; a failure makes the store read-only.
  Result<LogPosition> append(Bytes batch, Wal::Reservation* reservation);
  Result<LogPosition> append(const LogBatch& batch, Wal::Reservation* reservation, bool refers = false);
  Result<LogPosition> append(Bytes batch, std::uint32_t width, Wal::Reservation* reservation, bool refers);
  Result<Wal::Reservation> reserve_log(std::size_t size_bytes);
  void mark_dirty(const CollectionPtr& collection, bool description);
  void want_checkpoint();
  void want_space();  // the disk is full: two checkpoints, unless they would free nothing
  // Between 0, as it should be, and 1: how far the space that waits for a checkpoint, or the log, is
  // above what is allowed, once writers have retired so many bytes more.
  double pressure(std::uint64_t retiring_bytes) const;
  // Before a writer takes anything: waits for its turn, if writers outrun checkpoints. Fails where the
  // store closes or has failed meanwhile, and with what `interrupt` (may be null) says.
  Result<WriterQueue::Turn> hold_back(Interrupt* interrupt);
  void note_progress();  // wakes the checkpoint thread where the log has grown enough

  // --- the catalog: one function a change, used by commands and by recovery ---------------------
  Result<std::shared_ptr<const CollectionInfo>> make_info(CollectionId id, std::string_view ns,
                                                          Bytes uuid, DocumentView options) const;
  Result<std::unique_ptr<OpenIndex>> open_index(const Collection& collection, std::uint32_t number,
                                                std::string_view kind, DocumentView spec,
                                                const IndexState& state) const;
  Status apply_catalog(const LogRecord& record);
  // `locked`: nobody sees the collection before the caller unlocks it.
  Status check_new_collection(CollectionId id, std::string_view ns) const;
  Status check_rename(const Collection& collection, std::string_view to) const;
  Status apply_create(CollectionId id, DocumentView body, bool locked = false);
  void apply_drop(const CollectionPtr& collection);
  void lose_name(std::string_view ns);
  Status apply_rename(const CollectionPtr& collection, std::string_view to);
  Status apply_set_options(const CollectionPtr& collection, DocumentView options);
  Status apply_drop_index(const CollectionPtr& collection, std::uint32_t number);
  Status apply_set_index_spec(const CollectionPtr& collection, std::uint32_t number,
                              std::string_view kind, DocumentView spec);
  Status reopen_indexes(Collection& collection);
  Result<LogPosition> make_capped(std::string_view ns, std::int64_t size_bytes,
                                  std::int64_t count_max);  // store_capped.cpp
  // Memory for the keys of one of `indexes` indexes that are built together.
  std::uint64_t index_build_budget(std::size_t indexes) const;
  // Until some index build has ended, or for a little while; then what `interrupt` says.
  Status wait_for_build_end(Interrupt& interrupt);
  OwnedDocument describe(const Collection& collection) const;
  Status may_drop(const Collection& collection) const;
  Status drop_temporary(Store& store);
  void start_work(Store& store);
  // See store_catalog.cpp.
  Result<LogPosition> drop_locked(const std::vector<CollectionPtr>& doomed,
                                  LogOperation last_operation, CollectionId last_id,
                                  DocumentView last, const std::function<Status()>& apply_last);

  // --- recovery ---------------------------------------------------------------------------------
  Status load_catalog();
  Status load_collection(CollectionId id, DocumentView description);
  // What the log's tail refers to in the data file; collected before the first batch is applied.
  struct References {
    std::vector<RecordSpace::Claim> claims;
    bool claimed = false;
    std::unordered_map<RecordLocation, RecordReservation> places;
    Buffer scratch;
  };
  References references;
  Status survey(Bytes batch);
  Status claim_references();
  Status replay_insert(const CollectionPtr& collection, LogPosition position, const LogRecord& record,
                       CollectionMutator& mutator);
  Status replay(LogPosition position, Bytes batch);
  Status replay_record(const LogRecord& record, LogPosition position, PageStash& stash);
  Status replay_index(const CollectionPtr& collection, DocumentView body, PageStash& stash);

  // --- checkpoints and reclaiming ---------------------------------------------------------------
  Status checkpoint();
  // Without the history and the recycling of the log that follow it.
  Status make_image();
  // Everything up to `position`, which is durable in the log, goes into the history of changes.
  void keep_history(LogPosition position);
  void queue_history(HistoryWork work);
  // Does all that is queued.
  Status finish_history();
  void write_history();  // the thread
  Result<const Codec*> history_codec() const;
  Status open_history(LogPosition image);
  void recover_names(LogPosition image);
  Result<Bytes> whole_batch(LogPosition position, Bytes batch, Buffer& scratch) const;
  Status save_dirty(const std::vector<std::string>& expired, PageStash& stash);
  Status save_collection(Collection& collection, const std::vector<CollectionId>& gone,
                         PageStash& stash);
  Result<std::vector<std::string>> expired_sessions();
  Status save_sessions(const std::vector<std::string>& expired, PageStash& stash);
  Status checkpoint_failed(Status status);
  void work();  // the checkpoint thread
  // Reclaims up to `records` records of dropped collections; false: nothing left to do.
  Result<bool> reclaim(std::size_t records);
  Status reclaim_at_once();
  Status free_slice(Collection& collection, std::size_t* records, PageStash& stash, bool* done);
  Status free_some(Collection& collection, std::size_t records, PageStash& stash);
  bool checkpoint_due(std::int64_t last_ms) const;
};

}  // namespace multifora
