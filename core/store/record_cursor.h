// A walk over a record map. `Payload` turns a location into the document's bytes: what a live view and a
// transaction's view do differently.
#pragma once

#include "core/store/collection_impl.h"

namespace multifora {

template <class Payload>
class RecordMapCursor final : public RecordCursor {
 public:
  RecordMapCursor(Pager& pager, const Collection& collection, bool backward, Payload payload)
      : pager_(pager),
        collection_(collection),
        array_(pager, collection.id),
        backward_(backward),
        cursor_(array_, collection.state.records, backward),
        seek_to_(backward ? collection.state.next_record_id : 1),
        payload_(std::move(payload)) {}

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
      payload_.read_ahead(cursor_.value(), chunk == chunk_ + 1);
      chunk_ = chunk;
    }
    MULTIFORA_ASSIGN_R(document_, payload_(cursor_.value(), cursor_.index()));
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
    for (std::size_t i = 0; i < count; ++i) payload_.prefetch(locations[i]);
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
  Payload payload_;
};

}  // namespace multifora
