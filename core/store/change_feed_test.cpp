// The feed of changes and its history: order, names, restarts, crashes at random places, limits,
// failing disks, and who is woken by what.
#include "core/store/change_feed.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <random>

#include "core/base/interrupt.h"
#include "core/bson/builder.h"
#include "core/bson/patch.h"
#include "core/plugin/host.h"
#include "core/store/log_record.h"
#include "core/store/store.h"
#include "core/store/transaction.h"
#include "tests/plugins/reference/index-plain/plain_index.h"
#include "tests/support/fault_file_system.h"

namespace multifora {
namespace {

OwnedDocument make_document(int id, int version, std::size_t padding = 20) {
  DocumentBuilder b;
  b.append("_id", id).append("v", version);
  b.append("pad", std::string(padding, static_cast<char>('a' + id % 26)));
  return std::move(b).finish();
}

// A change as a test knows it: "i a.c 7 3" is the insert of _id 7, version 3, into a.c.
using Told = std::vector<std::string>;

// The machine's clock, set forwards by the test.
class ShiftedClock final : public Clock {
 public:
  std::int64_t wall_ms() const override { return system_clock().wall_ms() + shift_ms; }
  std::int64_t monotonic_us() const override { return system_clock().monotonic_us(); }
  std::atomic<std::int64_t> shift_ms{0};
};

struct Env {
  explicit Env(std::uint64_t seed = 1) : files(seed) {
    host.set_clock(&clock);
    REQUIRE(host.add_index_kind(&kPlainIndex).ok());
    host.freeze();
    options.path = "/db";
    options.memory_budget_bytes = 256u << 20;
    options.checkpoint_interval_ms = 1'000'000;
  }
  Status open() {
    auto opened = Store::open(options, host, files, nullptr);
    if (!opened) return opened.error();
    store = std::move(*opened);
    return {};
  }
  void must_open() {
    const Status status = open();
    REQUIRE_MESSAGE(status.ok(), status.message());
  }
  void restart() {
    REQUIRE(store->close().ok());
    store.reset();
    must_open();
  }
  void crash() {
    files.crash();
    store.reset();
    must_open();
  }

  // What the feed tells after `from`.
  Told told(LogPosition from, const ChangeInterest& interest = {}) {
    Told all;
    LogPosition reached = 0, last = from;
    const Status status = store->changes().read(from, interest, &reached, [&](const ChangeBatch& b) {
      CHECK(b.position > last);
      last = b.position;
      tell(b, all);
      return true;
    });
    REQUIRE_MESSAGE(status.ok(), status.message());
    CHECK(reached == store->changes().newest());
    return all;
  }

  static void tell(const ChangeBatch& batch, Told& out) {
    LogBatchReader reader(batch.bytes);
    LogRecord record;
    while (true) {
      const auto more = reader.next(&record);
      REQUIRE(more);
      if (!*more) return;
      const std::string ns = batch.names->name(record.collection).ns;
      const auto id = [&] { return std::to_string(record.document["_id"].as_int32()); };
      switch (record.operation) {
        case LogOperation::kInsert:
          out.push_back("i " + ns + " " + id() + " " +
                        std::to_string(record.document["v"].as_int32()));
          break;
        case LogOperation::kUpdate: {
          const auto replaced = patch_replacement(record.patch);
          REQUIRE(replaced);
          if (!replaced->empty()) {
            out.push_back("r " + ns + " " + id());
            break;
          }
          const auto described = describe_patch(record.patch);
          REQUIRE(described);
          out.push_back(
              "u " + ns + " " + id() + " " +
              std::to_string(described->view()["updatedFields"].as_document()["v"].as_int32()));
          break;
        }
        case LogOperation::kDelete:
          out.push_back("d " + ns + " " + id());
          break;
        case LogOperation::kCreate:
          out.push_back("create " + ns);
          break;
        case LogOperation::kDrop:
          out.push_back("drop " + ns);
          break;
        case LogOperation::kRename:
          out.push_back("rename " + ns);
          break;
        default:
          break;
      }
    }
  }

  Status put(std::string_view ns, int id, int version, std::size_t padding = 20) {
    MULTIFORA_ASSIGN(auto writer, store->write(ns, true));
    const OwnedDocument document = make_document(id, version, padding);
    DocumentBuilder key;
    key.append("_id", id);
    const OwnedDocument wanted = std::move(key).finish();
    MULTIFORA_ASSIGN(const RecordId found, writer->view().find_id(wanted.view()["_id"]));
    if (found == 0) {
      MULTIFORA_TRY(status_of(writer->insert(document.view())));
    } else {
      MULTIFORA_ASSIGN(const auto before, writer->view().find(found));
      MULTIFORA_TRY(writer->update(found, *before, document.view()));
    }
    MULTIFORA_ASSIGN(const LogPosition position, writer->commit());
    return store->wait_durable(position);
  }
  Status remove(std::string_view ns, int id) {
    MULTIFORA_ASSIGN(auto writer, store->write(ns, true));
    DocumentBuilder key;
    key.append("_id", id);
    const OwnedDocument wanted = std::move(key).finish();
    MULTIFORA_ASSIGN(const RecordId found, writer->view().find_id(wanted.view()["_id"]));
    MULTIFORA_ASSIGN(const auto before, writer->view().find(found));
    MULTIFORA_TRY(writer->remove(found, *before));
    MULTIFORA_ASSIGN(const LogPosition position, writer->commit());
    return store->wait_durable(position);
  }

  ShiftedClock clock;
  PluginHost host;
  FaultFileSystem files;
  StoreOptions options;
  std::unique_ptr<Store> store;
};

ChangeInterest collection(std::string ns) {
  return {ChangeInterest::Scope::kCollection, std::move(ns)};
}
ChangeInterest database(std::string name) {
  return {ChangeInterest::Scope::kDatabase, std::move(name)};
}

TEST_CASE("feed: changes in order, through log, history, checkpoint, restart and crash") {
  Env env;
  env.must_open();
  REQUIRE(env.put("a.c", 1, 1).ok());
  REQUIRE(env.put("a.c", 1, 2).ok());
  REQUIRE(env.put("b.d", 1, 1).ok());
  REQUIRE(env.remove("a.c", 1).ok());
  Told all = {"create a.c", "i a.c 1 1", "u a.c 1 2", "create b.d", "i b.d 1 1", "d a.c 1"};
  CHECK(env.told(0) == all);
  CHECK(env.told(0, collection("b.d")) == Told{"create b.d", "i b.d 1 1"});
  CHECK(env.told(0, database("a")).size() == 4);
  REQUIRE(env.store->checkpoint().ok());
  CHECK(env.store->stats().history_bytes > 0);
  CHECK(env.told(0) == all);
  REQUIRE(env.put("a.c", 2, 1).ok());
  all.push_back("i a.c 2 1");
  CHECK(env.told(0) == all);
  env.restart();
  CHECK(env.told(0) == all);
  REQUIRE(env.put("a.c", 3, 1).ok());
  all.push_back("i a.c 3 1");
  env.crash();
  CHECK(env.told(0) == all);
  env.crash();
  REQUIRE(env.store->checkpoint().ok());
  env.restart();
  CHECK(env.told(0) == all);
  // Reading goes on anywhere.
  std::vector<LogPosition> positions;
  LogPosition reached = 0;
  REQUIRE(env.store->changes().read(0, {}, &reached, [&](const ChangeBatch& batch) {
    positions.push_back(batch.position);
    return true;
  }).ok());
  REQUIRE(positions.size() == all.size());
  for (std::size_t i = 0; i < positions.size(); ++i)
    CHECK(env.told(positions[i]) == Told(all.begin() + static_cast<std::ptrdiff_t>(i) + 1, all.end()));
}

TEST_CASE("feed: names are those of the time, wherever a batch is read from") {
  Env env;
  env.must_open();
  const Told all = {"create a.x", "i a.x 1 1", "rename a.x", "i a.y 2 1", "create a.x",
                    "i a.x 1 7",  "drop a.y",  "drop a.x",   "create a.x", "i a.x 5 1"};
  REQUIRE(env.put("a.x", 1, 1).ok());
  const auto renamed = env.store->rename_collection("a.x", "a.y", false);
  REQUIRE(renamed);
  REQUIRE(env.store->wait_durable(*renamed).ok());
  SUBCASE("no checkpoint") {}
  SUBCASE("a checkpoint in between") { REQUIRE(env.store->checkpoint().ok()); }
  SUBCASE("a crash in between") { env.crash(); }
  REQUIRE(env.put("a.y", 2, 1).ok());
  REQUIRE(env.put("a.x", 1, 7).ok());
  REQUIRE(env.store->drop_collection("a.y"));
  REQUIRE(env.store->drop_collection("a.x"));
  REQUIRE(env.put("a.x", 5, 1).ok());
  CHECK(env.told(0) == all);
  env.crash();
  CHECK(env.told(0) == all);
  REQUIRE(env.store->checkpoint().ok());
  CHECK(env.told(0) == all);
  env.restart();
  CHECK(env.told(0) == all);
  CHECK(env.told(0, collection("a.y")) == Told{"rename a.x", "i a.y 2 1", "drop a.y"});
}

TEST_CASE("feed: each change has a position of its own, those of a transaction share one") {
  Env env;
  env.must_open();
  REQUIRE(env.put("a.c", 0, 0).ok());
  const LogPosition before = env.store->last_position();
  auto writer = env.store->write("a.c", true);
  REQUIRE(writer);
  const auto insert = [](CollectionWriter& into, int id) {
    const OwnedDocument document = make_document(id, 1);
    REQUIRE(into.insert(document.view()));
  };
  for (int i = 1; i <= 5; ++i) insert(**writer, i);
  const auto position = (*writer)->commit();
  REQUIRE(position);
  CHECK(*position >= before + 5);

  auto transaction = Transaction::begin(*env.store, {});
  REQUIRE(transaction);
  bind_transaction(transaction->get());
  {
    auto in = env.store->write("a.c", true);
    REQUIRE(in);
    for (int i = 11; i <= 15; ++i) insert(**in, i);
    REQUIRE((*in)->commit());
  }
  unbind_transaction();
  const auto committed =
      (*transaction)->commit(StatementId{std::string(16, 's'), 1, kTransactionStatement});
  REQUIRE(committed);
  REQUIRE(env.store->wait_durable(*committed).ok());
  LogPosition reached = 0;
  std::vector<BatchShape> shapes;
  REQUIRE(env.store->changes().read(before, {}, &reached, [&](const ChangeBatch& batch) {
    shapes.push_back(shape_of(batch.bytes));
    return true;
  }).ok());
  REQUIRE(shapes.size() == 2);
  CHECK(shapes[0].width() == 5);
  CHECK(shapes[1].changes == 5);
  CHECK(shapes[1].width() == 1);
}

TEST_CASE("feed: a collection that keeps pre-images logs documents as they were") {
  Env env;
  env.must_open();
  DocumentBuilder builder;
  builder.object("changeStreamPreAndPostImages").append("enabled", true);
  const OwnedDocument options = std::move(builder).finish();
  REQUIRE(env.store->create_collection("a.c", options.view()));
  REQUIRE(env.put("a.c", 1, 1).ok());
  const LogPosition from = env.store->last_position();
  REQUIRE(env.put("a.c", 1, 2).ok());
  REQUIRE(env.remove("a.c", 1).ok());
  env.crash();  // recovery knows the records
  std::vector<int> versions;
  LogPosition reached = 0;
  REQUIRE(env.store->changes().read(from, {}, &reached, [&](const ChangeBatch& batch) {
    LogBatchReader reader(batch.bytes);
    LogRecord record;
    REQUIRE(reader.next(&record).value());
    versions.push_back(record.document["v"].as_int32());
    return true;
  }).ok());
  CHECK(versions == std::vector<int>{1, 2});
}

TEST_CASE("feed: the history is bounded by size and by age, and says what is lost") {
  Env env;
  env.options.history_bytes_max = 1024 * 1024;
  env.must_open();
  const auto fill = [&] {
    for (int i = 0; i < 40; ++i) REQUIRE(env.put("a.c", i, 1, 20'000).ok());
    REQUIRE(env.store->checkpoint().ok());
    for (int i = 0; i < 40; ++i) REQUIRE(env.remove("a.c", i).ok());
  };
  for (int round = 0; round < 6; ++round) fill();
  REQUIRE(env.store->checkpoint().ok());
  CHECK(env.store->stats().history_bytes <= 2 * 1024 * 1024);
  const LogPosition oldest = env.store->changes().oldest();
  CHECK(oldest > 0);
  CHECK(!env.told(oldest).empty());
  LogPosition reached = 0;
  const Status lost = env.store->changes().read(oldest - 1, {}, &reached,
                                                [](const ChangeBatch&) { return true; });
  CHECK(lost.code() == ErrorCode::kCappedPositionLost);
  env.restart();
  CHECK(env.store->changes().oldest() >= oldest);
}

TEST_CASE("feed: the history is bounded by age") {
  Env env;
  env.options.history_seconds_max = 3600;
  env.must_open();
  REQUIRE(env.put("a.c", 1, 1).ok());
  env.restart();
  CHECK(env.told(0).size() == 2);
  env.clock.shift_ms += 2 * 3600 * 1000;
  env.restart();
  const LogPosition oldest = env.store->changes().oldest();
  CHECK(oldest > 0);
  CHECK(env.store->stats().history_bytes == 0);
  REQUIRE(env.put("a.c", 2, 1).ok());
  env.restart();
  CHECK(env.told(oldest) == Told{"i a.c 2 1"});
}

TEST_CASE("feed: a history that is damaged or gone is given up, never the database") {
  Env env;
  env.must_open();
  REQUIRE(env.put("a.c", 1, 1).ok());
  REQUIRE(env.store->close().ok());
  env.store.reset();
  const auto names = env.files.list("/db/history");
  REQUIRE(names);
  REQUIRE(names->size() == 1);
  const std::string path = "/db/history/" + names->front();
  SUBCASE("gone") { REQUIRE(env.files.remove(path).ok()); }
  SUBCASE("its header") { env.files.poke(path, 0, "????"); }
  SUBCASE("its block's header") { env.files.poke(path, 16 + 8, "????"); }
  env.must_open();
  const LogPosition oldest = env.store->changes().oldest();
  CHECK(oldest > 0);
  CHECK(env.told(oldest).empty());
  REQUIRE(env.put("a.c", 2, 1).ok());
  env.restart();
  CHECK(env.told(oldest) == Told{"i a.c 2 1"});
}

TEST_CASE("feed: damage inside of the history is reported to its reader") {
  Env env;
  env.must_open();
  REQUIRE(env.put("a.c", 1, 1).ok());
  env.restart();
  const auto names = env.files.list("/db/history");
  env.files.poke("/db/history/" + names->front(), 16 + 40 + 30, "?");
  LogPosition reached = 0;
  const Status status =
      env.store->changes().read(0, {}, &reached, [](const ChangeBatch&) { return true; });
  CHECK(status.code() == ErrorCode::kDataCorruptionDetected);
  REQUIRE(env.put("a.c", 2, 1).ok());
}

TEST_CASE("feed: failures of the history's disk cost the history alone") {
  for (const auto failure : {FaultFileSystem::Failure::kInputOutput, FaultFileSystem::Failure::kNoSpace})
    for (std::uint64_t nth = 1; nth <= 6; ++nth) {
      Env env(nth);
      env.must_open();
      REQUIRE(env.put("a.c", 1, 1).ok());
      env.files.fail(FaultFileSystem::Operation::kChange, nth, failure, "/db/history", true);
      REQUIRE(env.store->checkpoint().ok());
      REQUIRE(env.put("a.c", 2, 1).ok());
      REQUIRE(env.store->checkpoint().ok());
      CHECK(env.store->health().ok());
      env.files.clear_failures();
      const LogPosition now = env.store->last_position();
      REQUIRE(env.put("a.c", 3, 1).ok());
      REQUIRE(env.store->checkpoint().ok());
      CHECK(env.told(now) == Told{"i a.c 3 1"});
      env.crash();
      CHECK(env.told(now) == Told{"i a.c 3 1"});
    }
}

TEST_CASE("feed: who waits is woken by what it waits for, once it is durable") {
  Env env;
  env.must_open();
  REQUIRE(env.put("a.c", 1, 1).ok());
  ChangeFeed& feed = env.store->changes();
  const ChangeFeed::Follower follower(feed);
  const LogPosition now = feed.newest();
  std::atomic<int> mine{0}, others{0}, database_wide{0}, all{0}, cancelled{0};
  const auto count = [](std::atomic<int>& counter) { return [&counter] { ++counter; }; };
  const auto stop_mine = feed.subscribe(collection("a.c"), now, count(mine));
  const auto stop_others = feed.subscribe(collection("a.d"), now, count(others));
  const auto stop_database = feed.subscribe(database("a"), now, count(database_wide));
  const auto stop_all = feed.subscribe({}, now, count(all));
  feed.subscribe(collection("a.c"), now, count(cancelled))();
  REQUIRE(env.put("b.c", 1, 1).ok());
  CHECK(mine == 0);
  CHECK(database_wide == 0);
  CHECK(all == 1);
  REQUIRE(env.put("a.c", 1, 2).ok());
  CHECK(mine == 1);
  CHECK(others == 0);
  CHECK(database_wide == 1);
  CHECK(all == 1);
  CHECK(cancelled == 0);
  // What has happened meanwhile wakes at once.
  std::atomic<int> late{0};
  feed.subscribe(collection("a.c"), now, count(late))();
  CHECK(late == 1);
  REQUIRE(env.put("a.c", 1, 3).ok());
  CHECK(mine == 1);
  CHECK(env.told(now, collection("a.c")) == Told{"u a.c 1 2", "u a.c 1 3"});
  CHECK(env.told(feed.newest(), collection("a.c")).empty());
  // A rename concerns both names.
  std::atomic<int> to{0};
  const auto stop_to = feed.subscribe(collection("a.e"), feed.newest(), count(to));
  const auto renamed = env.store->rename_collection("a.c", "a.e", false);
  REQUIRE(renamed);
  REQUIRE(env.store->wait_durable(*renamed).ok());
  CHECK(to == 1);
  stop_mine(), stop_others(), stop_database(), stop_all(), stop_to();
}

// Random work, checkpoints, restarts and power cuts at any change of the disk: what was acknowledged is
// told exactly once and in order; what was in doubt, once or never.
void random_life(std::uint64_t seed) {
  INFO("MULTIFORA_FEED_SEED=" << seed);
  std::mt19937_64 random(seed);
  Env env(seed);
  env.options.history_bytes_max = 64u << 20;
  env.must_open();
  Told expected;
  int version = 0;
  std::unique_ptr<ChangeFeed::Follower> follower;
  for (int life = 0; life < 8; ++life) {
    if (random() % 2 == 0) follower = std::make_unique<ChangeFeed::Follower>(env.store->changes());
    const bool cut = random() % 3 != 0;
    if (cut) env.files.power_cut_after(1 + random() % 60);
    bool alive = true;
    for (int step = 0; alive && step < 40; ++step) {
      const std::string ns = random() % 2 == 0 ? "a.c" : "b.d";
      const int id = static_cast<int>(random() % 6);
      if (random() % 8 == 0) {
        alive = env.store->checkpoint().ok();
        continue;
      }
      const bool fresh = env.store->info(ns) == nullptr;
      const std::string text = ns + " " + std::to_string(id) + " " + std::to_string(++version);
      bool is_new = fresh;
      if (!fresh) {
        DocumentBuilder key;
        key.append("_id", id);
        const OwnedDocument wanted = std::move(key).finish();
        const auto view = env.store->read(ns);
        const auto found = (*view)->find_id(wanted.view()["_id"]);
        REQUIRE(found);
        is_new = *found == 0;
      }
      alive = env.put(ns, id, version, 20 + random() % 3000).ok();
      if (!alive) break;
      if (fresh) expected.push_back("create " + ns);
      expected.push_back((is_new ? "i " : "u ") + text);
    }
    follower.reset();
    if (!alive || cut) {
      env.crash();
    } else {
      env.restart();
    }
    // The write that was cut short may have happened.
    const Told told = env.told(0);
    REQUIRE(told.size() >= expected.size());
    REQUIRE(told.size() <= expected.size() + 2);
    CHECK(Told(told.begin(), told.begin() + static_cast<std::ptrdiff_t>(expected.size())) == expected);
    expected = told;
  }
}

TEST_CASE("feed: a random life with power cuts loses and repeats nothing") {
  const char* const seed = std::getenv("MULTIFORA_FEED_SEED");
  const char* const rounds = std::getenv("MULTIFORA_FEED_SEEDS");
  const std::uint64_t first = seed != nullptr ? std::strtoull(seed, nullptr, 10) : 1;
  const std::uint64_t count = rounds != nullptr ? std::strtoull(rounds, nullptr, 10) : 40;
  for (std::uint64_t i = 0; i < count; ++i) random_life(first + i);
}

}  // namespace
}  // namespace multifora
