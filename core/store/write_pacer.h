// Holds writers back while they outrun checkpoints, so that the data file and the log stay within bounds.
//
// Each write is charged for the space that it took, at a rate that falls with the pressure: from
// kRateMax, which the disk hardly reaches, to kRateMin. The next writes wait until what was charged is
// paid for, each for at most wait_max_us(): many short waits. A writer waits before it has any lock, and
// nobody else ever does.
//
// Pressure: 0 none; 1 twice what is allowed. It is asked for anew every few milliseconds of a wait, so
// that a wait ends as soon as a checkpoint has made room.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <mutex>

namespace multifora {

class WritePacer {
 public:
  static constexpr double kRateMax = 256e6;  // bytes a second
  static constexpr double kRateMin = 4e6;
  static constexpr std::int64_t kWaitMaxUs = 50'000;
  // Of a write as small as can be.
  static constexpr std::int64_t kShortWaitMaxUs = 6'000;

  static double rate(double pressure);
  // The longest that a writer waits at once, whose last write took so many bytes.
  static std::int64_t wait_max_us(std::uint64_t owed_bytes);

  // A write has taken `bytes`.
  void charge(std::uint64_t bytes, double pressure, std::int64_t now_us);
  // How long the next writer has to wait; 0: not at all.
  std::int64_t wait_us(std::uint64_t owed_bytes, double pressure, std::int64_t now_us);

 private:
  std::mutex mutex_;
  std::int64_t paid_at_us_ = 0;  // when all that was charged is paid for
};

}  // namespace multifora
