#include "plugins/query-engine/pipeline.h"

#include <doctest/doctest.h>

#include <map>
#include <random>
#include <string>

#include "core/bson/extended_json.h"
#include "plugins/query-engine/stage.h"

using namespace multifora;

namespace {

std::vector<OwnedDocument> list(const std::string& json) {
  const OwnedDocument d = *from_extended_json("{\"v\": " + json + "}");
  std::vector<OwnedDocument> out;
  for (const Element& e : d.view()["v"].as_document()) out.emplace_back(e->as_document());
  return out;
}

// A pipeline over documents in memory; other collections by name.
struct Run {
  explicit Run(const std::string& stages) : stages_(list(stages)) {
    context.db = "test";
    context.collection = "c";
    context.open_pipeline =
        [this](PipelineContext& sub, std::string_view ns,
               std::vector<OwnedDocument> inner) -> Result<std::unique_ptr<Pipeline>> {
      ++opened;
      MULTIFORA_ASSIGN_R(auto pipeline, Pipeline::parse(views_of(inner), sub));
      pipeline->set_source(std::make_unique<ListSource>(others[std::string(ns.substr(5))]));
      return pipeline;
    };
  }
  Status parse() {
    MULTIFORA_ASSIGN(pipeline, Pipeline::parse(views_of(stages_), context));
    return {};
  }
  Result<std::vector<std::string>> run(std::vector<OwnedDocument> documents) {
    MULTIFORA_TRY_R(parse());
    pipeline->set_source(std::make_unique<ListSource>(std::move(documents)));
    std::vector<std::string> out;
    while (true) {
      MULTIFORA_ASSIGN_R(const std::optional<DocumentView> d, pipeline->next());
      if (!d) return out;
      out.push_back(to_extended_json(*d));
    }
  }
  std::string explain() {
    ArrayBuilder out;
    pipeline->append_explain(out);
    const OwnedDocument d = std::move(out).finish();
    return to_extended_json(as_value(d.view(), BsonType::kArray));
  }
  PipelineContext context;
  std::map<std::string, std::vector<OwnedDocument>> others;
  int opened = 0;
  std::unique_ptr<Pipeline> pipeline;

 private:
  std::vector<OwnedDocument> stages_;
};

std::vector<OwnedDocument> random_documents(int n, unsigned seed) {
  MESSAGE("seed " << seed);
  std::mt19937 random(seed);
  std::vector<OwnedDocument> out;
  for (int i = 0; i < n; ++i) {
    DocumentBuilder d;
    d.append("_id", i);
    d.append("g", static_cast<std::int32_t>(random() % 50));
    if (random() % 3 != 0) d.append("v", static_cast<double>(random() % 1000));
    d.append("s", std::string(random() % 64, 'x'));
    out.push_back(std::move(d).finish());
  }
  return out;
}

}  // namespace

TEST_CASE("$unset takes no name that a document cannot have") {
  for (const char* spec : {"\"a\\u0000b\"", "[\"a\", \"a\\u0000b\"]", "\"\\u0000\""}) {
    Run run("[{\"$unset\": " + std::string(spec) + "}]");
    CHECK(run.parse().code() == location_code(16411));
  }
}

TEST_CASE("sorting and grouping give the same with and without spilling") {
  const auto documents = random_documents(3000, std::random_device{}());
  const std::string stages = R"([{"$sort": {"v": -1, "g": 1}},
      {"$group": {"_id": "$g", "n": {"$sum": 1}, "sum": {"$sum": "$v"}, "avg": {"$avg": "$v"}, "min": {"$min": "$v"},
                  "max": {"$max": "$v"}, "first": {"$first": "$_id"}, "last": {"$last": "$_id"}, "all": {"$push": "$_id"},
                  "top": {"$topN": {"n": 3, "sortBy": {"v": 1, "_id": 1}, "output": "$_id"}},
                  "med": {"$median": {"input": "$v", "method": "approximate"}}}},
      {"$sort": {"_id": 1}}])";
  Run large(stages);
  const auto wanted = large.run(documents);
  REQUIRE(wanted.has_value());
  CHECK(wanted->size() == 50);
  Run small(stages);
  small.context.memory_limit_bytes = 20'000;
  const auto got = small.run(documents);
  REQUIRE(got.has_value());
  CHECK(*got == *wanted);
  Run refused(stages);
  refused.context.memory_limit_bytes = 20'000;
  refused.context.allow_disk_use = false;
  const auto error = refused.run(documents);
  REQUIRE_FALSE(error.has_value());
  CHECK(error.error().code() == ErrorCode::kQueryExceededMemoryLimitNoDiskUseAllowed);
}

TEST_CASE("$facet spools what does not fit memory") {
  const auto documents = random_documents(500, 7);
  Run run(
      R"([{"$facet": {"n": [{"$count": "n"}], "first": [{"$sort": {"_id": 1}}, {"$limit": 1}, {"$project": {"_id": 1}}]}}])");
  run.context.memory_limit_bytes = 5'000;
  CHECK(*run.run(documents) ==
        std::vector<std::string>{R"({"n":[{"n":500}],"first":[{"_id":0}]})"});
}

TEST_CASE("the optimiser coalesces and reorders") {
  Run run(
      R"([{"$sort": {"a": 1}}, {"$match": {"b": 1}}, {"$match": {"c": 2}}, {"$skip": 2}, {"$skip": 3}, {"$limit": 9},
              {"$limit": 4}])");
  REQUIRE(run.parse().ok());
  CHECK(
      run.explain() ==
      R"([{"$match":{"$and":[{"b":1},{"c":2}]}},{"$sort":{"sortKey":{"a":1},"limit":9}},{"$skip":5}])");
  Run fields(R"([{"$addFields": {"x": 1}}, {"$match": {"y": 2}}])");
  REQUIRE(fields.parse().ok());
  CHECK(fields.explain().starts_with(R"([{"$match":{"y":2}})"));
  Run dependent(R"([{"$addFields": {"x": 1}}, {"$match": {"x.y": 2}}])");
  REQUIRE(dependent.parse().ok());
  CHECK_FALSE(dependent.explain().starts_with(R"([{"$match")"));
}

TEST_CASE("the query layer gets what it can run") {
  Run count(R"([{"$match": {"a": 1}}, {"$count": "n"}])");
  REQUIRE(count.parse().ok());
  const Pipeline::QueryPart counted = count.pipeline->take_query_part();
  CHECK(counted.count_field == "n");
  CHECK(to_extended_json(counted.filter.view()) == R"({"a":1})");
  CHECK(count.pipeline->empty());

  Run group(R"([{"$match": {"a": 1}}, {"$sort": {"b": 1}}, {"$skip": 5}, {"$limit": 10},
                {"$group": {"_id": "$c.d", "x": {"$sum": "$e"}}}])");
  REQUIRE(group.parse().ok());
  const Pipeline::QueryPart part = group.pipeline->take_query_part();
  CHECK(part.limit == 15);
  CHECK(to_extended_json(part.sort.view()) == R"({"b":1})");
  CHECK_FALSE(part.needs_whole_document);
  CHECK(part.needed_paths == std::vector<std::string>{"c.d", "e"});

  Run expr(
      R"([{"$match": {"a": 1, "$expr": {"$and": [{"$eq": ["$k", {"$add": [1, 2]}]}, {"$gt": ["$x", "$y"]}]}}}])");
  REQUIRE(expr.parse().ok());
  const Pipeline::QueryPart pushed = expr.pipeline->take_query_part();
  CHECK(to_extended_json(pushed.filter.view()) == R"({"$and":[{"a":1},{"k":{"$eq":3}}]})");
  CHECK_FALSE(expr.pipeline->empty());
}

TEST_CASE("$lookup without an index reads the other collection once") {
  Run run(R"([{"$lookup": {"from": "f", "localField": "k", "foreignField": "k", "as": "r"}}])");
  run.others["f"] = list(
      R"([{"_id": 1, "k": 1}, {"_id": 2, "k": [1, 2]}, {"_id": 3}, {"_id": 4, "k": {"$numberLong": "2"}}])");
  const auto got = run.run(list(R"([{"k": 1}, {"k": [2, 5]}, {}, {"k": "x"}])"));
  REQUIRE(got.has_value());
  CHECK((*got)[0] == R"({"k":1,"r":[{"_id":1,"k":1},{"_id":2,"k":[1,2]}]})");
  CHECK((*got)[1] == R"({"k":[2,5],"r":[{"_id":2,"k":[1,2]},{"_id":4,"k":2}]})");
  CHECK((*got)[2] == R"({"r":[{"_id":3}]})");
  CHECK((*got)[3] == R"({"k":"x","r":[]})");
  CHECK(run.opened == 1);
}

TEST_CASE("$lookup takes over the $unwind of its field") {
  const std::string tail =
      R"(, {"$unwind": {"path": "$r", "preserveNullAndEmptyArrays": true, "includeArrayIndex": "i"}}])";
  const auto local = R"([{"_id": 1, "k": 1}, {"_id": 2, "k": 9}, {"_id": 3, "k": 2}])";
  const std::vector<std::string> wanted = {R"({"_id":1,"k":1,"r":{"_id":1,"k":1},"i":0})",
                                           R"({"_id":1,"k":1,"r":{"_id":2,"k":[1,2]},"i":1})",
                                           R"({"_id":2,"k":9,"i":null})",
                                           R"({"_id":3,"k":2,"r":{"_id":2,"k":[1,2]},"i":0})"};
  for (
      const std::string head :
      {R"([{"$lookup": {"from": "f", "localField": "k", "foreignField": "k", "as": "r"}})",
       R"([{"$lookup": {"from": "f", "localField": "k", "foreignField": "k", "pipeline": [], "as": "r"}})"}) {
    Run run(head + tail);
    run.others["f"] = list(R"([{"_id": 1, "k": 1}, {"_id": 2, "k": [1, 2]}])");
    const auto got = run.run(list(local));
    REQUIRE(got.has_value());
    CHECK(*got == wanted);
    CHECK(run.explain().find("$unwind\"") == std::string::npos);
  }
}

TEST_CASE("nested pipelines are bounded") {
  std::string stages = "[]";
  for (int i = 0; i < 25; ++i)
    stages = R"([{"$lookup": {"from": "f", "pipeline": )" + stages + R"(, "as": "r"}}])";
  Run run(stages);
  CHECK(run.parse().code() == ErrorCode::kMaxSubPipelineDepthExceeded);
}

TEST_CASE("sliding windows agree with windows computed anew") {
  const auto documents = random_documents(200, std::random_device{}());
  std::map<int, std::vector<int>> partitions;
  for (const OwnedDocument& d : documents)
    partitions[d.view()["g"].as_int32()].push_back(d.view()["_id"].as_int32());
  const std::string window = R"("window": {"documents": [-2, 1]})";
  Run run(R"([{"$setWindowFields": {"partitionBy": "$g", "sortBy": {"_id": 1}, "output": {
      "sum": {"$sum": "$_id", )" +
          window + R"(}, "max": {"$max": "$_id", )" + window + R"(},
      "all": {"$push": "$_id", )" +
          window + R"(}, "rank": {"$rank": {}}}}}, {"$sort": {"g": 1, "_id": 1}},
      {"$project": {"_id": 0, "sum": 1, "max": 1, "all": 1, "rank": 1}}])");
  const auto got = run.run(documents);
  REQUIRE(got.has_value());
  std::size_t at = 0;
  for (const auto& [g, ids] : partitions) {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      int sum = 0;
      std::string all;
      const std::size_t to = std::min(i + 2, ids.size());
      for (std::size_t k = i < 2 ? 0 : i - 2; k < to; ++k) {
        sum += ids[k];
        all += (all.empty() ? "" : ",") + std::to_string(ids[k]);
      }
      CHECK(got->at(at++) == "{\"sum\":" + std::to_string(sum) +
                                 ",\"max\":" + std::to_string(ids[to - 1]) + ",\"all\":[" + all +
                                 "],\"rank\":" + std::to_string(i + 1) + "}");
    }
  }
  CHECK(at == documents.size());
}

TEST_CASE("stages refuse wrong places") {
  const auto code = [](const std::string& stages) {
    Run run(stages);
    return static_cast<int>(run.parse().code());
  };
  CHECK(code(R"([{"$match": {}}, {"$documents": []}])") == 40602);
  CHECK(code(R"([{"$nope": 1}])") == 40324);
  CHECK(code(R"([{"$search": {}}])") == 31082);
  CHECK(code(R"([{"$lookup": {"from": "f", "pipeline": [{"$out": "x"}], "as": "r"}}])") == 51047);
}
