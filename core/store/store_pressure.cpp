// Writers that outrun checkpoints are held back, before they have taken any lock.
#include <algorithm>
#include <chrono>

#include "core/store/store_impl.h"

namespace multifora {
namespace {

// The log may reach this share of what calls for a checkpoint before writers wait: the checkpoint and
// the history are being written meanwhile.
constexpr double kLogAllowed = 1.5;
constexpr std::uint64_t kLogBytesMin = 32u << 20;
// How often a waiting writer looks whether it still has to.
constexpr auto kLook = std::chrono::milliseconds(2);

// What this thread's last write took.
thread_local std::uint64_t owed_bytes = 0;

std::int64_t now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

double Store::Impl::pressure() const {
  const auto over = [](double is, double allowed, double span) {
    return std::clamp((is - allowed) / span, 0.0, 1.0);
  };
  const double log_allowed =
      kLogAllowed * static_cast<double>(std::max(options.checkpoint_log_bytes, kLogBytesMin));
  const auto log_bytes = static_cast<double>(wal->appended_bytes() - log_bytes_gone);
  const double log_over = over(log_bytes, log_allowed, log_allowed);
  const std::uint64_t waiting = pager->waiting_bytes() + held_bytes;
  const std::uint64_t allowed = pager->waiting_bytes_allowed();
  if (waiting <= allowed) return log_over;
  // While there is free space the file does not grow for what waits.
  const double space_over =
      over(static_cast<double>(waiting), static_cast<double>(allowed + pager->free_chunk_bytes()),
           static_cast<double>(allowed));
  return std::max(log_over, space_over);
}

void Store::Impl::hold_back() {
  const std::uint64_t owed = std::exchange(owed_bytes, 0);
  double now_pressed = pressure();
  const std::int64_t start = now_us();
  const std::int64_t wait = pacer.wait_us(owed, now_pressed, start);
  if (wait == 0) return;
  note_progress();
  std::unique_lock hold(eased_mutex);
  while (!no_waits && !failed && now_pressed > 0 && now_us() < start + wait) {
    const auto rest = std::chrono::microseconds(start + wait - now_us());
    eased.wait_for(hold, std::min<std::chrono::microseconds>(rest, kLook));
    hold.unlock();
    now_pressed = pressure();
    hold.lock();
  }
}

void Store::Impl::charge(std::uint64_t data_bytes, std::uint64_t log_bytes) {
  owed_bytes = std::max(data_bytes, log_bytes);
  if (owed_bytes > 0) pacer.charge(owed_bytes, pressure(), now_us());
}

void Store::Impl::ease() {
  const std::lock_guard hold(eased_mutex);
  eased.notify_all();
}

}  // namespace multifora
