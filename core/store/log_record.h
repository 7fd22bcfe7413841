// Logical records of a log batch. A batch is a sequence of records; integers are little-endian.
//
//   offset size
//   0      1    operation (LogOperation)
//   1      4    collection id (0 where none)
//   5      4    size of the body in bytes
//   9      n    body
//
// Bodies, by operation:
//   kInsert         u64 record id, document
//   kUpdate         u64 record id, document {_id: ...}, patch (core/bson/patch.h)
//   kDelete         u64 record id, document {_id: ...}
//   kCappedDelete   the same; made by the insert that needed the room, no change event
//   kUpdateImage    u64 record id, document as it was, patch; where the collection keeps pre-images
//   kDeleteImage    u64 record id, document as it was; likewise
//   kTruncate       empty
//   kInsertAt       u64 record id, u64 location (kRecordUnit), u32 size of the document, u64 hash as in
//                   the record's header (core/storage/record_space.h), document {_id: ...}; the
//                   document itself was durable in the data file before this was written
//   kCreate         document {ns, uuid, options, indexes: [{number, kind, spec}]}
//   kDrop           document {ns, uuid, view, replaced}; view: true for one; replaced: true where the kRename
//                   of the batch takes its name
//   kRename         document {from, to, uuid, dropped}; dropped: the uuid of the collection that it replaces
//   kSetOptions     document {options, before}; before: the options as they were
//   kCreateIndex    document {number, kind, spec}
//   kDropIndex      document {number, name, spec}; without spec in logs of older versions, where a
//                   collection became capped; likewise before of the kSetOptions
//   kSetIndexSpec   document {number, spec, before}
//   kDropDatabase   document {db}; comes after the kDrop of each of its collections
//   kStatement      16 bytes lsid, i64 txnNumber, i32 statement, document (the result)
//
// Each record can be applied to the state that all earlier ones made, without the query engine.
#pragma once

#include <cstdint>

#include "core/base/bytes.h"
#include "core/base/status.h"
#include "core/bson/view.h"
#include "core/storage/types.h"

namespace multifora {

enum class LogOperation : std::uint8_t {
  kInsert = 1,
  kUpdate = 2,
  kDelete = 3,
  kCappedDelete = 4,
  kTruncate = 5,
  kInsertAt = 6,
  kUpdateImage = 7,
  kDeleteImage = 8,
  kCreate = 16,
  kDrop = 17,
  kRename = 18,
  kSetOptions = 19,
  kCreateIndex = 20,
  kDropIndex = 21,
  kSetIndexSpec = 22,
  kDropDatabase = 23,
  kStatement = 32,
};

inline constexpr std::size_t kLogRecordHeaderSize = 9;
// The statement under which a transaction's outcome is kept; it marks a batch as a transaction's.
inline constexpr std::int32_t kTransactionStatement = -1;

// Is the record a change that streams of changes tell?
constexpr bool is_change(LogOperation operation) {
  return operation != LogOperation::kCappedDelete && operation != LogOperation::kTruncate &&
         operation != LogOperation::kStatement;
}

// Positions that a batch takes: one for each change, so that each has a cluster time of its own; all
// changes of a transaction share one. The batch's own position is the last of them.
struct BatchShape {
  std::uint32_t changes = 0;
  bool transaction = false;
  std::uint32_t width() const { return transaction || changes == 0 ? 1 : changes; }
};

// Writes records into one batch. One thread.
class LogBatch {
 public:
  void insert(CollectionId collection, RecordId id, DocumentView document);
  void insert_at(CollectionId collection, RecordId id, RecordLocation location,
                 std::uint32_t size_bytes, std::uint64_t hash, DocumentView key);
  void update(CollectionId collection, RecordId id, DocumentView key, Bytes patch);
  void remove(CollectionId collection, RecordId id, DocumentView key, bool capped);
  // The same with the document as it was.
  void update_image(CollectionId collection, RecordId id, DocumentView before, Bytes patch);
  void remove_image(CollectionId collection, RecordId id, DocumentView before);
  void truncate(CollectionId collection);
  void catalog(LogOperation operation, CollectionId collection, DocumentView body);
  void statement(Bytes lsid, std::int64_t txn_number, std::int32_t statement, DocumentView result);

  bool empty() const { return bytes_.empty(); }
  Bytes bytes() const { return bytes_; }
  const BatchShape& shape() const { return shape_; }
  void clear() {
    bytes_.clear();
    shape_ = {};
  }

 private:
  std::size_t begin(LogOperation operation, CollectionId collection);
  void end(std::size_t start);
  Buffer bytes_;
  BatchShape shape_;
};

// One record, decoded; views into the batch.
struct LogRecord {
  LogOperation operation{};
  CollectionId collection = 0;
  RecordId record_id = 0;
  RecordLocation location = 0;  // of a kInsertAt, like the next two
  std::uint32_t size_bytes = 0;
  std::uint64_t hash = 0;
  // The document (of a kInsert), document key, image, catalog body or statement result. The document of either
  // kind of insert: core/store/logged_document.h.
  DocumentView document;
  Bytes patch;
  Bytes lsid;
  std::int64_t txn_number = 0;
  std::int32_t statement = 0;
};

// Walks a batch. Damage that a matching block hash did not find would be a bug or another version:
// DataCorruptionDetected, never a read outside the bytes. A catalog body that it gives has the fields that
// stand above, of their types.
class LogBatchReader {
 public:
  explicit LogBatchReader(Bytes batch) : rest_(batch) {}
  // False at the end.
  Result<bool> next(LogRecord* record);
  // Goes on to the next kInsertAt, without looking into other records. False at the end.
  Result<bool> next_reference(LogRecord* record);

 private:
  Result<Bytes> take_record(LogRecord* record);
  Bytes rest_;
};

// A record's frame, for those who only look for what a batch is about.
struct LogFrame {
  LogOperation operation{};
  CollectionId collection = 0;
  Bytes body;
};
// The body of a change of the catalog, with the fields that stand above: DataCorruptionDetected for anything
// else.
Result<DocumentView> catalog_body(const LogFrame& frame);
// Takes the first record off `batch`; false at the end, or where the rest makes no sense.
bool next_frame(Bytes& batch, LogFrame* frame);
BatchShape shape_of(Bytes batch);

}  // namespace multifora
