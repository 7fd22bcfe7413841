// Value: what expressions compute. Either a view of BSON bytes (a field of the document at hand, a
// constant of the query) or a scalar or bytes that it owns. Immutable once made; copies share owned
// bytes. Default: missing.
//
// A Value that views bytes lives as long as they do: own() makes it independent. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/bson/builder.h"
#include "core/bson/decimal128.h"
#include "core/bson/view.h"

namespace multifora {

class Value {
 public:
  Value() = default;                          // missing
  Value(const ValueView& view);               // views  NOLINT(google-explicit-constructor)
  static Value null();
  static Value of(bool v);
  static Value of(std::int32_t v);
  static Value of(std::int64_t v);
  static Value of(double v);
  static Value of(Decimal128 v);
  static Value of(ObjectId v);
  static Value string(std::string_view text);             // owns a copy
  static Value date_ms(std::int64_t ms);
  static Value timestamp(std::uint64_t v);
  static Value binary(Bytes bytes, std::uint8_t subtype);
  static Value regex(std::string_view pattern, std::string_view options);
  static Value object(OwnedDocument document);
  static Value array(OwnedDocument document);
  static Value empty_array();
  static Value of_type(BsonType type, Bytes bytes);       // owns a copy of the value's BSON bytes

  BsonType type() const { return type_; }
  bool missing() const { return type_ == BsonType::kEOO; }
  bool nullish() const { return view().is_nullish(); }
  // The value as BSON bytes; alive as long as this Value (and what it views).
  ValueView view() const {
    return {type_, data(), size_};
  }
  // The same value, owning its bytes.
  Value own() const;
  // A value inside this one (an array's element): shares the bytes that this one owns. `inside`
  // must view this Value's own bytes or what it views.
  Value part(const ValueView& inside) const;
  bool is_view() const { return !owner_ && !inline_; }

 private:
  const char* data() const { return owner_ ? owner_.get() + offset_ : (inline_ ? small_ : data_); }
  std::shared_ptr<const char[]> owner_;
  union {
    const char* data_ = nullptr;
    char small_[16];
  };
  std::uint32_t size_ = 0;
  std::uint32_t offset_ = 0;
  BsonType type_ = BsonType::kEOO;
  bool inline_ = false;
};

}  // namespace multifora
