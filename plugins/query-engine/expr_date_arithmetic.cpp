// $dateAdd, $dateSubtract, $dateDiff, $dateTrunc.
#include <limits>

#include <fmt/format.h>

#include "plugins/query-engine/expr_date.h"
#include "plugins/query-engine/expression_table.h"

namespace multifora {
namespace {

using enum BsonType;

// Every argument of a node; `null` where one that was given is null.
struct Evaluated {
  std::vector<Value> values;
  bool null = false;
};
Result<Evaluated> evaluate_all(const Node& node, EvalContext& context) {
  Evaluated out;
  for (std::size_t i = 0; i < node.size(); ++i) {
    MULTIFORA_ASSIGN_R(Value v, node.eval(i, context));
    if (node.has(i) && v.nullish()) out.null = true;
    out.values.push_back(std::move(v));
  }
  return out;
}

Result<std::shared_ptr<const TimeZone>> zone_argument(const Node& node, const Value& v,
                                                      std::size_t i) {
  if (!node.has(i)) return TimeZone::utc();
  return zone_of(node.name(), v.view());
}

constexpr Param kAddParams[] = {
    {"startDate", 5166402}, {"unit", 5166402}, {"amount", 5166402}, {"timezone"}};
constexpr NamedParams kAddNamed{kAddParams, 5166400, 5166401};

Result<Value> add(const Node& node, EvalContext& context, bool subtract) {
  MULTIFORA_ASSIGN_R(const Evaluated e, evaluate_all(node, context));
  if (e.null) return Value::null();
  const ValueView start = e.values[0].view();
  MULTIFORA_ASSIGN_R(const DateUnit unit, unit_of(node.name(), e.values[1].view(), 5166404));
  if (!is_dateish(start))
    return fail_code(5166403,
                     fmt::format("{} requires startDate to be convertible to a date", node.name()));
  MULTIFORA_ASSIGN_R(const std::int64_t ms, date_of(start));
  std::int64_t amount = 0;
  if (!e.values[2].view().is_number() || !e.values[2].view().exact_int64(&amount))
    return fail_code(5166405, fmt::format("{} expects integer amount of time units", node.name()));
  MULTIFORA_ASSIGN_R(const auto zone, zone_argument(node, e.values[3], 3));
  if (subtract && amount == std::numeric_limits<std::int64_t>::min())
    return fail_code(6045000,
                     fmt::format("invalid {} 'amount' parameter value: {}", node.name(), amount));
  const std::optional<std::int64_t> sum = date_add(ms, unit, subtract ? -amount : amount, *zone);
  if (!sum) return fail_code(5166406, fmt::format("{} overflowed", node.name()));
  return Value::date_ms(*sum);
}
Result<Value> date_plus(const Node& n, EvalContext& c) {
  return add(n, c, false);
}
Result<Value> date_minus(const Node& n, EvalContext& c) {
  return add(n, c, true);
}

Result<int> start_of_week(const Node& node, const Evaluated& e, std::size_t i, int code) {
  if (!node.has(i)) return 0;
  if (e.values[i].type() != kString)
    return fail_code(code, fmt::format("{} requires 'startOfWeek' to be a string, but got {}",
                                       node.name(), type_text(e.values[i].view())));
  const std::optional<int> day = parse_weekday(e.values[i].view().as_string());
  if (!day)
    return fail(
        ErrorCode::kFailedToParse,
        fmt::format("{} parameter 'startOfWeek' value cannot be recognized as a day of a week: {}",
                    node.name(), e.values[i].view().as_string()));
  return *day;
}

constexpr Param kDiffParams[] = {
    {"startDate", 5166303}, {"endDate", 5166304}, {"unit", 5166305}, {"timezone"}, {"startOfWeek"}};
constexpr NamedParams kDiffNamed{kDiffParams, 5166301, 5166302};

Result<Value> difference(const Node& node, EvalContext& context) {
  MULTIFORA_ASSIGN_R(Evaluated e, evaluate_all(node, context));
  // startOfWeek counts only for weeks.
  bool null = false;
  for (std::size_t i = 0; i < 4; ++i) null = null || (node.has(i) && e.values[i].nullish());
  if (null) return Value::null();
  MULTIFORA_ASSIGN_R(const DateUnit unit, unit_of(node.name(), e.values[2].view(), 5439013));
  if (unit == DateUnit::kWeek && e.null) return Value::null();
  for (std::size_t i = 0; i < 2; ++i)
    if (!is_dateish(e.values[i].view()))
      return fail_code(5166307, fmt::format("$dateDiff requires '{}' to be a date, but got {}",
                                            kDiffParams[i].name, type_text(e.values[i].view())));
  MULTIFORA_ASSIGN_R(const std::int64_t from, date_of(e.values[0].view()));
  MULTIFORA_ASSIGN_R(const std::int64_t to, date_of(e.values[1].view()));
  MULTIFORA_ASSIGN_R(const auto zone, zone_argument(node, e.values[3], 3));
  int first_day = 0;
  if (unit == DateUnit::kWeek) {
    MULTIFORA_ASSIGN_R(first_day, start_of_week(node, e, 4, 5439015));
  }
  if (unit == DateUnit::kMillisecond) {
    std::int64_t diff = 0;
    if (__builtin_sub_overflow(to, from, &diff)) return fail_code(5166308, "dateDiff overflowed");
  }
  return Value::of(date_diff(from, to, unit, *zone, first_day));
}

constexpr Param kTruncParams[] = {
    {"date", 5439009}, {"unit", 5439010}, {"binSize"}, {"timezone"}, {"startOfWeek"}};
constexpr NamedParams kTruncNamed{kTruncParams, 5439007, 5439008};

Result<Value> truncate(const Node& node, EvalContext& context) {
  MULTIFORA_ASSIGN_R(const Evaluated e, evaluate_all(node, context));
  bool null = false;
  for (std::size_t i = 0; i < 4; ++i) null = null || (node.has(i) && e.values[i].nullish());
  if (null) return Value::null();
  MULTIFORA_ASSIGN_R(const DateUnit unit, unit_of(node.name(), e.values[1].view(), 5439013));
  if (unit == DateUnit::kWeek && e.null) return Value::null();
  if (!is_dateish(e.values[0].view()))
    return fail_code(5439012, fmt::format("$dateTrunc requires 'date' to be a date, but got {}",
                                          type_text(e.values[0].view())));
  MULTIFORA_ASSIGN_R(const std::int64_t ms, date_of(e.values[0].view()));
  std::int64_t bin = 1;
  if (node.has(2)) {
    if (!e.values[2].view().is_number() || !e.values[2].view().exact_int64(&bin))
      return fail_code(5439017,
                       fmt::format("$dateTrunc requires 'binSize' to be a 64-bit integer, but "
                                   "got value '{}'",
                                   value_text(e.values[2].view())));
    if (bin <= 0)
      return fail_code(5439018,
                       fmt::format("$dateTrunc requires 'binSize' to be greater than 0, but got "
                                   "value {}",
                                   bin));
    if (bin > 100'000'000'000) return fail_code(5439006, "$dateTrunc unsupported binSize value");
  }
  MULTIFORA_ASSIGN_R(const auto zone, zone_argument(node, e.values[3], 3));
  int first_day = 0;
  if (unit == DateUnit::kWeek) {
    MULTIFORA_ASSIGN_R(first_day, start_of_week(node, e, 4, 5439015));
  }
  const std::optional<std::int64_t> start = date_trunc(ms, unit, bin, *zone, first_day);
  if (!start) return fail_code(5439005, "dateTrunc overflowed");
  return Value::date_ms(*start);
}

constexpr OperatorRow kRows[] = {
    {.name = "$dateAdd", .named = &kAddNamed, .lazy = date_plus},
    {.name = "$dateDiff", .named = &kDiffNamed, .lazy = difference},
    {.name = "$dateSubtract", .named = &kAddNamed, .lazy = date_minus},
    {.name = "$dateTrunc", .named = &kTruncNamed, .lazy = truncate},
};

}  // namespace

std::span<const OperatorRow> date_arithmetic_operators() {
  return kRows;
}

}  // namespace multifora
