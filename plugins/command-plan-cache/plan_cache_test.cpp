// Through the handlers, with find and explain beside them.
#include "plugins/command-crud/crud_test_support.h"

const multifora::PluginEntry* multifora_plugin_command_plan_cache();

namespace multifora::crud {
namespace {

struct Database : Commands {
  Database() : Commands(1, {multifora_plugin_command_plan_cache()}) {
    (*this)(R"({"insert":"c","documents":[{"_id":1,"a":1,"b":1},{"_id":2,"a":1,"b":2},{"_id":3,"a":2,"b":2}]})");
    create_index("db.c", R"({"key":{"a":1},"name":"by_a"})");
    create_index("db.c", R"({"key":{"b":1},"name":"by_b"})");
  }
  // The index that a find uses, or "COLLSCAN"; with "!" where a filter was set.
  std::string index_of(const std::string& find) {
    const std::string reply = (*this)(R"({"explain":)" + find + R"(,"verbosity":"queryPlanner"})");
    std::string out = "COLLSCAN";
    for (const char* name : {"by_a", "by_b", "_id_"})
      if (reply.substr(0, reply.find("rejectedPlans")).find(std::string("\"indexName\":\"") + name + "\"") !=
          std::string::npos)
        out = name;
    if (reply.find("\"indexFilterSet\":true") != std::string::npos) out += "!";
    return out;
  }
};

TEST_CASE("a filter holds for its shape, whatever the values and the hint") {
  Database db;
  CHECK(db(R"({"planCacheListFilters":"c"})") == R"({"filters":[]})");
  CHECK(db.index_of(R"({"find":"c","filter":{"a":2,"b":2}})") == "by_a");
  CHECK(db(R"({"planCacheSetFilter":"c","query":{"a":7,"b":8},"indexes":["by_b"]})") == "{}");
  CHECK(db.index_of(R"({"find":"c","filter":{"a":2,"b":2}})") == "by_b!");
  CHECK(db.index_of(R"({"find":"c","filter":{"b":1,"a":3}})") == "by_b!");
  CHECK(db.index_of(R"({"find":"c","filter":{"a":2,"b":2},"hint":"by_a"})") == "by_b!");
  CHECK(db.index_of(R"({"find":"c","filter":{"a":2,"b":{"$gt":0}}})") == "by_a");
  CHECK(db.index_of(R"({"find":"c","filter":{"a":2,"b":2},"sort":{"_id":1}})") != "by_b!");
  CHECK(db.batch(R"({"find":"c","filter":{"a":2,"b":2}})") == R"([{"_id":3,"a":2,"b":2}])");
  CHECK(db(R"({"planCacheListFilters":"c"})") ==
        R"({"filters":[{"query":{"a":7,"b":8},"sort":{},"projection":{},"indexes":["by_b"]}]})");
}

TEST_CASE("filters by pattern, replaced, cleared by shape and all at once") {
  Database db;
  CHECK(db(R"({"planCacheSetFilter":"c","query":{"a":1},"indexes":[{"b":1}]})") == "{}");
  CHECK(db.index_of(R"({"find":"c","filter":{"a":2}})") == "COLLSCAN!");
  CHECK(db(R"({"planCacheSetFilter":"c","query":{"a":5},"indexes":[{"a":1},{"b":1}]})") == "{}");
  CHECK(db.index_of(R"({"find":"c","filter":{"a":2}})") == "by_a!");
  CHECK(db(R"({"planCacheSetFilter":"c","query":{"b":5},"indexes":[{"a":1}]})") == "{}");
  CHECK(db.index_of(R"({"find":"c","filter":{"b":2}})") == "COLLSCAN!");
  CHECK(db(R"({"planCacheClearFilters":"c","query":{"b":0}})") == "{}");
  CHECK(db.index_of(R"({"find":"c","filter":{"b":2}})") == "by_b");
  CHECK(db.index_of(R"({"find":"c","filter":{"a":2}})") == "by_a!");
  CHECK(db(R"({"planCacheClearFilters":"c"})") == "{}");
  CHECK(db.index_of(R"({"find":"c","filter":{"a":2}})") == "by_a");
}

TEST_CASE("a look-up by _id takes no notice of filters") {
  Database db;
  CHECK(db(R"({"planCacheSetFilter":"c","query":{"_id":5},"indexes":[{"a":1}]})") == "{}");
  CHECK(db.index_of(R"({"find":"c","filter":{"_id":2}})") == "_id_!");
}

TEST_CASE("what is refused") {
  Database db;
  CHECK(db(R"({"planCacheSetFilter":"c","query":{"a":1},"indexes":[]})") == "error 2");
  CHECK(db(R"({"planCacheSetFilter":"c","query":{"a":1},"indexes":[1]})") == "error 2");
  CHECK(db(R"({"planCacheSetFilter":"c","query":{"a":1},"indexes":[{}]})") == "error 2");
  CHECK(db(R"({"planCacheSetFilter":"none","query":{"a":1},"indexes":["x"]})") == "error 2");
  CHECK(db(R"({"planCacheClearFilters":"c","sort":{"a":1}})") == "error 2");
  CHECK(db(R"({"planCacheClear":"c","projection":{"a":1}})") == "error 2");
  CHECK(db(R"({"planCacheClear":"c","query":{"a":{"$foo":1}}})") == "error 2");
  CHECK(db(R"({"planCacheClear":"c"})") == "{}");
  CHECK(db(R"({"planCacheClear":"none"})") == "{}");
}

TEST_CASE("allPlansExecution shows every plan that there was to choose from") {
  Database db;
  const std::string two = db(R"({"explain":{"find":"c","filter":{"a":2,"b":2}},"verbosity":"allPlansExecution"})");
  const std::string trials = two.substr(two.find("\"allPlansExecution\":["));
  CHECK(trials.find("by_a") != std::string::npos);
  CHECK(trials.find("by_b") != std::string::npos);
  const std::string one = db(R"({"explain":{"find":"c","filter":{"a":2}},"verbosity":"allPlansExecution"})");
  CHECK(one.find("\"allPlansExecution\":[]") != std::string::npos);
}

}  // namespace
}  // namespace multifora::crud
