#include "core/bson/builder.h"

#include <charconv>
#include <utility>

namespace multifora {

namespace {

void append_text(Buffer& out, std::string_view text) {
  append_le(out, static_cast<std::int32_t>(text.size() + 1));
  out.append(text).push_back('\0');
}

}  // namespace

// ---- DocumentBuilder ----

DocumentBuilder::DocumentBuilder() : out_(&own_), start_(0) {
  own_.assign(4, '\0');
}

DocumentBuilder::DocumentBuilder(Buffer* append_to) : out_(append_to), start_(append_to->size()) {
  out_->append(4, '\0');
}

DocumentBuilder::DocumentBuilder(DocumentBuilder&& other) noexcept
    : own_(std::move(other.own_)),
      out_(other.out_ == &other.own_ ? &own_ : other.out_),
      start_(other.start_),
      open_(std::exchange(other.open_, false)) {}

DocumentBuilder::~DocumentBuilder() {
  if (open_ && out_ != &own_) close();
}

void DocumentBuilder::begin(BsonType type, std::string_view name) {
  MULTIFORA_DASSERT(open_);
  MULTIFORA_DASSERT(name.find('\0') == std::string_view::npos);
  out_->push_back(static_cast<char>(type));
  out_->append(name).push_back('\0');
}

DocumentBuilder& DocumentBuilder::append(std::string_view name, double value) {
  begin(BsonType::kDouble, name);
  append_le(*out_, value);
  return *this;
}

DocumentBuilder& DocumentBuilder::append(std::string_view name, std::int32_t value) {
  begin(BsonType::kInt32, name);
  append_le(*out_, value);
  return *this;
}

DocumentBuilder& DocumentBuilder::append(std::string_view name, std::int64_t value) {
  begin(BsonType::kInt64, name);
  append_le(*out_, value);
  return *this;
}

DocumentBuilder& DocumentBuilder::append(std::string_view name, bool value) {
  begin(BsonType::kBool, name);
  out_->push_back(value ? '\x01' : '\x00');
  return *this;
}

DocumentBuilder& DocumentBuilder::append(std::string_view name, std::string_view value) {
  begin(BsonType::kString, name);
  append_text(*out_, value);
  return *this;
}

DocumentBuilder& DocumentBuilder::append(std::string_view name, DocumentView value) {
  begin(BsonType::kObject, name);
  out_->append(value.bytes());
  return *this;
}

DocumentBuilder& DocumentBuilder::append(std::string_view name, ObjectId value) {
  begin(BsonType::kObjectId, name);
  out_->append(value.bytes.data(), value.bytes.size());
  return *this;
}

DocumentBuilder& DocumentBuilder::append(std::string_view name, Decimal128 value) {
  begin(BsonType::kDecimal128, name);
  append_le(*out_, value.low());
  append_le(*out_, value.high());
  return *this;
}

DocumentBuilder& DocumentBuilder::append(std::string_view name, ValueView value) {
  if (value.missing()) return *this;
  begin(value.type(), name);
  out_->append(value.bytes());
  return *this;
}

DocumentBuilder& DocumentBuilder::append_array(std::string_view name, DocumentView array) {
  begin(BsonType::kArray, name);
  out_->append(array.bytes());
  return *this;
}

DocumentBuilder& DocumentBuilder::append_null(std::string_view name) {
  begin(BsonType::kNull, name);
  return *this;
}

DocumentBuilder& DocumentBuilder::append_undefined(std::string_view name) {
  begin(BsonType::kUndefined, name);
  return *this;
}

DocumentBuilder& DocumentBuilder::append_min_key(std::string_view name) {
  begin(BsonType::kMinKey, name);
  return *this;
}

DocumentBuilder& DocumentBuilder::append_max_key(std::string_view name) {
  begin(BsonType::kMaxKey, name);
  return *this;
}

DocumentBuilder& DocumentBuilder::append_date_ms(std::string_view name, std::int64_t ms) {
  begin(BsonType::kDate, name);
  append_le(*out_, ms);
  return *this;
}

DocumentBuilder& DocumentBuilder::append_timestamp(std::string_view name, std::uint64_t timestamp) {
  begin(BsonType::kTimestamp, name);
  append_le(*out_, timestamp);
  return *this;
}

DocumentBuilder& DocumentBuilder::append_binary(std::string_view name, Bytes bytes,
                                                std::uint8_t subtype) {
  begin(BsonType::kBinData, name);
  append_le(*out_, static_cast<std::int32_t>(bytes.size()));
  out_->push_back(static_cast<char>(subtype));
  out_->append(bytes);
  return *this;
}

DocumentBuilder& DocumentBuilder::append_regex(std::string_view name, std::string_view pattern,
                                               std::string_view options) {
  begin(BsonType::kRegex, name);
  out_->append(pattern).push_back('\0');
  out_->append(options).push_back('\0');
  return *this;
}

DocumentBuilder& DocumentBuilder::append_code(std::string_view name, std::string_view code) {
  begin(BsonType::kCode, name);
  append_text(*out_, code);
  return *this;
}

DocumentBuilder& DocumentBuilder::append_symbol(std::string_view name, std::string_view symbol) {
  begin(BsonType::kSymbol, name);
  append_text(*out_, symbol);
  return *this;
}

DocumentBuilder& DocumentBuilder::append_code_with_scope(std::string_view name,
                                                         std::string_view code,
                                                         DocumentView scope) {
  begin(BsonType::kCodeWithScope, name);
  append_le(*out_, static_cast<std::int32_t>(4 + 4 + code.size() + 1 + scope.size_bytes()));
  append_text(*out_, code);
  out_->append(scope.bytes());
  return *this;
}

DocumentBuilder& DocumentBuilder::append_dbref(std::string_view name, std::string_view ns,
                                               ObjectId id) {
  begin(BsonType::kDBRef, name);
  append_text(*out_, ns);
  out_->append(id.bytes.data(), id.bytes.size());
  return *this;
}

DocumentBuilder& DocumentBuilder::append_all(DocumentView document) {
  MULTIFORA_DASSERT(open_);
  const Bytes bytes = document.bytes();
  out_->append(bytes.substr(4, bytes.size() - 5));
  return *this;
}

DocumentBuilder DocumentBuilder::object(std::string_view name) {
  begin(BsonType::kObject, name);
  return DocumentBuilder(out_);
}

ArrayBuilder DocumentBuilder::array(std::string_view name) {
  begin(BsonType::kArray, name);
  return ArrayBuilder(DocumentBuilder(out_));
}

std::size_t DocumentBuilder::size_bytes() const {
  return out_->size() - start_;
}

void DocumentBuilder::close() {
  if (!std::exchange(open_, false)) return;
  out_->push_back('\0');
  store_le(out_->data() + start_, static_cast<std::int32_t>(out_->size() - start_));
}

OwnedDocument DocumentBuilder::finish() && {
  MULTIFORA_ASSERT(out_ == &own_);
  close();
  return OwnedDocument::assume_valid(std::move(own_));
}

// ---- ArrayBuilder ----

ArrayBuilder::ArrayBuilder() = default;

ArrayBuilder::ArrayBuilder(Buffer* append_to) : document_(append_to) {}

ArrayBuilder ArrayBuilder::array() {
  return document_.array(next_name());
}

std::string_view ArrayBuilder::next_name() {
  const auto [end, error] = std::to_chars(name_, name_ + sizeof name_, count_++);
  return {name_, static_cast<std::size_t>(end - name_)};
}

}  // namespace multifora
