#include "core/bson/extended_json_forms.h"

#include <algorithm>
#include <limits>
#include <string>

#include "core/bson/json_text.h"

namespace multifora::extended_json {

namespace {

using json_text::parse_base64;
using json_text::parse_double;
using json_text::parse_hex_byte;
using json_text::parse_int64;
using json_text::parse_iso_date;
using json_text::parse_uuid;

// Reads one kind of object. `content` is the value of the form's own key.
using Reader = bool (*)(DocumentView object, const ValueView& content, BsonType* type,
                        Buffer& value);

struct FormRow {
  std::string_view key;
  std::size_t keys_max;  // in the whole object
  Reader read;
  const char* mistake;
};

bool is_string(const ValueView& v) {
  return v.type() == BsonType::kString;
}
bool is_object(const ValueView& v) {
  return v.type() == BsonType::kObject;
}
bool has_nul(std::string_view text) {
  return text.find('\0') != std::string_view::npos;
}

void append_text(std::string_view text, Buffer& value) {
  append_le(value, static_cast<std::int32_t>(text.size() + 1));
  value.append(text).push_back('\0');
}

bool read_object_id(DocumentView, const ValueView& content, BsonType* type, Buffer& value) {
  if (!is_string(content)) return false;
  const auto id = ObjectId::from_hex(content.as_string());
  if (!id) return false;
  value.append(id->bytes.data(), id->bytes.size());
  *type = BsonType::kObjectId;
  return true;
}

bool read_symbol(DocumentView, const ValueView& content, BsonType* type, Buffer& value) {
  if (!is_string(content)) return false;
  append_text(content.as_string(), value);
  *type = BsonType::kSymbol;
  return true;
}

bool read_int32(DocumentView, const ValueView& content, BsonType* type, Buffer& value) {
  if (!is_string(content)) return false;
  const auto number = parse_int64(content.as_string());
  if (!number || *number != static_cast<std::int32_t>(*number)) return false;
  append_le(value, static_cast<std::int32_t>(*number));
  *type = BsonType::kInt32;
  return true;
}

bool read_int64(DocumentView, const ValueView& content, BsonType* type, Buffer& value) {
  if (!is_string(content)) return false;
  const auto number = parse_int64(content.as_string());
  if (!number) return false;
  append_le(value, *number);
  *type = BsonType::kInt64;
  return true;
}

std::optional<double> parse_any_double(std::string_view text) {
  if (text == "Infinity") return std::numeric_limits<double>::infinity();
  if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  return parse_double(text);
}

bool read_double(DocumentView, const ValueView& content, BsonType* type, Buffer& value) {
  if (!is_string(content)) return false;
  const auto number = parse_any_double(content.as_string());
  if (!number) return false;
  append_le(value, *number);
  *type = BsonType::kDouble;
  return true;
}

bool read_decimal(DocumentView, const ValueView& content, BsonType* type, Buffer& value) {
  if (!is_string(content)) return false;
  std::uint32_t flags = 0;
  const auto number = Decimal128::parse(content.as_string(), &flags);
  if (!number || (flags & (Decimal128::kInexact | Decimal128::kOverflow)) != 0) return false;
  append_le(value, number->low());
  append_le(value, number->high());
  *type = BsonType::kDecimal128;
  return true;
}

void append_binary(Bytes bytes, std::uint8_t subtype, Buffer& value) {
  const auto size = static_cast<std::int32_t>(bytes.size());
  append_le(value, subtype == 2 ? size + 4 : size);
  value.push_back(static_cast<char>(subtype));
  if (subtype == 2) append_le(value, size);  // the old subtype repeats the length inside
  value.append(bytes);
}

// {"$binary": {"base64": "...", "subType": "00"}}, or of old {"$binary": "...", "$type": "00"}.
bool read_binary(DocumentView object, const ValueView& content, BsonType* type, Buffer& value) {
  const bool old = is_string(content);
  if (!old && (!is_object(content) || content.as_document().count() != 2)) return false;
  if (object.count() != (old ? 2 : 1)) return false;
  const ValueView text = old ? content : content.as_document()["base64"];
  const ValueView subtype_text = old ? object["$type"] : content.as_document()["subType"];
  if (!is_string(text) || !is_string(subtype_text)) return false;
  const auto bytes = parse_base64(text.as_string());
  const auto subtype = parse_hex_byte(subtype_text.as_string());
  if (!bytes || !subtype) return false;
  append_binary(*bytes, *subtype, value);
  *type = BsonType::kBinData;
  return true;
}

bool read_uuid(DocumentView, const ValueView& content, BsonType* type, Buffer& value) {
  if (!is_string(content)) return false;
  const auto bytes = parse_uuid(content.as_string());
  if (!bytes) return false;
  append_binary(*bytes, 4, value);
  *type = BsonType::kBinData;
  return true;
}

bool read_code(DocumentView object, const ValueView& content, BsonType* type, Buffer& value) {
  if (!is_string(content)) return false;
  if (object.count() == 1) {
    append_text(content.as_string(), value);
    *type = BsonType::kCode;
    return true;
  }
  const ValueView scope = object["$scope"];
  if (!is_object(scope)) return false;
  const std::size_t start = value.size();
  append_le(value, std::int32_t{0});
  append_text(content.as_string(), value);
  value.append(scope.bytes());
  store_le(value.data() + start, static_cast<std::int32_t>(value.size() - start));
  *type = BsonType::kCodeWithScope;
  return true;
}

bool read_uint32(const ValueView& v, std::uint32_t* out) {
  std::int64_t number = 0;
  if (v.type() != BsonType::kInt32 && v.type() != BsonType::kInt64) return false;
  if (!v.exact_int64(&number) || number < 0) return false;
  *out = static_cast<std::uint32_t>(number);
  return number == *out;
}

bool read_timestamp(DocumentView, const ValueView& content, BsonType* type, Buffer& value) {
  if (!is_object(content) || content.as_document().count() != 2) return false;
  std::uint32_t seconds = 0;
  std::uint32_t increment = 0;
  if (!read_uint32(content.as_document()["t"], &seconds)) return false;
  if (!read_uint32(content.as_document()["i"], &increment)) return false;
  append_le(value, increment);
  append_le(value, seconds);
  *type = BsonType::kTimestamp;
  return true;
}

bool append_regex(const ValueView& pattern, const ValueView& options, BsonType* type,
                  Buffer& value) {
  if (!is_string(pattern) || !is_string(options)) return false;
  if (has_nul(pattern.as_string()) || has_nul(options.as_string())) return false;
  std::string sorted(options.as_string());
  std::sort(sorted.begin(), sorted.end());
  value.append(pattern.as_string()).push_back('\0');
  value.append(sorted).push_back('\0');
  *type = BsonType::kRegex;
  return true;
}

bool read_regular_expression(DocumentView, const ValueView& content, BsonType* type,
                             Buffer& value) {
  if (!is_object(content) || content.as_document().count() != 2) return false;
  const DocumentView regex = content.as_document();
  return append_regex(regex["pattern"], regex["options"], type, value);
}

bool read_db_pointer(DocumentView, const ValueView& content, BsonType* type, Buffer& value) {
  if (!is_object(content) || content.as_document().count() != 2) return false;
  const ValueView ref = content.as_document()["$ref"];
  const ValueView id = content.as_document()["$id"];
  if (!is_string(ref) || id.type() != BsonType::kObjectId) return false;
  append_text(ref.as_string(), value);
  value.append(id.bytes());
  *type = BsonType::kDBRef;
  return true;
}

// The content was {"$numberLong": "..."} (by now an int64) or is a date in words.
bool read_date(DocumentView, const ValueView& content, BsonType* type, Buffer& value) {
  *type = BsonType::kDate;
  if (content.type() == BsonType::kInt64) {
    append_le(value, content.as_int64());
    return true;
  }
  if (!is_string(content)) return false;
  const auto ms = parse_iso_date(content.as_string());
  if (!ms) return false;
  append_le(value, *ms);
  return true;
}

bool is_one(const ValueView& v) {
  return v.type() == BsonType::kInt32 && v.as_int32() == 1;
}

bool read_min_key(DocumentView, const ValueView& content, BsonType* type, Buffer&) {
  *type = BsonType::kMinKey;
  return is_one(content);
}

bool read_max_key(DocumentView, const ValueView& content, BsonType* type, Buffer&) {
  *type = BsonType::kMaxKey;
  return is_one(content);
}

bool read_undefined(DocumentView, const ValueView& content, BsonType* type, Buffer&) {
  *type = BsonType::kUndefined;
  return content.type() == BsonType::kBool && content.as_bool();
}

constexpr FormRow kForms[] = {
    {"$oid", 1, read_object_id, "$oid must be a string of 24 hexadecimal digits"},
    {"$symbol", 1, read_symbol, "$symbol must be a string"},
    {"$numberInt", 1, read_int32, "$numberInt must be a string with a 32-bit integer"},
    {"$numberLong", 1, read_int64, "$numberLong must be a string with a 64-bit integer"},
    {"$numberDouble", 1, read_double, "$numberDouble must be a string with a double"},
    {"$numberDecimal", 1, read_decimal,
     "$numberDecimal must be a string with a number of at most 34 digits"},
    {"$binary", 2, read_binary, "$binary must be {base64: string, subType: hexadecimal string}"},
    {"$uuid", 1, read_uuid, "$uuid must be a string of the form 8-4-4-4-12"},
    {"$code", 2, read_code, "$code must be a string, with only an object $scope beside it"},
    {"$timestamp", 1, read_timestamp, "$timestamp must be {t: uint32, i: uint32}"},
    {"$regularExpression", 1, read_regular_expression,
     "$regularExpression must be {pattern: string, options: string} without NUL"},
    {"$dbPointer", 1, read_db_pointer, "$dbPointer must be {$ref: string, $id: ObjectId}"},
    {"$date", 1, read_date, "$date must be an ISO 8601 string or a $numberLong"},
    {"$minKey", 1, read_min_key, "$minKey must be 1"},
    {"$maxKey", 1, read_max_key, "$maxKey must be 1"},
    {"$undefined", 1, read_undefined, "$undefined must be true"},
};

const FormRow* find_form(std::string_view key) {
  for (const FormRow& row : kForms) {
    if (row.key == key) return &row;
  }
  return nullptr;
}

// The old {"$regex": "...", "$options": "..."}. With anything but two strings it is a query
// operator.
Form read_old_regex(DocumentView object, BsonType* type, Buffer& value, const char** mistake) {
  const ValueView pattern = object["$regex"];
  const ValueView options = object["$options"];
  if (object.count() != 2 || !is_string(pattern) || !is_string(options)) return Form::kPlain;
  if (append_regex(pattern, options, type, value)) return Form::kValue;
  *mistake = "$regex and $options must not contain NUL";
  return Form::kBad;
}

}  // namespace

bool is_form_key(std::string_view key) {
  return key.starts_with('$') && (key == "$regex" || find_form(key) != nullptr);
}

Form read_form(DocumentView object, BsonType* type, Buffer& value, const char** mistake) {
  for (const Element& element : object) {
    const FormRow* row = find_form(element.name());
    if (row == nullptr) continue;
    if (object.count() <= row->keys_max && row->read(object, element.value(), type, value)) {
      return Form::kValue;
    }
    *mistake = row->mistake;
    return Form::kBad;
  }
  return read_old_regex(object, type, value, mistake);
}

}  // namespace multifora::extended_json
