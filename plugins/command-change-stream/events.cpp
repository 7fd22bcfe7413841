#include "plugins/command-change-stream/events.h"

#include <fmt/format.h>

#include "core/base/error_codes_rare.h"
#include "core/bson/builder.h"
#include "core/bson/patch.h"
#include "core/plugin/host.h"
#include "core/plugin/names.h"
#include "plugins/command-change-stream/cluster_parameters.h"

namespace multifora::change_stream {
namespace {

// Databases of the server itself, and its own collections, are nobody's changes.
bool is_internal(std::string_view ns) {
  const Namespace parts = Namespace::split(ns);
  return parts.db == "admin" || parts.db == "config" || parts.db == "local" ||
         parts.collection.starts_with("system.");
}

std::int64_t wall_ms(std::uint64_t time) { return static_cast<std::int64_t>(time >> 32) * 1000; }

bool is_view(DocumentView options) { return options["viewOn"].type() == BsonType::kString; }

}  // namespace

Bytes nobody() {
  static constexpr unsigned char kNobody[] = {0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4,
                                              0xc8, 0x99, 0x6f, 0xb9, 0x24, 0x27, 0xae, 0x41, 0xe4, 0x64, 0x9b,
                                              0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55};
  return {reinterpret_cast<const char*>(kNobody), sizeof kNobody};
}

void append_lsid(DocumentBuilder& out, Bytes lsid) {
  DocumentBuilder session = out.object("lsid");
  session.append_binary("id", lsid, 4);
  session.append_binary("uid", nobody(), 0);
}

// --- a batch ------------------------------------------------------------------------------------------

void OpenBatch::load(const ChangeBatch& batch) {
  bytes_.assign(batch.bytes);
  rest_ = bytes_;
  position_ = batch.position;
  shape_ = shape_of(bytes_);
  index_ = 0;
  names_.clear();
  lsid_.clear();
  txn_number_ = -1;
  Bytes rest = bytes_;
  LogFrame frame;
  while (next_frame(rest, &frame)) {
    if (frame.collection != 0 && !names_.contains(frame.collection))
      names_.emplace(frame.collection, batch.names->name(frame.collection));
    // Statements of retryable writes belong to single changes, a transaction's outcome to all.
    if (frame.operation != LogOperation::kStatement || frame.body.size() < 24) continue;
    if (!shape_.transaction) continue;
    lsid_.assign(frame.body.substr(0, 16));
    txn_number_ = load_le<std::int64_t>(frame.body.data() + 16);
  }
}

void OpenBatch::unload() {
  constexpr std::size_t kKept = 1024;
  rest_ = {};
  names_.clear();
  if (bytes_.capacity() > kKept) Buffer().swap(bytes_);
}

const CollectionName& OpenBatch::name(CollectionId id) const {
  static const CollectionName kNone;
  const auto at = names_.find(id);
  return at == names_.end() ? kNone : at->second;
}

Result<bool> OpenBatch::next(LogRecord* record, ResumeToken* token) {
  while (!rest_.empty()) {
    const Bytes before = rest_;
    LogFrame frame;
    if (!next_frame(rest_, &frame))
      return fail(ErrorCode::kDataCorruptionDetected, "a malformed batch in the stream of changes");
    if (!is_change(frame.operation)) continue;
    LogBatchReader reader(before.substr(0, before.size() - rest_.size()));
    MULTIFORA_TRY_R(status_of(reader.next(record)));
    *token = ResumeToken();
    token->kind = ResumeToken::Kind::kEvent;
    token->time = shape_.transaction ? position_ : position_ - (shape_.changes - 1 - index_);
    token->index = shape_.transaction ? index_ : 0;
    ++index_;
    return true;
  }
  return false;
}

// --- events -------------------------------------------------------------------------------------------

bool EventMaker::wanted(std::string_view ns) const {
  if (ns.empty() || is_internal(ns)) return false;
  const ChangeInterest& interest = options_.interest;
  switch (interest.scope) {
    case ChangeInterest::Scope::kAll:
      return true;
    case ChangeInterest::Scope::kDatabase:
      return Namespace::split(ns).db == interest.name;
    case ChangeInterest::Scope::kCollection:
      return ns == interest.name;
  }
  return false;
}

void EventMaker::begin(std::string_view type) {
  event_.emplace();
  token_.append_to(*event_, "_id");
  event_->append("operationType", type);
  event_->append_timestamp("clusterTime", token_.time);
  if (options_.expanded && name_ != nullptr && !name_->ns.empty())
    event_->append_binary("collectionUUID", Bytes(name_->uuid.data(), name_->uuid.size()), 4);
  event_->append_date_ms("wallTime", wall_ms(token_.time));
  if (batch_.lsid().empty()) return;
  event_->append("txnNumber", batch_.txn_number());
  append_lsid(*event_, batch_.lsid());
}

void EventMaker::append_ns(std::string_view ns) {
  const Namespace parts = Namespace::split(ns);
  DocumentBuilder out = event_->object("ns");
  out.append("db", parts.db);
  out.append("coll", parts.collection);
}

void EventMaker::append_document_key(DocumentView document) {
  DocumentBuilder key = event_->object("documentKey");
  key.append("_id", document["_id"]);
}

Result<bool> EventMaker::insert(const LogRecord& record) {
  begin("insert");
  event_->append("fullDocument", record.document);
  append_ns(name_->ns);
  append_document_key(record.document);
  return true;
}

Status EventMaker::missing_image(std::string_view what) const {
  return {rare::kNoMatchingDocument,
          fmt::format("Change stream was configured to require a {0}-image for all update events, but the {0}-image was not "
                      "found for event of {1}", what, name_->ns)};
}

bool EventMaker::has_image(const LogRecord& record) const {
  if (record.operation != LogOperation::kUpdateImage && record.operation != LogOperation::kDeleteImage)
    return false;
  return !host_.service<ImageRetention>()->expired(store_, token_.time, host_.clock().wall_ms());
}

// The document as it is now; empty: gone, or the collection is another one.
Result<OwnedDocument> EventMaker::current_document(const ValueView& id) const {
  MULTIFORA_ASSIGN_R(const auto view, store_.read(name_->ns));
  if (!view || view->info().uuid != name_->uuid) return OwnedDocument();
  MULTIFORA_ASSIGN_R(const RecordId record, view->find_id(id));
  if (record == 0) return OwnedDocument();
  MULTIFORA_ASSIGN_R(const auto document, view->find(record));
  return document ? OwnedDocument(*document) : OwnedDocument();
}

Status EventMaker::append_before(const LogRecord& record, DocumentView before) {
  if (options_.before_change == BeforeChange::kOff) return {};
  const bool known = has_image(record);
  if (!known && options_.before_change == BeforeChange::kRequired) return missing_image("pre");
  if (known)
    event_->append("fullDocumentBeforeChange", before);
  else
    event_->append_null("fullDocumentBeforeChange");
  return {};
}

Status EventMaker::append_update(const LogRecord& record) {
  if (options_.full_document == FullDocument::kUpdateLookup) {
    MULTIFORA_ASSIGN(const OwnedDocument now, current_document(record.document["_id"]));
    if (now.view().empty())
      event_->append_null("fullDocument");
    else
      event_->append("fullDocument", now.view());
  } else if (options_.full_document != FullDocument::kDefault) {
    if (has_image(record)) {
      MULTIFORA_ASSIGN(const OwnedDocument after, apply_patch(record.document, record.patch));
      event_->append("fullDocument", after.view());
    } else if (options_.full_document == FullDocument::kRequired) {
      return missing_image("post");
    } else {
      event_->append_null("fullDocument");
    }
  }
  append_ns(name_->ns);
  append_document_key(record.document);
  MULTIFORA_ASSIGN(const OwnedDocument description,
                   describe_patch(record.patch, options_.expanded));
  event_->append("updateDescription", description.view());
  return append_before(record, record.document);
}

Result<bool> EventMaker::update(const LogRecord& record) {
  MULTIFORA_ASSIGN_R(const Bytes replacement, patch_replacement(record.patch));
  if (replacement.empty()) {
    begin("update");
    MULTIFORA_TRY_R(append_update(record));
    return true;
  }
  begin("replace");
  event_->append("fullDocument", DocumentView::assume_valid(replacement));
  append_ns(name_->ns);
  append_document_key(record.document);
  MULTIFORA_TRY_R(append_before(record, record.document));
  return true;
}

Result<bool> EventMaker::remove(const LogRecord& record) {
  begin("delete");
  append_ns(name_->ns);
  append_document_key(record.document);
  MULTIFORA_TRY_R(append_before(record, record.document));
  return true;
}

bool EventMaker::drop(const LogRecord& record) {
  const std::string ns(record.document["ns"].as_string());
  const bool view = record.document["view"].truthy();
  // The rename that replaced it tells so.
  if (record.document["replaced"].truthy() || !wanted(ns)) return false;
  if (view && !options_.expanded) return false;
  if (view) name_ = nullptr;  // it has no UUID that MongoDB would show
  begin("drop");
  append_ns(ns);
  invalidates_ = options_.interest.scope == ChangeInterest::Scope::kCollection;
  return true;
}

bool EventMaker::drop_database(const LogRecord& record) {
  const std::string_view db = record.document["db"].as_string();
  const ChangeInterest& interest = options_.interest;
  if (interest.scope == ChangeInterest::Scope::kCollection || is_internal(db)) return false;
  if (interest.scope == ChangeInterest::Scope::kDatabase && db != interest.name) return false;
  if (db == "admin" || db == "config" || db == "local") return false;
  name_ = nullptr;
  begin("dropDatabase");
  event_->object("ns").append("db", db);
  invalidates_ = interest.scope == ChangeInterest::Scope::kDatabase;
  return true;
}

bool EventMaker::rename(const LogRecord& record) {
  const std::string from(record.document["from"].as_string());
  const std::string to(record.document["to"].as_string());
  if (!wanted(from) && !wanted(to)) return false;
  const auto append_to = [](DocumentBuilder& out, std::string_view ns) {
    const Namespace parts = Namespace::split(ns);
    DocumentBuilder target = out.object("to");
    target.append("db", parts.db);
    target.append("coll", parts.collection);
  };
  begin("rename");
  append_ns(from);
  append_to(*event_, to);
  if (options_.expanded) {
    DocumentBuilder description = event_->object("operationDescription");
    append_to(description, to);
    if (const ValueView dropped = record.document["dropped"]; !dropped.missing())
      description.append("dropTarget", dropped);
  }
  invalidates_ = options_.interest.scope == ChangeInterest::Scope::kCollection;
  return true;
}

bool EventMaker::create(const LogRecord& record) {
  const std::string ns(record.document["ns"].as_string());
  const DocumentView options = record.document["options"].as_document();
  if (!options_.expanded || !wanted(ns)) return false;
  if (is_view(options)) name_ = nullptr;
  begin("create");
  append_ns(ns);
  DocumentBuilder description = event_->object("operationDescription");
  for (const Element& row : record.document["indexes"].as_document()) {
    if (row.type() != BsonType::kObject) continue;
    const DocumentView spec = row->as_document()["spec"].as_document();
    if (spec["name"].as_string() == "_id_") description.append("idIndex", spec);
  }
  description.append_all(options);
  return true;
}

bool EventMaker::indexes(const LogRecord& record) {
  if (!options_.expanded || !wanted(name_->ns)) return false;
  begin(record.operation == LogOperation::kCreateIndex ? "createIndexes" : "dropIndexes");
  append_ns(name_->ns);
  DocumentBuilder description = event_->object("operationDescription");
  description.array("indexes").append(record.document["spec"]);
  return true;
}

bool EventMaker::modify(const LogRecord& record) {
  if (!options_.expanded || !wanted(name_->ns)) return false;
  // Absent in the log of an older version.
  const ValueView known = record.document["before"];
  const DocumentView before = known.missing() ? DocumentView() : known.as_document();
  const bool index = record.operation == LogOperation::kSetIndexSpec;
  const DocumentView after = record.document[index ? "spec" : "options"].as_document();
  DocumentBuilder changes, old;
  for (const Element& field : after)
    if (before[field.name()].missing() || before[field.name()].bytes() != field->bytes())
      changes.append(field);
  for (const Element& field : before)
    if (after[field.name()].missing() || after[field.name()].bytes() != field->bytes())
      old.append(field);
  begin("modify");
  append_ns(name_->ns);
  const OwnedDocument changed = std::move(changes).finish(), was = std::move(old).finish();
  {
    DocumentBuilder description = event_->object("operationDescription");
    if (index) {
      DocumentBuilder one = description.object("index");
      one.append("name", after["name"]);
      one.append_all(changed.view());
    } else {
      description.append_all(changed.view());
    }
  }
  DocumentBuilder state = event_->object("stateBeforeChange");
  {
    DocumentBuilder options = state.object("collectionOptions");
    options.append_binary("uuid", Bytes(name_->uuid.data(), name_->uuid.size()), 4);
    if (!index) options.append_all(before);
  }
  if (index) state.append("indexOptions", was.view());
  return true;
}

Result<bool> EventMaker::make(const LogRecord& record) {
  name_ = record.collection != 0 ? &batch_.name(record.collection) : nullptr;
  invalidates_ = false;
  switch (record.operation) {
    case LogOperation::kInsert:
      return wanted(name_->ns) ? insert(record) : Result<bool>(false);
    case LogOperation::kUpdate:
    case LogOperation::kUpdateImage:
      return wanted(name_->ns) ? update(record) : Result<bool>(false);
    case LogOperation::kDelete:
    case LogOperation::kDeleteImage:
      return wanted(name_->ns) ? remove(record) : Result<bool>(false);
    case LogOperation::kDrop:
      return drop(record);
    case LogOperation::kDropDatabase:
      return drop_database(record);
    case LogOperation::kRename:
      return rename(record);
    case LogOperation::kCreate:
      return create(record);
    case LogOperation::kCreateIndex:
    case LogOperation::kDropIndex:
      return indexes(record);
    case LogOperation::kSetOptions:
    case LogOperation::kSetIndexSpec:
      return modify(record);
    default:
      return fail(ErrorCode::kInternalError, "a change of an unknown kind in the stream of changes");
  }
}

Result<std::optional<Event>> EventMaker::next(const ResumeToken& last) {
  if (invalidate_) {
    token_ = *std::exchange(invalidate_, std::nullopt);
    if (token_ > last) {
      name_ = nullptr;
      begin("invalidate");
      document_ = std::move(*event_).finish();
      return Event{token_, document_.view(), true};
    }
  }
  LogRecord record;
  while (true) {
    MULTIFORA_ASSIGN_R(const bool more, batch_.next(&record, &token_));
    if (!more) {
      document_ = OwnedDocument();
      return std::nullopt;
    }
    ResumeToken end = token_;
    end.invalidate = true;
    end.fragment = 0;
    // Resumed after the event itself, a stream that it ends still tells that.
    if (end <= last) continue;
    MULTIFORA_ASSIGN_R(const bool told, make(record));
    if (!told) continue;
    if (invalidates_) invalidate_ = end;
    // Of an event that was told in part, the rest is for $changeStreamSplitLargeEvent to find.
    const bool in_part = last.fragment > 0 && last.time == token_.time && last.index == token_.index;
    if (token_ <= last && !in_part) {
      if (!invalidate_) continue;
      return next(last);
    }
    document_ = std::move(*event_).finish();
    return Event{token_, document_.view(), false};
  }
}

}  // namespace multifora::change_stream
