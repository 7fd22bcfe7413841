#include "core/store/log_record.h"

#include "core/base/assert.h"
#include "core/bson/validate.h"
#include "core/store/catalog_body.h"

namespace multifora {
namespace {

std::unexpected<Status> malformed(const char* what) {
  return fail(ErrorCode::kDataCorruptionDetected,
              std::string("malformed log record (") + what +
                  "): the log was written by another version or is damaged");
}

// Takes a document off the front of `body`.
Result<DocumentView> take_document(Bytes& body) {
  ValidateOptions options;
  options.require_utf8 = false;
  options.size_bytes_max = body.size();
  auto document = validate_prefix(body, options);
  if (!document) return malformed("document");
  body.remove_prefix(document->size_bytes());
  return document;
}

template <class T>
bool take(Bytes& body, T* value) {
  if (body.size() < sizeof(T)) return false;
  *value = load_le<T>(body.data());
  body.remove_prefix(sizeof(T));
  return true;
}

bool take_reference(Bytes& body, LogRecord* record) {
  return take(body, &record->record_id) && take(body, &record->location) &&
         take(body, &record->size_bytes) && take(body, &record->hash);
}

}  // namespace

std::size_t LogBatch::begin(LogOperation operation, CollectionId collection) {
  const std::size_t start = bytes_.size();
  shape_.changes += is_change(operation) ? 1 : 0;
  bytes_.push_back(static_cast<char>(operation));
  append_le<std::uint32_t>(bytes_, collection);
  append_le<std::uint32_t>(bytes_, 0);
  return start;
}

void LogBatch::end(std::size_t start) {
  const std::size_t size = bytes_.size() - start - kLogRecordHeaderSize;
  MULTIFORA_ASSERT(size <= 0xffffffffu);
  store_le<std::uint32_t>(bytes_.data() + start + 5, static_cast<std::uint32_t>(size));
}

void LogBatch::insert(CollectionId collection, RecordId id, DocumentView document) {
  const std::size_t start = begin(LogOperation::kInsert, collection);
  append_le<std::uint64_t>(bytes_, id);
  bytes_.append(document.bytes());
  end(start);
}

void LogBatch::insert_at(CollectionId collection, RecordId id, RecordLocation location,
                         std::uint32_t size_bytes, std::uint64_t hash, DocumentView key) {
  const std::size_t start = begin(LogOperation::kInsertAt, collection);
  append_le<std::uint64_t>(bytes_, id);
  append_le<std::uint64_t>(bytes_, location);
  append_le<std::uint32_t>(bytes_, size_bytes);
  append_le<std::uint64_t>(bytes_, hash);
  bytes_.append(key.bytes());
  end(start);
}

void LogBatch::update(CollectionId collection, RecordId id, DocumentView key, Bytes patch) {
  const std::size_t start = begin(LogOperation::kUpdate, collection);
  append_le<std::uint64_t>(bytes_, id);
  bytes_.append(key.bytes());
  bytes_.append(patch);
  end(start);
}

void LogBatch::remove(CollectionId collection, RecordId id, DocumentView key, bool capped) {
  const std::size_t start =
      begin(capped ? LogOperation::kCappedDelete : LogOperation::kDelete, collection);
  append_le<std::uint64_t>(bytes_, id);
  bytes_.append(key.bytes());
  end(start);
}

void LogBatch::update_image(CollectionId collection, RecordId id, DocumentView before, Bytes patch) {
  const std::size_t start = begin(LogOperation::kUpdateImage, collection);
  append_le<std::uint64_t>(bytes_, id);
  bytes_.append(before.bytes());
  bytes_.append(patch);
  end(start);
}

void LogBatch::remove_image(CollectionId collection, RecordId id, DocumentView before) {
  const std::size_t start = begin(LogOperation::kDeleteImage, collection);
  append_le<std::uint64_t>(bytes_, id);
  bytes_.append(before.bytes());
  end(start);
}

void LogBatch::truncate(CollectionId collection) { end(begin(LogOperation::kTruncate, collection)); }

void LogBatch::catalog(LogOperation operation, CollectionId collection, DocumentView body) {
  const std::size_t start = begin(operation, collection);
  bytes_.append(body.bytes());
  end(start);
}

void LogBatch::statement(Bytes lsid, std::int64_t txn_number, std::int32_t statement,
                         DocumentView result) {
  MULTIFORA_ASSERT(lsid.size() == 16);
  shape_.transaction |= statement == kTransactionStatement;
  const std::size_t start = begin(LogOperation::kStatement, 0);
  bytes_.append(lsid);
  append_le<std::int64_t>(bytes_, txn_number);
  append_le<std::int32_t>(bytes_, statement);
  bytes_.append(result.bytes());
  end(start);
}

// The record's header; returns its body.
Result<Bytes> LogBatchReader::take_record(LogRecord* record) {
  *record = LogRecord();
  std::uint8_t operation = 0;
  std::uint32_t size = 0;
  if (!take(rest_, &operation) || !take(rest_, &record->collection) || !take(rest_, &size) ||
      rest_.size() < size)
    return malformed("header");
  record->operation = static_cast<LogOperation>(operation);
  const Bytes body = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return body;
}

Result<bool> LogBatchReader::next_reference(LogRecord* record) {
  while (!rest_.empty()) {
    MULTIFORA_ASSIGN_R(Bytes body, take_record(record));
    if (record->operation != LogOperation::kInsertAt) continue;
    if (!take_reference(body, record)) return malformed("place of a record");
    return true;
  }
  return false;
}

Result<bool> LogBatchReader::next(LogRecord* record) {
  if (rest_.empty()) return false;
  MULTIFORA_ASSIGN_R(Bytes body, take_record(record));
  switch (record->operation) {
    case LogOperation::kInsertAt: {
      if (!take_reference(body, record)) return malformed("place of a record");
      MULTIFORA_ASSIGN_R(record->document, take_document(body));
      return true;
    }
    case LogOperation::kInsert:
    case LogOperation::kUpdate:
    case LogOperation::kDelete:
    case LogOperation::kCappedDelete:
    case LogOperation::kUpdateImage:
    case LogOperation::kDeleteImage: {
      if (!take(body, &record->record_id)) return malformed("record id");
      MULTIFORA_ASSIGN_R(record->document, take_document(body));
      record->patch = body;
      return true;
    }
    case LogOperation::kTruncate:
      return true;
    case LogOperation::kCreate:
    case LogOperation::kDrop:
    case LogOperation::kRename:
    case LogOperation::kSetOptions:
    case LogOperation::kCreateIndex:
    case LogOperation::kDropIndex:
    case LogOperation::kSetIndexSpec:
    case LogOperation::kDropDatabase: {
      MULTIFORA_ASSIGN_R(record->document, take_document(body));
      MULTIFORA_TRY_R(check_catalog_body(record->operation, record->document));
      return true;
    }
    case LogOperation::kStatement: {
      if (body.size() < 16) return malformed("session id");
      record->lsid = body.substr(0, 16);
      body.remove_prefix(16);
      if (!take(body, &record->txn_number) || !take(body, &record->statement))
        return malformed("statement");
      MULTIFORA_ASSIGN_R(record->document, take_document(body));
      return true;
    }
  }
  return malformed("operation");
}

Result<DocumentView> catalog_body(const LogFrame& frame) {
  Bytes body = frame.body;
  MULTIFORA_ASSIGN_R(const DocumentView document, take_document(body));
  MULTIFORA_TRY_R(check_catalog_body(frame.operation, document));
  return document;
}

bool next_frame(Bytes& batch, LogFrame* frame) {
  if (batch.size() < kLogRecordHeaderSize) return false;
  const auto size = load_le<std::uint32_t>(batch.data() + 5);
  if (batch.size() - kLogRecordHeaderSize < size) return false;
  frame->operation = static_cast<LogOperation>(batch.front());
  frame->collection = load_le<CollectionId>(batch.data() + 1);
  frame->body = batch.substr(kLogRecordHeaderSize, size);
  batch.remove_prefix(kLogRecordHeaderSize + size);
  return true;
}

BatchShape shape_of(Bytes batch) {
  constexpr std::size_t kStatementOffset = 16 + 8;
  BatchShape shape;
  LogFrame frame;
  while (next_frame(batch, &frame)) {
    shape.changes += is_change(frame.operation) ? 1 : 0;
    if (frame.operation == LogOperation::kStatement && frame.body.size() >= kStatementOffset + 4)
      shape.transaction |=
          load_le<std::int32_t>(frame.body.data() + kStatementOffset) == kTransactionStatement;
  }
  return shape;
}

}  // namespace multifora
