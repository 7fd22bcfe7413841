// The key string format.
//
// A field is a marker byte (key_string_format.h: MinKey 0a < undefined 0f < null 14 <
// numbers 20..35 < string 3c < object 46 < array 50 < binData 5a < ObjectId 64 < false 6e < true 6f
// < date 78 < timestamp 82 < regex 8c < DBPointer 96 < code a0 < code with scope aa < MaxKey f0)
// and a payload that depends on the marker. 00 and ff are never markers, inverted or not, so that
// a key with one of them behind it bounds all keys that begin with it. A descending field has
// every byte inverted.
//
//   MinKey, undefined, null, false, true, MaxKey   nothing
//   string, symbol   text: its bytes with 00 -> 01 01 and 01 -> 01 02, then 00. Under a collator
//   the
//                    text is the sort key.
//   code             text
//   object           for each element: bracket byte (the marker; 1e for any number, 6e for a bool),
//                    name, 00, the value's field; at the end 00
//   array            each element's field; at the end 00
//   binData          length (one byte, or ff and 4 bytes big-endian from 255 on), subtype, bytes
//   ObjectId         12 bytes
//   date             8 bytes big-endian, sign bit inverted
//   timestamp        8 bytes big-endian
//   regex            pattern, 00, options, 00
//   DBPointer        4 bytes big-endian length of the namespace, namespace, 12 bytes
//   code with scope  text, then what an object has after its marker
//
// Numbers. The bytes say the value and nothing of its type. Negative numbers have markers counted
// down from zero's and every payload byte inverted, so only positive x is described:
//
//   NaN 20, zero 2b  nothing
//   1 <= x < 2^63    marker 2c + n, then w = 2 * floor(x) + (is x fractional) in n = 1..8 bytes
//                    big-endian, as few as hold it. So 1 is 2d 02. Where x is fractional, 8 - n
//                    bytes follow: 2 * f + m, f = the fraction's first 8 * (8 - n) - 1 binary
//                    digits, which is all of them for a double. m = 1 where x is more than that
//                    (for n = 8, where no byte follows, always); then the digits of its decimal
//                    fraction follow.
//   0 < x < 1        marker 2c, 8 bytes big-endian: 2 * (bits of the greatest double <= x) + m.
//                    m = 1 where x is more than that double; then e follows in 2 bytes big-endian,
//                    where x = 0.ddd * 10^(e - 8192), then the digits ddd.
//   x >= 2^63        marker 35, the same; infinity is a double
//
//   digits           decimal digits in pairs p, filled with a zero at the right, one byte each:
//                    2 * p + (does another pair follow); no zeros stand at the end.
//
// Two numbers that share everything up to m differ in the digits alone, and whatever has m = 0 is
// less than all that share its bytes but have m = 1: the order is exact between all types.
//
// Type bits. A stream of bits, lowest of each byte first, zeros at the end left out (so keys of
// defaults have no type bits). Strings: one bit, 1 = symbol. Numbers:
//
//   0             the default: int32, else int64, for an integral |x| < 2^63; double for NaN (the
//                 bits 7ff8000000000000), fractions and large numbers; decimal128 (with no trailing
//                 zeros in its coefficient) where m = 1
//   1 + 2 bits c  c = 0 double, 1 int64, 2 decimal128: 6 bits follow, trailing zeros of the
//                 coefficient; 3: one bit (0 double, 1 decimal128) and the value's 64 or 128 bits
//                 (-0, NaN payloads, decimal zeros and infinities)
//
// Invariants: (1) encode(decode(key)) == key for every key that decodes: decoding refuses all
// others; (2) no field's encoding is a prefix of another's; (3) sign(memcmp) ==
// sign(compare_values).
#include "core/bson/key_string.h"

#include <charconv>

#include "core/base/limits.h"
#include "core/bson/key_string_format.h"

namespace multifora {

namespace ks = key_string;

namespace {

// A key may hold a value that nests as deep as the parser lets a document nest.
constexpr int kDepthMax = static_cast<int>(limits::kNestingDepthParseMax) + 1;
// The decoded value is at most ~11 times as long (names of array elements): it fits an int32.
constexpr std::size_t kKeySizeMax = std::size_t{128} * 1024 * 1024;
static_assert(kKeySizeMax > 4 * limits::kDocumentSizeMax);
constexpr char kEscape = '\x01';
constexpr std::uint64_t kSignBit = std::uint64_t{1} << 63;

// Does `text` hold a byte 00 or 01? Eight bytes at a time: keys are mostly text.
bool needs_escape(Bytes text) {
  const char* at = text.data();
  const char* end = at + text.size();
  for (; end - at >= 8; at += 8) {
    const auto word = load_le<std::uint64_t>(at);
    if (((word - 0x0202020202020202ull) & ~word & 0x8080808080808080ull) != 0) return true;
  }
  for (; at != end; ++at) {
    if (static_cast<std::uint8_t>(*at) < 2) return true;
  }
  return false;
}

void append_escaped(Bytes text, Buffer& out) {
  if (!needs_escape(text)) {
    out.append(text);
    return;
  }
  for (const char c : text) {
    const auto byte = static_cast<std::uint8_t>(c);
    if (byte < 2) out.push_back(kEscape);
    out.push_back(byte < 2 ? static_cast<char>(byte + 1) : c);
  }
}

bool append_unescaped(Bytes text, Buffer& out) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == kEscape) {
      if (++i == text.size() || (text[i] != '\x01' && text[i] != '\x02')) return false;
      c = static_cast<char>(text[i] - 1);
    }
    out.push_back(c);
  }
  return true;
}

}  // namespace

// ---- encoding -----------------------------------------------------------------------------------

class KeyStringEncoder {
 public:
  KeyStringEncoder(KeyStringBuilder& builder, const Collator* collator)
      : key_(builder.key_), builder_(builder), collator_(collator) {}

  void value(const ValueView& v) {
    switch (v.type()) {
      case BsonType::kMinKey:
        return marker(ks::kMinKey);
      case BsonType::kEOO:
      case BsonType::kUndefined:
        return marker(ks::kUndefined);
      case BsonType::kNull:
        return marker(ks::kNull);
      case BsonType::kMaxKey:
        return marker(ks::kMaxKey);
      case BsonType::kBool:
        return marker(v.as_bool() ? ks::kTrue : ks::kFalse);
      case BsonType::kDouble:
      case BsonType::kInt32:
      case BsonType::kInt64:
      case BsonType::kDecimal128:
        return number(v);
      case BsonType::kString:
      case BsonType::kSymbol:
        return string(v);
      case BsonType::kObject:
        marker(ks::kObject);
        return object(v.as_document());
      case BsonType::kArray:
        return array(v.as_document());
      case BsonType::kBinData:
        return binary(v);
      case BsonType::kObjectId:
        return marked(ks::kObjectId, v.bytes());
      case BsonType::kDate:
        return fixed64(ks::kDate, static_cast<std::uint64_t>(v.as_date_ms()) ^ kSignBit);
      case BsonType::kTimestamp:
        return fixed64(ks::kTimestamp, v.as_timestamp());
      case BsonType::kRegex:
        return marked(ks::kRegex, v.bytes());
      case BsonType::kDBRef:
        return dbref(v);
      case BsonType::kCode:
        marker(ks::kCode);
        return text(v.as_string());
      case BsonType::kCodeWithScope:
        marker(ks::kCodeWithScope);
        text(v.code_with_scope_code());
        // Like compare_values, without the collator.
        return KeyStringEncoder(builder_, nullptr).object(v.code_with_scope_scope());
    }
    MULTIFORA_ASSERT(!"a value of a known type");
  }

 private:
  void marker(std::uint8_t m) { key_.push_back(static_cast<char>(m)); }
  void marked(std::uint8_t m, Bytes payload) {
    marker(m);
    key_.append(payload);
  }
  void fixed64(std::uint8_t m, std::uint64_t payload) {
    char bytes[9];
    bytes[0] = static_cast<char>(m);
    store_be(bytes + 1, payload);
    key_.append(bytes, sizeof bytes);
  }
  void text(Bytes t) {
    append_escaped(t, key_);
    marker(ks::kEnd);
  }

  void number(const ValueView& v) {
    ks::EncodedNumber encoded;
    const std::size_t start = key_.size();
    // Straight into the key: copying the few bytes just written costs more than making them.
    key_.resize_and_overwrite(start + ks::kNumberSizeMax, [&](char* key, std::size_t) {
      encoded = ks::encode_number(v, key + start);
      return start + encoded.size;
    });
    if (encoded.code == ks::NumberCode::kDefault) {
      ++builder_.type_bits_count_;
      return;
    }
    type_bits(1 | (static_cast<std::uint64_t>(encoded.code) - 1) << 1, 3);
    if (encoded.code == ks::NumberCode::kDecimal) type_bits(encoded.zeros, 6);
    if (encoded.code == ks::NumberCode::kRaw) {
      const bool is_decimal = v.type() == BsonType::kDecimal128;
      type_bits(is_decimal ? 1 : 0, 1);
      type_bits(load_le<std::uint64_t>(v.data()), 64);
      if (is_decimal) type_bits(load_le<std::uint64_t>(v.data() + 8), 64);
    }
  }

  void string(const ValueView& v) {
    marker(ks::kString);
    type_bits(v.type() == BsonType::kSymbol ? 1 : 0, 1);
    if (collator_ == nullptr) return text(v.as_string());
    const std::size_t start = key_.size();
    collator_->append_sort_key(v.as_string(), key_);
    if (needs_escape(Bytes(key_).substr(start))) {
      const Buffer sort_key = key_.substr(start);
      key_.resize(start);
      append_escaped(sort_key, key_);
    }
    marker(ks::kEnd);
  }

  // Everything of an object but its marker.
  void object(DocumentView document) {
    for (const Element& element : document) {
      const std::size_t at = key_.size();
      marker(0);  // the bracket: known once the value's marker is
      key_.append(element.name());
      marker(ks::kEnd);
      const std::size_t value_at = key_.size();
      value(element.value());
      key_[at] = static_cast<char>(ks::bracket_of(static_cast<std::uint8_t>(key_[value_at])));
    }
    marker(ks::kEnd);
  }

  void array(DocumentView elements) {
    marker(ks::kArray);
    for (const Element& element : elements) value(element.value());
    marker(ks::kEnd);
  }

  void binary(const ValueView& v) {
    marker(ks::kBinData);
    const Bytes bytes = v.binary_bytes();
    if (bytes.size() < 255) {
      key_.push_back(static_cast<char>(bytes.size()));
    } else {
      key_.push_back('\xff');
      append_be(key_, static_cast<std::uint32_t>(bytes.size()));
    }
    key_.push_back(static_cast<char>(v.binary_subtype()));
    key_.append(bytes);
  }

  void dbref(const ValueView& v) {
    marker(ks::kDBRef);
    const Bytes ns = v.dbref_namespace();
    append_be(key_, static_cast<std::uint32_t>(ns.size()));
    key_.append(ns);
    key_.append(v.dbref_id().bytes.data(), 12);
  }

  // The lowest `count` bits of `bits`.
  void type_bits(std::uint64_t bits, int count) {
    Buffer& out = builder_.type_bits_;
    for (int i = 0; i < count; ++i) {
      const std::uint32_t at = builder_.type_bits_count_++;
      if ((bits >> i & 1) == 0) continue;
      if (out.size() <= at / 8) out.resize(at / 8 + 1);
      out[at / 8] = static_cast<char>(static_cast<std::uint8_t>(out[at / 8]) | 1u << (at % 8));
    }
  }

  Buffer& key_;
  KeyStringBuilder& builder_;
  const Collator* collator_;
};

void KeyStringBuilder::append(const ValueView& value, bool descending, const Collator* collator) {
  const std::size_t start = key_.size();
  KeyStringEncoder(*this, collator).value(value);
  if (!descending) return;
  for (std::size_t i = start; i < key_.size(); ++i) key_[i] = static_cast<char>(~key_[i]);
}

void KeyStringBuilder::clear() {
  key_.clear();
  type_bits_.clear();
  type_bits_count_ = 0;
}

// ---- decoding -----------------------------------------------------------------------------------

namespace {

// Turns one field back into the bytes of a BSON value.
class Decoder {
 public:
  Decoder(ks::KeyReader& reader, ks::TypeBitsReader& bits, Buffer& out)
      : reader_(reader), bits_(bits), out_(out) {}

  // Appends a value's bytes (without type and name).
  BsonType value(int depth) { return value_after(reader_.byte(), depth); }

 private:
  BsonType value_after(std::uint8_t marker, int depth) {
    if (ks::is_number_marker(marker)) return ks::decode_number(marker, reader_, bits_, out_);
    switch (marker) {
      case ks::kMinKey:
        return BsonType::kMinKey;
      case ks::kUndefined:
        return BsonType::kUndefined;
      case ks::kNull:
        return BsonType::kNull;
      case ks::kMaxKey:
        return BsonType::kMaxKey;
      case ks::kFalse:
      case ks::kTrue:
        out_.push_back(marker == ks::kTrue ? '\1' : '\0');
        return BsonType::kBool;
      case ks::kString:
        text();
        return bits_.bit() ? BsonType::kSymbol : BsonType::kString;
      case ks::kObject:
        object(depth);
        return BsonType::kObject;
      case ks::kArray:
        array(depth);
        return BsonType::kArray;
      case ks::kBinData:
        binary();
        return BsonType::kBinData;
      case ks::kObjectId:
        reader_.copy(12, out_);
        return BsonType::kObjectId;
      case ks::kDate:
        append_le(out_, reader_.be(8) ^ kSignBit);
        return BsonType::kDate;
      case ks::kTimestamp:
        append_le(out_, reader_.be(8));
        return BsonType::kTimestamp;
      case ks::kRegex:
        c_string();
        c_string();
        return BsonType::kRegex;
      case ks::kDBRef:
        dbref();
        return BsonType::kDBRef;
      case ks::kCode:
        text();
        return BsonType::kCode;
      case ks::kCodeWithScope:
        code_with_scope(depth);
        return BsonType::kCodeWithScope;
      default:
        reader_.fail();
        return BsonType::kNull;
    }
  }

  // BSON lengths are known at the end: a place is kept and filled in.
  std::size_t begin_length() {
    out_.append(4, '\0');
    return out_.size() - 4;
  }
  void end_length(std::size_t at, std::size_t from) {
    store_le(out_.data() + at, static_cast<std::int32_t>(out_.size() - from));
  }

  void text() {
    const std::size_t at = begin_length();
    const Bytes stored = reader_.until_zero();
    const std::size_t start = out_.size();
    reader_.append_plain(stored, out_);
    if (const Bytes plain = Bytes(out_).substr(start); needs_escape(plain)) {
      const Buffer escaped(plain);
      out_.resize(start);
      if (!append_unescaped(escaped, out_)) reader_.fail();
    }
    out_.push_back('\0');
    end_length(at, start);
  }

  void c_string() {
    reader_.append_plain(reader_.until_zero(), out_);
    out_.push_back('\0');
  }

  void object(int depth) {
    if (depth == 0) return reader_.fail();
    const std::size_t start = begin_length();
    while (const std::uint8_t bracket = reader_.byte()) {
      const std::size_t type_at = out_.size();
      out_.push_back('\0');
      c_string();
      const std::uint8_t marker = reader_.byte();
      if (ks::bracket_of(marker) != bracket) reader_.fail();
      out_[type_at] = static_cast<char>(value_after(marker, depth - 1));
      if (!reader_.ok()) return;
    }
    out_.push_back('\0');
    end_length(start, start);
  }

  void array(int depth) {
    if (depth == 0) return reader_.fail();
    const std::size_t start = begin_length();
    std::uint32_t index = 0;
    while (const std::uint8_t marker = reader_.byte()) {
      const std::size_t type_at = out_.size();
      char name[12];
      const char* end = std::to_chars(name, name + sizeof name, index++).ptr;
      out_.push_back('\0');
      out_.append(name, static_cast<std::size_t>(end - name)).push_back('\0');
      out_[type_at] = static_cast<char>(value_after(marker, depth - 1));
      if (!reader_.ok()) return;
    }
    out_.push_back('\0');
    end_length(start, start);
  }

  void binary() {
    std::uint64_t length = reader_.byte();
    if (length == 255) {
      length = reader_.be(4);
      if (length < 255) reader_.fail();
    }
    if (length >= reader_.left()) return reader_.fail();
    append_le(out_, static_cast<std::uint32_t>(length));
    const std::size_t subtype_at = out_.size();
    reader_.copy(length + 1, out_);
    if (!reader_.ok() || out_[subtype_at] != 2) return;
    // The old subtype repeats the length inside; BSON with another one is not valid.
    if (length < 4 || load_le<std::uint32_t>(out_.data() + subtype_at + 1) != length - 4) {
      reader_.fail();
    }
  }

  void dbref() {
    const std::uint64_t length = reader_.be(4);
    if (length >= reader_.left()) return reader_.fail();
    append_le(out_, static_cast<std::uint32_t>(length + 1));
    reader_.copy(length, out_);
    out_.push_back('\0');
    reader_.copy(12, out_);
  }

  void code_with_scope(int depth) {
    const std::size_t start = begin_length();
    text();
    object(depth);
    end_length(start, start);
  }

  ks::KeyReader& reader_;
  ks::TypeBitsReader& bits_;
  Buffer& out_;
};

// Steps over one field's bytes; looks no closer than it must to find the end.
class Skipper {
 public:
  explicit Skipper(ks::KeyReader& reader) : reader_(reader) {}

  void value(int depth) { value_after(reader_.byte(), depth); }

 private:
  void value_after(std::uint8_t marker, int depth) {
    if (ks::is_number_marker(marker)) return ks::skip_number(marker, reader_);
    switch (marker) {
      case ks::kMinKey:
      case ks::kUndefined:
      case ks::kNull:
      case ks::kMaxKey:
      case ks::kFalse:
      case ks::kTrue:
        return;
      case ks::kString:
      case ks::kCode:
        reader_.until_zero();
        return;
      case ks::kRegex:
        reader_.until_zero();
        reader_.until_zero();
        return;
      case ks::kObjectId:
        return reader_.skip(12);
      case ks::kDate:
      case ks::kTimestamp:
        return reader_.skip(8);
      case ks::kBinData:
        return binary();
      case ks::kDBRef:
        return reader_.skip(reader_.be(4) + 12);
      case ks::kCodeWithScope:
        reader_.until_zero();
        return elements(depth, true);
      case ks::kObject:
        return elements(depth, true);
      case ks::kArray:
        return elements(depth, false);
      default:
        reader_.fail();
    }
  }

  void binary() {
    std::uint64_t length = reader_.byte();
    if (length == 255) length = reader_.be(4);
    reader_.skip(length + 1);
  }

  void elements(int depth, bool named) {
    if (depth == 0) return reader_.fail();
    while (std::uint8_t marker = reader_.byte()) {
      if (named) {
        reader_.until_zero();
        marker = reader_.byte();
      }
      value_after(marker, depth - 1);
      if (!reader_.ok()) return;
    }
  }

  ks::KeyReader& reader_;
};

}  // namespace

Status decode_key_string(Bytes key, Bytes type_bits, const std::vector<std::string_view>& names,
                         const std::vector<bool>& descending, DocumentBuilder& out) {
  if (key.size() > kKeySizeMax) return Status(ErrorCode::kInternalError, "key string too long");
  ks::TypeBitsReader bits(type_bits);
  Buffer scratch;
  const bool named = !names.empty();
  for (std::size_t i = 0; named ? i < names.size() : !key.empty(); ++i) {
    scratch.clear();
    ks::KeyReader reader(key, i < descending.size() && descending[i]);
    const BsonType type = Decoder(reader, bits, scratch).value(kDepthMax);
    if (!reader.ok()) return Status(ErrorCode::kInternalError, "malformed key string");
    out.append(named ? names[i] : std::string_view(),
               ValueView(type, scratch.data(), static_cast<std::uint32_t>(scratch.size())));
    key.remove_prefix(static_cast<std::size_t>(reader.position() - key.data()));
  }
  if (!key.empty() || !bits.exhausted()) {
    return Status(ErrorCode::kInternalError, "key string with bytes left over");
  }
  return {};
}

std::size_t key_string_field_size(Bytes key, bool descending) {
  ks::KeyReader reader(key, descending);
  Skipper(reader).value(kDepthMax);
  return reader.ok() ? static_cast<std::size_t>(reader.position() - key.data()) : 0;
}

Buffer key_string_successor(Bytes prefix) {
  Buffer successor(prefix);
  while (!successor.empty() && successor.back() == '\xff') successor.pop_back();
  if (!successor.empty()) {
    successor.back() = static_cast<char>(static_cast<std::uint8_t>(successor.back()) + 1);
  }
  return successor;
}

}  // namespace multifora
