#include "core/store/live_view.h"

#include "core/store/record_cursor.h"

namespace multifora {
namespace {

struct LivePayload {
  Pager& pager;
  CollectionId collection;
  Result<Bytes> operator()(RecordLocation location, RecordId id) const {
    return pager.records().read_known(location, id, collection);
  }
  void prefetch(RecordLocation location) const { pager.records().prefetch(location); }
  void read_ahead(RecordLocation location, bool in_sequence) const {
    pager.records().read_ahead(location, in_sequence);
  }
};

}  // namespace

const IndexRef* CollectionView::index_named(std::string_view name) const {
  for (const IndexRef& ref : indexes())
    if (ref.index->spec().name == name) return &ref;
  return nullptr;
}

LiveView::LiveView(Pager& pager, std::shared_ptr<Collection> collection, bool owns_lock)
    : pager_(pager),
      collection_(std::move(collection)),
      info_(collection_->info),
      owns_lock_(owns_lock) {}

LiveView::~LiveView() {
  if (owns_lock_) collection_->lock.unlock_shared();
}

Result<std::optional<DocumentView>> LiveView::find(RecordId id) const {
  return read_record(pager_, *collection_, collection_->state, id);
}

std::unique_ptr<RecordCursor> LiveView::scan(bool backward) const {
  return std::make_unique<RecordMapCursor<LivePayload>>(pager_, *collection_, backward,
                                                        LivePayload{pager_, collection_->id});
}

std::span<const IndexRef> LiveView::indexes() const {
  if (!indexes_valid_) {
    indexes_.clear();
    for (const auto& open : collection_->indexes)
      indexes_.push_back({open->index.get(),
                          open->building ? IndexState() : open->index->state(), open->kind->name,
                          open->building, &open->use});
    indexes_valid_ = true;
  }
  return indexes_;
}

Result<RecordId> LiveView::find_id(const ValueView& id) const {
  if (collection_->indexes.empty()) return RecordId{0};
  const Index& index = *collection_->indexes.front()->index;
  KeyStringBuilder key;
  index.append_bound(key, 0, id);
  const auto cursor = index.cursor(index.state());
  MULTIFORA_TRY_R(cursor->seek(key.key()));
  if (!cursor->valid() || cursor->compare_key(key.key()) != 0) return RecordId{0};
  return cursor->record_id();
}

Status LiveView::yield() {
  if (!owns_lock_) return {};
  collection_->lock.unlock_shared();
  collection_->lock.lock_shared();
  indexes_valid_ = false;
  info_ = collection_->info;
  if (!collection_->dropped) return {};
  return {ErrorCode::kQueryPlanKilled, "collection dropped: " + info_->ns};
}

}  // namespace multifora
