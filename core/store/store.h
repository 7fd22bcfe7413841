// The store: databases, the catalog, collections, their locks, the log of their changes, recovery
// and checkpoints. The one object that commands work on.
//
// Lock order: catalog -> collection (in id order where there are several) -> log. A command holds
// either nothing, one collection (shared or exclusive), or the catalog exclusively (DDL, which then
// takes the collections that it changes).
//
// Threads: every call from any thread. What it returns belongs to the calling thread. On a thread that
// works for a transaction (transaction.h) reading, writing and creating work on the transaction's state.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "core/bson/view.h"
#include "core/plugin/names.h"
#include "core/storage/types.h"
#include "core/store/collection.h"

namespace multifora {

class ChangeFeed;
class DocumentBuilder;
class PluginHost;
class Interrupt;
class Pager;
class Wal;

struct StoreOptions {
  std::string path;                              // directory; created where absent
  std::string log_codec = "none";                // for large log blocks
  std::uint64_t checkpoint_log_bytes = 256u << 20;  // checkpoint when the log has grown by this
  std::int64_t checkpoint_interval_ms = 60'000;  // and when dirty for this long
  std::uint64_t memory_budget_bytes = 0;         // resident data pages; 0: a quarter of RAM
  std::int64_t space_patience_ms = 20'000;       // free for so long: given back to the file system
  std::uint32_t cohort_wait_us = 150;
  // The history of changes, for streams that resume: at most so much and so old; 0 bytes: only what
  // the log still holds.
  std::uint64_t history_bytes_max = std::uint64_t{1} << 30;
  std::int64_t history_seconds_max = 24 * 3600;
  // Codecs for it, the best first, separated by commas; raw where none of them is loaded.
  std::string history_codecs;
  // Refuses writes (IllegalOperation), makes no checkpoints, and never creates a database. What recovery
  // finds in the log is applied as ever: give it files that keep changes to themselves
  // (core/base/file_overlay.h), and nothing on the disk changes.
  bool read_only = false;
};

struct OpenReport {
  std::int64_t open_ms = 0;
  std::uint64_t recovered_batches = 0;
  std::uint64_t truncated_log_bytes = 0;
  bool created = false;
};

struct IndexBuildResult {
  std::int32_t indexes_before = 0;
  std::int32_t indexes_after = 0;
  bool created_collection = false;
  bool all_existed = false;
  std::uint64_t records = 0;  // in the collection when the build ended
  LogPosition position = 0;
};

struct StoreStats {
  std::uint64_t collections = 0, indexes = 0, views = 0;
  std::uint64_t data_file_bytes = 0, data_free_bytes = 0, data_allocated_bytes = 0;
  std::uint64_t log_live_bytes = 0, log_allocated_bytes = 0, history_bytes = 0;
  std::uint64_t checkpoints = 0;
  // Writers held back because they outrun checkpoints: how many had to wait, how long in all, and how
  // many wait now.
  std::uint64_t held_back_writers = 0, held_back_us = 0, held_back_now = 0;
};

// The document with _id as its first field: `document` itself where it is so already, otherwise a copy in
// `out` (whose content goes) with _id moved to the front, or a new ObjectId where absent. Lives as long as
// both. InvalidIdField / BadValue for an _id that is an array, undefined or a regex.
Result<DocumentView> ensure_id(DocumentView document, Buffer& out);

class Store {
 public:
  // Opens or creates the database at options.path. Constant time in the size of the data; replays the
  // log's tail. Errors name what to do: a lock held elsewhere, a codec or index kind not loaded, a
  // newer format, damage.
  static Result<std::unique_ptr<Store>> open(const StoreOptions& options, PluginHost& host,
                                             FileSystem& files, OpenReport* report);
  // Waits for running work, checkpoints, empties the log. Call close() to learn of failures.
  ~Store();
  Status close();

  // --- reading ----------------------------------------------------------------------------------
  // A live view under the collection's shared lock. Null: no such collection. A view-collection
  // (info().is_view) has no records.
  Result<std::unique_ptr<CollectionView>> read(std::string_view ns);
  // By id, for cursors between commands; QueryPlanKilled (175) where it was dropped.
  Result<std::unique_ptr<CollectionView>> read(CollectionId id);
  // The description alone, no lock kept. Null: none.
  std::shared_ptr<const CollectionInfo> info(std::string_view ns) const;

  // --- writing ----------------------------------------------------------------------------------
  // Takes the exclusive lock; before that, waits for its turn where writers outrun checkpoints, unless
  // `interrupt` says to stop. `create`: makes a missing collection (implicit creation), otherwise the
  // result is null for one. CommandNotSupportedOnView (166) for a view.
  Result<std::unique_ptr<CollectionWriter>> write(std::string_view ns, bool create,
                                                  Interrupt* interrupt = nullptr);
  // The stored result of an earlier statement with these ids. TransactionTooOld (225) where txn_number
  // is older than the newest one seen of that session.
  Result<std::optional<OwnedDocument>> retried_result(const StatementId& id) const;
  // A writer outside transactions that met WriteConflict waits here, holding nothing, before it tries
  // again: until some transaction ends, at most `ms`.
  void wait_for_writers(std::int64_t ms);

  // --- the catalog ------------------------------------------------------------------------------
  // Options as in the `create` command, already checked by the command against MongoDB's rules. One
  // with {temp: true} is dropped when the database is next opened, unless it was renamed.
  // NamespaceExists (48) where a different one exists; OK and position 0 for an identical one.
  Result<LogPosition> create_collection(std::string_view ns, DocumentView options);
  // Both abort index builds that run there.
  Result<LogPosition> drop_collection(std::string_view ns);  // NamespaceNotFound
  Result<LogPosition> drop_database(std::string_view db);    // position 0: there was none
  Result<LogPosition> rename_collection(std::string_view from, std::string_view to, bool drop_target);
  // Replaces the options of a collection or view (collMod).
  Result<LogPosition> set_collection_options(std::string_view ns, DocumentView options);
  // Makes a collection capped, with at most `size_bytes` of documents and, where count_max > 0, that
  // many; writers go on meanwhile. Its secondary indexes go, in one batch with the change; documents
  // beyond the bounds go afterwards, oldest first, in batches (interrupted: with the next insert).
  // NamespaceNotFound, CommandNotSupportedOnView, InvalidOptions (clustered).
  Result<LogPosition> convert_to_capped(std::string_view ns, std::int64_t size_bytes,
                                        std::int64_t count_max, Interrupt& interrupt);

  // `specs`: as in createIndexes. Builds without blocking writers, in one scan; all or none of them. Where
  // another call builds one of them already, waits for its end.
  // `interrupt` cancels, and so does abort_index_builds (IndexBuildAborted); progress goes to the log
  // and to index_builds().
  Result<IndexBuildResult> create_indexes(std::string_view ns, const std::vector<DocumentView>& specs,
                                          Interrupt& interrupt);
  Result<LogPosition> drop_index(std::string_view ns, std::string_view name);  // IndexNotFound
  // Changes a property of an index spec that needs no rebuild (hidden, expireAfterSeconds,
  // prepareUnique, unique). `spec` is the whole new one.
  Result<LogPosition> set_index_spec(std::string_view ns, std::string_view name, DocumentView spec);

  std::vector<std::string> database_names() const;  // sorted; those that have a collection or view
  std::vector<std::shared_ptr<const CollectionInfo>> collections(std::string_view db) const;  // by name
  // Index specs as listIndexes shows them.
  Result<std::vector<OwnedDocument>> index_specs(std::string_view ns) const;
  struct BuildProgress {  // of one create_indexes call
    std::string ns;
    std::vector<OwnedDocument> specs;
    std::vector<std::string> names;
    std::string phase;  // in MongoDB's words
    std::uint64_t done = 0, total = 0;
    std::int64_t started_us = 0;  // Clock::monotonic_us
  };
  std::vector<BuildProgress> index_builds() const;
  // Stops the builds on `ns` that build exactly `names` (empty: all of them) and returns when they are
  // gone. How many there were. `reason` goes into their errors.
  std::size_t abort_index_builds(std::string_view ns, const std::vector<std::string>& names,
                                 std::string_view reason);

  // --- durability -------------------------------------------------------------------------------
  // See Wal::when_durable.
  void when_durable(LogPosition position, std::function<void(const Status&)> callback,
                    bool allow_lead = true);
  Status wait_durable(LogPosition position);
  LogPosition last_position() const;     // cluster time
  void advance_to(LogPosition position);  // later batches get positions beyond it
  LogPosition durable_position() const;
  Status checkpoint();                   // now; returns when it is durable
  // Makes the data file as short as it can be, beside readers and writers; returns the bytes given
  // back to the file system. Does no more than a checkpoint where less than about `bytes_min` can be (0 is
  // returned), or with `dry_run`, which returns that estimate. The background does the same, slowly.
  Result<std::uint64_t> compact(std::uint64_t bytes_min, bool dry_run, Interrupt& interrupt);
  // Not OK: read-only after a failed write or sync, with what to do; or opened read-only.
  Status health() const;
  bool read_only() const;  // opened so

  // --- reports ----------------------------------------------------------------------------------
  StoreStats stats() const;
  // A command on `ns` took so long, from its request to its reply. Nothing where there is no such
  // collection. Cheap: a look-up and two additions.
  enum class CommandClass { kRead, kWrite, kOther };
  void note_latency(std::string_view ns, CommandClass kind, std::uint64_t latency_us) const;
  struct CommandLatency {
    std::uint64_t ops = 0, latency_us = 0;
  };
  struct CollectionStats {
    std::uint64_t count = 0, data_bytes = 0, storage_bytes = 0, free_bytes = 0;
    struct IndexSize {
      std::string name;
      std::uint64_t size_bytes = 0, entries = 0;
      std::uint64_t ops = 0;       // queries that used it since
      std::int64_t since_ms = 0;   // then
    };
    std::vector<IndexSize> indexes;
    CommandLatency reads, writes, commands;  // since the collection was opened
  };
  Result<CollectionStats> collection_stats(std::string_view ns) const;
  // Walks a collection: every record's hash and BSON, every index entry against its record and the
  // reverse. `full` also checks index structure. Errors and counts in the result.
  struct ValidateReport {
    std::uint64_t records = 0, invalid_documents = 0;
    struct IndexReport {
      std::string name;
      std::uint64_t keys = 0;
      bool valid = true;
    };
    std::vector<IndexReport> indexes;
    std::vector<std::string> errors;
  };
  Result<ValidateReport> validate(std::string_view ns, bool full, Interrupt& interrupt) const;
  // The whole file: every page and record reachable or free exactly once, every collection valid.
  // Stops writers meanwhile. Empty: clean. `progress` hears of each collection before its turn.
  using CheckProgress = std::function<void(const CollectionInfo& collection, std::uint64_t records,
                                           std::size_t done, std::size_t total)>;
  std::vector<std::string> check(const CheckProgress& progress = {});
  // What is where: checkpoint, space, catalog, collections with their trees. For people who look
  // inside and for bug reports; the fields may change from version to version.
  void describe(DocumentBuilder& out) const;

  // Copies a consistent image of the database, as of a checkpoint that it makes first, into
  // `directory` (absolute; absent or empty). Writers go on; one backup at a time. To restore, start
  // on the directory. BadValue for an unusable directory; a failed or interrupted backup leaves
  // nothing behind.
  struct BackupReport {
    LogPosition position = 0;       // every batch up to it is in the copy, none after it
    std::uint64_t file_bytes = 0;   // size of the copy
    std::uint64_t copied_bytes = 0; // of it, what is in use
    std::int64_t ms = 0;
  };
  Result<BackupReport> backup(const std::string& directory, Interrupt& interrupt);
  struct BackupProgress {
    std::uint64_t done_bytes = 0, total_bytes = 0;
  };
  std::optional<BackupProgress> backup_progress() const;  // none: no backup is being made

  // The stream of committed changes.
  ChangeFeed& changes() const;

  PluginHost& host() const;
  Clock& clock() const;
  LogSink& log() const;
  const std::string& path() const;
  // For spilling queries and index builds: a directory emptied at open; the system's where read-only.
  const std::string& temp_directory() const;

  struct Impl;  // store_impl.h: for the store's own sources
  Impl& impl() { return *impl_; }

 private:
  Store();
  Result<IndexBuildResult> build_indexes(std::string_view ns, const std::vector<DocumentView>& specs,
                                         Interrupt& interrupt);
  std::unique_ptr<Impl> impl_;
};

}  // namespace multifora
