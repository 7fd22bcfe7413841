// Capped collections: conversion in place beside writers, and what they keep.
#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "core/base/interrupt.h"
#include "core/bson/builder.h"
#include "core/plugin/host.h"
#include "core/store/store.h"
#include "tests/plugins/reference/index-plain/plain_index.h"
#include "tests/support/fault_file_system.h"

namespace multifora {
namespace {

struct Env {
  Env() : files(1), interrupt(system_clock()) {
    REQUIRE(host.add_index_kind(&kPlainIndex).ok());
    host.freeze();
    open();
  }
  void open() {
    StoreOptions options;
    options.path = "/db";
    options.memory_budget_bytes = 256u << 20;
    options.checkpoint_interval_ms = 1'000'000;
    auto opened = Store::open(options, host, files, nullptr);
    REQUIRE(opened);
    store = std::move(*opened);
  }
  void crash() {
    REQUIRE(store->wait_durable(store->last_position()).ok());
    files.crash();
    store.reset();
    open();
  }
  Status insert(int id, std::size_t padding = 0) {
    DocumentBuilder b;
    b.append("_id", id).append("k", id);
    if (padding > 0) b.append("pad", std::string(padding, 'x'));
    const OwnedDocument document = std::move(b).finish();
    MULTIFORA_ASSIGN(const auto writer, store->write("db.c", true));
    MULTIFORA_TRY(status_of(writer->insert(document.view())));
    return status_of(writer->commit());
  }
  Result<LogPosition> convert(std::int64_t size, std::int64_t max = 0) {
    return store->convert_to_capped("db.c", size, max, interrupt);
  }
  std::vector<int> ids() {
    std::vector<int> found;
    const auto view = store->read("db.c");
    const auto cursor = (*view)->scan(false);
    while (*cursor->next()) found.push_back(cursor->document()["_id"].as_int32());
    return found;
  }
  void check() {
    const auto errors = store->check();
    for (const std::string& error : errors) MESSAGE(error);
    CHECK(errors.empty());
  }

  PluginHost host;
  FaultFileSystem files;
  Interrupt interrupt;
  std::unique_ptr<Store> store;
};

TEST_CASE("conversion keeps the newest documents and drops secondary indexes") {
  Env env;
  for (int i = 0; i < 2500; ++i) REQUIRE(env.insert(i).ok());
  DocumentBuilder spec;
  spec.object("key").append("k", 1);
  spec.append("name", "k_1");
  const OwnedDocument wanted = std::move(spec).finish();
  REQUIRE(env.store->create_indexes("db.c", {wanted.view()}, env.interrupt));
  REQUIRE(env.convert(1 << 20, 3));
  CHECK(env.ids() == std::vector<int>{2497, 2498, 2499});
  const auto info = env.store->info("db.c");
  CHECK(info->capped);
  CHECK(info->capped_size_bytes == 1 << 20);
  CHECK(env.store->index_specs("db.c")->size() == 1);
  env.check();
  env.crash();
  CHECK(env.ids() == std::vector<int>{2497, 2498, 2499});
  CHECK(env.store->info("db.c")->capped);
  CHECK(env.store->index_specs("db.c")->size() == 1);
  REQUIRE(env.insert(2500).ok());
  CHECK(env.ids() == std::vector<int>{2498, 2499, 2500});
  env.check();
}

TEST_CASE("conversion by size; what cannot be converted") {
  Env env;
  CHECK(env.convert(1000).error().code() == ErrorCode::kNamespaceNotFound);
  for (int i = 0; i < 20; ++i) REQUIRE(env.insert(i, 100).ok());
  const std::uint64_t one = env.store->collection_stats("db.c")->data_bytes / 20;
  REQUIRE(env.convert(static_cast<std::int64_t>(5 * one)));
  CHECK(env.ids() == std::vector<int>{15, 16, 17, 18, 19});

  DocumentBuilder view;
  view.append("viewOn", "c");
  view.array("pipeline");
  const OwnedDocument options = std::move(view).finish();
  REQUIRE(env.store->create_collection("db.v", options.view()));
  CHECK(env.store->convert_to_capped("db.v", 1000, 0, env.interrupt).error().code() ==
        ErrorCode::kCommandNotSupportedOnView);
}

TEST_CASE("writes made during a conversion are there afterwards") {
  Env env;
  REQUIRE(env.insert(0).ok());
  constexpr int kThreads = 2, kEach = 1500;
  std::atomic<int> running{kThreads};
  std::atomic<bool> good{true};
  std::vector<std::thread> writers;
  for (int t = 0; t < kThreads; ++t)
    writers.emplace_back([&, t] {
      for (int i = 1; i <= kEach; ++i)
        if (!env.insert(t * kEach + i).ok()) good = false;
      --running;
    });
  int conversions = 0;
  do {
    if (!env.convert(64 << 20)) good = false;
    ++conversions;
  } while (running > 0);
  for (std::thread& writer : writers) writer.join();
  MESSAGE(conversions << " conversions");
  CHECK(good);
  CHECK(env.ids().size() == kThreads * kEach + 1);
  CHECK(env.store->collections("db").size() == 1);
  env.check();
}

TEST_CASE("an insert that fails costs a full capped collection nothing") {
  Env env;
  for (int i = 0; i < 5; ++i) REQUIRE(env.insert(i).ok());
  REQUIRE(env.convert(1 << 20, 5));
  CHECK(env.insert(3).code() == ErrorCode::kDuplicateKey);
  CHECK(env.ids() == std::vector<int>{0, 1, 2, 3, 4});
  REQUIRE(env.insert(5).ok());
  CHECK(env.ids() == std::vector<int>{1, 2, 3, 4, 5});
}

TEST_CASE("temporary collections are gone after a restart, unless they were renamed") {
  Env env;
  DocumentBuilder builder;
  builder.append("temp", true);
  const OwnedDocument temp = std::move(builder).finish();
  REQUIRE(env.store->create_collection("db.t1", temp.view()));
  REQUIRE(env.store->create_collection("db.t2", temp.view()));
  REQUIRE(env.insert(0).ok());
  REQUIRE(env.store->rename_collection("db.t2", "db.kept", false));
  env.crash();
  CHECK(env.store->info("db.t1") == nullptr);
  CHECK(env.store->info("db.t2") == nullptr);
  REQUIRE(env.store->info("db.kept") != nullptr);
  CHECK(env.store->info("db.kept")->options.view().empty());
  CHECK(env.ids() == std::vector<int>{0});
  env.check();
}

TEST_CASE("statistics beside changes of the catalog") {
  Env env;
  REQUIRE(env.insert(0).ok());
  std::atomic<bool> done{false};
  std::thread reader([&] {
    while (!done) {
      const StoreStats stats = env.store->stats();
      if (stats.collections > 2) done = true;
    }
  });
  DocumentBuilder spec;
  spec.object("key").append("k", 1);
  spec.append("name", "k_1");
  const OwnedDocument wanted = std::move(spec).finish();
  for (int i = 0; i < 50; ++i) {
    REQUIRE(env.store->create_indexes("db.c", {wanted.view()}, env.interrupt));
    REQUIRE(env.store->drop_index("db.c", "k_1"));
    REQUIRE(env.store->rename_collection("db.c", "db.d", false));
    REQUIRE(env.store->rename_collection("db.d", "db.c", false));
  }
  CHECK_FALSE(done.exchange(true));
  reader.join();
}

}  // namespace
}  // namespace multifora
