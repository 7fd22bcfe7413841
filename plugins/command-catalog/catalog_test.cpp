// Commands of the catalog over a store in memory.
#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "tests/support/command_host.h"

const multifora::PluginEntry* multifora_plugin_index_btree();
const multifora::PluginEntry* multifora_plugin_query_engine();
const multifora::PluginEntry* multifora_plugin_command_catalog();

namespace multifora {
namespace {

struct Env : test::CommandHost {
  Env()
      : CommandHost({multifora_plugin_index_btree(), multifora_plugin_query_engine(),
                     multifora_plugin_command_catalog()}) {}
};

TEST_CASE("convertToCapped keeps the newest documents and what the collection was") {
  Env env;
  CHECK(env.run(R"({"convertToCapped":"c","size":1000})") == "error 26");
  CHECK(env.run(R"({"create":"c","validator":{"_id":{"$gte":0}}})") == "{}");
  env.fill("db.c", 0, 10);
  CHECK(env.run(R"({"convertToCapped":"c","size":0})") == "error 72");
  CHECK(env.run(R"({"convertToCapped":"c","size":1000,"max":-1})") == "error 2");
  CHECK(env.run(R"({"convertToCapped":"c","size":1000,"max":3})") == "{}");
  CHECK(env.ids("db.c") == "7 8 9");
  const DocumentView options = env.store->info("db.c")->options.view();
  CHECK(options["capped"].truthy());
  CHECK(options["max"].number_as_int64() == 3);
  CHECK(options["validator"].type() == BsonType::kObject);
  CHECK(env.store->collections("db").size() == 1);
}

TEST_CASE("convertToCapped loses no write that is made meanwhile") {
  Env env;
  env.fill("db.c", 0, 1);
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (int i = 1; i <= 2000; ++i) env.fill("db.c", i, i + 1);
    done = true;
  });
  while (!done) CHECK(env.run(R"({"convertToCapped":"c","size":100000000})") == "{}");
  writer.join();
  CHECK((*env.store->read("db.c"))->record_count() == 2001);
}

TEST_CASE("cloneCollectionAsCapped copies the newest documents, or leaves nothing") {
  Env env;
  env.fill("db.c", 0, 10, 1000);
  CHECK(env.run(R"({"cloneCollectionAsCapped":"none","toCollection":"d","size":5000})") ==
        "error 26");
  CHECK(env.run(R"({"cloneCollectionAsCapped":"c","toCollection":"d","size":3500})") == "{}");
  CHECK(env.ids("db.d") == "7 8 9");
  CHECK(env.run(R"({"cloneCollectionAsCapped":"c","toCollection":"d","size":3500})") ==
        "error 48");
  env.interrupt.kill(ErrorCode::kInterrupted);
  CHECK(env.run(R"({"cloneCollectionAsCapped":"c","toCollection":"e","size":3500})") ==
        "error 11601");
  CHECK(env.store->info("db.e") == nullptr);
  CHECK(env.ids("db.c") == "0 1 2 3 4 5 6 7 8 9");
}

TEST_CASE("collMod's dryRun changes nothing, and is refused where it would") {
  Env env;
  env.fill("db.c", 0, 3);
  CHECK(env.run(R"({"createIndexes":"c","indexes":[{"key":{"_id":1,"k":1},"name":"k"}]})")
            .find("numIndexesAfter") != std::string::npos);
  CHECK(env.run(R"({"collMod":"c","index":{"name":"k","prepareUnique":true}})")
            .find("prepareUnique_new") != std::string::npos);
  CHECK(env.run(R"({"collMod":"c","index":{"name":"k","unique":true},"dryRun":true})")
            .find("unique_new") != std::string::npos);
  CHECK(!(*env.store->index_specs("db.c"))[1].view()["unique"].truthy());
  CHECK(env.run(R"({"collMod":"c","index":{"name":"k","hidden":true},"dryRun":true})") ==
        "error 72");
  CHECK(env.run(R"({"collMod":"c","validator":{"_id":1},"dryRun":true})") == "error 72");
  CHECK(env.store->info("db.c")->options.view()["validator"].missing());
  CHECK(env.run(R"({"collMod":"c","index":{"name":"k","unique":true}})")
            .find("unique_new") != std::string::npos);
  CHECK((*env.store->index_specs("db.c"))[1].view()["unique"].truthy());
}

TEST_CASE("collMod's bounds of capped collections") {
  Env env;
  CHECK(env.run(R"({"create":"c","capped":true,"size":4096})") == "{}");
  CHECK(env.run(R"({"create":"d"})") == "{}");
  CHECK(env.run(R"({"create":"v","viewOn":"d","pipeline":[]})") == "{}");
  CHECK(env.run(R"({"collMod":"c","cappedSize":0})") == "error 2");
  CHECK(env.run(R"({"collMod":"d","cappedSize":4096})") == "error 72");
  CHECK(env.run(R"({"collMod":"v","cappedSize":4096})") == "error 72");
  CHECK(env.run(R"({"collMod":"c","cappedSize":8192,"cappedMax":2})") == "{}");
  env.fill("db.c", 0, 5);
  CHECK(env.ids("db.c") == "3 4");
}

TEST_CASE("create refuses what it does not do") {
  Env env;
  CHECK(env.run(R"({"create":"c","autoIndexId":false})") == "error 72");
  CHECK(env.run(R"({"create":"c","autoIndexId":true})") == "{}");
  CHECK(env.run(R"({"create":"d","clusteredIndex":{"key":{"_id":1}}})") == "error 40414");
  CHECK(env.run(R"({"create":"d","clusteredIndex":{"key":{"_id":1},"unique":true,"x":1}})") ==
        "error 40415");
  CHECK(env.run(R"({"create":"t","temp":true})") == "{}");
  CHECK(env.store->info("db.t")->options.view()["temp"].truthy());
  const std::string long_name(255, 'c');
  CHECK(env.run(R"({"create":")" + long_name + R"("})") == "error 73");
}

}  // namespace
}  // namespace multifora
