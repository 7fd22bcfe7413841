#include "core/store/writer.h"

#include "core/base/limits.h"
#include "core/bson/builder.h"
#include "core/bson/patch.h"
#include "core/store/bulk_insert.h"

namespace multifora {
namespace {

// A batch of inserts from this size on is worth a second sync: its documents are written once.
constexpr std::size_t kBulkBytesMin = 512 * 1024;
// Smaller documents cost more to look up at recovery than their bytes in the log.
constexpr std::size_t kReferredSizeMin = 1024;
// Each is a sync of its own, so scattered documents go into the log after all.
constexpr std::size_t kExtentsMax = 4;

}  // namespace

OwnedDocument document_key(DocumentView document) {
  DocumentBuilder key;
  key.append("_id", document["_id"]);
  return std::move(key).finish();
}

// A replacement is logged whole: who follows the changes must be told the document as it became.
Buffer update_patch(DocumentView before, DocumentView after, const UpdateShape& shape) {
  return shape.replacement ? make_replacement(after)
                           : make_difference(before, after, shape.assigned);
}

Status Store::Impl::check_document(const CollectionInfo& info, DocumentView document,
                                   bool bypass) const {
  if (document.size_bytes() > limits::kDocumentSizeMax)
    return {ErrorCode::kBSONObjectTooLarge,
            "object to insert too large. size in bytes: " + std::to_string(document.size_bytes()) +
                ", max size: " + std::to_string(limits::kDocumentSizeMax)};
  if (bypass || !info.validator || info.validator->matches(document)) return {};
  const ValueView action = info.options.view()["validationAction"];
  if (action.type() == BsonType::kString && action.as_string() == "warn") {
    host.log().event(LogLevel::kWarning, "store",
                            "Document would fail validation; validationAction is warn",
                            {{"ns", std::string_view(info.ns)}});
    return {};
  }
  DocumentBuilder extra;
  {
    DocumentBuilder error = extra.object("errInfo");
    error.append("failingDocumentId", document["_id"]);
    const FilterCompiler* compiler = host.filter_compiler();
    const ValueView filter = info.options.view()["validator"];
    const std::string details =
        compiler != nullptr && filter.type() == BsonType::kObject
            ? compiler->explain_failure(filter.as_document(), document)
            : std::string();
    if (!details.empty()) error.append("details", DocumentView::assume_valid(Bytes(details)));
  }
  return Status(ErrorCode::kDocumentValidationFailure, "Document failed validation")
      .with_extra(std::move(extra).finish().take());
}

// Under validationLevel `moderate` a document that was invalid before may stay so.
Status Store::Impl::check_replacement(const CollectionInfo& info, DocumentView before,
                                      DocumentView document, bool bypass) const {
  const ValueView level = info.options.view()["validationLevel"];
  const bool moderate = level.type() == BsonType::kString && level.as_string() == "moderate";
  if (moderate && info.validator && !info.validator->matches(before)) return {};
  return check_document(info, document, bypass);
}

LiveWriter::LiveWriter(Store::Impl& store, CollectionPtr collection, WriterQueue::Turn turn)
    : store_(store),
      turn_(std::move(turn)),
      collection_(std::move(collection)),
      stash_(store.stashes->borrow()),
      gate_(store.gate),
      mutator_(*store.pager, *collection_, *stash_),
      view_(*store.pager, collection_, false),
      writes_(store.pager->records()) {}

LiveWriter::~LiveWriter() {
  if (!released_) static_cast<void>(commit());
}

void LiveWriter::release() {
  gate_.leave();
  store_.stashes->give_back(std::move(stash_));
  collection_->lock.unlock();
  released_ = true;
}

Status LiveWriter::prepare(std::size_t log_bytes) {
  MULTIFORA_ASSERT(!released_);
  MULTIFORA_TRY(store_.writable());
  // The results of retryable statements come on top, when nothing may fail any more.
  constexpr std::size_t kStatementsSizeMax = 2048;
  const std::size_t wanted = batch_.bytes().size() + log_bytes + kStatementsSizeMax;
  if (wanted <= reserved_bytes_) return {};
  const std::size_t target = std::max(wanted, reserved_bytes_ * 2);
  MULTIFORA_ASSIGN(reservation_, store_.reserve_log(target));
  reserved_bytes_ = target;
  return {};
}

Status LiveWriter::finish(Status status) {
  view_.refresh();
  if (!mutator_.broken().ok()) store_.fail_store(mutator_.broken());
  if (!status.ok() && !store_.pager->health().ok()) store_.fail_store(status);
  if (status.ok()) store_.mark_dirty(collection_, false);
  if (status.code() == ErrorCode::kOutOfDiskSpace) store_.want_space();
  return status;
}

Status LiveWriter::remove_record(RecordId id, DocumentView before, bool capped) {
  MULTIFORA_TRY(flush_writes());
  const bool with_image = collection_->info->pre_images && !capped;
  const OwnedDocument key = with_image ? OwnedDocument(before) : document_key(before);
  MULTIFORA_TRY(prepare(key.bytes().size() + 64));
  const std::size_t before_bytes = before.size_bytes();
  MULTIFORA_TRY(finish(mutator_.remove(id, before)));
  retired_bytes_ += before_bytes;
  if (with_image)
    batch_.remove_image(collection_->id, id, key.view());
  else
    batch_.remove(collection_->id, id, key.view(), capped);
  return {};
}

// Does a capped collection hold more than it may?
bool LiveWriter::over_capacity() const {
  const CollectionInfo& info = *collection_->info;
  const CollectionState& state = collection_->state;
  if (!info.capped || state.record_count == 0) return false;
  const auto count = static_cast<std::int64_t>(state.record_count);
  return static_cast<std::int64_t>(state.data_bytes) > info.capped_size_bytes ||
         (info.capped_count_max > 0 && count > info.capped_count_max);
}

Result<bool> LiveWriter::trim(std::size_t batch_bytes_max) {
  while (over_capacity()) {
    if (batch_.bytes().size() >= batch_bytes_max) return true;
    const auto oldest = view_.scan(false);
    MULTIFORA_ASSIGN_R(const bool found, oldest->next());
    if (!found) break;
    MULTIFORA_TRY_R(remove_record(oldest->id(), oldest->document(), true));
  }
  return false;
}

Result<RecordId> LiveWriter::insert(DocumentView document) {
  MULTIFORA_TRY_R(store_.check_document(*collection_->info, document, bypass_validation_));
  const CollectionInfo& info = *collection_->info;
  if (info.capped && static_cast<std::int64_t>(document.size_bytes()) > info.capped_size_bytes)
    return fail(ErrorCode::kBadValue, "document to insert exceeds cappedMaxSize");
  MULTIFORA_TRY_R(prepare(document.size_bytes() + 64));
  Result<RecordId> id = mutator_.insert(0, document, true);
  MULTIFORA_TRY_R(finish(id ? Status() : id.error()));
  log_insert(*id, document);
  taken_bytes_ += document.size_bytes();
  // Only now: an insert that fails costs no old document. Where the oldest cannot go (a full disk),
  // the next insert tries again; the document is in, so that is no failure of this call.
  static_cast<void>(trim(SIZE_MAX));
  return id;
}

// Capped collections read old documents while new ones come.
void LiveWriter::expect_inserts(std::size_t size_bytes) {
  bulk_ = size_bytes >= kBulkBytesMin && !collection_->info->capped;
  if (bulk_) mutator_.set_writes(&writes_);
}

void expect_inserts(CollectionWriter& writer, std::size_t size_bytes) {
  if (auto* const live = dynamic_cast<LiveWriter*>(&writer)) live->expect_inserts(size_bytes);
}

// What was inserted is about to be looked at.
CollectionView& LiveWriter::view() {
  static_cast<void>(flush_writes());
  return view_;
}

Status LiveWriter::flush_writes() {
  if (!bulk_) return {};
  Status status = writes_.flush();
  if (!status.ok()) store_.fail_store(status);
  return status;
}

void LiveWriter::log_insert(RecordId id, DocumentView document) {
  if (!bulk_ || !may_refer(document)) return batch_.insert(collection_->id, id, document);
  const CollectionMutator::Placed& placed = mutator_.placed();
  const OwnedDocument key = document_key(document);
  batch_.insert_at(collection_->id, id, placed.location,
                   static_cast<std::uint32_t>(document.size_bytes()), placed.hash, key.view());
}

// Notes the extent of the document just inserted where the log is to refer to it.
bool LiveWriter::may_refer(DocumentView document) {
  const CollectionMutator::Placed& placed = mutator_.placed();
  if (document.size_bytes() < kReferredSizeMin || !placed.own_chunk) return false;
  const Pager::Extent extent{placed.location * kRecordUnit,
                             record_units(document.size_bytes()) * kRecordUnit};
  if (!referenced_.empty() &&
      referenced_.back().offset + referenced_.back().size_bytes == extent.offset) {
    referenced_.back().size_bytes += extent.size_bytes;
    return true;
  }
  if (referenced_.size() == kExtentsMax) return false;
  referenced_.push_back(extent);
  return true;
}

Status LiveWriter::update(RecordId id, DocumentView before, DocumentView document,
                          const UpdateShape& shape) {
  MULTIFORA_TRY(flush_writes());
  MULTIFORA_TRY(store_.check_replacement(*collection_->info, before, document, bypass_validation_));
  const Buffer patch = update_patch(before, document, shape);
  const bool with_image = collection_->info->pre_images;
  const OwnedDocument key = with_image ? OwnedDocument(before) : document_key(document);
  MULTIFORA_TRY(prepare(patch.size() + key.bytes().size() + 64));
  const std::size_t before_bytes = before.size_bytes();
  MULTIFORA_TRY(finish(mutator_.update(id, before, document, true)));
  taken_bytes_ += document.size_bytes();
  retired_bytes_ += before_bytes;
  if (with_image)
    batch_.update_image(collection_->id, id, key.view(), patch);
  else
    batch_.update(collection_->id, id, key.view(), patch);
  return {};
}

Status LiveWriter::remove(RecordId id, DocumentView before) {
  return remove_record(id, before, false);
}

Status LiveWriter::truncate() {
  MULTIFORA_TRY(flush_writes());
  MULTIFORA_TRY(prepare(64));
  MULTIFORA_TRY(finish(mutator_.truncate()));
  batch_.truncate(collection_->id);
  return {};
}

void LiveWriter::set_statement_result(const StatementId& id, DocumentView result) {
  statements_.push_back({id, OwnedDocument(result)});
}

Result<LogPosition> LiveWriter::commit() {
  if (released_) return LogPosition{0};
  if (Status status = flush_writes(); !status.ok()) {
    release();
    return fail(std::move(status));
  }
  for (const Statement& statement : statements_)
    batch_.statement(statement.id.lsid, statement.id.txn_number, statement.id.statement,
                     statement.result.view());
  Result<LogPosition> position = LogPosition{0};
  if (!batch_.empty()) {
    // Statement results were not reserved for; without space for them the log makes it, or fails.
    const bool covered = batch_.bytes().size() <= reserved_bytes_;
    if (!referenced_.empty()) store_.pager->note_referenced(referenced_);
    position = store_.append(batch_, covered ? &reservation_ : nullptr, !referenced_.empty());
    if (position)
      for (const Statement& statement : statements_)
        store_.retry.record(statement.id.lsid, statement.id.txn_number, statement.id.statement,
                            statement.result.view(), *position);
  }
  const std::uint64_t logged_bytes = batch_.bytes().size();
  release();
  if (position && *position != 0) {
    turn_.wrote(std::max<std::uint64_t>(taken_bytes_, logged_bytes), retired_bytes_);
    store_.note_progress();
  }
  return position;
}

}  // namespace multifora
