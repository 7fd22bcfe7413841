// A transaction's private branch of one collection: record map and indexes start from the roots that
// the transaction's snapshot sees, and are changed copy-on-write in pages of their own (a fork stash);
// new documents stay in memory. So the query layer, unique checks and counts work on it as on any
// collection, and dropping it is giving its pages back.
//
// One thread at a time, the transaction's.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/store/live_view.h"
#include "core/store/store_impl.h"
#include "core/store/transaction.h"
#include "core/store/writer.h"

namespace multifora {

// Collections that a transaction creates have numbers of their own until it commits.
inline constexpr CollectionId kForkIdsFrom = 0x80000000u;

struct Fork {
  Fork(Pager& pager, CollectionId id)
      : data(std::make_shared<Collection>(id)), stash(pager, PageStash::Mode::kFork) {}

  CollectionPtr live;  // null: the transaction creates the collection
  OwnedDocument create_options;
  std::array<char, 16> uuid{};
  CollectionPtr data;
  CollectionState base;  // as the snapshot has it
  PageStash stash;
  std::deque<OwnedDocument> documents;   // at location kForkLocation + index
  std::unordered_set<RecordId> claimed;  // records of the snapshot that this transaction may change
  std::vector<std::string> claimed_keys;  // of unique indexes
  bool written = false;

  bool is_new(RecordId id) const { return id >= base.next_record_id; }
};

// Marks a location as an index into Fork::documents.
inline constexpr RecordLocation kForkLocation = RecordLocation{1} << 63;

class ForkView final : public LiveView {
 public:
  ForkView(Pager& pager, Fork& fork)
      : LiveView(pager, fork.data, false), pager_(pager), fork_(fork) {}
  Result<std::optional<DocumentView>> find(RecordId id) const override;
  std::unique_ptr<RecordCursor> scan(bool backward) const override;

 private:
  Pager& pager_;
  Fork& fork_;
};

class ForkMutator final : public CollectionMutator {
 public:
  ForkMutator(Pager& pager, Fork& fork, WriteClaims::Owner owner)
      : CollectionMutator(pager, *fork.data, fork.stash, owner), fork_(fork) {}

 protected:
  Result<RecordLocation> place(RecordId id, DocumentView document) override;
  void give_up(RecordLocation location, std::size_t size_bytes) override;
  Status claim_keys(const OpenIndex& open, const IndexKeySet& keys, RecordId id) override;

 private:
  Fork& fork_;
};

// Writes of one statement into a fork; commit() ends the statement and logs nothing.
class ForkWriter final : public CollectionWriter {
 public:
  ForkWriter(Transaction::Impl& transaction, Fork& fork);
  CollectionView& view() override { return view_; }
  Result<RecordId> insert(DocumentView document) override;
  Status update(RecordId id, DocumentView before, DocumentView document,
                const UpdateShape& shape = {}) override;
  Status remove(RecordId id, DocumentView before) override;
  Status truncate() override;
  void set_statement_result(const StatementId&, DocumentView) override {}
  void bypass_validation(bool bypass) override { bypass_validation_ = bypass; }
  std::size_t batch_bytes() const override { return 0; }
  Result<LogPosition> commit() override { return LogPosition{0}; }

 private:
  Status may_write() const;
  OwnedDocument logged_key(DocumentView before) const;
  Status finish(Status status);

  Transaction::Impl& transaction_;
  Fork& fork_;
  ForkMutator mutator_;
  ForkView view_;
  bool bypass_validation_ = false;
};

}  // namespace multifora
