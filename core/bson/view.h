// Views into BSON bytes: ValueView (a value without its name), Element (name and value),
// DocumentView (a document or array). They are pointers: cheap to copy, owning nothing, alive only
// as long as the bytes. Nothing here allocates.
//
// A DocumentView stands for *valid* BSON. Only validate() (validate.h), DocumentBuilder and the
// storage (whose records were validated where they entered and are hash-checked) make one, through
// DocumentView::assume_valid; walking it therefore does no bounds checks beyond assertions.
// Accessors of one type's content (as_x, binary_x ...) require the value to be of that type.
#pragma once

#include <array>
#include <cstdint>
#include <iterator>

#include "core/base/assert.h"
#include "core/base/bytes.h"
#include "core/bson/decimal128.h"
#include "core/bson/object_id.h"
#include "core/bson/types.h"

namespace multifora {

class DocumentView;

namespace internal {
// How a type's size is found, by type byte: the bytes that every value has (low bits), and whether
// a length stands in its first four bytes or it takes a closer look.
inline constexpr std::uint8_t kSizeFixedMask = 0x1f;
inline constexpr std::uint8_t kSizeHasLength = 0x20;
inline constexpr std::uint8_t kSizeIsSpecial = 0x40;
extern const std::array<std::uint8_t, 256> kSizeRules;
std::size_t special_value_size(BsonType type, const char* value);
}  // namespace internal

// Size in bytes of the value of type `type` that starts at `value`. Requires valid BSON.
inline std::size_t bson_value_size(BsonType type, const char* value) {
  const std::uint8_t rule = internal::kSizeRules[static_cast<std::uint8_t>(type)];
  const std::size_t fixed = rule & internal::kSizeFixedMask;
  if ((rule & (internal::kSizeHasLength | internal::kSizeIsSpecial)) == 0) return fixed;
  if ((rule & internal::kSizeHasLength) != 0) return fixed + load_le<std::uint32_t>(value);
  return internal::special_value_size(type, value);
}

// One BSON value. Default: missing (kEOO, no bytes).
class ValueView {
 public:
  constexpr ValueView() = default;
  constexpr ValueView(BsonType type, const char* data, std::uint32_t size)
      : data_(data), size_(size), type_(type) {}

  BsonType type() const { return type_; }
  bool missing() const { return type_ == BsonType::kEOO; }
  bool is_number() const { return multifora::is_number(type_); }
  bool is_nullish() const {  // null, undefined or missing
    return type_ == BsonType::kNull || type_ == BsonType::kUndefined || type_ == BsonType::kEOO;
  }
  const char* data() const { return data_; }
  std::uint32_t size_bytes() const { return size_; }
  Bytes bytes() const { return {data_, size_}; }

  double as_double() const {
    MULTIFORA_DASSERT(type_ == BsonType::kDouble);
    return load_le<double>(data_);
  }
  std::int32_t as_int32() const {
    MULTIFORA_DASSERT(type_ == BsonType::kInt32);
    return load_le<std::int32_t>(data_);
  }
  std::int64_t as_int64() const {
    MULTIFORA_DASSERT(type_ == BsonType::kInt64);
    return load_le<std::int64_t>(data_);
  }
  Decimal128 as_decimal() const {
    MULTIFORA_DASSERT(type_ == BsonType::kDecimal128);
    return {load_le<std::uint64_t>(data_), load_le<std::uint64_t>(data_ + 8)};
  }
  bool as_bool() const {
    MULTIFORA_DASSERT(type_ == BsonType::kBool);
    return *data_ != 0;
  }
  std::int64_t as_date_ms() const {
    MULTIFORA_DASSERT(type_ == BsonType::kDate);
    return load_le<std::int64_t>(data_);
  }
  // Timestamp: seconds in the high, increment in the low 32 bits.
  std::uint64_t as_timestamp() const {
    MULTIFORA_DASSERT(type_ == BsonType::kTimestamp);
    return load_le<std::uint64_t>(data_);
  }
  ObjectId as_object_id() const {
    MULTIFORA_DASSERT(type_ == BsonType::kObjectId);
    ObjectId id;
    std::memcpy(id.bytes.data(), data_, 12);
    return id;
  }
  // String, symbol or code (without its terminating NUL; may contain NULs).
  std::string_view as_string() const {
    MULTIFORA_DASSERT(type_ == BsonType::kString || type_ == BsonType::kSymbol ||
                      type_ == BsonType::kCode);
    return {data_ + 4, static_cast<std::size_t>(load_le<std::int32_t>(data_)) - 1};
  }
  DocumentView as_document() const;  // object or array
  std::uint8_t binary_subtype() const {
    MULTIFORA_DASSERT(type_ == BsonType::kBinData);
    return static_cast<std::uint8_t>(data_[4]);
  }
  Bytes binary_bytes() const {  // without length and subtype; subtype 2's inner length is kept
    MULTIFORA_DASSERT(type_ == BsonType::kBinData);
    return {data_ + 5, static_cast<std::size_t>(load_le<std::int32_t>(data_))};
  }
  std::string_view regex_pattern() const {
    MULTIFORA_DASSERT(type_ == BsonType::kRegex);
    return {data_};
  }
  std::string_view regex_options() const {
    MULTIFORA_DASSERT(type_ == BsonType::kRegex);
    return {data_ + std::strlen(data_) + 1};
  }
  std::string_view code_with_scope_code() const {
    MULTIFORA_DASSERT(type_ == BsonType::kCodeWithScope);
    return {data_ + 8, static_cast<std::size_t>(load_le<std::int32_t>(data_ + 4)) - 1};
  }
  DocumentView code_with_scope_scope() const;
  std::string_view dbref_namespace() const {
    MULTIFORA_DASSERT(type_ == BsonType::kDBRef);
    return {data_ + 4, static_cast<std::size_t>(load_le<std::int32_t>(data_)) - 1};
  }
  ObjectId dbref_id() const {
    MULTIFORA_DASSERT(type_ == BsonType::kDBRef);
    ObjectId id;
    std::memcpy(id.bytes.data(), data_ + size_ - 12, 12);
    return id;
  }

  // Numbers of any type as double / truncated int64 (saturating; NaN is 0). 0 for other types.
  double number_as_double() const;
  std::int64_t number_as_int64() const;
  // True where the value is a number that is exactly an int64; stores it.
  bool exact_int64(std::int64_t* out) const;
  // MongoDB's truth: false, 0 of any number type, null, undefined and missing are false.
  bool truthy() const;

 private:
  const char* data_ = nullptr;
  std::uint32_t size_ = 0;
  BsonType type_ = BsonType::kEOO;
};

// A named value inside a document.
class Element {
 public:
  constexpr Element() = default;
  Element(std::string_view name, ValueView value) : name_(name), value_(value) {}

  bool missing() const { return value_.missing(); }
  explicit operator bool() const { return !missing(); }
  std::string_view name() const { return name_; }
  BsonType type() const { return value_.type(); }
  const ValueView& value() const { return value_; }
  const ValueView* operator->() const { return &value_; }

 private:
  std::string_view name_;
  ValueView value_;
};

class DocumentView {
 public:
  DocumentView();  // the empty document
  // The caller vouches that `data` starts a valid document (see the top of this file).
  static DocumentView assume_valid(const char* data) { return DocumentView(data); }
  static DocumentView assume_valid(Bytes bytes) { return DocumentView(bytes.data()); }
  static DocumentView assume_valid(Buffer&&) = delete;

  const char* data() const { return data_; }
  std::size_t size_bytes() const { return static_cast<std::size_t>(load_le<std::int32_t>(data_)); }
  Bytes bytes() const { return {data_, size_bytes()}; }
  bool empty() const { return size_bytes() <= 5; }

  class Iterator {
   public:
    using value_type = Element;
    using difference_type = std::ptrdiff_t;
    Iterator() = default;
    explicit Iterator(const char* at) : at_(at) { load(); }
    const Element& operator*() const { return element_; }
    const Element* operator->() const { return &element_; }
    Iterator& operator++() {
      at_ = element_.value().data() + element_.value().size_bytes();
      load();
      return *this;
    }
    Iterator operator++(int) {
      Iterator old = *this;
      ++*this;
      return old;
    }
    bool operator==(std::default_sentinel_t) const { return *at_ == 0; }
    // Where the element's type byte stands.
    const char* position() const { return at_; }

   private:
    void load() {
      if (*at_ == 0) return;
      const auto type = static_cast<BsonType>(*at_);
      const char* name = at_ + 1;
      const std::size_t length = std::strlen(name);
      const char* value = name + length + 1;
      element_ =
          Element({name, length},
                  ValueView(type, value, static_cast<std::uint32_t>(bson_value_size(type, value))));
    }
    const char* at_ = nullptr;
    Element element_;
  };
  Iterator begin() const { return Iterator(data_ + 4); }
  std::default_sentinel_t end() const { return {}; }

  // First element of this name; missing() where there is none. No dots are interpreted.
  Element find(std::string_view name) const;
  ValueView operator[](std::string_view name) const { return find(name).value(); }
  Element first() const { return empty() ? Element() : *begin(); }
  std::size_t count() const;

 private:
  explicit DocumentView(const char* data) : data_(data) {}
  const char* data_;
};

inline DocumentView ValueView::as_document() const {
  MULTIFORA_DASSERT(type_ == BsonType::kObject || type_ == BsonType::kArray);
  return DocumentView::assume_valid(data_);
}
inline DocumentView ValueView::code_with_scope_scope() const {
  MULTIFORA_DASSERT(type_ == BsonType::kCodeWithScope);
  return DocumentView::assume_valid(data_ + 8 + load_le<std::int32_t>(data_ + 4));
}
// A document as a value.
inline ValueView as_value(DocumentView document, BsonType type = BsonType::kObject) {
  return {type, document.data(), static_cast<std::uint32_t>(document.size_bytes())};
}

// A document that owns its bytes.
class OwnedDocument {
 public:
  OwnedDocument();  // the empty document
  explicit OwnedDocument(DocumentView view) : bytes_(view.bytes()) {}
  // `bytes` must be a valid document (see DocumentView::assume_valid).
  static OwnedDocument assume_valid(Buffer bytes);
  DocumentView view() const& { return DocumentView::assume_valid(Bytes(bytes_)); }
  DocumentView view() && = delete;
  const Buffer& bytes() const& { return bytes_; }
  Buffer take() && { return std::move(bytes_); }

 private:
  Buffer bytes_;
};

}  // namespace multifora
