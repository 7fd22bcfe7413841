// Which document a request asks for: the same sequence on every side of a comparison.
#pragma once

#include <cmath>
#include <cstdint>

namespace multifora::bench {

// Number `i` of a sequence that visits [0, n) in no order.
inline std::int64_t pick(std::uint64_t i, std::int64_t n) {
  std::uint64_t z = (i + 1) * 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z ^= z >> 27;
  return static_cast<std::int64_t>(z % static_cast<std::uint64_t>(n));
}

// Zipfian over [0, n) with theta 0.99 (Gray et al., as YCSB has it): a tenth of the documents gets most of
// the requests. The popular ones are spread over the ids.
class Zipf {
 public:
  explicit Zipf(std::int64_t n) : n_(n) {
    for (std::int64_t i = 1; i <= n; ++i) zeta_ += std::pow(1.0 / static_cast<double>(i), kTheta);
    const double two = 1 + std::pow(0.5, kTheta);
    eta_ = (1 - std::pow(2.0 / static_cast<double>(n), 1 - kTheta)) / (1 - two / zeta_);
  }
  std::int64_t pick(std::uint64_t i) const {
    const double u = static_cast<double>(bench::pick(i, std::int64_t{1} << 40)) / static_cast<double>(std::int64_t{1} << 40);
    const double uz = u * zeta_;
    std::int64_t rank = 0;
    if (uz >= 1) {
      rank = uz < 1 + std::pow(0.5, kTheta)
                 ? 1
                 : static_cast<std::int64_t>(static_cast<double>(n_) * std::pow(eta_ * u - eta_ + 1, 1 / (1 - kTheta)));
    }
    return bench::pick(static_cast<std::uint64_t>(rank < n_ ? rank : n_ - 1), n_);
  }

 private:
  static constexpr double kTheta = 0.99;
  std::int64_t n_;
  double zeta_ = 0, eta_ = 0;
};

}  // namespace multifora::bench
