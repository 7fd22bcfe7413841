// Extended JSON as a document: the same forms that extended_json.cpp writes as text.
#include <algorithm>
#include <cmath>

#include "core/bson/builder.h"
#include "core/bson/extended_json.h"
#include "core/bson/json_text.h"

namespace multifora {
namespace {

// Recursion is as deep as the value, which the validator bounds.
class Wrapper {
 public:
  explicit Wrapper(JsonMode mode) : relaxed_(mode == JsonMode::kRelaxed) {}

  void append(DocumentBuilder& out, std::string_view name, const ValueView& v) const {
    const auto form = [&](std::string_view key, std::string_view text) {
      out.object(name).append(key, text);
    };
    switch (v.type()) {
      case BsonType::kString:
      case BsonType::kBool:
      case BsonType::kNull:
        out.append(name, v);
        return;
      case BsonType::kObject: {
        DocumentBuilder object = out.object(name);
        return members(object, v.as_document());
      }
      case BsonType::kArray: {
        ArrayBuilder array = out.array(name);
        for (const Element& element : v.as_document())
          append(array.raw(), array.next_name(), element.value());
        return;
      }
      case BsonType::kDouble:
        if (!relaxed_ || !std::isfinite(v.as_double()))
          return form("$numberDouble", json_text::double_text(v.as_double()));
        out.append(name, v);
        return;
      case BsonType::kInt32:
        if (!relaxed_) return form("$numberInt", std::to_string(v.as_int32()));
        out.append(name, v);
        return;
      case BsonType::kInt64:
        if (!relaxed_) return form("$numberLong", std::to_string(v.as_int64()));
        out.append(name, v);
        return;
      case BsonType::kDecimal128:
        return form("$numberDecimal", v.as_decimal().to_string());
      case BsonType::kObjectId:
        return form("$oid", v.as_object_id().to_hex());
      case BsonType::kCode:
        return form("$code", v.as_string());
      case BsonType::kSymbol:
        return form("$symbol", v.as_string());
      case BsonType::kDate:
        return date(out, name, v.as_date_ms());
      case BsonType::kTimestamp: {
        DocumentBuilder object = out.object(name);
        DocumentBuilder parts = object.object("$timestamp");
        parts.append("t", static_cast<std::int64_t>(v.as_timestamp() >> 32));
        parts.append("i", static_cast<std::int64_t>(v.as_timestamp() & 0xffffffff));
        return;
      }
      case BsonType::kBinData:
        return binary(out, name, v);
      case BsonType::kRegex:
        return regex(out, name, v);
      case BsonType::kDBRef: {
        DocumentBuilder object = out.object(name);
        DocumentBuilder pointer = object.object("$dbPointer");
        pointer.append("$ref", v.dbref_namespace());
        pointer.object("$id").append("$oid", v.dbref_id().to_hex());
        return;
      }
      case BsonType::kCodeWithScope: {
        DocumentBuilder object = out.object(name);
        object.append("$code", v.code_with_scope_code());
        DocumentBuilder scope = object.object("$scope");
        return members(scope, v.code_with_scope_scope());
      }
      case BsonType::kEOO:
      case BsonType::kUndefined:
        out.object(name).append("$undefined", true);
        return;
      case BsonType::kMinKey:
        out.object(name).append("$minKey", std::int32_t{1});
        return;
      case BsonType::kMaxKey:
        out.object(name).append("$maxKey", std::int32_t{1});
        return;
    }
  }

 private:
  void members(DocumentBuilder& out, DocumentView document) const {
    for (const Element& element : document) append(out, element.name(), element.value());
  }

  void date(DocumentBuilder& out, std::string_view name, std::int64_t ms) const {
    DocumentBuilder object = out.object(name);
    if (relaxed_ && json_text::has_iso_date(ms)) {
      std::string text;
      json_text::append_iso_date(ms, text);
      object.append("$date", text);
    } else {
      object.object("$date").append("$numberLong", std::to_string(ms));
    }
  }

  void binary(DocumentBuilder& out, std::string_view name, const ValueView& v) const {
    std::string base64, subtype;
    json_text::append_base64(json_text::binary_content(v), base64);
    json_text::append_hex_byte(v.binary_subtype(), subtype);
    DocumentBuilder object = out.object(name);
    object.object("$binary").append("base64", base64).append("subType", subtype);
  }

  void regex(DocumentBuilder& out, std::string_view name, const ValueView& v) const {
    DocumentBuilder object = out.object(name);
    object.object("$regularExpression")
        .append("pattern", v.regex_pattern())
        .append("options", json_text::sorted_options(v));
  }

  bool relaxed_;
};

}  // namespace

void append_extended_json(DocumentBuilder& out, std::string_view name, const ValueView& value,
                          JsonMode mode) {
  Wrapper(mode).append(out, name, value);
}

}  // namespace multifora
