// What the three families of date expressions share: reading dates, zones and units from values.
#pragma once

#include <memory>

#include "plugins/query-engine/datetime.h"
#include "plugins/query-engine/operator.h"

namespace multifora {

// Milliseconds of a date, timestamp or ObjectId; 16006 for anything else.
Result<std::int64_t> date_of(const ValueView& v);
bool is_dateish(const ValueView& v);
// 40533 where it is not a string, 40485 for an unknown zone. `v` is not nullish.
Result<std::shared_ptr<const TimeZone>> zone_of(std::string_view op, const ValueView& v);
// FailedToParse for an unknown unit, `code` where it is not a string.
Result<DateUnit> unit_of(std::string_view op, const ValueView& v, int code);

}  // namespace multifora
