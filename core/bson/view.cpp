#include "core/bson/view.h"

#include <cmath>
#include <limits>

namespace multifora {

namespace {

constexpr char kEmptyDocument[] = {5, 0, 0, 0, 0};

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

namespace internal {

namespace {

constexpr std::array<std::uint8_t, 256> make_size_rules() {
  std::array<std::uint8_t, 256> rules{};
  rules.fill(kSizeIsSpecial);  // regexes, and bytes that are no type
  const auto set = [&](BsonType type, int rule) {
    rules[static_cast<std::uint8_t>(type)] = static_cast<std::uint8_t>(rule);
  };
  for (const BsonType type : {BsonType::kEOO, BsonType::kUndefined, BsonType::kNull,
                              BsonType::kMinKey, BsonType::kMaxKey})
    set(type, 0);
  set(BsonType::kBool, 1);
  set(BsonType::kInt32, 4);
  for (const BsonType type :
       {BsonType::kDouble, BsonType::kInt64, BsonType::kDate, BsonType::kTimestamp})
    set(type, 8);
  set(BsonType::kObjectId, 12);
  set(BsonType::kDecimal128, 16);
  // The length counts itself.
  for (const BsonType type : {BsonType::kObject, BsonType::kArray, BsonType::kCodeWithScope})
    set(type, kSizeHasLength);
  // The length, and what it counts; a subtype or an ObjectId besides.
  for (const BsonType type : {BsonType::kString, BsonType::kCode, BsonType::kSymbol})
    set(type, kSizeHasLength | 4);
  set(BsonType::kBinData, kSizeHasLength | 5);
  set(BsonType::kDBRef, kSizeHasLength | 16);
  return rules;
}

}  // namespace

constinit const std::array<std::uint8_t, 256> kSizeRules = make_size_rules();

std::size_t special_value_size(BsonType type, const char* value) {
  MULTIFORA_ASSERT(type == BsonType::kRegex);  // the validator lets no other through
  const std::size_t pattern = std::strlen(value) + 1;
  return pattern + std::strlen(value + pattern) + 1;
}

}  // namespace internal

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
    if (std::string_view(element_name, length) == name)
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
