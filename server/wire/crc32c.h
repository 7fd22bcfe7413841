// CRC-32C (Castagnoli), the checksum that OP_MSG may carry.
#pragma once

#include <cstdint>

#include "core/base/bytes.h"

namespace multifora::wire {

std::uint32_t crc32c(Bytes bytes);

}  // namespace multifora::wire
