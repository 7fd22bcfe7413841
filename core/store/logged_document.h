// What an insert in the log inserted. A batch holds most documents itself, and of a bulk insert only
// where they lie in the data file (docs/format-log.md); recovery, change streams and whoever else reads
// the log asks here and need not know which.
//
// How long a reference can be followed: as long as Wal::read() gives out its batch. What it refers to
// may be overwritten only once two durable checkpoints no longer need it, even where the document has
// been changed, removed or moved since, and by then the batch is older than
// Pager::oldest_needed_position(). Who wants to read batches older than that (a log kept longer than
// recovery needs it) holds a Pager::pin() taken before that position was passed.
#pragma once

#include "core/base/bytes.h"
#include "core/base/status.h"
#include "core/bson/view.h"
#include "core/storage/pager.h"
#include "core/storage/types.h"
#include "core/store/log_record.h"

namespace multifora {

// The whole document that `record`, a kInsert or kInsertAt of the batch at `position`, inserted. Lives
// as long as the batch's bytes and `scratch`, whose content goes. The bytes are proven by the log's
// hash of them. Needs no lock; any thread.
// CappedPositionLost where the batch is older than what can be followed and the place is used again;
// DataCorruptionDetected where it is not that old and the bytes are not those that were written.
Result<DocumentView> logged_document(Pager& pager, LogPosition position, const LogRecord& record,
                                     Buffer& scratch);

}  // namespace multifora
