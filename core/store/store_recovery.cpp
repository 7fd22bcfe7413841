// Opening: the catalog of the newest checkpoint, then the log's tail. Recovery applies the same
// functions as commands do; it needs no code in index kinds.
#include "core/bson/patch.h"
#include "core/store/change_feed.h"
#include "core/store/logged_document.h"
#include "core/store/store_impl.h"

namespace multifora {
namespace {

Status mismatch(std::string what) {
  return {ErrorCode::kDataCorruptionDetected,
          "the log does not fit the data file: " + std::move(what) +
              "; restore the database from a backup"};
}

}  // namespace

Status Store::Impl::load_catalog() {
  return table->read_descriptions([this](CollectionId id, DocumentView description) {
    return load_collection(id, description);
  });
}

Status Store::Impl::load_collection(CollectionId id, DocumentView description) {
  auto collection = std::make_shared<Collection>(id);
  collection->snapshots = &snapshots;
  MULTIFORA_ASSIGN(collection->info, make_info(id, description["ns"].as_string(),
                                               description["uuid"].binary_bytes(),
                                               description["options"].as_document()));
  if (!description["dropped"].truthy())
    MULTIFORA_TRY(check_new_collection(id, collection->info->ns));
  MULTIFORA_ASSIGN(collection->state, table->read_state(id));
  collection->next_index_number =
      static_cast<std::uint32_t>(description["nextIndex"].number_as_int64());
  collection->dropped = description["dropped"].truthy();
  for (const Element& row : description["indexes"].as_document()) {
    const DocumentView fields = row->as_document();
    const auto number = static_cast<std::uint32_t>(fields["number"].number_as_int64());
    MULTIFORA_ASSIGN(const IndexState state, table->read_index_state(id, number));
    MULTIFORA_ASSIGN(auto open, open_index(*collection, number, fields["kind"].as_string(),
                                           fields["spec"].as_document(), state));
    collection->indexes.push_back(std::move(open));
  }
  collection->allocator = pager->records().make_allocator(id, collection->state.data_bytes);
  if (collection->dropped) {
    graveyard.push_back(std::move(collection));
    return {};
  }
  by_name.emplace(collection->info->ns, collection);
  by_id.emplace(id, std::move(collection));
  return {};
}

Status Store::Impl::survey(Bytes batch) {
  LogBatchReader reader(batch);
  LogRecord record;
  while (true) {
    MULTIFORA_ASSIGN(const bool found, reader.next_reference(&record));
    if (!found) return {};
    references.claims.push_back({record.location, record.size_bytes, record.collection});
  }
}

// Before anything is allocated, so that nothing is put where a later batch refers to. Also where none
// does: from here on replay may use what is free.
Status Store::Impl::claim_references() {
  if (std::exchange(references.claimed, true)) return {};
  MULTIFORA_ASSIGN(auto places, pager->records().claim(references.claims));
  for (RecordReservation& place : places) {
    const RecordLocation location = place.location();
    references.places.emplace(location, std::move(place));
  }
  references.claims = {};
  return {};
}

Status Store::Impl::replay_insert(const CollectionPtr& collection, LogPosition position,
                                  const LogRecord& record, CollectionMutator& mutator) {
  MULTIFORA_ASSIGN(const DocumentView document,
                   logged_document(*pager, position, record, references.scratch));
  if (record.operation == LogOperation::kInsert)
    return status_of(mutator.insert(record.record_id, document, false));
  auto place = references.places.extract(record.location);
  if (!place) return mismatch("it refers twice to a record of " + collection->info->ns);
  return mutator.attach(record.record_id, document, std::move(place.mapped()));
}

Status Store::Impl::replay(LogPosition position, Bytes batch) {
  MULTIFORA_TRY(claim_references());
  BorrowedStash stash(*stashes);
  LogBatchReader reader(batch);
  LogRecord record;
  while (true) {
    MULTIFORA_ASSIGN(const bool more, reader.next(&record));
    if (!more) break;
    MULTIFORA_TRY(replay_record(record, position, *stash));
  }
  feed->names().settle(position);
  return {};
}

Status Store::Impl::replay_record(const LogRecord& record, LogPosition position,
                                  PageStash& stash) {
  if (record.operation == LogOperation::kStatement) {
    retry.record(record.lsid, record.txn_number, record.statement, record.document, position);
    return {};
  }
  if (record.operation >= LogOperation::kCreate &&
      record.operation != LogOperation::kCreateIndex)
    return apply_catalog(record);

  const CollectionPtr collection = find(record.collection);
  if (!collection)
    return mismatch("it changes collection " + std::to_string(record.collection) +
                    ", which does not exist");
  if (record.operation == LogOperation::kCreateIndex)
    return replay_index(collection, record.document, stash);
  CollectionMutator mutator(*pager, *collection, stash);
  mark_dirty(collection, false);
  if (record.operation == LogOperation::kInsert || record.operation == LogOperation::kInsertAt)
    return replay_insert(collection, position, record, mutator);
  if (record.operation == LogOperation::kTruncate) return mutator.truncate();

  MULTIFORA_ASSIGN(const std::optional<DocumentView> before,
                   read_record(*pager, *collection, collection->state, record.record_id));
  if (!before)
    return mismatch("it changes record " + std::to_string(record.record_id) + " of " +
                    collection->info->ns + ", which does not exist");
  if (record.operation != LogOperation::kUpdate && record.operation != LogOperation::kUpdateImage)
    return mutator.remove(record.record_id, *before);
  MULTIFORA_ASSIGN(const OwnedDocument after, apply_patch(*before, record.patch));
  return mutator.update(record.record_id, *before, after.view(), false);
}

// The index was complete when this was logged; its pages are not in the image, so it is built again.
Status Store::Impl::replay_index(const CollectionPtr& collection, DocumentView body,
                                 PageStash& stash) {
  static_cast<void>(stash);
  const auto number = static_cast<std::uint32_t>(body["number"].number_as_int64());
  MULTIFORA_ASSIGN(auto open, open_index(*collection, number, body["kind"].as_string(),
                                         body["spec"].as_document(), IndexState{}));
  const auto builder =
      open->index->bulk_builder(index_build_budget(1), temp_directory);
  const PagedArray array(*pager, collection->id);
  PagedArray::Cursor cursor(array, collection->state.records, false);
  MULTIFORA_ASSIGN(bool found, cursor.seek(1));
  IndexKeySet keys;
  while (found) {
    MULTIFORA_ASSIGN(const Bytes document, pager->records().read(cursor.value(), cursor.index(),
                                                                 collection->id));
    keys.clear();
    MULTIFORA_TRY(open->index->extract(DocumentView::assume_valid(document), keys));
    MULTIFORA_TRY(builder->add(keys, cursor.index()));
    MULTIFORA_TRY(builder->make_room());
    MULTIFORA_ASSIGN(found, cursor.next());
  }
  MULTIFORA_ASSIGN(const IndexState state,
                   builder->finish([](std::uint64_t, std::uint64_t) { return Status(); }));
  open->index->set_state(state);
  builder->link();
  collection->next_index_number = std::max(collection->next_index_number, number + 1);
  collection->indexes.push_back(std::move(open));
  mark_dirty(collection, true);
  return {};
}

}  // namespace multifora
