// Index builds: what writers, drops, cancellation, duplicates and crashes do to them at each of their
// phases. The log's lines, which a build writes between its phases and without a lock, are the hooks.
#include <doctest/doctest.h>

#include <atomic>
#include <functional>
#include <map>
#include <random>
#include <thread>

#include "core/base/interrupt.h"
#include "core/bson/builder.h"
#include "core/plugin/host.h"
#include "core/store/store.h"
#include "tests/plugins/reference/index-plain/plain_index.h"
#include "tests/support/fault_file_system.h"

namespace multifora {
namespace {

constexpr std::string_view kScanned = "Index build: collection scan done";
constexpr std::string_view kWritten = "Index build: keys sorted and written";

class HookLog final : public LogSink {
 public:
  bool wants(LogLevel) const override { return true; }
  void event(LogLevel, std::string_view, std::string_view message,
             std::initializer_list<LogField>) override {
    const auto at = hooks.find(message);
    if (at == hooks.end()) return;
    const std::function<void()> hook = std::exchange(at->second, nullptr);
    if (hook) hook();
  }
  std::map<std::string, std::function<void()>, std::less<>> hooks;
};

OwnedDocument make_document(int id, int k) {
  DocumentBuilder b;
  b.append("_id", id).append("k", k).append("l", -k);
  return std::move(b).finish();
}

OwnedDocument spec_of(std::string_view field, bool unique = false) {
  DocumentBuilder b;
  b.object("key").append(field, 1);
  b.append("name", std::string(field) + "_1");
  if (unique) b.append("unique", true);
  return std::move(b).finish();
}

Result<RecordId> insert(CollectionWriter& writer, const OwnedDocument& document) {
  return writer.insert(document.view());
}

struct Env {
  Env() : files(1) {
    host.set_log(&log);
    REQUIRE(host.add_index_kind(&kPlainIndex).ok());
    host.freeze();
    options.path = "/db";
    options.memory_budget_bytes = 256u << 20;
    options.checkpoint_interval_ms = 1'000'000;
    open();
  }
  void open() {
    OpenReport report;
    auto opened = Store::open(options, host, files, &report);
    REQUIRE_MESSAGE(opened, opened.error().message());
    store = std::move(*opened);
  }
  void crash() {
    files.crash();
    store.reset();
    open();
  }
  void check() {
    const auto errors = store->check();
    for (const std::string& error : errors) MESSAGE(error);
    CHECK(errors.empty());
  }
  void fill(int count) {
    auto writer = store->write("a.c", true);
    REQUIRE(writer);
    for (int i = 0; i < count; ++i) REQUIRE(insert(**writer, make_document(i, i)));
    const auto position = (*writer)->commit();
    REQUIRE(position);
    REQUIRE(store->wait_durable(*position).ok());
  }
  // Inserts (k >= 0), or removes.
  void put(int id, int k) {
    auto writer = store->write("a.c", false);
    REQUIRE(writer);
    const OwnedDocument document = make_document(id, k);
    const RecordId at = *(*writer)->view().find_id(document.view()["_id"]);
    if (at == 0) {
      REQUIRE((*writer)->insert(document.view()));
    } else {
      const OwnedDocument before(**(*writer)->view().find(at));
      if (k >= 0)
        REQUIRE((*writer)->update(at, before.view(), document.view()).ok());
      else
        REQUIRE((*writer)->remove(at, before.view()).ok());
    }
    REQUIRE((*writer)->commit());
  }
  Result<IndexBuildResult> build(const std::vector<OwnedDocument>& specs) {
    std::vector<DocumentView> views;
    for (const OwnedDocument& spec : specs) views.push_back(spec.view());
    return store->create_indexes("a.c", views, interrupt);
  }
  std::size_t indexes() { return store->index_specs("a.c")->size(); }
  std::uint64_t entries(std::size_t index) {
    return store->collection_stats("a.c")->indexes.at(index).entries;
  }

  HookLog log;
  PluginHost host;
  FaultFileSystem files;
  StoreOptions options;
  Interrupt interrupt{system_clock()};
  std::unique_ptr<Store> store;
};

TEST_CASE("a build takes in what is written after its scan and after its keys") {
  for (const std::string_view phase : {kScanned, kWritten}) {
    Env env;
    env.fill(3000);
    env.log.hooks[std::string(phase)] = [&] {
      for (int i = 0; i < 600; ++i) env.put(i * 7 % 3500, i % 5 == 0 ? -1 : i);
      // Pages of the build are in no image, and go on being changed after it.
      REQUIRE(env.store->checkpoint().ok());
      for (int i = 0; i < 600; ++i) env.put(i * 11 % 3700, i % 6 == 0 ? -1 : i + 10'000);
    };
    const auto built = env.build({spec_of("k"), spec_of("l")});
    REQUIRE_MESSAGE(built, built.error().message());
    CHECK(built->indexes_after == 3);
    REQUIRE(env.store->wait_durable(built->position).ok());
    CHECK(env.entries(1) == env.entries(0));
    CHECK(env.entries(2) == env.entries(0));
    env.check();
    env.put(5, 5);
    env.check();
    env.crash();
    CHECK(env.indexes() == 3);
    env.check();
  }
}

TEST_CASE("writers, readers and checkpoints beside builds and drops") {
  Env env;
  env.fill(4000);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      while (!stop) {
        const int id = static_cast<int>(random() % 5000) * 2 + t;
        auto writer = env.store->write("a.c", false);
        const OwnedDocument document = make_document(id, static_cast<int>(random() % 1000));
        const RecordId at = *(*writer)->view().find_id(document.view()["_id"]);
        bool ok = true;
        if (at == 0) {
          ok = (*writer)->insert(document.view()).has_value();
        } else {
          const OwnedDocument before(**(*writer)->view().find(at));
          ok = (random() % 3 == 0 ? (*writer)->remove(at, before.view())
                                  : (*writer)->update(at, before.view(), document.view()))
                   .ok();
        }
        if (!ok || !(*writer)->commit()) std::abort();
      }
    });
  threads.emplace_back([&] {
    while (!stop) {
      const auto view = env.store->read("a.c");
      const auto cursor = (*view)->scan(false);
      for (int i = 0; i < 500; ++i)
        if (!*cursor->next()) break;
      static_cast<void>((*view)->indexes());
      static_cast<void>(env.store->stats());
      static_cast<void>(env.store->index_builds());
      if (!env.store->checkpoint().ok()) std::abort();
    }
  });
  for (int round = 0; round < 6; ++round) {
    const auto built = env.build({spec_of("k"), spec_of("l")});
    REQUIRE_MESSAGE(built, built.error().message());
    if (round == 5) break;
    REQUIRE(env.store->drop_index("a.c", "k_1"));
    REQUIRE(env.store->drop_index("a.c", "l_1"));
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(env.entries(1) == env.entries(0));
  env.check();
  env.crash();
  env.check();
}

TEST_CASE("duplicates fail a unique build, name key and index, and leave nothing") {
  Env env;
  env.fill(500);
  env.put(1000, 77);
  // The first index of the command is complete when the second fails.
  const auto built = env.build({spec_of("l"), spec_of("k", true)});
  REQUIRE(!built);
  CHECK(built.error().code() == ErrorCode::kDuplicateKey);
  CAPTURE(built.error().message());
  CHECK(built.error().message().find("E11000 duplicate key error collection: a.c index: k_1 dup key: "
                                     "{ k: ") != std::string::npos);
  const DocumentView extra = DocumentView::assume_valid(Bytes(built.error().extra()));
  CHECK(extra["keyPattern"].as_document()["k"].as_int32() == 1);
  CHECK(extra["keyValue"].as_document().first().name() == "k");
  CHECK(env.indexes() == 1);
  CHECK(env.store->index_builds().empty());
  env.check();
  REQUIRE(env.store->checkpoint().ok());
  env.crash();
  env.check();
}

TEST_CASE("only clashes that are left at the end of a build count") {
  struct Case {
    int before;          // k of a clashing document before the build; -1: none
    int during_first, during_then;
    bool fails;
  };
  for (const Case& c : {Case{77, -1, -1, false}, Case{77, 77, 77, true}, Case{-1, 5, -1, false},
                        Case{-1, 5, 5, true}, Case{77, 2000, 77, true}, Case{77, 5, 2000, false}}) {
    for (const std::string_view phase : {kScanned, kWritten}) {
      CAPTURE(c.before);
      CAPTURE(c.during_first);
      CAPTURE(c.during_then);
      Env env;
      env.fill(500);
      if (c.before >= 0) env.put(1000, c.before);
      env.log.hooks[std::string(phase)] = [&] {
        const auto change = [&](int k) {
          if (k >= 0 || env.store->collection_stats("a.c")->count > 500) env.put(1000, k);
        };
        change(c.during_first);
        change(c.during_then);
      };
      const auto built = env.build({spec_of("k", true)});
      CHECK(built.has_value() != c.fails);
      if (c.fails) CHECK(built.error().code() == ErrorCode::kDuplicateKey);
      CHECK(env.indexes() == (c.fails ? 1 : 2));
      env.check();
      if (c.fails) continue;
      auto writer = env.store->write("a.c", false);
      CHECK(insert(**writer, make_document(5000, 6)).error().code() == ErrorCode::kDuplicateKey);
    }
  }
}

TEST_CASE("many clashes end a build before its end") {
  Env env;
  env.fill(1000);
  {
    auto writer = env.store->write("a.c", false);
    for (int i = 0; i < 1000; ++i) REQUIRE(insert(**writer, make_document(2000 + i, i)));
    REQUIRE((*writer)->commit());
  }
  CHECK(env.build({spec_of("k", true)}).error().code() == ErrorCode::kDuplicateKey);
  env.check();
}

// Checked where a build was ended before its end.
void check_nothing_left(Env& env) {
  CHECK(env.store->index_builds().empty());
  env.check();
  REQUIRE(env.store->checkpoint().ok());
  env.crash();
  env.check();
}

TEST_CASE("a build that is killed leaves the collection as it was") {
  for (const std::string_view phase : {kScanned, kWritten}) {
    Env env;
    env.fill(2000);
    env.log.hooks[std::string(phase)] = [&] { env.interrupt.kill(ErrorCode::kInterrupted); };
    CHECK(env.build({spec_of("k")}).error().code() == ErrorCode::kInterrupted);
    CHECK(env.indexes() == 1);
    check_nothing_left(env);
  }
}

TEST_CASE("a build is stopped by the names of all its indexes") {
  for (const std::string_view phase : {kScanned, kWritten}) {
    Env env;
    env.fill(2000);
    std::thread other;
    env.log.hooks[std::string(phase)] = [&] {
      REQUIRE(env.store->index_builds().size() == 1);
      CHECK(env.store->index_builds()[0].names == std::vector<std::string>{"k_1", "l_1"});
      CHECK(env.store->abort_index_builds("a.c", {"k_1"}, "test") == 0);
      CHECK(env.store->abort_index_builds("a.d", {}, "test") == 0);
      other = std::thread(
          [&] { CHECK(env.store->abort_index_builds("a.c", {"l_1", "k_1"}, "test") == 1); });
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    };
    const auto built = env.build({spec_of("k"), spec_of("l")});
    other.join();
    REQUIRE(!built);
    CHECK(built.error().code() == ErrorCode::kIndexBuildAborted);
    CHECK(built.error().message().find("test") != std::string::npos);
    CHECK(env.indexes() == 1);
    check_nothing_left(env);
  }
}

TEST_CASE("who asks for an index that is being built waits for it") {
  for (const bool fails : {false, true}) {
    CAPTURE(fails);
    Env env;
    env.fill(2000);
    std::thread other;
    std::atomic<bool> answered{false};
    env.log.hooks[std::string(kScanned)] = [&] {
      other = std::thread([&] {
        Interrupt interrupt(system_clock());
        const OwnedDocument same = spec_of("k");
        const OwnedDocument more = spec_of("l");
        const auto built = env.store->create_indexes("a.c", {same.view(), more.view()}, interrupt);
        answered = true;
        REQUIRE_MESSAGE(built, built.error().message());
        CHECK(built->indexes_after == 3);
      });
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      CHECK(!answered);
      if (fails) env.interrupt.kill(ErrorCode::kInterrupted);
    };
    CHECK(env.build({spec_of("k")}).has_value() == !fails);
    other.join();
    CHECK(env.indexes() == 3);
    env.check();
  }
}

TEST_CASE("waiting for somebody else's index build can be interrupted") {
  Env env;
  env.fill(2000);
  env.log.hooks[std::string(kScanned)] = [&] {
    Interrupt interrupt(system_clock());
    interrupt.set_deadline_us(system_clock().monotonic_us() + 100'000);
    const OwnedDocument same = spec_of("k");
    const auto built = env.store->create_indexes("a.c", {same.view()}, interrupt);
    REQUIRE(!built);
    CHECK(built.error().code() == ErrorCode::kMaxTimeMSExpired);
  };
  REQUIRE(env.build({spec_of("k")}));
  CHECK(env.indexes() == 2);
}

TEST_CASE("dropping a collection or its database ends its builds") {
  for (const std::string_view phase : {kScanned, kWritten}) {
    for (const bool database : {false, true}) {
      Env env;
      env.fill(2000);
      std::thread other;
      env.log.hooks[std::string(phase)] = [&] {
        other = std::thread([&] {
          CHECK((database ? env.store->drop_database("a") : env.store->drop_collection("a.c")));
        });
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
      };
      const auto built = env.build({spec_of("k")});
      other.join();
      REQUIRE(!built);
      CHECK(built.error().code() == ErrorCode::kIndexBuildAborted);
      CHECK(!env.store->info("a.c"));
      check_nothing_left(env);
    }
  }
}

TEST_CASE("a crash during a build leaves no trace of it; after its acknowledgement the index is there") {
  for (const std::string_view phase : {kScanned, kWritten}) {
    Env env;
    env.fill(2000);
    env.log.hooks[std::string(phase)] = [&] {
      for (int i = 0; i < 50; ++i) env.put(i, 9000 + i);
      REQUIRE(env.store->checkpoint().ok());
      env.files.power_cut_after(1);
    };
    const auto built = env.build({spec_of("k")});
    const bool acknowledged = built && env.store->wait_durable(built->position).ok();
    CHECK_FALSE(acknowledged);
    env.crash();
    CHECK(env.indexes() == 1);
    CHECK(env.entries(0) == 2000);
    env.check();
    const auto again = env.build({spec_of("k")});
    REQUIRE(again);
    REQUIRE(env.store->wait_durable(again->position).ok());
    env.crash();
    CHECK(env.indexes() == 2);
    CHECK(env.entries(1) == 2000);
    env.check();
  }
}

TEST_CASE("a full disk fails a build and nothing else") {
  Env env;
  env.fill(20'000);
  env.log.hooks[std::string(kScanned)] = [&] { env.files.set_capacity(1); };
  // What is left in the file may be enough for small trees.
  Status status;
  for (int i = 0; i < 40 && status.ok(); ++i) {
    const auto built = env.build({spec_of("k"), spec_of("l")});
    if (!built) status = built.error();
    if (status.ok()) {
      REQUIRE(env.store->drop_index("a.c", "k_1"));
      REQUIRE(env.store->drop_index("a.c", "l_1"));
    }
    env.log.hooks[std::string(kScanned)] = [&] { env.files.set_capacity(1); };
  }
  CHECK(status.code() == ErrorCode::kOutOfDiskSpace);
  CHECK(env.indexes() == 1);
  env.check();
  env.log.hooks.clear();
  env.files.set_capacity(std::uint64_t{1} << 40);
  REQUIRE(env.build({spec_of("k"), spec_of("l")}));
  env.check();
}

TEST_CASE("the progress of a build, phase by phase") {
  Env env;
  env.fill(1000);
  std::vector<std::string> phases;
  const auto look = [&] {
    const auto builds = env.store->index_builds();
    REQUIRE(builds.size() == 1);
    CHECK(builds[0].ns == "a.c");
    CHECK(builds[0].specs.size() == 1);
    CHECK(builds[0].total == 1000);
    CHECK(builds[0].done == 1000);
    phases.push_back(builds[0].phase);
  };
  env.log.hooks[std::string(kScanned)] = look;
  CHECK(env.build({spec_of("k")}));
  CHECK(phases == std::vector<std::string>{"Index Build: scanning collection"});
}

}  // namespace
}  // namespace multifora
