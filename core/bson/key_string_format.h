// Internal to the key string implementation: marker bytes, the type bits and the reader of key
// bytes. The format itself is written down at the top of key_string.cpp. Everything here is a plain
// value used by one thread; the reader never leaves its bytes and remembers its first failure.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "core/base/bytes.h"
#include "core/bson/view.h"

namespace multifora::key_string {

enum Marker : std::uint8_t {
  kEnd = 0x00,
  kMinKey = 0x0a,
  kUndefined = 0x0f,
  kNull = 0x14,
  kNumber = 0x1e,  // bracket only: before a name inside an object
  kNaN = 0x20,
  kNegativeLarge = 0x21,
  kNegative8 = 0x22,
  kNegative1 = 0x29,
  kNegativeSmall = 0x2a,
  kZero = 0x2b,
  kPositiveSmall = 0x2c,
  kPositive1 = 0x2d,
  kPositive8 = 0x34,
  kPositiveLarge = 0x35,
  kString = 0x3c,
  kObject = 0x46,
  kArray = 0x50,
  kBinData = 0x5a,
  kObjectId = 0x64,
  kFalse = 0x6e,  // also the bracket of bool
  kTrue = 0x6f,
  kDate = 0x78,
  kTimestamp = 0x82,
  kRegex = 0x8c,
  kDBRef = 0x96,
  kCode = 0xa0,
  kCodeWithScope = 0xaa,
  kMaxKey = 0xf0,
};

constexpr bool is_number_marker(std::uint8_t m) {
  return m >= kNaN && m <= kPositiveLarge;
}

// The bracket that a value's marker belongs to.
constexpr std::uint8_t bracket_of(std::uint8_t marker) {
  if (is_number_marker(marker)) return kNumber;
  if (marker == kTrue) return kFalse;
  return marker;
}

// What the type bits say about a number (see key_string.cpp).
enum class NumberCode : std::uint8_t { kDefault = 0, kDouble, kInt64, kDecimal, kRaw };

inline constexpr std::size_t kNumberSizeMax = 32;

struct EncodedNumber {
  std::uint8_t size = 0;
  NumberCode code = NumberCode::kDefault;
  std::uint8_t zeros = 0;  // for kDecimal: trailing zeros of the coefficient
};

// Writes the number's bytes at `to`, where kNumberSizeMax bytes may be written (more than its
// size). Requires a number of any type.
EncodedNumber encode_number(const ValueView& number, char* to);

// Bits are taken lowest first; past the end they are zero.
class TypeBitsReader {
 public:
  explicit TypeBitsReader(Bytes bytes) : bytes_(bytes) {}
  bool bit() {
    const std::size_t at = position_++;
    return at / 8 < bytes_.size() && ((bytes_[at / 8] >> (at % 8)) & 1) != 0;
  }
  std::uint64_t take(int count) {
    std::uint64_t value = 0;
    for (int i = 0; i < count; ++i) value |= std::uint64_t{bit()} << i;
    return value;
  }
  // True where the last bit read or an earlier one is the last set bit, and no byte is superfluous.
  bool exhausted() const {
    if (bytes_.empty()) return true;
    const auto last = static_cast<std::uint8_t>(bytes_.back());
    return last != 0 && bytes_.size() * 8 - std::countl_zero(last) <= position_;
  }

 private:
  Bytes bytes_;
  std::size_t position_ = 0;
};

// Reads key bytes; a descending field's are inverted on the way. After a failure every read gives
// zeros and ok() is false.
class KeyReader {
 public:
  KeyReader(Bytes bytes, bool descending)
      : at_(bytes.data()), end_(bytes.data() + bytes.size()), mask_(descending ? 0xff : 0) {}

  bool ok() const { return ok_; }
  void fail() { ok_ = false; }
  const char* position() const { return at_; }
  std::size_t left() const { return static_cast<std::size_t>(end_ - at_); }

  std::uint8_t byte() {
    if (!ok_ || at_ == end_) {
      ok_ = false;
      return 0;
    }
    return static_cast<std::uint8_t>(*at_++) ^ mask_;
  }
  // Big-endian number of `count` <= 8 bytes.
  std::uint64_t be(std::size_t count) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < count; ++i) value = value << 8 | byte();
    return value;
  }
  void skip(std::size_t count) {
    if (!ok_ || count > left()) {
      ok_ = false;
      return;
    }
    at_ += count;
  }
  // Appends `count` bytes to `out`.
  void copy(std::size_t count, Buffer& out) {
    const char* from = at_;
    skip(count);
    if (ok_) append_plain({from, count}, out);
  }
  // The bytes before the next zero (as they stand in the key, not inverted); steps over the zero.
  Bytes until_zero() {
    const char* from = at_;
    const void* zero = ok_ && left() > 0 ? std::memchr(at_, mask_, left()) : nullptr;
    if (zero == nullptr) {
      ok_ = false;
      return {};
    }
    at_ = static_cast<const char*>(zero) + 1;
    return {from, static_cast<std::size_t>(at_ - 1 - from)};
  }
  // Appends bytes taken from the key, inverted where the field is.
  void append_plain(Bytes bytes, Buffer& out) const {
    const std::size_t start = out.size();
    out.append(bytes);
    if (mask_ != 0) {
      for (std::size_t i = start; i < out.size(); ++i) out[i] = static_cast<char>(~out[i]);
    }
  }
  // Do the bytes from `from` to the position spell `expected` (not inverted)?
  bool consumed_equals(const char* from, Bytes expected) const {
    if (static_cast<std::size_t>(at_ - from) != expected.size()) return false;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if ((static_cast<std::uint8_t>(from[i]) ^ mask_) != static_cast<std::uint8_t>(expected[i])) {
        return false;
      }
    }
    return true;
  }

 private:
  const char* at_;
  const char* end_;
  std::uint8_t mask_;
  bool ok_ = true;
};

// Decodes the number whose marker the reader has just passed; appends the value's BSON bytes to
// `out` and returns its type. On bytes that encode_number would not write the reader fails.
BsonType decode_number(std::uint8_t marker, KeyReader& reader, TypeBitsReader& bits, Buffer& out);
// Steps over the same bytes.
void skip_number(std::uint8_t marker, KeyReader& reader);

}  // namespace multifora::key_string
