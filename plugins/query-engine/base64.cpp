#include "plugins/query-engine/base64.h"

#include <optional>

#include <fmt/format.h>

#include "core/bson/validate.h"
#include "plugins/query-engine/text.h"

namespace multifora {
namespace {

constexpr std::string_view kStandard = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::string_view kUrl = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

std::optional<std::string> base64_decode(std::string_view text, bool url) {
  const std::string_view alphabet = url ? kUrl : kStandard;
  if (!url && text.size() % 4 != 0) return std::nullopt;
  while (text.ends_with('=')) text.remove_suffix(1);
  if (text.size() % 4 == 1) return std::nullopt;
  std::string out;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const std::size_t digit = alphabet.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    out += static_cast<char>(bits >> count & 0xff);
  }
  return out;
}

std::optional<std::string> hex_decode(std::string_view text) {
  if (text.size() % 2 != 0) return std::nullopt;
  const auto digit = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
  };
  std::string out;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    const int high = digit(text[i]);
    const int low = digit(text[i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    out += static_cast<char>(high * 16 + low);
  }
  return out;
}

std::optional<std::string> uuid_decode(std::string_view text) {
  if (text.size() != 36) return std::nullopt;
  std::string hex;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (dash != (text[i] == '-')) return std::nullopt;
    if (!dash) hex += text[i];
  }
  return hex_decode(hex);
}

std::string uuid_text(std::string_view bytes) {
  const std::string hex = hex_text(bytes);
  return fmt::format("{}-{}-{}-{}-{}", hex.substr(0, 8), hex.substr(8, 4), hex.substr(12, 4),
                     hex.substr(16, 4), hex.substr(20));
}

std::unexpected<Status> cannot(std::string_view format) {
  return fail(ErrorCode::kConversionFailure, fmt::format("the input does not fit the format '{}'", format));
}

}  // namespace

std::string hex_text(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return out;
}

std::string base64_encode(std::string_view bytes, bool url) {
  const std::string_view alphabet = url ? kUrl : kStandard;
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t n = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 3; ++k)
      bits = bits << 8 | (k < n ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    for (std::size_t k = 0; k < 4; ++k) {
      if (k <= n)
        out += alphabet[bits >> (18 - 6 * k) & 63];
      else if (!url)
        out += '=';
    }
  }
  return out;
}

Result<std::string> binary_to_text(const ValueView& binary, std::string_view format) {
  const std::string_view bytes = binary.binary_bytes();
  const bool is_uuid = binary.binary_subtype() == 4 && bytes.size() == 16;
  if (format == "auto") return is_uuid ? uuid_text(bytes) : base64_encode(bytes, false);
  if (format == "base64") return base64_encode(bytes, false);
  if (format == "base64url") return base64_encode(bytes, true);
  if (format == "hex") return ascii_upper(hex_text(bytes));
  if (format == "uuid" && is_uuid) return uuid_text(bytes);
  if (format == "utf8" && is_valid_utf8(bytes)) return std::string(bytes);
  return cannot(format);
}

Result<std::string> text_to_binary(std::string_view text, std::string_view format) {
  std::optional<std::string> bytes;
  if (format == "base64") bytes = base64_decode(text, false);
  if (format == "base64url") bytes = base64_decode(text, true);
  if (format == "hex") bytes = hex_decode(text);
  if (format == "uuid") bytes = uuid_decode(text);
  if (format == "utf8") bytes = std::string(text);
  if (!bytes) return cannot(format);
  return std::move(*bytes);
}

}  // namespace multifora
