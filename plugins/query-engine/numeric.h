// Arithmetic over BSON's four number types as aggregation does it: int32 widens to int64, int64 to
// double; decimal128 wins over all. Nothing traps: overflow promotes. Stateless; any thread.
#pragma once

#include <cstdint>

#include "core/base/status.h"
#include "core/bson/view.h"
#include "plugins/query-engine/value.h"

namespace multifora {

// The wider of two number types: int32 < int64 < double < decimal128.
BsonType wider_number(BsonType a, BsonType b);
// Requires a number.
Decimal128 number_as_decimal(const ValueView& number);
bool number_is_nan(const ValueView& number);
bool number_is_zero(const ValueView& number);
// int32 where it fits, int64 otherwise.
Value int_or_long(std::int64_t v);
// True where the number (of any type) is a whole number that fits int32.
bool exact_int32(const ValueView& number, std::int32_t* out);

// Both numbers. Overflow promotes to the next type.
Value add_numbers(const ValueView& a, const ValueView& b);
Value subtract_numbers(const ValueView& a, const ValueView& b);
Value multiply_numbers(const ValueView& a, const ValueView& b);
// double, or decimal128 where either is one. Requires b != 0.
Value divide_numbers(const ValueView& a, const ValueView& b);

// A sum that keeps what rounding would lose (two doubles), as $sum, $avg and $add have it. Whole
// numbers are summed exactly in 128 bits.
class NumberSum {
 public:
  void add(const ValueView& number);
  void subtract(const ValueView& number);  // the reverse of an add, for sliding windows
  // int32 / int64 / double / decimal128 by the widest type that was added.
  Value total() const;
  // What merge() takes, as an array; for spilling.
  Value state() const;
  void merge(const ValueView& state);
  // Without the rounding to a type: the double nearest to the sum.
  double as_double() const;
  Decimal128 as_decimal() const;
  BsonType type() const { return type_; }
  // The sum as a whole number for dates: false where it does not fit int64.
  bool as_int64(std::int64_t* out) const;

 private:
  void add_double(double v);
  BsonType type_ = BsonType::kInt32;
  __extension__ using Wide = __int128;
  Wide whole_ = 0;
  double sum_ = 0, rest_ = 0, special_ = 0;  // special_: the infinities and NaNs met
  Decimal128 decimal_ = Decimal128::zero();
  std::int64_t specials_ = 0;
};

}  // namespace multifora
