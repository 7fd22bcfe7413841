// $push (with $each, $position, $slice, $sort) and $addToSet.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/bson/compare.h"
#include "core/bson/path.h"
#include "plugins/query-engine/update_node.h"
#include "plugins/query-engine/value_set.h"

namespace multifora::update {

namespace {

// ---- $push ----

struct PushSort {
  bool given = false;
  bool whole = false;  // of the elements themselves; else by fields
  bool whole_descending = false;
  struct Part {
    std::string path;
    bool descending;
  };
  std::vector<Part> parts;
};

class PushOperator final : public Operator {
 public:
  OwnedDocument arguments;  // the argument's bytes: `values` view them
  std::vector<ValueView> values;
  bool has_position = false;
  bool has_slice = false;
  std::int64_t position = 0;
  std::int64_t slice = 0;
  PushSort sort;
  const Collator* collator = nullptr;

  Result<Value> apply(const ValueView& current, UpdateState& state) const override {
    if (!current.missing() && current.type() != BsonType::kArray)
      return fail(ErrorCode::kBadValue,
                  fmt::format("The field '{}' must be an array but is of type {} in document {}",
                              state.dotted_path(), type_name(current.type()),
                              state.describe_id()));
    std::vector<ValueView> elements;
    if (!current.missing())
      for (const Element& element : current.as_document()) elements.push_back(element.value());
    elements.insert(elements.begin() + insert_at(elements.size()), values.begin(), values.end());
    if (sort.given) sort_elements(elements);
    const auto [begin, end] = kept(static_cast<std::int64_t>(elements.size()));
    ArrayBuilder out;
    for (std::int64_t i = begin; i < end; ++i) out.append(elements[static_cast<std::size_t>(i)]);
    if (!values.empty()) state.modified = true;
    return Value::array(std::move(out).finish());
  }
  bool changes_elements(const ValueView& current) const override {
    return !has_position && !has_slice && !sort.given && !current.as_document().empty();
  }

 private:
  std::ptrdiff_t insert_at(std::size_t size) const {
    const auto count = static_cast<std::int64_t>(size);
    if (!has_position) return count;
    return position >= 0 ? std::min(position, count) : std::max<std::int64_t>(0, count + position);
  }
  std::pair<std::int64_t, std::int64_t> kept(std::int64_t size) const {
    if (!has_slice) return {0, size};
    if (slice >= 0) return {0, std::min(slice, size)};
    return {std::max<std::int64_t>(0, size + slice), size};
  }

  // Equal elements keep their order.
  void sort_elements(std::vector<ValueView>& elements) const {
    std::vector<std::size_t> places(elements.size());
    std::iota(places.begin(), places.end(), std::size_t{0});
    std::ranges::sort(places, [&](std::size_t x, std::size_t y) {
      if (less(elements[x], elements[y])) return true;
      return !less(elements[y], elements[x]) && x < y;
    });
    std::vector<ValueView> sorted;
    sorted.reserve(elements.size());
    for (const std::size_t place : places) sorted.push_back(elements[place]);
    elements = std::move(sorted);
  }

  bool less(const ValueView& a, const ValueView& b) const {
    if (sort.whole) {
      const int order = compare_values(a, b, collator);
      return sort.whole_descending ? order > 0 : order < 0;
    }
    for (const PushSort::Part& part : sort.parts) {
      const int order = compare_values(key(a, part.path), key(b, part.path), collator);
      if (order != 0) return part.descending ? order > 0 : order < 0;
    }
    return false;
  }
  // An element without the field, or that is no object, sorts as null.
  static ValueView key(const ValueView& element, std::string_view path) {
    static const char kNothing = 0;
    const ValueView null(BsonType::kNull, &kNothing, 0);
    if (element.type() != BsonType::kObject) return null;
    const ValueView value = value_at(element.as_document(), path);
    return value.missing() ? null : value;
  }
};

Status bad_value(std::string message) {
  return Status(ErrorCode::kBadValue, std::move(message));
}

Status parse_sort_pattern(const ValueView& argument, PushSort& sort) {
  if (argument.as_document().empty())
    return bad_value("The $sort pattern is empty when it should be a set of fields.");
  for (const Element& part : argument.as_document()) {
    std::int64_t direction = 0;
    if (!part->is_number() || !part->exact_int64(&direction) ||
        (direction != 1 && direction != -1))
      return bad_value("The $sort element value must be either 1 or -1");
    const std::string_view path = part.name();
    if (path.empty()) return bad_value("The $sort field cannot be empty");
    if (path.starts_with('.') || path.ends_with('.') || path.contains(".."))
      return bad_value(fmt::format("The $sort field is a dotted field but has an empty part: {}",
                                   path));
    sort.parts.push_back({std::string(path), direction < 0});
  }
  return {};
}

Status parse_sort(const ValueView& argument, PushSort& sort) {
  sort.given = true;
  if (argument.type() == BsonType::kObject) return parse_sort_pattern(argument, sort);
  std::int64_t direction = 0;
  if (!argument.is_number())
    return bad_value("The $sort is invalid: use 1/-1 to sort the whole element, or {field:1/-1} to "
                     "sort embedded fields");
  if (!argument.exact_int64(&direction) || (direction != 1 && direction != -1))
    return bad_value("The $sort element value must be either 1 or -1");
  sort.whole = true;
  sort.whole_descending = direction < 0;
  return {};
}

Status parse_integer(const Element& clause, std::int64_t& out) {
  if (clause->is_number() && clause->exact_int64(&out)) return {};
  return bad_value(fmt::format("The value for {} must be an integer value but was given type: {}",
                               clause.name(), type_name(clause.type())));
}

Status parse_clauses(DocumentView clauses, PushOperator& op) {
  for (const Element& clause : clauses) {
    if (clause.name() == "$each") {
      if (clause.type() != BsonType::kArray)
        return bad_value(fmt::format("The argument to $each in $push must be an array but it was "
                                     "of type: {}",
                                     type_name(clause.type())));
      for (const Element& value : clause->as_document()) op.values.push_back(value.value());
    } else if (clause.name() == "$slice") {
      op.has_slice = true;
      MULTIFORA_TRY(parse_integer(clause, op.slice));
    } else if (clause.name() == "$position") {
      op.has_position = true;
      MULTIFORA_TRY(parse_integer(clause, op.position));
    } else if (clause.name() == "$sort") {
      MULTIFORA_TRY(parse_sort(clause.value(), op.sort));
    } else {
      return bad_value(fmt::format("Unrecognized clause in $push: {}", clause.name()));
    }
  }
  // Beyond any array; keeps sums of sizes and positions in range.
  op.position = std::clamp<std::int64_t>(op.position, INT32_MIN, INT32_MAX);
  op.slice = std::clamp<std::int64_t>(op.slice, INT32_MIN, INT32_MAX);
  return {};
}

// Owns {"": argument}, so that values may be views.
OwnedDocument copy_argument(const ValueView& argument) {
  DocumentBuilder builder;
  builder.append("", argument);
  return std::move(builder).finish();
}

bool has_each(const ValueView& argument) {
  return argument.type() == BsonType::kObject && !argument.as_document()["$each"].missing();
}

Status parse_push(Parser& parser, const Element& field) {
  auto op = std::make_shared<PushOperator>();
  op->arguments = copy_argument(field.value());
  op->collator = parser.collator();
  const ValueView argument = op->arguments.view().first().value();
  if (has_each(argument)) {
    MULTIFORA_TRY(parse_clauses(argument.as_document(), *op));
  } else {
    op->values.push_back(argument);
  }
  parser.note_value(field.name(), argument);
  return parser.add(field.name(), std::move(op));
}

// ---- $addToSet ----

class AddToSetOperator final : public Operator {
 public:
  OwnedDocument arguments;
  std::vector<ValueView> values;  // without duplicates
  const Collator* collator = nullptr;

  Result<Value> apply(const ValueView& current, UpdateState& state) const override {
    if (!current.missing() && current.type() != BsonType::kArray)
      return fail(ErrorCode::kBadValue,
                  fmt::format("Cannot apply $addToSet to non-array field. Field named '{}' has "
                              "non-array type {}",
                              state.path.empty() ? "" : state.path.back(),
                              type_name(current.type())));
    ArrayBuilder out;
    if (!current.missing())
      for (const Element& element : current.as_document()) out.append(element.value());
    const DocumentView array = current.missing() ? DocumentView() : current.as_document();
    if (values.size() <= kFew)
      append_few(array, out);
    else
      append_many(array, out);
    return Value::array(std::move(out).finish());
  }

 private:
  static constexpr std::size_t kFew = 4;  // fewer values than a hash table is worth

  void append_few(DocumentView array, ArrayBuilder& out) const {
    for (const ValueView& value : values) {
      const bool known = std::ranges::any_of(array.begin(), array.end(), [&](const Element& e) {
        return equal_values(e.value(), value, collator);
      });
      if (!known) out.append(value);
    }
  }
  void append_many(DocumentView array, ArrayBuilder& out) const {
    ValueSet known(collator);
    for (const Element& element : array) known.insert(element.value());
    for (const ValueView& value : values)
      if (!known.contains(value)) out.append(value);
  }
};

Status parse_add_to_set(Parser& parser, const Element& field) {
  auto op = std::make_shared<AddToSetOperator>();
  op->arguments = copy_argument(field.value());
  op->collator = parser.collator();
  const ValueView argument = op->arguments.view().first().value();
  if (argument.type() == BsonType::kObject && argument.as_document().first().name() == "$each") {
    const Element each = argument.as_document().first();
    if (each.type() != BsonType::kArray)
      return Status(ErrorCode::kTypeMismatch,
                    fmt::format("The argument to $each in $addToSet must be an array but it was of "
                                "type {}",
                                type_name(each.type())));
    if (argument.as_document().count() > 1)
      return bad_value(fmt::format("Found unexpected fields after $each in $addToSet: {}",
                                   describe(argument)));
    ValueSet known(op->collator);
    for (const Element& value : each->as_document())
      if (known.insert(value.value())) op->values.push_back(value.value());
  } else {
    op->values.push_back(argument);
  }
  parser.note_value(field.name(), argument);
  return parser.add(field.name(), std::move(op));
}

constexpr OperatorRow kRows[] = {{"$push", parse_push}, {"$addToSet", parse_add_to_set}};

}  // namespace

std::span<const OperatorRow> push_rows() { return kRows; }

}  // namespace multifora::update
