// Time as an interface, so that tests can move it. Any thread may call.
#pragma once

#include <cstdint>

namespace multifora {

class Clock {
 public:
  virtual ~Clock() = default;
  // Milliseconds since 1970-01-01 UTC. May go backwards.
  virtual std::int64_t wall_ms() const = 0;
  // Microseconds from an arbitrary start; never goes backwards.
  virtual std::int64_t monotonic_us() const = 0;
};

// The machine's clock. Lives for the whole process.
Clock& system_clock();

}  // namespace multifora
