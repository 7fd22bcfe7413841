// Latencies and their percentiles; one JSON line a result.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace multifora::bench {

std::int64_t now_ns();

class Latencies {
 public:
  void add(std::int64_t ns) { ns_.push_back(ns); }
  std::size_t count() const { return ns_.size(); }
  // Microseconds at the given fraction; sorts.
  double at_us(double fraction);

 private:
  std::vector<std::int64_t> ns_;
  bool sorted_ = false;
};

// Ends the program where the build is not optimised: its figures would mean nothing.
void refuse_unoptimised();

}  // namespace multifora::bench
