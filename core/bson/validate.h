// The one door through which foreign bytes become a DocumentView.
#pragma once

#include "core/base/status.h"
#include "core/bson/view.h"

namespace multifora {

struct ValidateOptions {
  std::size_t size_bytes_max;  // default set in the constructor: limits::kDocumentSizeMax + slack
  // Documents inside each other, the outermost counted. Default (and no more than)
  // limits::kNestingDepthParseMax.
  std::size_t depth_max;
  bool require_utf8 = true;  // strings and names
  ValidateOptions();
};

// Checks that `bytes` starts with one whole BSON document (lengths, terminators, types, booleans of
// 0 or 1, UTF-8, nesting, array keys may be anything) and that it is exactly bytes.size() long.
// InvalidBSON with the offset of the first mistake, Overflow for nesting that is too deep,
// BSONObjectTooLarge for a stated size above the limit; never reads outside `bytes`. O(size), no
// allocation unless it fails, no recursion on the machine's stack. Deprecated types are accepted.
Result<DocumentView> validate(Bytes bytes, const ValidateOptions& options = {});

// The same, but the document may be followed by other bytes; its size is the view's.
Result<DocumentView> validate_prefix(Bytes bytes, const ValidateOptions& options = {});

// Well-formed as Unicode defines it: no overlong forms, no surrogates; NUL is allowed.
bool is_valid_utf8(std::string_view text);

}  // namespace multifora
