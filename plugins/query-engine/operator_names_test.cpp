// The operators that MongoDB's machine-readable specifications define, against those registered here.
#include "plugins/query-engine/operator_names.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "tests/support/shared_dir.h"

namespace multifora {
namespace {

using Set = std::set<std::string>;

// Defined, and not registered, each for a reason.
const std::map<std::string, Set> kExceptions = {
    // Parts of geometry operators, which are not here; $rand is an expression.
    {"query", {"$box", "$center", "$centerSphere", "$geometry", "$polygon", "$rand"}},
    {"update", {}},
    // A part of $switch, not an operator of its own.
    {"expression", {"$case"}},
    {"accumulator", {}},
    // Stages of another plugin, command-change-stream.
    {"stage", {"$changeStream", "$changeStreamSplitLargeEvent"}},
};

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The value of the top-level `key` of a YAML document, without its quotes.
std::string yaml_value(const std::string& text, const std::string& key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(key + ":")) continue;
    std::string value = line.substr(key.size() + 1);
    std::erase_if(value, [](char c) { return c == ' ' || c == '\'' || c == '"'; });
    return value;
  }
  return "";
}

// Newer than the version whose language this is.
bool is_newer(const std::string& version) {
  std::istringstream parts(version);
  int major = 0, minor = 0;
  char dot = 0;
  parts >> major >> dot >> minor;
  return major > 8 || (major == 8 && minor > 0);
}

Set registered(std::string_view title) {
  for (const OperatorFamily& family : operator_families()) {
    if (family.title != title) continue;
    Set names;
    for (const OperatorName& op : family.operators) names.emplace(op.name);
    return names;
  }
  return {};
}

}  // namespace

TEST_CASE("every operator that MongoDB 8.0 defines is registered, or excepted by name") {
  const auto folder = test::shared_dir("mql-specifications");
  if (folder.empty()) {
    MESSAGE("mql-specifications not found; set MULTIFORA_SHARED_DIR");
    return;
  }
  const std::map<std::string, std::string> families = {{"query", "Query"},
                                                       {"update", "Update"},
                                                       {"expression", "Expression"},
                                                       {"accumulator", "Accumulator and window"},
                                                       {"stage", "Stage"}};
  for (const auto& [name, title] : families) {
    CAPTURE(name);
    const Set here = registered(title);
    Set newer, missing;
    std::size_t defined = 0;
    for (const auto& file : std::filesystem::directory_iterator(folder / "definitions" / name)) {
      const std::string text = read(file.path());
      const std::string op = yaml_value(text, "name");
      REQUIRE_FALSE(op.empty());
      ++defined;
      if (here.contains(op)) continue;
      if (is_newer(yaml_value(text, "minVersion")))
        newer.insert(op);
      else
        missing.insert(op);
    }
    CHECK(defined > 10);
    for (const std::string& op : missing)
      CHECK_MESSAGE(kExceptions.at(name).contains(op), op << " is not registered");
    for (const std::string& op : kExceptions.at(name))
      CHECK_MESSAGE(missing.contains(op), op << " is excepted without need");
    MESSAGE(name << ": " << defined << " defined, " << missing.size() << " excepted, " << newer.size()
                 << " newer than 8.0 and not here");
  }
}

TEST_CASE("only what needs JavaScript, text search, geometry, Atlas or a cluster is refused") {
  const std::map<std::string_view, Set> allowed = {
      {"Query", {"$where", "$text", "$geoIntersects", "$geoNear", "$geoWithin", "$maxDistance", "$minDistance",
                 "$near", "$nearSphere", "$within"}},
      {"Update", {}},
      {"Expression", {"$function", "$meta"}},
      {"Accumulator and window", {"$accumulator"}},
  };
  for (const OperatorFamily& family : operator_families()) {
    const auto at = allowed.find(family.title);
    if (at == allowed.end()) continue;
    for (const OperatorName& op : family.operators)
      CHECK_MESSAGE((op.works || at->second.contains(std::string(op.name))), op.name);
  }
}

TEST_CASE("docs/operators.md is what the tables say") {
  const char* source = std::getenv("MULTIFORA_SOURCE_DIR");
  const std::filesystem::path page =
      std::filesystem::path(source != nullptr ? source : ".") / "docs" / "operators.md";
  if (std::getenv("MULTIFORA_WRITE_DOCS") != nullptr) std::ofstream(page) << operators_page();
  if (!std::filesystem::exists(page.parent_path())) {
    MESSAGE("no sources here; set MULTIFORA_SOURCE_DIR");
    return;
  }
  CHECK(read(page) == operators_page());
}

}  // namespace multifora
