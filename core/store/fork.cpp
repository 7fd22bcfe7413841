#include "core/store/fork.h"

#include <shared_mutex>

#include "core/store/record_cursor.h"
#include "core/store/transaction_impl.h"
#include "core/store/writer.h"

namespace multifora {
namespace {

// A document of the transaction's own; DataCorruptionDetected for a location that a damaged page made up.
Result<DocumentView> own_document(const Fork& fork, RecordLocation location) {
  const auto index = static_cast<std::size_t>(location & ~kForkLocation);
  if (index < fork.documents.size()) return fork.documents[index].view();
  return fail(ErrorCode::kDataCorruptionDetected,
              "the record map of collection " + std::to_string(fork.data->id) +
                  " has an impossible location");
}

struct ForkPayload {
  Pager& pager;
  const Fork& fork;
  Result<Bytes> operator()(RecordLocation location, RecordId id) const {
    if ((location & kForkLocation) != 0) {
      MULTIFORA_ASSIGN_R(const DocumentView document, own_document(fork, location));
      return document.bytes();
    }
    return pager.records().read_known(location, id, fork.data->id);
  }
  void prefetch(RecordLocation location) const {
    if ((location & kForkLocation) == 0) pager.records().prefetch(location);
  }
  void read_ahead(RecordLocation location, bool in_sequence) const {
    if ((location & kForkLocation) == 0) pager.records().read_ahead(location, in_sequence);
  }
};

Status not_in_a_transaction(const CollectionInfo& info) {
  return {ErrorCode::kOperationNotSupportedInTransaction,
          "Collection '" + info.ns +
              "' is a capped collection. Writes in transactions are not allowed on capped "
              "collections."};
}

}  // namespace

// --- reading --------------------------------------------------------------------------------------

Result<std::optional<DocumentView>> ForkView::find(RecordId id) const {
  const PagedArray records(pager_, fork_.data->id);
  MULTIFORA_ASSIGN_R(const RecordLocation location, records.get(fork_.data->state.records, id));
  if (location == 0) return std::nullopt;
  if ((location & kForkLocation) != 0) return own_document(fork_, location);
  MULTIFORA_ASSIGN_R(const Bytes bytes,
                     pager_.records().read(location, id, fork_.data->id));
  return DocumentView::assume_valid(bytes);
}

std::unique_ptr<RecordCursor> ForkView::scan(bool backward) const {
  return std::make_unique<RecordMapCursor<ForkPayload>>(pager_, *fork_.data, backward,
                                                        ForkPayload{pager_, fork_});
}

// --- changing -------------------------------------------------------------------------------------

Result<RecordLocation> ForkMutator::place(RecordId, DocumentView document) {
  fork_.documents.emplace_back(document);
  return kForkLocation + fork_.documents.size() - 1;
}

// An earlier version may still be one that an operation of the write set is to write.
void ForkMutator::give_up(RecordLocation, std::size_t) {}

// The fork has no such key. The live collection may: then somebody committed it since the snapshot,
// unless the record that has it is one that this transaction has changed.
Status ForkMutator::claim_keys(const OpenIndex& open, const IndexKeySet& keys, RecordId) {
  if (!fork_.live) return {};
  Collection& live = *fork_.live;
  const std::shared_lock hold(live.lock);
  if (live.dropped) return write_conflict();
  const OpenIndex* same = nullptr;
  for (const auto& other : live.indexes)
    if (other->number == open.number && !other->building) same = other.get();
  if (same == nullptr) return write_conflict();
  for (const IndexKey& key : keys.keys) {
    IndexKeySet one;
    one.keys.push_back(key);
    MULTIFORA_ASSIGN(const RecordId holder, same->index->find_conflict(one, 0));
    if (holder != 0 && !fork_.claimed.contains(holder)) return write_conflict();
    if (!live.claims.claim_key(open.number, key.key, owner_)) return write_conflict();
    fork_.claimed_keys.push_back(WriteClaims::key_name(open.number, key.key));
  }
  return {};
}

// --- statements -----------------------------------------------------------------------------------

ForkWriter::ForkWriter(Transaction::Impl& transaction, Fork& fork)
    : transaction_(transaction),
      fork_(fork),
      mutator_(*transaction.store.pager, fork, &transaction),
      view_(*transaction.store.pager, fork) {}

Status ForkWriter::may_write() const {
  MULTIFORA_TRY(transaction_.store.writable());
  return fork_.data->info->capped ? not_in_a_transaction(*fork_.data->info) : Status();
}

Status ForkWriter::finish(Status status) {
  view_.refresh();
  return status;
}

Result<RecordId> ForkWriter::insert(DocumentView document) {
  MULTIFORA_TRY_R(may_write());
  MULTIFORA_TRY_R(transaction_.store.check_document(*fork_.data->info, document,
                                                    bypass_validation_));
  TransactionOperation operation{TransactionOperation::Kind::kInsert, &fork_, 0,
                                 fork_.documents.size(), {}, {}};
  Result<RecordId> id = mutator_.insert(0, document, true);
  MULTIFORA_TRY_R(finish(id ? Status() : id.error()));
  operation.id = *id;
  MULTIFORA_TRY_R(transaction_.note(std::move(operation), document.size_bytes()));
  return id;
}

// {_id: ...}, or the whole document where the collection keeps pre-images.
OwnedDocument ForkWriter::logged_key(DocumentView before) const {
  return fork_.data->info->pre_images ? OwnedDocument(before) : document_key(before);
}

Status ForkWriter::update(RecordId id, DocumentView before, DocumentView document,
                          const UpdateShape& shape) {
  MULTIFORA_TRY(may_write());
  MULTIFORA_TRY(transaction_.store.check_replacement(*fork_.data->info, before, document,
                                                     bypass_validation_));
  MULTIFORA_TRY(transaction_.claim(fork_, id));
  TransactionOperation operation{TransactionOperation::Kind::kUpdate, &fork_, id,
                                 fork_.documents.size(), logged_key(before),
                                 update_patch(before, document, shape)};
  MULTIFORA_TRY(finish(mutator_.update(id, before, document, true)));
  return transaction_.note(std::move(operation), document.size_bytes());
}

Status ForkWriter::remove(RecordId id, DocumentView before) {
  MULTIFORA_TRY(may_write());
  MULTIFORA_TRY(transaction_.claim(fork_, id));
  TransactionOperation operation{TransactionOperation::Kind::kRemove, &fork_, id, 0,
                                 logged_key(before), {}};
  MULTIFORA_TRY(finish(mutator_.remove(id, before)));
  return transaction_.note(std::move(operation), 0);
}

Status ForkWriter::truncate() {
  return {ErrorCode::kOperationNotSupportedInTransaction,
          "cannot empty a collection in a multi-document transaction"};
}

}  // namespace multifora
