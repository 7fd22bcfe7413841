// The matcher against a slow one on JSON values that is written from the rules, on random documents
// and filters.
#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>

#include "plugins/query-engine/matcher.h"
#include "plugins/query-engine/query_test_util.h"

using namespace multifora;

namespace {

using Json = nlohmann::ordered_json;
using Parts = std::vector<std::string>;
using Found = std::optional<Json>;  // nothing: a missing field

// ---- The slow matcher ----

Parts split(const std::string& path) {
  Parts parts;
  std::size_t start = 0;
  for (std::size_t dot; (dot = path.find('.', start)) != std::string::npos; start = dot + 1)
    parts.push_back(path.substr(start, dot - start));
  parts.push_back(path.substr(start));
  return parts;
}

struct Visit {
  Found value;
  bool is_whole_array = false;  // not one of its elements
};

void walk_array(const Json& array, const Parts& parts, std::size_t next, std::vector<Visit>& out);

void walk(const Json& object, const Parts& parts, std::size_t next, std::vector<Visit>& out) {
  if (!object.contains(parts[next])) {
    out.push_back({std::nullopt});
    return;
  }
  const Json& value = object[parts[next]];
  if (next + 1 == parts.size()) {
    if (value.is_array())
      for (const Json& element : value) out.push_back({element});
    out.push_back({value, value.is_array()});
  } else if (value.is_object()) {
    walk(value, parts, next + 1, out);
  } else if (value.is_array()) {
    walk_array(value, parts, next + 1, out);
  } else {
    out.push_back({std::nullopt});
  }
}

void walk_array(const Json& array, const Parts& parts, std::size_t next, std::vector<Visit>& out) {
  for (std::size_t i = 0; i < array.size(); ++i) {
    const Json& element = array[i];
    if (element.is_object()) walk(element, parts, next, out);
    if (parts[next] != std::to_string(i)) continue;
    if (next + 1 == parts.size()) out.push_back({element, element.is_array()});
    else if (element.is_object()) walk(element, parts, next + 1, out);
    else if (element.is_array()) walk_array(element, parts, next + 1, out);
  }
}

int order(const Json& a, const Json& b) { return a < b ? -1 : b < a ? 1 : 0; }

std::string type_of(const Json& value) {
  return value.is_string()    ? "string"
         : value.is_number()  ? "number"
         : value.is_boolean() ? "bool"
         : value.is_null()    ? "null"
         : value.is_array()   ? "array"
                              : "object";
}

bool satisfies(const std::string& op, const Json& operand, const Found& value) {
  if (op == "$in")
    return std::any_of(operand.begin(), operand.end(),
                       [&](const Json& one) { return satisfies("$eq", one, value); });
  if (op == "$exists") return value.has_value();
  if (op == "$type") return value && type_of(*value) == operand.get<std::string>();
  if (op == "$mod")
    return value && value->is_number_integer() &&
           value->get<int>() % operand[0].get<int>() == operand[1].get<int>();
  if (op == "$eq" && operand.is_null()) return !value || value->is_null();
  if (!value) return false;
  if (op == "$eq") return *value == operand;
  if (!(value->is_number() && operand.is_number()) && !(value->is_string() && operand.is_string()))
    return false;
  const int o = order(*value, operand);
  return op == "$gt" ? o > 0 : op == "$gte" ? o >= 0 : op == "$lt" ? o < 0 : o <= 0;
}

bool matches(const Json& filter, const Json& document);

// An array inside the array is an object with the names "0", "1" ... to $elemMatch.
Json as_object(const Json& value) {
  if (!value.is_array()) return value;
  Json object = Json::object();
  for (std::size_t i = 0; i < value.size(); ++i) object[std::to_string(i)] = value[i];
  return object;
}

bool matches_operator(const Json& document, const std::string& path, const std::string& op,
                      const Json& operand) {
  if (op == "$ne") return !matches_operator(document, path, "$eq", operand);
  if (op == "$all")
    return !operand.empty() && std::all_of(operand.begin(), operand.end(), [&](const Json& one) {
      return matches_operator(document, path, "$eq", one);
    });
  if (op == "$nin") return !matches_operator(document, path, "$in", operand);
  if (op == "$exists" && !operand.get<bool>())
    return !matches_operator(document, path, "$exists", true);
  if (op == "$not") {
    for (const auto& [name, inner] : operand.items())
      if (!matches_operator(document, path, name, inner)) return true;
    return false;
  }
  std::vector<Visit> visits;
  walk(document, split(path), 0, visits);
  for (const Visit& visit : visits) {
    if (op == "$size" || op == "$elemMatch") {
      if (!visit.is_whole_array) continue;
      if (op == "$size" && visit.value->size() == operand.get<std::size_t>()) return true;
      if (op == "$elemMatch")
        for (const Json& element : *visit.value)
          if ((element.is_object() || element.is_array()) && matches(operand, as_object(element)))
            return true;
    } else if (satisfies(op, operand, visit.value)) {
      return true;
    }
  }
  return false;
}

bool matches(const Json& filter, const Json& document) {
  for (const auto& [name, value] : filter.items()) {
    const auto holds = [&](const Json& clause) { return matches(clause, document); };
    if (name == "$and") {
      if (!std::all_of(value.begin(), value.end(), holds)) return false;
    } else if (name == "$or" || name == "$nor") {
      if (std::any_of(value.begin(), value.end(), holds) != (name == "$or")) return false;
    } else if (value.is_object() && !value.empty() && value.begin().key().starts_with("$")) {
      for (const auto& [op, operand] : value.items())
        if (!matches_operator(document, name, op, operand)) return false;
    } else if (!matches_operator(document, name, "$eq", value)) {
      return false;
    }
  }
  return true;
}

// ---- Random documents and filters ----

class Source {
 public:
  explicit Source(unsigned seed) : random_(seed) {}

  Json document(int depth = 0) {
    Json object = Json::object();
    for (const char* name : {"a", "b", "c"})
      if (below(3) != 0) object[name] = value(depth + 1);
    return object;
  }

  Json filter(int depth = 0) {
    Json out = Json::object();
    const int fields = 1 + below(2);
    for (int i = 0; i < fields; ++i) {
      if (depth < 2 && below(5) == 0) {
        Json clauses = Json::array();
        for (int k = 1 + below(2); k > 0; --k) clauses.push_back(filter(depth + 1));
        out[pick({"$and", "$or", "$nor"})] = clauses;
      } else {
        out[path()] = condition(depth);
      }
    }
    return out;
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  std::string pick(std::vector<std::string> from) {
    return from[static_cast<std::size_t>(below(static_cast<int>(from.size())))];
  }

  Json scalar() {
    switch (below(4)) {
      case 0: return nullptr;
      case 1: return pick({"x", "y"});
      default: return below(4);
    }
  }
  Json value(int depth) {
    const int kind = below(depth > 3 ? 3 : 7);
    if (kind < 3) return scalar();
    if (kind < 5) return document(depth);
    Json array = Json::array();
    for (int i = below(4); i > 0; --i) array.push_back(value(depth + 1));
    return array;
  }
  std::string path() {
    std::string path = pick({"a", "b", "c"});
    while (below(5) < 2) path += "." + pick({"a", "b", "c", "0", "1"});
    return path;
  }
  Json condition(int depth) {
    if (below(3) == 0) return below(4) == 0 ? value(3) : scalar();
    Json out = Json::object();
    for (int i = 1 + below(2); i > 0; --i) add_operator(out, depth);
    return out;
  }
  void add_operator(Json& out, int depth) {
    const std::string op = pick({"$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin",
                                 "$exists", "$size", "$elemMatch", "$not", "$all", "$mod", "$type"});
    if (op == "$in" || op == "$nin" || op == "$all") {
      Json list = Json::array();
      for (int i = below(4); i > 0; --i) list.push_back(scalar());
      out[op] = list;
    } else if (op == "$exists") {
      out[op] = below(2) == 0;
    } else if (op == "$mod") {
      const int divisor = 1 + below(3);
      out[op] = Json::array({divisor, below(divisor)});
    } else if (op == "$type") {
      out[op] = pick({"string", "number", "bool", "null", "array", "object"});
    } else if (op == "$size") {
      out[op] = below(3);
    } else if (op == "$elemMatch") {
      out[op] = Json::object();
      out[op][pick({"a", "b"})] = scalar();
    } else if (op == "$not") {
      if (depth > 2) return;
      Json inner = Json::object();
      add_operator(inner, 3);
      if (!inner.empty()) out[op] = inner;
    } else {
      // Ranges over null are a matter of their own: matcher_test.cpp.
      Json operand = scalar();
      if (op != "$eq" && op != "$ne" && operand.is_null()) operand = 1;
      out[op] = operand;
    }
  }

  std::minstd_rand random_;
};

}  // namespace

TEST_CASE("random filters match what the slow matcher matches") {
  const unsigned seed = test::property_seed();
  MESSAGE("seed " << seed);
  Source source(seed);
  int matched = 0;
  // MULTIFORA_TEST_PAIRS: how many documents and filters, 1,000,000 in a nightly run.
  for (std::uint64_t round = 0; round < test::property_pairs(10'000) / 25; ++round) {
    const Json filter = source.filter();
    const auto parsed = from_extended_json(filter.dump());
    REQUIRE(parsed.has_value());
    auto matcher = Matcher::compile(parsed->view(), {});
    REQUIRE_MESSAGE(matcher.has_value(), filter.dump() << " " << matcher.error().message());
    for (int i = 0; i < 25; ++i) {
      const Json document = source.document();
      const auto bytes = from_extended_json(document.dump());
      const bool wanted = matches(filter, document);
      matched += wanted ? 1 : 0;
      CHECK_MESSAGE((*matcher)->matches(bytes->view()).value() == wanted,
                    filter.dump() << " on " << document.dump());
    }
  }
  CHECK(matched > 500);  // else the filters say nothing
}
