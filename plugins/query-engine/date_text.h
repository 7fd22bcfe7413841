// Dates as text: $dateToString's formats, their reverse, and the date strings that are read without
// a format (ISO 8601 and common English forms). Stateless; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/status.h"
#include "plugins/query-engine/datetime.h"

namespace multifora {

// 18535 (% at the end), 18536 (unknown specifier).
Status check_date_format(std::string_view format, bool for_parsing);
// 18537: a year that is not 0..9999.
Result<std::string> format_date(std::string_view format, std::int64_t utc_ms, const TimeZone& zone);

// `zone` is null where none was given (UTC). ConversionFailure where the text is no date, or names a
// zone although one was given.
Result<std::int64_t> parse_date(std::string_view text, const TimeZone* zone);
Result<std::int64_t> parse_date_by_format(std::string_view text, std::string_view format,
                                          const TimeZone* zone);

}  // namespace multifora
