#include "plugins/command-crud/statement.h"

#include "core/base/limits.h"
#include "core/plugin/fail_points.h"
#include "core/plugin/host.h"
#include "core/store/transaction.h"
#include "plugins/command-crud/commands.h"

namespace multifora::crud {

Status check_batch_size(std::size_t count) {
  if (count >= 1 && count <= limits::kWriteBatchCountMax) return {};
  return {ErrorCode::kInvalidLength,
          "Write batch sizes must be between 1 and " + std::to_string(limits::kWriteBatchCountMax) +
              ". Got " + std::to_string(count) + " operations."};
}

bool ends_command(const CommandContext& context, ErrorCode code) {
  switch (code) {
    case ErrorCode::kMaxTimeMSExpired:
    case ErrorCode::kInterrupted:
    case ErrorCode::kInterruptedAtShutdown:
    case ErrorCode::kShutdownInProgress:
    case ErrorCode::kClientDisconnect:
    case ErrorCode::kCursorKilled:
    case ErrorCode::kTransactionTooOld:
    case ErrorCode::kNotWritablePrimary:
    case ErrorCode::kDataCorruptionDetected:
    case ErrorCode::kFileStreamFailed:
      return true;
    // The client is to run its whole transaction again.
    case ErrorCode::kWriteConflict:
    case ErrorCode::kSnapshotTooOld:
    case ErrorCode::kSnapshotUnavailable:
    case ErrorCode::kNoSuchTransaction:
    case ErrorCode::kOperationNotSupportedInTransaction:
      return context.transaction() != nullptr;
    default:
      return false;
  }
}

bool aborts_transaction(const CommandContext& context) {
  if (context.transaction() == nullptr) return false;
  context.transaction()->abort();
  return true;
}

bool must_wait(const CommandContext& context, const Status& status) {
  return status.code() == ErrorCode::kWriteConflict && context.transaction() == nullptr;
}

Status wait_for_writers(const CommandContext& context) {
  constexpr std::int64_t kWaitMs = 20;
  MULTIFORA_TRY(context.interrupt().check_slow());
  context.store().wait_for_writers(kWaitMs);
  return context.interrupt().check_slow();
}

void append_write_error(DocumentBuilder& out, const Status& status) {
  out.append("code", static_cast<std::int32_t>(status.code()));
  out.append("errmsg", status.message());
  if (!status.extra().empty())
    out.append_all(DocumentView::assume_valid(Bytes(status.extra())));
}

void WriteErrors::add(std::size_t index, const Status& status) {
  // The reply must not outgrow a message: later ones keep their codes only.
  constexpr std::size_t kBytesMax = 8 * 1024 * 1024;
  ++count_;
  DocumentBuilder error = errors_.object();
  error.append("index", static_cast<std::int32_t>(index));
  if (errors_.size_bytes() < kBytesMax) {
    append_write_error(error, status);
    return;
  }
  error.append("code", static_cast<std::int32_t>(status.code()));
  error.append("errmsg", "");
}

void WriteErrors::append_to(DocumentBuilder& reply) {
  if (count_ == 0) return;
  const OwnedDocument errors = std::move(errors_).finish();
  reply.append_array("writeErrors", errors.view());
}

namespace {

// The fail point onPrimaryTransactionalWrite: the reply to a retryable write is lost, and the write too
// where failBeforeCommitExceptionCode is given.
Status strike_transactional_write(CommandContext& context) {
  auto* points = context.host().service<FailPoints>();
  if (points == nullptr || !points->any()) return {};
  const auto hit = points->hit(kOnPrimaryTransactionalWrite);
  if (!hit) return {};
  const ValueView close = hit->view()["closeConnection"];
  context.close_connection |= close.missing() || close.truthy();
  const ValueView code = hit->view()["failBeforeCommitExceptionCode"];
  if (!code.is_number()) return {};
  return {static_cast<ErrorCode>(code.number_as_int64()),
          "failing a write before its commit, as a fail point asked for"};
}

}  // namespace

Result<RetryableStatements> RetryableStatements::make(CommandContext& context,
                                                      const CommandRequest& request,
                                                      std::size_t count) {
  RetryableStatements out;
  out.context_ = &context;
  const SessionInfo& session = context.session();
  const bool has_ids = request.has("stmtIds");
  if (has_ids && request.has("stmtId"))
    return fail(ErrorCode::kInvalidOptions, "May not specify both stmtId and stmtIds in write command");
  if (has_ids) {
    for (const Element& id : request.document("stmtIds"))
      out.ids_.push_back(static_cast<std::int32_t>(id->number_as_int64()));
    if (out.ids_.size() != count)
      return fail(ErrorCode::kInvalidLength,
                  "Number of statement ids must match the number of batch entries. Got " +
                      std::to_string(out.ids_.size()) + " statement ids but " +
                      std::to_string(count) + " operations.");
  }
  out.first_ = static_cast<std::int32_t>(request.integer("stmtId", 0));
  out.enabled_ = session.txn_number >= 0 && !session.lsid.empty() && !session.in_transaction;
  return out;
}

std::optional<StatementId> RetryableStatements::id(std::size_t index) const {
  if (!enabled_) return std::nullopt;
  const SessionInfo& session = context_->session();
  const std::int32_t statement =
      ids_.empty() ? first_ + static_cast<std::int32_t>(index) : ids_[index];
  return StatementId{session.lsid, session.txn_number, statement};
}

Result<std::optional<OwnedDocument>> RetryableStatements::find(std::size_t index) {
  const auto id = this->id(index);
  if (!id) return std::nullopt;
  MULTIFORA_ASSIGN_R(auto result, context_->store().retried_result(*id));
  if (!result) {
    MULTIFORA_TRY_R(strike_transactional_write(*context_));
    return std::nullopt;
  }
  retried_.push_back(id->statement);
  // Nothing is written, but the first answer must be durable before it is given again.
  context_->note_write(context_->store().last_position());
  return result;
}

void RetryableStatements::append_to(DocumentBuilder& reply) const {
  if (retried_.empty()) return;
  ArrayBuilder ids = reply.array("retriedStmtIds");
  for (const std::int32_t id : retried_) ids.append(id);
}

Status check_writable(const std::string& ns) {
  const Namespace parts = Namespace::split(ns);
  return check_collection_name(parts.collection);
}

Status refuse_view(const std::string& ns) {
  return {ErrorCode::kCommandNotSupportedOnView,
          "Namespace " + ns + " is a view, not a collection"};
}

}  // namespace multifora::crud
