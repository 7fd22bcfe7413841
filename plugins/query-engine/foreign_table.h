// The foreign side of a $lookup without an index: its documents, by the values of one path.
// One thread. Matching is equality as the matcher has it: an array counts by its elements and as a
// whole, what is missing counts as null.
#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include "core/bson/builder.h"
#include "core/bson/collator.h"
#include "core/bson/path.h"
#include "plugins/query-engine/value.h"

namespace multifora {

class ForeignTable {
 public:
  ForeignTable(const std::string& path, const Collator* collator, std::uint64_t memory_limit_bytes)
      : path_text_(path), path_(path_text_), collator_(collator), limit_(memory_limit_bytes) {}
  // False: it would outgrow its memory.
  bool add(DocumentView document);
  // Appends the documents that match one of the values, in the order they were added.
  Status append_matches(const std::vector<Value>& wanted, ArrayBuilder& out) const;

 private:
  bool equals(std::size_t document, const ValueView& wanted) const;
  std::string path_text_;
  FieldPath path_;
  const Collator* collator_;
  std::uint64_t limit_;
  std::uint64_t bytes_ = 0;
  std::deque<OwnedDocument> documents_;
  std::unordered_multimap<std::uint64_t, std::size_t> by_hash_;
};

}  // namespace multifora
