// Reading extended JSON: recursive descent over the text, writing BSON as it goes. An object is
// written as a plain document; if one of its keys could make it stand for another value, the
// document is replaced by that value (extended_json_forms.h) when it is closed. The outermost
// object is always a document.
#include <algorithm>
#include <charconv>

#include "core/base/limits.h"
#include "core/bson/extended_json.h"
#include "core/bson/extended_json_forms.h"
#include "core/bson/json_text.h"
#include "core/bson/validate.h"

namespace multifora {

namespace {

// {"$binary": {"base64": ...}} at the deepest allowed place takes two levels more.
constexpr std::size_t kJsonDepthMax = limits::kNestingDepthParseMax + 2;
// Lengths in BSON are int32, and no text is shorter than a seventh of its BSON ("[0,0," ...).
constexpr std::size_t kTextSizeMax = std::size_t{256} * 1024 * 1024;

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<OwnedDocument> parse() {
    if (text_.size() > kTextSizeMax) return fail(ErrorCode::kFailedToParse, "JSON text too long");
    if (!is_valid_utf8(text_)) return fail(ErrorCode::kFailedToParse, "JSON text is not UTF-8");
    if (!document()) return fail(failure());
    ValidateOptions options;
    options.size_bytes_max = out_.size();
    if (auto valid = validate(out_, options); !valid) {
      return fail(ErrorCode::kFailedToParse, valid.error().message());
    }
    return OwnedDocument::assume_valid(std::move(out_));
  }

 private:
  Status failure() const {
    const std::string_view before = text_.substr(0, mistake_at_);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const std::size_t column = before.size() - (before.rfind('\n') + 1) + 1;
    return Status(ErrorCode::kFailedToParse, std::string(mistake_) + " at line " +
                                                 std::to_string(line) + ", column " +
                                                 std::to_string(column));
  }

  bool bad(const char* mistake, std::size_t at) {
    mistake_ = mistake;
    mistake_at_ = at;
    return false;
  }
  bool bad(const char* mistake) { return bad(mistake, at_); }

  // ---- tokens ----

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void skip_space() {
    while (at_ < text_.size() &&
           std::string_view(" \t\r\n").find(text_[at_]) != std::string::npos) {
      ++at_;
    }
  }
  bool eat(char c) {
    if (peek() != c || at_ == text_.size()) return false;
    ++at_;
    return true;
  }
  bool eat_after_space(char c) {
    skip_space();
    return eat(c);
  }
  bool word(std::string_view w) {
    if (!text_.substr(at_).starts_with(w)) return bad("unexpected text");
    at_ += w.size();
    return true;
  }

  // ---- structure ----

  bool document() {
    skip_space();
    if (peek() != '{') return bad("expected '{'");
    if (!object(1, nullptr)) return false;
    skip_space();
    return at_ == text_.size() || bad("unexpected text after the document");
  }

  // Writes a value's bytes; its type goes to out_[type_at].
  bool value(std::size_t type_at, std::size_t depth) {
    skip_space();
    BsonType type = BsonType::kNull;
    bool good = false;
    switch (peek()) {
      case '{':
        type = BsonType::kObject;
        good = object(depth, &type);
        break;
      case '[':
        type = BsonType::kArray;
        good = array(depth);
        break;
      case '"':
        type = BsonType::kString;
        good = string_value();
        break;
      case 't':
        type = BsonType::kBool;
        good = word("true");
        out_.push_back('\1');
        break;
      case 'f':
        type = BsonType::kBool;
        good = word("false");
        out_.push_back('\0');
        break;
      case 'n':
        good = word("null");
        break;
      default:
        good = number(&type);
        break;
    }
    out_[type_at] = static_cast<char>(type);
    return good;
  }

  std::size_t begin_document() {
    out_.append(4, '\0');
    return out_.size() - 4;
  }
  void end_document(std::size_t start) {
    out_.push_back('\0');
    store_le(out_.data() + start, static_cast<std::int32_t>(out_.size() - start));
  }

  // At '{'. `type` is null for the outermost object.
  bool object(std::size_t depth, BsonType* type) {
    const std::size_t text_start = at_++;
    if (depth > kJsonDepthMax) return bad("nested too deeply");
    const std::size_t start = begin_document();
    bool may_be_form = false;
    if (!eat_after_space('}')) {
      do {
        if (!member(depth, &may_be_form)) return false;
      } while (eat_after_space(','));
      if (!eat('}')) return bad("expected ',' or '}'");
    }
    end_document(start);
    return !may_be_form || type == nullptr || replace_form(start, text_start, type);
  }

  bool member(std::size_t depth, bool* may_be_form) {
    skip_space();
    const std::size_t name_text_at = at_;
    const std::size_t type_at = out_.size();
    out_.push_back('\0');
    if (!string()) return false;
    const auto name = std::string_view(out_).substr(type_at + 1);
    if (name.find('\0') != std::string_view::npos) return bad("NUL in a name", name_text_at);
    *may_be_form = *may_be_form || extended_json::is_form_key(name);
    out_.push_back('\0');
    if (!eat_after_space(':')) return bad("expected ':'");
    return value(type_at, depth + 1);
  }

  bool replace_form(std::size_t start, std::size_t text_start, BsonType* type) {
    Buffer form;
    const char* mistake = nullptr;
    const auto object = DocumentView::assume_valid(out_.data() + start);
    switch (extended_json::read_form(object, type, form, &mistake)) {
      case extended_json::Form::kPlain:
        return true;
      case extended_json::Form::kBad:
        return bad(mistake, text_start);
      case extended_json::Form::kValue:
        break;
    }
    out_.resize(start);
    out_.append(form);
    return true;
  }

  // At '['.
  bool array(std::size_t depth) {
    ++at_;
    if (depth > kJsonDepthMax) return bad("nested too deeply");
    const std::size_t start = begin_document();
    std::uint32_t index = 0;
    if (!eat_after_space(']')) {
      do {
        char name[12];
        const char* end = std::to_chars(name, name + sizeof name, index++).ptr;
        const std::size_t type_at = out_.size();
        out_.push_back('\0');
        out_.append(name, static_cast<std::size_t>(end - name)).push_back('\0');
        if (!value(type_at, depth + 1)) return false;
      } while (eat_after_space(','));
      if (!eat(']')) return bad("expected ',' or ']'");
    }
    end_document(start);
    return true;
  }

  // ---- strings ----

  bool string_value() {
    const std::size_t start = out_.size();
    out_.append(4, '\0');
    if (!string()) return false;
    out_.push_back('\0');
    store_le(out_.data() + start, static_cast<std::int32_t>(out_.size() - start - 4));
    return true;
  }

  // Appends the text of a string literal.
  bool string() {
    if (!eat('"')) return bad("expected a string");
    while (true) {
      const std::size_t plain = at_;
      while (at_ < text_.size() && static_cast<unsigned char>(text_[at_]) >= 0x20 &&
             text_[at_] != '"' && text_[at_] != '\\') {
        ++at_;
      }
      out_.append(text_.substr(plain, at_ - plain));
      if (at_ == text_.size()) return bad("a string without an end");
      if (eat('"')) return true;
      if (!eat('\\')) return bad("a control character in a string");
      if (!escape()) return false;
    }
  }

  bool escape() {
    constexpr std::string_view kNames = "\"\\/bfnrt";
    constexpr std::string_view kNamed = "\"\\/\b\f\n\r\t";
    if (eat('u')) return unicode_escape();
    const std::size_t at = at_ < text_.size() ? kNames.find(text_[at_]) : std::string_view::npos;
    if (at == std::string_view::npos) return bad("an unknown escape");
    out_.push_back(kNamed[at]);
    ++at_;
    return true;
  }

  bool unicode_escape() {
    const std::size_t start = at_ - 2;
    std::uint32_t code = 0;
    if (!hex4(&code)) return false;
    if (code >= 0xd800 && code < 0xdc00) {
      std::uint32_t low = 0;
      if (!eat('\\') || !eat('u')) return bad("half of a surrogate pair", start);
      if (!hex4(&low)) return false;
      if (low < 0xdc00 || low > 0xdfff) return bad("half of a surrogate pair", start);
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if (code >= 0xdc00 && code < 0xe000) {
      return bad("half of a surrogate pair", start);
    }
    append_utf8(code);
    return true;
  }

  bool hex4(std::uint32_t* code) {
    const std::string_view digits = text_.substr(at_, 4);
    const char* end = digits.data() + digits.size();
    const auto [parsed, error] = std::from_chars(digits.data(), end, *code, 16);
    if (digits.size() != 4 || parsed != end || error != std::errc{}) {
      return bad("expected four hexadecimal digits");
    }
    at_ += 4;
    return true;
  }

  void append_utf8(std::uint32_t code) {
    const auto tail = [&](int shift) { return static_cast<char>(0x80 | (code >> shift & 0x3f)); };
    if (code < 0x80) {
      out_.push_back(static_cast<char>(code));
      return;
    }
    if (code < 0x800) {
      out_.push_back(static_cast<char>(0xc0 | code >> 6));
    } else {
      if (code < 0x10000) {
        out_.push_back(static_cast<char>(0xe0 | code >> 12));
      } else {
        out_.push_back(static_cast<char>(0xf0 | code >> 18));
        out_.push_back(tail(12));
      }
      out_.push_back(tail(6));
    }
    out_.push_back(tail(0));
  }

  // ---- numbers ----

  bool digits() {
    const std::size_t start = at_;
    while (peek() >= '0' && peek() <= '9') ++at_;
    return at_ > start || bad("expected a digit");
  }

  // JSON's grammar; an integer is an int32, int64 or double, the first that holds it.
  bool number(BsonType* type) {
    const std::size_t start = at_;
    eat('-');
    if (peek() < '0' || peek() > '9') return bad("expected a value", start);
    if (!eat('0') && !digits()) return false;
    bool integral = true;
    if (eat('.')) {
      integral = false;
      if (!digits()) return false;
    }
    if (eat('e') || eat('E')) {
      integral = false;
      if (!eat('+')) eat('-');
      if (!digits()) return false;
    }
    const std::string_view literal = text_.substr(start, at_ - start);
    if (integral && integer(literal, type)) return true;
    const auto parsed = json_text::parse_double(literal);
    if (!parsed) return bad("a number out of range", start);
    append_le(out_, *parsed);
    *type = BsonType::kDouble;
    return true;
  }

  bool integer(std::string_view literal, BsonType* type) {
    const auto parsed = json_text::parse_int64(literal);
    if (!parsed) return false;
    const auto narrow = static_cast<std::int32_t>(*parsed);
    if (narrow == *parsed) {
      append_le(out_, narrow);
      *type = BsonType::kInt32;
    } else {
      append_le(out_, *parsed);
      *type = BsonType::kInt64;
    }
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  Buffer out_;
  const char* mistake_ = "";
  std::size_t mistake_at_ = 0;
};

}  // namespace

Result<OwnedDocument> from_extended_json(std::string_view json) {
  return Parser(json).parse();
}

}  // namespace multifora
