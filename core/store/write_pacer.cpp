#include "core/store/write_pacer.h"

#include <algorithm>
#include <cmath>

namespace multifora {
namespace {

// What a writer may wait for each byte that it took, beyond kShortWaitMaxUs.
constexpr double kWaitUsPerByte = 0.1;
// Debt does not pile up beyond this: when the pressure has gone it is forgotten anyway.
constexpr std::int64_t kDebtMaxUs = 250'000;

}  // namespace

double WritePacer::rate(double pressure) {
  return kRateMax * std::pow(kRateMin / kRateMax, std::clamp(pressure, 0.0, 1.0));
}

std::int64_t WritePacer::wait_max_us(std::uint64_t owed_bytes) {
  const double us = kShortWaitMaxUs + kWaitUsPerByte * static_cast<double>(owed_bytes);
  return us < kWaitMaxUs ? static_cast<std::int64_t>(us) : kWaitMaxUs;
}

void WritePacer::charge(std::uint64_t bytes, double pressure, std::int64_t now_us) {
  if (pressure <= 0 || bytes == 0) return;
  const double cost_us = static_cast<double>(bytes) * 1e6 / rate(pressure);
  const std::int64_t from = std::max(paid_at_us_, now_us);
  paid_at_us_ = std::min(from + static_cast<std::int64_t>(cost_us), now_us + kDebtMaxUs);
}

std::int64_t WritePacer::debt_us(double pressure, std::int64_t now_us) {
  if (pressure <= 0) paid_at_us_ = 0;
  return std::max<std::int64_t>(paid_at_us_ - now_us, 0);
}

}  // namespace multifora
