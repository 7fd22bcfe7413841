// UTF-8 helpers and MongoDB's rendering of values as text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/bson/view.h"

namespace multifora {

inline bool is_utf8_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }
// Where `token` begins in `text` at or after `from`, or npos: in linear time, whatever they are.
std::size_t find_text(std::string_view text, std::string_view token, std::size_t from = 0);
std::size_t count_code_points(std::string_view text);
// Byte offset of code point `index`, or text.size() where there are fewer.
std::size_t code_point_offset(std::string_view text, std::size_t index);
// Bytes of the code point that starts with `lead`.
std::size_t utf8_length(char lead);

// %.16g with NaN, Infinity, -Infinity spelled as MongoDB does.
std::string double_text(double v);
// "2018-07-15T12:34:56.789Z"
std::string iso_date_text(std::int64_t ms);
// The text of a string, symbol, number, date, timestamp or code; "" for null, undefined, missing;
// nullopt for other types.
std::optional<std::string> coerce_to_text(const ValueView& v);
std::string ascii_lower(std::string_view text);
std::string ascii_upper(std::string_view text);

}  // namespace multifora
