// $convert and its short forms ($toInt ...), $type, $isNumber.
#include <charconv>
#include <cmath>
#include <limits>
#include <sstream>

#include <fmt/format.h>

#include "core/bson/extended_json.h"
#include "core/bson/validate.h"
#include "plugins/query-engine/base64.h"
#include "plugins/query-engine/date_text.h"
#include "plugins/query-engine/expr_date.h"
#include "plugins/query-engine/expression_table.h"
#include "plugins/query-engine/numeric.h"
#include "plugins/query-engine/text.h"

namespace multifora {
namespace {

using enum BsonType;

std::unexpected<Status> cannot(std::string message) {
  return fail(ErrorCode::kConversionFailure, std::move(message));
}

std::unexpected<Status> unsupported(const ValueView& v, BsonType to) {
  return cannot(
      fmt::format("Unsupported conversion from {} to {} in $convert with no onError value",
                  type_text(v), type_name(to)));
}

std::unexpected<Status> bad_number(const ValueView& text, std::string_view why) {
  return cannot(fmt::format("Failed to parse number '{}' in $convert with no onError value: {}",
                            text.as_string(), why));
}

// What else $convert may be told.
struct Options {
  int base = 0;        // 0: not given
  std::string format;  // of binData as text
  int subtype = 0;
};

// ---------------------------------------------------------------- to numbers

// The whole part as int64; errors for NaN, infinities and what does not fit.
Result<std::int64_t> whole_part(const ValueView& v) {
  if (v.type() == kDouble) {
    const double d = v.as_double();
    if (std::isnan(d))
      return cannot(
          "Attempt to convert NaN value to integer type in $convert with no onError value");
    if (std::isinf(d))
      return cannot(
          "Attempt to convert infinity value to integer type in $convert with no onError value");
    if (d < -9223372036854775808.0 || d >= 9223372036854775808.0)
      return cannot(fmt::format(
          "Conversion would overflow target type in $convert with no onError value: {}", d));
    return static_cast<std::int64_t>(d);
  }
  if (v.type() == kDecimal128) {
    const Decimal128 d = v.as_decimal();
    if (d.is_nan())
      return cannot(
          "Attempt to convert NaN value to integer type in $convert with no onError value");
    if (d.is_infinite())
      return cannot(
          "Attempt to convert infinity value to integer type in $convert with no onError value");
    std::uint32_t flags = 0;
    const std::int64_t n = d.to_int64(Decimal128::Round::kTowardZero, &flags);
    if ((flags & Decimal128::kInvalid) != 0)
      return cannot(
          fmt::format("Conversion would overflow target type in $convert with no onError value: {}",
                      d.to_string()));
    return n;
  }
  return v.number_as_int64();
}

Result<std::int64_t> parse_whole(const ValueView& v, int base) {
  std::string_view text = v.as_string();
  if (base == 16 && (text.starts_with("0x") || text.starts_with("0X"))) text.remove_prefix(2);
  const bool plus = text.size() > 1 && text[0] == '+' && text[1] >= '0' && text[1] <= '9';
  if (plus) text.remove_prefix(1);
  std::int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n, base);
  if (error == std::errc::result_out_of_range) return bad_number(v, "Overflow");
  if (error != std::errc() || end != text.data() + text.size())
    return bad_number(v, "Did not consume whole string.");
  return n;
}

Result<Value> to_long(const ValueView& v, const Options& options) {
  switch (v.type()) {
    case kBool:
      return Value::of(static_cast<std::int64_t>(v.as_bool()));
    case kDate:
      return Value::of(v.as_date_ms());
    case kString: {
      MULTIFORA_ASSIGN_R(const std::int64_t n,
                         parse_whole(v, options.base == 0 ? 10 : options.base));
      return Value::of(n);
    }
    default:
      break;
  }
  if (!v.is_number()) return unsupported(v, kInt64);
  MULTIFORA_ASSIGN_R(const std::int64_t n, whole_part(v));
  return Value::of(n);
}

Result<Value> to_int(const ValueView& v, const Options& options) {
  if (v.type() == kBool) return Value::of(static_cast<std::int32_t>(v.as_bool()));
  std::int64_t n = 0;
  if (v.type() == kString) {
    MULTIFORA_ASSIGN_R(n, parse_whole(v, options.base == 0 ? 10 : options.base));
  } else if (v.is_number()) {
    // A double is compared before its fraction is cut.
    if (v.type() == kDouble && (v.as_double() > 2147483647.0 || v.as_double() < -2147483648.0))
      return cannot(
          fmt::format("Conversion would overflow target type in $convert with no onError value: {}",
                      v.as_double()));
    MULTIFORA_ASSIGN_R(n, whole_part(v));
  } else {
    return unsupported(v, kInt32);
  }
  if (n < std::numeric_limits<std::int32_t>::min() || n > std::numeric_limits<std::int32_t>::max())
    return cannot(fmt::format(
        "Conversion would overflow target type in $convert with no onError value: {}", n));
  return Value::of(static_cast<std::int32_t>(n));
}

// Decimal and hexadecimal digits, "inf" and "nan", nothing around them.
Result<double> parse_double(const ValueView& v) {
  const std::string text(v.as_string());
  if (text.empty()) return bad_number(v, "No digits");
  const bool hex = text.find_first_of("xX") != std::string::npos;
  if (hex || std::isspace(static_cast<unsigned char>(text[0])) != 0)
    return bad_number(v, "Did not consume whole string.");
  char* end = nullptr;
  const double d = std::strtod(text.c_str(), &end);
  if (end != text.c_str() + text.size()) return bad_number(v, "Did not consume whole string.");
  if (std::isinf(d) && text.find_first_of("0123456789") != std::string::npos)
    return bad_number(v, "Out of range");
  return d;
}

Result<Value> to_double(const ValueView& v, const Options& options) {
  switch (v.type()) {
    case kBool:
      return Value::of(v.as_bool() ? 1.0 : 0.0);
    case kDate:
      return Value::of(static_cast<double>(v.as_date_ms()));
    case kString: {
      if (options.base != 0) {
        MULTIFORA_ASSIGN_R(const std::int64_t n, parse_whole(v, options.base));
        return Value::of(static_cast<double>(n));
      }
      MULTIFORA_ASSIGN_R(const double d, parse_double(v));
      return Value::of(d);
    }
    case kDecimal128: {
      std::uint32_t flags = 0;
      const double d = v.as_decimal().to_double(&flags);
      if (v.as_decimal().is_finite() && std::isinf(d))
        return cannot(fmt::format(
            "Conversion would overflow target type in $convert with no onError value: {}",
            v.as_decimal().to_string()));
      return Value::of(d);
    }
    default:
      break;
  }
  if (!v.is_number()) return unsupported(v, kDouble);
  return Value::of(v.number_as_double());
}

Result<Value> to_decimal(const ValueView& v, const Options& options) {
  switch (v.type()) {
    case kBool:
      return Value::of(Decimal128(std::int32_t{v.as_bool() ? 1 : 0}));
    case kDate:
      return Value::of(Decimal128(v.as_date_ms()));
    case kString: {
      if (options.base != 0) {
        MULTIFORA_ASSIGN_R(const std::int64_t n, parse_whole(v, options.base));
        return Value::of(Decimal128(n));
      }
      std::uint32_t flags = 0;
      const Result<Decimal128> d = Decimal128::parse(v.as_string(), &flags);
      if (!d) return bad_number(v, "no number");
      if ((flags & (Decimal128::kOverflow | Decimal128::kUnderflow)) != 0)
        return bad_number(v, "Out of range");
      return Value::of(*d);
    }
    default:
      break;
  }
  if (!v.is_number()) return unsupported(v, kDecimal128);
  return Value::of(number_as_decimal(v));
}

// ---------------------------------------------------------------- to other types

Result<Value> to_date(const ValueView& v, const Options&) {
  switch (v.type()) {
    case kDate:
    case kTimestamp:
    case kObjectId: {
      MULTIFORA_ASSIGN_R(const std::int64_t ms, date_of(v));
      return Value::date_ms(ms);
    }
    case kDouble:
    case kInt64:
    case kDecimal128: {
      MULTIFORA_ASSIGN_R(const std::int64_t ms, whole_part(v));
      return Value::date_ms(ms);
    }
    case kString: {
      MULTIFORA_ASSIGN_R(const std::int64_t ms, parse_date(v.as_string(), nullptr));
      return Value::date_ms(ms);
    }
    default:
      return unsupported(v, kDate);
  }
}

Result<Value> to_object_id(const ValueView& v, const Options&) {
  if (v.type() == kObjectId) return Value(v).own();
  if (v.type() != kString) return unsupported(v, kObjectId);
  const std::optional<ObjectId> id = ObjectId::from_hex(v.as_string());
  if (!id)
    return cannot(
        fmt::format("Failed to parse objectId '{}' in $convert with no onError value: Invalid "
                    "string length for parsing to OID, expected 24",
                    v.as_string()));
  return Value::of(*id);
}

// As a C++ stream prints it: six significant digits.
std::string stream_text(double d) {
  if (!std::isfinite(d)) return double_text(d);
  return fmt::format("{:.6g}", d);
}

std::string number_in_base(std::int64_t n, int base) {
  char digits[72];
  const auto [end, error] = std::to_chars(digits, digits + sizeof digits, n, base);
  return ascii_upper({digits, static_cast<std::size_t>(end - digits)});
}

Result<Value> to_text(const ValueView& v, const Options& options) {
  switch (v.type()) {
    case kString:
      return Value(v).own();
    case kBool:
      return Value::string(v.as_bool() ? "true" : "false");
    case kObjectId:
      return Value::string(v.as_object_id().to_hex());
    case kBinData: {
      MULTIFORA_ASSIGN_R(const std::string text, binary_to_text(v, options.format));
      return Value::string(text);
    }
    case kObject:
    case kArray:
      return Value::string(to_extended_json(v));
    case kDate:
      if (v.as_date_ms() < -62'167'219'200'000 || v.as_date_ms() > 253'402'300'799'999)
        return cannot("a date out of the range of years 0 to 9999 has no text");
      break;
    case kRegex:
      return Value::string(fmt::format("/{}/{}", v.regex_pattern(), v.regex_options()));
    case kMinKey:
      return Value::string("MinKey");
    case kMaxKey:
      return Value::string("MaxKey");
    default:
      break;
  }
  if (v.is_number() && options.base != 0) {
    std::int64_t n = 0;
    if (!v.exact_int64(&n)) return cannot("only whole numbers have a text in another base");
    return Value::string(number_in_base(n, options.base));
  }
  if (v.type() == kDouble) return Value::string(stream_text(v.as_double()));
  const std::optional<std::string> text = coerce_to_text(v);
  if (!text) return unsupported(v, kString);
  return Value::string(*text);
}

Result<Value> to_bool(const ValueView& v, const Options&) {
  if (v.is_number()) return Value::of(!number_is_zero(v));
  return Value::of(v.type() != kBool || v.as_bool());
}

Result<Value> to_binary(const ValueView& v, const Options& options) {
  if (v.type() == kBinData) {
    if (v.binary_subtype() != options.subtype)
      return cannot("Conversions between different binData subtypes are not supported");
    return Value(v).own();
  }
  if (v.type() == kString) {
    MULTIFORA_ASSIGN_R(const std::string bytes, text_to_binary(v.as_string(), options.format));
    return Value::binary(bytes, static_cast<std::uint8_t>(options.subtype));
  }
  if (!v.is_number() || v.type() == kDecimal128) return unsupported(v, kBinData);
  Buffer bytes(v.data(), v.size_bytes());  // little-endian
  return Value::binary(bytes, static_cast<std::uint8_t>(options.subtype));
}

// A string that holds Extended JSON, or a value of the type itself.
Result<Value> to_structure(const ValueView& v, BsonType to) {
  if (v.type() == to) return Value(v).own();
  if (v.type() != kString) return unsupported(v, to);
  const Result<OwnedDocument> d = from_extended_json(fmt::format("{{\"v\": {}}}", v.as_string()));
  if (!d) return cannot(fmt::format("Failed to parse JSON in $convert: {}", d.error().message()));
  const ValueView parsed = d->view()["v"];
  if (parsed.type() != to || d->view().count() != 1)
    return cannot("Input doesn't match expected type");
  return Value(parsed).own();
}

Result<Value> convert_to(const ValueView& v, BsonType to, const Options& options) {
  switch (to) {
    case kDouble:
      return to_double(v, options);
    case kString:
      return to_text(v, options);
    case kObjectId:
      return to_object_id(v, options);
    case kBool:
      return to_bool(v, options);
    case kDate:
      return to_date(v, options);
    case kInt32:
      return to_int(v, options);
    case kInt64:
      return to_long(v, options);
    case kDecimal128:
      return to_decimal(v, options);
    case kBinData:
      return to_binary(v, options);
    case kObject:
    case kArray:
      return to_structure(v, to);
    default:
      return unsupported(v, to);
  }
}

// ---------------------------------------------------------------- $convert

enum { kInput, kTo, kOnError, kOnNull, kFormat, kBase, kByteOrder };
constexpr Param kParams[] = {{"input", 9}, {"to", 9}, {"onError"},  {"onNull"},
                             {"format"},   {"base"},  {"byteOrder"}};
constexpr NamedParams kNamed{kParams, 9, 9};

Result<BsonType> target_type(const ValueView& v) {
  if (v.type() == kString) {
    const std::optional<BsonType> type = type_from_name(v.as_string());
    if (!type)
      return fail(ErrorCode::kBadValue, fmt::format("Unknown type name: {}", v.as_string()));
    return *type;
  }
  std::int32_t code = 0;
  if (!v.is_number())
    return fail(ErrorCode::kFailedToParse,
                fmt::format("$convert's 'to' argument must be a string or number, "
                            "but is {}",
                            type_text(v)));
  if (!exact_int32(v, &code))
    return fail(ErrorCode::kFailedToParse, "In $convert, numeric 'to' argument is not an integer");
  if (code == 0 || !is_valid_type(code))
    return fail(ErrorCode::kFailedToParse,
                fmt::format("In $convert, numeric value for 'to' does not correspond "
                            "to a BSON type: {}",
                            code));
  return static_cast<BsonType>(static_cast<std::int8_t>(code));
}

Result<Value> convert(const Node& node, EvalContext& context) {
  MULTIFORA_ASSIGN_R(const Value input, node.eval(kInput, context));
  MULTIFORA_ASSIGN_R(const Value to, node.eval(kTo, context));
  MULTIFORA_ASSIGN_R(const Value format, node.eval(kFormat, context));
  MULTIFORA_ASSIGN_R(const Value base, node.eval(kBase, context));
  Options options;
  ValueView type_value = to.view();
  if (to.type() == kObject) {
    const ValueView subtype = to.view().as_document()["subtype"];
    if (!subtype.missing()) options.subtype = static_cast<int>(subtype.number_as_int64());
    type_value = to.view().as_document()["type"];
  }
  std::optional<BsonType> type;
  if (!type_value.is_nullish()) {
    MULTIFORA_ASSIGN_R(type, target_type(type_value));
  }
  if (format.type() == kString) options.format = format.view().as_string();
  if (!base.nullish()) {
    std::int32_t b = 0;
    if (!base.view().is_number() || !exact_int32(base.view(), &b) ||
        (b != 2 && b != 8 && b != 10 && b != 16))
      return fail_code(3501300, "In $convert, 'base' argument is not one of 2, 8, 10, 16");
    options.base = b;
  }
  if (input.nullish()) return node.has(kOnNull) ? node.eval(kOnNull, context) : Value::null();
  if (!type) return Value::null();
  Result<Value> result = convert_to(input.view(), *type, options);
  if (result || !node.has(kOnError)) return result;
  if (result.error().code() != ErrorCode::kConversionFailure) return result;
  return node.eval(kOnError, context);
}

template <BsonType To>
Result<Value> short_form(Args args, EvalContext&) {
  if (args[0].nullish()) return Value::null();
  Options options;
  if (To == kString && args[0].type() == kBinData) options.format = "auto";
  return convert_to(args[0].view(), To, options);
}

Result<Value> type(Args args, EvalContext&) {
  return Value::string(type_name(args[0].type()));
}
Result<Value> is_numeric(Args args, EvalContext&) {
  return Value::of(args[0].view().is_number());
}

constexpr OperatorRow row(std::string_view name, StrictFunction f) {
  return {.name = name, .min_args = 1, .max_args = 1, .strict = f};
}
constexpr OperatorRow kRows[] = {
    {.name = "$convert", .named = &kNamed, .lazy = convert},
    row("$toInt", short_form<kInt32>),
    row("$toLong", short_form<kInt64>),
    row("$toDouble", short_form<kDouble>),
    row("$toDecimal", short_form<kDecimal128>),
    row("$toString", short_form<kString>),
    row("$toBool", short_form<kBool>),
    row("$toDate", short_form<kDate>),
    row("$toObjectId", short_form<kObjectId>),
    row("$toArray", short_form<kArray>),
    row("$toObject", short_form<kObject>),
    row("$toUUID",
        [](Args args, EvalContext&) -> Result<Value> {
          if (args[0].nullish()) return Value::null();
          return convert_to(args[0].view(), kBinData, {.format = "uuid", .subtype = 4});
        }),
    row("$type", type),
    row("$isNumber", is_numeric),
};

}  // namespace

std::span<const OperatorRow> conversion_operators() {
  return kRows;
}

}  // namespace multifora
