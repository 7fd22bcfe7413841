// What can end a running operation early: its deadline (maxTimeMS), killOp, shutdown, or a lost
// client. The operation's thread polls check() between small pieces of work; any thread may call
// kill(). One object an operation; it outlives the operation.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/base/clock.h"
#include "core/base/status.h"

namespace multifora {

class Interrupt {
 public:
  explicit Interrupt(const Clock& clock) : clock_(clock) {}

  // No deadline: 0. `deadline_us` is on Clock::monotonic_us's scale.
  void set_deadline_us(std::int64_t deadline_us) { deadline_us_ = deadline_us; }
  std::int64_t deadline_us() const { return deadline_us_; }
  void kill(ErrorCode reason) { killed_.store(static_cast<std::int32_t>(reason)); }

  // OK, or the reason to stop: MaxTimeMSExpired, Interrupted, InterruptedAtShutdown ...
  // Reads one atomic; looks at the clock every 64th call.
  Status check() {
    if (killed_.load(std::memory_order_relaxed) != 0 || (deadline_us_ != 0 && (++polls_ & 63) == 0))
      return check_slow();
    return {};
  }
  // The same, always looking at the clock.
  Status check_slow();

 private:
  const Clock& clock_;
  std::int64_t deadline_us_ = 0;
  std::uint32_t polls_ = 0;
  std::atomic<std::int32_t> killed_{0};
};

}  // namespace multifora
