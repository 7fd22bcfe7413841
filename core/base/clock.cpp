#include "core/base/clock.h"

#include <chrono>

namespace multifora {

namespace {

class SystemClock final : public Clock {
 public:
  std::int64_t wall_ms() const override {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  }
  std::int64_t monotonic_us() const override {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
  }
};

}  // namespace

// Never destroyed: threads may still ask for the time while the process exits.
Clock& system_clock() {
  static SystemClock& clock = *new SystemClock();
  return clock;
}

}  // namespace multifora
