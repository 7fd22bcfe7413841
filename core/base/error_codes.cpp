#include "core/base/error_codes_rare.h"

namespace multifora {

std::string error_code_name(ErrorCode code) {
  switch (code) {
#define MULTIFORA_ROW(constant, number, name) \
  case ErrorCode::constant:                   \
    return name;
    MULTIFORA_ERROR_CODES(MULTIFORA_ROW)
#undef MULTIFORA_ROW
  }
#define MULTIFORA_ROW(constant, number, name) \
  if (code == rare::constant) return name;
  MULTIFORA_RARE_ERROR_CODES(MULTIFORA_ROW)
#undef MULTIFORA_ROW
  return "Location" + std::to_string(static_cast<std::int32_t>(code));
}

}  // namespace multifora
