#include "core/base/interrupt.h"

namespace multifora {

namespace {

const char* reason_message(ErrorCode reason) {
  switch (reason) {
    case ErrorCode::kMaxTimeMSExpired:
      return "operation exceeded time limit";
    case ErrorCode::kInterruptedAtShutdown:
      return "interrupted at shutdown";
    default:
      return "operation was interrupted";
  }
}

}  // namespace

Status Interrupt::check_slow() {
  if (deadline_us_ != 0 && clock_.monotonic_us() >= deadline_us_) {
    // Sticky, so that the next check() (which may not look at the clock) fails too. An earlier
    // kill keeps its reason.
    std::int32_t alive = 0;
    killed_.compare_exchange_strong(alive, static_cast<std::int32_t>(ErrorCode::kMaxTimeMSExpired));
  }
  const std::int32_t killed = killed_.load();
  if (killed == 0) return {};
  const auto reason = static_cast<ErrorCode>(killed);
  return Status(reason, reason_message(reason));
}

}  // namespace multifora
