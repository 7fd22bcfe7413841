// A patch turns one document into another: the log's form of an update, and the source of a change
// stream's updateDescription. The format stands at the top of patch.cpp; applying it needs nothing
// of the query engine.
#pragma once

#include "core/base/status.h"
#include "core/bson/view.h"

namespace multifora {

// The shortest structural difference this module knows how to find: set, insert and remove fields
// (recursively in sub-documents), set array elements and truncate or extend arrays, and a whole
// replacement where that is not longer. make_patch(a, b) applied to a gives exactly b's bytes.
Buffer make_patch(DocumentView before, DocumentView after);
// InvalidBSON where the patch is malformed or does not fit `before`; never reads outside it.
Result<OwnedDocument> apply_patch(DocumentView before, Bytes patch);

// The patch as change streams report it: {updatedFields: {...}, removedFields: [...],
// truncatedArrays: [...]}; empty optional meaning for whole replacements: `replaced` is set.
struct PatchDescription {
  OwnedDocument description;
  bool replaced = false;
};
Result<PatchDescription> describe_patch(DocumentView before, Bytes patch);

}  // namespace multifora
