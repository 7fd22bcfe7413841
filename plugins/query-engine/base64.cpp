#include "plugins/query-engine/base64.h"

#include <optional>

#include <fmt/format.h>

#include "core/bson/json_text.h"
#include "core/bson/validate.h"
#include "plugins/query-engine/text.h"

namespace multifora {
namespace {

std::unexpected<Status> cannot(std::string_view format) {
  return fail(ErrorCode::kConversionFailure,
              fmt::format("the input does not fit the format '{}'", format));
}

}  // namespace

std::string hex_text(std::string_view bytes) {
  std::string out;
  json_text::append_hex(bytes, out);
  return out;
}

Result<std::string> binary_to_text(const ValueView& binary, std::string_view format) {
  const std::string_view bytes = binary.binary_bytes();
  const bool is_uuid = binary.binary_subtype() == 4 && bytes.size() == 16;
  const auto base64 = [&](json_text::Base64 alphabet) {
    std::string out;
    json_text::append_base64(bytes, out, alphabet);
    return out;
  };
  if (is_uuid && (format == "auto" || format == "uuid")) return json_text::uuid_text(bytes);
  if (format == "auto" || format == "base64") return base64(json_text::Base64::kStandard);
  if (format == "base64url") return base64(json_text::Base64::kUrl);
  if (format == "hex") return ascii_upper(hex_text(bytes));
  if (format == "utf8" && is_valid_utf8(bytes)) return std::string(bytes);
  return cannot(format);
}

Result<std::string> text_to_binary(std::string_view text, std::string_view format) {
  std::optional<std::string> bytes;
  if (format == "base64") bytes = json_text::parse_base64(text);
  if (format == "base64url") bytes = json_text::parse_base64(text, json_text::Base64::kUrl);
  if (format == "hex") bytes = json_text::parse_hex(text);
  if (format == "uuid") bytes = json_text::parse_uuid(text);
  if (format == "utf8") bytes = std::string(text);
  if (!bytes) return cannot(format);
  return std::move(*bytes);
}

}  // namespace multifora
