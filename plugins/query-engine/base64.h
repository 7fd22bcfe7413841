// Binary values as text in the formats of $convert: base64, base64url, hex, uuid, utf8, auto.
// ConversionFailure where text or bytes do not fit the format.
#pragma once

#include <string>
#include <string_view>

#include "core/base/status.h"
#include "core/bson/view.h"

namespace multifora {

Result<std::string> binary_to_text(const ValueView& binary, std::string_view format);
Result<std::string> text_to_binary(std::string_view text, std::string_view format);
std::string hex_text(std::string_view bytes);

}  // namespace multifora
