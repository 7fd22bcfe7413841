// Internal to patches: op bytes, counts and the reader of a patch. The format is written down at
// the top of patch.cpp. Plain values, one thread; the reader never leaves its bytes.
#pragma once

#include <cstdint>
#include <limits>

#include "core/base/limits.h"
#include "core/base/status.h"
#include "core/bson/validate.h"
#include "core/bson/view.h"

namespace multifora::patch_format {

// 1 was a diff without names.
enum class Kind : std::uint8_t { kReplace = 0, kDiff = 2 };

enum class Op : std::uint8_t {
  kEnd = 0,
  kKeep = 1,
  kRemove = 2,
  kInsert = 3,
  kSet = 4,
  kDescend = 5,
};
inline constexpr std::uint8_t kOpMax = 5;

inline constexpr int kOpBits = 3;
inline constexpr std::uint32_t kLongCount = 31;  // in the op byte: the count follows

inline constexpr int kDepthMax = static_cast<int>(limits::kNestingDepthParseMax);

inline void append_op(Op op, std::uint32_t count, Buffer& out) {
  const std::uint32_t in_byte = count < kLongCount ? count : kLongCount;
  out.push_back(static_cast<char>(static_cast<std::uint32_t>(op) | in_byte << kOpBits));
  if (in_byte != kLongCount) return;
  for (; count >= 0x80; count >>= 7) out.push_back(static_cast<char>(count | 0x80));
  out.push_back(static_cast<char>(count));
}

// After a failure ok() is false and every read gives kEnd, 0 or an empty document.
class PatchReader {
 public:
  explicit PatchReader(Bytes bytes) : rest_(bytes) {}

  bool ok() const { return ok_; }
  void fail() { ok_ = false; }
  bool at_end() const { return rest_.empty(); }

  std::uint8_t byte() {
    if (!ok_ || rest_.empty()) {
      ok_ = false;
      return 0;
    }
    const auto value = static_cast<std::uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return value;
  }

  struct Step {
    Op op = Op::kEnd;
    std::uint32_t count = 0;
  };
  Step step() {
    const std::uint8_t first = byte();
    const std::uint8_t op = first & ((1u << kOpBits) - 1);
    Step s{static_cast<Op>(op), static_cast<std::uint32_t>(first >> kOpBits)};
    if (s.count == kLongCount) s.count = varint();
    if (op > kOpMax) ok_ = false;
    return ok_ ? s : Step{};
  }

  // A name up to its zero byte.
  std::string_view name() {
    const std::size_t end = ok_ ? rest_.find('\0') : Bytes::npos;
    if (end == Bytes::npos) {
      ok_ = false;
      return {};
    }
    const std::string_view found = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return found;
  }

  // A whole document that nests at most `depth_max` levels.
  DocumentView document(int depth_max) {
    ValidateOptions options;
    options.depth_max = static_cast<std::size_t>(depth_max > 0 ? depth_max : 0);
    options.require_utf8 = false;  // `before` may hold any text, and so may what replaced it
    const auto view =
        ok_ && depth_max > 0
            ? validate_prefix(rest_, options)
            : Result<DocumentView>(multifora::fail(ErrorCode::kInvalidBSON, "malformed patch"));
    if (!view) {
      ok_ = false;
      return {};
    }
    rest_.remove_prefix(view->size_bytes());
    return *view;
  }

 private:
  std::uint32_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 35; shift += 7) {
      const std::uint8_t b = byte();
      value |= std::uint64_t{b & 0x7fu} << shift;
      if ((b & 0x80) != 0) continue;
      if (value <= std::numeric_limits<std::uint32_t>::max()) {
        return static_cast<std::uint32_t>(value);
      }
      break;
    }
    ok_ = false;
    return 0;
  }

  Bytes rest_;
  bool ok_ = true;
};

// May `op` have this count?
inline bool count_fits(Op op, std::uint32_t count) {
  if (op == Op::kKeep || op == Op::kRemove) return count != 0;
  return count <= (op == Op::kDescend ? 1u : 0u);
}

inline bool is_container(BsonType type) {
  return type == BsonType::kObject || type == BsonType::kArray;
}

// The elements from a place on. The document's terminator is not part of rest().
class Cursor {
 public:
  explicit Cursor(DocumentView document)
      : it_(document.begin()), end_(document.data() + document.size_bytes() - 1) {}

  bool done() const { return it_ == std::default_sentinel; }
  const Element& element() const { return *it_; }
  void next() {
    ++it_;
    ++index_;
  }
  // Passes `count` elements that are known to take `size` bytes.
  void skip(std::size_t size, std::size_t count) {
    it_ = DocumentView::Iterator(position() + size);
    index_ += count;
  }
  std::size_t index() const { return index_; }
  const char* position() const { return it_.position(); }
  // The whole bytes of the element: type, name, value.
  Bytes bytes() const {
    const ValueView& value = it_->value();
    const char* end = value.data() + value.size_bytes();
    return {position(), static_cast<std::size_t>(end - position())};
  }
  Bytes rest() const { return {position(), static_cast<std::size_t>(end_ - position())}; }

 private:
  DocumentView::Iterator it_;
  const char* end_;
  std::size_t index_ = 0;
};

// The patch of kind diff, also where a replacement would be shorter.
Buffer make_diff(DocumentView before, DocumentView after,
                 std::span<const std::string> assigned = {});

}  // namespace multifora::patch_format
