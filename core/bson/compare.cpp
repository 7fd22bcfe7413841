#include "core/bson/compare.h"

#include <xxhash.h>

#include <cmath>

namespace multifora {

namespace {

template <class T>
int order_of(T a, T b) {
  return a < b ? -1 : static_cast<int>(b < a);
}

int compare_bytes(Bytes a, Bytes b) {
  const int order = a.compare(b);
  return order < 0 ? -1 : static_cast<int>(order > 0);
}

int compare_text(std::string_view a, std::string_view b, const Collator* collator) {
  return collator == nullptr ? compare_bytes(a, b) : collator->compare(a, b);
}

// ---- Numbers ----

int compare_doubles(double a, double b) {
  if (a < b) return -1;
  if (a > b) return 1;
  if (a == b) return 0;
  return static_cast<int>(std::isnan(b)) - static_cast<int>(std::isnan(a));
}

int compare_int_double(std::int64_t a, double b) {
  constexpr double kTwoTo63 = 9223372036854775808.0;
  if (std::isnan(b)) return 1;
  if (b >= kTwoTo63) return -1;
  if (b < -kTwoTo63) return 1;
  const auto whole = static_cast<std::int64_t>(b);
  if (a != whole) return a < whole ? -1 : 1;
  // Exact: where b has a fraction it is below 2^53.
  return order_of(0.0, b - static_cast<double>(whole));
}

std::int64_t as_integer(const ValueView& value) {
  return value.type() == BsonType::kInt32 ? value.as_int32() : value.as_int64();
}

int compare_decimal(Decimal128 a, const ValueView& b) {
  switch (b.type()) {
    case BsonType::kDecimal128:
      return a.compare(b.as_decimal());
    case BsonType::kDouble:
      return a.compare(b.as_double());
    default:
      return a.compare(as_integer(b));
  }
}

// ---- Other brackets ----

int compare_binary(const ValueView& a, const ValueView& b) {
  const Bytes x = a.binary_bytes();
  const Bytes y = b.binary_bytes();
  if (const int order = order_of(x.size(), y.size())) return order;
  if (const int order = order_of(a.binary_subtype(), b.binary_subtype())) return order;
  return compare_bytes(x, y);
}

int compare_regex(const ValueView& a, const ValueView& b) {
  if (const int order = compare_bytes(a.regex_pattern(), b.regex_pattern())) return order;
  return compare_bytes(a.regex_options(), b.regex_options());
}

int compare_dbref(const ValueView& a, const ValueView& b) {
  if (const int order = order_of(a.size_bytes(), b.size_bytes())) return order;
  return compare_bytes(a.bytes(), b.bytes());
}

int compare_code_with_scope(const ValueView& a, const ValueView& b) {
  if (const int order = compare_bytes(a.code_with_scope_code(), b.code_with_scope_code()))
    return order;
  return compare_documents(a.code_with_scope_scope(), b.code_with_scope_scope());
}

// Both of the bracket of `a`.
int compare_in_bracket(const ValueView& a, const ValueView& b, const Collator* collator) {
  switch (a.type()) {
    case BsonType::kDouble:
    case BsonType::kInt32:
    case BsonType::kInt64:
    case BsonType::kDecimal128:
      return compare_numbers(a, b);
    case BsonType::kString:
    case BsonType::kSymbol:
      return compare_text(a.as_string(), b.as_string(), collator);
    case BsonType::kObject:
      return compare_documents(a.as_document(), b.as_document(), collator, false);
    case BsonType::kArray:
      return compare_documents(a.as_document(), b.as_document(), collator, true);
    case BsonType::kBinData:
      return compare_binary(a, b);
    case BsonType::kObjectId:
      return compare_bytes(a.bytes(), b.bytes());
    case BsonType::kBool:
      return order_of(a.as_bool(), b.as_bool());
    case BsonType::kDate:
      return order_of(a.as_date_ms(), b.as_date_ms());
    case BsonType::kTimestamp:
      return order_of(a.as_timestamp(), b.as_timestamp());
    case BsonType::kRegex:
      return compare_regex(a, b);
    case BsonType::kDBRef:
      return compare_dbref(a, b);
    case BsonType::kCode:
      return compare_bytes(a.as_string(), b.as_string());
    case BsonType::kCodeWithScope:
      return compare_code_with_scope(a, b);
    default:
      return 0;  // one value only: MinKey, MaxKey, null, undefined and missing
  }
}

// ---- Hashing ----

std::uint64_t hash_bytes(Bytes bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

template <class T>
std::uint64_t hash_plain(T value, std::uint64_t seed) {
  return XXH3_64bits_withSeed(&value, sizeof value, seed);
}

// One form for each number: int64 where it is one, else double where it is one, else the decimal
// with the fewest digits. The forms have seeds of their own, since the same bits mean other
// numbers.
std::uint64_t hash_number(const ValueView& value, std::uint64_t seed) {
  std::int64_t integer;
  if (value.exact_int64(&integer)) return hash_plain(integer, seed);
  const double number = value.number_as_double();
  if (std::isnan(number)) return hash_plain('n', seed);
  if (value.type() != BsonType::kDecimal128) return hash_plain(number, seed + 1);
  const Decimal128 decimal = value.as_decimal();
  if (decimal.compare(number) == 0) return hash_plain(number, seed + 1);
  const Decimal128 normal = decimal.normalized();
  return hash_plain(normal.high(), hash_plain(normal.low(), seed + 2));
}

std::uint64_t hash_text(std::string_view text, std::uint64_t seed, const Collator* collator) {
  if (collator == nullptr) return hash_bytes(text, seed);
  Buffer key;
  collator->append_sort_key(text, key);
  return hash_bytes(key, seed);
}

std::uint64_t hash_document(DocumentView document, std::uint64_t seed, const Collator* collator,
                            bool ignore_names) {
  for (const Element& element : document) {
    if (!ignore_names) seed = hash_bytes(element.name(), seed);
    seed = hash_value(element.value(), seed, collator);
  }
  return seed;
}

}  // namespace

int compare_numbers(const ValueView& a, const ValueView& b) {
  MULTIFORA_DASSERT(a.is_number() && b.is_number());
  if (a.type() == BsonType::kDecimal128) return compare_decimal(a.as_decimal(), b);
  if (b.type() == BsonType::kDecimal128) return -compare_decimal(b.as_decimal(), a);
  if (a.type() == BsonType::kDouble) {
    if (b.type() == BsonType::kDouble) return compare_doubles(a.as_double(), b.as_double());
    return -compare_int_double(as_integer(b), a.as_double());
  }
  if (b.type() == BsonType::kDouble) return compare_int_double(as_integer(a), b.as_double());
  return order_of(as_integer(a), as_integer(b));
}

int compare_values(const ValueView& a, const ValueView& b, const Collator* collator) {
  if (a.type() != b.type()) {
    if (const int order = order_of(canonical_type(a.type()), canonical_type(b.type())))
      return order;
  }
  return compare_in_bracket(a, b, collator);
}

int compare_documents(DocumentView a, DocumentView b, const Collator* collator, bool ignore_names) {
  auto x = a.begin();
  auto y = b.begin();
  for (; x != a.end() && y != b.end(); ++x, ++y) {
    if (const int order = order_of(canonical_type(x->type()), canonical_type(y->type())))
      return order;
    if (!ignore_names) {
      if (const int order = compare_bytes(x->name(), y->name())) return order;
    }
    if (const int order = compare_in_bracket(x->value(), y->value(), collator)) return order;
  }
  return static_cast<int>(x != a.end()) - static_cast<int>(y != b.end());
}

bool identical_values(const ValueView& a, const ValueView& b) {
  return a.type() == b.type() && a.bytes() == b.bytes();
}

bool equal_values(const ValueView& a, const ValueView& b, const Collator* collator) {
  if (identical_values(a, b)) return true;
  if (a.type() == b.type()) {
    switch (a.type()) {
      // One encoding only: other bytes, other value.
      case BsonType::kInt32:
      case BsonType::kInt64:
      case BsonType::kObjectId:
      case BsonType::kDate:
      case BsonType::kTimestamp:
      case BsonType::kBool:
      case BsonType::kBinData:
        return false;
      case BsonType::kString:
        if (collator == nullptr) return false;
        break;
      default:
        break;
    }
  }
  return compare_values(a, b, collator) == 0;
}

std::uint64_t hash_value(const ValueView& value, std::uint64_t seed, const Collator* collator) {
  seed ^= static_cast<std::uint64_t>(canonical_type(value.type()) + 2) * 0x9e3779b97f4a7c15ull;
  switch (value.type()) {
    case BsonType::kDouble:
    case BsonType::kInt32:
    case BsonType::kInt64:
    case BsonType::kDecimal128:
      return hash_number(value, seed);
    case BsonType::kString:
    case BsonType::kSymbol:
      return hash_text(value.as_string(), seed, collator);
    case BsonType::kObject:
      return hash_plain('o', hash_document(value.as_document(), seed, collator, false));
    case BsonType::kArray:
      return hash_plain('a', hash_document(value.as_document(), seed, collator, true));
    case BsonType::kCodeWithScope:
      // The scope is compared by value, without the collator.
      return hash_document(value.code_with_scope_scope(),
                           hash_bytes(value.code_with_scope_code(), seed), nullptr, false);
    case BsonType::kUndefined:
    case BsonType::kEOO:
      return hash_plain('u', seed);
    default:
      return hash_bytes(value.bytes(), seed);  // equal values have equal bytes
  }
}

}  // namespace multifora
