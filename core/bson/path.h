// Dotted field paths, and MongoDB's rules for walking them through arrays. Nothing here allocates
// but the FieldPath itself; a FieldPath is immutable, any thread may walk it. There are no errors:
// every text is a path ("" is one empty part, "a..b" has an empty part in the middle).
#pragma once

#include <cstdint>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/bson/view.h"

namespace multifora {

// "a.b.0.c" split once. Parts view the text that made them; keep it alive.
class FieldPath {
 public:
  FieldPath() = default;
  explicit FieldPath(std::string_view dotted);
  std::size_t size() const { return parts_.size(); }
  std::string_view part(std::size_t i) const { return parts_[i]; }
  // Array index that part i can stand for ("0", "17"; no leading zeros), or -1.
  std::int64_t index(std::size_t i) const { return indexes_[i]; }
  std::string_view dotted() const { return dotted_; }

 private:
  std::string_view dotted_;
  std::vector<std::string_view> parts_;
  std::vector<std::int64_t> indexes_;
};

// The value at `path` going through objects only (no arrays); missing where it is not there.
ValueView value_at(DocumentView document, const FieldPath& path, std::size_t from = 0);
ValueView value_at(DocumentView document, std::string_view dotted);

// How a value was reached, for callers that treat arrays specially.
struct PathHit {
  ValueView value;             // missing() where the path ends before its last part
  bool array_element = false;  // an element that expand_last took out of the array at the end
  bool through_array = false;  // an array inside the path was implicitly entered
  // Index in the outermost array that was entered on the way or expanded at the end (implicitly or
  // by an index in the path), for positional $; -1 where there is none.
  std::int64_t outer_index = -1;
};

// Calls visit(hit) for every value that `path` reaches, by the matcher's rules (seen from a real
// server's replies, not only from the manual):
//  - an object: follow the field; a missing field is visited as a missing value;
//  - neither object nor array, with parts left: a missing value is visited;
//  - an array inside the path: each element that is an object is entered with the same rest of the
//    path (implicitly; where it lacks the field, a missing value is visited), and where the next
//    part is an array index the element of that index is taken with that part used up (explicitly;
//    after the implicit visit of the same element). An element taken explicitly is followed by
//    these same rules if it is an object or an array, and contributes nothing if it is neither and
//    parts are left. Elements that are arrays are not entered implicitly;
//  - an array at the end: with expand_last each element is visited (array_element) and then the
//    array itself; without it only the array. Elements that are arrays are not expanded, nor is an
//    array that the path's last part took explicitly out of another array ("a.0" of {a: [[1]]}
//    visits [1] only).
// Examples, with expand_last; "-" is a missing value:
//   {a: [{b: 1}, {b: 2}, 3, [{b: 4}]]}   a.b     1, 2
//   {a: [{b: 1}, {}]}                    a.b     1, -
//   {a: [{b: [1, 2]}]}                   a.b     1, 2, [1, 2]
//   {a: [5, {b: 4}]}                     a.1.b   - (element 1 has no "1"), 4
//   {a: [5, [{b: 4}]]}                   a.1.b   4
//   {a: {}}, {a: 1}, {a: null}, {}       a.b     -
//   {a: []}, {a: [1, [2]]}               a.b     nothing at all
//   {a: [1]}                             a.5     nothing at all
// "Nothing at all" is not a missing value: such a document does not match {"a.b": null}, and does
// match {"a.b": {$exists: false}}, which is the negation of $exists: true.
// visit returns false to stop; so does this function then. Otherwise it returns true.
using PathVisitor = bool (*)(void* context, const PathHit& hit);
bool visit_path(DocumentView document, const FieldPath& path, bool expand_last, PathVisitor visit,
                void* context);

template <class F>
bool visit_path(DocumentView document, const FieldPath& path, bool expand_last, F&& f) {
  return visit_path(
      document, path, expand_last,
      [](void* context, const PathHit& hit) -> bool {
        return (*static_cast<std::remove_reference_t<F>*>(context))(hit);
      },
      &f);
}

}  // namespace multifora
