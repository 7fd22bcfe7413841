#include "plugins/query-engine/regex.h"

#include <doctest/doctest.h>

#include <chrono>
#include <vector>

using namespace multifora;

namespace {

std::shared_ptr<const Regex> compile(std::string_view pattern, std::string_view options = "") {
  auto regex = Regex::compile(pattern, options);
  REQUIRE_MESSAGE(regex.has_value(), regex.error().message());
  return *regex;
}
bool matches(std::string_view pattern, std::string_view options, std::string_view text) {
  return compile(pattern, options)->matches(text).value();
}

}  // namespace

TEST_CASE("options") {
  CHECK(matches("ABC", "i", "xabcx"));
  CHECK_FALSE(matches("^b", "", "a\nb"));
  CHECK(matches("^b", "m", "a\nb"));
  CHECK_FALSE(matches("a.b", "", "a\nb"));
  CHECK(matches("a.b", "s", "a\nb"));
  CHECK(matches("a b # c", "x", "ab"));
  CHECK(matches("a", "u", "a"));
  CHECK(Regex::compile("a", "g").error().code() == location_code(51108));
  CHECK(Regex::compile("(", "").error().code() == location_code(51091));
  CHECK(Regex::compile(std::string_view("a\0b", 3), "").error().code() == ErrorCode::kBadValue);
}

TEST_CASE("patterns are UTF-8") {
  CHECK(matches("^.$", "", "\u00e9"));
  CHECK(matches("\u00c9", "i", "\u00e9"));
  CHECK_FALSE(matches("^.$", "", "\xff"));
}

TEST_CASE("shapes that need no engine say the same") {
  CHECK(matches("a\\.c", "", "xa.cx"));
  CHECK_FALSE(matches("a\\.c", "", "abc"));
  CHECK(matches("^ab", "", "abc"));
  CHECK_FALSE(matches("^ab", "", "cab"));
  CHECK(matches("ab*", "", "a"));
  CHECK(matches("^\u00e9?x", "", "x"));
  CHECK(matches("a|b", "", "b"));
}

TEST_CASE("the prefix, for bounds") {
  CHECK(compile("^abc")->prefix() == "abc");
  CHECK(compile("^abc")->prefix_only());
  CHECK(compile("^abc.*")->prefix_only());
  CHECK(compile("^abc.*d")->prefix() == "abc");
  CHECK_FALSE(compile("^abc.*d")->prefix_only());
  CHECK(compile("^abc*")->prefix() == "ab");
  CHECK(compile("^ab\u00e9*")->prefix() == "ab");
  CHECK(compile("^abc|d")->prefix().empty());
  CHECK(compile("^abc", "i")->prefix().empty());
  CHECK(compile("abc")->prefix().empty());
}

TEST_CASE("groups") {
  const auto regex = compile("(a)(x)?(b)");
  std::vector<Regex::Range> groups;
  REQUIRE(regex->find("..ab", 0, &groups).value());
  REQUIRE(groups.size() == 4);
  CHECK(groups[0].begin == 2);
  CHECK(groups[0].end == 4);
  CHECK(groups[2].begin == std::string_view::npos);
  CHECK(groups[3].begin == 3);
  CHECK_FALSE(regex->find("..ab", 3, &groups).value());
}

TEST_CASE("a match past its limits fails") {
  const auto regex = compile("^(a+)+$");
  const auto result = regex->matches(std::string(2000, 'a') + "b");
  if (!result) CHECK(result.error().code() == location_code(51156));
  else CHECK_FALSE(*result);
}

TEST_CASE("a match with a long text takes bounded time") {
  const std::string text(1'000'000, 'a');
  const auto start = std::chrono::steady_clock::now();
  // The first looks at all of the text from each of its places; the second does so within one try.
  for (const char* pattern : {"(?<=a{100})(?=(a+))\\1b", "^(?:(?=(a+))a)*b"}) {
    const auto found = compile(pattern)->matches(text);
    CHECK((!found.has_value() && found.error().code() == location_code(51156)));
  }
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
  CHECK(compile("a+b|c$")->matches(text + "bc").value());
  for (const char* pattern : {"b.*c", "a*b", "a+b", "[a-z]+x", "^.*zzz", "[^<]*<q", "\\w+@\\w+\\.com$"})
    CHECK_FALSE(compile(pattern)->matches(text).value());
  CHECK(compile("(a|b)*d$")->matches(std::string(70'000, 'c') + "abd").value());
}

TEST_CASE("what compiled patterns take together is bounded") {
  std::vector<std::shared_ptr<const Regex>> kept;
  ErrorCode code = ErrorCode::kOK;
  for (int i = 0; i < 100'000 && code == ErrorCode::kOK; ++i) {
    auto regex = Regex::compile("(((a{1,100}b?){1,50}){1,9})" + std::to_string(i), "");
    if (regex)
      kept.push_back(*regex);
    else
      code = regex.error().code();
  }
  CHECK(code == ErrorCode::kExceededMemoryLimit);
  CHECK(kept.back()->matches("aab").has_value());
  kept.clear();
  CHECK(matches("a.c", "", "abc"));
}
