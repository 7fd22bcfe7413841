#include "core/store/live_view.h"

namespace multifora {
namespace {

class LiveRecordCursor final : public RecordCursor {
 public:
  LiveRecordCursor(Pager& pager, const Collection& collection, bool backward)
      : pager_(pager),
        collection_(collection),
        array_(pager, collection.id),
        backward_(backward),
        cursor_(array_, collection.state.records, backward),
        seek_to_(backward ? collection.state.next_record_id : 1) {}

  Result<bool> next() override {
    Result<bool> found = false;
    if (seek_pending_) {
      seek_pending_ = false;
      cursor_ = PagedArray::Cursor(array_, collection_.state.records, backward_);
      found = cursor_.seek(seek_to_);
      refill_ahead();
    } else {
      found = cursor_.next();
    }
    if (!found || !*found) return found;
    prefetch();
    if (const std::uint64_t chunk = cursor_.value() / kUnitsPerChunk; chunk != chunk_) {
      pager_.records().read_ahead(cursor_.value(), chunk == chunk_ + 1);
      chunk_ = chunk;
    }
    MULTIFORA_ASSIGN_R(const Bytes payload,
                       pager_.records().read_known(cursor_.value(), cursor_.index(),
                                                   collection_.id));
    document_ = payload;
    return true;
  }
  RecordId id() const override { return cursor_.index(); }
  DocumentView document() const override { return DocumentView::assume_valid(document_); }
  void seek(RecordId id) override {
    seek_pending_ = true;
    seek_to_ = id;
  }

 private:
  static constexpr std::size_t kAhead = 12;

  // Documents lie apart; asking for a dozen ahead hides most of the memory's latency.
  void prefetch() {
    if (ahead_left_ == 0) refill_ahead();
    if (ahead_left_ > 0) --ahead_left_;
  }
  void refill_ahead() {
    std::uint64_t locations[2 * kAhead];
    const std::size_t count = cursor_.ahead(locations, 2 * kAhead);
    for (std::size_t i = 0; i < count; ++i) pager_.records().prefetch(locations[i]);
    ahead_left_ = count > kAhead ? count - kAhead : count;
  }

  Pager& pager_;
  const Collection& collection_;
  PagedArray array_;
  bool backward_;
  PagedArray::Cursor cursor_;
  bool seek_pending_ = true;
  RecordId seek_to_;
  std::size_t ahead_left_ = 0;
  std::uint64_t chunk_ = 0;  // of the record before
  Bytes document_;
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
  return std::make_unique<LiveRecordCursor>(pager_, *collection_, backward);
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
