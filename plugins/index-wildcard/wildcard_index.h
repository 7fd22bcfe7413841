// The wildcard index: an ordered index with a field for the path and one for the value there.
//
//   entry of a value:  the ordered fields before, path (string), value, the ordered fields after
//   mark of an array:  MinKey for each ordered field before, kind (int32), path (string),
//                      MinKey for each ordered field after
//     kind 1: the document has an array at the path; 2: an array inside an array there
//
// Paths are strings without collation, always ascending; the value has the direction of the wildcard
// term. Names are joined by dots; a name that has a dot itself is written behind a NUL.
#pragma once

#include <string>
#include <vector>

#include "core/bson/path.h"
#include "core/plugin/index_over.h"
#include "plugins/index-wildcard/wildcard_scope.h"

namespace multifora {

// The key pattern taken apart.
struct WildcardPattern {
  struct Field {
    FieldPath path;
    ValueView direction;
    bool descending = false;
  };
  std::vector<Field> before, after;
  std::string_view term;  // "$**" or "a.b.$**"
  std::string_view root;  // "" or "a.b"
  ValueView direction;    // of the term
  bool descending = false;

  // Views `key`, which has exactly one wildcard term.
  static WildcardPattern of(DocumentView key);
  static bool is_term(std::string_view name);
};

class WildcardIndex final : public IndexOver {
 public:
  WildcardIndex(IndexSpec spec, std::unique_ptr<Index> inner, WildcardScope scope);

  std::uint32_t capabilities() const override { return capabilities_; }
  // Location7246301 where an ordered field's path meets an array.
  Status extract(DocumentView document, IndexKeySet& out) const override;
  Result<std::optional<IndexPaths>> paths_for(const IndexState& state,
                                              std::string_view path) const override;
  void append_bound(KeyStringBuilder& key, std::size_t field, const ValueView& value) const override;
  Status decode(Bytes key, Bytes type_bits, DocumentBuilder& out) const override;

 private:
  class Walk;
  enum class Mark : std::int32_t { kArray = 1, kNested = 2 };

  std::size_t path_field() const { return pattern_.before.size(); }
  void append_ordered(KeyStringBuilder& key, std::size_t field, const ValueView& value) const;
  void append_path(KeyStringBuilder& key, std::string_view path) const;
  void append_mark(KeyStringBuilder& key, Mark mark, std::string_view path) const;
  Result<bool> has_mark(IndexCursor& cursor, Mark mark, std::string_view path) const;

  WildcardPattern pattern_;
  WildcardScope scope_;
  std::uint32_t capabilities_;
};

// The pattern of the ordered index beneath.
OwnedDocument wildcard_inner_pattern(DocumentView key);

}  // namespace multifora
