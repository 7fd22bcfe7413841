#include "core/store/retry_table.h"

#include <utility>

#include "core/bson/builder.h"
#include "core/bson/validate.h"

namespace multifora {
namespace {

// What an entry takes beside its documents: nodes, keys, the allocator's own.
constexpr std::size_t kSessionBytes = 208;
constexpr std::size_t kResultBytes = 112;
constexpr std::size_t kLastUseAt = 32;

Status damaged(std::string_view what) {
  return {ErrorCode::kDataCorruptionDetected,
          "results of retryable writes are damaged: " + std::string(what)};
}

}  // namespace

Result<std::optional<OwnedDocument>> RetryTable::find(const StatementId& id, const ReadRow& read) {
  std::unique_lock hold(mutex_);
  auto at = sessions_.find(id.lsid);
  const bool known = at != sessions_.end() && (at->second.whole || id.txn_number < at->second.txn_number);
  if (!known) {
    // Without the mutex: `read` may wait for a checkpoint, which takes it. What comes meanwhile is
    // newer than the row, or the same.
    hold.unlock();
    MULTIFORA_ASSIGN_R(const std::optional<Buffer> row, read(id.lsid));
    Session stored;
    if (row) {
      MULTIFORA_ASSIGN_R(stored, decode(*row));
    }
    hold.lock();
    const auto [place, inserted] = sessions_.try_emplace(id.lsid);
    if (inserted) bytes_ += kSessionBytes;
    if (!place->second.whole) merge(place->second, std::move(stored));
    at = place;
  }
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
  const auto [at, inserted] = sessions_.try_emplace(std::string(lsid));
  if (inserted) bytes_ += kSessionBytes;
  Session& session = at->second;
  if (txn_number < session.txn_number) return;
  if (txn_number > session.txn_number) {
    bytes_ -= results_bytes(session);
    session.results.clear();
    session.txn_number = txn_number;
  }
  session.last_use = position;
  const auto [place, fresh] = session.results.try_emplace(statement);
  bytes_ += fresh ? kResultBytes : 0;
  bytes_ -= fresh ? 0 : place->second.bytes().size();
  place->second = OwnedDocument(result);
  bytes_ += place->second.bytes().size();
  changed_.insert(at->first);
}

// The tree's results of the same number; what is here is newer.
void RetryTable::merge(Session& into, Session stored) {
  bytes_ -= results_bytes(into);
  if (stored.txn_number > into.txn_number) {
    into.txn_number = stored.txn_number;
    into.last_use = stored.last_use;
    into.results = std::move(stored.results);
  } else if (stored.txn_number == into.txn_number) {
    into.results.merge(stored.results);
  }
  into.whole = true;
  bytes_ += results_bytes(into);
}

std::size_t RetryTable::results_bytes(const Session& session) {
  std::size_t bytes = 0;
  for (const auto& [statement, result] : session.results)
    bytes += kResultBytes + result.bytes().size();
  return bytes;
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

Result<RetryTable::Session> RetryTable::decode(Bytes row) {
  ValidateOptions options;
  options.size_bytes_max = row.size();
  const auto document = validate(row, options);
  if (!document) return fail(damaged(document.error().message()));
  Session session;
  session.txn_number = (*document)["txnNumber"].number_as_int64();
  MULTIFORA_ASSIGN_R(session.last_use, last_use_of(row));
  const ValueView results = (*document)["results"];
  if (results.type() != BsonType::kArray) return fail(damaged("a row has no results"));
  for (const Element& element : results.as_document()) {
    const DocumentView fields =
        element.type() == BsonType::kObject ? element->as_document() : DocumentView();
    if (fields["result"].type() != BsonType::kObject) return fail(damaged("a result is no document"));
    session.results.emplace(static_cast<std::int32_t>(fields["statement"].number_as_int64()),
                            OwnedDocument(fields["result"].as_document()));
  }
  return session;
}

Result<LogPosition> RetryTable::last_use_of(Bytes row) {
  using namespace std::string_view_literals;
  // size (4), txnNumber (1 + 10 + 8), lastUse's type and name (1 + 8), its value
  if (row.size() < kLastUseAt + 8 || row.substr(4, 11) != "\x12txnNumber\0"sv ||
      row.substr(23, 9) != "\x11lastUse\0"sv)
    return fail(damaged("a row does not begin with txnNumber and lastUse"));
  return load_le<std::uint64_t>(row.data() + kLastUseAt);
}

Status RetryTable::check_row(Bytes row) { return status_of(decode(row)); }

Status RetryTable::drain_changes(const ReadRow& read, const SaveRow& save) {
  const std::lock_guard hold(mutex_);
  for (auto at = changed_.begin(); at != changed_.end(); at = changed_.erase(at)) {
    Session& session = sessions_.at(*at);
    if (!session.whole) {
      MULTIFORA_ASSIGN(const std::optional<Buffer> row, read(*at));
      Session stored;
      if (row) {
        MULTIFORA_ASSIGN(stored, decode(*row));
      }
      merge(session, std::move(stored));
    }
    MULTIFORA_TRY(save(*at, encode(session)));
  }
  if (bytes_ > kCacheBytesMax) {
    sessions_.clear();
    bytes_ = 0;
  }
  return {};
}

std::size_t RetryTable::changes() const {
  const std::lock_guard hold(mutex_);
  return changed_.size();
}

bool RetryTable::forget(const std::string& lsid) {
  const std::lock_guard hold(mutex_);
  if (changed_.contains(lsid)) return false;
  if (const auto at = sessions_.find(lsid); at != sessions_.end()) {
    bytes_ -= kSessionBytes + results_bytes(at->second);
    sessions_.erase(at);
  }
  return true;
}

std::size_t RetryTable::cached_bytes() const {
  const std::lock_guard hold(mutex_);
  return bytes_;
}

}  // namespace multifora
