#include "core/store/catalog_body.h"

#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>

namespace multifora {
namespace {

enum class Shape { kText, kUuid, kObject, kNumber, kIndexes };

struct Field {
  std::string_view name;
  Shape shape;
  bool optional = false;
};

bool is_index_number(const ValueView& value) {
  std::int64_t number = 0;
  return value.exact_int64(&number) && number >= 0 &&
         number < std::numeric_limits<std::uint32_t>::max();
}

bool has_shape(const ValueView& value, Shape shape);

bool is_index_row(const Element& row) {
  if (row.type() != BsonType::kObject) return false;
  const DocumentView fields = row->as_document();
  return has_shape(fields["number"], Shape::kNumber) && has_shape(fields["kind"], Shape::kText) &&
         has_shape(fields["spec"], Shape::kObject);
}

bool has_shape(const ValueView& value, Shape shape) {
  switch (shape) {
    case Shape::kText: return value.type() == BsonType::kString;
    case Shape::kUuid: return value.type() == BsonType::kBinData && value.binary_bytes().size() == 16;
    case Shape::kObject: return value.type() == BsonType::kObject;
    case Shape::kNumber: return is_index_number(value);
    case Shape::kIndexes:
      if (value.type() != BsonType::kArray) return false;
      for (const Element& row : value.as_document())
        if (!is_index_row(row)) return false;
      return true;
  }
  return false;
}

Status check(DocumentView body, std::initializer_list<Field> fields) {
  for (const Field& field : fields) {
    const ValueView value = body[field.name];
    if ((field.optional && value.missing()) || has_shape(value, field.shape)) continue;
    return {ErrorCode::kDataCorruptionDetected,
            "a description in the catalog or the log has no valid '" + std::string(field.name) +
                "': it was written by another version or is damaged"};
  }
  return {};
}

}  // namespace

Status check_catalog_body(LogOperation operation, DocumentView body) {
  using enum Shape;
  switch (operation) {
    case LogOperation::kCreate:
      return check(body, {{"ns", kText}, {"uuid", kUuid}, {"options", kObject}, {"indexes", kIndexes}});
    case LogOperation::kDrop: return check(body, {{"ns", kText}, {"uuid", kUuid}});
    case LogOperation::kRename:
      return check(body, {{"from", kText}, {"to", kText}, {"uuid", kUuid}, {"dropped", kUuid, true}});
    case LogOperation::kSetOptions: return check(body, {{"options", kObject}, {"before", kObject, true}});
    case LogOperation::kCreateIndex: return check(body, {{"number", kNumber}, {"kind", kText}, {"spec", kObject}});
    case LogOperation::kDropIndex:
      return check(body, {{"number", kNumber}, {"name", kText}, {"spec", kObject, true}});
    case LogOperation::kSetIndexSpec:
      return check(body, {{"number", kNumber}, {"kind", kText}, {"spec", kObject}, {"before", kObject}});
    case LogOperation::kDropDatabase: return check(body, {{"db", kText}});
    default: return {};
  }
}

Status check_collection_description(DocumentView description) {
  using enum Shape;
  return check(description, {{"ns", kText}, {"uuid", kUuid}, {"options", kObject}, {"nextIndex", kNumber},
                             {"indexes", kIndexes}});
}

}  // namespace multifora
