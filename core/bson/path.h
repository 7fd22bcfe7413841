// Dotted field paths, and MongoDB's rules for walking them through arrays.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "core/bson/view.h"

namespace multifora {

// "a.b.0.c" split once. Components view the text that made them; keep it alive.
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
  ValueView value;              // missing() where the path ends before its last part
  bool array_element = false;   // the value is an element of an array at the path's very end
  bool through_array = false;   // an array was implicitly entered on the way
  std::int64_t outer_index = -1;  // index in the first array implicitly entered, for positional $
};

// Calls visit(hit) for every value that `path` reaches, by the matcher's rules:
//  - an object: follow the field; a missing field is visited as a missing value;
//  - an array inside the path: each element that is an object is entered (implicitly), and where
//    the next part is an array index also that element itself (explicitly);
//    elements that are not objects contribute nothing;
//  - an array at the end: with expand_last each element is visited (array_element) and then the
//    array itself; without it only the array.
// visit returns false to stop; so does this function then.
using PathVisitor = bool (*)(void* context, const PathHit& hit);
bool visit_path(DocumentView document, const FieldPath& path, bool expand_last,
                PathVisitor visit, void* context);

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
