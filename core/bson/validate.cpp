#include "core/bson/validate.h"

#include <bit>
#include <cstdint>

#include "core/base/limits.h"

namespace multifora {

namespace {

using limits::kNestingDepthParseMax;

constexpr std::size_t kDocumentBytesMin = 5;
constexpr std::uint64_t kHighBits = 0x8080808080808080ull;
constexpr std::uint64_t kLowBits = 0x0101010101010101ull;

bool is_continuation(unsigned char byte) {
  return (byte & 0xc0) == 0x80;
}

// Length of the well-formed sequence that starts at `p` with a byte above 0x7f; 0 for a wrong one:
// overlong, a surrogate, above U+10FFFF, or cut off. (Unicode, table 3-7.)
std::size_t multibyte_length(const unsigned char* p, std::size_t available) {
  const unsigned char lead = p[0];
  if (lead < 0xc2 || lead > 0xf4) return 0;
  const std::size_t length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  if (available < length || !is_continuation(p[1])) return 0;
  if (lead == 0xe0 && p[1] < 0xa0) return 0;
  if (lead == 0xed && p[1] > 0x9f) return 0;
  if (lead == 0xf0 && p[1] < 0x90) return 0;
  if (lead == 0xf4 && p[1] > 0x8f) return 0;
  for (std::size_t i = 2; i < length; ++i)
    if (!is_continuation(p[i])) return 0;
  return length;
}

// The first byte that is not part of well-formed UTF-8, or `end`.
const char* find_bad_utf8(const char* p, const char* end) {
  while (p != end) {
    while (end - p >= 8 && (load_le<std::uint64_t>(p) & kHighBits) == 0) p += 8;
    while (p != end && static_cast<signed char>(*p) >= 0) ++p;
    while (p != end && static_cast<signed char>(*p) < 0) {
      const std::size_t length = multibyte_length(reinterpret_cast<const unsigned char*>(p),
                                                  static_cast<std::size_t>(end - p));
      if (length == 0) return p;
      p += length;
    }
  }
  return end;
}

// Walks one document. `at_` is always inside the bytes; a step that cannot be made sets `mistake_`
// and where, and ends the walk.
class Validator {
 public:
  Validator(Bytes bytes, const ValidateOptions& options)
      : begin_(bytes.data()),
        require_utf8_(options.require_utf8),
        depth_max_(options.depth_max < kNestingDepthParseMax ? options.depth_max
                                                             : kNestingDepthParseMax) {}

  // Requires 5 <= size <= bytes.size().
  Status run(std::size_t size) {
    at_ = begin_ + 4;
    ends_[0] = begin_ + size;
    depth_ = 1;
    if (walk()) return {};
    return Status(code_, std::string("Invalid BSON: ") + mistake_ + " at offset " +
                             std::to_string(where_ - begin_));
  }

 private:
  // `end()` is one past the open document's terminator. Invariant: at_ < end().
  const char* end() const { return ends_[depth_ - 1]; }
  // Bytes that a value may take, the terminator of its document kept.
  std::size_t room() const { return static_cast<std::size_t>(end() - 1 - at_); }

  bool bad(const char* mistake, const char* where) {
    mistake_ = mistake;
    where_ = where;
    return false;
  }

  bool walk() {
    while (true) {
      const auto type = static_cast<std::uint8_t>(*at_);
      if (type == 0) {
        if (at_ + 1 != end()) return bad("a document ends before its stated length", at_);
        at_ = end();
        if (--depth_ == 0) return true;
      } else {
        // A last byte that is not the terminator leaves no room for a name either.
        if (at_ + 1 == end()) return bad("a document lacks its terminator", at_);
        const char* element = at_++;
        if (!name() || !value(type, element)) return false;
      }
      if (at_ >= end()) return bad("a document lacks its terminator", at_);
    }
  }

  // Moves past a C string that ends before the document's terminator.
  bool name() {
    const char* const start = at_;
    const char* const limit = end() - 1;
    // Eight bytes at a time while they are ASCII; the lowest mark of the zero test is exact then.
    const char* p = start;
    while (limit - p >= 8) {
      const auto word = load_le<std::uint64_t>(p);
      const std::uint64_t zeros = (word - kLowBits) & ~word & kHighBits;
      if ((word & kHighBits) != 0) break;
      if (zeros != 0) {
        at_ = p + std::countr_zero(zeros) / 8 + 1;
        return true;
      }
      p += 8;
    }
    const auto* nul =
        static_cast<const char*>(std::memchr(p, 0, static_cast<std::size_t>(limit - p)));
    if (nul == nullptr) return bad("a name or pattern is not terminated", start);
    at_ = nul + 1;
    return !require_utf8_ || utf8(p, nul);
  }

  bool utf8(const char* from, const char* to) {
    const char* wrong = find_bad_utf8(from, to);
    return wrong == to || bad("invalid UTF-8", wrong);
  }

  bool skip(std::size_t size) {
    if (room() < size) return bad("a value is longer than its document", at_);
    at_ += size;
    return true;
  }

  // Length, text, NUL.
  bool text() {
    if (room() < 4) return bad("a value is longer than its document", at_);
    const auto length = load_le<std::uint32_t>(at_);
    if (length == 0 || length > room() - 4) return bad("a string has a wrong length", at_);
    const char* from = at_ + 4;
    const char* nul = from + length - 1;
    if (*nul != 0) return bad("a string lacks its terminator", nul);
    at_ = nul + 1;
    return !require_utf8_ || utf8(from, nul);
  }

  bool boolean() {
    if (room() < 1) return bad("a value is longer than its document", at_);
    if (static_cast<std::uint8_t>(*at_) > 1) return bad("a boolean is neither 0 nor 1", at_);
    ++at_;
    return true;
  }

  bool binary() {
    if (room() < 5) return bad("a value is longer than its document", at_);
    const auto length = load_le<std::uint32_t>(at_);
    if (length > room() - 5) return bad("binary data has a wrong length", at_);
    // The old binary subtype repeats the length inside.
    if (at_[4] == 2 && (length < 4 || load_le<std::uint32_t>(at_ + 5) != length - 4))
      return bad("old binary data has a wrong inner length", at_ + 5);
    at_ += 5 + length;
    return true;
  }

  // Opens a nested document; walk() goes on inside it.
  bool open() {
    if (room() < kDocumentBytesMin) return bad("a document is longer than its parent", at_);
    const auto size = load_le<std::uint32_t>(at_);
    if (size < kDocumentBytesMin || size > room()) return bad("a document has a wrong length", at_);
    if (depth_ >= depth_max_) {
      code_ = ErrorCode::kOverflow;
      return bad("documents are nested too deeply", at_);
    }
    ends_[depth_++] = at_ + size;
    at_ += 4;
    return true;
  }

  // The total length must be exactly what the code and the scope take.
  bool code_with_scope() {
    const char* start = at_;
    if (room() < 4) return bad("a value is longer than its document", at_);
    const auto total = load_le<std::uint32_t>(at_);
    at_ += 4;
    if (!text()) return false;
    const auto before_scope = static_cast<std::size_t>(at_ - start);
    if (!open()) return false;
    if (before_scope + static_cast<std::size_t>(end() - (at_ - 4)) != total)
      return bad("code with scope has a wrong length", start);
    return true;
  }

  bool value(std::uint8_t type, const char* element) {
    switch (static_cast<BsonType>(static_cast<std::int8_t>(type))) {
      case BsonType::kDouble:
      case BsonType::kDate:
      case BsonType::kTimestamp:
      case BsonType::kInt64:
        return skip(8);
      case BsonType::kInt32:
        return skip(4);
      case BsonType::kDecimal128:
        return skip(16);
      case BsonType::kObjectId:
        return skip(12);
      case BsonType::kString:
      case BsonType::kCode:
      case BsonType::kSymbol:
        return text();
      case BsonType::kObject:
      case BsonType::kArray:
        return open();
      case BsonType::kBool:
        return boolean();
      case BsonType::kBinData:
        return binary();
      case BsonType::kUndefined:
      case BsonType::kNull:
      case BsonType::kMinKey:
      case BsonType::kMaxKey:
        return true;
      case BsonType::kRegex:
        return name() && name();
      case BsonType::kDBRef:
        return text() && skip(12);
      case BsonType::kCodeWithScope:
        return code_with_scope();
      case BsonType::kEOO:
        break;
    }
    return bad("an unknown type", element);
  }

  const char* const begin_;
  const bool require_utf8_;
  const std::size_t depth_max_;
  const char* at_ = nullptr;
  std::size_t depth_ = 0;
  const char* mistake_ = "";
  const char* where_ = nullptr;
  ErrorCode code_ = ErrorCode::kInvalidBSON;
  const char* ends_[kNestingDepthParseMax];  // of the open documents, outermost first
};

Status size_failure(std::int32_t stated, std::size_t available) {
  return Status(ErrorCode::kInvalidBSON,
                "Invalid BSON: a document has a wrong length at offset 0 (it states " +
                    std::to_string(stated) + " bytes, there are " + std::to_string(available) +
                    ")");
}

Result<DocumentView> validate_sized(Bytes bytes, const ValidateOptions& options, bool exact) {
  if (bytes.size() < kDocumentBytesMin) return fail(size_failure(0, bytes.size()));
  const auto stated = load_le<std::int32_t>(bytes.data());
  if (stated < static_cast<std::int32_t>(kDocumentBytesMin))
    return fail(size_failure(stated, bytes.size()));
  const auto size = static_cast<std::size_t>(stated);
  if (size > options.size_bytes_max)
    return fail(ErrorCode::kBSONObjectTooLarge, "BSONObj size: " + std::to_string(size) +
                                                    " is invalid. Size must be between 0 and " +
                                                    std::to_string(options.size_bytes_max));
  if (size > bytes.size() || (exact && size != bytes.size()))
    return fail(size_failure(stated, bytes.size()));
  MULTIFORA_TRY_R(Validator(bytes, options).run(size));
  return DocumentView::assume_valid(bytes);
}

}  // namespace

ValidateOptions::ValidateOptions()
    : size_bytes_max(limits::kDocumentSizeMax + limits::kDocumentSizeSlack),
      depth_max(limits::kNestingDepthParseMax) {}

Result<DocumentView> validate(Bytes bytes, const ValidateOptions& options) {
  return validate_sized(bytes, options, true);
}

Result<DocumentView> validate_prefix(Bytes bytes, const ValidateOptions& options) {
  return validate_sized(bytes, options, false);
}

bool is_valid_utf8(std::string_view text) {
  const char* end = text.data() + text.size();
  return find_bad_utf8(text.data(), end) == end;
}

}  // namespace multifora
