// Collections as readers and writers see them: a CollectionView (one state, live or captured) and a
// CollectionWriter (the live state, exclusively).
//
// A view's documents and cursors point into pages: they live until the view's lock or snapshot ends
// or is yielded. One thread uses a view at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/bson/view.h"
#include "core/plugin/index.h"
#include "core/storage/types.h"

namespace multifora {

// Immutable description; a change (collMod, rename, index build) makes a new one.
struct CollectionInfo {
  CollectionId id = 0;
  std::string db;
  std::string name;
  std::string ns;  // db + "." + name
  std::array<char, 16> uuid{};
  bool is_view = false;
  OwnedDocument options;  // as listCollections shows them: capped, validator, viewOn, pipeline ...
  std::shared_ptr<const Collator> collator;             // default collation; null: simple
  std::shared_ptr<const CompiledFilter> validator;      // null: none
  bool capped = false;
  std::int64_t capped_size_bytes = 0;
  std::int64_t capped_count_max = 0;
  bool clustered = false;
  bool pre_images = false;  // changeStreamPreAndPostImages: the log keeps documents as they were
};

// How often queries have used an index since it was opened. Counted without order by any thread.
struct IndexUse {
  std::atomic<std::uint64_t> ops{0};
  std::int64_t since_ms = 0;  // Clock::wall_ms
};

// An index of a view: its open instance and the state that the view sees.
struct IndexRef {
  const Index* index = nullptr;
  IndexState state;       // empty while it is built
  std::string_view kind;  // name of its kind
  bool building = false;  // writes keep it in step, reads must not use it
  IndexUse* use = nullptr;

  void note_use() const {
    if (use != nullptr) use->ops.fetch_add(1, std::memory_order_relaxed);
  }
};

class RecordCursor {
 public:
  virtual ~RecordCursor() = default;
  // Moves to the next record (in record id order, or backwards). False at the end.
  virtual Result<bool> next() = 0;
  virtual RecordId id() const = 0;
  // Its hash was checked when this process first met it; CollectionView::find checks it every time.
  virtual DocumentView document() const = 0;
  // To the first record with id >= `id` (or <= backwards); next() then gives it.
  virtual void seek(RecordId id) = 0;
};

class CollectionView {
 public:
  virtual ~CollectionView() = default;
  virtual const CollectionInfo& info() const = 0;
  virtual std::uint64_t record_count() const = 0;
  virtual std::uint64_t data_bytes() const = 0;  // sum of document sizes
  // nullopt: no such record. DataCorruptionDetected where its hash is wrong.
  virtual Result<std::optional<DocumentView>> find(RecordId id) const = 0;
  virtual std::unique_ptr<RecordCursor> scan(bool backward) const = 0;
  // Ready and building ones; _id_ first.
  virtual std::span<const IndexRef> indexes() const = 0;
  // Record with this _id through the _id index; 0: none. The express path.
  virtual Result<RecordId> find_id(const ValueView& id) const = 0;
  const IndexRef* index_named(std::string_view name) const;

  // Live views: gives the lock up and takes it again, so that writers may pass. Afterwards every
  // document and cursor of this view is invalid, and record_count, indexes() may have changed.
  // QueryPlanKilled (175) where the collection was dropped. Snapshot views: does nothing.
  virtual Status yield() = 0;
  // Is a writer waiting for this view's lock? Always false for snapshots. Cheap.
  virtual bool contended() const = 0;
};

// Identifies a statement of a retryable write; its result is stored with the write.
struct StatementId {
  std::string lsid;  // 16 bytes
  std::int64_t txn_number = -1;
  std::int32_t statement = 0;
};

// What those who follow the changes are told of an update: the fields that differ, or a whole new document.
struct UpdateShape {
  bool replacement = false;
  std::span<const std::string> assigned;  // see make_difference() in core/bson/patch.h
};

// Changes to one collection, one log batch. Each call is atomic by itself: after a failure (DuplicateKey,
// DocumentValidationFailure, OutOfDiskSpace, BSONObjectTooLarge ...) that call changed nothing and the
// writer may go on. What was done is logged by commit(), or by the destructor; it becomes visible to
// others only then, because the writer holds the collection's exclusive lock.
class CollectionWriter {
 public:
  virtual ~CollectionWriter() = default;

  // The live state including this writer's changes. Documents and cursors of it are invalid after
  // each change (seek again by record id). yield() does nothing: commit and write() anew instead.
  virtual CollectionView& view() = 0;

  // `document` has _id first (see ensure_id in store.h). Checks the validator unless bypassed.
  virtual Result<RecordId> insert(DocumentView document) = 0;
  // The document at `id` becomes `document`; `before` must be its current content (view().find).
  virtual Status update(RecordId id, DocumentView before, DocumentView document,
                        const UpdateShape& shape = {}) = 0;
  virtual Status remove(RecordId id, DocumentView before) = 0;
  virtual Status truncate() = 0;  // removes every record

  // The result of a retryable statement, stored atomically with the changes of this batch:
  // `result` is a BSON document that retried_result returns for the same ids, also after a crash.
  virtual void set_statement_result(const StatementId& id, DocumentView result) = 0;
  virtual void bypass_validation(bool bypass) = 0;

  // Bytes of the batch so far: long commands commit and start anew between bounded batches.
  virtual std::size_t batch_bytes() const = 0;
  // Appends the batch and gives up the lock. Position 0 where nothing was changed. The caller passes
  // it to CommandContext::note_write.
  virtual Result<LogPosition> commit() = 0;
};

}  // namespace multifora
