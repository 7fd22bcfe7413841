// $min, $max, $first, $last and their N forms.
#include <algorithm>
#include <deque>

#include <fmt/format.h>

#include "core/bson/compare.h"
#include "plugins/query-engine/accumulator.h"

namespace multifora {
namespace {

// The least (or greatest) value; null, undefined and missing do not count.
template <bool Max>
class Extreme final : public Accumulator {
 public:
  explicit Extreme(const Collator* collator) : collator_(collator) {}
  Status add(const Value& input) override {
    if (input.nullish()) return {};
    if (value_.missing()) {
      value_ = input.own();
      return {};
    }
    const int c = compare_values(input.view(), value_.view(), collator_);
    if (Max ? c > 0 : c < 0) value_ = input.own();
    return {};
  }
  Result<Value> result() const override { return value_.missing() ? Value::null() : value_; }
  Value state() const override { return value_.missing() ? Value::null() : value_; }
  Status merge(const ValueView& state) override { return add(Value(state)); }
  std::size_t memory_bytes() const override { return sizeof *this + value_.view().size_bytes(); }

 private:
  const Collator* collator_;
  Value value_;
};

template <bool Last>
class End final : public Accumulator {
 public:
  Status add(const Value& input) override {
    if (Last || !have_) value_ = input.missing() ? Value::null() : input.own();
    have_ = true;
    return {};
  }
  Result<Value> result() const override { return have_ ? value_ : Value::null(); }
  Value state() const override {
    ArrayBuilder out;
    if (have_) out.append(value_.view());
    return Value::array(std::move(out).finish());
  }
  Status merge(const ValueView& state) override {
    for (const Element& e : state.as_document()) MULTIFORA_TRY(add(Value(e.value())));
    return {};
  }
  std::size_t memory_bytes() const override { return sizeof *this + value_.view().size_bytes(); }

 private:
  bool have_ = false;
  Value value_;
};

Value array_of(const auto& values) {
  ArrayBuilder out;
  for (const Value& v : values) out.append(v.view());
  return Value::array(std::move(out).finish());
}

// The first (or last) n.
template <bool Last>
class EndN final : public Accumulator {
 public:
  explicit EndN(std::int64_t n) : n_(static_cast<std::size_t>(n)) {}
  Status add(const Value& input) override {
    if (!Last && values_.size() == n_) return {};
    values_.push_back(input.missing() ? Value::null() : input.own());
    bytes_ += values_.back().view().size_bytes() + sizeof(Value);
    if (values_.size() > n_) {
      bytes_ -= values_.front().view().size_bytes() + sizeof(Value);
      values_.pop_front();
    }
    return {};
  }
  Result<Value> result() const override { return array_of(values_); }
  Value state() const override { return array_of(values_); }
  Status merge(const ValueView& state) override {
    for (const Element& e : state.as_document()) MULTIFORA_TRY(add(Value(e.value())));
    return {};
  }
  std::size_t memory_bytes() const override { return sizeof *this + bytes_; }

 private:
  std::size_t n_;
  std::size_t bytes_ = 0;
  std::deque<Value> values_;
};

// The n least (or greatest), ordered; of equal ones the first. What comes is put in order when there is
// as much of it again.
template <bool Max>
class ExtremeN final : public Accumulator {
 public:
  ExtremeN(std::int64_t n, const Collator* collator)
      : n_(static_cast<std::size_t>(n)), collator_(collator) {}
  Status add(const Value& input) override {
    if (input.nullish()) return {};
    if (full_ && !before(input, values_[n_ - 1])) return {};
    values_.push_back(input.own());
    bytes_ += input.view().size_bytes() + sizeof(Value);
    if (values_.size() > n_ && values_.size() - n_ >= std::max<std::size_t>(n_, 16)) settle();
    return {};
  }
  Result<Value> result() const override { return state(); }
  Value state() const override {
    settle();
    return array_of(values_);
  }
  Status merge(const ValueView& state) override {
    for (const Element& e : state.as_document()) MULTIFORA_TRY(add(Value(e.value())));
    return {};
  }
  std::size_t memory_bytes() const override { return sizeof *this + bytes_; }

 private:
  bool before(const Value& a, const Value& b) const {
    const int c = compare_values(a.view(), b.view(), collator_);
    return Max ? c > 0 : c < 0;
  }
  void settle() const {
    std::stable_sort(values_.begin(), values_.end(),
                     [this](const Value& a, const Value& b) { return before(a, b); });
    for (; values_.size() > n_; values_.pop_back())
      bytes_ -= values_.back().view().size_bytes() + sizeof(Value);
    full_ = values_.size() == n_;
  }

  std::size_t n_;
  const Collator* collator_;
  mutable std::size_t bytes_ = 0;
  mutable bool full_ = false;           // the first n_ are in order, and nothing behind them counts
  mutable std::vector<Value> values_;
};

template <bool Max>
AccumulatorPtr make_extreme(const AccumulatorArguments& a) {
  return std::make_unique<Extreme<Max>>(a.collator);
}
template <bool Last>
AccumulatorPtr make_end(const AccumulatorArguments&) {
  return std::make_unique<End<Last>>();
}
template <bool Last>
AccumulatorPtr make_end_n(const AccumulatorArguments& a) {
  return std::make_unique<EndN<Last>>(a.n);
}
template <bool Max>
AccumulatorPtr make_extreme_n(const AccumulatorArguments& a) {
  return std::make_unique<ExtremeN<Max>>(a.n, a.collator);
}

// {n: ..., input: ...}
Result<SpecPtr> parse_n(const AccumulatorRow& row, const ValueView& argument,
                        VariableScope& scope) {
  if (argument.type() != BsonType::kObject)
    return fail_code(5787900, fmt::format("specification must be an object; found {} for {}",
                                          value_text(argument), row.name));
  ExpressionPtr n;
  ExpressionPtr input;
  for (const Element& e : argument.as_document()) {
    if (e.name() != "n" && e.name() != "input")
      return fail_code(5787901,
                       fmt::format("Unknown argument for {} operator: {}", row.name, e.name()));
    MULTIFORA_ASSIGN_R(ExpressionPtr parsed, parse_expression(e.value(), scope));
    (e.name() == "n" ? n : input) = std::move(parsed);
  }
  if (!n) return fail_code(5787906, fmt::format("Missing value for 'n' in {}", row.name));
  if (!input) return fail_code(5787907, fmt::format("Missing value for 'input' in {}", row.name));
  if (const Value* constant = n->constant()) {
    MULTIFORA_ASSIGN_R([[maybe_unused]] const std::int64_t checked,
                       check_n(row.name, constant->view()));
  }
  return make_simple_spec(row, std::move(input), std::move(n));
}

constexpr AccumulatorRow kRows[] = {
    {.name = "$first", .make = make_end<false>},
    {.name = "$firstN", .make = make_end_n<false>, .parse = parse_n},
    {.name = "$last", .make = make_end<true>},
    {.name = "$lastN", .make = make_end_n<true>, .parse = parse_n},
    {.name = "$max", .make = make_extreme<true>},
    {.name = "$maxN", .make = make_extreme_n<true>, .parse = parse_n},
    {.name = "$min", .make = make_extreme<false>},
    {.name = "$minN", .make = make_extreme_n<false>, .parse = parse_n},
};

}  // namespace

std::span<const AccumulatorRow> order_accumulators() {
  return kRows;
}

}  // namespace multifora
