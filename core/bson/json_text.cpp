#include "core/bson/json_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdlib>

namespace multifora::json_text {

namespace {

struct Alphabet {
  explicit constexpr Alphabet(std::string_view text) : digits(text) {
    values.fill(-1);
    for (std::size_t i = 0; i < digits.size(); ++i)
      values[static_cast<unsigned char>(digits[i])] = static_cast<std::int8_t>(i);
  }
  std::string_view digits;
  std::array<std::int8_t, 256> values{};
};
constexpr Alphabet kStandard("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/");
constexpr Alphabet kUrl("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_");

const Alphabet& alphabet_of(Base64 which) { return which == Base64::kUrl ? kUrl : kStandard; }

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

void append_base64(Bytes bytes, std::string& out, Base64 which) {
  const std::string_view digits = alphabet_of(which).digits;
  const auto byte = [&](std::size_t at) {
    return at < bytes.size() ? static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[at]))
                             : 0u;
  };
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::uint32_t word = byte(i) << 16 | byte(i + 1) << 8 | byte(i + 2);
    const std::size_t written = std::min<std::size_t>(bytes.size() - i, 3) + 1;
    for (std::size_t k = 0; k < 4; ++k) {
      if (k < written)
        out.push_back(digits[word >> (18 - 6 * k) & 63]);
      else if (which == Base64::kStandard)
        out.push_back('=');
    }
  }
}

std::optional<Buffer> parse_base64(std::string_view text, Base64 which) {
  const Alphabet& alphabet = alphabet_of(which);
  if (which == Base64::kStandard && text.size() % 4 != 0) return std::nullopt;
  for (int i = 0; i < 2 && text.ends_with('='); ++i) text.remove_suffix(1);
  if (text.size() % 4 == 1) return std::nullopt;
  Buffer out;
  out.reserve(text.size() / 4 * 3 + 2);
  std::uint32_t word = 0;
  int bits = 0;
  for (const char c : text) {
    const int value = alphabet.values[static_cast<unsigned char>(c)];
    if (value < 0) return std::nullopt;
    word = word << 6 | static_cast<std::uint32_t>(value);
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    out.push_back(static_cast<char>(word >> bits & 0xff));
  }
  return out;
}

Bytes binary_content(const ValueView& binary) {
  Bytes bytes = binary.binary_bytes();
  if (binary.binary_subtype() == 2) bytes.remove_prefix(std::min<std::size_t>(4, bytes.size()));
  return bytes;
}

std::string sorted_options(const ValueView& regex) {
  std::string options(regex.regex_options());
  std::sort(options.begin(), options.end());
  return options;
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

std::string double_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  std::string text;
  append_double(value, text);
  return text;
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

void append_hex(Bytes bytes, std::string& out) {
  for (const char byte : bytes) append_hex_byte(static_cast<std::uint8_t>(byte), out);
}

std::optional<Buffer> parse_hex(std::string_view text) {
  if (text.size() % 2 != 0) return std::nullopt;
  Buffer out;
  for (; !text.empty(); text.remove_prefix(2)) {
    const auto byte = parse_hex_byte(text.substr(0, 2));
    if (!byte) return std::nullopt;
    out.push_back(static_cast<char>(*byte));
  }
  return out;
}

std::string uuid_text(Bytes bytes) {
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) out.push_back('-');
    append_hex_byte(static_cast<std::uint8_t>(bytes[i]), out);
  }
  return out;
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
