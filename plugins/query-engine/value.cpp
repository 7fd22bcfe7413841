#include "plugins/query-engine/value.h"

#include <cstring>

namespace multifora {

Value::Value(const ValueView& view)
    : data_(view.data()), size_(view.size_bytes()), type_(view.type()) {}

Value Value::of_type(BsonType type, Bytes bytes) {
  Value v;
  v.type_ = type;
  v.size_ = static_cast<std::uint32_t>(bytes.size());
  if (bytes.size() <= sizeof v.small_) {
    v.inline_ = true;
    if (!bytes.empty()) std::memcpy(v.small_, bytes.data(), bytes.size());
    return v;
  }
  const std::shared_ptr<char[]> copy = std::make_shared_for_overwrite<char[]>(bytes.size());
  std::memcpy(copy.get(), bytes.data(), bytes.size());
  v.owner_ = copy;
  return v;
}

namespace {

template <class T>
Value scalar(BsonType type, T value) {
  char bytes[sizeof value];
  store_le(bytes, value);
  return Value::of_type(type, {bytes, sizeof bytes});
}

}  // namespace

Value Value::null() {
  return of_type(BsonType::kNull, {});
}
Value Value::of(bool v) {
  return scalar<char>(BsonType::kBool, v ? 1 : 0);
}
Value Value::of(std::int32_t v) {
  return scalar(BsonType::kInt32, v);
}
Value Value::of(std::int64_t v) {
  return scalar(BsonType::kInt64, v);
}
Value Value::of(double v) {
  return scalar(BsonType::kDouble, v);
}
Value Value::date_ms(std::int64_t ms) {
  return scalar(BsonType::kDate, ms);
}
Value Value::timestamp(std::uint64_t v) {
  return scalar(BsonType::kTimestamp, v);
}

Value Value::of(Decimal128 v) {
  char bytes[16];
  store_le(bytes, v.low());
  store_le(bytes + 8, v.high());
  return of_type(BsonType::kDecimal128, {bytes, sizeof bytes});
}

Value Value::of(ObjectId v) {
  return of_type(BsonType::kObjectId, {v.bytes.data(), v.bytes.size()});
}

Value Value::string(std::string_view text) {
  Value v;
  v.type_ = BsonType::kString;
  v.size_ = static_cast<std::uint32_t>(text.size() + 5);
  char* to = v.small_;
  std::shared_ptr<char[]> space;
  if (v.size_ <= sizeof v.small_) {
    v.inline_ = true;
  } else {
    space = std::make_shared_for_overwrite<char[]>(v.size_);
    to = space.get();
  }
  store_le(to, static_cast<std::int32_t>(text.size() + 1));
  if (!text.empty()) std::memcpy(to + 4, text.data(), text.size());
  to[4 + text.size()] = 0;
  v.owner_ = std::move(space);
  return v;
}

Value Value::binary(Bytes bytes, std::uint8_t subtype) {
  Buffer out;
  out.reserve(bytes.size() + 5);
  append_le(out, static_cast<std::int32_t>(bytes.size()));
  out.push_back(static_cast<char>(subtype));
  out.append(bytes);
  return of_type(BsonType::kBinData, out);
}

Value Value::regex(std::string_view pattern, std::string_view options) {
  Buffer out;
  out.append(pattern).push_back('\0');
  out.append(options).push_back('\0');
  return of_type(BsonType::kRegex, out);
}

Value Value::object(OwnedDocument document) {
  Value v;
  auto bytes = std::make_shared<const Buffer>(std::move(document).take());
  v.type_ = BsonType::kObject;
  v.size_ = static_cast<std::uint32_t>(bytes->size());
  v.owner_ = std::shared_ptr<const char[]>(bytes, bytes->data());
  return v;
}

Value Value::array(OwnedDocument document) {
  Value v = object(std::move(document));
  v.type_ = BsonType::kArray;
  return v;
}

Value Value::empty_array() {
  return array(OwnedDocument());
}

Value Value::part(const ValueView& inside) const {
  if (is_view()) return inside;
  if (inline_ || inside.size_bytes() <= sizeof small_)
    return of_type(inside.type(), inside.bytes());
  Value v;
  v.owner_ = owner_;
  v.offset_ = static_cast<std::uint32_t>(inside.data() - owner_.get());
  v.size_ = inside.size_bytes();
  v.type_ = inside.type();
  return v;
}

Value Value::own() const {
  if (!is_view() || missing()) return *this;
  return of_type(type_, {data_, size_});
}

}  // namespace multifora
