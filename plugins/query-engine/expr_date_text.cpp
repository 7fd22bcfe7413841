// $dateToString, $dateFromString.
#include <fmt/format.h>

#include "plugins/query-engine/date_text.h"
#include "plugins/query-engine/expr_date.h"
#include "plugins/query-engine/expression_table.h"

namespace multifora {
namespace {

using enum BsonType;

constexpr Param kToParams[] = {{"date", 18628}, {"format"}, {"timezone"}, {"onNull"}};
constexpr NamedParams kToNamed{kToParams, 18629, 18534};

Result<Value> date_to_string(const Node& node, EvalContext& context) {
  MULTIFORA_ASSIGN_R(const Value date, node.eval(0, context));
  MULTIFORA_ASSIGN_R(const Value format, node.eval(1, context));
  MULTIFORA_ASSIGN_R(const Value zone, node.eval(2, context));
  if (node.has(1) && !format.nullish()) {
    if (format.type() != kString)
      return fail_code(18533,
                       fmt::format("$dateToString requires that 'format' be a string, found: {} "
                                   "with value {}",
                                   type_text(format.view()), value_text(format.view())));
    MULTIFORA_TRY_R(check_date_format(format.view().as_string(), false));
  }
  std::shared_ptr<const TimeZone> tz = TimeZone::utc();
  if (node.has(2) && !zone.nullish()) {
    MULTIFORA_ASSIGN_R(tz, zone_of(node.name(), zone.view()));
  }
  if (date.nullish()) return node.has(3) ? node.eval(3, context) : Value::null();
  if ((node.has(1) && format.nullish()) || (node.has(2) && zone.nullish())) return Value::null();
  MULTIFORA_ASSIGN_R(const std::int64_t ms, date_of(date.view()));
  const std::string_view pattern = node.has(1)    ? format.view().as_string()
                                   : tz->is_utc() ? std::string_view("%Y-%m-%dT%H:%M:%S.%LZ")
                                                  : std::string_view("%Y-%m-%dT%H:%M:%S.%L");
  MULTIFORA_ASSIGN_R(const std::string text, format_date(pattern, ms, *tz));
  return Value::string(text);
}

constexpr Param kFromParams[] = {
    {"dateString", 40542}, {"format"}, {"timezone"}, {"onError"}, {"onNull"}};
constexpr NamedParams kFromNamed{kFromParams, 40540, 40541};

Result<std::int64_t> parse(const ValueView& text, const Value& format, const TimeZone* zone) {
  if (text.type() != kString)
    return fail(
        ErrorCode::kConversionFailure,
        fmt::format("$dateFromString requires that 'dateString' be a string, found: {} with value "
                    "{}",
                    type_text(text), value_text(text)));
  if (format.missing()) return parse_date(text.as_string(), zone);
  return parse_date_by_format(text.as_string(), format.view().as_string(), zone);
}

Result<Value> date_from_string(const Node& node, EvalContext& context) {
  MULTIFORA_ASSIGN_R(const Value text, node.eval(0, context));
  MULTIFORA_ASSIGN_R(const Value format, node.eval(1, context));
  MULTIFORA_ASSIGN_R(const Value zone, node.eval(2, context));
  if (node.has(1) && !format.nullish()) {
    if (format.type() != kString)
      return fail_code(40684,
                       fmt::format("$dateFromString requires that 'format' be a string, found: {} "
                                   "with value {}",
                                   type_text(format.view()), value_text(format.view())));
    MULTIFORA_TRY_R(check_date_format(format.view().as_string(), true));
  }
  std::shared_ptr<const TimeZone> tz;
  if (node.has(2) && !zone.nullish()) {
    MULTIFORA_ASSIGN_R(tz, zone_of(node.name(), zone.view()));
  }
  if (text.nullish()) return node.has(4) ? node.eval(4, context) : Value::null();
  if ((node.has(1) && format.nullish()) || (node.has(2) && zone.nullish())) return Value::null();
  Result<std::int64_t> ms = parse(text.view(), format, tz.get());
  if (ms) return Value::date_ms(*ms);
  if (ms.error().code() == ErrorCode::kConversionFailure && node.has(3))
    return node.eval(3, context);
  return fail(std::move(ms).error());
}

constexpr OperatorRow kRows[] = {
    {.name = "$dateFromString", .named = &kFromNamed, .lazy = date_from_string},
    {.name = "$dateToString", .named = &kToNamed, .lazy = date_to_string},
};

}  // namespace

std::span<const OperatorRow> date_text_operators() {
  return kRows;
}

}  // namespace multifora
