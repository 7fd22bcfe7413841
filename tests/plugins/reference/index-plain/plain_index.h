// The reference index kind: the smallest thing that honours core/plugin/index.h. It indexes the first
// field of its pattern only, without arrays, in a kernel tree. Tests use it where any index will do.
#pragma once

#include "core/plugin/index.h"

namespace multifora {

// Registered under the name "plain"; claims every pattern of directions with rank 5, below the real
// ordered kinds.
extern const IndexKind kPlainIndex;

}  // namespace multifora
