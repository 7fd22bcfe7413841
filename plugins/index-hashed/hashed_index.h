// The hashed index: an ordered index one of whose fields holds hashes of the values.
//
//   key: one key string a field of the pattern: the value's, or, for the hashed field, that of an
//        int64, the value's hash (README.md)
#pragma once

#include <vector>

#include "core/bson/path.h"
#include "core/plugin/index_over.h"

namespace multifora {

// Equal values (also numbers of different types, also strings that `collator` calls equal) have
// equal hashes. Persisted: see README.md.
std::int64_t index_hash(const ValueView& value, const Collator* collator);

class HashedIndex final : public IndexOver {
 public:
  HashedIndex(IndexSpec spec, std::unique_ptr<Index> inner);

  std::uint32_t capabilities() const override { return capabilities_; }
  // Location16766 where a field's path meets an array.
  Status extract(DocumentView document, IndexKeySet& out) const override;
  void append_bound(KeyStringBuilder& key, std::size_t field, const ValueView& value) const override;
  // The hashed field comes out as its hash, an int64.
  Status decode(Bytes key, Bytes type_bits, DocumentBuilder& out) const override {
    return inner().decode(key, type_bits, out);
  }

 private:
  struct Field {
    FieldPath path;
    bool hashed = false;
    bool descending = false;
  };
  std::vector<Field> fields_;
  std::uint32_t capabilities_;
};

}  // namespace multifora
