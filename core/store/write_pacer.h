// Holds writers back while they outrun checkpoints, so that the data file and the log stay within bounds.
//
// Each write is charged for the space that it takes, at a rate that falls with the pressure: from
// kRateMax, which the disk hardly reaches, to kRateMin. The next writes wait until what was charged is
// paid for.
//
// Pressure: 0 none; 1 twice what is allowed.
//
// Threads: one at a time.
#pragma once

#include <cstdint>

namespace multifora {

class WritePacer {
 public:
  static constexpr double kRateMax = 256e6;  // bytes a second
  static constexpr double kRateMin = 8e6;
  static constexpr std::int64_t kWaitMaxUs = 50'000;
  // Of a write as small as can be.
  static constexpr std::int64_t kShortWaitMaxUs = 6'000;

  static double rate(double pressure);
  // The longest that a writer whose last write took so many bytes waits once it is its turn.
  static std::int64_t wait_max_us(std::uint64_t owed_bytes);

  // A write has taken `bytes`, or is about to.
  void charge(std::uint64_t bytes, double pressure, std::int64_t now_us);
  // How long until what was charged is paid for. Without pressure it is forgotten.
  std::int64_t debt_us(double pressure, std::int64_t now_us);

 private:
  std::int64_t paid_at_us_ = 0;  // when all that was charged is paid for
};

}  // namespace multifora
