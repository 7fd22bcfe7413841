#include "plugins/query-engine/datetime.h"

#include <algorithm>
#include <limits>

#include "plugins/query-engine/text.h"

namespace multifora {

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  const std::int64_t q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}
std::int64_t floor_mod(std::int64_t a, std::int64_t b) {
  const std::int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
std::int64_t saturating_add(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return b > 0 ? std::numeric_limits<std::int64_t>::max()
               : std::numeric_limits<std::int64_t>::min();
}

std::int64_t days_from_civil(std::int64_t year, std::int64_t month, std::int64_t day) {
  year += floor_div(month - 1, 12);
  month = floor_mod(month - 1, 12) + 1;
  const std::int64_t y = month <= 2 ? year - 1 : year;
  const std::int64_t era = floor_div(y, 400);
  const std::int64_t yoe = y - era * 400;
  const std::int64_t doy = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5;
  const std::int64_t doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
  return era * 146'097 + doe - 719'468 + day - 1;
}

int days_in_month(std::int64_t year, std::int64_t month) {
  return static_cast<int>(days_from_civil(year, month + 1, 1) - days_from_civil(year, month, 1));
}

namespace {

void civil_from_days(std::int64_t days, DateParts& out) {
  const std::int64_t z = days + 719'468;
  const std::int64_t era = floor_div(z, 146'097);
  const std::int64_t doe = z - era * 146'097;
  const std::int64_t yoe = (doe - doe / 1460 + doe / 36'524 - doe / 146'096) / 365;
  const std::int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
  const std::int64_t mp = (5 * doy + 2) / 153;
  out.day = static_cast<int>(doy - (153 * mp + 2) / 5 + 1);
  out.month = static_cast<int>(mp < 10 ? mp + 3 : mp - 9);
  out.year = yoe + era * 400 + (out.month <= 2 ? 1 : 0);
}

// The Monday of ISO week 1 is the one of the week that holds January 4th.
void iso_week_of(std::int64_t days, DateParts& out) {
  const std::int64_t thursday = days - out.iso_weekday() + 4;
  DateParts t;
  civil_from_days(thursday, t);
  out.iso_year = t.year;
  out.iso_week = static_cast<int>((thursday - days_from_civil(t.year, 1, 1)) / 7 + 1);
}

}  // namespace

DateParts split_date(std::int64_t local_ms) {
  DateParts out;
  const std::int64_t days = floor_div(local_ms, kDayMs);
  const std::int64_t rest = floor_mod(local_ms, kDayMs);
  civil_from_days(days, out);
  out.hour = static_cast<int>(rest / kHourMs);
  out.minute = static_cast<int>(rest / kMinuteMs % 60);
  out.second = static_cast<int>(rest / kSecondMs % 60);
  out.millisecond = static_cast<int>(rest % kSecondMs);
  out.weekday = static_cast<int>(floor_mod(days + 4, 7));
  out.day_of_year = static_cast<int>(days - days_from_civil(out.year, 1, 1) + 1);
  iso_week_of(days, out);
  return out;
}

std::optional<DateUnit> parse_date_unit(std::string_view name) {
  static constexpr std::pair<std::string_view, DateUnit> kUnits[] = {
      {"millisecond", DateUnit::kMillisecond},
      {"second", DateUnit::kSecond},
      {"minute", DateUnit::kMinute},
      {"hour", DateUnit::kHour},
      {"day", DateUnit::kDay},
      {"week", DateUnit::kWeek},
      {"month", DateUnit::kMonth},
      {"quarter", DateUnit::kQuarter},
      {"year", DateUnit::kYear}};
  for (const auto& [text, unit] : kUnits)
    if (text == name) return unit;
  return std::nullopt;
}

std::int64_t unit_ms(DateUnit unit) {
  switch (unit) {
    case DateUnit::kMillisecond:
      return 1;
    case DateUnit::kSecond:
      return kSecondMs;
    case DateUnit::kMinute:
      return kMinuteMs;
    case DateUnit::kHour:
      return kHourMs;
    case DateUnit::kDay:
      return kDayMs;
    case DateUnit::kWeek:
      return 7 * kDayMs;
    default:
      return 0;
  }
}

std::optional<int> parse_weekday(std::string_view name) {
  static constexpr std::string_view kDays[] = {"sunday",   "monday", "tuesday", "wednesday",
                                               "thursday", "friday", "saturday"};
  const std::string lower = ascii_lower(name);
  for (int i = 0; i < 7; ++i)
    if (lower == kDays[i] || lower == kDays[i].substr(0, 3)) return i;
  return std::nullopt;
}

namespace {

int months_in(DateUnit unit) {
  return unit == DateUnit::kMonth ? 1 : unit == DateUnit::kQuarter ? 3 : 12;
}

// Local milliseconds of a day (since the epoch) and a time within it; false where out of range.
bool compose(std::int64_t days, std::int64_t time_of_day, std::int64_t* out) {
  std::int64_t ms = 0;
  if (__builtin_mul_overflow(days, kDayMs, &ms) || __builtin_add_overflow(ms, time_of_day, &ms))
    return false;
  *out = ms;
  return true;
}

std::optional<std::int64_t> add_months(std::int64_t local, std::int64_t months) {
  const DateParts p = split_date(local);
  const std::int64_t total = p.year * 12 + (p.month - 1) + months;
  const std::int64_t year = floor_div(total, 12);
  const std::int64_t month = floor_mod(total, 12) + 1;
  const int day = std::min(p.day, days_in_month(year, month));
  std::int64_t ms = 0;
  if (!compose(days_from_civil(year, month, day), floor_mod(local, kDayMs), &ms))
    return std::nullopt;
  return ms;
}

}  // namespace

std::optional<std::int64_t> date_add(std::int64_t utc_ms, DateUnit unit, std::int64_t amount,
                                     const TimeZone& zone) {
  const std::int64_t step = unit_ms(unit);
  if (unit <= DateUnit::kHour) {
    std::int64_t delta = 0;
    std::int64_t sum = 0;
    if (__builtin_mul_overflow(step, amount, &delta) || __builtin_add_overflow(utc_ms, delta, &sum))
      return std::nullopt;
    return sum;
  }
  const std::int64_t local = zone.to_local(utc_ms);
  std::optional<std::int64_t> moved;
  if (step != 0) {
    std::int64_t delta = 0;
    std::int64_t sum = 0;
    if (__builtin_mul_overflow(step, amount, &delta) || __builtin_add_overflow(local, delta, &sum))
      return std::nullopt;
    moved = sum;
  } else {
    constexpr std::int64_t kMonthsMax = 4'000'000'000;
    if (amount > kMonthsMax || amount < -kMonthsMax) return std::nullopt;
    moved = add_months(local, amount * months_in(unit));
  }
  if (!moved) return std::nullopt;
  return zone.to_utc(*moved);
}

std::int64_t date_diff(std::int64_t from, std::int64_t to, DateUnit unit, const TimeZone& zone,
                       int start_of_week) {
  if (unit == DateUnit::kMillisecond) {
    std::int64_t diff = 0;
    if (__builtin_sub_overflow(to, from, &diff))
      return to > from ? std::numeric_limits<std::int64_t>::max()
                       : std::numeric_limits<std::int64_t>::min();
    return diff;
  }
  const std::int64_t a = zone.to_local(from);
  const std::int64_t b = zone.to_local(to);
  switch (unit) {
    case DateUnit::kSecond:
    case DateUnit::kMinute:
    case DateUnit::kHour: {
      // Boundaries lie at whole local hours, but time runs on in UTC through a change of clocks.
      const std::int64_t step = unit_ms(unit);
      return floor_div(saturating_add(to, -floor_mod(b, step)), step) -
             floor_div(saturating_add(from, -floor_mod(a, step)), step);
    }
    case DateUnit::kDay:
      return floor_div(b, kDayMs) - floor_div(a, kDayMs);
    case DateUnit::kWeek: {
      const auto week = [&](std::int64_t ms) {
        return floor_div(floor_div(ms, kDayMs) + 4 - start_of_week, 7);
      };
      return week(b) - week(a);
    }
    default:
      break;
  }
  const DateParts pa = split_date(a);
  const DateParts pb = split_date(b);
  const int n = months_in(unit);
  return floor_div(pb.year * 12 + pb.month - 1, n) - floor_div(pa.year * 12 + pa.month - 1, n);
}

std::optional<std::int64_t> date_trunc(std::int64_t utc_ms, DateUnit unit, std::int64_t bin,
                                       const TimeZone& zone, int start_of_week) {
  const std::int64_t reference_local = days_from_civil(2000, 1, 1) * kDayMs;
  const std::int64_t step = unit_ms(unit);
  if (unit <= DateUnit::kHour) {
    std::int64_t width = 0;
    if (__builtin_mul_overflow(step, bin, &width)) return std::nullopt;
    const std::int64_t reference = zone.to_utc(reference_local);
    std::int64_t distance = 0;
    std::int64_t start = 0;
    if (__builtin_sub_overflow(utc_ms, reference, &distance) ||
        __builtin_sub_overflow(utc_ms, floor_mod(distance, width), &start))
      return std::nullopt;
    return start;
  }
  const std::int64_t local = zone.to_local(utc_ms);
  std::int64_t start = 0;
  if (step != 0) {
    std::int64_t reference = days_from_civil(2000, 1, 1);  // a Saturday
    std::int64_t width = bin;
    if (unit == DateUnit::kWeek) {
      reference += floor_mod(start_of_week - 6, 7);
      if (__builtin_mul_overflow(bin, std::int64_t{7}, &width)) return std::nullopt;
    }
    const std::int64_t days = floor_div(local, kDayMs);
    if (!compose(days - floor_mod(days - reference, width), 0, &start)) return std::nullopt;
  } else {
    std::int64_t width = 0;
    if (__builtin_mul_overflow(bin, std::int64_t{months_in(unit)}, &width)) return std::nullopt;
    const DateParts p = split_date(local);
    const std::int64_t months = (p.year - 2000) * 12 + p.month - 1;
    const std::int64_t bin_start = months - floor_mod(months, width);
    if (!compose(days_from_civil(2000 + floor_div(bin_start, 12), floor_mod(bin_start, 12) + 1, 1),
                 0, &start))
      return std::nullopt;
  }
  return zone.to_utc(start);
}

}  // namespace multifora
