// $inc $mul $min $max $bit.
#include <fmt/format.h>

#include <cmath>

#include "core/bson/compare.h"
#include "plugins/query-engine/update_node.h"

namespace multifora::update {

namespace {

std::int64_t as_integer(const ValueView& value) {
  return value.type() == BsonType::kInt32 ? value.as_int32() : value.as_int64();
}
Decimal128 as_decimal(const ValueView& value) {
  switch (value.type()) {
    case BsonType::kDecimal128: return value.as_decimal();
    case BsonType::kDouble: return Decimal128::from_double(value.as_double());
    default: return Decimal128(as_integer(value));
  }
}
bool is_nan(const ValueView& value) {
  if (value.type() == BsonType::kDouble) return std::isnan(value.as_double());
  return value.type() == BsonType::kDecimal128 && value.as_decimal().is_nan();
}
bool is_integer(const ValueView& value) {
  return value.type() == BsonType::kInt32 || value.type() == BsonType::kInt64;
}

// int32 where both are and the result fits; else int64.
Value integer_result(const ValueView& a, const ValueView& b, std::int64_t result) {
  const bool both_small = a.type() == BsonType::kInt32 && b.type() == BsonType::kInt32;
  if (both_small && result == static_cast<std::int32_t>(result))
    return Value::of(static_cast<std::int32_t>(result));
  return Value::of(result);
}

// ---- $inc and $mul ----

class ArithmeticOperator final : public Operator {
 public:
  ArithmeticOperator(const ValueView& operand, bool multiply)
      : operand_(Value(operand).own()), multiply_(multiply) {}

  Result<Value> apply(const ValueView& current, UpdateState& state) const override {
    if (current.missing()) return multiply_ ? zero_like_operand() : operand_;
    if (!current.is_number()) return not_a_number(current, state);
    MULTIFORA_ASSIGN_R(Value result, compute(current, state));
    if (is_nan(result.view())) {
      state.modified = true;
    } else if (result.type() == current.type() && compare_numbers(result.view(), current) == 0) {
      return Value(current);  // keeps -0, and a decimal's trailing zeros
    }
    return result;
  }

 private:
  Result<Value> compute(const ValueView& current, UpdateState& state) const {
    const ValueView operand = operand_.view();
    if (current.type() == BsonType::kDecimal128 || operand.type() == BsonType::kDecimal128) {
      const Decimal128 a = as_decimal(current);
      const Decimal128 b = as_decimal(operand);
      return Value::of(multiply_ ? a.multiply(b) : a.add(b));
    }
    if (!is_integer(current) || !is_integer(operand)) {
      const double a = current.number_as_double();
      const double b = operand.number_as_double();
      return Value::of(multiply_ ? a * b : a + b);
    }
    std::int64_t result = 0;
    const std::int64_t a = as_integer(current);
    const std::int64_t b = as_integer(operand);
    const bool overflow = multiply_ ? __builtin_mul_overflow(a, b, &result)
                                    : __builtin_add_overflow(a, b, &result);
    if (overflow)
      return fail(ErrorCode::kBadValue,
                  fmt::format("Failed to apply {} operations to current value (({}){}) for "
                              "document {}",
                              name(),
                              current.type() == BsonType::kInt32 ? "NumberInt" : "NumberLong", a,
                              state.describe_id()));
    return integer_result(current, operand, result);
  }

  std::string_view name() const { return multiply_ ? "$mul" : "$inc"; }

  Value zero_like_operand() const {
    switch (operand_.type()) {
      case BsonType::kInt32: return Value::of(std::int32_t{0});
      case BsonType::kInt64: return Value::of(std::int64_t{0});
      case BsonType::kDouble: return Value::of(0.0 * operand_.view().as_double());
      default: return Value::of(Decimal128(std::int32_t{0}).multiply(operand_.view().as_decimal()));
    }
  }

  Result<Value> not_a_number(const ValueView& current, UpdateState& state) const {
    return fail(ErrorCode::kTypeMismatch,
                fmt::format("Cannot apply {} to a value of non-numeric type. {} has the field '{}' "
                            "of non-numeric type {}",
                            name(), state.describe_id(),
                            state.path.empty() ? "" : state.path.back(),
                            type_name(current.type())));
  }

  Value operand_;
  bool multiply_;
};

template <bool multiply>
Status parse_arithmetic(Parser& parser, const Element& field) {
  if (!field->is_number())
    return Status(ErrorCode::kTypeMismatch,
                  fmt::format("Cannot {} with non-numeric argument: {{{}}}",
                              multiply ? "multiply" : "increment", describe(field)));
  return parser.add(field.name(), std::make_shared<ArithmeticOperator>(field.value(), multiply));
}

// ---- $min and $max ----

class CompareOperator final : public Operator {
 public:
  CompareOperator(const ValueView& operand, bool is_max, const Collator* collator)
      : operand_(Value(operand).own()), is_max_(is_max), collator_(collator) {}
  Result<Value> apply(const ValueView& current, UpdateState&) const override {
    if (current.missing()) return operand_;
    const int order = compare_values(operand_.view(), current, collator_);
    return (is_max_ ? order > 0 : order < 0) ? operand_ : Value(current);
  }

 private:
  Value operand_;
  bool is_max_;
  const Collator* collator_;
};

template <bool is_max>
Status parse_compare(Parser& parser, const Element& field) {
  parser.note_value(field.name(), field.value());
  return parser.add(field.name(), std::make_shared<CompareOperator>(field.value(), is_max,
                                                                    parser.collator()));
}

// ---- $bit ----

class BitOperator final : public Operator {
 public:
  struct Step {
    char what;  // 'a'nd, 'o'r, 'x'or
    Value operand;
  };
  explicit BitOperator(std::vector<Step> steps) : steps_(std::move(steps)) {}

  Result<Value> apply(const ValueView& current, UpdateState& state) const override {
    if (!current.missing() && !is_integer(current))
      return fail(ErrorCode::kBadValue,
                  fmt::format("Cannot apply $bit to a value of non-integral type. {} has the field "
                              "{} of non-integer type {}",
                              state.describe_id(), state.path.empty() ? "" : state.path.back(),
                              type_name(current.type())));
    Value value = current.missing() ? Value::of(std::int32_t{0}) : Value(current);
    for (const Step& step : steps_) value = run(step, value.view());
    return value;
  }

 private:
  static Value run(const Step& step, const ValueView& value) {
    const std::int64_t a = as_integer(value);
    const std::int64_t b = as_integer(step.operand.view());
    const std::int64_t result = step.what == 'a' ? a & b : step.what == 'o' ? a | b : a ^ b;
    return integer_result(value, step.operand.view(), result);
  }
  std::vector<Step> steps_;
};

Status parse_bit(Parser& parser, const Element& field) {
  if (field.type() != BsonType::kObject)
    return Status(ErrorCode::kBadValue,
                  fmt::format("The $bit modifier is not compatible with a {}. You must pass in an "
                              "embedded document: {{$bit: {{field: {{and/or/xor: #}}}}",
                              type_name(field.type())));
  std::vector<BitOperator::Step> steps;
  for (const Element& step : field->as_document()) {
    if (step.name() != "and" && step.name() != "or" && step.name() != "xor")
      return Status(ErrorCode::kBadValue,
                    fmt::format("The $bit modifier only supports 'and', 'or', and 'xor', not '{}' "
                                "which is an unknown operator: {{{}}}",
                                step.name(), describe(step)));
    if (!is_integer(step.value()))
      return Status(ErrorCode::kBadValue,
                    fmt::format("The $bit modifier field must be an Integer(32/64 bit); a '{}' is "
                                "not supported here: {{{}}}",
                                type_name(step.type()), describe(step)));
    steps.push_back({step.name()[0], Value(step.value()).own()});
  }
  if (steps.empty())
    return Status(ErrorCode::kBadValue,
                  fmt::format("You must pass in at least one bitwise operation. The format is: "
                              "{{$bit: {{field: {{and/or/xor: #}}}}"));
  return parser.add(field.name(), std::make_shared<BitOperator>(std::move(steps)));
}

constexpr OperatorRow kRows[] = {
    {"$inc", parse_arithmetic<false>}, {"$mul", parse_arithmetic<true>},
    {"$min", parse_compare<false>},    {"$max", parse_compare<true>},
    {"$bit", parse_bit},
};

}  // namespace

std::span<const OperatorRow> arithmetic_rows() { return kRows; }

}  // namespace multifora::update
