// The inside of a Transaction: transaction.cpp (life, commit), fork.cpp (reading and writing),
// transaction_catalog.cpp (what Store's calls become inside a transaction).
#pragma once

#include <map>
#include <vector>

#include "core/store/fork.h"

namespace multifora {

// One change of the write set.
struct TransactionOperation {
  enum class Kind { kInsert, kUpdate, kRemove };
  Kind kind = Kind::kInsert;
  Fork* fork = nullptr;
  RecordId id = 0;           // in the fork
  std::size_t document = 0;  // index into the fork's documents; not for kRemove
  OwnedDocument key;         // {_id: ...}, or all of it as it was (pre_images); not for kInsert
  Buffer patch;              // of kUpdate
};

struct Transaction::Impl {
  explicit Impl(Store::Impl& the_store) : store(the_store) {}

  Store::Impl& store;
  TransactionOptions options;
  State state = State::kActive;
  std::shared_ptr<Snapshot> snapshot;
  Generation generation = 0;
  LogPosition read_position = 0;
  std::vector<std::unique_ptr<Fork>> forks;
  std::map<std::string, Fork*, std::less<>> by_name;
  std::vector<TransactionOperation> operations;  // in order
  std::uint64_t bytes = 0;

  // --- transaction.cpp ---
  Status note(TransactionOperation operation, std::size_t document_bytes);
  void end(State outcome);
  void register_self();

  // --- transaction_catalog.cpp ---
  // The fork of a collection, made at its first use. Null: the snapshot has no such collection.
  // SnapshotUnavailable where the catalog has changed since.
  Result<Fork*> find(std::string_view ns);
  // Was it made after the snapshot?
  bool is_younger(const Collection& live) const;
  Result<Fork*> find(CollectionId id);
  Result<std::unique_ptr<CollectionView>> read(std::string_view ns);
  Result<std::unique_ptr<CollectionView>> read(CollectionId id);
  Result<std::unique_ptr<CollectionWriter>> write(std::string_view ns, bool create);
  Result<std::shared_ptr<const CollectionInfo>> info(std::string_view ns);
  Result<std::vector<OwnedDocument>> index_specs(std::string_view ns);
  Status create_collection(std::string_view ns, DocumentView options);
  Result<IndexBuildResult> create_indexes(std::string_view ns,
                                          const std::vector<DocumentView>& specs);
  // Makes `id` of the snapshot this transaction's to change. WriteConflict where somebody changed it
  // since, or is about to.
  Status claim(Fork& fork, RecordId id);

 private:
  Status check_may_write() const;
  Result<std::unique_ptr<Fork>> open_fork(const CollectionPtr& live, std::string_view ns);
  Status add_index(Fork& fork, DocumentView spec);
};

}  // namespace multifora
