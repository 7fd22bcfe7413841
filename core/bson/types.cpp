#include "core/bson/types.h"

namespace multifora {

namespace {

struct TypeRow {
  BsonType type;
  int canonical;
  std::string_view name;
};

constexpr TypeRow kTypes[] = {
    {BsonType::kEOO, 0, "missing"},         {BsonType::kDouble, 10, "double"},
    {BsonType::kString, 15, "string"},      {BsonType::kObject, 20, "object"},
    {BsonType::kArray, 25, "array"},        {BsonType::kBinData, 30, "binData"},
    {BsonType::kUndefined, 0, "undefined"}, {BsonType::kObjectId, 35, "objectId"},
    {BsonType::kBool, 40, "bool"},          {BsonType::kDate, 45, "date"},
    {BsonType::kNull, 5, "null"},           {BsonType::kRegex, 50, "regex"},
    {BsonType::kDBRef, 55, "dbPointer"},    {BsonType::kCode, 60, "javascript"},
    {BsonType::kSymbol, 15, "symbol"},      {BsonType::kCodeWithScope, 65, "javascriptWithScope"},
    {BsonType::kInt32, 10, "int"},          {BsonType::kTimestamp, 47, "timestamp"},
    {BsonType::kInt64, 10, "long"},         {BsonType::kDecimal128, 10, "decimal"},
    {BsonType::kMinKey, -1, "minKey"},      {BsonType::kMaxKey, 127, "maxKey"},
};

// Types 0..19 stand in the table at their own number.
constexpr const TypeRow* row_of(BsonType type) {
  const int number = static_cast<int>(type);
  if (number >= 0 && number <= 19) return &kTypes[number];
  if (type == BsonType::kMinKey) return &kTypes[20];
  if (type == BsonType::kMaxKey) return &kTypes[21];
  return nullptr;
}

constexpr bool table_is_in_order() {
  for (const TypeRow& row : kTypes)
    if (row_of(row.type) != &row) return false;
  return true;
}
static_assert(table_is_in_order());

}  // namespace

int canonical_type(BsonType type) {
  const TypeRow* row = row_of(type);
  return row ? row->canonical : 0;
}

std::string_view type_name(BsonType type) {
  const TypeRow* row = row_of(type);
  return row ? row->name : "unknown";
}

std::optional<BsonType> type_from_name(std::string_view alias) {
  for (const TypeRow& row : kTypes)
    if (row.name == alias && row.type != BsonType::kEOO) return row.type;
  return std::nullopt;
}

bool is_valid_type(int type_byte) {
  return (type_byte >= 1 && type_byte <= 19) || type_byte == 127 || type_byte == 255 ||
         type_byte == -1;
}

}  // namespace multifora
