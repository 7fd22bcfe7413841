#include "core/bson/path.h"

#include <limits>

namespace multifora {

namespace {

// "0", "17"; not "", "01", "+1" or anything above what an array can have.
std::int64_t array_index_of(std::string_view part) {
  if (part.empty() || part.size() > 10 || (part[0] == '0' && part.size() > 1)) return -1;
  std::int64_t index = 0;
  for (const char c : part) {
    if (c < '0' || c > '9') return -1;
    index = index * 10 + (c - '0');
  }
  return index <= std::numeric_limits<std::int32_t>::max() ? index : -1;
}

// What is known of the way to the value in hand.
struct Way {
  bool through_array = false;
  std::int64_t outer_index = -1;

  // The way into the element `index` of an array.
  Way into(std::int64_t index, bool implicitly) const {
    return {through_array || implicitly, outer_index >= 0 ? outer_index : index};
  }
};

class Walker {
 public:
  Walker(const FieldPath& path, bool expand_last, PathVisitor visit, void* context)
      : path_(path), expand_last_(expand_last), visit_(visit), context_(context) {}

  // Follows the parts from `next` on inside `object`.
  bool enter_object(DocumentView object, std::size_t next, Way way) {
    const ValueView value = object[path_.part(next)];
    ++next;
    if (next == path_.size()) return arrive(value, way);
    if (value.type() == BsonType::kObject) return enter_object(value.as_document(), next, way);
    if (value.type() == BsonType::kArray) return enter_array(value.as_document(), next, way);
    return emit(ValueView(), false, way);
  }

 private:
  bool emit(const ValueView& value, bool array_element, Way way) {
    return visit_(context_, {value, array_element, way.through_array, way.outer_index});
  }

  bool arrive(const ValueView& value, Way way) {
    if (expand_last_ && value.type() == BsonType::kArray) {
      std::int64_t index = 0;
      for (const Element& element : value.as_document()) {
        if (!emit(element.value(), true, way.into(index, false))) return false;
        ++index;
      }
    }
    return emit(value, false, way);
  }

  bool enter_array(DocumentView array, std::size_t next, Way way) {
    const std::int64_t wanted = path_.index(next);
    std::int64_t index = 0;
    for (const Element& element : array) {
      const ValueView& value = element.value();
      if (value.type() == BsonType::kObject &&
          !enter_object(value.as_document(), next, way.into(index, true)))
        return false;
      if (index == wanted && !enter_element(value, next + 1, way.into(index, false))) return false;
      ++index;
    }
    return true;
  }

  // The element that an index in the path named. At the path's end it is visited as it is: an
  // array inside an array is not expanded.
  bool enter_element(const ValueView& value, std::size_t next, Way way) {
    if (next == path_.size()) return emit(value, false, way);
    if (value.type() == BsonType::kObject) return enter_object(value.as_document(), next, way);
    if (value.type() == BsonType::kArray) return enter_array(value.as_document(), next, way);
    return true;
  }

  const FieldPath& path_;
  const bool expand_last_;
  const PathVisitor visit_;
  void* const context_;
};

}  // namespace

FieldPath::FieldPath(std::string_view dotted) : dotted_(dotted) {
  for (std::size_t start = 0;;) {
    const std::size_t dot = dotted.find('.', start);
    const std::string_view part = dotted.substr(start, dot - start);
    parts_.push_back(part);
    indexes_.push_back(array_index_of(part));
    if (dot == std::string_view::npos) break;
    start = dot + 1;
  }
}

ValueView value_at(DocumentView document, const FieldPath& path, std::size_t from) {
  MULTIFORA_DASSERT(from < path.size());
  while (true) {
    const ValueView value = document[path.part(from)];
    if (++from == path.size()) return value;
    if (value.type() != BsonType::kObject) return {};
    document = value.as_document();
  }
}

ValueView value_at(DocumentView document, std::string_view dotted) {
  while (true) {
    const std::size_t dot = dotted.find('.');
    const ValueView value = document[dotted.substr(0, dot)];
    if (dot == std::string_view::npos) return value;
    if (value.type() != BsonType::kObject) return {};
    document = value.as_document();
    dotted.remove_prefix(dot + 1);
  }
}

bool visit_path(DocumentView document, const FieldPath& path, bool expand_last, PathVisitor visit,
                void* context) {
  MULTIFORA_DASSERT(path.size() > 0);
  return Walker(path, expand_last, visit, context).enter_object(document, 0, {});
}

}  // namespace multifora
