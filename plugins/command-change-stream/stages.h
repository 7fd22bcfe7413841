// The stages of this plugin as rows.
#pragma once

#include "plugins/command-change-stream/resume_token.h"
#include "plugins/query-engine/stage.h"

namespace multifora::change_stream {

extern const StageRow kChangeStream;
extern const StageRow kSplitLargeEvent;

// The resume token in an event's _id.
Result<ResumeToken> token_of(DocumentView event);

// A failure after which a driver must not open the stream again: it would fail again.
Status for_good(Status status);

}  // namespace multifora::change_stream
