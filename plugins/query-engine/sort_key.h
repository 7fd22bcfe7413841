// Sort patterns: {a: 1, "b.c": -1, s: {$meta: ...}}. A sort key is a key string of the pattern's
// values (least element of an array ascending, greatest descending), so that sorting is memcmp.
#pragma once

#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/bson/collator.h"
#include "core/bson/key_string.h"
#include "core/bson/path.h"
#include "core/bson/view.h"

namespace multifora {

class SortPattern {
 public:
  struct Part {
    std::string path;
    bool descending = false;
  };
  // BadValue 2 / 15974.. / 15976 as the command reports them.
  static Result<SortPattern> parse(DocumentView pattern);
  bool empty() const { return parts_.empty(); }
  const std::vector<Part>& parts() const { return parts_; }
  DocumentView spec() const { return spec_.view(); }
  // {$natural: 1 or -1}: 0 where it is not.
  int natural() const { return natural_; }
  // As aggregation sorts: a missing field comes before null, where no path meets an array.
  void put_missing_first() { missing_first_ = true; }
  // Appends the document's key. BadValue for parallel arrays.
  Status append_key(DocumentView document, const Collator* collator, KeyStringBuilder& out) const;
  int compare(DocumentView a, DocumentView b, const Collator* collator) const;

 private:
  OwnedDocument spec_;
  std::vector<Part> parts_;
  int natural_ = 0;
  bool missing_first_ = false;
};

}  // namespace multifora
