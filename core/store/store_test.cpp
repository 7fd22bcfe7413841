// The store on a file system in memory: life cycles, crashes at every change of a scripted workload,
// and random work against a model. check() ends every scenario.
#include "core/store/store.h"

#include <doctest/doctest.h>

#include <atomic>
#include <map>
#include <random>
#include <set>

#include "core/base/interrupt.h"
#include "core/bson/builder.h"
#include "core/plugin/host.h"
#include "tests/support/fault_file_system.h"
#include "tests/plugins/reference/index-plain/plain_index.h"

namespace multifora {
namespace {

struct Env {
  explicit Env(std::uint64_t seed = 1) : files(seed) {
    REQUIRE(host.add_index_kind(&kPlainIndex).ok());
    host.freeze();
    options.path = "/db";
    options.memory_budget_bytes = 256u << 20;
    options.checkpoint_interval_ms = 1'000'000;
  }
  Status open() {
    auto opened = Store::open(options, host, files, &report);
    if (!opened) return opened.error();
    store = std::move(*opened);
    return {};
  }
  void reopen() {
    REQUIRE(store->close().ok());
    store.reset();
    REQUIRE(open().ok());
  }
  void crash() {
    files.crash();
    store.reset();
    const Status status = open();
    INFO(status.message());
    REQUIRE(status.ok());
  }
  void check() {
    const auto errors = store->check();
    for (const std::string& error : errors) MESSAGE(error);
    CHECK(errors.empty());
  }

  PluginHost host;
  FaultFileSystem files;
  StoreOptions options;
  OpenReport report;
  std::unique_ptr<Store> store;
};

OwnedDocument make_document(int id, int k, std::size_t padding = 0) {
  DocumentBuilder b;
  b.append("_id", id).append("k", k);
  if (padding > 0) b.append("pad", std::string(padding, static_cast<char>('a' + id % 26)));
  return std::move(b).finish();
}

Result<RecordId> insert(CollectionWriter& writer, const OwnedDocument& document) {
  return writer.insert(document.view());
}

// Inserts durably.
Status put(Store& store, std::string_view ns, const OwnedDocument& document) {
  MULTIFORA_ASSIGN(auto writer, store.write(ns, true));
  MULTIFORA_TRY(status_of(writer->insert(document.view())));
  MULTIFORA_ASSIGN(const LogPosition position, writer->commit());
  return store.wait_durable(position);
}

std::map<int, int> contents(Store& store, std::string_view ns) {
  std::map<int, int> found;
  auto view = store.read(ns);
  REQUIRE(view);
  if (!*view) return found;
  const auto cursor = (*view)->scan(false);
  while (true) {
    const auto more = cursor->next();
    REQUIRE(more);
    if (!*more) break;
    found[cursor->document()["_id"].as_int32()] = cursor->document()["k"].as_int32();
  }
  return found;
}

RecordId id_of(CollectionView& view, int id) {
  const OwnedDocument document = make_document(id, 0);
  const auto found = view.find_id(document.view()["_id"]);
  REQUIRE(found);
  return *found;
}

TEST_CASE("documents and collections survive a graceful restart, and the log is empty then") {
  Env env;
  REQUIRE(env.open().ok());
  CHECK(env.report.created);
  for (int i = 0; i < 100; ++i) REQUIRE(put(*env.store, "a.c", make_document(i, i * 2)).ok());
  REQUIRE(put(*env.store, "b.d", make_document(1, 1, 100'000)).ok());
  env.check();
  env.reopen();
  CHECK(env.report.recovered_batches == 0);
  CHECK(contents(*env.store, "a.c").size() == 100);
  CHECK(contents(*env.store, "a.c")[7] == 14);
  CHECK(env.store->database_names() == std::vector<std::string>{"a", "b"});
  CHECK(!env.store->info("a.none"));
  env.check();
}

TEST_CASE("acknowledged writes survive a crash without any checkpoint") {
  Env env;
  REQUIRE(env.open().ok());
  for (int i = 0; i < 50; ++i) REQUIRE(put(*env.store, "a.c", make_document(i, i)).ok());
  env.crash();
  CHECK(env.report.recovered_batches >= 50);
  CHECK(contents(*env.store, "a.c").size() == 50);
  env.check();
}

// A known kind of failure: what changes nothing appends nothing, and must not be taken for the
// position that the next write waits for.
TEST_CASE("a write that changes nothing, then an acknowledged insert, then a crash") {
  for (int round = 0; round < 10; ++round) {
    Env env(static_cast<std::uint64_t>(round) + 1);
    REQUIRE(env.open().ok());
    REQUIRE(put(*env.store, "a.c", make_document(1, 1)).ok());
    {
      auto writer = env.store->write("a.c", false);
      REQUIRE(writer);
      CHECK(*(*writer)->commit() == 0);  // nothing at all
    }
    {
      auto writer = env.store->write("a.c", false);
      REQUIRE(writer);
      CHECK(!insert(**writer, make_document(1, 9)));  // a duplicate
      CHECK(*(*writer)->commit() == 0);
    }
    {
      auto writer = env.store->write("a.c", false);
      const OwnedDocument same = make_document(1, 1);
      REQUIRE((*writer)->update(id_of((*writer)->view(), 1), same.view(), same.view()).ok());
      const auto position = (*writer)->commit();
      REQUIRE(position);
      if (round % 2 == 0) REQUIRE(env.store->wait_durable(*position).ok());
    }
    REQUIRE(env.store->wait_durable(0).ok());
    REQUIRE(put(*env.store, "a.c", make_document(2, 2)).ok());
    env.crash();
    CHECK(contents(*env.store, "a.c") == std::map<int, int>{{1, 1}, {2, 2}});
    env.check();
  }
}

TEST_CASE("a database that is meant to be read-only refuses changes, and reads what there is") {
  Env env;
  REQUIRE(env.open().ok());
  REQUIRE(put(*env.store, "a.c", make_document(1, 1)).ok());
  env.files.crash();
  env.store.reset();
  env.options.read_only = true;
  REQUIRE(env.open().ok());
  CHECK(put(*env.store, "a.c", make_document(2, 2)).code() == ErrorCode::kIllegalOperation);
  CHECK(env.store->drop_collection("a.c").error().code() == ErrorCode::kIllegalOperation);
  CHECK(env.store->health().message().find("storage.read_only") != std::string::npos);
  CHECK(contents(*env.store, "a.c") == std::map<int, int>{{1, 1}});
  REQUIRE(env.store->checkpoint().ok());
  env.reopen();
  CHECK(contents(*env.store, "a.c") == std::map<int, int>{{1, 1}});
}

TEST_CASE("a damaged collection can be dropped, and the store stays writable") {
  Env env;
  REQUIRE(env.open().ok());
  for (int i = 0; i < 50; ++i) REQUIRE(put(*env.store, "a.c", make_document(i, i, 3000)).ok());
  REQUIRE(put(*env.store, "a.other", make_document(1, 1)).ok());
  REQUIRE(env.store->close().ok());
  env.store.reset();
  const std::string file = env.files.content("/db/data.mfdb");
  const std::size_t at = file.find(std::string(3000, 'a' + 7));
  REQUIRE(at != std::string::npos);
  // The record's header: it lies before the document's first bytes.
  env.files.poke("/db/data.mfdb", at / 32 * 32 - 64, std::string(64, '\xff'));
  REQUIRE(env.open().ok());
  CHECK(!env.store->check().empty());
  REQUIRE(env.store->drop_collection("a.c"));
  REQUIRE(env.store->health().ok());
  REQUIRE(put(*env.store, "a.c", make_document(3, 3)).ok());
  env.crash();
  CHECK(contents(*env.store, "a.c") == std::map<int, int>{{3, 3}});
  CHECK(contents(*env.store, "a.other") == std::map<int, int>{{1, 1}});
  CHECK(env.store->health().ok());
}

TEST_CASE("duplicate keys change nothing and name key and index") {
  Env env;
  REQUIRE(env.open().ok());
  REQUIRE(put(*env.store, "a.c", make_document(1, 1)).ok());
  const Status status = put(*env.store, "a.c", make_document(1, 2));
  CHECK(status.code() == ErrorCode::kDuplicateKey);
  CHECK(status.message().find("index: _id_ dup key: { _id:") != std::string::npos);
  CHECK(DocumentView::assume_valid(Bytes(status.extra()))["keyPattern"].type() == BsonType::kObject);
  CHECK(contents(*env.store, "a.c") == std::map<int, int>{{1, 1}});
  env.check();
}

TEST_CASE("updates and removals through a writer, and their recovery") {
  Env env;
  REQUIRE(env.open().ok());
  for (int i = 0; i < 20; ++i) REQUIRE(put(*env.store, "a.c", make_document(i, 0, 50)).ok());
  {
    auto writer = env.store->write("a.c", false);
    REQUIRE(writer);
    for (int i = 0; i < 20; ++i) {
      const RecordId id = id_of((*writer)->view(), i);
      const auto before = (*writer)->view().find(id);
      REQUIRE(before);
      REQUIRE(before->has_value());
      if (i % 3 == 0) {
        REQUIRE((*writer)->remove(id, **before).ok());
      } else {
        const OwnedDocument after = make_document(i, i + 1, 70);
        REQUIRE((*writer)->update(id, **before, after.view()).ok());
      }
    }
    const auto position = (*writer)->commit();
    REQUIRE(position);
    REQUIRE(env.store->wait_durable(*position).ok());
  }
  const auto expected = contents(*env.store, "a.c");
  CHECK(expected.size() == 13);
  CHECK(expected.at(1) == 2);
  env.check();
  env.crash();
  CHECK(contents(*env.store, "a.c") == expected);
  env.check();
}

TEST_CASE("indexes are built over what is there, kept in step, dropped, and recovered") {
  Env env;
  REQUIRE(env.open().ok());
  for (int i = 0; i < 200; ++i) REQUIRE(put(*env.store, "a.c", make_document(i, i % 10)).ok());
  DocumentBuilder spec;
  spec.object("key").append("k", 1);
  spec.append("name", "k_1");
  const OwnedDocument k_index = std::move(spec).finish();
  Interrupt interrupt(system_clock());
  auto built = env.store->create_indexes("a.c", {k_index.view()}, interrupt);
  REQUIRE(built);
  CHECK(built->indexes_before == 1);
  CHECK(built->indexes_after == 2);
  REQUIRE(env.store->wait_durable(built->position).ok());
  CHECK(env.store->create_indexes("a.c", {k_index.view()}, interrupt)->all_existed);
  for (int i = 200; i < 250; ++i) REQUIRE(put(*env.store, "a.c", make_document(i, i % 10)).ok());
  env.check();
  env.crash();
  env.check();
  CHECK(env.store->index_specs("a.c")->size() == 2);
  CHECK(env.store->collection_stats("a.c")->indexes.at(1).entries == 250);

  DocumentBuilder unique;
  unique.object("key").append("k", 1);
  unique.append("name", "u").append("unique", true);
  const OwnedDocument unique_index = std::move(unique).finish();
  CHECK(env.store->create_indexes("a.c", {unique_index.view()}, interrupt).error().code() ==
        ErrorCode::kDuplicateKey);
  CHECK(env.store->index_specs("a.c")->size() == 2);
  env.check();
  const auto dropped = env.store->drop_index("a.c", "k_1");
  REQUIRE(dropped);
  REQUIRE(env.store->wait_durable(*dropped).ok());
  CHECK(env.store->drop_index("a.c", "k_1").error().code() == ErrorCode::kIndexNotFound);
  env.check();
  env.reopen();
  CHECK(env.store->index_specs("a.c")->size() == 1);
  env.check();
}

TEST_CASE("prepareUnique keeps the duplicates that are there and refuses new ones") {
  Env env;
  REQUIRE(env.open().ok());
  REQUIRE(put(*env.store, "a.c", make_document(1, 5)).ok());
  REQUIRE(put(*env.store, "a.c", make_document(2, 5)).ok());
  DocumentBuilder spec;
  spec.object("key").append("k", 1);
  spec.append("name", "k_1").append("prepareUnique", true);
  const OwnedDocument k_index = std::move(spec).finish();
  Interrupt interrupt(system_clock());
  REQUIRE(env.store->create_indexes("a.c", {k_index.view()}, interrupt));
  CHECK(put(*env.store, "a.c", make_document(3, 5)).code() == ErrorCode::kDuplicateKey);
  CHECK(put(*env.store, "a.c", make_document(4, 6)).ok());
  env.check();
}

TEST_CASE("create, rename, drop") {
  Env env;
  REQUIRE(env.open().ok());
  REQUIRE(put(*env.store, "a.one", make_document(1, 1)).ok());
  REQUIRE(put(*env.store, "a.two", make_document(2, 2)).ok());
  CHECK(env.store->rename_collection("a.one", "a.two", false).error().code() ==
        ErrorCode::kNamespaceExists);
  CHECK(env.store->rename_collection("a.none", "a.x", false).error().code() ==
        ErrorCode::kNamespaceNotFound);
  REQUIRE(env.store->rename_collection("a.one", "a.two", true));
  CHECK(contents(*env.store, "a.two") == std::map<int, int>{{1, 1}});
  CHECK(!env.store->info("a.one"));
  REQUIRE(put(*env.store, "a.one", make_document(3, 3)).ok());
  env.check();
  const auto dropped = env.store->drop_collection("a.two");
  REQUIRE(dropped);
  REQUIRE(env.store->wait_durable(*dropped).ok());
  CHECK(env.store->drop_collection("a.two").error().code() == ErrorCode::kNamespaceNotFound);
  env.crash();
  CHECK(!env.store->info("a.two"));
  CHECK(contents(*env.store, "a.one") == std::map<int, int>{{3, 3}});
  REQUIRE(env.store->drop_database("a"));
  CHECK(*env.store->drop_database("a") == 0);
  CHECK(env.store->database_names().empty());
  env.check();
  env.reopen();
  CHECK(env.store->database_names().empty());
  env.check();
}

TEST_CASE("results of retryable statements survive crash and checkpoint") {
  Env env;
  REQUIRE(env.open().ok());
  const StatementId statement{std::string(16, 'x'), 3, 0};
  {
    auto writer = env.store->write("a.c", true);
    REQUIRE(writer);
    REQUIRE(insert(**writer, make_document(1, 1)));
    const OwnedDocument answer = make_document(77, 0);
    (*writer)->set_statement_result(statement, answer.view());
    REQUIRE(env.store->wait_durable(*(*writer)->commit()).ok());
  }
  env.crash();
  REQUIRE(env.store->retried_result(statement).value());
  env.reopen();
  const auto result = env.store->retried_result(statement);
  REQUIRE(result.value());
  CHECK((*result)->view()["_id"].as_int32() == 77);
  env.check();
}

TEST_CASE("a capped collection keeps its newest documents, also through a crash") {
  Env env;
  REQUIRE(env.open().ok());
  DocumentBuilder options;
  options.append("capped", true).append("size", 100'000).append("max", 10);
  const OwnedDocument capped = std::move(options).finish();
  REQUIRE(env.store->create_collection("a.c", capped.view()));
  for (int i = 0; i < 25; ++i) REQUIRE(put(*env.store, "a.c", make_document(i, i)).ok());
  CHECK(contents(*env.store, "a.c").size() == 10);
  CHECK(contents(*env.store, "a.c").begin()->first == 15);
  env.crash();
  CHECK(contents(*env.store, "a.c").begin()->first == 15);
  env.check();
}

TEST_CASE("an unfinished drop of a large collection is finished after a restart") {
  Env env;
  REQUIRE(env.open().ok());
  {
    auto writer = env.store->write("a.big", true);
    REQUIRE(writer);
    for (int i = 0; i < 30'000; ++i) REQUIRE(insert(**writer, make_document(i, i)));
    REQUIRE((*writer)->commit());
  }
  REQUIRE(env.store->checkpoint().ok());
  const auto dropped = env.store->drop_collection("a.big");
  REQUIRE(dropped);
  REQUIRE(env.store->wait_durable(*dropped).ok());
  env.check();
  env.crash();
  env.check();
  env.reopen();
  CHECK(env.store->database_names().empty());
  env.check();
}

TEST_CASE("flipped bytes in a record are reported and never returned, by look-up, scan or index build") {
  Env env;
  REQUIRE(env.open().ok());
  for (int i = 0; i < 20; ++i) REQUIRE(put(*env.store, "a.c", make_document(i, i, 300)).ok());
  REQUIRE(env.store->close().ok());
  env.store.reset();
  const std::string file = env.files.content("/db/data.mfdb");
  const std::size_t at = file.find(std::string(100, 'a' + 7));  // inside document 7
  REQUIRE(at != std::string::npos);
  env.files.poke("/db/data.mfdb", at, "X");
  REQUIRE(env.open().ok());
  {
    auto view = env.store->read("a.c");
    const auto found = (*view)->find(id_of(**view, 7));
    REQUIRE(!found);
    CHECK(found.error().code() == ErrorCode::kDataCorruptionDetected);
    CHECK((*view)->find(id_of(**view, 8)));
    const auto cursor = (*view)->scan(false);
    bool failed = false;
    while (true) {
      const auto more = cursor->next();
      failed = failed || !more;
      if (!more || !*more) break;
      CHECK(cursor->document()["_id"].as_int32() != 7);
    }
    CHECK(failed);
  }
  Interrupt interrupt(system_clock());
  const auto report = env.store->validate("a.c", true, interrupt);
  REQUIRE(report);
  CHECK(report->invalid_documents == 1);
  CHECK(!report->errors.empty());
  CHECK(!env.store->check().empty());
  DocumentBuilder spec;
  spec.object("key").append("k", 1);
  spec.append("name", "k_1");
  const OwnedDocument k_index = std::move(spec).finish();
  CHECK(env.store->create_indexes("a.c", {k_index.view()}, interrupt).error().code() ==
        ErrorCode::kDataCorruptionDetected);
  CHECK(env.store->index_specs("a.c")->size() == 1);
}

TEST_CASE("a flipped byte in an index page is reported, not followed") {
  Env env;
  REQUIRE(env.open().ok());
  for (int i = 0; i < 2000; ++i) REQUIRE(put(*env.store, "a.c", make_document(i, i)).ok());
  REQUIRE(env.store->close().ok());
  env.store.reset();
  // Flip a byte in the middle of every page that is no meta page and not all zero.
  const std::string file = env.files.content("/db/data.mfdb");
  int failures = 0, opened = 0;
  for (std::size_t page = 2; page * 4096 < file.size() && opened < 60; ++page) {
    const std::string original = file.substr(page * 4096 + 2000, 1);
    if (file.substr(page * 4096, 4096).find_first_not_of('\0') == std::string::npos) continue;
    env.files.poke("/db/data.mfdb", page * 4096 + 2000, std::string(1, static_cast<char>(~original[0])));
    ++opened;
    if (!env.open().ok()) {
      ++failures;
    } else {
      auto view = env.store->read("a.c");
      bool bad = !view || !*view;
      if (!bad)
        for (int i = 0; i < 2000; ++i) {
          const OwnedDocument probe = make_document(i, i);
          const auto id = (*view)->find_id(probe.view()["_id"]);
          if (!id) bad = true;
          if (!id || *id == 0) continue;
          const auto document = (*view)->find(*id);
          if (!document || !document->has_value())
            bad = true;
          else
            CHECK((**document)["k"].as_int32() == i);
        }
      view->reset();
      bad = bad || !env.store->check().empty();
      failures += bad ? 1 : 0;
      env.files.crash();
      env.store.reset();
    }
    env.files.poke("/db/data.mfdb", page * 4096 + 2000, original);
  }
  MESSAGE(failures << " of " << opened << " flipped pages were noticed");
  CHECK(failures >= opened / 2);  // free pages and slack may be flipped without harm
}

// One scripted workload; returns what was acknowledged, key -> value; -1: removed.
struct Scripted {
  std::map<int, int> acknowledged;
  std::set<int> in_doubt;  // keys with a change that was not acknowledged
};

Status scripted_step(Store& store, int step, Scripted& state) {
  const int key = step % 7;
  state.in_doubt.insert(key);
  MULTIFORA_ASSIGN(auto writer, store.write("a.c", true));
  const RecordId id = [&] {
    const OwnedDocument probe = make_document(key, 0);
    const auto found = writer->view().find_id(probe.view()["_id"]);
    return found ? *found : RecordId{0};
  }();
  int value = step;
  if (id == 0) {
    const OwnedDocument fresh = make_document(key, step, 500);
    MULTIFORA_TRY(status_of(writer->insert(fresh.view())));
  } else {
    MULTIFORA_ASSIGN(const auto before, writer->view().find(id));
    if (step % 5 == 0) {
      MULTIFORA_TRY(writer->remove(id, *before));
      value = -1;
    } else {
      const OwnedDocument after = make_document(key, step, 300 + static_cast<std::size_t>(step) % 400);
      MULTIFORA_TRY(writer->update(id, *before, after.view()));
    }
  }
  MULTIFORA_ASSIGN(const LogPosition position, writer->commit());
  MULTIFORA_TRY(store.wait_durable(position));
  state.acknowledged[key] = value;
  state.in_doubt.erase(key);
  if (step % 11 == 0) MULTIFORA_TRY(store.checkpoint());
  return {};
}

void verify_acknowledged(Env& env, const Scripted& state) {
  const auto found = contents(*env.store, "a.c");
  for (const auto& [key, value] : state.acknowledged) {
    if (state.in_doubt.contains(key)) continue;
    const auto at = found.find(key);
    if (value == -1)
      CHECK(at == found.end());
    else if (at == found.end())
      FAIL_CHECK("acknowledged document " << key << " is gone");
    else
      CHECK(at->second == value);
  }
  env.check();
}

TEST_CASE("a power cut at every change loses nothing acknowledged") {
  std::uint64_t changes = 0;
  for (std::uint64_t cut = 1; cut < 2000; ++cut) {
    Env env(cut);
    if (!env.open().ok()) FAIL("open");
    env.files.power_cut_after(cut);
    Scripted state;
    for (int step = 1; step <= 60; ++step)
      if (!scripted_step(*env.store, step, state).ok()) break;
    const bool done = !env.files.power_is_cut();
    INFO("cut at change " << cut);
    env.crash();
    verify_acknowledged(env, state);
    changes = cut;
    if (done) break;
  }
  MESSAGE("changes swept: " << changes);
  CHECK(changes > 100);
}

TEST_CASE("a failed write or sync stops acknowledgements until a restart") {
  for (const auto operation :
       {FaultFileSystem::Operation::kWrite, FaultFileSystem::Operation::kSync})
    for (std::uint64_t nth = 1; nth < 80; ++nth) {
      Env env(nth);
      REQUIRE(env.open().ok());
      env.files.fail(operation, nth, FaultFileSystem::Failure::kInputOutput);
      Scripted state;
      bool failed = false;
      int first_failure = 0;
      for (int step = 1; step <= 40; ++step) {
        const Status status = scripted_step(*env.store, step, state);
        if (failed) CHECK(!status.ok());
        if (!status.ok() && !failed) first_failure = step;
        failed = failed || !status.ok();
      }
      INFO("operation " << nth << ", failed at step " << first_failure);
      env.crash();
      verify_acknowledged(env, state);
      if (!failed) break;
    }
}

TEST_CASE("random work agrees with a model over restarts and crashes") {
  const std::uint64_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  Env env(seed);
  REQUIRE(env.open().ok());
  std::map<int, int> model;
  for (int step = 0; step < 3000; ++step) {
    const int key = static_cast<int>(random() % 300);
    const int value = static_cast<int>(random() % 1000);
    const std::size_t padding = random() % 10 == 0 ? random() % 60'000 : random() % 600;
    auto writer = env.store->write("a.c", true);
    REQUIRE(writer);
    const RecordId id = id_of((*writer)->view(), key);
    CHECK((id != 0) == model.contains(key));
    if (id == 0) {
      REQUIRE(insert(**writer, make_document(key, value, padding)));
      model[key] = value;
    } else {
      const auto before = (*writer)->view().find(id);
      REQUIRE(before);
      if (random() % 3 == 0) {
        REQUIRE((*writer)->remove(id, **before).ok());
        model.erase(key);
      } else {
        const OwnedDocument after = make_document(key, value, padding);
        REQUIRE((*writer)->update(id, **before, after.view()).ok());
        model[key] = value;
      }
    }
    const auto position = (*writer)->commit();
    REQUIRE(position);
    writer->reset();
    if (step % 100 == 0) REQUIRE(env.store->wait_durable(*position).ok());
    if (random() % 200 == 0) REQUIRE(env.store->checkpoint().ok());
    if (step % 500 == 250) {
      REQUIRE(env.store->wait_durable(*position).ok());
      env.crash();
    }
    if (step % 500 == 499) env.reopen();
    if (step % 250 == 0) {
      CHECK(contents(*env.store, "a.c") == model);
      env.check();
    }
  }
  CHECK(contents(*env.store, "a.c") == model);
  env.check();
}

class SteppedClock final : public Clock {
 public:
  std::int64_t wall_ms() const override { return wall; }
  std::int64_t monotonic_us() const override { return system_clock().monotonic_us(); }
  std::atomic<std::int64_t> wall{1'700'000'000'000};
};

TEST_CASE("a wall clock that goes backwards does not take the log with it") {
  SteppedClock clock;
  Env env;
  env.host.set_clock(&clock);
  REQUIRE(env.open().ok());
  LogPosition last = 0;
  int id = 0;
  const auto write = [&] {
    auto writer = env.store->write("a.c", true);
    ++id;
    REQUIRE(insert(**writer, make_document(id, id)));
    const auto position = (*writer)->commit();
    REQUIRE(position);
    CHECK(*position > last);
    last = *position;
    REQUIRE(env.store->wait_durable(last).ok());
  };
  for (const std::int64_t step_ms : {1'000, -3'600'000, 10, -86'400'000, 5'000}) {
    clock.wall += step_ms;
    write();
    write();
    if (step_ms > 0) REQUIRE(env.store->checkpoint().ok());
    // Also across a restart that happens in the past.
    step_ms == 10 ? env.reopen() : env.crash();
    CHECK(env.store->last_position() >= last);
    write();
  }
  CHECK(contents(*env.store, "a.c").size() == static_cast<std::size_t>(id));
  env.check();
}

TEST_CASE("results of retryable writes are kept for their time, and no longer") {
  SteppedClock clock;
  Env env;
  env.host.set_clock(&clock);
  REQUIRE(env.open().ok());
  constexpr int kSessions = 3'000;
  const auto id_of = [](int number) {
    std::string lsid(16, '\0');
    store_le(lsid.data() + number % 13, number);
    return StatementId{lsid, 5, 0};
  };
  int next = 0;
  const auto use = [&](StatementId id) {
    auto writer = env.store->write("a.c", true);
    REQUIRE(insert(**writer, make_document(++next, 0)));
    const OwnedDocument answer = make_document(next, 1);
    (*writer)->set_statement_result(id, answer.view());
    REQUIRE((*writer)->commit());
  };
  const auto known = [&](int number) {
    const auto found = env.store->retried_result(id_of(number));
    REQUIRE(found);
    return found->has_value();
  };
  for (int i = 1; i <= kSessions; ++i) use(id_of(i));
  REQUIRE(env.store->checkpoint().ok());
  clock.wall += 20 * 60'000;
  for (int i = 1; i <= kSessions; i += 100) use(id_of(i));
  REQUIRE(env.store->checkpoint().ok());
  env.reopen();
  for (int i = 1; i <= kSessions; ++i) REQUIRE(known(i));
  clock.wall += 20 * 60'000;
  for (int round = 0; round < 8; ++round) {
    REQUIRE(put(*env.store, "a.d", make_document(round, 0)).ok());
    REQUIRE(env.store->checkpoint().ok());
  }
  for (int i = 1; i <= kSessions; ++i) CHECK(known(i) == (i % 100 == 1));
  env.check();
  env.crash();
  for (int i = 1; i <= kSessions; ++i) CHECK(known(i) == (i % 100 == 1));
  env.check();
}

}  // namespace
}  // namespace multifora
