// Writers that outrun checkpoints, on a disk whose syncs the test slows down or stops.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <random>
#include <thread>

#include "core/base/interrupt.h"
#include "core/bson/builder.h"
#include "core/plugin/host.h"
#include "core/store/store.h"
#include "core/store/write_pacer.h"
#include "tests/plugins/reference/index-plain/plain_index.h"
#include "tests/support/fault_file_system.h"
#include "tests/support/forwarding_files.h"

namespace multifora {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// What a sync has to wait for: a time, or until the test opens the valve.
class Valve {
 public:
  void set_delay(milliseconds delay) { delay_ms_ = delay.count(); }
  void close() {
    const std::lock_guard hold(mutex_);
    closed_ = true;
  }
  void open() {
    const std::lock_guard hold(mutex_);
    closed_ = false;
    changed_.notify_all();
  }
  bool reached() const { return reached_; }
  void pass() {
    if (delay_ms_ > 0) std::this_thread::sleep_for(milliseconds(delay_ms_));
    std::unique_lock hold(mutex_);
    if (closed_) reached_ = true;
    changed_.wait(hold, [&] { return !closed_; });
  }

 private:
  std::atomic<std::int64_t> delay_ms_{0};
  std::atomic<bool> reached_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool closed_ = false;
};

// Syncs of ranges, which are of documents that the log refers to, are as fast as ever.
class SlowFile final : public test::ForwardingFile {
 public:
  SlowFile(std::unique_ptr<File> file, Valve& valve) : ForwardingFile(std::move(file)), valve_(valve) {}
  Status sync() override {
    valve_.pass();
    return ForwardingFile::sync();
  }

 private:
  Valve& valve_;
};

// Syncs of files whose path contains `part` pass the valve.
class SlowFiles final : public test::ForwardingFileSystem {
 public:
  SlowFiles(FileSystem& files, std::string part)
      : ForwardingFileSystem(files), part_(std::move(part)) {}
  Valve valve;

  Result<std::unique_ptr<File>> open(const std::string& path, OpenMode mode) override {
    MULTIFORA_ASSIGN_R(std::unique_ptr<File> file, ForwardingFileSystem::open(path, mode));
    if (path.find(part_) == std::string::npos) return file;
    return std::unique_ptr<File>(std::make_unique<SlowFile>(std::move(file), valve));
  }

 private:
  const std::string part_;
};

constexpr int kDocuments = 1500;
constexpr std::size_t kDocumentBytes = 16 * 1024;

OwnedDocument make_document(int id, int version) {
  const std::string text(kDocumentBytes - 64, static_cast<char>('a' + (id + version) % 26));
  DocumentBuilder b;
  b.append("_id", id).append("v", version).append("text", text);
  return std::move(b).finish();
}

struct Env {
  explicit Env(std::string slow_part) : files(disk, std::move(slow_part)) {
    REQUIRE(host.add_index_kind(&kPlainIndex).ok());
    host.freeze();
    options.path = "/db";
    options.memory_budget_bytes = 1u << 30;
    options.checkpoint_interval_ms = 1'000'000;
    auto opened = Store::open(options, host, files, nullptr);
    REQUIRE(opened);
    store = std::move(*opened);
  }
  Status load() {
    for (int id = 0; id < kDocuments;) {
      MULTIFORA_ASSIGN(auto writer, store->write("a.b", true));
      for (const int end = std::min(kDocuments, id + 50); id < end; ++id) {
        const OwnedDocument document = make_document(id, 0);
        MULTIFORA_TRY(status_of(writer->insert(document.view())));
      }
      MULTIFORA_TRY(status_of(writer->commit()));
    }
    return store->checkpoint();
  }
  // Replaces the document that has the same _id.
  Status replace(DocumentView document) {
    MULTIFORA_ASSIGN(auto writer, store->write("a.b", false));
    MULTIFORA_ASSIGN(const RecordId at, writer->view().find_id(document["_id"]));
    MULTIFORA_ASSIGN(const std::optional<DocumentView> found, writer->view().find(at));
    REQUIRE(found.has_value());
    const OwnedDocument before(*found);
    MULTIFORA_TRY(writer->update(at, before.view(), document));
    return status_of(writer->commit());
  }
  // `count` random replacements in each of some threads; the longest that one took.
  milliseconds churn(int threads, int count, const std::atomic<bool>* stop = nullptr) {
    std::atomic<std::int64_t> longest_ms{0};
    std::atomic<int> failures{0};
    std::vector<std::thread> all;
    for (int t = 0; t < threads; ++t) {
      all.emplace_back([&, t] {
        std::mt19937 random(static_cast<unsigned>(t) + 1);
        OwnedDocument document;
        for (int i = 0; i < count && (stop == nullptr || !*stop); ++i) {
          const int id = static_cast<int>(random() % kDocuments);
          document = make_document(id, i);
          const auto start = steady_clock::now();
          failures += replace(document.view()).ok() ? 0 : 1;
          const auto took = std::chrono::duration_cast<milliseconds>(steady_clock::now() - start);
          for (std::int64_t seen = longest_ms;
               seen < took.count() && !longest_ms.compare_exchange_weak(seen, took.count());) {
          }
        }
      });
    }
    for (std::thread& thread : all) thread.join();
    CHECK(failures == 0);
    return milliseconds(longest_ms);
  }
  void close() {
    CHECK(store->check().empty());
    CHECK(store->close().ok());
  }

  FaultFileSystem disk{1};
  SlowFiles files;
  PluginHost host;
  StoreOptions options;
  std::unique_ptr<Store> store;
};

TEST_CASE("pressure: the file cannot outgrow slow checkpoints") {
  Env env("data.mfdb");
  REQUIRE(env.load().ok());
  const std::uint64_t before = env.store->stats().data_file_bytes;
  env.files.valve.set_delay(milliseconds(150));
  env.churn(4, 2000);  // 130 MB on 24 MB
  env.files.valve.set_delay(milliseconds(0));
  MESSAGE("from " << before << " bytes to " << env.store->stats().data_file_bytes);
  // Twice what may wait, a tenth in holes, what the writers take while they wait, and a growth step.
  CHECK(env.store->stats().data_file_bytes < before + (56u << 20));
  env.close();
}

TEST_CASE("pressure: a checkpoint that hangs makes each wait short, and no deadlock") {
  Env env("data.mfdb");
  REQUIRE(env.load().ok());
  env.files.valve.close();
  std::atomic<bool> stop{false};
  milliseconds longest{0};
  std::thread writers([&] { longest = env.churn(48, 1'000'000, &stop); });
  while (!env.files.valve.reached()) std::this_thread::sleep_for(milliseconds(1));
  std::this_thread::sleep_for(milliseconds(1000));
  const std::uint64_t then = env.store->stats().data_file_bytes;
  std::this_thread::sleep_for(milliseconds(500));
  // Writers are slow by now, whatever the machine: some MB a second.
  CHECK(env.store->stats().data_file_bytes < then + (24u << 20));
  // Readers and the look at the store never wait.
  CHECK(env.store->read("a.b"));
  stop = true;
  writers.join();
  CHECK(longest < milliseconds(1500));  // 48 turns, on a busy machine
  env.files.valve.open();
  env.close();
}

TEST_CASE("pressure: writing the history holds up no checkpoint, and what it needs stays") {
  Env env("/history/");
  REQUIRE(env.load().ok());
  const std::uint64_t before = env.store->stats().checkpoints;
  env.files.valve.close();
  std::atomic<bool> stop{false};
  std::thread writers([&] { env.churn(2, 1'000'000, &stop); });
  const auto limit = steady_clock::now() + std::chrono::seconds(60);
  while (steady_clock::now() < limit &&
         (!env.files.valve.reached() || env.store->stats().checkpoints < before + 4))
    std::this_thread::sleep_for(milliseconds(5));
  CHECK(env.files.valve.reached());
  CHECK(env.store->stats().checkpoints >= before + 4);
  stop = true;
  writers.join();
  env.files.valve.open();
  env.close();
}

TEST_CASE("pressure: an interrupt ends one wait, a failure of the store all of them") {
  Env env("data.mfdb");
  REQUIRE(env.load().ok());
  env.files.valve.close();
  std::vector<std::thread> writers;
  for (int t = 0; t < 48; ++t) {
    writers.emplace_back([&, t] {
      Status status;
      OwnedDocument document;
      for (int i = 0; status.ok(); ++i) {
        document = make_document((t * 31 + i) % kDocuments, i);
        status = env.replace(document.view());
      }
    });
  }
  while (!env.files.valve.reached()) std::this_thread::sleep_for(milliseconds(1));
  std::this_thread::sleep_for(milliseconds(1000));
  const StoreStats stats = env.store->stats();
  CHECK(stats.held_back_now > 16);  // the others may be through just now, on a busy machine
  CHECK(stats.held_back_writers > 48);
  CHECK(stats.held_back_us > 1'000'000);
  // All that are before it would take 200 ms.
  Interrupt late(system_clock());
  late.set_deadline_us(system_clock().monotonic_us() + 5'000);
  const auto refused = env.store->write("a.b", false, &late);
  REQUIRE(!refused);
  CHECK(refused.error().code() == ErrorCode::kMaxTimeMSExpired);
  // All writes from here on: a single one may be the making of a segment, which ends nothing.
  env.disk.fail(FaultFileSystem::Operation::kWrite, 1, FaultFileSystem::Failure::kInputOutput, "/wal/", true);
  for (std::thread& thread : writers) thread.join();
  const OwnedDocument document = make_document(1, 1);
  CHECK(!env.replace(document.view()).ok());
  CHECK(env.store->stats().held_back_now == 0);
  env.files.valve.open();
}

}  // namespace
}  // namespace multifora
