// The patch format.
//
//   offset 0   kind: 0 = replace, 2 = diff
//   offset 1   replace: the whole new document, to the end of the patch
//              diff: steps for the document's elements, to the end of the patch
//
// A step is an op byte: the op in the lowest 3 bits, above it a count; a count from 31 on is
// written as 31 and follows as a base-128 number, lowest group first, high bit = another follows.
// Steps walk the elements of the old document from its first:
//
//   0 end       the remaining elements are kept; ends this level (count 0)
//   1 keep      the next `count` elements are kept
//   2 remove    the next `count` elements are gone; in an object their names follow, each with a
//               zero byte behind it
//   3 insert    a BSON document follows (count 0): its elements stand here
//   4 set       a BSON document follows (count 0): its n values replace the values of the next n
//               elements, which keep their names; in an object it says them, in an array it has
//               empty ones
//   5 descend   into the next element, an object (count 0) or an array (count 1); inside of an object
//               its name follows; then steps for its elements up to their end
//
// Invariants:
//  (1) each level ends with an end; nothing follows the outermost one;
//  (2) in an array elements are only inserted after the last and removed up to the last, so that
//      every element's name stays its index;
//  (3) embedded documents are valid BSON, so whatever is put together from them and from whole
//      elements of a valid document is valid; nesting and size are checked;
//  (4) make_patch never writes more than a replacement takes;
//  (5) a diff says by itself what it changes: names, and in arrays places by counting (visit_patch).
//
// make_patch compares bytes and looks at elements only up to the last difference: after a common
// prefix (found by words, not by elements) it walks the old elements to the place of the
// difference, and stops where the rests are equal. A name that moved is one removal and one
// insertion; whether a name is still to come is looked up in a table that is made at the first name
// that differs.
#include "core/bson/patch.h"

#include "core/bson/patch_walker.h"

namespace multifora {

namespace pf = patch_format;

namespace {

// Puts the new document together.
class Applier {
 public:
  Applier() { begin(); }

  void kept(Bytes elements) { out_.append(elements); }
  void inserted(Bytes element) { out_.append(element); }
  void set(std::string_view name, const ValueView& value) {
    begin_element(value.type(), name);
    out_.append(value.bytes());
  }
  std::size_t enter(const Element& element) {
    begin_element(element.type(), element.name());
    return begin();
  }
  void leave(std::size_t start) {
    out_.push_back('\0');
    store_le(out_.data() + start, static_cast<std::int32_t>(out_.size() - start));
  }
  Buffer finish() && {
    leave(0);
    return std::move(out_);
  }

 private:
  void begin_element(BsonType type, std::string_view name) {
    out_.push_back(static_cast<char>(type));
    out_.append(name).push_back('\0');
  }
  std::size_t begin() {
    out_.append(4, '\0');
    return out_.size() - 4;
  }
  Buffer out_;
};

}  // namespace

Result<OwnedDocument> apply_patch(DocumentView before, Bytes patch) {
  pf::PatchReader reader(patch);
  pf::Kind kind;
  if (!pf::read_kind(reader, patch, &kind)) return pf::malformed();
  if (kind == pf::Kind::kReplace) {
    MULTIFORA_ASSIGN_R(const DocumentView after, pf::read_replacement(reader));
    return OwnedDocument(after);
  }
  Applier applier;
  if (!pf::walk(before, reader, applier)) return pf::malformed();
  Buffer after = std::move(applier).finish();
  if (after.size() > pf::kSizeMax) return pf::malformed();
  return OwnedDocument::assume_valid(std::move(after));
}

}  // namespace multifora
