// Writers that outrun checkpoints are held back, before they have taken any lock.
#include <algorithm>

#include "core/store/store_impl.h"

namespace multifora {
namespace {

// The log may reach this share of what calls for a checkpoint before writers wait: the checkpoint and
// the history are being written meanwhile.
constexpr double kLogAllowed = 1.5;
constexpr std::uint64_t kLogBytesMin = 32u << 20;

}  // namespace

double Store::Impl::pressure(std::uint64_t retiring_bytes) const {
  if (no_waits || failed) return 0;
  const auto over = [](double is, double allowed, double span) {
    return std::clamp((is - allowed) / span, 0.0, 1.0);
  };
  const double log_allowed =
      kLogAllowed * static_cast<double>(std::max(options.checkpoint_log_bytes, kLogBytesMin));
  const auto log_bytes = static_cast<double>(wal->appended_bytes() - log_bytes_gone);
  const double log_over = over(log_bytes, log_allowed, log_allowed);
  const std::uint64_t waiting = pager->waiting_bytes() + held_bytes + retiring_bytes;
  const std::uint64_t allowed = pager->waiting_bytes_allowed();
  if (waiting <= allowed) return log_over;
  // While there is free space the file does not grow for what waits.
  const double space_over =
      over(static_cast<double>(waiting), static_cast<double>(allowed + pager->free_chunk_bytes()),
           static_cast<double>(allowed));
  return std::max(log_over, space_over);
}

Result<WriterQueue::Turn> Store::Impl::hold_back(Interrupt* interrupt) {
  MULTIFORA_ASSIGN_R(WriterQueue::Turn turn, writers.pass(interrupt));
  if (no_waits) return fail(ErrorCode::kInterruptedAtShutdown, "the database is closing");
  MULTIFORA_TRY_R(writable());
  return turn;
}

}  // namespace multifora
