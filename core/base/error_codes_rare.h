// Codes that only few places name: of sessions, of a changing replica set, of tests. The same rows as in
// error_codes.h, apart from it so that adding one does not rebuild everything.
#pragma once

#include "core/base/error_codes.h"

namespace multifora {

#define MULTIFORA_RARE_ERROR_CODES(X)                                                             \
  X(kLockTimeout, 24, "LockTimeout")                                                              \
  X(kNoMatchingDocument, 47, "NoMatchingDocument")                                                \
  X(kReadConcernMajorityNotAvailableYet, 134, "ReadConcernMajorityNotAvailableYet")               \
  X(kPrimarySteppedDown, 189, "PrimarySteppedDown")                                               \
  X(kClusterTimeFailsRateLimiter, 202, "ClusterTimeFailsRateLimiter")                             \
  X(kIncompleteTransactionHistory, 217, "IncompleteTransactionHistory")                           \
  X(kTooManyLogicalSessions, 261, "TooManyLogicalSessions")                                       \
  X(kFailPointSetFailed, 266, "FailPointSetFailed")                                               \
  X(kPreparedTransactionInProgress, 267, "PreparedTransactionInProgress")                         \
  X(kTransactionExceededLifetimeLimitSeconds, 290, "TransactionExceededLifetimeLimitSeconds")     \
  X(kSocketException, 9001, "SocketException")                                                    \
  X(kNotPrimaryNoSecondaryOk, 13435, "NotPrimaryNoSecondaryOk")                                   \
  X(kNotPrimaryOrSecondary, 13436, "NotPrimaryOrSecondary")

namespace rare {
#define MULTIFORA_ROW(constant, number, name) \
  inline constexpr ErrorCode constant = static_cast<ErrorCode>(number);
MULTIFORA_RARE_ERROR_CODES(MULTIFORA_ROW)
#undef MULTIFORA_ROW
}  // namespace rare

}  // namespace multifora
