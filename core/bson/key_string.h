// Key strings: byte strings whose memcmp order is MongoDB's order of the values they were made
// from, for index keys. The format (byte by byte) stands at the top of key_string.cpp.
//
// A key is the concatenation of its fields' encodings; a descending field's bytes are inverted.
// Each field's encoding is self-delimiting, so the order of concatenations is the order of tuples.
// Equal numbers of different types give equal keys; what is lost (the type, -0, a decimal's
// trailing zeros) goes into the *type bits*, with which decode() returns the original value
// exactly. Strings under a collator are encoded as sort keys and cannot be decoded.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/status.h"
#include "core/bson/builder.h"
#include "core/bson/collator.h"
#include "core/bson/view.h"

namespace multifora {

class KeyStringBuilder {
 public:
  // Appends one field. Missing encodes as null's position as MongoDB's indexes do only if the
  // caller passes a null value: this class encodes exactly what it is given (undefined for kEOO).
  // The value's bytes must not be this builder's own.
  void append(const ValueView& value, bool descending = false, const Collator* collator = nullptr);

  const Buffer& key() const { return key_; }
  // Empty where every field is of its bracket's default type (the common case).
  const Buffer& type_bits() const { return type_bits_; }
  void clear();

 private:
  friend class KeyStringEncoder;
  Buffer key_;
  Buffer type_bits_;                   // ends with the byte that holds the last one bit
  std::uint32_t type_bits_count_ = 0;  // bits so far, trailing zeros included
};

// Appends the fields of `key` to `out` with the given names ("" for each field, as many as there
// are, where names is empty). `descending[i]` as at encoding; ascending past its end. The key must
// end with its last field. InternalError on bytes that no encoder wrote; `out` then holds the
// fields before the mistake. Names of array elements are written anew ("0", "1", ...); missing
// comes back as undefined.
Status decode_key_string(Bytes key, Bytes type_bits, const std::vector<std::string_view>& names,
                         const std::vector<bool>& descending, DocumentBuilder& out);

// Length of the first field's encoding in `key` (0 for malformed bytes).
std::size_t key_string_field_size(Bytes key, bool descending);

// The smallest byte string above every string with this prefix; empty where there is none.
Buffer key_string_successor(Bytes prefix);

}  // namespace multifora
