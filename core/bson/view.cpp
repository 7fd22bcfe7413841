#include "core/bson/view.h"

#include <cmath>
#include <limits>

namespace multifora {

namespace {

constexpr char kEmptyDocument[] = {5, 0, 0, 0, 0};

// What a value holds beyond its fixed bytes: a text or bytes of a stated length, everything (the
// length counts itself), or two C strings.
enum class Extra : std::uint8_t { kNone, kLength, kWholeLength, kRegex, kBad };

struct SizeRule {
  std::uint8_t fixed = 0;
  Extra extra = Extra::kBad;
};

constexpr auto kSizeRules = [] {
  struct {
    SizeRule rules[256];
  } table{};
  const auto set = [&](BsonType type, std::uint8_t fixed, Extra extra) {
    table.rules[static_cast<std::uint8_t>(type)] = {fixed, extra};
  };
  set(BsonType::kEOO, 0, Extra::kNone);
  set(BsonType::kDouble, 8, Extra::kNone);
  set(BsonType::kString, 4, Extra::kLength);
  set(BsonType::kObject, 0, Extra::kWholeLength);
  set(BsonType::kArray, 0, Extra::kWholeLength);
  set(BsonType::kBinData, 5, Extra::kLength);
  set(BsonType::kUndefined, 0, Extra::kNone);
  set(BsonType::kObjectId, 12, Extra::kNone);
  set(BsonType::kBool, 1, Extra::kNone);
  set(BsonType::kDate, 8, Extra::kNone);
  set(BsonType::kNull, 0, Extra::kNone);
  set(BsonType::kRegex, 2, Extra::kRegex);
  set(BsonType::kDBRef, 16, Extra::kLength);
  set(BsonType::kCode, 4, Extra::kLength);
  set(BsonType::kSymbol, 4, Extra::kLength);
  set(BsonType::kCodeWithScope, 0, Extra::kWholeLength);
  set(BsonType::kInt32, 4, Extra::kNone);
  set(BsonType::kTimestamp, 8, Extra::kNone);
  set(BsonType::kInt64, 8, Extra::kNone);
  set(BsonType::kDecimal128, 16, Extra::kNone);
  set(BsonType::kMinKey, 0, Extra::kNone);
  set(BsonType::kMaxKey, 0, Extra::kNone);
  return table;
}();

// 2^63 as a double; every double below it (and at or above its negative) truncates to an int64.
constexpr double kTwoTo63 = 9223372036854775808.0;

std::int64_t saturate(bool negative) {
  return negative ? std::numeric_limits<std::int64_t>::min()
                  : std::numeric_limits<std::int64_t>::max();
}

std::int64_t truncate_double(double value) {
  if (std::isnan(value)) return 0;
  if (value >= kTwoTo63 || value < -kTwoTo63) return saturate(value < 0);
  return static_cast<std::int64_t>(value);
}

std::int64_t truncate_decimal(Decimal128 value) {
  if (value.is_nan()) return 0;
  std::uint32_t flags = 0;
  const std::int64_t result = value.to_int64(Decimal128::Round::kTowardZero, &flags);
  return (flags & Decimal128::kInvalid) != 0 ? saturate(value.is_negative()) : result;
}

}  // namespace

std::size_t bson_value_size(BsonType type, const char* value) {
  const SizeRule rule = kSizeRules.rules[static_cast<std::uint8_t>(type)];
  switch (rule.extra) {
    case Extra::kNone:
      return rule.fixed;
    case Extra::kLength:
    case Extra::kWholeLength:
      return rule.fixed + static_cast<std::size_t>(load_le<std::uint32_t>(value));
    case Extra::kRegex: {
      const std::size_t pattern = std::strlen(value);
      return rule.fixed + pattern + std::strlen(value + pattern + 1);
    }
    case Extra::kBad:
      break;
  }
  MULTIFORA_ASSERT(!"a type byte that the validator lets through");
  return 0;
}

double ValueView::number_as_double() const {
  switch (type_) {
    case BsonType::kDouble:
      return as_double();
    case BsonType::kInt32:
      return as_int32();
    case BsonType::kInt64:
      return static_cast<double>(as_int64());
    case BsonType::kDecimal128:
      return as_decimal().to_double();
    default:
      return 0;
  }
}

std::int64_t ValueView::number_as_int64() const {
  switch (type_) {
    case BsonType::kDouble:
      return truncate_double(as_double());
    case BsonType::kInt32:
      return as_int32();
    case BsonType::kInt64:
      return as_int64();
    case BsonType::kDecimal128:
      return truncate_decimal(as_decimal());
    default:
      return 0;
  }
}

bool ValueView::exact_int64(std::int64_t* out) const {
  switch (type_) {
    case BsonType::kInt32:
      *out = as_int32();
      return true;
    case BsonType::kInt64:
      *out = as_int64();
      return true;
    case BsonType::kDouble: {
      const double value = as_double();
      if (!(value >= -kTwoTo63 && value < kTwoTo63) || std::trunc(value) != value) return false;
      *out = static_cast<std::int64_t>(value);
      return true;
    }
    case BsonType::kDecimal128: {
      std::uint32_t flags = 0;
      const std::int64_t value = as_decimal().to_int64(Decimal128::Round::kTowardZero, &flags);
      if ((flags & (Decimal128::kInvalid | Decimal128::kInexact)) != 0) return false;
      *out = value;
      return true;
    }
    default:
      return false;
  }
}

bool ValueView::truthy() const {
  switch (type_) {
    case BsonType::kBool:
      return as_bool();
    case BsonType::kDouble:
      return as_double() != 0;  // NaN is true
    case BsonType::kInt32:
      return as_int32() != 0;
    case BsonType::kInt64:
      return as_int64() != 0;
    case BsonType::kDecimal128:
      return !as_decimal().is_zero();
    default:
      return !is_nullish();
  }
}

DocumentView::DocumentView() : data_(kEmptyDocument) {}

Element DocumentView::find(std::string_view name) const {
  const char* at = data_ + 4;
  while (*at != 0) {
    const auto type = static_cast<BsonType>(*at);
    const char* element_name = at + 1;
    const std::size_t length = std::strlen(element_name);
    const char* value = element_name + length + 1;
    const std::size_t size = bson_value_size(type, value);
    if (length == name.size() && std::memcmp(element_name, name.data(), length) == 0)
      return Element({element_name, length},
                     ValueView(type, value, static_cast<std::uint32_t>(size)));
    at = value + size;
  }
  return {};
}

std::size_t DocumentView::count() const {
  std::size_t n = 0;
  for (auto it = begin(); it != end(); ++it) ++n;
  return n;
}

OwnedDocument::OwnedDocument() : bytes_(kEmptyDocument, sizeof kEmptyDocument) {}

OwnedDocument OwnedDocument::assume_valid(Buffer bytes) {
  MULTIFORA_DASSERT(bytes.size() >= 5 && load_le<std::uint32_t>(bytes.data()) == bytes.size());
  OwnedDocument document;
  document.bytes_ = std::move(bytes);
  return document;
}

}  // namespace multifora
