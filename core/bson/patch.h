// A patch turns one document into another: the log's form of an update, and the source of a change
// stream's updateDescription. The format stands at the top of patch.cpp; applying it needs nothing
// of the query engine.
#pragma once

#include "core/base/status.h"
#include "core/bson/view.h"

namespace multifora {

// The shortest structural difference this module knows how to find: set, insert and remove fields
// (recursively in sub-documents), set array elements and truncate or extend arrays, and a whole
// replacement where that is not longer. make_patch(a, b) applied to a gives exactly b's bytes,
// where both are within the limits of documents (limits.h). Costs about as much as comparing the
// two.
Buffer make_patch(DocumentView before, DocumentView after);
// InvalidBSON where the patch is malformed or does not fit `before`; never reads outside it. The
// result is valid BSON whatever the patch holds.
Result<OwnedDocument> apply_patch(DocumentView before, Bytes patch);

// The patch as change streams report it: {updatedFields: {...}, removedFields: [...],
// truncatedArrays: [{field, newSize}]}, paths dotted, array elements by index. It follows the
// difference that was found: an object set to one with the same fields is reported field by field.
// `replaced`: the patch is a whole replacement; the description then says what that changed.
struct PatchDescription {
  OwnedDocument description;
  bool replaced = false;
};
// Errors as apply_patch, and BSONObjectTooLarge where the paths make the description too long.
Result<PatchDescription> describe_patch(DocumentView before, Bytes patch);

}  // namespace multifora
