// The BSON types and MongoDB's order between them. Source: bsonspec.org; the manual's
// "Comparison/Sort Order".
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace multifora {

enum class BsonType : std::int8_t {
  kEOO = 0,  // also stands for "missing"
  kDouble = 1,
  kString = 2,
  kObject = 3,
  kArray = 4,
  kBinData = 5,
  kUndefined = 6,
  kObjectId = 7,
  kBool = 8,
  kDate = 9,
  kNull = 10,
  kRegex = 11,
  kDBRef = 12,  // DBPointer
  kCode = 13,
  kSymbol = 14,
  kCodeWithScope = 15,
  kInt32 = 16,
  kTimestamp = 17,
  kInt64 = 18,
  kDecimal128 = 19,
  kMinKey = -1,
  kMaxKey = 127,
};

// Position of the type's bracket in MongoDB's order: MinKey -1, missing/undefined 0, null 5,
// numbers 10, string/symbol 15, object 20, array 25, binData 30, ObjectId 35, bool 40, date 45,
// timestamp 47, regex 50, DBPointer 55, code 60, code with scope 65, MaxKey 127.
int canonical_type(BsonType type);

// The alias of $type and error messages ("double", "objectId", "int" ...); "missing" for kEOO.
std::string_view type_name(BsonType type);
// The reverse, by alias; nullopt for an unknown one ("number" is not a type).
std::optional<BsonType> type_from_name(std::string_view alias);
bool is_valid_type(int type_byte);

constexpr bool is_number(BsonType t) {
  return t == BsonType::kDouble || t == BsonType::kInt32 || t == BsonType::kInt64 ||
         t == BsonType::kDecimal128;
}

}  // namespace multifora
