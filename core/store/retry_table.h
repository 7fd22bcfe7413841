// Results of retryable writes: what each session's newest transaction number has already done, so
// that a statement sent again gets its first answer. The table is rebuilt from the data file and the
// log; entries unused for limits::kRetryHistoryMinutes are forgotten at checkpoints.
//
// Threads: any; the table has a mutex of its own (below every other lock).
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
  // nullopt: not run yet. TransactionTooOld where the session has gone past txn_number.
  Result<std::optional<OwnedDocument>> find(const StatementId& id) const;
  // A higher txn_number replaces the session's entry; `position` is when.
  void record(Bytes lsid, std::int64_t txn_number, std::int32_t statement, DocumentView result,
              LogPosition position);

  // For checkpoints: calls `save(lsid, encoded)` for each session changed since the last call, and
  // `forget(lsid)` for those dropped as older than `horizon`. Ends with the first failure of either;
  // what it was for and what is left will come again. One caller at a time.
  Status drain_changes(LogPosition horizon,
                       const std::function<Status(const std::string& lsid, Bytes encoded)>& save,
                       const std::function<Status(const std::string& lsid)>& forget);
  // Loads what save() was given. InvalidBSON on damage.
  Status load(Bytes lsid, Bytes encoded);

 private:
  struct Session {
    std::int64_t txn_number = -1;
    LogPosition last_use = 0;
    std::map<std::int32_t, OwnedDocument> results;
  };
  static Buffer encode(const Session& session);

  mutable std::mutex mutex_;
  std::unordered_map<std::string, Session> sessions_;
  std::unordered_set<std::string> changed_;
};

}  // namespace multifora
