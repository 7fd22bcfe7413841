// Every limit of the server in one place, with the relations that must hold between them.
// Sizes are bytes unless the name says otherwise. Sources: MongoDB's manual, "MongoDB Limits and
// Thresholds", and the wire protocol's hello reply. Sizes of formats (pages, blocks, headers) stand
// with their format.
#pragma once

#include <cstddef>
#include <cstdint>

namespace multifora::limits {

// --- documents and messages
inline constexpr std::size_t kDocumentSizeMax = 16 * 1024 * 1024;
// Replies and internal documents (e.g. a document and its envelope) may pass the user limit by
// this.
inline constexpr std::size_t kDocumentSizeSlack = 16 * 1024;
inline constexpr std::size_t kMessageSizeMax = 48'000'000;
inline constexpr std::size_t kNestingDepthMax = 100;
// What the parser accepts at all, so that a command may wrap a document of kNestingDepthMax levels.
inline constexpr std::size_t kNestingDepthParseMax = 200;
// Options of one command: the dispatcher keeps one bit for each.
inline constexpr std::size_t kCommandOptionsMax = 64;

// --- names and the catalog
inline constexpr std::size_t kDatabaseNameLengthMax = 63;
inline constexpr std::size_t kNamespaceLengthMax = 255;  // "database.collection"
inline constexpr std::size_t kIndexesPerCollectionMax = 64;
inline constexpr std::size_t kIndexFieldsMax = 32;
inline constexpr std::size_t kViewDepthMax = 20;
inline constexpr std::int64_t kCappedSizeMax = std::int64_t{1} << 50;
inline constexpr std::int64_t kCappedCountMax = (std::int64_t{1} << 31) - 1;
inline constexpr std::int64_t kExpireSecondsMax = (std::int64_t{1} << 31) - 1;

// --- write commands
inline constexpr std::size_t kWriteBatchCountMax = 100'000;
// A command that writes much gives up its collection's lock between log batches; a batch ends with
// whichever of these comes first.
inline constexpr std::size_t kLogBatchDocuments = 1000;
inline constexpr std::size_t kLogBatchBytes = 1024 * 1024;
inline constexpr std::int64_t kLogBatchMicros = 5000;

// --- queries
inline constexpr int kFilterDepthMax = 100;       // $and in $or in ...
inline constexpr int kSchemaDepthMax = 100;       // $jsonSchema: schemas in schemas
inline constexpr int kProjectionDepthMax = 200;
inline constexpr std::size_t kSortFieldsMax = 32;
inline constexpr std::size_t kPipelineStagesMax = 1000;
inline constexpr int kSubPipelineDepthMax = 20;   // $lookup in $lookup in ...
inline constexpr std::size_t kExpressionValueSizeMax = 64 * 1024 * 1024;
inline constexpr std::size_t kQueryMemoryMax = 100 * 1024 * 1024;  // a stage: beyond, it spills
inline constexpr std::size_t kRegexPatternSizeMax = 32'764;
// What PCRE2 may spend on one match before it gives up.
inline constexpr std::uint32_t kRegexMatchSteps = 1'000'000;
inline constexpr std::uint32_t kRegexMatchDepth = 10'000;
inline constexpr std::uint32_t kRegexMatchMemoryKib = 20'000;

// --- cursors and sessions
inline constexpr std::size_t kCursorsMax = 100'000;
inline constexpr std::int64_t kCursorBatchFirstDocuments = 101;
inline constexpr std::size_t kCursorBatchSizeMax = kDocumentSizeMax;
inline constexpr std::int64_t kCursorIdleMs = 10 * 60 * 1000;
inline constexpr std::int64_t kSessionIdleMinutes = 30;
// How long the results of retryable writes are kept.
inline constexpr std::int64_t kRetryHistoryMinutes = 35;

static_assert(kDocumentSizeMax + kDocumentSizeSlack < kMessageSizeMax);
static_assert(kCursorBatchSizeMax + kDocumentSizeSlack < kMessageSizeMax);
static_assert(kNestingDepthMax < kNestingDepthParseMax);
static_assert(kFilterDepthMax <= kNestingDepthParseMax && kSchemaDepthMax <= kNestingDepthParseMax &&
              kProjectionDepthMax <= kNestingDepthParseMax);
static_assert(kDatabaseNameLengthMax < kNamespaceLengthMax);
static_assert(kSortFieldsMax <= kIndexFieldsMax, "an index can give any order that may be asked for");
static_assert(kLogBatchDocuments <= kWriteBatchCountMax && kLogBatchBytes < kMessageSizeMax);
static_assert(kDocumentSizeMax <= kExpressionValueSizeMax &&
              kExpressionValueSizeMax <= kQueryMemoryMax);
// A driver retries within the life of its session.
static_assert(kSessionIdleMinutes <= kRetryHistoryMinutes);

}  // namespace multifora::limits
