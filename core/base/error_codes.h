// MongoDB's error codes: the one list of numbers and names that replies may carry.
//
// Rows are X(constant, number, name sent as `codeName`), by number. Codes that MongoDB reports
// without a name of their own ("Location51024") are not rows: make them with location_code(51024).
// The numbers are a public protocol constant (see the drivers' error tables and the manual).
#pragma once

#include <cstdint>
#include <string>

namespace multifora {

#define MULTIFORA_ERROR_CODES(X)                                                                \
  X(kOK, 0, "OK")                                                                               \
  X(kInternalError, 1, "InternalError")                                                         \
  X(kBadValue, 2, "BadValue")                                                                   \
  X(kNoSuchKey, 4, "NoSuchKey")                                                                 \
  X(kGraphContainsCycle, 5, "GraphContainsCycle")                                               \
  X(kHostUnreachable, 6, "HostUnreachable")                                                     \
  X(kHostNotFound, 7, "HostNotFound")                                                           \
  X(kUnknownError, 8, "UnknownError")                                                           \
  X(kFailedToParse, 9, "FailedToParse")                                                         \
  X(kCannotMutateObject, 10, "CannotMutateObject")                                              \
  X(kUserNotFound, 11, "UserNotFound")                                                          \
  X(kUnsupportedFormat, 12, "UnsupportedFormat")                                                \
  X(kUnauthorized, 13, "Unauthorized")                                                          \
  X(kTypeMismatch, 14, "TypeMismatch")                                                          \
  X(kOverflow, 15, "Overflow")                                                                  \
  X(kInvalidLength, 16, "InvalidLength")                                                        \
  X(kProtocolError, 17, "ProtocolError")                                                        \
  X(kAuthenticationFailed, 18, "AuthenticationFailed")                                          \
  X(kIllegalOperation, 20, "IllegalOperation")                                                  \
  X(kInvalidBSON, 22, "InvalidBSON")                                                            \
  X(kAlreadyInitialized, 23, "AlreadyInitialized")                                              \
  X(kNamespaceNotFound, 26, "NamespaceNotFound")                                                \
  X(kIndexNotFound, 27, "IndexNotFound")                                                        \
  X(kPathNotViable, 28, "PathNotViable")                                                        \
  X(kNonExistentPath, 29, "NonExistentPath")                                                    \
  X(kInvalidPath, 30, "InvalidPath")                                                            \
  X(kRoleNotFound, 31, "RoleNotFound")                                                          \
  X(kCannotBackfillArray, 34, "CannotBackfillArray")                                            \
  X(kFileStreamFailed, 39, "FileStreamFailed")                                                  \
  X(kConflictingUpdateOperators, 40, "ConflictingUpdateOperators")                              \
  X(kCursorNotFound, 43, "CursorNotFound")                                                      \
  X(kUserDataInconsistent, 45, "UserDataInconsistent")                                          \
  X(kLockBusy, 46, "LockBusy")                                                                  \
  X(kNamespaceExists, 48, "NamespaceExists")                                                    \
  X(kMaxTimeMSExpired, 50, "MaxTimeMSExpired")                                                  \
  X(kDollarPrefixedFieldName, 52, "DollarPrefixedFieldName")                                    \
  X(kInvalidIdField, 53, "InvalidIdField")                                                      \
  X(kNotSingleValueField, 54, "NotSingleValueField")                                            \
  X(kInvalidDBRef, 55, "InvalidDBRef")                                                          \
  X(kEmptyFieldName, 56, "EmptyFieldName")                                                      \
  X(kDottedFieldName, 57, "DottedFieldName")                                                    \
  X(kCommandNotFound, 59, "CommandNotFound")                                                    \
  X(kShardKeyNotFound, 61, "ShardKeyNotFound")                                                  \
  X(kWriteConcernFailed, 64, "WriteConcernFailed")                                              \
  X(kMultipleErrorsOccurred, 65, "MultipleErrorsOccurred")                                      \
  X(kImmutableField, 66, "ImmutableField")                                                      \
  X(kCannotCreateIndex, 67, "CannotCreateIndex")                                                \
  X(kIndexAlreadyExists, 68, "IndexAlreadyExists")                                              \
  X(kAuthSchemaIncompatible, 69, "AuthSchemaIncompatible")                                      \
  X(kInvalidOptions, 72, "InvalidOptions")                                                      \
  X(kInvalidNamespace, 73, "InvalidNamespace")                                                  \
  X(kWriteConcernLegacyOK, 75, "WriteConcernLegacyOK")                                          \
  X(kNoReplicationEnabled, 76, "NoReplicationEnabled")                                          \
  X(kUnknownReplWriteConcern, 79, "UnknownReplWriteConcern")                                    \
  X(kIndexOptionsConflict, 85, "IndexOptionsConflict")                                          \
  X(kIndexKeySpecsConflict, 86, "IndexKeySpecsConflict")                                        \
  X(kNetworkTimeout, 89, "NetworkTimeout")                                                      \
  X(kShutdownInProgress, 91, "ShutdownInProgress")                                              \
  X(kNotYetInitialized, 94, "NotYetInitialized")                                                \
  X(kOperationFailed, 96, "OperationFailed")                                                    \
  X(kNoProjectionFound, 97, "NoProjectionFound")                                                \
  X(kUnsatisfiableWriteConcern, 100, "UnsatisfiableWriteConcern")                               \
  X(kWriteConflict, 112, "WriteConflict")                                                       \
  X(kCommandNotSupported, 115, "CommandNotSupported")                                           \
  X(kDocumentValidationFailure, 121, "DocumentValidationFailure")                               \
  X(kNotAReplicaSet, 123, "NotAReplicaSet")                                                     \
  X(kCommandFailed, 125, "CommandFailed")                                                       \
  X(kUnrecoverableRollbackError, 127, "UnrecoverableRollbackError")                             \
  X(kCappedPositionLost, 136, "CappedPositionLost")                                             \
  X(kExceededMemoryLimit, 146, "ExceededMemoryLimit")                                           \
  X(kIncompatibleCollationVersion, 161, "IncompatibleCollationVersion")                         \
  X(kViewDepthLimitExceeded, 165, "ViewDepthLimitExceeded")                                     \
  X(kCommandNotSupportedOnView, 166, "CommandNotSupportedOnView")                               \
  X(kOptionNotSupportedOnView, 167, "OptionNotSupportedOnView")                                 \
  X(kInvalidPipelineOperator, 168, "InvalidPipelineOperator")                                   \
  X(kCannotIndexParallelArrays, 171, "CannotIndexParallelArrays")                               \
  X(kQueryPlanKilled, 175, "QueryPlanKilled")                                                   \
  X(kAmbiguousIndexKeyPattern, 181, "AmbiguousIndexKeyPattern")                                 \
  X(kInvalidViewDefinition, 182, "InvalidViewDefinition")                                       \
  X(kIllegalOpMsgFlag, 188, "IllegalOpMsgFlag")                                                 \
  X(kInvalidIndexSpecificationOption, 197, "InvalidIndexSpecificationOption")                   \
  X(kNoSuchSession, 206, "NoSuchSession")                                                       \
  X(kInvalidUUID, 207, "InvalidUUID")                                                           \
  X(kQueryFeatureNotAllowed, 224, "QueryFeatureNotAllowed")                                     \
  X(kTransactionTooOld, 225, "TransactionTooOld")                                               \
  X(kAtomicityFailure, 226, "AtomicityFailure")                                                 \
  X(kMaxSubPipelineDepthExceeded, 232, "MaxSubPipelineDepthExceeded")                           \
  X(kCursorKilled, 237, "CursorKilled")                                                         \
  X(kNotImplemented, 238, "NotImplemented")                                                     \
  X(kSnapshotTooOld, 239, "SnapshotTooOld")                                                     \
  X(kConversionFailure, 241, "ConversionFailure")                                               \
  X(kSnapshotUnavailable, 246, "SnapshotUnavailable")                                           \
  X(kNoSuchTransaction, 251, "NoSuchTransaction")                                               \
  X(kTransactionCommitted, 256, "TransactionCommitted")                                         \
  X(kTransactionTooLarge, 257, "TransactionTooLarge")                                           \
  X(kInvalidResumeToken, 260, "InvalidResumeToken")                                             \
  X(kExceededTimeLimit, 262, "ExceededTimeLimit")                                               \
  X(kOperationNotSupportedInTransaction, 263, "OperationNotSupportedInTransaction")             \
  X(kTooManyFilesOpen, 264, "TooManyFilesOpen")                                                 \
  X(kChecksumMismatch, 272, "ChecksumMismatch")                                                 \
  X(kIndexBuildAborted, 276, "IndexBuildAborted")                                               \
  X(kClientDisconnect, 279, "ClientDisconnect")                                                 \
  X(kChangeStreamFatalError, 280, "ChangeStreamFatalError")                                     \
  X(kIndexBuildAlreadyInProgress, 285, "IndexBuildAlreadyInProgress")                           \
  X(kChangeStreamHistoryLost, 286, "ChangeStreamHistoryLost")                                   \
  X(kNoQueryExecutionPlans, 291, "NoQueryExecutionPlans")                                       \
  X(kQueryExceededMemoryLimitNoDiskUseAllowed, 292, "QueryExceededMemoryLimitNoDiskUseAllowed") \
  X(kDataCorruptionDetected, 301, "DataCorruptionDetected")                                     \
  X(kAPIVersionError, 322, "APIVersionError")                                                   \
  X(kAPIStrictError, 323, "APIStrictError")                                                     \
  X(kAPIDeprecationError, 324, "APIDeprecationError")                                           \
  X(kUnsupportedOpQueryCommand, 352, "UnsupportedOpQueryCommand")                               \
  X(kCannotConvertIndexToUnique, 359, "CannotConvertIndexToUnique")                             \
  X(kCollectionUUIDMismatch, 361, "CollectionUUIDMismatch")                                     \
  X(kCannotGrowDocumentInCappedNamespace, 10003, "CannotGrowDocumentInCappedNamespace")         \
  X(kNotWritablePrimary, 10107, "NotWritablePrimary")                                           \
  X(kBSONObjectTooLarge, 10334, "BSONObjectTooLarge")                                           \
  X(kDuplicateKey, 11000, "DuplicateKey")                                                       \
  X(kInterruptedAtShutdown, 11600, "InterruptedAtShutdown")                                     \
  X(kInterrupted, 11601, "Interrupted")                                                         \
  X(kInterruptedDueToReplStateChange, 11602, "InterruptedDueToReplStateChange")                 \
  X(kBackgroundOperationInProgressForNamespace, 12587,                                          \
    "BackgroundOperationInProgressForNamespace")                                                \
  X(kStaleConfig, 13388, "StaleConfig")                                                         \
  X(kOutOfDiskSpace, 14031, "OutOfDiskSpace")                                                   \
  X(kUnknownField, 40415, "Location40415")

// A scoped integer type so that location codes need no row.
enum class ErrorCode : std::int32_t {
#define MULTIFORA_ROW(constant, number, name) constant = number,
  MULTIFORA_ERROR_CODES(MULTIFORA_ROW)
#undef MULTIFORA_ROW
};

// A numbered code without a name, e.g. location_code(40415).
constexpr ErrorCode location_code(std::int32_t number) {
  return static_cast<ErrorCode>(number);
}

// The `codeName` of a reply: the row's name, or "Location<number>".
std::string error_code_name(ErrorCode code);

}  // namespace multifora
