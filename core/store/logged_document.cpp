#include "core/store/logged_document.h"

#include "core/base/assert.h"
#include "core/storage/record_space.h"

namespace multifora {

Result<DocumentView> logged_document(Pager& pager, LogPosition position, const LogRecord& record,
                                     Buffer& scratch) {
  if (record.operation == LogOperation::kInsert) return record.document;
  MULTIFORA_ASSERT(record.operation == LogOperation::kInsertAt);
  const RecordSpace::Claim claim{record.location, record.size_bytes, record.collection};
  const auto bytes = pager.records().read_back(claim, record.record_id, record.hash, scratch);
  if (bytes) return DocumentView::assume_valid(*bytes);
  if (position <= pager.oldest_needed_position())
    return fail(ErrorCode::kCappedPositionLost,
                "a document of log position " + std::to_string(position) +
                    " is no longer in the data file");
  return fail(bytes.error());
}

}  // namespace multifora
