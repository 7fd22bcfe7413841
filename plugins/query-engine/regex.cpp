#include "plugins/query-engine/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <atomic>
#include <chrono>

#include "core/base/limits.h"
#include "plugins/query-engine/text.h"

namespace multifora {

namespace {

pcre2_code* code_of(void* code) { return static_cast<pcre2_code*>(code); }

// Compiled patterns of the process: past the first limit they are not made into machine code, past
// the second there are no more.
constexpr std::size_t kMachineCodeBytesMax = 64u << 20;
constexpr std::size_t kCompiledBytesMax = 512u << 20;
std::atomic<std::size_t> compiled_bytes{0};

// Inside assertions and back references the engine looks at text without counting steps. A pattern with
// some is matched with a longer text than this under a watch, which lets the match take only so long,
// whatever the number of its steps. Others are not: the watch keeps the library from seeing at once
// that a text lacks something.
constexpr std::size_t kLongText = 64 * 1024;
constexpr std::uint32_t kWatchedSteps = 1'000'000'000;
constexpr std::chrono::seconds kMatchTimeMax{2};

// A pattern as the library understands it.
std::string text_of(std::string_view pattern) {
  std::string text(pattern);
  // The former library's name of the same thing.
  if (text.starts_with("(*UTF8)")) text.replace(0, 7, "(*UTF)");
  return text;
}

std::size_t compiled_size(const pcre2_code* code) {
  std::size_t interpreted = 0;
  std::size_t machine = 0;
  pcre2_pattern_info(code, PCRE2_INFO_SIZE, &interpreted);
  pcre2_pattern_info(code, PCRE2_INFO_JITSIZE, &machine);
  return interpreted + machine;
}

bool may_look_without_steps(std::string_view pattern) {
  for (const char* sign : {"(?=", "(?!", "(?<", "(?P", "(?'", "(*", "\\g", "\\k"})
    if (pattern.contains(sign)) return true;
  for (char digit = '1'; digit <= '9'; ++digit)
    if (pattern.contains(std::string{'\\', digit})) return true;
  return false;
}

// A match's watch: called before each item of the pattern.
struct Watch {
  std::chrono::steady_clock::time_point end;
  std::uint32_t calls = 0;
};
int look_at_watch(pcre2_callout_block*, void* data) {
  Watch& watch = *static_cast<Watch*>(data);
  if ((++watch.calls & 255) != 0) return 0;
  return std::chrono::steady_clock::now() < watch.end ? 0 : PCRE2_ERROR_MATCHLIMIT;
}

std::string error_text(int code) {
  PCRE2_UCHAR text[256];
  const int size = pcre2_get_error_message(code, text, sizeof text);
  return size < 0 ? "unknown error"
                  : std::string(reinterpret_cast<const char*>(text),
                                static_cast<std::size_t>(size));
}

Result<std::uint32_t> pcre_options(std::string_view options) {
  // Invalid UTF-8 never matches, rather than being undefined behaviour.
  std::uint32_t flags = PCRE2_UTF | PCRE2_MATCH_INVALID_UTF;
  for (const char c : options) {
    switch (c) {
      case 'i': flags |= PCRE2_CASELESS; break;
      case 'm': flags |= PCRE2_MULTILINE; break;
      case 's': flags |= PCRE2_DOTALL; break;
      case 'x': flags |= PCRE2_EXTENDED; break;
      case 'u': break;
      default:
        return fail(location_code(51108),
                    fmt::format("invalid flag in regex options: {}", options));
    }
  }
  return flags;
}

// What a thread needs to match; grows with the largest pattern it has met.
struct ThreadMatcher {
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_match_data* data = nullptr;
  std::uint32_t pairs = 0;

  ThreadMatcher() {
    pcre2_set_match_limit(context, limits::kRegexMatchSteps);
    pcre2_set_depth_limit(context, limits::kRegexMatchDepth);
    pcre2_set_heap_limit(context, limits::kRegexMatchMemoryKib);
  }
  ~ThreadMatcher() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
  }
  void reserve(std::uint32_t wanted) {
    if (wanted <= pairs) return;
    pcre2_match_data_free(data);
    pairs = wanted < 8 ? 8 : wanted;
    data = pcre2_match_data_create(pairs, nullptr);
  }
};

ThreadMatcher& thread_matcher(std::size_t groups) {
  thread_local ThreadMatcher matcher;
  matcher.reserve(static_cast<std::uint32_t>(groups));
  return matcher;
}

int run(const pcre2_code* code, std::string_view text, std::size_t from, ThreadMatcher& matcher) {
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data() == nullptr ? "" : text.data());
  int rc = pcre2_match(code, subject, text.size(), from, 0, matcher.data, matcher.context);
  // The machine code's stack is small; the interpreter's heap is limited above.
  if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
    rc = pcre2_match(code, subject, text.size(), from, PCRE2_NO_JIT, matcher.data,
                     matcher.context);
  return rc;
}

bool is_special(char c) { return std::string_view("\\^$.[]|()?*+{}").contains(c); }
bool is_quantifier(char c) { return std::string_view("?*+{").contains(c); }

// Reads the literal text from `at` on; stops before the first thing that is not literal.
std::string read_literal(std::string_view pattern, std::size_t& at) {
  std::string text;
  while (at < pattern.size()) {
    std::size_t size = 1;
    char c = pattern[at];
    if (c == '\\' && at + 1 < pattern.size() && is_special(pattern[at + 1])) {
      c = pattern[at + 1];
      size = 2;
    } else if (is_special(c)) {
      break;
    }
    // A quantifier belongs to the character before it (all bytes of it).
    if (at + size < pattern.size() && is_quantifier(pattern[at + size])) {
      if (static_cast<unsigned char>(c) >= 0x80)
        while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xc0) == 0x80)
          text.pop_back(), --at;
      if (static_cast<unsigned char>(c) >= 0x80 && !text.empty()) text.pop_back(), --at;
      break;
    }
    text.push_back(c);
    at += size;
  }
  return text;
}

}  // namespace

void Regex::analyse() {
  const bool only_harmless = options_.find_first_not_of("us") == std::string::npos;
  if (!only_harmless) return;
  const std::string_view pattern = pattern_;
  // Top-level alternatives would make the prefix wrong; be content with patterns without any.
  if (pattern.contains('|') || pattern.contains("\\Q")) return;
  if (pattern.starts_with('^')) {
    std::size_t at = 1;
    prefix_ = read_literal(pattern, at);
    const std::string_view rest = pattern.substr(at);
    const bool any_rest = rest.empty() || rest == ".*";
    if (any_rest && !prefix_.empty()) shape_ = Shape::kPrefix;
    return;
  }
  std::size_t at = 0;
  literal_ = read_literal(pattern, at);
  if (at == pattern.size() && !literal_.empty()) shape_ = Shape::kLiteral;
}

Result<std::shared_ptr<const Regex>> Regex::compile(std::string_view pattern,
                                                    std::string_view options) {
  if (pattern.contains('\0'))
    return fail(ErrorCode::kBadValue,
                "Regular expression cannot contain an embedded null byte");
  if (options.contains('\0'))
    return fail(ErrorCode::kBadValue,
                "Regular expression options string cannot contain an embedded null byte");
  if (pattern.size() > limits::kRegexPatternSizeMax)
    return fail(location_code(51091), "Regular expression is invalid: pattern is too long");
  MULTIFORA_ASSIGN_R(const std::uint32_t flags, pcre_options(options));
  const std::string text = text_of(pattern);
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), flags,
                                   &error, &offset, nullptr);
  if (code == nullptr)
    return fail(location_code(51091),
                fmt::format("Regular expression is invalid: {}", error_text(error)));
  std::shared_ptr<Regex> regex(new Regex());
  regex->code_ = code;
  regex->flags_ = flags;
  regex->pattern_ = pattern;
  regex->options_ = options;
  std::uint32_t captures = 0;
  pcre2_pattern_info(code, PCRE2_INFO_CAPTURECOUNT, &captures);
  regex->capture_count_ = captures;
  regex->analyse();
  if (regex->shape_ == Shape::kGeneral && compiled_bytes < kMachineCodeBytesMax)
    pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
  regex->bytes_ = compiled_size(code);
  if ((compiled_bytes += regex->bytes_) > kCompiledBytesMax)
    return fail(ErrorCode::kExceededMemoryLimit,
                "the regular expressions of all commands together take too much memory");
  return regex;
}

Regex::~Regex() {
  compiled_bytes -= bytes_;
  pcre2_code_free(code_of(code_));
  pcre2_code_free(code_of(timed_));
}

void* Regex::timed_code() const {
  std::call_once(timed_once_, [&] {
    std::string text = text_of(pattern_);
    int error = 0;
    PCRE2_SIZE offset = 0;
    timed_ = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                           flags_ | PCRE2_AUTO_CALLOUT, &error, &offset, nullptr);
    if (timed_ != nullptr && compiled_bytes < kMachineCodeBytesMax)
      pcre2_jit_compile(code_of(timed_), PCRE2_JIT_COMPLETE);
    if (timed_ == nullptr) return;
    const std::size_t size = compiled_size(code_of(timed_));
    bytes_ += size;
    compiled_bytes += size;
  });
  // Callouts may make a pattern too large that was not without them.
  return timed_ != nullptr ? timed_ : code_;
}

Result<bool> Regex::matches(std::string_view text) const {
  if (shape_ == Shape::kLiteral) return find_text(text, literal_) != std::string_view::npos;
  if (shape_ == Shape::kPrefix) return text.starts_with(prefix_);
  return find(text, 0, nullptr);
}

Result<bool> Regex::find(std::string_view text, std::size_t from,
                         std::vector<Range>* groups) const {
  ThreadMatcher& matcher = thread_matcher(capture_count_ + 1);
  const bool watched = text.size() - from > kLongText && may_look_without_steps(pattern_);
  Watch watch{.end = std::chrono::steady_clock::now() + kMatchTimeMax};
  if (watched) {
    pcre2_set_match_limit(matcher.context, kWatchedSteps);
    pcre2_set_callout(matcher.context, look_at_watch, &watch);
  }
  const int rc = run(code_of(watched ? timed_code() : code_), text, from, matcher);
  if (watched) {
    pcre2_set_match_limit(matcher.context, limits::kRegexMatchSteps);
    pcre2_set_callout(matcher.context, nullptr, nullptr);
  }
  if (rc == PCRE2_ERROR_NOMATCH) return false;
  if (rc < 0)
    return fail(location_code(51156),
                fmt::format("Error occurred while executing the regular expression. "
                            "Result code: {}",
                            rc));
  if (groups == nullptr) return true;
  const PCRE2_SIZE* ranges = pcre2_get_ovector_pointer(matcher.data);
  groups->assign(capture_count_ + 1, Range());
  for (std::size_t i = 0; i < static_cast<std::size_t>(rc) && i < groups->size(); ++i) {
    if (ranges[2 * i] == PCRE2_UNSET) continue;
    (*groups)[i] = {ranges[2 * i], ranges[2 * i + 1]};
  }
  return true;
}

}  // namespace multifora
