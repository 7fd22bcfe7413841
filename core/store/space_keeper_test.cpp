// Space comes back: by compact, by the background, beside writers, through crashes.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
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

struct Space {
  explicit Space(std::uint64_t seed = 1) : files(seed), random(seed) {
    REQUIRE(host.add_index_kind(&kPlainIndex).ok());
    host.freeze();
    options.path = "/db";
    options.memory_budget_bytes = 256u << 20;
    options.checkpoint_interval_ms = 1'000'000;
    options.space_patience_ms = 1'000'000;
  }
  Status open() {
    store.reset();
    auto opened = Store::open(options, host, files, nullptr);
    if (!opened) return opened.error();
    store = std::move(*opened);
    return {};
  }

  static OwnedDocument document(int id, int version, std::size_t size) {
    DocumentBuilder b;
    b.append("_id", id).append("v", version);
    b.append("pad", std::string(size, static_cast<char>('a' + (id + version) % 26)));
    return std::move(b).finish();
  }
  // Only what was acknowledged goes into the model; `pending` is what a crash may keep or not.
  Status put(const std::string& ns, int id, std::size_t size) {
    MULTIFORA_ASSIGN(auto writer, store->write(ns, true));
    const int version = ++versions;
    const OwnedDocument next = document(id, version, size);
    MULTIFORA_ASSIGN(const RecordId record, writer->view().find_id(next.view()["_id"]));
    if (record == 0) {
      MULTIFORA_TRY(status_of(writer->insert(next.view())));
    } else {
      MULTIFORA_ASSIGN(const auto before, writer->view().find(record));
      MULTIFORA_TRY(writer->update(record, *before, next.view()));
    }
    MULTIFORA_ASSIGN(const LogPosition position, writer->commit());
    MULTIFORA_TRY(store->wait_durable(position));
    rows_of(ns)[id] = {version, size};
    return {};
  }
  Status remove(const std::string& ns, int id) {
    MULTIFORA_ASSIGN(auto writer, store->write(ns, true));
    const OwnedDocument key = document(id, 0, 0);
    MULTIFORA_ASSIGN(const RecordId record, writer->view().find_id(key.view()["_id"]));
    MULTIFORA_ASSIGN(const auto before, writer->view().find(record));
    MULTIFORA_TRY(writer->remove(record, *before));
    MULTIFORA_ASSIGN(const LogPosition position, writer->commit());
    MULTIFORA_TRY(store->wait_durable(position));
    rows_of(ns).erase(id);
    return {};
  }
  // A collection's rows are its writer's alone; the map of them is shared.
  std::map<int, std::pair<int, std::size_t>>& rows_of(const std::string& ns) {
    const std::lock_guard hold(model_mutex);
    return model[ns];
  }
  void load(const std::string& ns, int count, std::size_t size) {
    for (int id = 0; id < count; ++id) REQUIRE(put(ns, id, size).ok());
  }
  void remove_share(const std::string& ns, unsigned percent) {
    const auto all = model[ns];
    for (const auto& [id, row] : all)
      if (random() % 100 < percent) REQUIRE(remove(ns, id).ok());
  }
  void verify() {
    for (const auto& [ns, rows] : model) {
      auto view = store->read(ns);
      REQUIRE(view);
      REQUIRE((*view)->record_count() == rows.size());
      const auto cursor = (*view)->scan(false);
      for (std::size_t n = 0; n < rows.size(); ++n) {
        const auto more = cursor->next();
        REQUIRE_MESSAGE(more, more.error().message());
        REQUIRE(*more);
        const DocumentView found = cursor->document();
        const auto row = rows.find(found["_id"].as_int32());
        REQUIRE(row != rows.end());
        REQUIRE(found.bytes() ==
                document(row->first, row->second.first, row->second.second).bytes());
      }
    }
    const auto errors = store->check();
    CHECK_MESSAGE(errors.empty(), errors[0]);
  }
  std::uint64_t file_bytes() const { return store->stats().data_file_bytes; }
  std::uint64_t live_bytes() {
    std::uint64_t bytes = 0;
    for (const auto& [ns, rows] : model)
      for (const auto& [id, row] : rows) bytes += row.second + 40;
    return bytes;
  }
  Result<std::uint64_t> compact(bool dry_run = false) {
    Interrupt interrupt(host.clock());
    return store->compact(1 << 20, dry_run, interrupt);
  }

  PluginHost host;
  FaultFileSystem files;
  StoreOptions options;
  std::unique_ptr<Store> store;
  std::mt19937_64 random;
  std::atomic<int> versions{0};
  std::mutex model_mutex;
  std::map<std::string, std::map<int, std::pair<int, std::size_t>>> model;
};

TEST_CASE("compact makes the file short, and everything is still there") {
  Space space;
  REQUIRE(space.open().ok());
  space.load("a.large", 1500, 12'000);
  space.load("a.mixed", 800, 3'000);
  for (int n = 0; n < 40; ++n) space.load("a.small" + std::to_string(n), 5, 700);
  REQUIRE(space.put("a.large", 5000, 3'000'000).ok());  // over several chunks
  for (const char* ns : {"a.large", "a.mixed"}) space.remove_share(ns, 90);
  const std::uint64_t before = space.file_bytes();
  const auto estimate = space.compact(true);
  REQUIRE(estimate.has_value());
  CHECK(*estimate > before / 3);
  CHECK(space.file_bytes() == before);
  const auto freed = space.compact();
  REQUIRE_MESSAGE(freed.has_value(), freed.error().message());
  CHECK(space.file_bytes() == before - *freed);
  CHECK(space.file_bytes() < space.live_bytes() * 13 / 10 + (6u << 20));
  space.verify();
  REQUIRE(space.open().ok());
  space.verify();
  space.files.crash();
  REQUIRE(space.open().ok());
  space.verify();
  // A second time there is nothing to do.
  const auto again = space.compact();
  REQUIRE(again.has_value());
  CHECK(*again <= 4u << 20);
}

TEST_CASE("the background empties sparse chunks and gives the end of the file back") {
  Space space;
  space.options.space_patience_ms = 300;
  REQUIRE(space.open().ok());
  space.load("a.c", 13'000, 12'000);  // far more than what the keeper leaves free on purpose
  const std::uint64_t before = space.file_bytes();
  space.remove_share("a.c", 90);
  const std::uint64_t enough = before * 2 / 3;
  for (int i = 0; i < 1200 && space.file_bytes() > enough; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  CHECK(space.file_bytes() <= enough);
  space.verify();
  const auto stats = space.store->collection_stats("a.c");
  REQUIRE(stats.has_value());
  CHECK(stats->storage_bytes < stats->data_bytes * 13 / 10 + (14u << 20));
}

TEST_CASE("compact beside writers loses nothing") {
  Space space;
  REQUIRE(space.open().ok());
  space.load("a.c", 1500, 12'000);
  space.load("a.d", 500, 5'000);
  space.remove_share("a.c", 80);
  std::atomic<bool> stop{false};
  std::thread writer([&] {  // the model is this thread's alone meanwhile
    std::mt19937_64 random(7);
    while (!stop) {
      const std::string ns = random() % 2 == 0 ? "a.c" : "a.d";
      const int id = static_cast<int>(random() % 400);
      if (random() % 3 == 0 && space.model[ns].contains(id))
        REQUIRE(space.remove(ns, id).ok());
      else
        REQUIRE(space.put(ns, id, 200 + random() % 20'000).ok());
    }
  });
  for (int round = 0; round < 3; ++round) {
    const auto freed = space.compact();
    CHECK_MESSAGE(freed.has_value(), freed.error().message());
  }
  stop = true;
  writer.join();
  space.verify();
  space.files.crash();
  REQUIRE(space.open().ok());
  space.verify();
}

TEST_CASE("a power cut at any point of a compaction loses nothing") {
  for (std::uint64_t nth = 1; nth < 400; nth += 37) {
    INFO("after change ", nth);
    Space space(nth);
    REQUIRE(space.open().ok());
    space.load("a.c", 700, 12'000);
    space.remove_share("a.c", 85);
    space.files.power_cut_after(nth);
    static_cast<void>(space.compact());
    space.files.crash();
    REQUIRE(space.open().ok());
    space.verify();
    REQUIRE(space.compact().has_value());
    space.verify();
  }
}

// Each has what it was promised: nobody finds out after its log record that another took it.
TEST_CASE("writers of different collections share the last of a full disk") {
  Space space;
  REQUIRE(space.open().ok());
  for (int n = 0; n < 4; ++n) space.load("a.c" + std::to_string(n), 60, 9'000);
  REQUIRE(space.store->checkpoint().ok());
  space.files.fail(FaultFileSystem::Operation::kAllocate, 1, FaultFileSystem::Failure::kNoSpace,
                   "data.mfdb", true);
  std::vector<std::thread> writers;
  std::atomic<int> refused{0};
  for (int n = 0; n < 4; ++n) {
    writers.emplace_back([&, n] {
      std::mt19937_64 random(static_cast<std::uint64_t>(n));
      const std::string ns = "a.c" + std::to_string(n);
      for (int id = 60; id < 3000; ++id) {
        const Status status = space.put(ns, id, 100 + random() % 20'000);
        if (status.ok()) continue;
        CHECK(status.code() == ErrorCode::kOutOfDiskSpace);
        ++refused;
        break;
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  CHECK(refused == 4);
  CHECK(space.store->health().ok());
  space.verify();
  // Deleting makes room again.
  for (int n = 0; n < 4; ++n) space.remove_share("a.c" + std::to_string(n), 50);
  REQUIRE(space.store->checkpoint().ok());
  CHECK(space.put("a.c0", 9000, 5'000).ok());
  space.files.clear_failures();
  space.verify();
  space.files.crash();
  REQUIRE(space.open().ok());
  space.verify();
}

// Retired space calls for checkpoints by itself: neither log nor time do here.
TEST_CASE("churn does not let the file grow") {
  Space space;
  space.options.checkpoint_log_bytes = std::uint64_t{1} << 40;
  space.options.history_bytes_max = 0;  // its writing makes checkpoints longer; this is about what they free
  REQUIRE(space.open().ok());
  space.load("a.c", 4000, 12'000);
  std::uint64_t largest = 0;
  for (int i = 0; i < 30'000; ++i) {
    REQUIRE(space.put("a.c", static_cast<int>(space.random() % 4000), 1'000 + space.random() % 22'000).ok());
    if (i % 500 == 0) largest = std::max(largest, space.file_bytes());
  }
  const double ratio = static_cast<double>(largest) / static_cast<double>(space.live_bytes());
  MESSAGE("largest file / data = ", ratio);
  // A quarter of what these 48 MB may have more is what a checkpoint is worth, at least.
  CHECK(ratio < 1.6);
  space.verify();
}

}  // namespace
}  // namespace multifora
