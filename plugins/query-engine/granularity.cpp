#include "plugins/query-engine/granularity.h"

#include <cmath>

#include <fmt/format.h>

#include "plugins/query-engine/numeric.h"
#include "plugins/query-engine/operator.h"

namespace multifora {
namespace {

// Each Renard series is every second number of the next finer one.
constexpr double kRenard80[] = {
    1.00, 1.03, 1.06, 1.09, 1.12, 1.15, 1.18, 1.22, 1.25, 1.28, 1.32, 1.36, 1.40, 1.45, 1.50, 1.55,
    1.60, 1.65, 1.70, 1.75, 1.80, 1.85, 1.90, 1.95, 2.00, 2.06, 2.12, 2.18, 2.24, 2.30, 2.36, 2.43,
    2.50, 2.58, 2.65, 2.72, 2.80, 2.90, 3.00, 3.07, 3.15, 3.25, 3.35, 3.45, 3.55, 3.65, 3.75, 3.87,
    4.00, 4.12, 4.25, 4.37, 4.50, 4.62, 4.75, 4.87, 5.00, 5.15, 5.30, 5.45, 5.60, 5.80, 6.00, 6.15,
    6.30, 6.50, 6.70, 6.90, 7.10, 7.30, 7.50, 7.75, 8.00, 8.25, 8.50, 8.75, 9.00, 9.25, 9.50, 9.75};
constexpr double kE24[] = {1.0, 1.1, 1.2, 1.3, 1.5, 1.6, 1.8, 2.0, 2.2, 2.4, 2.7, 3.0,
                           3.3, 3.6, 3.9, 4.3, 4.7, 5.1, 5.6, 6.2, 6.8, 7.5, 8.2, 9.1};

std::vector<double> every(std::span<const double> all, std::size_t step) {
  std::vector<double> out;
  for (std::size_t i = 0; i < all.size(); i += step) out.push_back(all[i]);
  return out;
}

// E48, E96 and E192 follow their formula but for one number.
std::vector<double> fine_e_series(int n) {
  std::vector<double> out;
  for (int i = 0; i < n; ++i) {
    const double v = std::round(std::pow(10.0, static_cast<double>(i) / n) * 100) / 100;
    out.push_back(v == 9.19 ? 9.20 : v);
  }
  return out;
}

std::vector<double> series_named(std::string_view name) {
  if (name == "R5") return every(kRenard80, 16);
  if (name == "R10") return every(kRenard80, 8);
  if (name == "R20") return every(kRenard80, 4);
  if (name == "R40") return every(kRenard80, 2);
  if (name == "R80") return every(kRenard80, 1);
  if (name == "E6") return every(kE24, 4);
  if (name == "E12") return every(kE24, 2);
  if (name == "E24") return every(kE24, 1);
  if (name == "E48") return fine_e_series(48);
  if (name == "E96") return fine_e_series(96);
  if (name == "E192") return fine_e_series(192);
  if (name == "1-2-5") return {1, 2, 5};
  if (name == "POWERSOF2") return {1};
  return {};
}

}  // namespace

Result<Granularity> Granularity::find(std::string_view name) {
  Granularity out;
  out.series_ = series_named(name);
  if (out.series_.empty())
    return fail_code(40257, fmt::format("Unknown rounding granularity '{}'", name));
  if (name == "POWERSOF2") out.base_ = 2;
  return out;
}

Status Granularity::check(const ValueView& v) const {
  if (!v.is_number())
    return {location_code(40258),
            fmt::format("$bucketAuto can specify a 'granularity' with numeric boundaries only, "
                        "but found a value with type: {}",
                        type_text(v))};
  if (number_is_nan(v))
    return {
        location_code(40259),
        "$bucketAuto can specify a 'granularity' with numeric boundaries only, but found a NaN"};
  if (v.number_as_double() < 0)
    return {location_code(40260),
            fmt::format("$bucketAuto can specify a 'granularity' with non-negative numbers only, "
                        "but found: {}",
                        value_text(v))};
  return {};
}

Value Granularity::round_up(const ValueView& v) const {
  const double d = v.number_as_double();
  if (d == 0 || !std::isfinite(d)) return Value(v).own();
  double scale = std::pow(base_, std::floor(std::log(d) / std::log(base_)) - 1);
  for (int guard = 0; guard < 4; ++guard, scale *= base_)
    for (const double s : series_)
      if (s * scale > d) return Value::of(s * scale);
  return Value(v).own();
}

Value Granularity::round_down(const ValueView& v) const {
  const double d = v.number_as_double();
  if (d == 0 || !std::isfinite(d)) return Value(v).own();
  double best = 0;
  double scale = std::pow(base_, std::floor(std::log(d) / std::log(base_)) - 1);
  for (int guard = 0; guard < 4; ++guard, scale *= base_)
    for (const double s : series_)
      if (s * scale < d && s * scale > best) best = s * scale;
  return Value::of(best);
}

}  // namespace multifora
