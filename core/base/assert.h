// Assertions for bugs. An assertion is never reachable from user input or from a damaged file:
// those are a Status. MULTIFORA_ASSERT stays on in release builds; MULTIFORA_DASSERT is for
// checks that a profile showed to be dear.
#pragma once

namespace multifora {
[[noreturn]] void assertion_failed(const char* expression, const char* file, int line);
}

#define MULTIFORA_ASSERT(expression)   \
  ((expression) ? static_cast<void>(0) \
                : ::multifora::assertion_failed(#expression, __FILE__, __LINE__))

#ifndef NDEBUG
#define MULTIFORA_DASSERT(expression) MULTIFORA_ASSERT(expression)
#else
#define MULTIFORA_DASSERT(expression) static_cast<void>(0)
#endif
