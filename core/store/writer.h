// The writer of one collection: holds its exclusive lock and the gate, applies each change at once,
// and logs them as one batch.
#pragma once

#include <memory>

#include "core/store/live_view.h"
#include "core/store/store_impl.h"

namespace multifora {

// {_id: ...} of a stored document.
OwnedDocument document_key(DocumentView document);
// What the log says of an update.
Buffer update_patch(DocumentView before, DocumentView after, const UpdateShape& shape);

class LiveWriter final : public CollectionWriter {
 public:
  // Requires the collection's exclusive lock, which the writer takes over.
  LiveWriter(Store::Impl& store, CollectionPtr collection, WriterQueue::Turn turn = {});
  ~LiveWriter() override;

  CollectionView& view() override;
  Result<RecordId> insert(DocumentView document) override;
  Status update(RecordId id, DocumentView before, DocumentView document,
                const UpdateShape& shape = {}) override;
  Status remove(RecordId id, DocumentView before) override;
  Status truncate() override;
  void set_statement_result(const StatementId& id, DocumentView result) override;
  void bypass_validation(bool bypass) override { bypass_validation_ = bypass; }
  void expect_inserts(std::size_t size_bytes);
  std::size_t batch_bytes() const override { return batch_.bytes().size(); }
  Result<LogPosition> commit() override;

  // Removes the oldest documents of a capped collection while it holds more than it may, up to about
  // `batch_bytes_max` of log. True: more are to go.
  Result<bool> trim(std::size_t batch_bytes_max);

 private:
  Status prepare(std::size_t log_bytes);
  bool over_capacity() const;
  Status remove_record(RecordId id, DocumentView before, bool capped);
  Status finish(Status status);
  Status flush_writes();
  void log_insert(RecordId id, DocumentView document);
  bool may_refer(DocumentView document);
  void release();

  Store::Impl& store_;
  WriterQueue::Turn turn_;
  CollectionPtr collection_;
  std::unique_ptr<PageStash> stash_;
  GateEntry gate_;
  CollectionMutator mutator_;
  LiveView view_;
  LogBatch batch_;
  Wal::Reservation reservation_;
  std::size_t reserved_bytes_ = 0;
  std::vector<Pager::Extent> referenced_;  // by the batch, instead of being in it
  RecordWrites writes_;  // of a bulk
  bool bulk_ = false;
  bool bypass_validation_ = false;
  bool released_ = false;
  std::uint64_t taken_bytes_ = 0;  // of the data file
  std::uint64_t retired_bytes_ = 0;
  struct Statement {
    StatementId id;
    OwnedDocument result;
  };
  std::vector<Statement> statements_;
};

}  // namespace multifora
