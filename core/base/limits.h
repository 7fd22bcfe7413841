// Every limit of the server in one place, with the relations that must hold between them.
// Sizes are bytes unless the name says otherwise. Sources: MongoDB's manual, "MongoDB Limits and
// Thresholds", and the wire protocol's hello reply.
#pragma once

#include <cstddef>
#include <cstdint>

namespace multifora::limits {

inline constexpr std::size_t kDocumentSizeMax = 16 * 1024 * 1024;
// Replies and internal documents (e.g. a document and its envelope) may pass the user limit by
// this.
inline constexpr std::size_t kDocumentSizeSlack = 16 * 1024;
inline constexpr std::size_t kMessageSizeMax = 48'000'000;
inline constexpr std::size_t kWriteBatchCountMax = 100'000;
inline constexpr std::size_t kNestingDepthMax = 100;
// What the parser accepts at all, so that a command may wrap a document of kNestingDepthMax levels.
inline constexpr std::size_t kNestingDepthParseMax = 200;
inline constexpr std::size_t kIndexesPerCollectionMax = 64;
inline constexpr std::size_t kIndexFieldsMax = 32;
inline constexpr std::size_t kDatabaseNameLengthMax = 63;
inline constexpr std::size_t kNamespaceLengthMax = 255;
inline constexpr std::size_t kViewDepthMax = 20;
inline constexpr std::int64_t kCursorBatchFirstDocuments = 101;
inline constexpr std::size_t kCursorBatchSizeMax = kDocumentSizeMax;
inline constexpr std::int64_t kCursorIdleMs = 10 * 60 * 1000;
inline constexpr std::int64_t kSessionIdleMinutes = 30;

static_assert(kDocumentSizeMax + kDocumentSizeSlack < kMessageSizeMax);
static_assert(kNestingDepthMax < kNestingDepthParseMax);

}  // namespace multifora::limits
