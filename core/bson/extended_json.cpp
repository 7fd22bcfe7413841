// Writing extended JSON; extended_json_parse.cpp reads it.
#include "core/bson/extended_json.h"

#include <cmath>

#include "core/bson/json_text.h"
#include "core/bson/validate.h"

namespace multifora {

namespace {

constexpr std::string_view kReplacementCharacter = "\xef\xbf\xbd";

// Appends JSON to one string. Recursion is as deep as the document, which the validator bounds.
class Writer {
 public:
  Writer(JsonMode mode, std::string& out) : relaxed_(mode == JsonMode::kRelaxed), out_(out) {}

  void object(DocumentView document) {
    out_.push_back('{');
    bool first = true;
    for (const Element& element : document) {
      if (!first) out_.push_back(',');
      first = false;
      string(element.name());
      out_.push_back(':');
      value(element.value());
    }
    out_.push_back('}');
  }

  void value(const ValueView& v) {
    switch (v.type()) {
      case BsonType::kDouble:
        return number(v.as_double());
      case BsonType::kString:
        return string(v.as_string());
      case BsonType::kObject:
        return object(v.as_document());
      case BsonType::kArray:
        return array(v.as_document());
      case BsonType::kBinData:
        return binary(v);
      case BsonType::kEOO:
      case BsonType::kUndefined:
        return raw(R"({"$undefined":true})");
      case BsonType::kObjectId:
        return quoted_form("$oid", v.as_object_id().to_hex());
      case BsonType::kBool:
        return raw(v.as_bool() ? "true" : "false");
      case BsonType::kDate:
        return date(v.as_date_ms());
      case BsonType::kNull:
        return raw("null");
      case BsonType::kRegex:
        return regex(v);
      case BsonType::kDBRef:
        return db_pointer(v);
      case BsonType::kCode:
        return string_form("$code", v.as_string());
      case BsonType::kSymbol:
        return string_form("$symbol", v.as_string());
      case BsonType::kCodeWithScope:
        return code_with_scope(v);
      case BsonType::kInt32:
        return integer("$numberInt", v.as_int32());
      case BsonType::kTimestamp:
        return timestamp(v.as_timestamp());
      case BsonType::kInt64:
        return integer("$numberLong", v.as_int64());
      case BsonType::kDecimal128:
        return quoted_form("$numberDecimal", v.as_decimal().to_string());
      case BsonType::kMinKey:
        return raw(R"({"$minKey":1})");
      case BsonType::kMaxKey:
        return raw(R"({"$maxKey":1})");
    }
  }

 private:
  void raw(std::string_view text) { out_.append(text); }

  // {"$name":"text"}, text being plain ASCII.
  void quoted_form(std::string_view name, std::string_view text) {
    raw("{\"");
    raw(name);
    raw("\":\"");
    raw(text);
    raw("\"}");
  }
  // The same with any text.
  void string_form(std::string_view name, std::string_view text) {
    raw("{\"");
    raw(name);
    raw("\":");
    string(text);
    raw("}");
  }

  void array(DocumentView elements) {
    out_.push_back('[');
    bool first = true;
    for (const Element& element : elements) {
      if (!first) out_.push_back(',');
      first = false;
      value(element.value());
    }
    out_.push_back(']');
  }

  void integer(std::string_view form, std::int64_t n) {
    if (relaxed_) return raw(std::to_string(n));
    quoted_form(form, std::to_string(n));
  }

  void number(double d) {
    if (relaxed_ && std::isfinite(d)) return json_text::append_double(d, out_);
    quoted_form("$numberDouble", json_text::double_text(d));
  }

  void binary(const ValueView& v) {
    raw(R"({"$binary":{"base64":")");
    json_text::append_base64(json_text::binary_content(v), out_);
    raw(R"(","subType":")");
    json_text::append_hex_byte(v.binary_subtype(), out_);
    raw(R"("}})");
  }

  void date(std::int64_t ms) {
    raw(R"({"$date":)");
    if (relaxed_ && json_text::has_iso_date(ms)) {
      raw("\"");
      json_text::append_iso_date(ms, out_);
      raw("\"}");
    } else {
      quoted_form("$numberLong", std::to_string(ms));
      raw("}");
    }
  }

  void regex(const ValueView& v) {
    raw(R"({"$regularExpression":{"pattern":)");
    string(v.regex_pattern());
    raw(R"(,"options":)");
    string(json_text::sorted_options(v));
    raw("}}");
  }

  void db_pointer(const ValueView& v) {
    raw(R"({"$dbPointer":{"$ref":)");
    string(v.dbref_namespace());
    raw(R"(,"$id":)");
    quoted_form("$oid", v.dbref_id().to_hex());
    raw("}}");
  }

  void code_with_scope(const ValueView& v) {
    raw(R"({"$code":)");
    string(v.code_with_scope_code());
    raw(R"(,"$scope":)");
    object(v.code_with_scope_scope());
    raw("}");
  }

  void timestamp(std::uint64_t t) {
    raw(R"({"$timestamp":{"t":)");
    raw(std::to_string(t >> 32));
    raw(R"(,"i":)");
    raw(std::to_string(t & 0xffffffff));
    raw("}}");
  }

  void string(std::string_view text) {
    out_.push_back('"');
    if (is_valid_utf8(text)) {
      escaped(text);
    } else {
      replacing_bad_utf8(text);
    }
    out_.push_back('"');
  }

  void escaped(std::string_view text) {
    std::size_t plain = 0;  // start of what needs no escape and is not written yet
    for (std::size_t i = 0; i < text.size(); ++i) {
      const auto c = static_cast<unsigned char>(text[i]);
      if (c >= 0x20 && c != '"' && c != '\\') continue;
      raw(text.substr(plain, i - plain));
      plain = i + 1;
      escape(c);
    }
    raw(text.substr(plain));
  }

  void escape(unsigned char c) {
    constexpr std::string_view kNamed = "\"\\\b\f\n\r\t";
    constexpr std::string_view kNames = "\"\\bfnrt";
    out_.push_back('\\');
    if (const std::size_t at = kNamed.find(static_cast<char>(c)); at != std::string_view::npos) {
      out_.push_back(kNames[at]);
    } else {
      raw("u00");
      json_text::append_hex_byte(c, out_);
    }
  }

  // Documents may come from clients that were not asked for UTF-8; JSON must be UTF-8 all the same.
  void replacing_bad_utf8(std::string_view text) {
    while (!text.empty()) {
      std::size_t length = 1;
      while (length < 4 && length < text.size() && !is_valid_utf8(text.substr(0, length))) ++length;
      const bool good = is_valid_utf8(text.substr(0, length));
      if (good) {
        escaped(text.substr(0, length));
      } else {
        raw(kReplacementCharacter);
      }
      text.remove_prefix(good ? length : 1);
    }
  }

  bool relaxed_;
  std::string& out_;
};

}  // namespace

std::string to_extended_json(DocumentView document, JsonMode mode) {
  std::string out;
  Writer(mode, out).object(document);
  return out;
}

std::string to_extended_json(const ValueView& value, JsonMode mode) {
  std::string out;
  Writer(mode, out).value(value);
  return out;
}

}  // namespace multifora
