#include "bench/report.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace multifora::bench {

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double Latencies::at_us(double fraction) {
  if (ns_.empty()) return 0;
  if (!sorted_) std::sort(ns_.begin(), ns_.end());
  sorted_ = true;
  const auto index = static_cast<std::size_t>(fraction * static_cast<double>(ns_.size() - 1));
  return static_cast<double>(ns_[index]) / 1000.0;
}

void refuse_unoptimised() {
#ifndef __OPTIMIZE__
  std::fputs("this is an unoptimised build: build with --preset release or bench\n", stderr);
  std::exit(2);
#endif
}

}  // namespace multifora::bench
