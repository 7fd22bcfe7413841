#include "core/store/retry_table.h"

#include <vector>

#include "core/bson/builder.h"
#include "core/bson/validate.h"

namespace multifora {

Result<std::optional<OwnedDocument>> RetryTable::find(const StatementId& id) const {
  const std::lock_guard hold(mutex_);
  const auto at = sessions_.find(id.lsid);
  if (at == sessions_.end()) return std::nullopt;
  const Session& session = at->second;
  if (id.txn_number < session.txn_number)
    return fail(ErrorCode::kTransactionTooOld,
                "Retryable write with txnNumber " + std::to_string(id.txn_number) +
                    " is prohibited on session because a newer retryable write with txnNumber " +
                    std::to_string(session.txn_number) + " has already started on this session.");
  if (id.txn_number > session.txn_number) return std::nullopt;
  const auto result = session.results.find(id.statement);
  if (result == session.results.end()) return std::nullopt;
  return result->second;
}

void RetryTable::record(Bytes lsid, std::int64_t txn_number, std::int32_t statement,
                        DocumentView result, LogPosition position) {
  const std::lock_guard hold(mutex_);
  Session& session = sessions_[std::string(lsid)];
  if (txn_number < session.txn_number) return;
  if (txn_number > session.txn_number) {
    session.results.clear();
    session.txn_number = txn_number;
  }
  session.last_use = position;
  session.results.insert_or_assign(statement, OwnedDocument(result));
  changed_.insert(std::string(lsid));
}

Buffer RetryTable::encode(const Session& session) {
  DocumentBuilder out;
  out.append("txnNumber", session.txn_number);
  out.append_timestamp("lastUse", session.last_use);
  auto results = out.array("results");
  for (const auto& [statement, result] : session.results) {
    auto row = results.object();
    row.append("statement", statement);
    row.append("result", result.view());
  }
  results.close();
  return std::move(out).finish().take();
}

Status RetryTable::drain_changes(
    LogPosition horizon, const std::function<Status(const std::string&, Bytes)>& save,
    const std::function<Status(const std::string&)>& forget) {
  const std::lock_guard hold(mutex_);
  for (auto at = sessions_.begin(); at != sessions_.end();) {
    if (at->second.last_use >= horizon) {
      ++at;
      continue;
    }
    MULTIFORA_TRY(forget(at->first));
    changed_.erase(at->first);
    at = sessions_.erase(at);
  }
  for (auto at = changed_.begin(); at != changed_.end(); at = changed_.erase(at))
    MULTIFORA_TRY(save(*at, encode(sessions_.at(*at))));
  return {};
}

Status RetryTable::load(Bytes lsid, Bytes encoded) {
  ValidateOptions options;
  options.size_bytes_max = encoded.size();
  MULTIFORA_ASSIGN(const DocumentView document, validate(encoded, options));
  Session session;
  session.txn_number = document["txnNumber"].number_as_int64();
  session.last_use = document["lastUse"].type() == BsonType::kTimestamp
                         ? document["lastUse"].as_timestamp()
                         : 0;
  const ValueView results = document["results"];
  if (results.type() == BsonType::kArray)
    for (const Element& row : results.as_document()) {
      if (row.type() != BsonType::kObject) continue;
      const DocumentView fields = row->as_document();
      if (fields["result"].type() != BsonType::kObject) continue;
      session.results.emplace(static_cast<std::int32_t>(fields["statement"].number_as_int64()),
                              OwnedDocument(fields["result"].as_document()));
    }
  const std::lock_guard hold(mutex_);
  sessions_.insert_or_assign(std::string(lsid), std::move(session));
  return {};
}

}  // namespace multifora
