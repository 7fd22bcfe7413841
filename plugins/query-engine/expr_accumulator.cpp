// Accumulators as expressions, over their arguments or the elements of one array: $sum, $avg, $min,
// $max, $stdDev*, $firstN ..., $median, $percentile, and $top ... over an array of objects.
#include <algorithm>

#include <fmt/format.h>

#include "plugins/query-engine/accumulator.h"
#include "plugins/query-engine/expression_table.h"

namespace multifora {
namespace {

using enum BsonType;

// A variadic one: {$sum: [x, y]}, {$sum: "$array"}.
Result<Value> accumulate(std::string_view name, Args args, EvalContext& context) {
  const AccumulatorPtr accumulator = find_accumulator(name)->make({.collator = context.collator});
  if (args.size() == 1 && args[0].type() == kArray) {
    for (const Element& e : args[0].view().as_document())
      MULTIFORA_TRY_R(accumulator->add(Value(e.value())));
    return accumulator->result();
  }
  for (const Value& v : args) MULTIFORA_TRY_R(accumulator->add(v));
  return accumulator->result();
}
Result<Value> sum(Args a, EvalContext& c) {
  return accumulate("$sum", a, c);
}
Result<Value> avg(Args a, EvalContext& c) {
  return accumulate("$avg", a, c);
}
Result<Value> min(Args a, EvalContext& c) {
  return accumulate("$min", a, c);
}
Result<Value> max(Args a, EvalContext& c) {
  return accumulate("$max", a, c);
}
Result<Value> std_dev_pop(Args a, EvalContext& c) {
  return accumulate("$stdDevPop", a, c);
}
Result<Value> std_dev_samp(Args a, EvalContext& c) {
  return accumulate("$stdDevSamp", a, c);
}

// ---------------------------------------------------------------- {n, input}

constexpr Param kNParams[] = {{"n", 5787906}, {"input", 5787907}};
constexpr NamedParams kNNamed{kNParams, 5787900, 5787901};

Result<Value> n_of(const Node& node, EvalContext& context) {
  MULTIFORA_ASSIGN_R(const Value n, node.eval(0, context));
  MULTIFORA_ASSIGN_R(const Value input, node.eval(1, context));
  MULTIFORA_ASSIGN_R(const std::int64_t count, check_n(node.name(), n.view()));
  if (input.type() != kArray)
    return fail_code(5788200, fmt::format("Input must be an array, but found {} in {}",
                                          type_text(input.view()), node.name()));
  MULTIFORA_TRY_R(context.worked(input.view().size_bytes()));
  const AccumulatorPtr accumulator =
      find_accumulator(node.name())->make({.collator = context.collator, .n = count});
  for (const Element& e : input.view().as_document())
    MULTIFORA_TRY_R(accumulator->add(Value(e.value())));
  return accumulator->result();
}

// ---------------------------------------------------------------- $percentile, $median

constexpr Param kPercentileParams[] = {{"input", 40414}, {"p", 40414}, {"method", 40414}};
constexpr NamedParams kPercentileNamed{kPercentileParams, 7436200, 40415};
constexpr Param kMedianParams[] = {{"input", 40414}, {"method", 40414}};
constexpr NamedParams kMedianNamed{kMedianParams, 7436201, 40415};

Result<ExpressionPtr> parse_percentile(const OperatorRow& row, const ValueView& spec,
                                       VariableScope& scope) {
  MULTIFORA_ASSIGN_R(const std::vector<ValueView> values, named_arguments(row, *row.named, spec));
  MULTIFORA_TRY_R(check_percentile_method(row.name, values.back()));
  if (values.size() == 3) {
    MULTIFORA_ASSIGN_R(const ExpressionPtr p, parse_expression(values[1], scope));
    std::vector<double> parsed;
    MULTIFORA_TRY_R(
        check_percentiles(p->constant() != nullptr ? p->constant()->view() : ValueView(), &parsed));
  }
  return parse_named(row, spec, scope);
}

std::vector<double> sorted_numbers(const ValueView& input) {
  std::vector<double> out;
  const auto add = [&](const ValueView& v) {
    if (v.is_number() && v.number_as_double() == v.number_as_double())
      out.push_back(v.number_as_double());
  };
  if (input.type() == kArray) {
    for (const Element& e : input.as_document()) add(e.value());
  } else {
    add(input);
  }
  std::sort(out.begin(), out.end());
  return out;
}

Result<Value> percentile(Args args, EvalContext&) {
  const std::vector<double> sorted = sorted_numbers(args[0].view());
  std::vector<double> wanted;
  MULTIFORA_TRY_R(check_percentiles(args[1].view(), &wanted));
  ArrayBuilder out;
  for (const double p : wanted) {
    if (sorted.empty())
      out.append_null();
    else
      out.append(percentile_of(sorted, p));
  }
  return Value::array(std::move(out).finish());
}

Result<Value> median(Args args, EvalContext&) {
  const std::vector<double> sorted = sorted_numbers(args[0].view());
  return sorted.empty() ? Value::null() : Value::of(percentile_of(sorted, 0.5));
}

// ---------------------------------------------------------------- $top ... over an array

// {$topN: {n, sortBy, output, input}}: the accumulator with each element as its document.
class TopExpression final : public Expression {
 public:
  TopExpression(std::string_view name, const ValueView& spec, SpecPtr accumulator,
                ExpressionPtr input)
      : name_(name),
        spec_(Value(spec).own()),
        accumulator_(std::move(accumulator)),
        input_(std::move(input)) {}

  Result<Value> evaluate(EvalContext& context) const override {
    MULTIFORA_ASSIGN_R(const Value input, input_->evaluate(context));
    if (input.nullish()) return Value::null();
    if (input.type() != kArray)
      return fail_code(5788200, fmt::format("Input must be an array, but found {} in {}",
                                            type_text(input.view()), name_));
    MULTIFORA_TRY_R(context.worked(input.view().size_bytes()));
    MULTIFORA_ASSIGN_R(const AccumulatorPtr accumulator, accumulator_->make(context));
    const DocumentView root = context.root;
    Status status;
    for (const Element& e : input.view().as_document()) {
      context.root = e.type() == kObject ? e->as_document() : DocumentView();
      status = add(*accumulator, context);
      if (!status.ok()) break;
    }
    context.root = root;
    if (!status.ok()) return fail(std::move(status));
    return accumulator->result();
  }
  bool add_dependencies(std::vector<std::string>& paths) const override {
    return input_->add_dependencies(paths);
  }
  void append_to(DocumentBuilder& out, std::string_view name) const override {
    out.object(name).append(name_, spec_.view());
  }

 private:
  Status add(Accumulator& accumulator, EvalContext& context) const {
    MULTIFORA_ASSIGN(const Value v, accumulator_->input(context));
    return accumulator.add(v);
  }
  std::string name_;
  Value spec_;
  SpecPtr accumulator_;
  ExpressionPtr input_;
};

Result<ExpressionPtr> parse_top(const OperatorRow& row, const ValueView& spec,
                                VariableScope& scope) {
  if (spec.type() != kObject)
    return fail_code(5788001,
                     fmt::format("specification must be an object; found {}", type_text(spec)));
  const ValueView input = spec.as_document()["input"];
  if (input.missing())
    return fail_code(5787907, fmt::format("Missing value for 'input' in {}", row.name));
  DocumentBuilder rest;
  for (const Element& e : spec.as_document())
    if (e.name() != "input") rest.append(e);
  const OwnedDocument accumulator_spec = std::move(rest).finish();
  MULTIFORA_ASSIGN_R(SpecPtr accumulator,
                     AccumulatorSpec::parse(row.name, as_value(accumulator_spec.view()), scope));
  MULTIFORA_ASSIGN_R(ExpressionPtr parsed, parse_expression(input, scope));
  return std::make_unique<TopExpression>(row.name, spec, std::move(accumulator), std::move(parsed));
}

constexpr OperatorRow n_row(std::string_view name) {
  return {.name = name, .named = &kNNamed, .lazy = n_of, .flags = kNoFold};
}
constexpr OperatorRow top_row(std::string_view name) {
  return {.name = name, .parse = parse_top};
}

constexpr OperatorRow kRows[] = {
    {.name = "$avg", .strict = avg},
    {.name = "$max", .strict = max, .flags = kNoFold},
    {.name = "$min", .strict = min, .flags = kNoFold},
    {.name = "$stdDevPop", .strict = std_dev_pop},
    {.name = "$stdDevSamp", .strict = std_dev_samp},
    {.name = "$sum", .strict = sum},
    {.name = "$median", .named = &kMedianNamed, .strict = median, .parse = parse_percentile},
    {.name = "$percentile",
     .named = &kPercentileNamed,
     .strict = percentile,
     .parse = parse_percentile},
    n_row("$firstN"),
    n_row("$lastN"),
    n_row("$maxN"),
    n_row("$minN"),
    top_row("$bottom"),
    top_row("$bottomN"),
    top_row("$top"),
    top_row("$topN"),
};

}  // namespace

std::span<const OperatorRow> accumulator_operators() {
  return kRows;
}

}  // namespace multifora
