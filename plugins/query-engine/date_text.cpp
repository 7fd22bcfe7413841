#include "plugins/query-engine/date_text.h"

#include <array>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "plugins/query-engine/text.h"

namespace multifora {
namespace {

constexpr std::array<std::string_view, 12> kMonths = {
    "January", "February", "March",     "April",   "May",      "June",
    "July",    "August",   "September", "October", "November", "December"};

}  // namespace

Status check_date_format(std::string_view format, bool for_parsing) {
  constexpr std::string_view kBoth = "%GHLMSVYZbBdjmuz";
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') continue;
    if (++i == format.size())
      return {location_code(18535), "Unmatched '%' at end of format string"};
    const bool known = kBoth.find(format[i]) != std::string_view::npos ||
                       (!for_parsing && (format[i] == 'U' || format[i] == 'w'));
    if (!known)
      return {location_code(18536),
              fmt::format("Invalid format character '%{}' in format string", format[i])};
  }
  return {};
}

Result<std::string> format_date(std::string_view format, std::int64_t utc_ms,
                                const TimeZone& zone) {
  MULTIFORA_TRY_R(check_date_format(format, false));
  const std::int64_t offset_min = floor_div(zone.offset_ms(utc_ms), kMinuteMs);
  const DateParts p = split_date(zone.to_local(utc_ms));
  std::string out;
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') {
      out += format[i];
      continue;
    }
    const char c = format[++i];
    const std::int64_t year = c == 'G' ? p.iso_year : p.year;
    if ((c == 'Y' || c == 'G') && (year < 0 || year > 9999))
      return fail(location_code(18537), fmt::format("$dateToString is only defined on year 0-9999, "
                                                    "tried to use year {}",
                                                    year));
    switch (c) {
      case '%':
        out += '%';
        break;
      case 'G':
      case 'Y':
        out += fmt::format("{:04}", year);
        break;
      case 'm':
        out += fmt::format("{:02}", p.month);
        break;
      case 'd':
        out += fmt::format("{:02}", p.day);
        break;
      case 'H':
        out += fmt::format("{:02}", p.hour);
        break;
      case 'M':
        out += fmt::format("{:02}", p.minute);
        break;
      case 'S':
        out += fmt::format("{:02}", p.second);
        break;
      case 'L':
        out += fmt::format("{:03}", p.millisecond);
        break;
      case 'j':
        out += fmt::format("{:03}", p.day_of_year);
        break;
      case 'w':
        out += fmt::format("{}", p.weekday + 1);
        break;
      case 'u':
        out += fmt::format("{}", p.iso_weekday());
        break;
      case 'U':
        out += fmt::format("{:02}", p.week());
        break;
      case 'V':
        out += fmt::format("{:02}", p.iso_week);
        break;
      case 'b':
        out += kMonths[static_cast<std::size_t>(p.month - 1)].substr(0, 3);
        break;
      case 'B':
        out += kMonths[static_cast<std::size_t>(p.month - 1)];
        break;
      case 'Z':
        out += fmt::format("{}", offset_min);
        break;
      case 'z': {
        const std::int64_t m = offset_min < 0 ? -offset_min : offset_min;
        out += fmt::format("{}{:02}{:02}", offset_min < 0 ? '-' : '+', m / 60, m % 60);
        break;
      }
      default:
        break;
    }
  }
  return out;
}

namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// What the text said; nullopt where it did not.
struct Fields {
  std::optional<std::int64_t> year, month, day, day_of_year;
  std::optional<std::int64_t> iso_year, iso_week, iso_day;
  std::int64_t hour = 0, minute = 0, second = 0, millisecond = 0;
  bool have_time = false;
  std::optional<std::int64_t> offset_ms;
  std::shared_ptr<const TimeZone> zone;
};

std::unexpected<Status> bad_date(std::string_view text, std::string_view why) {
  return fail(ErrorCode::kConversionFailure,
              fmt::format("Error parsing date string '{}'; {}", text, why));
}

Result<std::int64_t> to_instant(const Fields& f, std::string_view text, const TimeZone* zone) {
  std::int64_t days = 0;
  if (f.iso_year || f.iso_week || f.iso_day) {
    if (f.year || f.month || f.day || f.day_of_year)
      return bad_date(text, "mixing of ISO dates with natural dates is not allowed");
    if (!f.iso_year) return bad_date(text, "an incomplete date/time string has been found");
    const std::int64_t january4 = days_from_civil(*f.iso_year, 1, 4);
    const std::int64_t monday = january4 - floor_mod(january4 + 3, 7);
    days = monday + (f.iso_week.value_or(1) - 1) * 7 + f.iso_day.value_or(1) - 1;
  } else if (f.year && f.day_of_year) {
    days = days_from_civil(*f.year, 1, 1) + *f.day_of_year - 1;
  } else {
    if (!f.year || !f.month || !f.day)
      return bad_date(text, "an incomplete date/time string has been found, with elements missing");
    if (*f.month < 1 || *f.month > 12 || *f.day < 1 || *f.day > days_in_month(*f.year, *f.month))
      return bad_date(text, "the parsed date was invalid");
    days = days_from_civil(*f.year, *f.month, *f.day);
  }
  if (f.hour > 24 || f.minute > 59 || f.second > 59)
    return bad_date(text, "the parsed time was invalid");
  const std::int64_t local = days * kDayMs + f.hour * kHourMs + f.minute * kMinuteMs +
                             f.second * kSecondMs + f.millisecond;
  if (f.offset_ms || f.zone) {
    if (zone != nullptr)
      return bad_date(text,
                      "you cannot pass in a date/time string with time zone information together "
                      "with a timezone argument");
    return f.offset_ms ? local - *f.offset_ms : f.zone->to_utc(local);
  }
  return zone != nullptr ? zone->to_utc(local) : local;
}

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}
  bool done() const { return at_ >= text_.size(); }
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  void skip(std::size_t n = 1) { at_ += n; }
  bool take(char c) {
    if (peek() != c || done()) return false;
    ++at_;
    return true;
  }
  void spaces() {
    while (peek() == ' ' || peek() == '\t') ++at_;
  }
  std::size_t digits_ahead(std::size_t from = 0) const {
    std::size_t n = 0;
    while (is_digit(peek(from + n))) ++n;
    return n;
  }
  // Between least and most digits.
  std::optional<std::int64_t> number(std::size_t least, std::size_t most) {
    std::int64_t v = 0;
    std::size_t n = 0;
    while (n < most && is_digit(peek())) {
      v = v * 10 + (peek() - '0');
      ++at_;
      ++n;
    }
    if (n < least) return std::nullopt;
    return v;
  }
  std::string_view word() {
    const std::size_t from = at_;
    while (is_letter(peek())) ++at_;
    return text_.substr(from, at_ - from);
  }
  std::string_view rest() const { return text_.substr(std::min(at_, text_.size())); }
  std::size_t position() const { return at_; }
  void seek(std::size_t at) { at_ = at; }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
};

std::optional<int> month_named(std::string_view word) {
  const std::string lower = ascii_lower(word);
  if (lower.size() < 3) return std::nullopt;
  for (std::size_t i = 0; i < kMonths.size(); ++i) {
    const std::string month = ascii_lower(kMonths[i]);
    if (lower == month || lower == month.substr(0, 3) || (lower == "sept" && i == 8))
      return static_cast<int>(i + 1);
  }
  return std::nullopt;
}

// A fraction of a second in milliseconds, cut after the third digit.
std::int64_t read_fraction(Reader& in) {
  std::int64_t ms = 0;
  std::int64_t scale = 100;
  while (is_digit(in.peek())) {
    ms += scale * (in.peek() - '0');
    scale /= 10;
    in.skip();
  }
  return ms;
}

// +hh, +hhmm, +hh:mm
bool read_offset(Reader& in, Fields& f) {
  const bool negative = in.peek() == '-';
  in.skip();
  const std::size_t n = in.digits_ahead();
  std::optional<std::int64_t> hours;
  std::optional<std::int64_t> minutes = 0;
  if (n == 4) {
    hours = in.number(2, 2);
    minutes = in.number(2, 2);
  } else if (n == 1 || n == 2) {
    hours = in.number(1, 2);
    if (in.take(':')) minutes = in.number(2, 2);
  }
  if (!hours || !minutes) return false;
  const std::int64_t ms = *hours * kHourMs + *minutes * kMinuteMs;
  f.offset_ms = negative ? -ms : ms;
  return true;
}

bool read_zone(Reader& in, Fields& f) {
  if (in.peek() == '+' || in.peek() == '-') return read_offset(in, f);
  const std::size_t from = in.position();
  const std::string_view all = in.rest();
  std::size_t n = 0;
  while (n < all.size() && (is_letter(all[n]) || all[n] == '/' || all[n] == '_')) ++n;
  const std::string_view name = all.substr(0, n);
  if (name.empty()) return false;
  in.seek(from + n);
  const std::string upper = ascii_upper(name);
  if (upper == "Z" || upper == "UTC" || upper == "GMT") {
    f.offset_ms = 0;
    if (upper != "Z" && (in.peek() == '+' || in.peek() == '-')) return read_offset(in, f);
    return true;
  }
  static constexpr std::pair<std::string_view, int> kAbbreviations[] = {
      {"EST", -5}, {"EDT", -4}, {"CST", -6}, {"CDT", -5}, {"MST", -7}, {"MDT", -6},
      {"PST", -8}, {"PDT", -7}, {"CET", 1},  {"CEST", 2}, {"BST", 1},  {"WET", 0},
      {"EET", 2},  {"EEST", 3}, {"MSK", 3},  {"JST", 9},  {"HST", -10}};
  for (const auto& [abbreviation, hours] : kAbbreviations) {
    if (upper != abbreviation) continue;
    f.offset_ms = hours * kHourMs;
    return true;
  }
  Result<std::shared_ptr<const TimeZone>> zone = TimeZone::find(name);
  if (!zone) return false;
  f.zone = std::move(*zone);
  return true;
}

// hh:mm[:ss[.fff]] [am|pm], hhmm[ss] after a T
bool read_time(Reader& in, Fields& f) {
  if (f.have_time) return false;
  f.have_time = true;
  const std::size_t n = in.digits_ahead();
  if (n == 4 || n == 6) {
    f.hour = *in.number(2, 2);
    f.minute = *in.number(2, 2);
    if (n == 6) f.second = *in.number(2, 2);
    if (n == 6 && in.take('.')) f.millisecond = read_fraction(in);
    return true;
  }
  const std::optional<std::int64_t> hour = in.number(1, 2);
  if (!hour) return false;
  f.hour = *hour;
  if (in.take(':')) {
    const std::optional<std::int64_t> minute = in.number(1, 2);
    if (!minute) return false;
    f.minute = *minute;
    if (in.take(':')) {
      const std::optional<std::int64_t> second = in.number(1, 2);
      if (!second) return false;
      f.second = *second;
      if (in.take('.') || in.take(',')) f.millisecond = read_fraction(in);
    }
  }
  const std::size_t mark = in.position();
  in.spaces();
  const std::string word = ascii_lower(in.word());
  if (word == "am" || word == "pm") {
    if (f.hour < 1 || f.hour > 12) return false;
    f.hour = f.hour % 12 + (word == "pm" ? 12 : 0);
  } else {
    in.seek(mark);
  }
  return true;
}

// Numbers that start a date: yyyy-mm-dd, yyyymmdd, mm/dd/yyyy, dd-mm-yyyy, dd.mm.yyyy, yyyy-Www-d,
// yyyy-ddd, "4 July 2017".
bool read_numeric_date(Reader& in, Fields& f) {
  const std::size_t n = in.digits_ahead();
  if (n == 8) {
    f.year = in.number(4, 4);
    f.month = in.number(2, 2);
    f.day = in.number(2, 2);
    return true;
  }
  if (n == 4) {
    f.year = in.number(4, 4);
    const char separator = in.peek();
    if (separator != '-' && separator != '/' && separator != '.') return true;
    if (separator == '-' && (in.peek(1) == 'W' || in.peek(1) == 'w')) {
      in.skip(2);
      f.iso_year = f.year;
      f.year.reset();
      f.iso_week = in.number(2, 2);
      if (in.take('-')) f.iso_day = in.number(1, 1);
      return f.iso_week.has_value();
    }
    in.skip();
    if (in.digits_ahead() == 3) {
      f.day_of_year = in.number(3, 3);
      return *f.day_of_year >= 1 && *f.day_of_year <= 366;
    }
    if (is_letter(in.peek())) {
      const std::optional<int> month = month_named(in.word());
      if (!month) return false;
      f.month = *month;
    } else {
      f.month = in.number(1, 2);
    }
    if (!f.month) return false;
    if (in.take(separator))
      f.day = in.number(1, 2);
    else
      f.day = 1;
    return f.day.has_value();
  }
  if (n != 1 && n != 2) return false;
  const std::int64_t first = *in.number(1, 2);
  const char separator = in.peek();
  if (separator == '/' || ((separator == '-' || separator == '.') && is_digit(in.peek(1)))) {
    in.skip();
    const std::optional<std::int64_t> second = in.number(1, 2);
    if (!second || !in.take(separator)) return false;
    f.year = in.number(4, 4);
    f.month = separator == '/' ? first : *second;
    f.day = separator == '/' ? *second : first;
    return f.year.has_value();
  }
  f.day = first;  // "4 July 2017", "4th July 2017"
  const std::size_t mark = in.position();
  const std::string suffix = ascii_lower(in.word());
  if (suffix != "st" && suffix != "nd" && suffix != "rd" && suffix != "th") in.seek(mark);
  return true;
}

// A word: a month, a weekday (ignored), or a zone.
bool read_word(Reader& in, Fields& f) {
  const std::size_t mark = in.position();
  const std::string_view word = in.word();
  if (const std::optional<int> month = month_named(word); month && !f.month) {
    f.month = *month;
    in.take('.');
    in.spaces();
    in.take('-');
    if (!f.day && in.digits_ahead() > 0 && in.digits_ahead() <= 2) {
      f.day = in.number(1, 2);
      const std::size_t at = in.position();
      const std::string suffix = ascii_lower(in.word());
      if (suffix != "st" && suffix != "nd" && suffix != "rd" && suffix != "th") in.seek(at);
    }
    in.take(',');
    in.spaces();
    in.take('-');
    if (!f.year && in.digits_ahead() == 4 && in.peek(4) != ':') f.year = in.number(4, 4);
    return true;
  }
  if (parse_weekday(word)) {
    in.take(',');
    return true;
  }
  if ((word == "T" || word == "t") && is_digit(in.peek())) return read_time(in, f);
  in.seek(mark);
  if (f.offset_ms || f.zone) return false;
  return read_zone(in, f);
}

bool read_any(Reader& in, Fields& f) {
  const bool have_date = f.year || f.iso_year;
  if (is_digit(in.peek())) {
    const std::size_t n = in.digits_ahead();
    if (in.peek(n) == ':' || (have_date && f.day && n <= 2)) return read_time(in, f);
    if (have_date) return false;
    if (f.month && n == 4) {
      f.year = in.number(4, 4);
      return true;
    }
    return read_numeric_date(in, f);
  }
  if (is_letter(in.peek())) return read_word(in, f);
  if ((in.peek() == '+' || in.peek() == '-') && f.have_time && !f.offset_ms && !f.zone)
    return read_offset(in, f);
  if (in.peek() == ',' || (in.peek() == '-' && f.day && !f.month)) {
    in.skip();
    return true;
  }
  return false;
}

}  // namespace

Result<std::int64_t> parse_date(std::string_view text, const TimeZone* zone) {
  Reader in(text);
  Fields f;
  in.spaces();
  if (in.done()) return bad_date(text, "an empty string");
  while (!in.done()) {
    if (!read_any(in, f))
      return bad_date(text, fmt::format("unexpected character at '{}'", in.rest()));
    in.spaces();
  }
  return to_instant(f, text, zone);
}

Result<std::int64_t> parse_date_by_format(std::string_view text, std::string_view format,
                                          const TimeZone* zone) {
  MULTIFORA_TRY_R(check_date_format(format, true));
  Reader in(text);
  Fields f;
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || format[i + 1] == '%') {
      if (format[i] == '%') ++i;
      if (!in.take(format[i])) return bad_date(text, "the format separator does not match");
      continue;
    }
    bool ok = true;
    const auto read = [&](std::optional<std::int64_t>& to, std::size_t least, std::size_t most) {
      to = in.number(least, most);
      ok = to.has_value();
    };
    const auto read_plain = [&](std::int64_t& to, std::size_t least, std::size_t most) {
      const std::optional<std::int64_t> v = in.number(least, most);
      ok = v.has_value();
      if (v) to = *v;
    };
    switch (format[++i]) {
      case 'Y':
        read(f.year, 4, 4);
        break;
      case 'm':
        read(f.month, 1, 2);
        break;
      case 'd':
        read(f.day, 1, 2);
        break;
      case 'j':
        read(f.day_of_year, 1, 3);
        break;
      case 'G':
        read(f.iso_year, 4, 4);
        break;
      case 'V':
        read(f.iso_week, 1, 2);
        break;
      case 'u':
        read(f.iso_day, 1, 1);
        break;
      case 'H':
        read_plain(f.hour, 1, 2);
        break;
      case 'M':
        read_plain(f.minute, 1, 2);
        break;
      case 'S':
        read_plain(f.second, 1, 2);
        break;
      case 'L':
        ok = is_digit(in.peek());
        f.millisecond = read_fraction(in);
        break;
      case 'b':
      case 'B': {
        const std::optional<int> month = month_named(in.word());
        ok = month.has_value();
        if (month) f.month = *month;
        break;
      }
      case 'z':
        ok = read_zone(in, f);
        break;
      case 'Z': {
        const bool negative = in.peek() == '-';
        if (in.peek() == '+' || in.peek() == '-') in.skip();
        const std::optional<std::int64_t> minutes = in.number(1, 4);
        ok = minutes.has_value();
        if (minutes) f.offset_ms = (negative ? -*minutes : *minutes) * kMinuteMs;
        break;
      }
      default:
        ok = false;
        break;
    }
    if (!ok) return bad_date(text, fmt::format("the text does not match '%{}'", format[i]));
  }
  if (!in.done()) return bad_date(text, "trailing data");
  return to_instant(f, text, zone);
}

}  // namespace multifora
