// Index use never changes a result: random documents, indexes and queries, each query run with
// whatever the planner chooses, with each index hinted, and as a collection scan.
#include <random>

#include "plugins/command-crud/crud_test_support.h"

namespace multifora::crud {
namespace {

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : engine_(seed) {}
  std::uint64_t below(std::uint64_t n) { return engine_() % n; }
  bool one_in(std::uint64_t n) { return below(n) == 0; }
  template <std::size_t N>
  const char* pick(const char* const (&values)[N]) {
    return values[below(N)];
  }

  std::string scalar() {
    static const char* const kValues[] = {
        "0", "1", "2", "3", "4", "5", "1.5", "2.0", "-1", "null", "\"\"", "\"a\"", "\"ab\"", "\"b\"",
        "true", "false", "{}", "{\"x\":1}", "{\"x\":2,\"y\":1}", "{\"$numberLong\":\"3\"}",
        "{\"$numberDecimal\":\"2.0\"}", "{\"$numberDouble\":\"NaN\"}", "{\"$minKey\":1}",
        "{\"$maxKey\":1}", "{\"$date\":\"2020-01-01T00:00:00Z\"}"};
    return one_in(3) ? kValues[below(6)] : pick(kValues);
  }
  std::string value(int depth = 2) {
    if (depth > 0 && one_in(5)) {
      std::string array = "[";
      const std::uint64_t n = below(4);
      for (std::uint64_t i = 0; i < n; ++i) array += (i > 0 ? "," : "") + value(depth - 1);
      return array + "]";
    }
    if (depth > 0 && one_in(5)) return object(depth - 1);
    return scalar();
  }
  std::string object(int depth) {
    std::string out = "{";
    for (const char* name : {"x", "y"})
      if (!one_in(3))
        out += (out.size() > 1 ? ",\"" : "\"") + std::string(name) + "\":" + value(depth);
    return out + "}";
  }
  std::string document(int id) {
    std::string out = "{\"_id\":" + std::to_string(id);
    for (const char* name : {"a", "b", "c"})
      if (!one_in(5)) out += ",\"" + std::string(name) + "\":" + value();
    return out + "}";
  }
  // Documents without parallel arrays in a and b, so that compound indexes take them.
  std::string flat_document(int id) {
    return "{\"_id\":" + std::to_string(id) + ",\"a\":" + value() + ",\"b\":" + scalar() +
           (one_in(3) ? "" : ",\"c\":" + scalar()) + "}";
  }

  std::string path() {
    static const char* const kPaths[] = {"a", "a", "b", "b", "c", "a.x", "a.y", "b.x", "_id",
                                         "a.0", "a.1.x"};
    return pick(kPaths);
  }
  std::string condition(int depth = 1) {
    switch (below(15)) {
      case 0: case 1: case 2: return value(1);
      case 3: return "{\"$gt\":" + scalar() + "}";
      case 4: return "{\"$gte\":" + scalar() + ",\"$lt\":" + scalar() + "}";
      case 5: return "{\"$lte\":" + value(1) + "}";
      case 6: return "{\"$in\":[" + value(1) + "," + scalar() + "," + scalar() + "]}";
      case 7: return "{\"$ne\":" + value(1) + "}";
      case 8: return "{\"$nin\":[" + scalar() + "," + scalar() + "]}";
      case 9: return one_in(2) ? "{\"$exists\":true}" : "{\"$exists\":false}";
      case 10: return "{\"$regex\":\"^a\"}";
      case 11: return one_in(2) ? "{\"$type\":\"number\"}" : "{\"$type\":\"string\"}";
      case 12: return "{\"$elemMatch\":{\"$gte\":" + scalar() + ",\"$lte\":" + scalar() + "}}";
      case 13: return "{\"$elemMatch\":{\"x\":" + (depth > 0 ? condition(0) : scalar()) +
                      ",\"y\":" + scalar() + "}}";
      default: return "{\"$not\":{\"$gt\":" + scalar() + "}}";
    }
  }
  // With an equality that may choose the index, and sometimes only one of several arguments.
  std::string expression() {
    const std::string equal =
        one_in(3) ? "{\"$eq\":[" + scalar() + ",\"$" + path() + "\"]}"
                  : "{\"$eq\":[\"$" + path() + "\",{\"$literal\":" + scalar() + "}]}";
    if (one_in(2)) return equal;
    return "{\"$and\":[" + equal + ",{\"$ne\":[\"$" + path() + "\"," + scalar() + "]}]}";
  }
  std::string filter(int depth = 1) {
    if (depth > 0 && one_in(5))
      return std::string("{\"") + (one_in(4) ? "$nor" : "$or") + "\":[" + filter(0) + "," + filter(0) +
             "]}";
    std::string out = "{\"" + path() + "\":" + condition();
    if (one_in(2)) out += ",\"$and\":[{\"" + path() + "\":" + condition() + "}]";
    if (depth > 0 && one_in(6)) out += ",\"$or\":[" + filter(0) + "," + filter(0) + "]";
    if (depth > 0 && one_in(6)) out += ",\"$expr\":" + expression();
    return out + "}";
  }
  std::string sort() {
    std::string out = "{\"" + std::string(one_in(2) ? "b" : "a") + "\":" + (one_in(2) ? "1" : "-1");
    if (one_in(2)) out += std::string(",\"c\":") + (one_in(2) ? "1" : "-1");
    return out + ",\"_id\":1}";
  }

 private:
  std::mt19937_64 engine_;
};

const char* const kIndexes[] = {
    R"({"key":{"a":1},"name":"a"})",
    R"({"key":{"b":-1},"name":"b"})",
    R"({"key":{"a":1,"b":-1},"name":"ab"})",
    R"({"key":{"b":1,"c":1,"_id":1},"name":"bc"})",
    R"({"key":{"a.x":1,"a.y":1},"name":"ax"})",
    R"({"key":{"c":1},"name":"c","sparse":true})",
    R"({"key":{"a.0":1},"name":"a0"})",
    R"({"key":{"a.1.x":1,"b":1},"name":"a1x"})",
    R"({"key":{"b":1,"a":1},"name":"ba","partialFilterExpression":{"c":{"$gt":1}}})",
    R"({"key":{"a":"hashed"},"name":"ha"})",
    R"({"key":{"b":"hashed","c":1},"name":"hbc"})",
    R"({"key":{"c":1,"b":"hashed"},"name":"chb"})",
    R"({"key":{"$**":1},"name":"w"})",
    R"({"key":{"a.$**":-1},"name":"wa"})",
    R"({"key":{"$**":1},"name":"wp","wildcardProjection":{"a.x":0,"_id":1}})",
    R"({"key":{"$**":1},"name":"wf","partialFilterExpression":{"b":{"$gte":1}}})",
    R"({"key":{"c":1,"a.$**":1,"b":-1},"name":"cwb"})",
    R"({"key":{"$**":1,"c":-1},"name":"wc","wildcardProjection":{"c":0}})",
};

// Every answer that a query has, as text.
struct Answers {
  std::string ids, sorted, limited, count, distinct;
};

Answers answers(Commands& db, const std::string& filter, const std::string& sort,
                const std::string& hint) {
  const std::string with = hint.empty() ? "" : ",\"hint\":" + hint;
  Answers out;
  std::vector<std::string> ids;
  const auto all = from_extended_json(R"({"find":"c","batchSize":100000,"filter":)" + filter + with +
                                      R"(,"projection":{"_id":1}})");
  REQUIRE(all);
  const OwnedDocument reply = db.run(all->view());
  if (!db.status.ok()) {
    out.ids = db.status.message();
  } else {
    for (const Element& one : reply.view()["cursor"].as_document()["firstBatch"].as_document())
      ids.push_back(to_extended_json(one->as_document()));
    std::sort(ids.begin(), ids.end());
    for (const std::string& id : ids) out.ids += id;
  }
  const std::string find = R"({"find":"c","batchSize":100000,"filter":)" + filter + with;
  out.sorted = db.batch(find + R"(,"sort":)" + sort + "}");
  out.limited = db.batch(find + R"(,"sort":)" + sort + R"(,"skip":2,"limit":5})");
  out.count = db(R"({"count":"c","query":)" + filter + with + "}");
  return out;
}

void check_same(const Answers& wanted, const Answers& got, const std::string& about) {
  const bool same = wanted.ids == got.ids && wanted.sorted == got.sorted &&
                    wanted.limited == got.limited && wanted.count == got.count;
  if (!same) {
    MESSAGE(about);
    MESSAGE("ids     " << wanted.ids << "\n   vs   " << got.ids);
    MESSAGE("sorted  " << wanted.sorted << "\n   vs   " << got.sorted);
    MESSAGE("limited " << wanted.limited << "\n   vs   " << got.limited);
    MESSAGE("count   " << wanted.count << " vs " << got.count);
  }
  REQUIRE(same);
}

void run_round(std::uint64_t seed) {
  Generator random(seed);
  Commands db(seed);
  INFO("seed " << seed);
  const bool flat = random.one_in(2);
  for (int i = 0; i < 60; ++i) {
    const std::string document = flat ? random.flat_document(i) : random.document(i);
    db(R"({"insert":"c","documents":[)" + document + "]}");
  }
  std::vector<std::string> hints;
  for (const char* index : kIndexes) {
    if (random.one_in(2)) continue;
    const auto spec = from_extended_json(index);
    // Parallel arrays: this index cannot be.
    if (!db.store->create_indexes("db.c", {spec->view()}, db.interrupt)) continue;
    const bool whole = spec->view()["sparse"].missing() &&
                       spec->view()["partialFilterExpression"].missing();
    if (whole) hints.push_back(to_extended_json(spec->view()["name"]));
  }
  for (int i = 0; i < 60; ++i) {
    const std::string filter = random.filter();
    const std::string sort = random.sort();
    const Answers wanted = answers(db, filter, sort, R"({"$natural":1})");
    const std::string about = "seed " + std::to_string(seed) + " filter " + filter + " sort " + sort;
    check_same(wanted, answers(db, filter, sort, ""), about);
    for (const std::string& hint : hints) {
      const Answers got = answers(db, filter, sort, hint);
      // An index that serves many paths cannot serve every query.
      if (got.ids.find("No query solutions") != std::string::npos) continue;
      check_same(wanted, got, about + " hint " + hint);
    }
  }
  REQUIRE(db.store->check().empty());
}

TEST_CASE("index use never changes a result") {
  std::uint64_t first = 1;
  if (const char* given = std::getenv("MULTIFORA_TEST_SEED")) first = std::strtoull(given, nullptr, 10);
  int rounds = 25;
  if (const char* given = std::getenv("MULTIFORA_TEST_ROUNDS")) rounds = std::atoi(given);
  for (int i = 0; i < rounds; ++i) run_round(first + static_cast<std::uint64_t>(i));
}

}  // namespace
}  // namespace multifora::crud
