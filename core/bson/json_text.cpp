#include "core/bson/json_text.h"

#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdlib>

namespace multifora::json_text {

namespace {

constexpr std::string_view kBase64 =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr auto kBase64Values = [] {
  std::array<std::int8_t, 256> values{};
  values.fill(-1);
  for (std::size_t i = 0; i < kBase64.size(); ++i) {
    values[static_cast<unsigned char>(kBase64[i])] = static_cast<std::int8_t>(i);
  }
  return values;
}();

constexpr std::int64_t kMsPerDay = 86'400'000;
constexpr std::string_view kHexDigits = "0123456789abcdef";

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

void append_padded(std::int64_t value, std::size_t width, std::string& out) {
  char digits[20];
  const char* end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  const auto length = static_cast<std::size_t>(end - digits);
  if (length < width) out.append(width - length, '0');
  out.append(digits, length);
}

// Takes fixed pieces off the front of a text; remembers whether one was missing.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest_(text) {}

  int digits(std::size_t count) {
    int value = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (rest_.empty() || !is_digit(rest_.front())) {
        ok_ = false;
        return 0;
      }
      value = value * 10 + (rest_.front() - '0');
      rest_.remove_prefix(1);
    }
    return value;
  }
  bool eat(char c) {
    if (!at(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char c) { ok_ = eat(c) && ok_; }
  bool at(char c) const { return rest_.starts_with(c); }
  bool at_digit() const { return !rest_.empty() && is_digit(rest_.front()); }
  bool at_end() const { return rest_.empty(); }
  bool ok() const { return ok_; }
  void fail() { ok_ = false; }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

std::int64_t scan_fraction_ms(Scanner& scan) {
  if (!scan.eat('.')) return 0;
  std::int64_t ms = scan.digits(1) * 100;
  for (const int unit : {10, 1}) {
    if (scan.at_digit()) ms += scan.digits(1) * unit;
  }
  while (scan.at_digit()) scan.digits(1);
  return ms;
}

std::int64_t scan_offset_minutes(Scanner& scan) {
  if (scan.eat('Z')) return 0;
  const bool west = scan.at('-');
  if (!scan.eat('+') && !scan.eat('-')) {
    scan.fail();
    return 0;
  }
  const int hours = scan.digits(2);
  const int minutes = scan.eat(':') || scan.at_digit() ? scan.digits(2) : 0;
  if (hours > 23 || minutes > 59) scan.fail();
  const int offset = hours * 60 + minutes;
  return west ? -offset : offset;
}

}  // namespace

void append_base64(Bytes bytes, std::string& out) {
  std::size_t i = 0;
  const auto byte = [&](std::size_t at) {
    return at < bytes.size() ? static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[at]))
                             : 0u;
  };
  for (; i < bytes.size(); i += 3) {
    const std::uint32_t word = byte(i) << 16 | byte(i + 1) << 8 | byte(i + 2);
    out.push_back(kBase64[word >> 18]);
    out.push_back(kBase64[word >> 12 & 63]);
    out.push_back(i + 1 < bytes.size() ? kBase64[word >> 6 & 63] : '=');
    out.push_back(i + 2 < bytes.size() ? kBase64[word & 63] : '=');
  }
}

std::optional<Buffer> parse_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::size_t padding = 0;
  while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') ++padding;
  Buffer out;
  out.reserve(text.size() / 4 * 3);
  std::uint32_t word = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_padding = i >= text.size() - padding;
    const int value = is_padding ? 0 : kBase64Values[static_cast<unsigned char>(text[i])];
    if (value < 0) return std::nullopt;
    word = word << 6 | static_cast<std::uint32_t>(value);
    if (i % 4 != 3) continue;
    for (const int shift : {16, 8, 0}) out.push_back(static_cast<char>(word >> shift));
    word = 0;
  }
  out.resize(out.size() - padding);
  return out;
}

void append_iso_date(std::int64_t ms, std::string& out) {
  using namespace std::chrono;
  const year_month_day date{sys_days{days{ms / kMsPerDay}}};
  const std::int64_t time = ms % kMsPerDay;
  append_padded(static_cast<int>(date.year()), 4, out);
  out.push_back('-');
  append_padded(static_cast<unsigned>(date.month()), 2, out);
  out.push_back('-');
  append_padded(static_cast<unsigned>(date.day()), 2, out);
  out.push_back('T');
  append_padded(time / 3'600'000, 2, out);
  out.push_back(':');
  append_padded(time / 60'000 % 60, 2, out);
  out.push_back(':');
  append_padded(time / 1000 % 60, 2, out);
  if (time % 1000 != 0) {
    out.push_back('.');
    append_padded(time % 1000, 3, out);
  }
  out.push_back('Z');
}

std::optional<std::int64_t> parse_iso_date(std::string_view text) {
  using namespace std::chrono;
  Scanner scan(text);
  const int y = scan.digits(4);
  scan.expect('-');
  const int m = scan.digits(2);
  scan.expect('-');
  const int d = scan.digits(2);
  scan.expect('T');
  const int hour = scan.digits(2);
  scan.expect(':');
  const int minute = scan.digits(2);
  scan.expect(':');
  const int second = scan.digits(2);
  const std::int64_t ms = scan_fraction_ms(scan);
  const std::int64_t offset_minutes = scan_offset_minutes(scan);
  const year_month_day date{year{y}, month{static_cast<unsigned>(m)},
                            day{static_cast<unsigned>(d)}};
  if (!scan.ok() || !scan.at_end() || !date.ok()) return std::nullopt;
  if (hour > 23 || minute > 59 || second > 59) return std::nullopt;
  const std::int64_t day_ms = sys_days{date}.time_since_epoch().count() * kMsPerDay;
  return day_ms + (hour * 60 + minute - offset_minutes) * 60'000 + second * 1000 + ms;
}

void append_double(double value, std::string& out) {
  char text[32];
  const double magnitude = std::fabs(value);
  const bool plain = magnitude == 0 || (magnitude >= 1e-4 && magnitude < 1e16);
  const auto format = plain ? std::chars_format::fixed : std::chars_format::scientific;
  const char* end = std::to_chars(text, text + sizeof text, value, format).ptr;
  const std::string_view shortest(text, static_cast<std::size_t>(end - text));
  const std::size_t exponent = shortest.find('e');  // "1e+20"
  const std::string_view mantissa = shortest.substr(0, exponent);
  out.append(mantissa);
  if (mantissa.find('.') == std::string_view::npos) out.append(".0");
  if (exponent != std::string_view::npos) out.append("E").append(shortest.substr(exponent + 1));
}

std::optional<double> parse_double(std::string_view text) {
  // from_chars also takes "inf" and "nan", which are not numbers here.
  if (text.find_first_not_of("0123456789+-.eE") != std::string_view::npos) return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size() || error == std::errc::invalid_argument) return std::nullopt;
  if (error == std::errc::result_out_of_range) {  // too large, or so small that it is zero
    value = std::strtod(std::string(text).c_str(), nullptr);
    if (std::isinf(value)) return std::nullopt;
  }
  return value;
}

std::optional<std::int64_t> parse_int64(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::uint8_t> parse_hex_byte(std::string_view text) {
  std::uint8_t value = 0;
  if (text.empty() || text.size() > 2) return std::nullopt;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

void append_hex_byte(std::uint8_t byte, std::string& out) {
  out.push_back(kHexDigits[byte >> 4]);
  out.push_back(kHexDigits[byte & 15]);
}

std::optional<Buffer> parse_uuid(std::string_view text) {
  if (text.size() != 36) return std::nullopt;
  Buffer out;
  for (std::size_t i = 0; i < text.size();) {
    if (i == 8 || i == 13 || i == 18 || i == 23) {
      if (text[i++] != '-') return std::nullopt;
    } else {
      const auto byte = parse_hex_byte(text.substr(i, 2));
      if (!byte) return std::nullopt;
      out.push_back(static_cast<char>(*byte));
      i += 2;
    }
  }
  return out;
}

}  // namespace multifora::json_text
