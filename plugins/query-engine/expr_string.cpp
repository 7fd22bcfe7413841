// Strings: $concat, $toLower, $toUpper, $strcasecmp, $substr*, $strLen*, $indexOfBytes, $indexOfCP,
// $split, $trim, $ltrim, $rtrim, $replaceOne, $replaceAll.
#include <algorithm>
#include <limits>
#include <unordered_set>

#include <fmt/format.h>

#include "core/base/limits.h"
#include "plugins/query-engine/expression_table.h"
#include "plugins/query-engine/numeric.h"
#include "plugins/query-engine/text.h"

namespace multifora {
namespace {

using enum BsonType;

Result<std::string> text_of(const ValueView& v) {
  std::optional<std::string> text = coerce_to_text(v);
  if (!text)
    return fail_code(16007, fmt::format("can't convert from BSON type {} to String", type_text(v)));
  return std::move(*text);
}

Result<Value> concat(Args args, EvalContext&) {
  std::string out;
  for (const Value& v : args) {
    if (v.nullish()) return Value::null();
    if (v.type() != kString)
      return fail_code(16702,
                       fmt::format("$concat only supports strings, not {}", type_text(v.view())));
    if (out.size() + v.view().size_bytes() > limits::kExpressionValueSizeMax)
      return fail(ErrorCode::kBSONObjectTooLarge, "the result of $concat is too large");
    out += v.view().as_string();
  }
  return Value::string(out);
}

Result<Value> to_lower(Args args, EvalContext&) {
  MULTIFORA_ASSIGN_R(const std::string text, text_of(args[0].view()));
  return Value::string(ascii_lower(text));
}
Result<Value> to_upper(Args args, EvalContext&) {
  MULTIFORA_ASSIGN_R(const std::string text, text_of(args[0].view()));
  return Value::string(ascii_upper(text));
}
Result<Value> strcasecmp(Args args, EvalContext&) {
  MULTIFORA_ASSIGN_R(const std::string a, text_of(args[0].view()));
  MULTIFORA_ASSIGN_R(const std::string b, text_of(args[1].view()));
  const int c = ascii_upper(a).compare(ascii_upper(b));
  return Value::of(std::int32_t{c < 0 ? -1 : c > 0 ? 1 : 0});
}

// ---------------------------------------------------------------- substrings and lengths

Result<Value> substr_bytes(Args args, EvalContext&) {
  MULTIFORA_ASSIGN_R(const std::string text, text_of(args[0].view()));
  const ValueView from_view = args[1].view();
  const ValueView length_view = args[2].view();
  if (!from_view.is_number())
    return fail_code(16034,
                     fmt::format("$substrBytes: starting index must be a numeric type (is BSON "
                                 "type {})",
                                 type_text(from_view)));
  if (!length_view.is_number())
    return fail_code(16035,
                     fmt::format("$substrBytes: length must be a numeric type (is BSON type {})",
                                 type_text(length_view)));
  const std::int64_t from = from_view.number_as_int64();
  const std::int64_t length = length_view.number_as_int64();
  if (from < 0)
    return fail_code(
        50752, fmt::format("$substrBytes: starting index must be non-negative (got: {})", from));
  const auto size = static_cast<std::int64_t>(text.size());
  if (from >= size) {
    return Value::string("");
  }
  const std::int64_t to = length < 0 || length > size - from ? size : from + length;
  if (is_utf8_continuation(text[static_cast<std::size_t>(from)]))
    return fail_code(28656,
                     "$substrBytes:  Invalid range, starting index is a UTF-8 continuation byte.");
  if (to < size && is_utf8_continuation(text[static_cast<std::size_t>(to)]))
    return fail_code(28657,
                     "$substrBytes:  Invalid range, ending index is in the middle of a UTF-8 "
                     "character.");
  return Value::string(std::string_view(text).substr(static_cast<std::size_t>(from),
                                                     static_cast<std::size_t>(to - from)));
}

Result<std::int32_t> cp_argument(std::string_view which, const ValueView& v, int type_code) {
  std::int32_t i = 0;
  if (!v.is_number())
    return fail_code(
        type_code,
        fmt::format("$substrCP: {} must be a numeric type (is BSON type {})", which, type_text(v)));
  if (!exact_int32(v, &i))
    return fail_code(type_code + 1, fmt::format("$substrCP: {} cannot be represented as a 32-bit "
                                                "integral value: {}",
                                                which, value_text(v)));
  return i;
}

Result<Value> substr_cp(Args args, EvalContext&) {
  MULTIFORA_ASSIGN_R(const std::string text, text_of(args[0].view()));
  MULTIFORA_ASSIGN_R(const std::int32_t from, cp_argument("starting index", args[1].view(), 34450));
  MULTIFORA_ASSIGN_R(const std::int32_t length, cp_argument("length", args[2].view(), 34452));
  if (length < 0) return fail_code(34454, "$substrCP: length must be a nonnegative integer.");
  if (from < 0)
    return fail_code(34455, "$substrCP: the starting index must be nonnegative integer.");
  const std::string_view rest =
      std::string_view(text).substr(code_point_offset(text, static_cast<std::size_t>(from)));
  return Value::string(rest.substr(0, code_point_offset(rest, static_cast<std::size_t>(length))));
}

Result<Value> str_len_bytes(Args args, EvalContext&) {
  if (args[0].type() != kString)
    return fail_code(34473, fmt::format("$strLenBytes requires a string argument, found: {}",
                                        type_text(args[0].view())));
  return Value::of(static_cast<std::int32_t>(args[0].view().as_string().size()));
}
Result<Value> str_len_cp(Args args, EvalContext&) {
  if (args[0].type() != kString)
    return fail_code(34471, fmt::format("$strLenCP requires a string argument, found: {}",
                                        type_text(args[0].view())));
  return Value::of(static_cast<std::int32_t>(count_code_points(args[0].view().as_string())));
}

// ---------------------------------------------------------------- $indexOfBytes, $indexOfCP

Result<std::int32_t> index_argument(std::string_view op, std::string_view which,
                                    const ValueView& v) {
  std::int32_t i = 0;
  if (!v.is_number() || !exact_int32(v, &i))
    return fail_code(40096,
                     fmt::format("{} requires an integral {} index, found a value of type: {}, "
                                 "with value: {}",
                                 op, which, type_text(v), value_text(v)));
  if (i < 0)
    return fail_code(40097,
                     fmt::format("{} requires a nonnegative {} index, found: {}", op, which, i));
  return i;
}

struct SearchRange {
  std::size_t from = 0;
  std::size_t to = std::numeric_limits<std::size_t>::max();
};
Result<SearchRange> search_range(std::string_view op, Args args) {
  SearchRange range;
  if (args.size() > 2) {
    MULTIFORA_ASSIGN_R(const std::int32_t i, index_argument(op, "starting", args[2].view()));
    range.from = static_cast<std::size_t>(i);
  }
  if (args.size() > 3) {
    MULTIFORA_ASSIGN_R(const std::int32_t i, index_argument(op, "ending", args[3].view()));
    range.to = static_cast<std::size_t>(i);
  }
  return range;
}

Status check_search(std::string_view op, Args args, int code) {
  if (args[0].type() != kString)
    return {location_code(code),
            fmt::format("{} requires a string as the first argument, found: {}", op,
                        type_text(args[0].view()))};
  if (args[1].type() != kString)
    return {location_code(code + 1),
            fmt::format("{} requires a string as the second argument, found: {}", op,
                        type_text(args[1].view()))};
  return {};
}

Result<Value> index_of_bytes(Args args, EvalContext&) {
  if (args[0].nullish()) return Value::null();
  MULTIFORA_TRY_R(check_search("$indexOfBytes", args, 40091));
  MULTIFORA_ASSIGN_R(const SearchRange range, search_range("$indexOfBytes", args));
  const std::string_view text = args[0].view().as_string();
  const std::string_view token = args[1].view().as_string();
  const std::size_t to = std::min(range.to, text.size());
  if (range.from > text.size() || to < range.from) return Value::of(std::int32_t{-1});
  const std::size_t at = find_text(text.substr(0, to), token, range.from);
  return Value::of(at == std::string_view::npos ? std::int32_t{-1} : static_cast<std::int32_t>(at));
}

Result<Value> index_of_cp(Args args, EvalContext&) {
  if (args[0].nullish()) return Value::null();
  MULTIFORA_TRY_R(check_search("$indexOfCP", args, 40093));
  MULTIFORA_ASSIGN_R(const SearchRange range, search_range("$indexOfCP", args));
  const std::string_view text = args[0].view().as_string();
  const std::string_view token = args[1].view().as_string();
  const std::size_t length = count_code_points(text);
  if (range.from > length || range.to < range.from) return Value::of(std::int32_t{-1});
  const std::size_t from = code_point_offset(text, range.from);
  const std::size_t to = code_point_offset(text, std::min(range.to, length));
  const std::size_t at = find_text(text.substr(0, to), token, from);
  if (at == std::string_view::npos) return Value::of(std::int32_t{-1});
  return Value::of(static_cast<std::int32_t>(count_code_points(text.substr(0, at))));
}

// ---------------------------------------------------------------- $split, $trim, $replace*

Result<Value> split(Args args, EvalContext&) {
  if (args[0].nullish() || args[1].nullish()) return Value::null();
  if (args[0].type() != kString)
    return fail_code(40085,
                     fmt::format("$split requires an expression that evaluates to a string as a "
                                 "first argument, found: {}",
                                 type_text(args[0].view())));
  if (args[1].type() != kString)
    return fail_code(40086,
                     fmt::format("$split requires an expression that evaluates to a string as a "
                                 "second argument, found: {}",
                                 type_text(args[1].view())));
  const std::string_view text = args[0].view().as_string();
  const std::string_view separator = args[1].view().as_string();
  if (separator.empty()) return fail_code(40087, "$split requires a non-empty separator");
  ArrayBuilder out;
  for (std::size_t from = 0;;) {
    const std::size_t at = find_text(text, separator, from);
    if (out.size_bytes() > limits::kExpressionValueSizeMax)
      return fail(ErrorCode::kBSONObjectTooLarge, "the result of $split is too large");
    if (at == std::string_view::npos) {
      out.append(text.substr(from));
      break;
    }
    out.append(text.substr(from, at - from));
    from = at + separator.size();
  }
  return Value::array(std::move(out).finish());
}

constexpr Param kTrimParams[] = {{"input", 50695}, {"chars"}};
constexpr NamedParams kTrimNamed{kTrimParams, 50696, 50694};
constexpr std::string_view kWhitespace[] = {std::string_view("\0", 1),
                                            " ",
                                            "\t",
                                            "\n",
                                            "\v",
                                            "\f",
                                            "\r",
                                            "\u00A0",
                                            "\u1680",
                                            "\u2000",
                                            "\u2001",
                                            "\u2002",
                                            "\u2003",
                                            "\u2004",
                                            "\u2005",
                                            "\u2006",
                                            "\u2007",
                                            "\u2008",
                                            "\u2009",
                                            "\u200A"};

using Characters = std::unordered_set<std::string_view>;

Characters characters(std::string_view text) {
  Characters out;
  while (!text.empty()) {
    const std::size_t n = code_point_offset(text, 1);
    out.insert(text.substr(0, n));
    text.remove_prefix(n);
  }
  return out;
}

std::string_view last_character(std::string_view text) {
  std::size_t at = text.size() - 1;
  while (at > 0 && is_utf8_continuation(text[at])) --at;
  return text.substr(at);
}

Result<Value> trim_sides(const Node& node, EvalContext& context, bool left, bool right) {
  MULTIFORA_ASSIGN_R(const Value input, node.eval(0, context));
  MULTIFORA_ASSIGN_R(const Value chars, node.eval(1, context));
  if (input.nullish()) return Value::null();
  if (input.type() != kString)
    return fail_code(50699,
                     fmt::format("{} requires its input to be a string, got {} (of type {}) "
                                 "instead.",
                                 node.name(), value_text(input.view()), type_text(input.view())));
  Characters set(std::begin(kWhitespace), std::end(kWhitespace));
  if (node.has(1)) {
    if (chars.nullish()) return Value::null();
    if (chars.type() != kString)
      return fail_code(50700,
                       fmt::format("{} requires 'chars' to be a string, got {} (of type {}) "
                                   "instead.",
                                   node.name(), value_text(chars.view()), type_text(chars.view())));
    set = characters(chars.view().as_string());
  }
  std::string_view text = input.view().as_string();
  MULTIFORA_TRY_R(context.worked(text.size()));
  while (left && !text.empty()) {
    const std::string_view c = text.substr(0, code_point_offset(text, 1));
    if (!set.contains(c)) break;
    text.remove_prefix(c.size());
  }
  while (right && !text.empty()) {
    const std::string_view c = last_character(text);
    if (!set.contains(c)) break;
    text.remove_suffix(c.size());
  }
  return Value::string(text);
}
Result<Value> trim(const Node& n, EvalContext& c) {
  return trim_sides(n, c, true, true);
}
Result<Value> ltrim(const Node& n, EvalContext& c) {
  return trim_sides(n, c, true, false);
}
Result<Value> rtrim(const Node& n, EvalContext& c) {
  return trim_sides(n, c, false, true);
}

constexpr Param kReplaceParams[] = {{"input", 51749}, {"find", 51748}, {"replacement", 51747}};
constexpr NamedParams kReplaceNamed{kReplaceParams, 51751, 51750};
constexpr std::string_view kReplaceNames[] = {"input", "find", "replacement"};

Result<Value> replace(std::string_view op, Args args, bool all) {
  bool null = false;
  for (std::size_t i = 0; i < 3; ++i) {
    if (args[i].nullish()) {
      null = true;
    } else if (args[i].type() != kString) {
      return fail_code(51746 - static_cast<int>(i),
                       fmt::format("{} requires that '{}' be a string, found: {}", op,
                                   kReplaceNames[i], value_text(args[i].view())));
    }
  }
  if (null) return Value::null();
  const std::string_view text = args[0].view().as_string();
  const std::string_view find = args[1].view().as_string();
  const std::string_view replacement = args[2].view().as_string();
  std::string out;
  std::size_t from = 0;
  for (std::size_t at = find_text(text, find); at != std::string_view::npos;
       at = find_text(text, find, from)) {
    out += text.substr(from, at - from);
    out += replacement;
    from = at + find.size();
    if (out.size() > limits::kExpressionValueSizeMax)
      return fail(ErrorCode::kBSONObjectTooLarge, fmt::format("the result of {} is too large", op));
    if (!all) break;
    if (find.empty()) {  // an empty string is found before each byte and at the end
      if (from >= text.size()) break;
      const std::size_t n = std::min(utf8_length(text[from]), text.size() - from);
      out += text.substr(from, n);
      from += n;
    }
  }
  out += text.substr(from);
  return Value::string(out);
}
Result<Value> replace_one(Args args, EvalContext&) {
  return replace("$replaceOne", args, false);
}
Result<Value> replace_all(Args args, EvalContext&) {
  return replace("$replaceAll", args, true);
}

constexpr OperatorRow kRows[] = {
    {.name = "$concat", .strict = concat},
    {.name = "$indexOfBytes", .min_args = 2, .max_args = 4, .strict = index_of_bytes},
    {.name = "$indexOfCP", .min_args = 2, .max_args = 4, .strict = index_of_cp},
    {.name = "$ltrim", .named = &kTrimNamed, .lazy = ltrim},
    {.name = "$replaceAll", .named = &kReplaceNamed, .strict = replace_all},
    {.name = "$replaceOne", .named = &kReplaceNamed, .strict = replace_one},
    {.name = "$rtrim", .named = &kTrimNamed, .lazy = rtrim},
    {.name = "$split", .min_args = 2, .max_args = 2, .strict = split},
    {.name = "$strLenBytes", .min_args = 1, .max_args = 1, .strict = str_len_bytes},
    {.name = "$strLenCP", .min_args = 1, .max_args = 1, .strict = str_len_cp},
    {.name = "$strcasecmp", .min_args = 2, .max_args = 2, .strict = strcasecmp},
    {.name = "$substr", .min_args = 3, .max_args = 3, .strict = substr_bytes},
    {.name = "$substrBytes", .min_args = 3, .max_args = 3, .strict = substr_bytes},
    {.name = "$substrCP", .min_args = 3, .max_args = 3, .strict = substr_cp},
    {.name = "$toLower", .min_args = 1, .max_args = 1, .strict = to_lower},
    {.name = "$toUpper", .min_args = 1, .max_args = 1, .strict = to_upper},
    {.name = "$trim", .named = &kTrimNamed, .lazy = trim},
};

}  // namespace

std::span<const OperatorRow> string_operators() {
  return kRows;
}

}  // namespace multifora
