// String comparison by a collation, as an interface: implemented by a collation plugin, used by
// comparison and key encoding. A null Collator* means binary order. Immutable; any thread.
#pragma once

#include <string_view>

#include "core/base/bytes.h"
#include "core/bson/view.h"

namespace multifora {

class Collator {
 public:
  virtual ~Collator() = default;
  virtual int compare(std::string_view a, std::string_view b) const = 0;
  // Appends bytes whose memcmp order is compare()'s order; equal strings give equal bytes.
  virtual void append_sort_key(std::string_view text, Buffer& out) const = 0;
  // The full specification, every field present, as listCollections shows it.
  virtual DocumentView spec() const = 0;
  // Do both order every pair of strings alike?
  bool same_as(const Collator* other) const {
    return other != nullptr && spec().bytes() == other->spec().bytes();
  }
};

// Two null collators agree; null and non-null do not.
inline bool collators_agree(const Collator* a, const Collator* b) {
  if (a == nullptr || b == nullptr) return a == b;
  return a->same_as(b);
}

}  // namespace multifora
