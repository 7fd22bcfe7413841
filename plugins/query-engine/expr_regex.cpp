// $regexMatch, $regexFind, $regexFindAll.
#include <fmt/format.h>

#include "core/base/limits.h"
#include "plugins/query-engine/expression_table.h"
#include "plugins/query-engine/regex.h"
#include "plugins/query-engine/text.h"

namespace multifora {
namespace {

using enum BsonType;

constexpr Param kParams[] = {{"input", 31022}, {"regex", 31023}, {"options"}};
constexpr NamedParams kNamed{kParams, 51103, 31024};

// The last pattern that this thread compiled: as a rule one $regexMatch runs many times.
Result<std::shared_ptr<const Regex>> compile_cached(std::string_view pattern,
                                                    std::string_view options) {
  thread_local std::shared_ptr<const Regex> last;
  if (last && last->pattern() == pattern && last->options() == options) return last;
  MULTIFORA_ASSIGN_R(last, Regex::compile(pattern, options));
  return last;
}

struct Prepared {
  bool null = false;
  std::string text;
  std::shared_ptr<const Regex> regex;
};

Result<Prepared> prepare(const Node& node, EvalContext& context) {
  MULTIFORA_ASSIGN_R(const Value input, node.eval(0, context));
  MULTIFORA_ASSIGN_R(const Value pattern, node.eval(1, context));
  MULTIFORA_ASSIGN_R(const Value options, node.eval(2, context));
  Prepared out;
  if (!input.nullish() && input.type() != kString)
    return fail_code(51104, fmt::format("{} needs 'input' to be of type string", node.name()));
  if (!pattern.nullish() && pattern.type() != kString && pattern.type() != kRegex)
    return fail_code(51105,
                     fmt::format("{} needs 'regex' to be of type string or regex", node.name()));
  if (!options.nullish() && options.type() != kString)
    return fail_code(51106, fmt::format("{} needs 'options' to be of type string", node.name()));
  std::string_view flags = options.nullish() ? std::string_view() : options.view().as_string();
  if (pattern.type() == kRegex && !pattern.view().regex_options().empty()) {
    if (node.has(2) && !options.nullish())
      return fail_code(51107, fmt::format("{}: found regex option(s) specified in both 'regex' and "
                                          "'option' fields",
                                          node.name()));
    flags = pattern.view().regex_options();
  }
  if (input.nullish() || pattern.nullish()) {
    out.null = true;
    return out;
  }
  const std::string_view text =
      pattern.type() == kRegex ? pattern.view().regex_pattern() : pattern.view().as_string();
  if (text.find('\0') != std::string_view::npos)
    return fail_code(
        51109,
        fmt::format("{}: regular expression cannot contain an embedded null byte", node.name()));
  if (flags.find('\0') != std::string_view::npos)
    return fail_code(51110, fmt::format("{}: regular expression options cannot contain an embedded "
                                        "null byte",
                                        node.name()));
  MULTIFORA_TRY_R(context.worked(input.view().size_bytes()));
  Result<std::shared_ptr<const Regex>> compiled = compile_cached(text, flags);
  if (!compiled) {
    if (compiled.error().code() == location_code(51091))
      return fail_code(
          51111, fmt::format("Invalid Regex in {}: {}", node.name(), compiled.error().message()));
    return fail(std::move(compiled).error());
  }
  out.regex = std::move(*compiled);
  out.text = input.view().as_string();
  return out;
}

Result<Value> regex_match(const Node& node, EvalContext& context) {
  MULTIFORA_ASSIGN_R(const Prepared p, prepare(node, context));
  if (p.null) return Value::of(false);
  MULTIFORA_ASSIGN_R(const bool found, p.regex->matches(p.text));
  return Value::of(found);
}

void append_match(DocumentBuilder& out, std::string_view text, std::size_t index_cp,
                  const std::vector<Regex::Range>& groups) {
  out.append("match", text.substr(groups[0].begin, groups[0].end - groups[0].begin));
  out.append("idx", static_cast<std::int32_t>(index_cp));
  ArrayBuilder captures = out.array("captures");
  for (std::size_t i = 1; i < groups.size(); ++i) {
    if (groups[i].begin == std::string_view::npos)
      captures.append_null();
    else
      captures.append(text.substr(groups[i].begin, groups[i].end - groups[i].begin));
  }
}

Result<Value> regex_find(const Node& node, EvalContext& context) {
  MULTIFORA_ASSIGN_R(const Prepared p, prepare(node, context));
  if (p.null) return Value::null();
  std::vector<Regex::Range> groups;
  MULTIFORA_ASSIGN_R(const bool found, p.regex->find(p.text, 0, &groups));
  if (!found) return Value::null();
  DocumentBuilder out;
  append_match(out, p.text, count_code_points(std::string_view(p.text).substr(0, groups[0].begin)),
               groups);
  return Value::object(std::move(out).finish());
}

Result<Value> regex_find_all(const Node& node, EvalContext& context) {
  MULTIFORA_ASSIGN_R(const Prepared p, prepare(node, context));
  if (p.null) return Value::empty_array();
  const std::string_view text = p.text;
  ArrayBuilder out;
  std::size_t from = 0;
  std::size_t counted = 0;  // bytes whose code points are in index_cp
  std::size_t index_cp = 0;
  std::vector<Regex::Range> groups;
  while (from <= text.size()) {
    MULTIFORA_TRY_R(context.worked(text.size() - from));
    MULTIFORA_ASSIGN_R(const bool found, p.regex->find(text, from, &groups));
    if (!found) break;
    index_cp += count_code_points(text.substr(counted, groups[0].begin - counted));
    counted = groups[0].begin;
    DocumentBuilder match = out.object();
    append_match(match, text, index_cp, groups);
    match.close();
    if (out.size_bytes() > limits::kExpressionValueSizeMax)
      return fail_code(51151,
                       fmt::format("{}: the size of buffer to store output exceeded the 64MB limit",
                                   node.name()));
    from = groups[0].end;
    if (groups[0].end == groups[0].begin) {  // step over a character so as not to find it again
      if (from >= text.size()) break;
      from += std::min(utf8_length(text[from]), text.size() - from);
    }
  }
  return Value::array(std::move(out).finish());
}

constexpr OperatorRow kRows[] = {
    {.name = "$regexFind", .named = &kNamed, .lazy = regex_find},
    {.name = "$regexFindAll", .named = &kNamed, .lazy = regex_find_all},
    {.name = "$regexMatch", .named = &kNamed, .lazy = regex_match},
};

}  // namespace

std::span<const OperatorRow> regex_operators() {
  return kRows;
}

}  // namespace multifora
