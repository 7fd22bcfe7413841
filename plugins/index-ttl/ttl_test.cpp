// TTL specifications, and sweeps over a store in memory with a clock that the test moves.
#include <doctest/doctest.h>

#include "core/base/interrupt.h"
#include "core/bson/builder.h"
#include "core/bson/extended_json.h"
#include "core/plugin/host.h"
#include "core/plugin/plugin.h"
#include "core/store/store.h"
#include "plugins/index-ttl/ttl_sweep.h"
#include "tests/support/fault_file_system.h"

const multifora::PluginEntry* multifora_plugin_index_btree();
const multifora::PluginEntry* multifora_plugin_index_ttl();

namespace multifora {
namespace {

class TestClock final : public Clock {
 public:
  std::int64_t wall_ms() const override { return now_ms; }
  std::int64_t monotonic_us() const override { return system_clock().monotonic_us(); }
  std::int64_t now_ms = 1'700'000'000'000;
};

struct Env {
  Env() : files(1) {
    host.set_clock(&clock);
    REQUIRE(host.load(*multifora_plugin_index_btree(), "").ok());
    REQUIRE(host.load(*multifora_plugin_index_ttl(), "").ok());
    host.freeze();
    StoreOptions options;
    options.path = "/db";
    auto opened = Store::open(options, host, files, nullptr);
    REQUIRE(opened);
    store = std::move(*opened);
  }
  Status create_index(const char* json) {
    const OwnedDocument spec = *from_extended_json(json);
    Interrupt interrupt(system_clock());
    return status_of(store->create_indexes("db.c", {spec.view()}, interrupt));
  }
  void insert(const char* json) {
    const OwnedDocument document = *from_extended_json(json);
    auto writer = store->write("db.c", true);
    REQUIRE(writer);
    REQUIRE((*writer)->insert(document.view()));
  }
  std::uint64_t count() { return (*store->read("db.c"))->record_count(); }
  BackgroundTask& task() { return *host.background().front(); }
  // A whole pass.
  void sweep() {
    do REQUIRE(task().run(*store).ok());
    while (task().interval_ms() == 0);
  }

  TestClock clock;
  PluginHost host;
  FaultFileSystem files;
  std::unique_ptr<Store> store;
};

TEST_CASE("specifications that MongoDB refuses") {
  Env env;
  CHECK(env.create_index(R"({"key":{"a":1,"b":1},"name":"x","expireAfterSeconds":5})").code() ==
        ErrorCode::kCannotCreateIndex);
  CHECK(env.create_index(R"({"key":{"_id":1},"name":"x","expireAfterSeconds":5})").code() ==
        ErrorCode::kInvalidIndexSpecificationOption);
  CHECK(env.create_index(R"({"key":{"a":1},"name":"x","expireAfterSeconds":-1})").code() ==
        ErrorCode::kCannotCreateIndex);
  CHECK(env.create_index(R"({"key":{"a":1},"name":"x","expireAfterSeconds":1e12})").code() ==
        ErrorCode::kCannotCreateIndex);
  CHECK(!env.create_index(R"({"key":{"a":1},"name":"x","expireAfterSeconds":"5"})").ok());
  CHECK(env.create_index(R"({"key":{"a":-1},"name":"x","expireAfterSeconds":5})").ok());
}

void expires(const char* index) {
  Env env;
  REQUIRE(env.create_index(index).ok());
  // 1,700,000,000 s is the clock's start.
  env.insert(R"({"_id":1,"a":{"$date":{"$numberLong":"1699999985000"}}})");  // 15 s old
  env.insert(R"({"_id":2,"a":{"$date":{"$numberLong":"1699999995000"}}})");  // 5 s old
  env.insert(R"({"_id":3,"a":[{"$date":{"$numberLong":"1800000000000"}},{"$date":{"$numberLong":"1600000000000"}}]})");
  env.insert(R"({"_id":4,"a":"1999-01-01"})");
  env.insert(R"({"_id":5,"b":1})");
  env.insert(R"({"_id":6,"a":17})");
  env.insert(R"({"_id":7,"a":{"$date":{"$numberLong":"-62135596800000"}}})");
  env.sweep();
  CHECK(env.count() == 4);  // 2, 4, 5, 6
  env.clock.now_ms += 4'000;
  env.sweep();
  CHECK(env.count() == 4);
  env.clock.now_ms += 2'000;
  env.sweep();
  CHECK(env.count() == 3);
  CHECK(env.host.metrics().value("ttl_deleted_documents_total") == 4);
  CHECK(env.store->check().empty());
}

TEST_CASE("due documents go, also by a date in an array; others stay") {
  expires(R"({"key":{"a":1},"name":"x","expireAfterSeconds":10})");
  expires(R"({"key":{"a":-1},"name":"x","expireAfterSeconds":10})");
}

// Shutdown waits for a call, so a call must be short.
TEST_CASE("a call deletes one batch; the pass goes on at once") {
  Env env;
  CHECK(env.task().interval_ms() == 60'000);
  REQUIRE(env.create_index(R"({"key":{"a":1},"name":"x","expireAfterSeconds":0})").ok());
  for (int i = 0; i < 1201; ++i) {
    DocumentBuilder b;
    b.append("_id", i);
    b.append_date_ms("a", env.clock.now_ms - 1000);
    const OwnedDocument document = std::move(b).finish();
    auto writer = env.store->write("db.c", true);
    REQUIRE((*writer)->insert(document.view()));
  }
  REQUIRE(env.task().run(*env.store).ok());
  CHECK(env.count() == 701);
  CHECK(env.task().interval_ms() == 0);
  // What comes in behind the sweep's position waits for the next pass.
  env.insert(R"({"_id":"late","a":{"$date":{"$numberLong":"1600000000000"}}})");
  env.sweep();
  CHECK(env.count() == 1);
  CHECK(env.task().interval_ms() == 60'000);
  env.sweep();
  CHECK(env.count() == 0);
  CHECK(env.host.metrics().value("ttl_passes_total") == 2);
}

TEST_CASE("an index or collection that is dropped during a pass") {
  Env env;
  REQUIRE(env.create_index(R"({"key":{"a":1},"name":"x","expireAfterSeconds":0})").ok());
  for (int i = 0; i < 600; ++i) {
    DocumentBuilder b;
    b.append("_id", i);
    b.append_date_ms("a", env.clock.now_ms - 1000);
    const OwnedDocument document = std::move(b).finish();
    auto writer = env.store->write("db.c", true);
    REQUIRE((*writer)->insert(document.view()));
  }
  REQUIRE(env.task().run(*env.store).ok());
  REQUIRE(env.store->drop_index("db.c", "x"));
  env.sweep();
  CHECK(env.count() == 100);
  REQUIRE(env.create_index(R"({"key":{"a":1},"name":"x","expireAfterSeconds":3600})").ok());
  env.sweep();
  CHECK(env.count() == 100);
  REQUIRE(env.store->drop_collection("db.c"));
  env.sweep();
}

}  // namespace
}  // namespace multifora
