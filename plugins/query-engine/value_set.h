// A set of values that are equal as MongoDB compares them (across number types, by the collation).
// Views: what is inserted must outlive the set. One thread.
#pragma once

#include <unordered_set>

#include "core/bson/compare.h"

namespace multifora {

struct ValueHash {
  const Collator* collator;
  std::size_t operator()(const ValueView& v) const { return hash_value(v, 0, collator); }
};
struct ValueEqual {
  const Collator* collator;
  bool operator()(const ValueView& a, const ValueView& b) const {
    return equal_values(a, b, collator);
  }
};

class ValueSet {
 public:
  explicit ValueSet(const Collator* collator)
      : values_(8, ValueHash{collator}, ValueEqual{collator}) {}
  bool insert(const ValueView& v) { return values_.insert(v).second; }  // was it new?
  bool contains(const ValueView& v) const { return values_.contains(v); }
  bool erase(const ValueView& v) { return values_.erase(v) > 0; }
  std::size_t size() const { return values_.size(); }

 private:
  std::unordered_set<ValueView, ValueHash, ValueEqual> values_;
};

}  // namespace multifora
