// One scripted workload through the whole store, in which every change of the disk fails in turn:
// writes, syncs, allocations, changes of names. After each: what was acknowledged is there, whatever
// was not is there whole or not at all, in order, and check() is clean.
//
//   MULTIFORA_FAULT_ALL=1       every point of every kind of fault (some minutes); otherwise a sample
//   MULTIFORA_FAULT_SEED=N      first seed; printed
//   MULTIFORA_FAULT_KIND=NAME   one kind of fault only; with MULTIFORA_FAULT_POINT=N one point only
//   MULTIFORA_FAULT_SECONDS=N   how long the random test runs
#include "core/store/store.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "core/base/interrupt.h"
#include "core/bson/builder.h"
#include "core/plugin/host.h"
#include "tests/plugins/reference/index-plain/plain_index.h"
#include "tests/support/fault_file_system.h"

namespace multifora {
namespace {

using Operation = FaultFileSystem::Operation;
using Failure = FaultFileSystem::Failure;

std::uint64_t number_from_environment(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// --- the model ------------------------------------------------------------------------------------

// What the store shows: documents as _id -> version (their other fields follow from both), index
// names, answers of retryable statements.
struct World {
  struct Content {
    std::map<int, int> documents;
    std::set<std::string> indexes{"_id_"};
    std::int64_t marker = 0;  // an option, as collMod changes them
    bool operator==(const Content&) const = default;
  };
  std::map<std::string, Content> collections;
  std::map<std::int64_t, int> answers;  // by transaction number of the one session
  bool operator==(const World&) const = default;
};

std::string padding(int id, int version) {
  std::size_t size = static_cast<std::size_t>(id * 37 + version * 101) % 700;
  if (id % 41 == 40) size = 9'000 + static_cast<std::size_t>(version % 3) * 20'000;
  if (id == 1000) size = 1'300'000;  // crosses a chunk
  return std::string(size, static_cast<char>('a' + (id + version) % 26));
}

OwnedDocument make_document(int id, int version) {
  DocumentBuilder b;
  b.append("_id", id).append("version", version).append("k", (id * 7 + version) % 13);
  b.append("u", std::int64_t{id} * 100'000 + version).append("pad", padding(id, version));
  return std::move(b).finish();
}

OwnedDocument index_spec(std::string_view field, bool unique) {
  DocumentBuilder spec;
  spec.object("key").append(field, 1);
  spec.append("name", std::string(field) + "_1");
  if (unique) spec.append("unique", true);
  return std::move(spec).finish();
}

OwnedDocument collection_options(std::int64_t marker) {
  DocumentBuilder options;
  if (marker != 0) options.append("marker", marker);
  return std::move(options).finish();
}

const std::string kSession(16, 's');

// The machine's clock, set forwards or back by the test.
class ShiftedClock final : public Clock {
 public:
  std::int64_t wall_ms() const override { return system_clock().wall_ms() + shift_ms; }
  std::int64_t monotonic_us() const override { return system_clock().monotonic_us(); }
  std::atomic<std::int64_t> shift_ms{0};
};

class Machine {
 public:
  explicit Machine(std::uint64_t seed) : files(seed), random(seed) {
    host.set_clock(&clock);
    REQUIRE(host.add_index_kind(&kPlainIndex).ok());
    host.freeze();
    options.path = "/db";
    options.memory_budget_bytes = 256u << 20;
    options.checkpoint_interval_ms = 1'000'000;
    states.emplace_back();
  }

  // --- the life of the process --------------------------------------------------------------------
  Status open() {
    store.reset();
    auto opened = Store::open(options, host, files, &report);
    if (!opened) return opened.error();
    store = std::move(*opened);
    return {};
  }
  // The process ends and a new one opens what the system holds.
  void restart() {
    store.reset();
    open_and_settle();
  }
  void power_cut() {
    files.crash();
    store.reset();
    open_and_settle();
  }
  void open_and_settle() {
    const Status status = open();
    REQUIRE_MESSAGE(status.ok(), status.message());
    settle();
  }

  // --- changes ------------------------------------------------------------------------------------
  // Does `act`, which makes the state that `change` describes. False where the script cannot go on:
  // the change is then in doubt, unless the store says that it is well and refused it.
  bool perform(bool wait, const std::function<void(World&)>& change,
               const std::function<Result<LogPosition>(Store&)>& act) {
    World next = states.back();
    change(next);
    const Result<LogPosition> position = act(*store);
    if (!position) {
      last_failure = position.error();
      if (store->health().ok())
        return refused_well(last_failure);
      states.push_back(std::move(next));
      return false;
    }
    if (*position == 0) return true;  // nothing to log
    REQUIRE(*position > newest_position);
    newest_position = *position;
    states.push_back(std::move(next));
    if (!wait) return true;
    last_failure = store->wait_durable(*position);
    if (!last_failure.ok()) return false;
    acknowledged = states.size() - 1;
    return true;
  }
  // A full disk is no failure: the change did not happen and the next one may be tried.
  bool refused_well(const Status& status) {
    ++refused;
    return status.code() == ErrorCode::kOutOfDiskSpace;
  }

  bool write(const std::string& ns, bool wait, const std::function<void(World&)>& change,
             const std::function<Status(CollectionWriter&)>& act) {
    return perform(wait, change, [&](Store& s) -> Result<LogPosition> {
      MULTIFORA_ASSIGN_R(const auto writer, s.write(ns, false));
      REQUIRE(writer);
      if (Status status = act(*writer); !status.ok()) {
        // What was done before is logged in any case; scripts change one thing, or all or nothing.
        MULTIFORA_TRY_R(status_of(writer->commit()));
        return fail(std::move(status));
      }
      return writer->commit();
    });
  }

  bool has(const std::string& ns) const { return states.back().collections.contains(ns); }
  const std::map<int, int>& documents(const std::string& ns) const {
    return states.back().collections.at(ns).documents;
  }

  bool create(const std::string& ns) {
    if (has(ns)) return true;
    return perform(
        true, [&](World& w) { w.collections[ns]; },
        [&](Store& s) { return s.create_collection(ns, DocumentView()); });
  }
  bool put(const std::string& ns, int id, int version, bool wait = true) {
    if (!has(ns)) return true;
    const bool fresh = !documents(ns).contains(id);
    return write(
        ns, wait, [&](World& w) { w.collections[ns].documents[id] = version; },
        [&](CollectionWriter& w) -> Status {
          const OwnedDocument after = make_document(id, version);
          if (fresh) return status_of(w.insert(after.view()));
          MULTIFORA_ASSIGN(const RecordId record, w.view().find_id(after.view()["_id"]));
          MULTIFORA_ASSIGN(const auto before, w.view().find(record));
          return w.update(record, *before, after.view());
        });
  }
  bool remove(const std::string& ns, int id, bool wait = true) {
    if (!has(ns) || !documents(ns).contains(id)) return true;
    return write(
        ns, wait, [&](World& w) { w.collections[ns].documents.erase(id); },
        [&](CollectionWriter& w) -> Status {
          const OwnedDocument probe = make_document(id, 0);
          MULTIFORA_ASSIGN(const RecordId record, w.view().find_id(probe.view()["_id"]));
          MULTIFORA_ASSIGN(const auto before, w.view().find(record));
          return w.remove(record, *before);
        });
  }
  // One batch: all of it or nothing, whatever happens to it. Where one insert is refused, the batch is
  // what came before it.
  bool bulk(const std::string& ns, int first, int count, int version) {
    if (!has(ns)) return true;
    for (int id = first; id < first + count; ++id)
      if (documents(ns).contains(id)) return true;
    World next = states.back();
    auto writer = store->write(ns, false);
    if (!writer) return refused_well(last_failure = writer.error());
    Status stopped;
    for (int id = first; id < first + count && stopped.ok(); ++id) {
      const OwnedDocument document = make_document(id, version);
      stopped = status_of((*writer)->insert(document.view()));
      if (stopped.ok()) next.collections[ns].documents[id] = version;
    }
    const auto position = (*writer)->commit();
    if (next != states.back()) states.push_back(std::move(next));
    last_failure = position ? store->wait_durable(*position) : position.error();
    if (!last_failure.ok()) return false;
    newest_position = std::max(newest_position, *position);
    // Where the first insert was refused nothing was logged, and nothing was waited for.
    if (*position > 0) acknowledged = states.size() - 1;
    return stopped.ok() || refused_well(last_failure = stopped);
  }
  bool retryable(const std::string& ns, int id, int version, std::int64_t txn) {
    if (!has(ns) || documents(ns).contains(id)) return true;
    if (!states.back().answers.empty() && states.back().answers.begin()->first >= txn) return true;
    return write(
        ns, true,
        [&](World& w) {
          w.collections[ns].documents[id] = version;
          w.answers[txn] = version;
          std::erase_if(w.answers, [&](const auto& one) { return one.first < txn; });
        },
        [&](CollectionWriter& w) -> Status {
          const OwnedDocument document = make_document(id, version);
          MULTIFORA_TRY(status_of(w.insert(document.view())));
          DocumentBuilder answer;
          answer.append("n", version);
          const OwnedDocument result = std::move(answer).finish();
          w.set_statement_result({kSession, txn, 0}, result.view());
          return {};
        });
  }
  bool build(const std::string& ns, std::vector<std::pair<std::string, bool>> fields) {
    if (!has(ns)) return true;
    return perform(
        true,
        [&](World& w) {
          for (const auto& [field, unique] : fields)
            w.collections[ns].indexes.insert(field + "_1");
        },
        [&](Store& s) -> Result<LogPosition> {
          std::vector<OwnedDocument> specs;
          for (const auto& [field, unique] : fields) specs.push_back(index_spec(field, unique));
          std::vector<DocumentView> views;
          for (const OwnedDocument& spec : specs) views.push_back(spec.view());
          Interrupt interrupt(system_clock());
          MULTIFORA_ASSIGN_R(const IndexBuildResult built,
                             s.create_indexes(ns, views, interrupt));
          return built.position;
        });
  }
  bool drop_index(const std::string& ns, const std::string& name) {
    if (!has(ns) || !states.back().collections.at(ns).indexes.contains(name)) return true;
    return perform(
        true, [&](World& w) { w.collections[ns].indexes.erase(name); },
        [&](Store& s) { return s.drop_index(ns, name); });
  }
  bool drop(const std::string& ns) {
    if (!has(ns)) return true;
    return perform(
        true, [&](World& w) { w.collections.erase(ns); },
        [&](Store& s) { return s.drop_collection(ns); });
  }
  bool drop_database(const std::string& db) {
    return perform(
        true,
        [&](World& w) {
          std::erase_if(w.collections,
                        [&](const auto& one) { return one.first.starts_with(db + "."); });
        },
        [&](Store& s) { return s.drop_database(db); });
  }
  bool rename(const std::string& from, const std::string& to) {
    if (!has(from) || from == to) return true;
    return perform(
        true,
        [&](World& w) {
          w.collections[to] = w.collections[from];
          w.collections.erase(from);
        },
        [&](Store& s) { return s.rename_collection(from, to, true); });
  }
  bool set_marker(const std::string& ns, std::int64_t marker) {
    if (!has(ns)) return true;
    return perform(
        true, [&](World& w) { w.collections[ns].marker = marker; },
        [&](Store& s) {
          const OwnedDocument wanted = collection_options(marker);
          return s.set_collection_options(ns, wanted.view());
        });
  }
  bool empty(const std::string& ns) {
    if (!has(ns)) return true;
    return write(
        ns, true, [&](World& w) { w.collections[ns].documents.clear(); },
        [&](CollectionWriter& w) { return w.truncate(); });
  }
  bool checkpoint() {
    last_failure = store->checkpoint();
    if (last_failure.ok()) {
      acknowledged = states.size() - 1;  // all that was appended is in it
      return true;
    }
    return store->health().ok() && refused_well(last_failure);
  }
  // A graceful stop, and a start.
  bool stop_and_start() {
    last_failure = store->close();
    if (!last_failure.ok()) return false;
    acknowledged = states.size() - 1;
    last_failure = open();
    if (!last_failure.ok()) return false;
    settle();
    return true;
  }

  // --- looking ------------------------------------------------------------------------------------
  World look() {
    World world;
    for (const std::string& db : store->database_names())
      for (const auto& info : store->collections(db)) look_at(*info, &world.collections[info->ns]);
    for (std::int64_t txn = 1; txn < 20; ++txn) {
      const auto answer = store->retried_result({kSession, txn, 0});
      if (answer && *answer) world.answers[txn] = (**answer).view()["n"].as_int32();
    }
    return world;
  }
  void look_at(const CollectionInfo& info, World::Content* content) {
    content->indexes.clear();
    const auto specs = store->index_specs(info.ns);
    REQUIRE(specs);
    for (const OwnedDocument& spec : *specs)
      content->indexes.insert(std::string(spec.view()["name"].as_string()));
    content->marker = info.options.view()["marker"].number_as_int64();
    const auto view = store->read(info.ns);
    REQUIRE(view);
    const auto cursor = (*view)->scan(false);
    while (true) {
      const auto more = cursor->next();
      REQUIRE_MESSAGE(more, more.error().message());
      if (!*more) break;
      const int id = cursor->document()["_id"].as_int32();
      const int version = cursor->document()["version"].as_int32();
      const OwnedDocument expected = make_document(id, version);
      REQUIRE(cursor->document().bytes() == expected.view().bytes());
      REQUIRE(content->documents.emplace(id, version).second);
    }
  }
  // The store shows one of the states from the acknowledged one on. What it shows is served to
  // readers, so that from here it must stay.
  void settle() {
    const World found = look();
    std::size_t at = acknowledged;
    while (at < states.size() && states[at] != found) ++at;
    REQUIRE_MESSAGE(at < states.size(), "none of the ", states.size() - acknowledged,
                    " states that are possible is there");
    states = {found};
    acknowledged = 0;
    newest_position = store->last_position();
    const auto errors = store->check();
    REQUIRE_MESSAGE(errors.empty(), errors.front());
  }

  ShiftedClock clock;
  PluginHost host;
  FaultFileSystem files;
  StoreOptions options;
  OpenReport report;
  std::unique_ptr<Store> store;
  std::mt19937_64 random;
  std::vector<World> states;      // after each change
  std::size_t acknowledged = 0;   // index of the newest state that must survive
  LogPosition newest_position = 0;
  std::uint64_t refused = 0;
  Status last_failure;
};

// --- the script -------------------------------------------------------------------------------------

bool first_part(Machine& m) {
  if (!m.create("a.c")) return false;
  for (int id = 0; id < 14; ++id)
    if (!m.put("a.c", id, 1)) return false;
  if (!m.build("a.c", {{"k", false}, {"u", true}})) return false;
  for (int id = 0; id < 20; ++id)
    if (!m.put("a.c", id, 2 + id % 3)) return false;
  if (!m.checkpoint()) return false;
  if (!m.bulk("a.c", 100, 60, 1) || !m.bulk("a.c", 200, 90, 1)) return false;
  if (!m.put("a.c", 1000, 1) || !m.put("a.c", 1000, 2)) return false;
  for (int id = 100; id < 140; id += 3)
    if (!m.remove("a.c", id)) return false;
  for (int id = 101; id < 140; id += 3)
    if (!m.put("a.c", id, 7)) return false;
  for (std::int64_t txn = 1; txn <= 4; ++txn)
    if (!m.retryable("a.c", static_cast<int>(500 + txn), 1, txn)) return false;
  return m.checkpoint();
}

bool catalog_part(Machine& m, int round) {
  if (!m.create("a.d") || !m.create("b.x") || !m.create("b.y")) return false;
  for (int id = 0; id < 12; ++id)
    if (!m.put("a.d", id, round) || !m.put("b.x", id, round)) return false;
  if (!m.build("a.d", {{"k", false}})) return false;
  if (!m.rename("a.d", "a.e")) return false;
  if (!m.put("a.e", 3, round + 1) || !m.set_marker("a.e", round)) return false;
  if (!m.create("a.d") || !m.put("a.d", 1, round)) return false;
  if (!m.rename("a.e", "a.d")) return false;  // replaces the other one
  if (!m.put("a.d", 4, round + 2)) return false;
  if (round % 2 == 0 && !m.checkpoint()) return false;
  if (!m.drop_index("a.c", "k_1") || !m.put("a.c", 1, 10 + round)) return false;
  if (!m.build("a.c", {{"k", false}})) return false;
  if (!m.empty("b.x") || !m.put("b.x", 1, round + 1)) return false;
  if (!m.drop("a.d")) return false;
  return m.drop_database("b");
}

bool busy_part(Machine& m, int round) {
  for (int i = 0; i < 30; ++i) {
    const int id = i * 17 % 50;
    if (i % 4 == 3 ? !m.remove("a.c", id) : !m.put("a.c", id, 20 + round * 10 + i % 7))
      return false;
  }
  // Not waited for: any number of them may be lost, from the end.
  for (int i = 0; i < 5; ++i)
    if (!m.put("a.c", 60 + i, round, false)) return false;
  return m.remove("a.c", 60, false) && m.put("a.c", 70, round);
}

bool script(Machine& m) {
  if (m.last_failure = m.open(); !m.last_failure.ok()) return false;
  if (!first_part(m) || !catalog_part(m, 1) || !busy_part(m, 1)) return false;
  if (!m.stop_and_start()) return false;
  if (!catalog_part(m, 2) || !m.checkpoint() || !busy_part(m, 2) || !m.checkpoint()) return false;
  return busy_part(m, 3) && m.stop_and_start() && m.put("a.c", 71, 1);
}

// Whatever happened: the store works, and what it shows from now on it keeps.
void life_goes_on(Machine& m) {
  m.power_cut();
  REQUIRE(m.create("after.c"));
  for (int i = 0; i < 4; ++i) {
    REQUIRE_MESSAGE(m.put("after.c", i, i), m.last_failure.message());
    REQUIRE_MESSAGE(m.checkpoint(), m.last_failure.message());
  }
  REQUIRE(m.put("after.c", 1, 9));
  m.power_cut();
  REQUIRE(m.stop_and_start());
  CHECK(m.report.recovered_batches == 0);
}

// --- the faults -------------------------------------------------------------------------------------

struct Kind {
  const char* name;
  Operation operation;
  Failure failure;
  bool sticky;     // all later operations of the kind fail too
  bool power_cut;  // instead of a failure
};

const Kind kKinds[] = {
    {"write EIO", Operation::kWrite, Failure::kInputOutput, false, false},
    {"write short", Operation::kWrite, Failure::kShortWrite, false, false},
    {"write ENOSPC", Operation::kWrite, Failure::kNoSpace, false, false},
    {"write short ENOSPC", Operation::kWrite, Failure::kShortNoSpace, false, false},
    {"sync EIO, writes lost", Operation::kSync, Failure::kInputOutput, false, false},
    {"sync ENOSPC, writes lost", Operation::kSync, Failure::kNoSpace, false, false},
    {"allocate EIO", Operation::kAllocate, Failure::kInputOutput, false, false},
    {"allocate ENOSPC", Operation::kAllocate, Failure::kNoSpace, false, false},
    {"disk full from here on", Operation::kAllocate, Failure::kNoSpace, true, false},
    {"any change EIO", Operation::kChange, Failure::kInputOutput, false, false},
    {"all fail from here on", Operation::kChange, Failure::kInputOutput, true, false},
    {"power cut", Operation::kChange, Failure::kInputOutput, false, true},
};

// False where the script has fewer points.
bool run_point(const Kind& kind, std::uint64_t point, std::uint64_t seed, std::uint64_t* failed) {
  INFO("MULTIFORA_FAULT_SEED=", seed, " MULTIFORA_FAULT_KIND='", kind.name,
       "' MULTIFORA_FAULT_POINT=", point);
  Machine m(seed * 1'000'003 + point);
  if (kind.power_cut)
    m.files.power_cut_after(point);
  else
    m.files.fail(kind.operation, point, kind.failure, {}, kind.sticky);
  const bool done = script(m);
  if (!done) ++*failed;
  const bool reached = kind.power_cut ? m.files.power_is_cut()
                                      : m.files.count(kind.operation) >= point;
  INFO("the script ended with: ", done ? "success" : m.last_failure.message());
  m.files.clear_failures();
  if (!m.files.power_is_cut()) {
    m.files.power_cut_after(0);  // none any more
    m.restart();  // the same machine: what the system holds is still there
  }
  life_goes_on(m);
  return reached;
}

TEST_CASE("store: every change of the disk fails in turn, and nothing acknowledged is lost") {
  const std::uint64_t seed = number_from_environment("MULTIFORA_FAULT_SEED", 1);
  const std::uint64_t only_point = number_from_environment("MULTIFORA_FAULT_POINT", 0);
  const char* const only_kind = std::getenv("MULTIFORA_FAULT_KIND");
  const bool all = std::getenv("MULTIFORA_FAULT_ALL") != nullptr || only_kind != nullptr;
  for (const Kind& kind : kKinds) {
    if (only_kind != nullptr && std::string_view(only_kind) != kind.name) continue;
    if (only_point != 0) {
      std::uint64_t failed = 0;
      run_point(kind, only_point, seed, &failed);
      continue;
    }
    std::uint64_t points = 0, last = 0, failed = 0;
    // A sample takes other points with each seed; allocations are few.
    const std::uint64_t stride = all ? 1 : kind.operation == Operation::kAllocate ? 5 : 131;
    for (std::uint64_t point = 1 + (all ? 0 : seed % stride);; point += stride) {
      last = point;
      if (!run_point(kind, point, seed, &failed)) break;
      ++points;
      REQUIRE(point < 20'000);
    }
    std::cout << "fault '" << kind.name << "', seed " << seed << ": " << points << " of " << last - 1
              << " points tried, the script ended early in " << failed << "\n";
    if (all && only_kind == nullptr && kind.power_cut) CHECK(points >= 500);
  }
}

TEST_CASE("store: the clock goes backwards, in a life and between two, and positions do not") {
  constexpr std::int64_t kHourMs = 3'600'000;
  Machine m(7);
  REQUIRE(m.open().ok());
  REQUIRE(m.create("a.c"));
  for (int round = 0; round < 8; ++round) {
    for (int id = 0; id < 10; ++id) REQUIRE(m.put("a.c", id, round));
    REQUIRE(m.retryable("a.c", 100 + round, 1, round + 1));
    m.clock.shift_ms -= kHourMs * (round + 1);
    REQUIRE(m.put("a.c", 20, round));
    if (round % 4 == 0) REQUIRE(m.checkpoint());
    if (round % 4 == 1) m.power_cut();
    if (round % 4 == 2) REQUIRE(m.stop_and_start());
    if (round % 4 == 3) m.clock.shift_ms = 3 * kHourMs;
    CHECK(m.store->last_position() >= m.newest_position);
  }
  m.power_cut();
}

// The first index is good, the second is not: nothing of the first may stay behind in a checkpoint.
TEST_CASE("store: a build of several indexes that fails leaks no page into a checkpoint beside it") {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    INFO("seed ", seed);
    Machine m(seed);
    REQUIRE(m.open().ok());
    REQUIRE(m.create("a.c"));
    REQUIRE(m.bulk("a.c", 0, 400, 1));
    std::atomic<bool> stop{false};
    std::thread checkpoints([&] {
      while (!stop)
        if (!m.store->checkpoint().ok()) return;
    });
    const OwnedDocument good = index_spec("u", false), bad = index_spec("k", true);
    for (int round = 0; round < 30; ++round) {
      Interrupt interrupt(system_clock());
      const auto built = m.store->create_indexes("a.c", {good.view(), bad.view()}, interrupt);
      REQUIRE(!built);
      CHECK(built.error().code() == ErrorCode::kDuplicateKey);
    }
    stop = true;
    checkpoints.join();
    m.power_cut();  // check() is part of it
    REQUIRE(m.build("a.c", {{"u", false}}));
  }
}

// Random work and random faults, for as long as one likes.
TEST_CASE("store: random work through random faults") {
  const std::uint64_t first = number_from_environment("MULTIFORA_FAULT_SEED", std::random_device{}());
  const std::uint64_t seconds = number_from_environment("MULTIFORA_FAULT_SECONDS", 2);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  std::uint64_t seed = first;
  std::cout << "random faults: MULTIFORA_FAULT_SEED=" << first << std::endl;
  for (; std::chrono::steady_clock::now() < end; ++seed) {
    INFO("MULTIFORA_FAULT_SEED=", seed);
    Machine m(seed);
    REQUIRE(m.open().ok());
    const auto below = [&](std::uint64_t n) { return static_cast<int>(m.random() % n); };
    static const std::string kNames[] = {"a.c", "a.d", "b.c", "b.d"};
    for (int step = 0; step < 300; ++step) {
      const std::string& ns = kNames[below(4)];
      if (below(12) == 0) {
        const Kind& kind = kKinds[below(std::size(kKinds))];
        if (kind.power_cut)
          m.files.power_cut_after(1 + m.random() % 20);
        else
          m.files.fail(kind.operation, 1 + m.random() % 20, kind.failure, {}, kind.sticky);
      }
      const int dice = below(100);
      bool ok = dice < 45   ? m.put(ns, below(300), below(1000), below(3) != 0)
                : dice < 60 ? m.remove(ns, below(300), below(3) != 0)
                : dice < 65 ? m.bulk(ns, 1000 * below(9), 1 + below(80), below(9))
                : dice < 75 ? m.create(ns)
                : dice < 78 ? m.drop(ns)
                : dice < 81 ? m.rename(ns, kNames[below(4)])
                : dice < 85 ? m.build(ns, {{"k", false}, {"u", true}})
                : dice < 87 ? m.drop_index(ns, "k_1")
                : dice < 88 ? m.drop_database("b")
                : dice < 89 ? m.empty(ns)
                : dice < 91 ? m.set_marker(ns, step)
                : dice < 95 ? m.checkpoint()
                : dice < 96 ? m.stop_and_start()
                            : m.retryable(ns, below(300), step, 1 + below(18));
      if (ok && below(40) != 0) continue;
      m.files.clear_failures();
      if (!m.files.power_is_cut() && below(2) == 0) {
        m.files.power_cut_after(0);
        m.restart();
      }
      m.power_cut();
    }
    m.files.clear_failures();
    m.files.power_cut_after(0);
    life_goes_on(m);
  }
  std::cout << "random faults: seeds " << first << " to " << seed - 1 << "\n";
}

// --- a full disk ------------------------------------------------------------------------------------

// What does not fit is refused, whatever it is, and nothing else happens.
void script_on_full_disk(Machine& m) {
  REQUIRE(m.create("a.c"));
  int id = 2000;  // past the one very large document
  const auto fill = [&] {
    const std::uint64_t refused = m.refused;
    for (int tries = 0; m.refused < refused + 3; ++tries) {
      REQUIRE_MESSAGE(m.put("a.c", id, 1), m.last_failure.message());
      if (m.documents("a.c").contains(id)) ++id;
      REQUIRE(tries < 100'000);
    }
    CHECK(m.last_failure.code() == ErrorCode::kOutOfDiskSpace);
    CHECK(m.last_failure.message().find("free space") != std::string::npos);
    REQUIRE(m.store->health().ok());
    REQUIRE(m.look() == m.states.back());
  };
  fill();
  REQUIRE(m.build("a.c", {{"k", false}}));
  REQUIRE(m.bulk("a.c", 1'000'000, 200, 1));
  for (int i = 2000; i < 2060; ++i) REQUIRE(m.put("a.c", i, 2));
  REQUIRE(m.create("b.x"));
  REQUIRE(m.checkpoint());
  REQUIRE_MESSAGE(m.look() == m.states.back(), "reads go on");
  // Deletes work, now or after checkpoints have made room in the log.
  const auto remove_all_but = [&](std::size_t left) {
    for (int round = 0; m.documents("a.c").size() > left; ++round) {
      REQUIRE_MESSAGE(round < 20, m.last_failure.message());
      std::vector<int> ids;
      for (const auto& [one, version] : m.documents("a.c")) ids.push_back(one);
      for (const int one : ids) {
        if (m.documents("a.c").size() <= left) break;
        REQUIRE_MESSAGE(m.remove("a.c", one), m.last_failure.message());
      }
      REQUIRE(m.checkpoint());
    }
  };
  const std::size_t most = m.documents("a.c").size();
  remove_all_but(most / 2);
  // Their space comes back, without a restart; all but what lay in chunks of other owners, which is
  // much of so small a disk.
  for (int round = 0; m.documents("a.c").size() < most * 3 / 4; ++round) {
    REQUIRE_MESSAGE(round < 20, m.documents("a.c").size(), " of ", most, ": ",
                    m.last_failure.message());
    REQUIRE(m.checkpoint());
    fill();
  }
  // So it does after a drop.
  REQUIRE_MESSAGE(m.drop("a.c"), m.last_failure.message());
  REQUIRE_MESSAGE(!m.has("a.c"), m.last_failure.message());
  for (int round = 0; round < 3; ++round) REQUIRE(m.checkpoint());
  REQUIRE(m.create("a.c"));
  REQUIRE(m.has("a.c"));
  for (int round = 0; m.documents("a.c").size() < most * 3 / 4; ++round) {
    REQUIRE_MESSAGE(round < 20, m.documents("a.c").size(), " of ", most, ": ",
                    m.last_failure.message());
    REQUIRE(m.checkpoint());
    fill();
  }
}

TEST_CASE("store: a full disk refuses writes and nothing else; space makes them work again") {
  const bool all = std::getenv("MULTIFORA_FAULT_ALL") != nullptr;
  const std::uint64_t seed = number_from_environment("MULTIFORA_FAULT_SEED", 1);
  constexpr std::uint64_t kMiB = 1024 * 1024;
  for (std::uint64_t size = 5 * kMiB; size <= 12 * kMiB; size += all ? 200'000 : 3'500'000) {
    INFO("disk of ", size, " bytes, MULTIFORA_FAULT_SEED=", seed);
    Machine m(seed + size);
    m.files.set_capacity(size);
    REQUIRE(m.open().ok());
    script_on_full_disk(m);
    // It opens on the full disk, after a stop, a kill, a power cut.
    REQUIRE(m.store->wait_durable(m.store->last_position()).ok());
    m.acknowledged = m.states.size() - 1;
    m.restart();
    m.power_cut();
    m.power_cut();
    // More space: no restart is needed.
    m.files.set_capacity(100 * kMiB);
    const std::uint64_t refused = m.refused;
    for (int id = 2'000'000; id < 2'000'200; ++id) REQUIRE(m.put("a.c", id, 1));
    CHECK(m.refused == refused);
    REQUIRE(m.checkpoint());
    REQUIRE(m.stop_and_start());
  }
}

}  // namespace
}  // namespace multifora
