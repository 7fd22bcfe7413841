// Calendar arithmetic on milliseconds since 1970 (proleptic Gregorian), time zones (Olson names
// through ICU, or UTC offsets) and date units. Stateless but for the zones, which are cached and
// shared; any thread. Nothing here overflows: results saturate or are refused.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/status.h"

namespace multifora {

inline constexpr std::int64_t kSecondMs = 1000;
inline constexpr std::int64_t kMinuteMs = 60 * kSecondMs;
inline constexpr std::int64_t kHourMs = 60 * kMinuteMs;
inline constexpr std::int64_t kDayMs = 24 * kHourMs;

// Days since 1970-01-01; month and day may be out of their range and carry over.
std::int64_t days_from_civil(std::int64_t year, std::int64_t month, std::int64_t day);
std::int64_t floor_div(std::int64_t a, std::int64_t b);
std::int64_t floor_mod(std::int64_t a, std::int64_t b);
std::int64_t saturating_add(std::int64_t a, std::int64_t b);
int days_in_month(std::int64_t year, std::int64_t month);

struct DateParts {
  std::int64_t year = 1970;
  int month = 1, day = 1;
  int hour = 0, minute = 0, second = 0, millisecond = 0;
  int weekday = 4;      // 0 Sunday .. 6
  int day_of_year = 1;  // 1..366
  std::int64_t iso_year = 1970;
  int iso_week = 1;
  int iso_weekday() const { return weekday == 0 ? 7 : weekday; }
  int week() const { return (day_of_year + 6 - weekday) / 7; }  // weeks start on Sunday, from 0
};
DateParts split_date(std::int64_t local_ms);

class TimeZone {
 public:
  // "America/New_York", "+05:30", "-0800", "+3", "UTC". Location40485 for an unknown one.
  static Result<std::shared_ptr<const TimeZone>> find(std::string_view name);
  static const std::shared_ptr<const TimeZone>& utc();
  virtual ~TimeZone() = default;
  virtual std::int64_t offset_ms(std::int64_t utc_ms) const = 0;
  // A time that a clock change skips counts as if the change had not come yet.
  virtual std::int64_t to_utc(std::int64_t local_ms) const = 0;
  virtual bool is_utc() const { return false; }
  std::int64_t to_local(std::int64_t utc_ms) const {
    return saturating_add(utc_ms, offset_ms(utc_ms));
  }
};

enum class DateUnit { kMillisecond, kSecond, kMinute, kHour, kDay, kWeek, kMonth, kQuarter, kYear };
std::optional<DateUnit> parse_date_unit(std::string_view name);
// Length of units up to a week; 0 for longer ones.
std::int64_t unit_ms(DateUnit unit);
// 0 Sunday .. 6; "mon" and "Monday" alike.
std::optional<int> parse_weekday(std::string_view name);

// nullopt: the result is out of range.
std::optional<std::int64_t> date_add(std::int64_t utc_ms, DateUnit unit, std::int64_t amount,
                                     const TimeZone& zone);
// How many boundaries of `unit` lie between the two.
std::int64_t date_diff(std::int64_t from, std::int64_t to, DateUnit unit, const TimeZone& zone,
                       int start_of_week);
// The start of the bin of `bin` units that holds the date, counted from 2000-01-01.
std::optional<std::int64_t> date_trunc(std::int64_t utc_ms, DateUnit unit, std::int64_t bin,
                                       const TimeZone& zone, int start_of_week);

}  // namespace multifora
