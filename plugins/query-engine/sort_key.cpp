#include "plugins/query-engine/sort_key.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/limits.h"
#include "core/bson/compare.h"
#include "core/bson/extended_json.h"
#include "plugins/query-engine/expression.h"

namespace multifora {

namespace {

constexpr char kNullByte = 0;

ValueView null_value() { return {BsonType::kNull, &kNullByte, 0}; }
ValueView undefined_value() { return {BsonType::kUndefined, &kNullByte, 0}; }

std::string_view first_part(std::string_view path) { return path.substr(0, path.find('.')); }
std::string_view after_first(std::string_view path) {
  const std::size_t dot = path.find('.');
  return dot == std::string_view::npos ? std::string_view() : path.substr(dot + 1);
}

// "0", "17": what an array element could be called.
bool is_index(std::string_view part) {
  return !part.empty() && (part == "0" || part[0] != '0') &&
         std::ranges::all_of(part, [](char c) { return c >= '0' && c <= '9'; });
}

// A field of the pattern on its way to a value. `rest` is what of the path is still to be walked,
// below the value; done: `value` is final.
struct Cursor {
  std::string_view rest;
  ValueView value;
  bool done = false;
};

// Follows the cursor's path from `document` until it ends or meets an array that it does not index.
void advance(Cursor& cursor, DocumentView document) {
  bool in_array = false;
  while (true) {
    const std::string_view part = first_part(cursor.rest);
    cursor.rest = after_first(cursor.rest);
    cursor.value = document[part];
    if (cursor.value.missing()) {
      cursor = {{}, null_value(), true};
      return;
    }
    if (cursor.value.type() == BsonType::kArray) {
      // An array that is itself an indexed element is a value, unless it is empty.
      if (in_array && cursor.rest.empty() && !cursor.value.as_document().empty()) {
        cursor.done = true;
        return;
      }
      const bool indexes = is_index(first_part(cursor.rest)) &&
                           !cursor.value.as_document()[first_part(cursor.rest)].missing();
      if (!indexes) return;
      in_array = true;
    } else if (cursor.rest.empty()) {
      cursor.done = true;
      return;
    } else if (cursor.value.type() != BsonType::kObject) {
      cursor = {{}, null_value(), true};
      return;
    } else {
      in_array = false;
    }
    document = cursor.value.as_document();
  }
}

// Makes the keys of a document (one for each combination that its arrays give, as an index would)
// and keeps the least.
class KeyMaker {
 public:
  KeyMaker(const std::vector<SortPattern::Part>& parts, const Collator* collator)
      : parts_(parts), collator_(collator) {}

  Status run(DocumentView document) {
    std::vector<Cursor> cursors;
    cursors.reserve(parts_.size());
    for (const SortPattern::Part& part : parts_) {
      cursors.push_back({part.path, {}, false});
      advance(cursors.back(), document);
    }
    return expand(cursors);
  }

  const ValueView* least() const { return least_.data(); }

 private:
  // All cursors stand at values; those not done stand at arrays.
  Status expand(const std::vector<Cursor>& cursors) {
    const Cursor* array = nullptr;
    for (const Cursor& cursor : cursors) {
      if (cursor.done) continue;
      if (array != nullptr && array->value.data() != cursor.value.data())
        return Status(ErrorCode::kBadValue, "cannot sort with keys that are parallel arrays");
      array = &cursor;
    }
    if (array == nullptr) {
      consider(cursors);
      return {};
    }
    const DocumentView elements = array->value.as_document();
    if (elements.empty()) return expand_empty(cursors);
    for (const Element& element : elements) MULTIFORA_TRY(expand_element(cursors, element));
    return {};
  }

  Status expand_element(const std::vector<Cursor>& cursors, const Element& element) {
    std::vector<Cursor> next = cursors;
    for (Cursor& cursor : next) {
      if (cursor.done) continue;
      if (cursor.rest.empty()) {
        cursor = {{}, element.value(), true};  // an array inside an array is a value
      } else if (element.type() == BsonType::kObject) {
        advance(cursor, element->as_document());
      } else {
        cursor = {{}, null_value(), true};
      }
    }
    return expand(next);
  }

  Status expand_empty(std::vector<Cursor> cursors) {
    for (Cursor& cursor : cursors) {
      if (cursor.done) continue;
      cursor = {{}, cursor.rest.empty() ? undefined_value() : null_value(), true};
    }
    return expand(cursors);
  }

  void consider(const std::vector<Cursor>& cursors) {
    if (!least_.empty() && !is_less(cursors)) return;
    least_.clear();
    for (const Cursor& cursor : cursors) least_.push_back(cursor.value);
  }

  bool is_less(const std::vector<Cursor>& cursors) const {
    for (std::size_t i = 0; i < cursors.size(); ++i) {
      const int order = compare_values(cursors[i].value, least_[i], collator_);
      if (order != 0) return (order < 0) != parts_[i].descending;
    }
    return false;
  }

  const std::vector<SortPattern::Part>& parts_;
  const Collator* collator_;
  std::vector<ValueView> least_;
};

// The values where no path meets an array; false where one does.
bool plain_values(DocumentView document, const std::vector<SortPattern::Part>& parts,
                  const ValueView& missing, ValueView* out) {
  for (const SortPattern::Part& part : parts) {
    std::string_view path = part.path;
    DocumentView at = document;
    while (true) {
      const std::size_t dot = path.find('.');
      const ValueView value = at[path.substr(0, dot)];
      if (value.type() == BsonType::kArray) return false;
      const bool ends = dot == std::string_view::npos;
      if (ends || value.type() != BsonType::kObject) {
        *out++ = ends && !value.missing() ? value : missing;
        break;
      }
      at = value.as_document();
      path.remove_prefix(dot + 1);
    }
  }
  return true;
}

Result<int> parse_direction(const Element& element) {
  if (element.type() == BsonType::kObject) {
    const Element meta = element->as_document().first();
    if (meta.name() != "$meta")
      return fail(location_code(17312), fmt::format("Expected $meta, found {}: {{ {} }}",
                                                    element.name(),
                                                    to_extended_json(element.value())));
    return fail(ErrorCode::kCommandNotSupported, "$meta sorts are not supported by this server");
  }
  std::int64_t direction = 0;
  if (!element->is_number())
    return fail(location_code(15974),
                fmt::format("Illegal key in $sort specification: {}: {}", element.name(),
                            to_extended_json(element.value())));
  if (!element->exact_int64(&direction) || (direction != 1 && direction != -1))
    return fail(location_code(15975),
                "$sort key ordering must be 1 (for ascending) or -1 (for descending)");
  return static_cast<int>(direction);
}

}  // namespace

Result<SortPattern> SortPattern::parse(DocumentView pattern) {
  SortPattern sort;
  sort.spec_ = OwnedDocument(pattern);
  for (const Element& element : pattern) {
    MULTIFORA_ASSIGN_R(const int direction, parse_direction(element));
    if (element.name() == "$natural") {
      if (pattern.count() > 1)
        return fail(ErrorCode::kBadValue, "$natural sort cannot be set to a value other than -1 or "
                                          "1, nor stand with other keys");
      sort.natural_ = direction;
      return sort;
    }
    MULTIFORA_TRY_R(check_field_path(element.name()));
    for (const Part& part : sort.parts_)
      if (part.path == element.name())
        return fail(location_code(7472500),
                    fmt::format("Duplicate sort key '{}'", element.name()));
    sort.parts_.push_back({std::string(element.name()), direction < 0});
  }
  if (sort.parts_.size() > limits::kSortFieldsMax)
    return fail(location_code(13103), "too many compound keys");
  return sort;
}

Status SortPattern::append_key(DocumentView document, const Collator* collator,
                               KeyStringBuilder& out) const {
  ValueView plain[limits::kSortFieldsMax];
  const ValueView* values = plain;
  KeyMaker maker(parts_, collator);
  if (!plain_values(document, parts_, missing_first_ ? undefined_value() : null_value(), plain)) {
    MULTIFORA_TRY(maker.run(document));
    values = maker.least();
  }
  for (std::size_t i = 0; i < parts_.size(); ++i)
    out.append(values[i], parts_[i].descending, collator);
  return {};
}

int SortPattern::compare(DocumentView a, DocumentView b, const Collator* collator) const {
  KeyStringBuilder x;
  KeyStringBuilder y;
  // Parallel arrays were refused by whoever made the keys first; here they sort as they come.
  if (!append_key(a, collator, x).ok() || !append_key(b, collator, y).ok()) return 0;
  return x.key().compare(y.key());
}

}  // namespace multifora
