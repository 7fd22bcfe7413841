#include "server/dispatch/reply.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "core/base/error_codes_rare.h"

namespace multifora {
namespace {

// The two elements are the same in every reply but for the times: written once, patched each time.
struct TimesTemplate {
  Buffer bytes;
  std::size_t cluster_time_at = 0;
  std::size_t operation_time_at = 0;

  TimesTemplate() {
    constexpr std::uint64_t kMark = 0x1122334455667788;
    DocumentBuilder b;
    {
      DocumentBuilder time = b.object("$clusterTime");
      time.append_timestamp("clusterTime", kMark);
      DocumentBuilder signature = time.object("signature");
      signature.append_binary("hash", std::string(20, '\0'), 0);
      signature.append("keyId", std::int64_t{0});
    }
    b.append_timestamp("operationTime", kMark);
    const OwnedDocument document = std::move(b).finish();
    bytes = document.bytes().substr(4, document.bytes().size() - 5);
    Buffer mark;
    append_le(mark, kMark);
    cluster_time_at = bytes.find(mark);
    operation_time_at = bytes.rfind(mark);
  }
};

// The drivers' list: the same command may be sent again, to this or another server.
bool is_retryable(ErrorCode code) {
  static constexpr ErrorCode kCodes[] = {ErrorCode::kHostUnreachable,
                                         ErrorCode::kHostNotFound,
                                         ErrorCode::kNetworkTimeout,
                                         ErrorCode::kShutdownInProgress,
                                         rare::kPrimarySteppedDown,
                                         ErrorCode::kExceededTimeLimit,
                                         rare::kSocketException,
                                         ErrorCode::kNotWritablePrimary,
                                         ErrorCode::kInterruptedAtShutdown,
                                         ErrorCode::kInterruptedDueToReplStateChange,
                                         rare::kNotPrimaryNoSecondaryOk,
                                         rare::kNotPrimaryOrSecondary};
  return std::find(std::begin(kCodes), std::end(kCodes), code) != std::end(kCodes);
}

// The whole transaction may be run again.
bool is_transient(const LabelInput& input) {
  if (!input.in_transaction) return false;
  static constexpr ErrorCode kAlways[] = {ErrorCode::kWriteConflict, rare::kLockTimeout,
                                          ErrorCode::kSnapshotTooOld, ErrorCode::kSnapshotUnavailable,
                                          rare::kPreparedTransactionInProgress};
  if (std::find(std::begin(kAlways), std::end(kAlways), input.code) != std::end(kAlways))
    return true;
  if (input.code == ErrorCode::kNoSuchTransaction)
    return !input.ends_transaction || input.write_concern_code == ErrorCode::kOK;
  return !input.ends_transaction && is_retryable(input.code);
}

}  // namespace

void append_error(DocumentBuilder& reply, const Status& status) {
  reply.append("ok", 0.0);
  reply.append("errmsg", status.message());
  reply.append("code", static_cast<std::int32_t>(status.code()));
  reply.append("codeName", status.code_name());
  if (!status.extra().empty())
    reply.append_all(DocumentView::assume_valid(Bytes(status.extra())));
}

void append_error_labels(DocumentBuilder& reply, const LabelInput& input) {
  const bool transient = is_transient(input);
  const bool retryable = (input.retryable_write || input.ends_transaction) &&
                         (is_retryable(input.code) || is_retryable(input.write_concern_code));
  if (!transient && !retryable) return;
  ArrayBuilder labels = reply.array("errorLabels");
  if (transient) labels.append("TransientTransactionError");
  if (retryable) labels.append("RetryableWriteError");
}

void append_write_timeout(Buffer& reply, std::size_t start, const WriteConcern& concern) {
  DocumentBuilder more;
  append_write_concern_error(
      more, {ErrorCode::kWriteConcernFailed, "waiting for replication timed out"}, concern);
  const OwnedDocument error = std::move(more).finish();
  reply.pop_back();
  reply.append(error.bytes().substr(4));
  store_le(reply.data() + start, static_cast<std::int32_t>(reply.size() - start));
}

void append_write_concern_error(DocumentBuilder& reply, const Status& status,
                                const WriteConcern& concern) {
  DocumentBuilder error = reply.object("writeConcernError");
  error.append("code", static_cast<std::int32_t>(status.code()));
  error.append("codeName", status.code_name());
  error.append("errmsg", status.message());
  DocumentBuilder info = error.object("errInfo");
  if (status.code() == ErrorCode::kWriteConcernFailed) info.append("wtimeout", true);
  DocumentBuilder shown = info.object("writeConcern");
  if (concern.mode.empty())
    shown.append("w", static_cast<std::int32_t>(concern.w));
  else
    shown.append("w", concern.mode);
  shown.append("wtimeout", static_cast<std::int32_t>(concern.timeout_ms));
  shown.append("provenance", "clientSupplied");
}

void append_cluster_time(Buffer& reply, std::size_t start, std::uint64_t cluster_time,
                         std::uint64_t operation_time) {
  static const TimesTemplate kTemplate;
  reply.pop_back();
  const std::size_t at = reply.size();
  reply += kTemplate.bytes;
  store_le(reply.data() + at + kTemplate.cluster_time_at, cluster_time);
  store_le(reply.data() + at + kTemplate.operation_time_at, operation_time);
  reply.push_back('\0');
  store_le(reply.data() + start, static_cast<std::int32_t>(reply.size() - start));
}

}  // namespace multifora
