#include "plugins/query-engine/window_function.h"

#include <cmath>
#include <functional>

#include <fmt/format.h>

#include "core/bson/path.h"
#include "plugins/query-engine/numeric.h"

namespace multifora {
namespace {

using enum BsonType;
using FunctionPtr = std::unique_ptr<WindowFunction>;
using Values = std::vector<Value>;

Status poll(EvalContext& eval) {
  return eval.interrupt != nullptr ? eval.interrupt->check() : Status();
}

// An expression's value for each document, owned.
Result<Values> evaluate_all(const Partition& p, const Expression& e, EvalContext& eval) {
  Values out;
  for (const OwnedDocument& d : p.documents) {
    eval.root = d.view();
    MULTIFORA_ASSIGN_R(const Value v, e.evaluate(eval));
    out.push_back(v.own());
  }
  return out;
}

// ---------------------------------------------------------------- accumulators over windows

class AccumulatorFunction final : public WindowFunction {
 public:
  AccumulatorFunction(SpecPtr spec, WindowBounds bounds, const SortPattern* sort)
      : spec_(std::move(spec)), bounds_(bounds), sort_(sort) {}

  Result<Values> compute(const Partition& p, EvalContext& eval) const override {
    MULTIFORA_ASSIGN_R(const std::vector<IndexRange> ranges, window_ranges(p, bounds_, sort_));
    Values inputs;
    for (const OwnedDocument& d : p.documents) {
      eval.root = d.view();
      MULTIFORA_ASSIGN_R(const Value v, spec_->input(eval));
      inputs.push_back(v.own());
    }
    Values out;
    IndexRange held;
    AccumulatorPtr accumulator;
    for (const IndexRange& wanted : ranges) {
      MULTIFORA_TRY_R(poll(eval));
      bool usable =
          accumulator && wanted.from >= held.from && wanted.to >= held.to && wanted.from <= held.to;
      for (std::size_t i = held.from; usable && i < wanted.from; ++i)
        usable = accumulator->remove(inputs[i]);
      if (!usable) {
        MULTIFORA_ASSIGN_R(accumulator, spec_->make(eval));
        held = {wanted.from, wanted.from};
      }
      for (std::size_t i = held.to; i < wanted.to; ++i)
        MULTIFORA_TRY_R(accumulator->add(inputs[i]));
      held = wanted;
      if (wanted.from == wanted.to) {  // empty windows start anew
        MULTIFORA_ASSIGN_R(accumulator, spec_->make(eval));
      }
      MULTIFORA_ASSIGN_R(const Value v, accumulator->result());
      out.push_back(v.own());
    }
    return out;
  }

 private:
  SpecPtr spec_;
  WindowBounds bounds_;
  const SortPattern* sort_;
};

// ---------------------------------------------------------------- ranks

enum class Rank { kRank, kDenseRank, kDocumentNumber };

class RankFunction final : public WindowFunction {
 public:
  explicit RankFunction(Rank kind) : kind_(kind) {}
  Result<Values> compute(const Partition& p, EvalContext&) const override {
    Values out;
    std::int64_t rank = 0;
    for (std::size_t i = 0; i < p.documents.size(); ++i) {
      const bool tie = i > 0 && p.sort_keys[i] == p.sort_keys[i - 1];
      if (kind_ == Rank::kDocumentNumber || !tie)
        rank = kind_ == Rank::kDenseRank ? rank + 1 : static_cast<std::int64_t>(i) + 1;
      out.push_back(int_or_long(rank));
    }
    return out;
  }

 private:
  Rank kind_;
};

// ---------------------------------------------------------------- $shift, $locf, $linearFill

class ShiftFunction final : public WindowFunction {
 public:
  ShiftFunction(ExpressionPtr output, std::int64_t by, Value otherwise)
      : output_(std::move(output)), by_(by), otherwise_(std::move(otherwise)) {}
  Result<Values> compute(const Partition& p, EvalContext& eval) const override {
    MULTIFORA_ASSIGN_R(const Values all, evaluate_all(p, *output_, eval));
    Values out;
    const auto n = static_cast<std::int64_t>(all.size());
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t at = saturating_add(i, by_);
      out.push_back(at >= 0 && at < n ? all[static_cast<std::size_t>(at)] : otherwise_);
    }
    return out;
  }

 private:
  ExpressionPtr output_;
  std::int64_t by_;
  Value otherwise_;
};

class CarryForward final : public WindowFunction {
 public:
  explicit CarryForward(ExpressionPtr input) : input_(std::move(input)) {}
  Result<Values> compute(const Partition& p, EvalContext& eval) const override {
    MULTIFORA_ASSIGN_R(Values all, evaluate_all(p, *input_, eval));
    Value last = Value::null();
    for (Value& v : all) {
      if (v.nullish())
        v = last;
      else
        last = v;
    }
    return all;
  }

 private:
  ExpressionPtr input_;
};

// The document's sort value as a number (dates in milliseconds).
Result<double> sort_number(DocumentView d, const std::string& path, std::string_view op) {
  const ValueView v = value_at(d, path);
  if (v.type() == kDate) return static_cast<double>(v.as_date_ms());
  if (v.is_number()) return v.number_as_double();
  return fail_code(5371600,
                   fmt::format("{} requires the sortBy field to be numbers or dates, found: {}", op,
                               type_text(v)));
}

class LinearFill final : public WindowFunction {
 public:
  LinearFill(ExpressionPtr input, std::string path)
      : input_(std::move(input)), path_(std::move(path)) {}
  Result<Values> compute(const Partition& p, EvalContext& eval) const override {
    MULTIFORA_ASSIGN_R(Values all, evaluate_all(p, *input_, eval));
    std::vector<double> x;
    for (const OwnedDocument& d : p.documents) {
      MULTIFORA_ASSIGN_R(const double key, sort_number(d.view(), path_, "$linearFill"));
      if (!x.empty() && x.back() == key)
        return fail_code(6050106,
                         "There can be no repeated values in the sort field in $linearFill");
      x.push_back(key);
    }
    std::optional<std::size_t> left;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].nullish()) continue;
      if (!all[i].view().is_number())
        return fail(ErrorCode::kTypeMismatch,
                    fmt::format("Value to be filled must be numeric or nullish, but found type "
                                "{}",
                                type_text(all[i].view())));
      if (left)
        for (std::size_t k = *left + 1; k < i; ++k)
          all[k] = between(all[*left], all[i], x[*left], x[i], x[k]);
      left = i;
    }
    for (Value& v : all)
      if (v.missing()) v = Value::null();
    return all;
  }

 private:
  static Value between(const Value& a, const Value& b, double xa, double xb, double x) {
    const double share = (x - xa) / (xb - xa);
    if (wider_number(a.type(), b.type()) == kDecimal128) {
      const Decimal128 low = number_as_decimal(a.view());
      return Value::of(low.add(
          number_as_decimal(b.view()).subtract(low).multiply(Decimal128::from_double(share))));
    }
    const double low = a.view().number_as_double();
    return Value::of(low + (b.view().number_as_double() - low) * share);
  }
  ExpressionPtr input_;
  std::string path_;
};

// ---------------------------------------------------------------- $derivative, $integral,
// $expMovingAvg

class RateFunction final : public WindowFunction {
 public:
  RateFunction(bool integral, ExpressionPtr input, std::optional<DateUnit> unit,
               WindowBounds bounds, const SortPattern* sort)
      : integral_(integral), input_(std::move(input)), unit_(unit), bounds_(bounds), sort_(sort) {}

  Result<Values> compute(const Partition& p, EvalContext& eval) const override {
    MULTIFORA_ASSIGN_R(const std::vector<IndexRange> ranges, window_ranges(p, bounds_, sort_));
    MULTIFORA_ASSIGN_R(const Values y, evaluate_all(p, *input_, eval));
    std::vector<double> x;
    for (const OwnedDocument& d : p.documents) {
      MULTIFORA_ASSIGN_R(const double key, time_of(d.view()));
      x.push_back(key);
    }
    for (const Value& v : y)
      if (!v.nullish() && !v.view().is_number())
        return fail_code(integral_ ? 5423900 : 5624900,
                         fmt::format("{} requires its input to be a number, found: {}",
                                     integral_ ? "$integral" : "$derivative", type_text(v.view())));
    Values out;
    for (const IndexRange& r : ranges) {
      MULTIFORA_TRY_R(poll(eval));
      out.push_back(integral_ ? integral(r, x, y) : derivative(r, x, y));
    }
    return out;
  }

 private:
  Result<double> time_of(DocumentView d) const {
    const ValueView v = value_at(d, sort_->parts()[0].path);
    if (unit_) {
      if (v.type() != kDate)
        return fail_code(
            5624900, fmt::format("a 'unit' requires the sortBy field to be a Date, but it was {}",
                                 type_text(v)));
      return static_cast<double>(v.as_date_ms()) / static_cast<double>(unit_ms(*unit_));
    }
    if (!v.is_number())
      return fail_code(
          5624901, fmt::format("without a 'unit' the sortBy field must be a number, but it was {}",
                               type_text(v)));
    return v.number_as_double();
  }
  static Value derivative(const IndexRange& r, const std::vector<double>& x, const Values& y) {
    if (r.to - r.from < 2) return Value::null();
    const Value& first = y[r.from];
    const Value& last = y[r.to - 1];
    const double run = x[r.to - 1] - x[r.from];
    if (first.nullish() || last.nullish() || run == 0) return Value::null();
    return Value::of((last.view().number_as_double() - first.view().number_as_double()) / run);
  }
  static Value integral(const IndexRange& r, const std::vector<double>& x, const Values& y) {
    if (r.to == r.from) return Value::null();
    double area = 0;
    for (std::size_t i = r.from + 1; i < r.to; ++i)
      area += (y[i].view().number_as_double() + y[i - 1].view().number_as_double()) *
              (x[i] - x[i - 1]) / 2;
    return Value::of(area);
  }

  bool integral_;
  ExpressionPtr input_;
  std::optional<DateUnit> unit_;
  WindowBounds bounds_;
  const SortPattern* sort_;
};

class ExpMovingAverage final : public WindowFunction {
 public:
  ExpMovingAverage(ExpressionPtr input, Value alpha)
      : input_(std::move(input)), alpha_(std::move(alpha)) {}
  Result<Values> compute(const Partition& p, EvalContext& eval) const override {
    MULTIFORA_ASSIGN_R(const Values all, evaluate_all(p, *input_, eval));
    Values out;
    Value average = Value::null();
    const Value rest = subtract_numbers(Value::of(1.0).view(), alpha_.view());
    for (const Value& v : all) {
      if (v.view().is_number())
        average = average.nullish()
                      ? v
                      : add_numbers(multiply_numbers(v.view(), alpha_.view()).view(),
                                    multiply_numbers(average.view(), rest.view()).view());
      out.push_back(average);
    }
    return out;
  }

 private:
  ExpressionPtr input_;
  Value alpha_;
};

// ---------------------------------------------------------------- $covariance*, $minMaxScaler

class Covariance final : public WindowFunction {
 public:
  Covariance(bool sample, ExpressionPtr x, ExpressionPtr y, WindowBounds bounds,
             const SortPattern* sort)
      : sample_(sample), x_(std::move(x)), y_(std::move(y)), bounds_(bounds), sort_(sort) {}
  Result<Values> compute(const Partition& p, EvalContext& eval) const override {
    MULTIFORA_ASSIGN_R(const std::vector<IndexRange> ranges, window_ranges(p, bounds_, sort_));
    MULTIFORA_ASSIGN_R(const Values x, evaluate_all(p, *x_, eval));
    MULTIFORA_ASSIGN_R(const Values y, evaluate_all(p, *y_, eval));
    Values out;
    for (const IndexRange& r : ranges) {
      MULTIFORA_TRY_R(poll(eval));
      out.push_back(of_range(r, x, y));
    }
    return out;
  }

 private:
  Value of_range(const IndexRange& r, const Values& x, const Values& y) const {
    double n = 0, mean_x = 0, mean_y = 0, c = 0;
    for (std::size_t i = r.from; i < r.to; ++i) {
      if (!x[i].view().is_number() || !y[i].view().is_number()) continue;
      const double a = x[i].view().number_as_double();
      const double b = y[i].view().number_as_double();
      n += 1;
      const double delta = a - mean_x;
      mean_x += delta / n;
      mean_y += (b - mean_y) / n;
      c += delta * (b - mean_y);
    }
    const double divisor = sample_ ? n - 1 : n;
    return divisor <= 0 ? Value::null() : Value::of(c / divisor);
  }
  bool sample_;
  ExpressionPtr x_, y_;
  WindowBounds bounds_;
  const SortPattern* sort_;
};

class MinMaxScaler final : public WindowFunction {
 public:
  MinMaxScaler(ExpressionPtr input, double low, double high, WindowBounds bounds,
               const SortPattern* sort)
      : input_(std::move(input)), low_(low), high_(high), bounds_(bounds), sort_(sort) {}
  Result<Values> compute(const Partition& p, EvalContext& eval) const override {
    MULTIFORA_ASSIGN_R(const std::vector<IndexRange> ranges, window_ranges(p, bounds_, sort_));
    MULTIFORA_ASSIGN_R(const Values all, evaluate_all(p, *input_, eval));
    Values out;
    for (std::size_t i = 0; i < all.size(); ++i) {
      MULTIFORA_TRY_R(poll(eval));
      if (!all[i].view().is_number())
        return fail_code(
            10487001,
            fmt::format(
                "'input' argument to $minMaxScaler must evaluate to a numeric type, got: {}",
                type_text(all[i].view())));
      double least = INFINITY;
      double most = -INFINITY;
      for (std::size_t k = ranges[i].from; k < ranges[i].to; ++k) {
        least = std::min(least, all[k].view().number_as_double());
        most = std::max(most, all[k].view().number_as_double());
      }
      const double share =
          most > least ? (all[i].view().number_as_double() - least) / (most - least) : 0;
      out.push_back(Value::of(low_ + share * (high_ - low_)));
    }
    return out;
  }

 private:
  ExpressionPtr input_;
  double low_, high_;
  WindowBounds bounds_;
  const SortPattern* sort_;
};

// ---------------------------------------------------------------- parsing

struct Parsing {
  std::string_view op;
  ValueView argument;
  ValueView window;
  const SortPattern* sort;
  VariableScope& scope;
};

std::unexpected<Status> wrong(const Parsing& p, std::string_view what) {
  return fail(ErrorCode::kFailedToParse, fmt::format("{} {}", p.op, what));
}

Status check_no_window(const Parsing& p) {
  if (p.window.missing()) return {};
  return {ErrorCode::kFailedToParse, fmt::format("{} does not accept a 'window' field", p.op)};
}

Result<FunctionPtr> parse_rank(const Parsing& p) {
  if (p.argument.type() != kObject || !p.argument.as_document().empty())
    return fail_code(5371603, fmt::format("{} must be specified with '{{}}' as the value", p.op));
  if (!p.window.missing())
    return fail_code(5371601,
                     fmt::format("Rank style window functions take no other arguments: {}", p.op));
  if (p.sort == nullptr || (p.op != "$documentNumber" && p.sort->parts().size() != 1))
    return fail_code(
        5371602,
        fmt::format("{} must be specified with a top level sortBy expression with exactly one "
                    "element",
                    p.op));
  return std::make_unique<RankFunction>(p.op == "$rank"        ? Rank::kRank
                                        : p.op == "$denseRank" ? Rank::kDenseRank
                                                               : Rank::kDocumentNumber);
}

Result<FunctionPtr> parse_shift(const Parsing& p) {
  MULTIFORA_TRY_R(check_no_window(p));
  if (p.sort == nullptr) return wrong(p, "requires a sortBy");
  if (p.argument.type() != kObject) return wrong(p, "requires an object");
  ExpressionPtr output;
  std::int32_t by = 0;
  bool have_by = false;
  Value otherwise = Value::null();
  for (const Element& e : p.argument.as_document()) {
    if (e.name() == "output") {
      MULTIFORA_ASSIGN_R(output, parse_expression(e.value(), p.scope));
    } else if (e.name() == "by") {
      if (!e->is_number() || !exact_int32(e.value(), &by))
        return wrong(p, "requires 'by' to be an integer");
      have_by = true;
    } else if (e.name() == "default") {
      MULTIFORA_ASSIGN_R(const ExpressionPtr parsed, parse_expression(e.value(), p.scope));
      if (parsed->constant() == nullptr) return wrong(p, "requires 'default' to be a constant");
      otherwise = *parsed->constant();
    } else {
      return wrong(p, fmt::format("got an unexpected argument: {}", e.name()));
    }
  }
  if (!output || !have_by) return wrong(p, "requires 'output' and 'by'");
  return std::make_unique<ShiftFunction>(std::move(output), by, std::move(otherwise));
}

Result<FunctionPtr> parse_locf(const Parsing& p) {
  MULTIFORA_TRY_R(check_no_window(p));
  if (p.sort == nullptr) return wrong(p, "requires a sortBy");
  MULTIFORA_ASSIGN_R(ExpressionPtr input, parse_expression(p.argument, p.scope));
  return std::make_unique<CarryForward>(std::move(input));
}

Result<FunctionPtr> parse_linear_fill(const Parsing& p) {
  MULTIFORA_TRY_R(check_no_window(p));
  if (p.sort == nullptr || p.sort->parts().size() != 1)
    return fail_code(605001,
                     "$linearFill must be specified with a top level sortBy expression with "
                     "exactly one element");
  MULTIFORA_ASSIGN_R(ExpressionPtr input, parse_expression(p.argument, p.scope));
  return std::make_unique<LinearFill>(std::move(input), p.sort->parts()[0].path);
}

Result<FunctionPtr> parse_rate(const Parsing& p) {
  const bool integral = p.op == "$integral";
  if (p.argument.type() != kObject) return wrong(p, "requires an object");
  if (p.sort == nullptr || p.sort->parts().size() != 1)
    return wrong(p, "requires a non-compound sortBy");
  if (!integral && p.window.missing()) return wrong(p, "requires explicit window bounds");
  ExpressionPtr input;
  std::optional<DateUnit> unit;
  for (const Element& e : p.argument.as_document()) {
    if (e.name() == "input") {
      MULTIFORA_ASSIGN_R(input, parse_expression(e.value(), p.scope));
    } else if (e.name() == "unit") {
      if (e.type() == kString) unit = parse_date_unit(e->as_string());
      if (!unit || unit_ms(*unit) == 0) return fail_code(5490704, "unit must be 'week' or smaller");
    } else {
      return wrong(p, fmt::format("got unexpected argument: {}", e.name()));
    }
  }
  if (!input) return wrong(p, "requires an 'input' expression");
  MULTIFORA_ASSIGN_R(const WindowBounds bounds, parse_window(p.window, p.sort));
  return std::make_unique<RateFunction>(integral, std::move(input), unit, bounds, p.sort);
}

Result<FunctionPtr> parse_exp_moving_average(const Parsing& p) {
  MULTIFORA_TRY_R(check_no_window(p));
  if (p.sort == nullptr) return wrong(p, "requires an explicit 'sortBy'");
  if (p.argument.type() != kObject) return wrong(p, "requires an object");
  ExpressionPtr input;
  Value alpha;
  for (const Element& e : p.argument.as_document()) {
    if (e.name() == "input") {
      MULTIFORA_ASSIGN_R(input, parse_expression(e.value(), p.scope));
    } else if (e.name() == "N" && alpha.missing()) {
      std::int64_t n = 0;
      if (!e->is_number() || !e->exact_int64(&n) || n <= 0)
        return wrong(p, "requires 'N' to be a positive integer");
      alpha = Value::of(2.0 / (static_cast<double>(n) + 1.0));
    } else if (e.name() == "alpha" && alpha.missing()) {
      const double a = e->number_as_double();
      if (!e->is_number() || !(a > 0 && a < 1))
        return wrong(p, "requires 'alpha' to be between 0 and 1 (exclusive)");
      alpha = Value(e.value()).own();
    } else {
      return wrong(p, "takes 'input' and one of 'N' and 'alpha'");
    }
  }
  if (!input || alpha.missing()) return wrong(p, "requires 'input' and one of 'N' and 'alpha'");
  return std::make_unique<ExpMovingAverage>(std::move(input), std::move(alpha));
}

Result<FunctionPtr> parse_covariance(const Parsing& p) {
  if (p.argument.type() != kArray || p.argument.as_document().count() != 2)
    return wrong(p, "requires an array of two expressions");
  auto it = p.argument.as_document().begin();
  MULTIFORA_ASSIGN_R(ExpressionPtr x, parse_expression(it->value(), p.scope));
  MULTIFORA_ASSIGN_R(ExpressionPtr y, parse_expression((++it)->value(), p.scope));
  MULTIFORA_ASSIGN_R(const WindowBounds bounds, parse_window(p.window, p.sort));
  return std::make_unique<Covariance>(p.op == "$covarianceSamp", std::move(x), std::move(y), bounds,
                                      p.sort);
}

Result<FunctionPtr> parse_scaler(const Parsing& p) {
  if (p.argument.type() != kObject) return wrong(p, "requires an object");
  ExpressionPtr input;
  double low = 0;
  double high = 1;
  for (const Element& e : p.argument.as_document()) {
    if (e.name() == "input") {
      MULTIFORA_ASSIGN_R(input, parse_expression(e.value(), p.scope));
    } else if ((e.name() == "min" || e.name() == "max") && e->is_number()) {
      (e.name() == "min" ? low : high) = e->number_as_double();
    } else {
      return wrong(p, fmt::format("got a wrong argument: {}", e.name()));
    }
  }
  if (!input || low >= high) return wrong(p, "requires 'input', and 'min' below 'max'");
  MULTIFORA_ASSIGN_R(const WindowBounds bounds, parse_window(p.window, p.sort));
  return std::make_unique<MinMaxScaler>(std::move(input), low, high, bounds, p.sort);
}

struct Row {
  std::string_view name;
  Result<FunctionPtr> (*parse)(const Parsing&);
};
constexpr Row kRows[] = {
    {"$covariancePop", parse_covariance},
    {"$covarianceSamp", parse_covariance},
    {"$denseRank", parse_rank},
    {"$derivative", parse_rate},
    {"$documentNumber", parse_rank},
    {"$expMovingAvg", parse_exp_moving_average},
    {"$integral", parse_rate},
    {"$linearFill", parse_linear_fill},
    {"$locf", parse_locf},
    {"$minMaxScaler", parse_scaler},
    {"$rank", parse_rank},
    {"$shift", parse_shift},
};

}  // namespace

std::vector<std::string_view> window_only_names() {
  std::vector<std::string_view> names;
  for (const Row& row : kRows) names.push_back(row.name);
  return names;
}

Result<FunctionPtr> WindowFunction::parse(std::string_view field, DocumentView spec,
                                          const SortPattern* sort, VariableScope& scope) {
  Parsing p{.op = {}, .argument = {}, .window = {}, .sort = sort, .scope = scope};
  for (const Element& e : spec) {
    if (e.name() == "window") {
      p.window = e.value();
    } else if (e.name().starts_with('$') && p.op.empty()) {
      p.op = e.name();
      p.argument = e.value();
    } else {
      return fail(ErrorCode::kFailedToParse,
                  fmt::format("Window function found an unknown argument: {}", e.name()));
    }
  }
  if (p.op.empty())
    return fail(ErrorCode::kFailedToParse,
                fmt::format("Expected a $-prefixed window function for '{}'", field));
  for (const Row& row : kRows)
    if (row.name == p.op) return row.parse(p);
  if (find_accumulator(p.op) == nullptr)
    return fail(ErrorCode::kFailedToParse, fmt::format("Unrecognized window function, {}", p.op));
  MULTIFORA_ASSIGN_R(const WindowBounds bounds, parse_window(p.window, sort));
  MULTIFORA_ASSIGN_R(SpecPtr accumulator, AccumulatorSpec::parse(p.op, p.argument, scope));
  return std::make_unique<AccumulatorFunction>(std::move(accumulator), bounds, sort);
}

}  // namespace multifora
