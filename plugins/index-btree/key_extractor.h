// The keys of a document in an ordered index, by MongoDB's rules.
//
//  - a missing field is null; an array at a field's end gives a key for each element, an empty one a
//    key of undefined;
//  - an array inside a path is entered once, and fields that share it move through it together; a
//    numeric part of the path may also be a position in it;
//  - two fields that meet different arrays: CannotIndexParallelArrays.
//
// Immutable; any thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/bson/path.h"
#include "core/plugin/index.h"

namespace multifora {

class KeyExtractor {
 public:
  explicit KeyExtractor(DocumentView key_pattern);

  std::size_t fields() const { return paths_.size(); }
  bool descending(std::size_t field) const { return descending_[field]; }
  const std::vector<bool>& directions() const { return descending_; }
  std::string_view path(std::size_t field) const { return paths_[field].dotted(); }

  // `out` is cleared first. With `sparse`, a document that has none of the fields has no key.
  Status extract(DocumentView document, bool sparse, const Collator* collator,
                 IndexKeySet& out) const;

 private:
  class Walk;
  bool extract_plain(DocumentView document, bool sparse, const Collator* collator,
                     IndexKeySet& out) const;
  std::vector<std::string> texts_;
  std::vector<FieldPath> paths_;
  std::vector<bool> descending_;
};

}  // namespace multifora
