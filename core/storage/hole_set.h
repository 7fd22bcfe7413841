// Free ranges of record units in size classes, four to a power of two: what an allocator has in
// hand from the chunks that it refills. Ranges are at most a chunk long. One thread (the pager's
// mutex).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "core/storage/types.h"

namespace multifora {

class HoleSet {
 public:
  void add(RecordLocation first, std::uint32_t units) {
    if (units == 0) return;
    const unsigned c = class_of(units);
    classes_[c].push_back({first, units});
    present_ |= std::uint64_t{1} << c;
    total_units_ += units;
  }

  // The start of a range of exactly `units`, cut from a hole; 0 where none is large enough.
  RecordLocation take(std::uint32_t units) {
    const unsigned own = class_of(units);
    if (const RecordLocation at = take_from(own, units, kLookAt)) return at;
    const std::uint64_t larger = own + 1 < kClasses ? present_ >> (own + 1) << (own + 1) : 0;
    if (larger == 0) return take_from(own, units, classes_[own].size());
    const auto c = static_cast<unsigned>(std::countr_zero(larger));
    return cut(c, classes_[c].size() - 1, units);
  }

  std::uint64_t total_units() const { return total_units_; }
  // Size of the largest hole.
  std::uint32_t units_max() const {
    std::uint32_t units = 0;
    if (present_ == 0) return 0;
    for (const Hole& hole : classes_[63 - static_cast<unsigned>(std::countl_zero(present_))])
      units = std::max(units, hole.units);
    return units;
  }
  void clear() {
    for (std::uint64_t rest = present_; rest != 0; rest &= rest - 1)
      classes_[static_cast<unsigned>(std::countr_zero(rest))].clear();
    present_ = 0;
    total_units_ = 0;
  }

 private:
  struct Hole {
    RecordLocation first;
    std::uint32_t units;
  };
  static constexpr unsigned kClasses = 64;
  static constexpr std::size_t kLookAt = 16;

  static constexpr unsigned class_of(std::uint32_t units) {
    const auto log = static_cast<unsigned>(std::bit_width(units)) - 1;
    return log < 2 ? units : log * 4 + (units >> (log - 2) & 3);
  }
  static_assert(kUnitsPerChunk == 1U << 15, "a whole chunk is the smallest size of class 60");

  RecordLocation take_from(unsigned c, std::uint32_t units, std::size_t look_at) {
    const std::vector<Hole>& holes = classes_[c];
    for (std::size_t n = 0; n < holes.size() && n < look_at; ++n)
      if (holes[holes.size() - 1 - n].units >= units) return cut(c, holes.size() - 1 - n, units);
    return 0;
  }

  RecordLocation cut(unsigned c, std::size_t index, std::uint32_t units) {
    std::vector<Hole>& holes = classes_[c];
    const Hole hole = holes[index];
    holes[index] = holes.back();
    holes.pop_back();
    if (holes.empty()) present_ &= ~(std::uint64_t{1} << c);
    total_units_ -= hole.units;
    add(hole.first + units, hole.units - units);
    return hole.first;
  }

  std::array<std::vector<Hole>, kClasses> classes_;
  std::uint64_t present_ = 0;  // classes that are not empty
  std::uint64_t total_units_ = 0;
};

}  // namespace multifora
