// DocumentBuilder writes BSON into a Buffer. One owner, one thread.
//
//   DocumentBuilder b;
//   b.append("n", 1);
//   { auto sub = b.object("cursor"); sub.append("id", std::int64_t{0}); }   // closed by scope
//   OwnedDocument d = std::move(b).finish();
//
// While a nested builder is open its parent must not be used, moved or destroyed. Names are copied
// as they are: the caller sees that they (and regex patterns and options) hold no NUL. Names and
// values must not view the builder's own buffer. append(name, missing value) appends nothing.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/base/bytes.h"
#include "core/bson/view.h"

namespace multifora {

class ArrayBuilder;

class DocumentBuilder {
 public:
  DocumentBuilder();                            // owns its buffer
  explicit DocumentBuilder(Buffer* append_to);  // appends a document at the end of *append_to
  DocumentBuilder(DocumentBuilder&& other) noexcept;
  DocumentBuilder(const DocumentBuilder&) = delete;
  DocumentBuilder& operator=(DocumentBuilder&&) = delete;
  ~DocumentBuilder();  // closes an unfinished nested or appended-to document

  DocumentBuilder& append(std::string_view name, double value);
  DocumentBuilder& append(std::string_view name, std::int32_t value);
  DocumentBuilder& append(std::string_view name, std::int64_t value);
  DocumentBuilder& append(std::string_view name, long long value) {
    return append(name, static_cast<std::int64_t>(value));
  }
  DocumentBuilder& append(std::string_view name, bool value);
  DocumentBuilder& append(std::string_view name, std::string_view value);
  DocumentBuilder& append(std::string_view name, const char* value) {
    return append(name, std::string_view(value));
  }
  DocumentBuilder& append(std::string_view name, const std::string& value) {
    return append(name, std::string_view(value));
  }
  DocumentBuilder& append(std::string_view name, DocumentView value);  // as an object
  DocumentBuilder& append(std::string_view name, ObjectId value);
  DocumentBuilder& append(std::string_view name, Decimal128 value);
  DocumentBuilder& append(std::string_view name, ValueView value);
  DocumentBuilder& append(const Element& element) {
    return append(element.name(), element.value());
  }
  DocumentBuilder& append_array(std::string_view name, DocumentView array);
  DocumentBuilder& append_null(std::string_view name);
  DocumentBuilder& append_undefined(std::string_view name);
  DocumentBuilder& append_min_key(std::string_view name);
  DocumentBuilder& append_max_key(std::string_view name);
  DocumentBuilder& append_date_ms(std::string_view name, std::int64_t ms);
  DocumentBuilder& append_timestamp(std::string_view name, std::uint64_t timestamp);
  // `bytes` is the value's content as stored: for subtype 2 with its inner length.
  DocumentBuilder& append_binary(std::string_view name, Bytes bytes, std::uint8_t subtype);
  DocumentBuilder& append_regex(std::string_view name, std::string_view pattern,
                                std::string_view options);
  DocumentBuilder& append_code(std::string_view name, std::string_view code);
  DocumentBuilder& append_symbol(std::string_view name, std::string_view symbol);
  DocumentBuilder& append_code_with_scope(std::string_view name, std::string_view code,
                                          DocumentView scope);
  DocumentBuilder& append_dbref(std::string_view name, std::string_view ns, ObjectId id);
  // Every element of `document`, in order.
  DocumentBuilder& append_all(DocumentView document);

  DocumentBuilder object(std::string_view name);
  ArrayBuilder array(std::string_view name);

  // Bytes written so far for this document (without the terminator).
  std::size_t size_bytes() const;
  // Closes a nested or appended-to document before its scope ends; nothing may be appended after.
  void close();
  // Closes and hands out the owned buffer. Requires the default constructor.
  OwnedDocument finish() &&;

 private:
  friend class ArrayBuilder;
  void begin(BsonType type, std::string_view name);
  Buffer own_;
  Buffer* out_;
  std::size_t start_;
  bool open_ = true;
};

// The same for an array: names are "0", "1", ...
class ArrayBuilder {
 public:
  ArrayBuilder();
  explicit ArrayBuilder(Buffer* append_to);
  ArrayBuilder(ArrayBuilder&&) noexcept = default;

  template <class T>
  ArrayBuilder& append(const T& value) {
    document_.append(next_name(), value);
    return *this;
  }
  ArrayBuilder& append_array(DocumentView array) {
    document_.append_array(next_name(), array);
    return *this;
  }
  ArrayBuilder& append_null() {
    document_.append_null(next_name());
    return *this;
  }
  DocumentBuilder object() { return document_.object(next_name()); }
  ArrayBuilder array();
  std::uint32_t count() const { return count_; }
  std::size_t size_bytes() const { return document_.size_bytes(); }
  void close() { document_.close(); }
  OwnedDocument finish() && { return std::move(document_).finish(); }
  // Name of the next element, for appends that ArrayBuilder has no form of:
  // `array.raw().append_date_ms(array.next_name(), ms)`. Counts it as used.
  std::string_view next_name();
  DocumentBuilder& raw() { return document_; }

 private:
  friend class DocumentBuilder;
  explicit ArrayBuilder(DocumentBuilder&& document) : document_(std::move(document)) {}
  DocumentBuilder document_;
  std::uint32_t count_ = 0;
  char name_[12];
};

}  // namespace multifora
