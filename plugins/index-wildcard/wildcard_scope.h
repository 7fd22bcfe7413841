// Which paths a wildcard index is about. Immutable; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "core/bson/view.h"

namespace multifora {

class WildcardScope {
 public:
  // `root`: "a.b" for the term "a.b.$**", empty for "$**". `projection`: wildcardProjection, or the
  // empty document. FailedToParse, or the codes of find's projections, for a wrong one.
  static Result<WildcardScope> make(std::string_view root, DocumentView projection);

  enum class Verdict {
    kOutside,
    kLeads,   // only something below it is inside
    kInside,  // a value there has an entry
  };
  Verdict at(std::string_view path) const;
  // `path` is inside, with everything below it.
  bool whole(std::string_view path) const;

 private:
  std::vector<std::string> included_;  // empty: everything
  std::vector<std::string> excluded_;
};

// "a" is at or above "a.b".
bool is_path_prefix(std::string_view prefix, std::string_view path);

}  // namespace multifora
