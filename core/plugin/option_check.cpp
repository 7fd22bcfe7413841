#include "core/plugin/option_check.h"

#include "core/base/assert.h"
#include "core/base/limits.h"

namespace multifora {
namespace {

// In the order in which MongoDB lists them.
const struct {
  std::uint32_t bit;
  std::string_view name;
} kTypeNames[] = {
    {kOptString, "string"},    {kOptObject, "object"},       {kOptArray, "array"},
    {kOptBool, "bool"},        {kOptInt64, "long"},          {kOptInt32, "int"},
    {kOptDecimal, "decimal"},  {kOptDouble, "double"},       {kOptBinary, "binData"},
    {kOptObjectId, "objectId"}, {kOptTimestamp, "timestamp"}, {kOptDate, "date"},
    {kOptNull, "null"},
};

std::string quoted(std::string_view prefix, std::string_view name) {
  return "BSON field '" + std::string(prefix) + "." + std::string(name) + "'";
}

std::string expected(std::uint32_t types) {
  std::string list;
  int count = 0;
  for (const auto& row : kTypeNames) {
    if ((types & row.bit) == 0) continue;
    if (count++ > 0) list += ", ";
    list += row.name;
  }
  return count == 1 ? "expected type '" + list + "'" : "expected types '[" + list + "]'";
}

Status check_elements(std::string_view prefix, const OptionSpec& option, const ValueView& value) {
  if (value.type() != BsonType::kArray) return {};
  for (const Element& element : value.as_document()) {
    if (element.type() == BsonType::kObject) continue;
    const std::string name = std::string(option.name) + "." + std::string(element.name());
    return wrong_type(prefix, {name, kOptObject, 0}, element.type());
  }
  return {};
}

bool is_false(const ValueView& value) {
  return value.type() == BsonType::kBool && !value.as_bool();
}

}  // namespace

std::uint32_t option_bit(BsonType type) {
  switch (type) {
    case BsonType::kString: return kOptString;
    case BsonType::kObject: return kOptObject;
    case BsonType::kArray: return kOptArray;
    case BsonType::kBool: return kOptBool;
    case BsonType::kInt32: return kOptInt32;
    case BsonType::kInt64: return kOptInt64;
    case BsonType::kDouble: return kOptDouble;
    case BsonType::kDecimal128: return kOptDecimal;
    case BsonType::kBinData: return kOptBinary;
    case BsonType::kTimestamp: return kOptTimestamp;
    case BsonType::kObjectId: return kOptObjectId;
    case BsonType::kNull: return kOptNull;
    case BsonType::kDate: return kOptDate;
    default: return 0;
  }
}

Status unknown_field(std::string_view prefix, std::string_view name) {
  return {location_code(40415), quoted(prefix, name) + " is an unknown field."};
}

Status duplicate_field(std::string_view prefix, std::string_view name) {
  return {location_code(40413), quoted(prefix, name) + " is a duplicate field"};
}

Status missing_field(std::string_view prefix, std::string_view name) {
  return {location_code(40414), quoted(prefix, name) + " is missing but a required field"};
}

Status wrong_type(std::string_view prefix, const OptionSpec& option, BsonType type) {
  return {ErrorCode::kTypeMismatch, quoted(prefix, option.name) + " is the wrong type '" +
                                        std::string(type_name(type)) + "', " +
                                        expected(option.types)};
}

Status check_type(std::string_view prefix, const OptionSpec& option, const ValueView& value) {
  if (option.types != kOptAny && (option_bit(value.type()) & option.types) == 0)
    return wrong_type(prefix, option, value.type());
  if ((option.flags & kNonNegative) != 0 && value.is_number() && value.number_as_double() < 0)
    return {location_code(51024), "BSON field '" + std::string(option.name) +
                                      "' value must be >= 0, actual value '" +
                                      std::to_string(value.number_as_int64()) + "'"};
  return {};
}

Status check_option(std::string_view prefix, const OptionSpec& option, const ValueView& value) {
  MULTIFORA_TRY(check_type(prefix, option, value));
  if ((option.flags & kArrayOfObjects) != 0) MULTIFORA_TRY(check_elements(prefix, option, value));
  if ((option.flags & kUnsupported) != 0 && !is_false(value) && !value.is_nullish())
    return {ErrorCode::kCommandNotSupported,
            quoted(prefix, option.name) + " is not supported by this server"};
  return {};
}

Status check_fields(std::string_view prefix, DocumentView document,
                    std::span<const OptionSpec> table) {
  MULTIFORA_ASSERT(table.size() <= limits::kCommandOptionsMax);
  std::uint64_t seen = 0;
  for (const Element& field : document) {
    std::size_t i = 0;
    while (i < table.size() && table[i].name != field.name()) ++i;
    if (i == table.size()) return unknown_field(prefix, field.name());
    if ((seen >> i & 1) != 0) return duplicate_field(prefix, field.name());
    seen |= std::uint64_t{1} << i;
    const bool absent = field.type() == BsonType::kNull && (table[i].types & kOptNull) == 0;
    if (absent && (table[i].flags & kRequired) == 0) continue;
    MULTIFORA_TRY(check_option(prefix, table[i], field.value()));
  }
  for (std::size_t i = 0; i < table.size(); ++i)
    if ((table[i].flags & kRequired) != 0 && (seen >> i & 1) == 0)
      return missing_field(prefix, table[i].name);
  return {};
}

}  // namespace multifora
