// Updates against the same changes made to JSON values, on random documents.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "plugins/query-engine/query_test_util.h"
#include "plugins/query-engine/update.h"

using namespace multifora;

namespace {

using Json = nlohmann::ordered_json;

// Applies one operator to the field at the end of `path`. False: MongoDB refuses.
bool change(Json& object, const std::string& op, const std::string& path, const Json& operand) {
  const std::size_t dot = path.find('.');
  const std::string name = path.substr(0, dot);
  if (dot != std::string::npos) {
    // What only takes away has nothing to do where the path ends early.
    const bool takes = op == "$unset" || op == "$pop" || op == "$pull";
    if (takes && (!object.contains(name) || !object[name].is_object())) return true;
    if (!object.contains(name)) object[name] = Json::object();
    return object[name].is_object() && change(object[name], op, path.substr(dot + 1), operand);
  }
  if (op == "$set") {
    object[name] = operand;
  } else if (op == "$unset") {
    object.erase(name);
  } else if (op == "$inc") {
    if (object.contains(name) && !object[name].is_number()) return false;
    object[name] = (object.contains(name) ? object[name].get<int>() : 0) + operand.get<int>();
  } else if (op == "$max") {
    // Numbers only, by the choice of operands and documents below.
    if (object.contains(name) && !object[name].is_number()) return true;
    object[name] = std::max(object.value(name, operand.get<int>()), operand.get<int>());
  } else if (op == "$min") {
    const bool lower = object.contains(name) && object[name].is_number();
    object[name] = lower ? std::min(object[name].get<int>(), operand.get<int>()) : operand.get<int>();
  } else if (op == "$mul") {
    if (object.contains(name) && !object[name].is_number()) return false;
    object[name] = (object.contains(name) ? object[name].get<int>() : 0) * operand.get<int>();
  } else if (op == "$pop") {
    if (!object.contains(name)) return true;
    if (!object[name].is_array()) return false;
    Json& array = object[name];
    if (!array.empty()) array.erase(operand.get<int>() < 0 ? array.begin() : array.end() - 1);
  } else if (op == "$pull") {
    if (!object.contains(name)) return true;
    if (!object[name].is_array()) return false;
    Json left = Json::array();
    for (const Json& element : object[name])
      if (element != operand) left.push_back(element);
    object[name] = left;
  } else if (op == "$addToSet") {
    if (!object.contains(name)) object[name] = Json::array();
    if (!object[name].is_array()) return false;
    Json& array = object[name];
    if (std::find(array.begin(), array.end(), operand) == array.end()) array.push_back(operand);
  } else {
    if (!object.contains(name)) object[name] = Json::array();
    if (!object[name].is_array()) return false;
    object[name].push_back(operand);
  }
  return true;
}

class Source {
 public:
  explicit Source(unsigned seed) : random_(seed) {}
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  std::string name() { return std::string(1, static_cast<char>('a' + below(4))); }
  std::string path() {
    std::string path = name();
    while (below(3) == 0) path += "." + name();
    return path;
  }
  Json object(int depth) {
    Json out = Json::object();
    for (int i = below(5); i > 0; --i) out[name()] = value(depth);
    return out;
  }
  Json value(int depth) {
    const int kind = below(depth > 2 ? 3 : 6);
    if (kind < 2) return below(100);
    // Above every number, so that $max leaves it.
    if (kind == 2) return "text";
    if (kind == 3) return Json::array({below(3), "x"});
    return object(depth + 1);
  }

 private:
  std::minstd_rand random_;
};

bool overlap(const std::string& a, const std::string& b) {
  return a == b || a.starts_with(b + ".") || b.starts_with(a + ".");
}

}  // namespace

TEST_CASE("random updates do what they do to JSON") {
  const unsigned seed = test::property_seed();
  MESSAGE("seed " << seed);
  Source source(seed);
  int applied = 0;
  // MULTIFORA_TEST_PAIRS: how many documents and updates, 1,000,000 in a nightly run.
  for (std::uint64_t round = 0; round < test::property_pairs(4000); ++round) {
    Json document = source.object(0);
    // New fields are made in order of their paths: so are they here.
    std::map<std::string, std::pair<std::string, Json>> changes;
    for (int i = 1 + source.below(3); i > 0; --i) {
      const std::string path = source.path();
      bool clash = false;
      for (const auto& [other, what] : changes) clash = clash || overlap(path, other);
      if (clash) continue;
      const char* const ops[] = {"$set", "$unset", "$inc", "$max", "$push",
                                 "$min", "$mul", "$pop", "$pull", "$addToSet"};
      const std::string op = ops[source.below(10)];
      changes[path] = {op, op == "$set"   ? source.value(1)
                           : op == "$pop" ? Json(source.below(2) == 0 ? -1 : 1)
                                          : Json(source.below(op == "$pull" ? 3 : 100))};
    }
    Json spec = Json::object();
    Json wanted = document;
    bool allowed = true;
    for (const auto& [path, what] : changes) {
      spec[what.first][path] = what.second;
      allowed = change(wanted, what.first, path, what.second) && allowed;
    }
    const auto before = from_extended_json(document.dump());
    const auto parsed = from_extended_json(spec.dump());
    VariableScope scope;
    auto update = Update::compile(as_value(parsed->view()), {}, scope);
    REQUIRE_MESSAGE(update.has_value(), spec.dump() << update.error().message());
    EvalContext context;
    UpdateInput input;
    input.document = before->view();
    Buffer out;
    const auto changed = (*update)->apply(input, context, out);
    const std::string where = spec.dump() + " on " + document.dump();
    CHECK_MESSAGE(changed.has_value() == allowed, where);
    if (!changed || !allowed) continue;
    ++applied;
    const auto after = from_extended_json(wanted.dump());
    CHECK_MESSAGE(out == after->bytes(), where << " gave " << test::text(out));
    if (out != before->bytes()) CHECK_MESSAGE(*changed, where);
  }
  CHECK(applied > 1000);
}
