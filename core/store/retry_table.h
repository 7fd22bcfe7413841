// Results of retryable writes: what each session's newest transaction number has already done, so
// that a statement sent again gets its first answer.
//
// The truth is the catalog's tree (rows 'R', catalog_table.h) and what came after the last checkpoint,
// which is here; of what is in the tree this is a cache, emptied at checkpoints when it has grown past
// kCacheBytesMax. So a million sessions cost no memory and no time at open. Sessions
// unused for limits::kRetryHistoryMinutes are erased from the tree by checkpoints, some at a time.
//
// A session's row: BSON {txnNumber: long, lastUse: timestamp (the log position of its last write),
// results: [{statement: int, result: document}]}, in this order, so that lastUse stands at byte 32.
//
// Threads: any; the table has a mutex of its own (below every other lock). record() is called inside the
// commit gate, drain_changes() while it is closed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "core/base/status.h"
#include "core/bson/view.h"
#include "core/storage/types.h"
#include "core/store/collection.h"

namespace multifora {

class RetryTable {
 public:
  // What is kept of sessions that a checkpoint has saved.
  static constexpr std::size_t kCacheBytesMax = 16u << 20;

  // Reads a session's row from the tree; nullopt: it has none.
  using ReadRow = std::function<Result<std::optional<Buffer>>(Bytes lsid)>;
  using SaveRow = std::function<Status(const std::string& lsid, Bytes row)>;

  // nullopt: not run yet. TransactionTooOld where the session has gone past txn_number; what reading
  // and understanding the row may fail with.
  Result<std::optional<OwnedDocument>> find(const StatementId& id, const ReadRow& read);
  // A higher txn_number replaces the session's entry; `position` is when.
  void record(Bytes lsid, std::int64_t txn_number, std::int32_t statement, DocumentView result,
              LogPosition position);

  // For checkpoints: calls `save` for each session changed since the last call. Ends with the first
  // failure; what it was for and what is left will come again.
  Status drain_changes(const ReadRow& read, const SaveRow& save);
  // How many drain_changes would save.
  std::size_t changes() const;
  // Forgets an expired session, before its row is erased. False: it is in use again.
  bool forget(const std::string& lsid);
  std::size_t cached_bytes() const;  // about

  // The last use that a row, or the first 40 bytes of one, tells. DataCorruptionDetected.
  static Result<LogPosition> last_use_of(Bytes row);
  // DataCorruptionDetected for what is no row.
  static Status check_row(Bytes row);

 private:
  struct Session {
    std::int64_t txn_number = -1;
    LogPosition last_use = 0;
    std::map<std::int32_t, OwnedDocument> results;
    bool whole = false;  // nothing is in the tree that is not here
  };
  static Result<Session> decode(Bytes row);
  static Buffer encode(const Session& session);
  static std::size_t results_bytes(const Session& session);
  void merge(Session& into, Session stored);

  mutable std::mutex mutex_;
  std::unordered_map<std::string, Session> sessions_;
  std::unordered_set<std::string> changed_;
  std::size_t bytes_ = 0;
};

}  // namespace multifora
