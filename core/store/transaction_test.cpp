// Transactions: what they see, what they conflict with, what a crash leaves; random interleavings
// against a model of snapshot isolation; threads that move money. check() ends every scenario.
#include "core/store/transaction.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "core/base/interrupt.h"
#include "core/bson/builder.h"
#include "core/plugin/host.h"
#include "core/store/store.h"
#include "tests/plugins/reference/index-plain/plain_index.h"
#include "tests/support/fault_file_system.h"

namespace multifora {
namespace {

struct Env {
  explicit Env(std::uint64_t seed = 1) : files(seed) {
    REQUIRE(host.add_index_kind(&kPlainIndex).ok());
    host.freeze();
    options.path = "/db";
    options.memory_budget_bytes = 256u << 20;
    options.checkpoint_interval_ms = 1'000'000;
    open();
  }
  void open() {
    auto opened = Store::open(options, host, files, nullptr);
    REQUIRE_MESSAGE(opened.has_value(), opened.error().message());
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
  std::unique_ptr<Transaction> begin(TransactionOptions transaction_options = {}) {
    auto begun = Transaction::begin(*store, transaction_options);
    REQUIRE(begun.has_value());
    return std::move(*begun);
  }

  PluginHost host;
  FaultFileSystem files;
  StoreOptions options;
  std::unique_ptr<Store> store;
};

OwnedDocument make_document(int id, int k, std::size_t padding = 0) {
  DocumentBuilder b;
  b.append("_id", id).append("k", k);
  if (padding > 0) b.append("pad", std::string(padding, 'p'));
  return std::move(b).finish();
}

using Contents = std::map<int, int>;

// Of the state that the thread's binding gives.
Contents contents(Store& store, std::string_view ns) {
  Contents found;
  auto view = store.read(ns);
  REQUIRE_MESSAGE(view.has_value(), view.error().message());
  if (!*view) return found;
  const auto cursor = (*view)->scan(false);
  while (true) {
    const auto more = cursor->next();
    REQUIRE(more);
    if (!*more) break;
    found[cursor->document()["_id"].as_int32()] = cursor->document()["k"].as_int32();
  }
  CHECK((*view)->record_count() == found.size());
  // The _id index agrees with the records.
  for (const auto& [id, k] : found) {
    const OwnedDocument key = make_document(id, 0);
    const auto record = (*view)->find_id(key.view()["_id"]);
    REQUIRE(record);
    REQUIRE(*record != 0);
    const auto document = (*view)->find(*record);
    REQUIRE(document);
    REQUIRE(document->has_value());
    CHECK((**document)["k"].as_int32() == k);
  }
  return found;
}

Contents contents(Transaction& transaction, Store& store, std::string_view ns) {
  const TransactionScope scope(&transaction);
  return contents(store, ns);
}

enum class Change { kInsert, kUpdate, kRemove };

// One change, committed at once where the thread is bound to no transaction.
Status change(Store& store, std::string_view ns, Change what, int id, int k,
              std::size_t padding = 0) {
  MULTIFORA_ASSIGN(auto writer, store.write(ns, true));
  const OwnedDocument document = make_document(id, k, padding);
  if (what == Change::kInsert) {
    MULTIFORA_TRY(status_of(writer->insert(document.view())));
  } else {
    MULTIFORA_ASSIGN(const RecordId record, writer->view().find_id(document.view()["_id"]));
    if (record == 0) return {ErrorCode::kNoSuchKey, "no such document"};
    MULTIFORA_ASSIGN(const auto before, writer->view().find(record));
    MULTIFORA_TRY(what == Change::kUpdate ? writer->update(record, *before, document.view())
                                          : writer->remove(record, *before));
  }
  return status_of(writer->commit());
}

Status change(Transaction& transaction, Store& store, std::string_view ns, Change what, int id,
              int k, std::size_t padding = 0) {
  const TransactionScope scope(&transaction);
  return change(store, ns, what, id, k, padding);
}

ErrorCode code(const Status& status) { return status.code(); }

}  // namespace

TEST_CASE("a transaction sees its snapshot and its own writes; others see it once it commits") {
  Env env;
  Store& store = *env.store;
  for (int i = 0; i < 5; ++i) REQUIRE(change(store, "a.c", Change::kInsert, i, i).ok());
  const auto transaction = env.begin();
  REQUIRE(change(store, "a.c", Change::kInsert, 5, 50).ok());
  REQUIRE(change(store, "a.c", Change::kUpdate, 4, 40).ok());
  CHECK(contents(*transaction, store, "a.c") == Contents{{0, 0}, {1, 1}, {2, 2}, {3, 3}, {4, 4}});

  REQUIRE(change(*transaction, store, "a.c", Change::kInsert, 9, 9, 5000).ok());
  REQUIRE(change(*transaction, store, "a.c", Change::kUpdate, 1, 100).ok());
  REQUIRE(change(*transaction, store, "a.c", Change::kUpdate, 1, 101).ok());
  REQUIRE(change(*transaction, store, "a.c", Change::kRemove, 0, 0).ok());
  REQUIRE(change(*transaction, store, "a.c", Change::kUpdate, 9, 99).ok());
  const Contents own{{1, 101}, {2, 2}, {3, 3}, {4, 4}, {9, 99}};
  CHECK(contents(*transaction, store, "a.c") == own);
  CHECK(contents(store, "a.c") == Contents{{0, 0}, {1, 1}, {2, 2}, {3, 3}, {4, 40}, {5, 50}});
  env.check();

  CHECK(transaction->has_writes());
  const auto position = transaction->commit(std::nullopt);
  REQUIRE(position);
  CHECK(*position > transaction->read_position());
  CHECK(transaction->state() == Transaction::State::kCommitted);
  CHECK(contents(store, "a.c") == Contents{{1, 101}, {2, 2}, {3, 3}, {4, 40}, {5, 50}, {9, 99}});
  env.check();
}

TEST_CASE("an aborted transaction leaves nothing, not even pages") {
  Env env;
  Store& store = *env.store;
  for (int i = 0; i < 300; ++i) REQUIRE(change(store, "a.c", Change::kInsert, i, i).ok());
  {
    const auto transaction = env.begin();
    for (int i = 0; i < 300; i += 2)
      REQUIRE(change(*transaction, store, "a.c", Change::kRemove, i, 0).ok());
    for (int i = 1000; i < 1400; ++i)
      REQUIRE(change(*transaction, store, "a.c", Change::kInsert, i, i).ok());
    CHECK(contents(*transaction, store, "a.c").size() == 550);
    REQUIRE(store.checkpoint().ok());
    CHECK(contents(*transaction, store, "a.c").size() == 550);
  }
  CHECK(contents(store, "a.c").size() == 300);
  REQUIRE(store.checkpoint().ok());
  env.check();
}

TEST_CASE("first writer wins: between transactions, and against what was committed since") {
  Env env;
  Store& store = *env.store;
  for (int i = 0; i < 4; ++i) REQUIRE(change(store, "a.c", Change::kInsert, i, i).ok());
  const auto one = env.begin(), two = env.begin();
  REQUIRE(change(*one, store, "a.c", Change::kUpdate, 1, 11).ok());
  CHECK(code(change(*two, store, "a.c", Change::kUpdate, 1, 12)) == ErrorCode::kWriteConflict);
  CHECK(code(change(*two, store, "a.c", Change::kRemove, 1, 0)) == ErrorCode::kWriteConflict);
  // Outside transactions too; and neither changed anything.
  CHECK(code(change(store, "a.c", Change::kUpdate, 1, 13)) == ErrorCode::kWriteConflict);
  CHECK(code(change(store, "a.c", Change::kRemove, 1, 0)) == ErrorCode::kWriteConflict);
  CHECK(contents(store, "a.c")[1] == 1);
  REQUIRE(one->commit(std::nullopt));
  CHECK(code(change(*two, store, "a.c", Change::kUpdate, 1, 12)) == ErrorCode::kWriteConflict);
  REQUIRE(change(store, "a.c", Change::kUpdate, 2, 22).ok());
  CHECK(code(change(*two, store, "a.c", Change::kUpdate, 2, 23)) == ErrorCode::kWriteConflict);
  REQUIRE(change(store, "a.c", Change::kRemove, 3, 0).ok());
  CHECK(code(change(*two, store, "a.c", Change::kUpdate, 3, 33)) == ErrorCode::kWriteConflict);
  REQUIRE(change(*two, store, "a.c", Change::kUpdate, 0, 10).ok());
  two->abort();
  REQUIRE(change(store, "a.c", Change::kUpdate, 0, 5).ok());
  CHECK(contents(store, "a.c") == Contents{{0, 5}, {1, 11}, {2, 22}});
  env.check();
}

TEST_CASE("keys of unique indexes conflict like records") {
  Env env;
  Store& store = *env.store;
  REQUIRE(change(store, "a.c", Change::kInsert, 1, 1).ok());
  const auto one = env.begin(), two = env.begin();
  CHECK(code(change(*one, store, "a.c", Change::kInsert, 1, 2)) == ErrorCode::kDuplicateKey);
  REQUIRE(change(*one, store, "a.c", Change::kInsert, 5, 1).ok());
  CHECK(code(change(*two, store, "a.c", Change::kInsert, 5, 2)) == ErrorCode::kWriteConflict);
  CHECK(code(change(store, "a.c", Change::kInsert, 5, 3)) == ErrorCode::kWriteConflict);
  REQUIRE(change(store, "a.c", Change::kInsert, 6, 6).ok());
  CHECK(code(change(*one, store, "a.c", Change::kInsert, 6, 7)) == ErrorCode::kWriteConflict);
  // A key that the transaction itself gave up is its own.
  REQUIRE(change(*one, store, "a.c", Change::kRemove, 1, 0).ok());
  REQUIRE(change(*one, store, "a.c", Change::kInsert, 1, 8).ok());
  REQUIRE(one->commit(std::nullopt));
  CHECK(code(change(store, "a.c", Change::kInsert, 5, 3)) == ErrorCode::kDuplicateKey);
  CHECK(contents(store, "a.c") == Contents{{1, 8}, {5, 1}, {6, 6}});
  env.check();
}

TEST_CASE("several collections, made inside, in one batch: all or nothing after a crash") {
  Env env;
  REQUIRE(change(*env.store, "a.c", Change::kInsert, 1, 1).ok());
  REQUIRE(env.store->wait_durable(env.store->last_position()).ok());
  const StatementId id{std::string(16, 's'), 7, kCommitStatement};
  for (const bool committed : {false, true}) {
    auto transaction = env.begin();
    {
      const TransactionScope scope(transaction.get());
      DocumentBuilder spec;
      spec.object("key").append("k", 1);
      spec.append("name", "k_1").append("unique", true);
      const OwnedDocument index = std::move(spec).finish();
      Interrupt interrupt(system_clock());
      const auto built = env.store->create_indexes("b.new", {index.view()}, interrupt);
      REQUIRE_MESSAGE(built.has_value(), built.error().message());
      CHECK(built->created_collection);
      CHECK(built->indexes_after == 2);
      CHECK(env.store->info("b.new") != nullptr);
    }
    CHECK(env.store->info("b.new") == nullptr);
    REQUIRE(change(*transaction, *env.store, "a.c", Change::kUpdate, 1, 10).ok());
    REQUIRE(change(*transaction, *env.store, "b.new", Change::kInsert, 1, 5).ok());
    CHECK(code(change(*transaction, *env.store, "b.new", Change::kInsert, 2, 5)) ==
          ErrorCode::kDuplicateKey);
    REQUIRE(change(*transaction, *env.store, "b.other", Change::kInsert, 3, 3).ok());
    if (committed) {
      const auto position = transaction->commit(id);
      REQUIRE_MESSAGE(position.has_value(), position.error().message());
      REQUIRE(env.store->wait_durable(*position).ok());
    }
    transaction.reset();
    env.check();
    env.crash();
    env.check();
    const auto outcome = env.store->retried_result(id);
    REQUIRE(outcome);
    CHECK(outcome->has_value() == committed);
    CHECK(contents(*env.store, "a.c") == Contents{{1, committed ? 10 : 1}});
    CHECK(contents(*env.store, "b.new").size() == (committed ? 1 : 0));
    CHECK(contents(*env.store, "b.other").size() == (committed ? 1 : 0));
  }
  // The index made inside works on the live collection.
  CHECK(code(change(*env.store, "b.new", Change::kInsert, 9, 5)) == ErrorCode::kDuplicateKey);
}

TEST_CASE("a snapshot outlives changes, checkpoints and other snapshots") {
  Env env;
  Store& store = *env.store;
  Contents model;
  std::mt19937 random(7);
  std::vector<std::pair<std::unique_ptr<Transaction>, Contents>> held;
  for (int round = 0; round < 60; ++round) {
    if (round % 6 == 0) held.emplace_back(env.begin(), model);
    for (int i = 0; i < 20; ++i) {
      const int id = static_cast<int>(random() % 80);
      const bool there = model.contains(id);
      if (there && random() % 3 == 0) {
        REQUIRE(change(store, "a.c", Change::kRemove, id, 0).ok());
        model.erase(id);
      } else {
        const int k = static_cast<int>(random() % 1000);
        REQUIRE(change(store, "a.c", there ? Change::kUpdate : Change::kInsert, id, k, 200).ok());
        model[id] = k;
      }
    }
    if (round % 5 == 4) REQUIRE(store.checkpoint().ok());
    if (held.size() > 4) held.erase(held.begin() + static_cast<std::ptrdiff_t>(random() % held.size()));
    const auto& [transaction, seen] = held[random() % held.size()];
    // The first one began before the collection was there.
    if (!seen.empty()) CHECK(contents(*transaction, store, "a.c") == seen);
  }
  CHECK(contents(store, "a.c") == model);
  env.check();
}

TEST_CASE("the catalog and transactions keep out of each other's way") {
  Env env;
  Store& store = *env.store;
  REQUIRE(change(store, "a.c", Change::kInsert, 1, 1).ok());
  REQUIRE(change(store, "a.gone", Change::kInsert, 1, 1).ok());
  auto transaction = env.begin();
  auto snapshot = Transaction::begin(store, {.read_only = true});
  REQUIRE(snapshot);
  REQUIRE(change(store, "a.late", Change::kInsert, 1, 1).ok());
  REQUIRE(store.drop_collection("a.gone"));
  REQUIRE(change(store, "a.gone", Change::kInsert, 2, 2).ok());  // another one
  {
    const TransactionScope scope(snapshot->get());
    const auto late = store.read("a.late");
    REQUIRE(late);
    CHECK(*late == nullptr);
    CHECK(store.read("a.gone").error().code() == ErrorCode::kSnapshotUnavailable);
    CHECK(*store.read("a.c") != nullptr);
  }
  snapshot->reset();
  {
    const TransactionScope scope(transaction.get());
    CHECK(store.read("a.late").error().code() == ErrorCode::kSnapshotUnavailable);
    CHECK(store.read("a.gone").error().code() == ErrorCode::kSnapshotUnavailable);
    CHECK(*store.read("a.never") == nullptr);
  }
  REQUIRE(change(*transaction, store, "a.c", Change::kUpdate, 1, 2).ok());
  // A drop waits for the transaction.
  std::atomic<bool> dropped{false};
  std::thread dropper([&] {
    CHECK(store.drop_collection("a.c").has_value());
    dropped = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK_FALSE(dropped);
  REQUIRE(transaction->commit(std::nullopt));
  dropper.join();
  CHECK(store.info("a.c") == nullptr);
  env.check();
}

TEST_CASE("a reader of a snapshot holds nothing up and shares it") {
  Env env;
  Store& store = *env.store;
  REQUIRE(change(store, "a.c", Change::kInsert, 1, 1).ok());
  const auto first = env.begin({.read_only = true});
  CHECK(contents(*first, store, "a.c") == Contents{{1, 1}});
  REQUIRE(change(store, "a.c", Change::kUpdate, 1, 2).ok());
  const auto second = first->reader();
  CHECK(second->read_position() == first->read_position());
  CHECK(contents(*second, store, "a.c") == Contents{{1, 1}});
  CHECK(code(change(*second, store, "a.c", Change::kUpdate, 1, 3)) == ErrorCode::kIllegalOperation);
  REQUIRE(store.drop_collection("a.c"));
  REQUIRE(store.checkpoint().ok());
  CHECK(contents(*first, store, "a.c") == Contents{{1, 1}});
  env.check();
}

TEST_CASE("a write set has a limit") {
  Env env;
  const auto transaction = env.begin({.write_set_bytes_max = 100'000});
  Status status;
  int written = 0;
  while (status.ok() && written < 1000)
    status = change(*transaction, *env.store, "a.c", Change::kInsert, written++, 0, 1000);
  CHECK(code(status) == ErrorCode::kTransactionTooLarge);
  CHECK(written > 50);
  CHECK(written < 110);
}

TEST_CASE("a commit that finds no space leaves everything as it was") {
  Env env;
  Store& store = *env.store;
  for (int i = 0; i < 50; ++i) REQUIRE(change(store, "a.c", Change::kInsert, i, i, 3000).ok());
  REQUIRE(store.checkpoint().ok());
  const Contents before = contents(store, "a.c");
  const auto transaction = env.begin();
  for (int i = 0; i < 50; ++i)
    REQUIRE(change(*transaction, store, "a.c", Change::kUpdate, i, -i, 3000).ok());
  for (int i = 100; i < 110; ++i)
    REQUIRE(change(*transaction, store, "a.c", Change::kInsert, i, i, 1'000'000).ok());
  env.files.fail(FaultFileSystem::Operation::kAllocate, 1, FaultFileSystem::Failure::kNoSpace,
                 "data.mfdb", true);
  const auto position = transaction->commit(std::nullopt);
  REQUIRE_FALSE(position.has_value());
  CHECK(position.error().code() == ErrorCode::kOutOfDiskSpace);
  CHECK(transaction->state() == Transaction::State::kAborted);
  CHECK(contents(store, "a.c") == before);
  env.files.clear_failures();
  REQUIRE(change(store, "a.c", Change::kInsert, 500, 1).ok());
  env.check();
}

// --- random interleavings against a model ---------------------------------------------------------

namespace {

std::uint64_t seed_of_run() {
  if (const char* seed = std::getenv("MULTIFORA_TEST_SEED"))
    return std::strtoull(seed, nullptr, 10);
  return std::random_device{}();
}

// Of a document: which of its lives (an insert begins a new one), and its content.
using State = std::map<int, std::pair<int, int>>;

Contents plain(const State& state) {
  Contents found;
  for (const auto& [id, document] : state) found[id] = document.second;
  return found;
}

// Snapshot isolation with first writer wins, on maps.
struct Model {
  struct Running {
    std::unique_ptr<Transaction> transaction;
    State snapshot, state;
    std::set<int> written;
  };
  State committed;
  std::vector<Running> running;
  int lives = 0;

  static bool same(const State& a, const State& b, int id) {
    const auto x = a.find(id), y = b.find(id);
    if (x == a.end() || y == b.end()) return x == a.end() && y == b.end();
    return x->second == y->second;
  }
  bool taken(int id, const Running* by = nullptr) const {
    for (const Running& other : running)
      if (&other != by && other.written.contains(id)) return true;
    return false;
  }
  bool conflicts(const Running& t, int id) const {
    return !same(t.snapshot, committed, id) || taken(id, &t);
  }
  static void apply(State& state, Change how, int id, int k, int life) {
    if (how == Change::kRemove)
      state.erase(id);
    else if (how == Change::kInsert)
      state[id] = {life, k};
    else
      state[id].second = k;
  }
};

}  // namespace

TEST_CASE("random interleavings are what snapshot isolation allows") {
  const std::uint64_t seed = seed_of_run();
  INFO("MULTIFORA_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  Env env(seed);
  Store& store = *env.store;
  Model model;
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  REQUIRE(change(store, "a.c", Change::kInsert, -1, 0).ok());  // the collection is there
  model.committed[-1] = {0, 0};
  int commits = 0, conflicts = 0;
  for (int step = 0; step < 3000; ++step) {
    const int what = pick(20);
    if (what == 0 || model.running.empty()) {
      if (model.running.size() < 5)
        model.running.push_back({env.begin(), model.committed, model.committed, {}});
      continue;
    }
    const int who = pick(static_cast<int>(model.running.size()));
    Model::Running& t = model.running[static_cast<std::size_t>(who)];
    const auto drop = [&] { model.running.erase(model.running.begin() + who); };
    const int id = pick(30), k = pick(1000);
    const auto choose = [&](const State& state) {
      if (!state.contains(id)) return Change::kInsert;
      return pick(3) == 0 ? Change::kRemove : Change::kUpdate;
    };
    if (what == 1) {
      const auto position = t.transaction->commit(std::nullopt);
      REQUIRE_MESSAGE(position.has_value(), position.error().message());
      for (const int written : t.written) {
        const auto after = t.state.find(written);
        if (after == t.state.end())
          model.committed.erase(written);
        else
          model.committed[written] = after->second;
      }
      ++commits;
      drop();
    } else if (what == 2) {
      drop();
    } else if (what == 3) {
      CHECK(contents(*t.transaction, store, "a.c") == plain(t.state));
    } else if (what == 4) {
      CHECK(contents(store, "a.c") == plain(model.committed));
      if (pick(10) == 0) REQUIRE(store.checkpoint().ok());
    } else if (what < 8) {  // outside transactions
      const Change how = choose(model.committed);
      const Status status = change(store, "a.c", how, id, k);
      CHECK(code(status) == (model.taken(id) ? ErrorCode::kWriteConflict : ErrorCode::kOK));
      if (status.ok()) Model::apply(model.committed, how, id, k, ++model.lives);
    } else {
      const Change how = choose(t.state);
      const Status status = change(*t.transaction, store, "a.c", how, id, k);
      if (!t.written.contains(id) && model.conflicts(t, id)) {
        CHECK(code(status) == ErrorCode::kWriteConflict);
        ++conflicts;
        drop();  // as the command layer does
        continue;
      }
      REQUIRE_MESSAGE(status.ok(), status.message());
      t.written.insert(id);
      Model::apply(t.state, how, id, k, ++model.lives);
    }
  }
  model.running.clear();
  CHECK(contents(store, "a.c") == plain(model.committed));
  CHECK(commits > 20);
  CHECK(conflicts > 20);
  env.check();
  REQUIRE(store.wait_durable(store.last_position()).ok());
  env.crash();
  CHECK(contents(*env.store, "a.c") == plain(model.committed));
  env.check();
}

// --- threads --------------------------------------------------------------------------------------

TEST_CASE("money moves between accounts in two collections, and none is lost") {
  constexpr int kAccounts = 12, kEach = 1000, kThreads = 4;
  const int transfers = std::getenv("MULTIFORA_TEST_LONG") != nullptr ? 3000 : 150;
  Env env;
  Store& store = *env.store;
  for (int i = 0; i < kAccounts; ++i)
    for (const char* ns : {"a.x", "a.y"})
      REQUIRE(change(store, ns, Change::kInsert, i, kEach).ok());

  const auto sum = [&](Transaction& transaction) {
    std::int64_t total = 0;
    for (const char* ns : {"a.x", "a.y"})
      for (const auto& [id, k] : contents(transaction, store, ns)) total += k;
    return total;
  };
  const auto transfer = [&](std::mt19937& random) -> Status {
    MULTIFORA_ASSIGN(const auto transaction, Transaction::begin(store, {}));
    const int from = static_cast<int>(random() % kAccounts);
    const int to = static_cast<int>(random() % kAccounts);
    const int amount = static_cast<int>(random() % 10);
    const Contents x = contents(*transaction, store, "a.x"), y = contents(*transaction, store, "a.y");
    MULTIFORA_TRY(change(*transaction, store, "a.x", Change::kUpdate, from, x.at(from) - amount));
    MULTIFORA_TRY(change(*transaction, store, "a.y", Change::kUpdate, to, y.at(to) + amount));
    return status_of(transaction->commit(std::nullopt));
  };
  std::atomic<int> done{0}, conflicts{0}, wrong{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      for (int i = 0; i < transfers;) {
        const Status status = transfer(random);
        if (status.ok()) {
          ++i;
          ++done;
        } else if (status.code() == ErrorCode::kWriteConflict) {
          ++conflicts;
        } else {
          ++wrong;
          ++i;
        }
      }
    });
  std::thread auditor([&] {
    while (!stop) {
      auto transaction = Transaction::begin(store, {});
      if (!transaction || sum(**transaction) != 2 * kAccounts * kEach) ++wrong;
    }
  });
  std::thread checkpointer([&] {
    while (!stop) {
      if (!store.checkpoint().ok()) ++wrong;
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
    }
  });
  for (std::thread& thread : threads) thread.join();
  stop = true;
  auditor.join();
  checkpointer.join();
  CHECK(done == kThreads * transfers);
  CHECK(wrong == 0);
  MESSAGE("transfers " << done.load() << ", conflicts " << conflicts.load());
  {
    const auto transaction = env.begin();
    CHECK(sum(*transaction) == 2 * kAccounts * kEach);
  }
  env.check();
  REQUIRE(store.wait_durable(store.last_position()).ok());
  env.crash();
  {
    const auto transaction = Transaction::begin(*env.store, {});
    std::int64_t total = 0;
    for (const char* ns : {"a.x", "a.y"})
      for (const auto& [id, k] : contents(**transaction, *env.store, ns)) total += k;
    CHECK(total == 2 * kAccounts * kEach);
  }
  env.check();
}

}  // namespace multifora
