#include "core/base/assert.h"

#include <cstdio>
#include <cstdlib>

namespace multifora {

// The one place of the core that writes to stderr: the process is about to end and no sink can be
// trusted any more.
void assertion_failed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, expression);
  std::fflush(stderr);
  std::abort();
}

}  // namespace multifora
