// Regular expressions with MongoDB's options, over PCRE2. Shared by the matcher ($regex), by
// $jsonSchema and by the $regexFind family of expressions.
//
// A Regex is immutable; any thread may match with it. Work a match may do is limited, so that no
// pattern stops the server: past the limit matching fails with Location51156. The engine counts its
// steps; patterns with assertions and back references, which look without steps, are timed with long
// texts. Nested repetitions of single characters are not: over a text of 1 MB they may take minutes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"

namespace multifora {

class Regex {
 public:
  // Options: i m s x u, any order (u changes nothing: patterns are always UTF-8). Location51108 for
  // another flag, Location51091 for a pattern that does not compile, BadValue for a NUL inside,
  // ExceededMemoryLimit while all that are alive in the process take too much.
  static Result<std::shared_ptr<const Regex>> compile(std::string_view pattern,
                                                      std::string_view options);
  ~Regex();
  Regex(const Regex&) = delete;
  Regex& operator=(const Regex&) = delete;

  const std::string& pattern() const { return pattern_; }
  const std::string& options() const { return options_; }

  // Does it match anywhere in `text`?
  Result<bool> matches(std::string_view text) const;

  // Byte range of a group; begin is npos where the group took no part.
  struct Range {
    std::size_t begin = std::string_view::npos;
    std::size_t end = std::string_view::npos;
  };
  // The first match at or after byte `from` (a character boundary). groups[0] is the whole match,
  // then each capture group.
  Result<bool> find(std::string_view text, std::size_t from, std::vector<Range>* groups) const;

  // Text that every match starts with, where the pattern is ^literal... without options that
  // change what that means; empty otherwise. For index bounds.
  const std::string& prefix() const { return prefix_; }
  // Every string that starts with prefix() matches (and prefix() is not empty).
  bool prefix_only() const { return shape_ == Shape::kPrefix; }

 private:
  enum class Shape { kGeneral, kLiteral, kPrefix };
  Regex() = default;
  void analyse();

  std::string pattern_;
  std::string options_;
  std::string literal_;  // kLiteral: what to look for
  std::string prefix_;
  Shape shape_ = Shape::kGeneral;
  std::size_t capture_count_ = 0;
  void* code_ = nullptr;  // pcre2_code
  // The same with callouts, for long texts; made when it is first needed.
  void* timed_code() const;
  mutable std::size_t bytes_ = 0;  // of both
  std::uint32_t flags_ = 0;
  mutable std::once_flag timed_once_;
  mutable void* timed_ = nullptr;
};

}  // namespace multifora
