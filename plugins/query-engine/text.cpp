#include "plugins/query-engine/text.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

namespace multifora {

std::size_t find_text(std::string_view text, std::string_view token, std::size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (token.empty()) return from;
  if (from == text.size()) return std::string_view::npos;
  const void* at = ::memmem(text.data() + from, text.size() - from, token.data(), token.size());
  return at == nullptr ? std::string_view::npos
                       : static_cast<std::size_t>(static_cast<const char*>(at) - text.data());
}

std::size_t count_code_points(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !is_utf8_continuation(c); }));
}

std::size_t utf8_length(char lead) {
  const auto c = static_cast<unsigned char>(lead);
  return c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
}

std::size_t code_point_offset(std::string_view text, std::size_t index) {
  std::size_t at = 0;
  while (at < text.size() && index-- > 0) {
    ++at;
    while (at < text.size() && is_utf8_continuation(text[at])) ++at;
  }
  return at;
}

std::string double_text(double v) {
  if (std::isnan(v)) return "NaN";
  if (std::isinf(v)) return v > 0 ? "Infinity" : "-Infinity";
  char text[40];
  std::snprintf(text, sizeof text, "%.16g", v);
  return text;
}

std::string iso_date_text(std::int64_t ms) {
  // Civil date from days since the epoch (proleptic Gregorian calendar).
  std::int64_t days = ms / 86'400'000;
  std::int64_t rest = ms % 86'400'000;
  if (rest < 0) {
    rest += 86'400'000;
    --days;
  }
  const std::int64_t z = days + 719'468;
  const std::int64_t era = (z >= 0 ? z : z - 146'096) / 146'097;
  const std::int64_t doe = z - era * 146'097;
  const std::int64_t yoe = (doe - doe / 1460 + doe / 36'524 - doe / 146'096) / 365;
  const std::int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
  const std::int64_t mp = (5 * doy + 2) / 153;
  const std::int64_t day = doy - (153 * mp + 2) / 5 + 1;
  const std::int64_t month = mp < 10 ? mp + 3 : mp - 9;
  const std::int64_t year = yoe + era * 400 + (month <= 2 ? 1 : 0);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", year, month, day,
                     rest / 3'600'000, rest / 60'000 % 60, rest / 1000 % 60, rest % 1000);
}

std::optional<std::string> coerce_to_text(const ValueView& v) {
  switch (v.type()) {
    case BsonType::kDouble:
      return double_text(v.as_double());
    case BsonType::kInt32:
      return std::to_string(v.as_int32());
    case BsonType::kInt64:
      return std::to_string(v.as_int64());
    case BsonType::kDecimal128:
      return v.as_decimal().to_string();
    case BsonType::kCode:
    case BsonType::kSymbol:
    case BsonType::kString:
      return std::string(v.as_string());
    case BsonType::kTimestamp:
      return fmt::format("Timestamp({}, {})", v.as_timestamp() >> 32,
                         v.as_timestamp() & 0xffffffffu);
    case BsonType::kDate:
      return iso_date_text(v.as_date_ms());
    case BsonType::kEOO:
    case BsonType::kNull:
    case BsonType::kUndefined:
      return std::string();
    default:
      return std::nullopt;
  }
}

std::string ascii_lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  return out;
}

std::string ascii_upper(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 32);
  return out;
}

}  // namespace multifora
