// Preferred numbers, for $bucketAuto's granularity: the Renard and E series, 1-2-5, powers of two.
// Immutable; any thread.
#pragma once

#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "plugins/query-engine/value.h"

namespace multifora {

class Granularity {
 public:
  static Result<Granularity> find(std::string_view name);  // 40257: unknown
  // 40258: no number, 40259: NaN, 40260: negative.
  Status check(const ValueView& v) const;
  // The next number of the series above the value, the last one below it; 0 stays.
  Value round_up(const ValueView& v) const;
  Value round_down(const ValueView& v) const;

 private:
  std::vector<double> series_;  // within [1, 10), or [1, 2) for powers of two
  double base_ = 10;
};

}  // namespace multifora
