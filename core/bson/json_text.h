// The small texts inside extended JSON and conversions (base64, dates, doubles, hexadecimal). Pure
// functions; any thread. The parsing ones return nullopt for text that is not exactly the form.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/bytes.h"
#include "core/bson/view.h"

namespace multifora::json_text {

// The standard alphabet is padded, the URL one is not.
enum class Base64 { kStandard, kUrl };
void append_base64(Bytes bytes, std::string& out, Base64 alphabet = Base64::kStandard);
// The URL alphabet: padding may be there or not.
std::optional<Buffer> parse_base64(std::string_view text, Base64 alphabet = Base64::kStandard);

// Of binary data without subtype 2's inner length.
Bytes binary_content(const ValueView& binary);
// Of a regular expression.
std::string sorted_options(const ValueView& regex);

// Dates that RFC 3339 can say in UTC with a year of four digits, from 1970 on.
constexpr bool has_iso_date(std::int64_t ms) {
  return ms >= 0 && ms < 253402300800000;
}
// "2012-12-24T12:15:30.501Z"; milliseconds only where there are any. Requires has_iso_date(ms).
void append_iso_date(std::int64_t ms, std::string& out);
// RFC 3339 with any offset ("Z", "+01:00", "+0100", "+01"); digits below a millisecond are cut off.
std::optional<std::int64_t> parse_iso_date(std::string_view text);

// Shortest text that reads back as the same double, always with a point: "1.0", "1.5E+20". Finite.
void append_double(double value, std::string& out);
// The same, and "NaN", "Infinity", "-Infinity".
std::string double_text(double value);
// A decimal number without white space; infinite results are refused.
std::optional<double> parse_double(std::string_view text);

std::optional<std::int64_t> parse_int64(std::string_view text);

// 1 or 2 hexadecimal digits.
std::optional<std::uint8_t> parse_hex_byte(std::string_view text);
void append_hex_byte(std::uint8_t byte, std::string& out);
void append_hex(Bytes bytes, std::string& out);  // lower case
std::optional<Buffer> parse_hex(std::string_view text);
// Of 16 bytes.
std::string uuid_text(Bytes bytes);
// "73ffd264-44b3-4c69-90e8-e7d1dfc035d4" as its 16 bytes.
std::optional<Buffer> parse_uuid(std::string_view text);

}  // namespace multifora::json_text
