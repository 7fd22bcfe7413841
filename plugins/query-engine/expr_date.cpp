// Parts of dates: $year ... $millisecond, $isoWeek ..., $dateToParts, $dateFromParts, $tsSecond,
// $tsIncrement.
#include "plugins/query-engine/expr_date.h"

#include <fmt/format.h>

#include "plugins/query-engine/expression_table.h"
#include "plugins/query-engine/numeric.h"

namespace multifora {

using enum BsonType;

bool is_dateish(const ValueView& v) {
  return v.type() == kDate || v.type() == kTimestamp || v.type() == kObjectId;
}

Result<std::int64_t> date_of(const ValueView& v) {
  switch (v.type()) {
    case kDate: return v.as_date_ms();
    case kTimestamp: return static_cast<std::int64_t>(v.as_timestamp() >> 32) * kSecondMs;
    case kObjectId: return v.as_object_id().seconds() * kSecondMs;
    default: break;
  }
  return fail_code(16006, fmt::format("can't convert from BSON type {} to Date", type_text(v)));
}

Result<std::shared_ptr<const TimeZone>> zone_of(std::string_view op, const ValueView& v) {
  if (v.type() != kString)
    return fail_code(40533, fmt::format("{} requires a string for the timezone argument, but was given "
                                        "a {} ({})", op, type_text(v), value_text(v)));
  return TimeZone::find(v.as_string());
}

Result<DateUnit> unit_of(std::string_view op, const ValueView& v, int code) {
  if (v.type() != kString)
    return fail_code(code, fmt::format("{} expects string defining the time unit", op));
  const std::optional<DateUnit> unit = parse_date_unit(v.as_string());
  if (!unit)
    return fail(ErrorCode::kFailedToParse, fmt::format("{} parameter 'unit' value cannot be recognized "
                                                       "as a time unit: {}", op, v.as_string()));
  return *unit;
}

namespace {

constexpr Param kPartParams[] = {{"date", 40539}, {"timezone"}};
constexpr NamedParams kPartNamed{kPartParams, 40539, 40535};

// {$year: date}, {$year: [date]}, {$year: {date: ..., timezone: ...}}
Result<ExpressionPtr> parse_part(const OperatorRow& row, const ValueView& spec, VariableScope& scope) {
  if (spec.type() == kObject && !spec.as_document().first().name().starts_with('$'))
    return parse_named(row, spec, scope);
  ValueView date = spec;
  if (spec.type() == kArray) {
    if (spec.as_document().count() != 1)
      return fail_code(40536, fmt::format("{} accepts exactly one argument if given an array, but was "
                                          "given {}", row.name, spec.as_document().count()));
    date = spec.as_document().first().value();
  }
  std::vector<ExpressionPtr> args(2);
  MULTIFORA_ASSIGN_R(args[0], parse_expression(date, scope));
  return fold(std::make_unique<Node>(row, std::move(args)), scope);
}

Result<std::optional<DateParts>> parts(const Node& node, EvalContext& context) {
  MULTIFORA_ASSIGN_R(const Value date, node.eval(0, context));
  MULTIFORA_ASSIGN_R(const Value zone, node.eval(1, context));
  if (date.nullish()) return std::nullopt;
  MULTIFORA_ASSIGN_R(const std::int64_t ms, date_of(date.view()));
  if (!node.has(1)) return split_date(ms);
  if (zone.nullish()) return std::nullopt;
  MULTIFORA_ASSIGN_R(const auto tz, zone_of(node.name(), zone.view()));
  return split_date(tz->to_local(ms));
}

template <std::int64_t (*Get)(const DateParts&)>
Result<Value> part(const Node& node, EvalContext& context) {
  MULTIFORA_ASSIGN_R(const std::optional<DateParts> p, parts(node, context));
  if (!p) return Value::null();
  return Value::of(static_cast<std::int32_t>(Get(*p)));
}
std::int64_t get_year(const DateParts& p) { return p.year; }
std::int64_t get_month(const DateParts& p) { return p.month; }
std::int64_t get_day(const DateParts& p) { return p.day; }
std::int64_t get_day_of_week(const DateParts& p) { return p.weekday + 1; }
std::int64_t get_day_of_year(const DateParts& p) { return p.day_of_year; }
std::int64_t get_hour(const DateParts& p) { return p.hour; }
std::int64_t get_minute(const DateParts& p) { return p.minute; }
std::int64_t get_second(const DateParts& p) { return p.second; }
std::int64_t get_millisecond(const DateParts& p) { return p.millisecond; }
std::int64_t get_week(const DateParts& p) { return p.week(); }
std::int64_t get_iso_week(const DateParts& p) { return p.iso_week; }
std::int64_t get_iso_day(const DateParts& p) { return p.iso_weekday(); }

Result<Value> iso_week_year(const Node& node, EvalContext& context) {
  MULTIFORA_ASSIGN_R(const std::optional<DateParts> p, parts(node, context));
  if (!p) return Value::null();
  return Value::of(p->iso_year);  // int64, as the server gives it
}

// ---------------------------------------------------------------- $dateToParts

constexpr Param kToPartsParams[] = {{"date", 40522}, {"timezone"}, {"iso8601"}};
constexpr NamedParams kToPartsNamed{kToPartsParams, 40524, 40520};

Result<Value> date_to_parts(const Node& node, EvalContext& context) {
  MULTIFORA_ASSIGN_R(const Value iso, node.eval(2, context));
  if (node.has(2) && iso.nullish()) return Value::null();
  if (node.has(2) && iso.type() != kBool)
    return fail_code(40521, fmt::format("iso8601 must evaluate to a bool, found {}", type_text(iso.view())));
  MULTIFORA_ASSIGN_R(const std::optional<DateParts> p, parts(node, context));
  if (!p) return Value::null();
  DocumentBuilder out;
  if (node.has(2) && iso.view().as_bool()) {
    out.append("isoWeekYear", static_cast<std::int32_t>(p->iso_year));
    out.append("isoWeek", p->iso_week);
    out.append("isoDayOfWeek", p->iso_weekday());
  } else {
    out.append("year", static_cast<std::int32_t>(p->year));
    out.append("month", p->month);
    out.append("day", p->day);
  }
  out.append("hour", p->hour);
  out.append("minute", p->minute);
  out.append("second", p->second);
  out.append("millisecond", p->millisecond);
  return Value::object(std::move(out).finish());
}

// ---------------------------------------------------------------- $dateFromParts

enum FromPart { kYear, kIsoWeekYear, kMonth, kIsoWeek, kDay, kIsoDayOfWeek, kHour, kMinute, kSecond,
                kMillisecond, kTimezone };
constexpr Param kFromPartsParams[] = {{"year"}, {"isoWeekYear"}, {"month"}, {"isoWeek"}, {"day"},
                                      {"isoDayOfWeek"}, {"hour"}, {"minute"}, {"second"},
                                      {"millisecond"}, {"timezone"}};
constexpr NamedParams kFromPartsNamed{kFromPartsParams, 40519, 40518};

Result<ExpressionPtr> parse_from_parts(const OperatorRow& row, const ValueView& spec,
                                       VariableScope& scope) {
  MULTIFORA_ASSIGN_R(const std::vector<ValueView> v, named_arguments(row, kFromPartsNamed, spec));
  const auto given = [&](FromPart p) { return !v[p].missing(); };
  if (!given(kYear) && !given(kIsoWeekYear))
    return fail_code(40516, "$dateFromParts requires either 'year' or 'isoWeekYear' to be present");
  if (given(kYear) && (given(kIsoWeekYear) || given(kIsoWeek) || given(kIsoDayOfWeek)))
    return fail_code(40489, "$dateFromParts does not allow mixing natural dates with ISO dates");
  if (given(kIsoWeekYear) && (given(kYear) || given(kMonth) || given(kDay)))
    return fail_code(40525, "$dateFromParts does not allow mixing ISO dates with natural dates");
  return parse_named(row, spec, scope);
}

// The part's number, or its default; nullopt for null.
Result<std::optional<std::int64_t>> from_part(const Node& node, EvalContext& context, FromPart which,
                                              std::int64_t otherwise) {
  if (!node.has(which)) return otherwise;
  MULTIFORA_ASSIGN_R(const Value v, node.eval(which, context));
  if (v.nullish()) return std::nullopt;
  std::int64_t n = 0;
  const std::string_view name = kFromPartsParams[which].name;
  if (!v.view().is_number() || !v.view().exact_int64(&n))
    return fail_code(40515, fmt::format("'{}' must evaluate to an integer, found {} with value {}", name,
                                        type_text(v.view()), value_text(v.view())));
  if (which == kYear || which == kIsoWeekYear) {
    if (n < 1 || n > 9999)
      return fail_code(which == kYear ? 40523 : 31095,
                       fmt::format("'{}' must evaluate to an integer in the range 1 to 9999, found {}",
                                   name, n));
  } else if (which == kSecond || which == kMillisecond) {
    constexpr std::int64_t kMax = std::int64_t{1} << 48;
    if (n > kMax || n < -kMax)
      return fail_code(31034, fmt::format("'{}' is out of range: {}", name, n));
  } else if (n < -32768 || n > 32767) {
    return fail_code(31034, fmt::format("'{}' must evaluate to a value in the range [-32768, 32767]; "
                                        "value {} is not in range", name, n));
  }
  return n;
}

Result<Value> date_from_parts(const Node& node, EvalContext& context) {
  const bool iso = node.has(kIsoWeekYear);
  std::int64_t values[7];
  const FromPart which[7] = {iso ? kIsoWeekYear : kYear, iso ? kIsoWeek : kMonth,
                             iso ? kIsoDayOfWeek : kDay, kHour, kMinute, kSecond, kMillisecond};
  const std::int64_t otherwise[7] = {1970, 1, 1, 0, 0, 0, 0};
  bool null = false;
  for (int i = 0; i < 7; ++i) {
    MULTIFORA_ASSIGN_R(const auto v, from_part(node, context, which[i], otherwise[i]));
    if (!v) null = true;
    values[i] = v.value_or(0);
  }
  std::shared_ptr<const TimeZone> zone = TimeZone::utc();
  if (node.has(kTimezone)) {
    MULTIFORA_ASSIGN_R(const Value tz, node.eval(kTimezone, context));
    if (tz.nullish()) null = true;
    if (!tz.nullish()) {
      MULTIFORA_ASSIGN_R(zone, zone_of(node.name(), tz.view()));
    }
  }
  if (null) return Value::null();
  std::int64_t days = 0;
  if (iso) {
    const std::int64_t january4 = days_from_civil(values[0], 1, 4);
    days = january4 - floor_mod(january4 + 3, 7) + (values[1] - 1) * 7 + values[2] - 1;
  } else {
    days = days_from_civil(values[0], values[1], 1) + values[2] - 1;
  }
  // Every part was bounded, so that the sum cannot overflow.
  return Value::date_ms(zone->to_utc(days * kDayMs + values[3] * kHourMs + values[4] * kMinuteMs +
                                     values[5] * kSecondMs + values[6]));
}

// ---------------------------------------------------------------- timestamps

Result<Value> ts_second(Args args, EvalContext&) {
  if (args[0].nullish()) return Value::null();
  if (args[0].type() != kTimestamp)
    return fail_code(5687301, fmt::format("Argument to $tsSecond must be a timestamp, but is {}",
                                          type_text(args[0].view())));
  return Value::of(static_cast<std::int64_t>(args[0].view().as_timestamp() >> 32));
}
Result<Value> ts_increment(Args args, EvalContext&) {
  if (args[0].nullish()) return Value::null();
  if (args[0].type() != kTimestamp)
    return fail_code(5687302, fmt::format("Argument to $tsIncrement must be a timestamp, but is {}",
                                          type_text(args[0].view())));
  return Value::of(static_cast<std::int64_t>(args[0].view().as_timestamp() & 0xffffffffu));
}

constexpr OperatorRow row(std::string_view name, LazyFunction f) {
  return {.name = name, .named = &kPartNamed, .lazy = f, .parse = parse_part};
}
constexpr OperatorRow kRows[] = {
    row("$year", part<get_year>),
    row("$month", part<get_month>),
    row("$dayOfMonth", part<get_day>),
    row("$dayOfWeek", part<get_day_of_week>),
    row("$dayOfYear", part<get_day_of_year>),
    row("$hour", part<get_hour>),
    row("$minute", part<get_minute>),
    row("$second", part<get_second>),
    row("$millisecond", part<get_millisecond>),
    row("$week", part<get_week>),
    row("$isoWeek", part<get_iso_week>),
    row("$isoWeekYear", iso_week_year),
    row("$isoDayOfWeek", part<get_iso_day>),
    {.name = "$dateToParts", .named = &kToPartsNamed, .lazy = date_to_parts},
    {.name = "$dateFromParts", .named = &kFromPartsNamed, .lazy = date_from_parts,
     .parse = parse_from_parts},
    {.name = "$tsSecond", .min_args = 1, .max_args = 1, .strict = ts_second},
    {.name = "$tsIncrement", .min_args = 1, .max_args = 1, .strict = ts_increment},
};

}  // namespace

std::span<const OperatorRow> date_operators() { return kRows; }

}  // namespace multifora
