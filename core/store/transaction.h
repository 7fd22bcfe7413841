// A multi-document transaction: a snapshot of the whole store plus a write set, committed as one log
// batch. How it works stands in README.md ("Transactions").
//
//   kActive --commit()--> kCommitted        also with nothing written
//   kActive --abort(), destructor, a failed commit--> kAborted
//
// While a thread is bound to a transaction, the calls of Store on that thread (read, write, info,
// index_specs, create_collection, create_indexes) work on the transaction's state instead of the live
// one; everything read lives until the transaction's next change of that collection.
//
// One thread at a time. The store outlives it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "core/base/status.h"
#include "core/storage/types.h"
#include "core/store/collection.h"

namespace multifora {

class Store;
class Interrupt;

// The statement number under which a transaction's outcome is kept among the results of retryable
// writes: {committed: true}.
inline constexpr std::int32_t kCommitStatement = -1;

struct TransactionOptions {
  // Documents of the write set, with what is kept about each. TransactionTooLarge beyond.
  std::uint64_t write_set_bytes_max = std::uint64_t{256} << 20;
  // A snapshot for reading: writes are refused, and the catalog does not wait for it.
  bool read_only = false;
};

class Transaction {
 public:
  enum class State { kActive, kCommitted, kAborted };

  // Takes the snapshot: everything acknowledged before is in it, nothing that comes later.
  static Result<std::unique_ptr<Transaction>> begin(Store& store, const TransactionOptions& options);
  // A second reader of the same snapshot, with a state of its own.
  std::unique_ptr<Transaction> reader() const;
  ~Transaction();
  Transaction(const Transaction&) = delete;

  State state() const;
  // Cluster time of the snapshot.
  LogPosition read_position() const;
  bool has_writes() const;

  // Makes the write set part of the live state, as one batch; its position, 0 where nothing was
  // written. With `id` the outcome is stored with it, so that retried_result(id) knows it after a
  // crash too. After a failure the transaction is aborted: WriteConflict where something that no claim
  // protects has changed (an index that came meanwhile), OutOfDiskSpace ...
  Result<LogPosition> commit(const std::optional<StatementId>& id);
  void abort();

  struct Impl;  // transaction.cpp
  Impl& impl() { return *impl_; }

 private:
  Transaction();
  std::unique_ptr<Impl> impl_;
};

// The transaction that this thread works for, from bind to unbind. One at a time.
void bind_transaction(Transaction* transaction);
void unbind_transaction();
Transaction* bound_transaction();

class TransactionScope {
 public:
  explicit TransactionScope(Transaction* transaction) { bind_transaction(transaction); }
  TransactionScope(const TransactionScope&) = delete;
  ~TransactionScope() { unbind_transaction(); }
};

}  // namespace multifora
