// A view of a collection's live state: under its shared lock, or as the eyes of its writer.
#pragma once

#include <memory>
#include <vector>

#include "core/store/collection_impl.h"

namespace multifora {

class LiveView : public CollectionView {
 public:
  // owns_lock: the shared lock is held and given up by the view; otherwise a writer holds it.
  LiveView(Pager& pager, std::shared_ptr<Collection> collection, bool owns_lock);
  ~LiveView() override;

  const CollectionInfo& info() const override { return *info_; }
  std::uint64_t record_count() const override { return collection_->state.record_count; }
  std::uint64_t data_bytes() const override { return collection_->state.data_bytes; }
  Result<std::optional<DocumentView>> find(RecordId id) const override;
  std::unique_ptr<RecordCursor> scan(bool backward) const override;
  std::span<const IndexRef> indexes() const override;
  Result<RecordId> find_id(const ValueView& id) const override;
  Status yield() override;
  bool contended() const override { return owns_lock_ && collection_->lock.contended(); }

  // The writer changed the collection: states of indexes are read anew.
  void refresh() { indexes_valid_ = false; }

 private:
  Pager& pager_;
  std::shared_ptr<Collection> collection_;
  std::shared_ptr<const CollectionInfo> info_;
  bool owns_lock_;
  mutable bool indexes_valid_ = false;
  mutable std::vector<IndexRef> indexes_;
};

}  // namespace multifora
