// $percentile and $median. Values are kept and sorted: the result is exact, which the approximate
// method allows.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "plugins/query-engine/accumulator.h"

namespace multifora {

double percentile_of(std::span<const double> sorted, double p) {
  const auto n = static_cast<double>(sorted.size());
  if (p >= 1.0) return sorted.back();
  const double rank = std::ceil(n * p) - 1;
  return sorted[rank < 0 ? 0 : static_cast<std::size_t>(rank)];
}

Status check_percentiles(const ValueView& p, std::vector<double>* out) {
  if (p.type() != BsonType::kArray || p.as_document().empty())
    return {location_code(7750300),
            "The $percentile 'p' field must be a non-empty array of constant numbers "
            "between 0.0 and 1.0"};
  for (const Element& e : p.as_document()) {
    const double v = e->number_as_double();
    if (!e->is_number())
      return {location_code(7750302),
              fmt::format("The $percentile 'p' field must be an array of numbers, but "
                          "found: {}",
                          value_text(e.value()))};
    if (!(v >= 0 && v <= 1))
      return {location_code(7750303),
              fmt::format("The $percentile 'p' field must be an array of numbers from "
                          "[0.0, 1.0], but found: {}",
                          v)};
    out->push_back(v);
  }
  return {};
}

Status check_percentile_method(std::string_view op, const ValueView& method) {
  if (method.type() != BsonType::kString)
    return {ErrorCode::kTypeMismatch, fmt::format("{}: 'method' must be a string", op)};
  if (method.as_string() != "approximate")
    return {ErrorCode::kBadValue,
            fmt::format("Currently only 'approximate' can be used as {} 'method'", op)};
  return {};
}

namespace {

// p empty: the median, as one number.
class Percentile final : public Accumulator {
 public:
  explicit Percentile(const std::vector<double>& p) : p_(p) {}
  Status add(const Value& input) override {
    if (!input.view().is_number()) return {};
    const double v = input.view().number_as_double();
    if (!std::isnan(v)) values_.push_back(v);
    return {};
  }
  bool remove(const Value& input) override {
    if (!input.view().is_number() || std::isnan(input.view().number_as_double())) return true;
    if (!values_.empty()) values_.erase(values_.begin());
    return true;
  }
  Result<Value> result() const override {
    std::vector<double> sorted = values_;
    std::sort(sorted.begin(), sorted.end());
    if (p_.empty()) return sorted.empty() ? Value::null() : Value::of(percentile_of(sorted, 0.5));
    ArrayBuilder out;
    for (const double p : p_) {
      if (sorted.empty())
        out.append_null();
      else
        out.append(percentile_of(sorted, p));
    }
    return Value::array(std::move(out).finish());
  }
  Value state() const override {
    return Value::binary(
        {reinterpret_cast<const char*>(values_.data()), values_.size() * sizeof(double)}, 0);
  }
  Status merge(const ValueView& state) override {
    const Bytes bytes = state.binary_bytes();
    for (std::size_t i = 0; i < bytes.size(); i += sizeof(double))
      values_.push_back(load_le<double>(bytes.data() + i));
    return {};
  }
  std::size_t memory_bytes() const override {
    return sizeof *this + values_.capacity() * sizeof(double);
  }

 private:
  const std::vector<double>& p_;  // the spec's
  std::vector<double> values_;
};

class PercentileSpec final : public AccumulatorSpec {
 public:
  PercentileSpec(const AccumulatorRow& row, ExpressionPtr input, std::vector<double> p)
      : row_(row), input_(std::move(input)), p_(std::move(p)) {}
  Result<Value> input(EvalContext& context) const override { return input_->evaluate(context); }
  Result<AccumulatorPtr> make(EvalContext&) const override {
    return std::make_unique<Percentile>(p_);
  }
  bool add_dependencies(std::vector<std::string>& paths) const override {
    return input_->add_dependencies(paths);
  }
  void append_to(DocumentBuilder& out, std::string_view name) const override {
    DocumentBuilder self = out.object(name);
    DocumentBuilder sub = self.object(row_.name);
    input_->append_to(sub, "input");
    if (!p_.empty()) {
      ArrayBuilder p = sub.array("p");
      for (const double v : p_) p.append(v);
    }
    sub.append("method", "approximate");
  }

 private:
  const AccumulatorRow& row_;
  ExpressionPtr input_;
  std::vector<double> p_;
};

Result<SpecPtr> parse_percentile(const AccumulatorRow& row, const ValueView& argument,
                                 VariableScope& scope) {
  const bool median = row.name == "$median";
  if (argument.type() != BsonType::kObject)
    return fail_code(median ? 7436100 : 7429703,
                     fmt::format("specification must be an object; found {}: {}", row.name,
                                 type_text(argument)));
  ExpressionPtr input;
  std::vector<double> p;
  bool have_method = false;
  for (const Element& e : argument.as_document()) {
    if (e.name() == "input") {
      MULTIFORA_ASSIGN_R(input, parse_expression(e.value(), scope));
    } else if (e.name() == "p" && !median) {
      MULTIFORA_ASSIGN_R(const ExpressionPtr parsed, parse_expression(e.value(), scope));
      const Value* constant = parsed->constant();
      MULTIFORA_TRY_R(check_percentiles(constant != nullptr ? constant->view() : ValueView(), &p));
    } else if (e.name() == "method") {
      MULTIFORA_TRY_R(check_percentile_method(row.name, e.value()));
      have_method = true;
    } else {
      return fail_code(40415,
                       fmt::format("BSON field '{}.{}' is an unknown field.", row.name, e.name()));
    }
  }
  const auto missing = [&](std::string_view field) {
    return fail_code(
        40414, fmt::format("BSON field '{}.{}' is missing but a required field", row.name, field));
  };
  if (!input) return missing("input");
  if (!median && p.empty()) return missing("p");
  if (!have_method) return missing("method");
  return std::make_unique<PercentileSpec>(row, std::move(input), std::move(p));
}

constexpr AccumulatorRow kRows[] = {
    {.name = "$median", .parse = parse_percentile},
    {.name = "$percentile", .parse = parse_percentile},
};

}  // namespace

std::span<const AccumulatorRow> percentile_accumulators() {
  return kRows;
}

}  // namespace multifora
