// $sum, $avg, $stdDevPop, $stdDevSamp, $count. What is not a number does not count.
#include <cmath>

#include <fmt/format.h>

#include "plugins/query-engine/accumulator.h"
#include "plugins/query-engine/numeric.h"

namespace multifora {
namespace {

class Sum final : public Accumulator {
 public:
  Status add(const Value& input) override {
    if (input.view().is_number()) sum_.add(input.view());
    return {};
  }
  bool remove(const Value& input) override {
    // Rounding could leave a rest behind where numbers are not whole.
    if (input.type() == BsonType::kDouble || input.type() == BsonType::kDecimal128) return false;
    if (input.view().is_number()) sum_.subtract(input.view());
    return sum_.type() == BsonType::kInt32;
  }
  Result<Value> result() const override { return sum_.total(); }
  Value state() const override { return sum_.state(); }
  Status merge(const ValueView& state) override {
    sum_.merge(state);
    return {};
  }
  std::size_t memory_bytes() const override { return sizeof *this; }

 private:
  NumberSum sum_;
};

class Average final : public Accumulator {
 public:
  Status add(const Value& input) override {
    if (!input.view().is_number()) return {};
    sum_.add(input.view());
    ++count_;
    return {};
  }
  Result<Value> result() const override {
    if (count_ == 0) return Value::null();
    if (sum_.type() == BsonType::kDecimal128)
      return Value::of(sum_.as_decimal().divide(Decimal128(count_)));
    return Value::of(sum_.as_double() / static_cast<double>(count_));
  }
  Value state() const override {
    ArrayBuilder out;
    out.append(count_);
    out.append(sum_.state().view());
    return Value::array(std::move(out).finish());
  }
  Status merge(const ValueView& state) override {
    auto it = state.as_document().begin();
    count_ += it->value().as_int64();
    sum_.merge((++it)->value());
    return {};
  }
  std::size_t memory_bytes() const override { return sizeof *this; }

 private:
  NumberSum sum_;
  std::int64_t count_ = 0;
};

// Welford's method; two partial results merge by Chan's formula.
template <bool Sample>
class Deviation final : public Accumulator {
 public:
  Status add(const Value& input) override {
    if (!input.view().is_number()) return {};
    const double x = input.view().number_as_double();
    ++count_;
    const double delta = x - mean_;
    mean_ += delta / static_cast<double>(count_);
    m2_ += delta * (x - mean_);
    return {};
  }
  Result<Value> result() const override {
    const std::int64_t n = Sample ? count_ - 1 : count_;
    if (n <= 0) return Value::null();
    if (!std::isfinite(m2_)) return Value::null();
    return Value::of(std::sqrt(m2_ / static_cast<double>(n)));
  }
  Value state() const override {
    ArrayBuilder out;
    out.append(count_).append(mean_).append(m2_);
    return Value::array(std::move(out).finish());
  }
  Status merge(const ValueView& state) override {
    auto it = state.as_document().begin();
    const std::int64_t n = it->value().as_int64();
    const double mean = (++it)->value().as_double();
    const double m2 = (++it)->value().as_double();
    if (n == 0) return {};
    const std::int64_t total = count_ + n;
    const double delta = mean - mean_;
    const double share = static_cast<double>(n) / static_cast<double>(total);
    mean_ += delta * share;
    m2_ += m2 + delta * delta * static_cast<double>(count_) * share;
    count_ = total;
    return {};
  }

 private:
  std::int64_t count_ = 0;
  double mean_ = 0, m2_ = 0;
};

template <class T>
AccumulatorPtr make(const AccumulatorArguments&) {
  return std::make_unique<T>();
}

// {$count: {}} is {$sum: 1}.
Result<SpecPtr> parse_count(const AccumulatorRow& row, const ValueView& argument, VariableScope&) {
  if (argument.type() != BsonType::kObject || !argument.as_document().empty())
    return fail(ErrorCode::kTypeMismatch, "$count takes no arguments, i.e. $count:{}");
  return make_simple_spec(row, make_constant(Value::of(std::int32_t{1})), nullptr);
}

constexpr AccumulatorRow kRows[] = {
    {.name = "$avg", .make = make<Average>},
    {.name = "$count", .make = make<Sum>, .parse = parse_count},
    {.name = "$stdDevPop", .make = make<Deviation<false>>},
    {.name = "$stdDevSamp", .make = make<Deviation<true>>},
    {.name = "$sum", .make = make<Sum>},
};

}  // namespace

std::span<const AccumulatorRow> number_accumulators() { return kRows; }

}  // namespace multifora
