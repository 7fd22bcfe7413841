// A patch turns one document into another: the log's form of an update, and what change streams say
// of it. The format stands at the top of patch.cpp; applying it needs nothing of the query engine.
#pragma once

#include <span>
#include <string>

#include "core/base/status.h"
#include "core/bson/view.h"

namespace multifora {

// The shortest structural difference this module knows how to find: set, insert and remove fields
// (recursively in sub-documents), set array elements and truncate or extend arrays, and a whole
// replacement where that is not longer. make_patch(a, b) applied to a gives exactly b's bytes,
// where both are within the limits of documents (limits.h). Costs about as much as comparing the
// two.
Buffer make_patch(DocumentView before, DocumentView after);
// The difference, also where a replacement would be shorter: it can be visited. `assigned`: dotted paths
// (elements by index) of objects and arrays that are told as a whole though only a part has changed.
Buffer make_difference(DocumentView before, DocumentView after,
                       std::span<const std::string> assigned = {});
Buffer make_replacement(DocumentView after);
// InvalidBSON where the patch is malformed or does not fit `before`; never reads outside it. The
// result is valid BSON whatever the patch holds.
Result<OwnedDocument> apply_patch(DocumentView before, Bytes patch);

// The new document of a patch that is a whole replacement; empty bytes: it is a difference.
// InvalidBSON where it is malformed.
Result<Bytes> patch_replacement(Bytes patch);

// What a difference does, told in order without the old document. Names and values are views into the
// patch; inside of arrays there are no names, only indexes.
class PatchVisitor {
 public:
  virtual ~PatchVisitor() = default;
  virtual void set(std::string_view name, std::size_t index, const ValueView& value) = 0;
  virtual void inserted(std::string_view name, std::size_t index, const ValueView& value) = 0;
  virtual void removed(std::string_view name) = 0;  // in an object; may be inserted again: it moved
  virtual void truncated(std::size_t size) = 0;     // in an array
  virtual void enter(std::string_view name, std::size_t index, bool array) = 0;
  virtual void leave() = 0;
};
// InvalidBSON where the patch is malformed or a replacement.
Status visit_patch(Bytes patch, PatchVisitor& visitor);

// A difference as change streams report it: {updatedFields: {...}, removedFields: [...],
// truncatedArrays: [{field, newSize}]}, paths dotted, array elements by index; `disambiguate` adds
// disambiguatedPaths: {path: [names and indexes]} of paths with dots in names or numbers as names.
// Errors as visit_patch, and BSONObjectTooLarge where the paths make the description too long.
Result<OwnedDocument> describe_patch(Bytes patch, bool disambiguate = false);

}  // namespace multifora
