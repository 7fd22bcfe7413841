// Turns log batches into the events that a change stream tells, one at a time: a batch of a hundred
// thousand inserts is never a hundred thousand documents in memory.
//
// One stream's; one thread at a time. Documents live until the next call.
#pragma once

#include <optional>
#include <unordered_map>

#include "core/store/change_feed.h"
#include "core/store/log_record.h"
#include "core/store/store.h"
#include "plugins/command-change-stream/stream_options.h"

namespace multifora::change_stream {

struct Event {
  ResumeToken token;
  DocumentView document;
  bool invalidate = false;  // the stream ends with it
};

// One batch being told: its bytes, the names that its collections had, how far it has been read.
class OpenBatch {
 public:
  void load(const ChangeBatch& batch);
  // Gives its memory back.
  void unload();
  LogPosition position() const { return position_; }
  // The next record, with the change's token; false at the end. Records that are no changes are passed.
  Result<bool> next(LogRecord* record, ResumeToken* token);
  const CollectionName& name(CollectionId id) const;
  // Of the transaction whose batch it is; empty: none.
  Bytes lsid() const { return lsid_; }
  std::int64_t txn_number() const { return txn_number_; }
  bool transaction() const { return shape_.transaction; }

 private:
  Buffer bytes_;
  Bytes rest_;
  LogPosition position_ = 0;
  BatchShape shape_;
  std::uint32_t index_ = 0;  // of the next change
  std::unordered_map<CollectionId, CollectionName> names_;
  Buffer lsid_;
  std::int64_t txn_number_ = -1;
};

class EventMaker {
 public:
  EventMaker(Store& store, PluginHost& host, const StreamOptions& options)
      : store_(store), host_(host), options_(options) {}
  void load(const ChangeBatch& batch) { batch_.load(batch); }
  void unload() { batch_.unload(); }
  // The next event of the batch after `last`; nullopt: no more.
  Result<std::optional<Event>> next(const ResumeToken& last);

 private:
  Result<bool> make(const LogRecord& record);
  bool wanted(std::string_view ns) const;
  void begin(std::string_view type);
  void append_ns(std::string_view ns);
  void append_document_key(DocumentView document);
  Status append_update(const LogRecord& record);
  Status append_before(const LogRecord& record, DocumentView before);
  Result<OwnedDocument> current_document(const ValueView& id) const;
  Status missing_image(std::string_view what) const;
  // Does the log have the document as it was, and may it still be told?
  bool has_image(const LogRecord& record) const;
  // Each true where the record is an event for this stream.
  Result<bool> insert(const LogRecord& record);
  Result<bool> update(const LogRecord& record);
  Result<bool> remove(const LogRecord& record);
  bool drop(const LogRecord& record);
  bool drop_database(const LogRecord& record);
  bool rename(const LogRecord& record);
  bool create(const LogRecord& record);
  bool indexes(const LogRecord& record);
  bool modify(const LogRecord& record);

  Store& store_;
  PluginHost& host_;
  const StreamOptions& options_;
  OpenBatch batch_;
  ResumeToken token_;            // of the event being made
  const CollectionName* name_ = nullptr;
  std::optional<DocumentBuilder> event_;
  OwnedDocument document_;
  bool invalidates_ = false;     // the event is followed by the end of the stream
  std::optional<ResumeToken> invalidate_;  // the event to come
};

// SHA-256 of nothing: the user of sessions where there are no users.
Bytes nobody();
// {id, uid} of a session, as events and oplog entries show it.
void append_lsid(DocumentBuilder& out, Bytes lsid);

}  // namespace multifora::change_stream
