// The parts of a reply that every command shares.
#pragma once

#include <cstdint>

#include "core/base/status.h"
#include "core/bson/builder.h"
#include "server/dispatch/concerns.h"

namespace multifora {

// {ok: 0, errmsg, code, codeName} and the failure's extra fields.
void append_error(DocumentBuilder& reply, const Status& status);
// What decides a reply's errorLabels.
struct LabelInput {
  ErrorCode code = ErrorCode::kOK;                // of the failure
  ErrorCode write_concern_code = ErrorCode::kOK;  // of the writeConcernError
  bool retryable_write = false;   // it has a transaction number and is in no transaction
  bool in_transaction = false;
  bool ends_transaction = false;  // a commit or an abort
};
// errorLabels (RetryableWriteError, TransientTransactionError), where it has some.
void append_error_labels(DocumentBuilder& reply, const LabelInput& input);
void append_write_concern_error(DocumentBuilder& reply, const Status& status,
                                const WriteConcern& concern);
// Adds to the finished reply that ends `reply` and starts at `start` that its write was done, but not
// known to be on a majority in time.
void append_write_timeout(Buffer& reply, std::size_t start, const WriteConcern& concern);
// Puts $clusterTime and operationTime at the end of the document that ends `reply` and starts at
// `start`.
void append_cluster_time(Buffer& reply, std::size_t start, std::uint64_t cluster_time,
                         std::uint64_t operation_time);

}  // namespace multifora
