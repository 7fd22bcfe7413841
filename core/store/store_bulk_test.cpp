// Batches of inserts that write their documents once: the log refers to them in the data file. Power
// cuts at many points of a workload, restarts without a checkpoint, damage.
#include <doctest/doctest.h>

#include <cstdlib>
#include <map>
#include <optional>

#include "core/bson/builder.h"
#include "core/plugin/host.h"
#include "core/store/bulk_insert.h"
#include "core/store/store.h"
#include "tests/plugins/reference/index-plain/plain_index.h"
#include "tests/support/fault_file_system.h"

namespace multifora {
namespace {

using State = std::map<int, int>;  // _id -> k

constexpr std::string_view kNs = "db.bulk";

OwnedDocument make_document(int id, int k, std::size_t padding) {
  DocumentBuilder b;
  b.append("_id", id).append("k", k);
  b.append("pad", std::string(padding, static_cast<char>('a' + (id + k) % 26)));
  return std::move(b).finish();
}

class Machine {
 public:
  explicit Machine(std::uint64_t seed) : files(seed) {
    REQUIRE(host.add_index_kind(&kPlainIndex).ok());
    host.freeze();
    options.path = "/db";
    options.memory_budget_bytes = 256u << 20;
    options.checkpoint_interval_ms = 1'000'000;
  }
  Status open() {
    store.reset();
    MULTIFORA_ASSIGN(store, Store::open(options, host, files, &report));
    return {};
  }
  // Each makes one log batch and waits for it.
  Status bulk(int first, int count, std::size_t padding) {
    State after = acknowledged;
    for (int id = first; id < first + count; ++id) after[id] = 0;
    return run(after, [&](CollectionWriter& writer) -> Status {
      expect_inserts(writer, static_cast<std::size_t>(count) * padding);
      for (int id = first; id < first + count; ++id) {
        const OwnedDocument document = make_document(id, 0, padding);
        MULTIFORA_TRY(status_of(writer.insert(document.view())));
      }
      return {};
    });
  }
  Status change(int id, std::size_t padding) {
    State after = acknowledged;
    ++after[id];
    return run(after, [&](CollectionWriter& writer) -> Status {
      const Found found = find(writer, id);
      const OwnedDocument document = make_document(id, after[id], padding);
      return writer.update(found.record, found.document, document.view());
    });
  }
  Status remove(int first, int count) {
    State after = acknowledged;
    for (int id = first; id < first + count; ++id) after.erase(id);
    return run(after, [&](CollectionWriter& writer) -> Status {
      for (int id = first; id < first + count; ++id) {
        const Found found = find(writer, id);
        MULTIFORA_TRY(writer.remove(found.record, found.document));
      }
      return {};
    });
  }
  // A write that changes nothing: its position is 0 and there is nothing to wait for.
  Status nothing() {
    MULTIFORA_ASSIGN(auto writer, store->write(kNs, true));
    MULTIFORA_ASSIGN(const LogPosition position, writer->commit());
    CHECK(position == 0);
    return store->wait_durable(store->last_position());
  }

  State contents() {
    State found;
    auto view = store->read(kNs);
    REQUIRE(view);
    if (!*view) return found;
    const auto cursor = (*view)->scan(false);
    while (true) {
      const auto more = cursor->next();
      REQUIRE(more);
      if (!*more) return found;
      const DocumentView document = cursor->document();
      const int id = document["_id"].as_int32(), k = document["k"].as_int32();
      const std::string_view pad = document["pad"].as_string();
      CHECK(pad.find_first_not_of(static_cast<char>('a' + (id + k) % 26)) == std::string_view::npos);
      found[id] = k;
    }
  }
  // What was acknowledged is there; what was in doubt as a whole or not at all.
  void verify() {
    const State found = contents();
    const bool doubtful = in_doubt && found == *in_doubt;
    CHECK((found == acknowledged || doubtful));
    if (doubtful) acknowledged = *in_doubt;
    in_doubt.reset();
    const auto errors = store->check();
    for (const std::string& error : errors) MESSAGE(error);
    CHECK(errors.empty());
  }
  double referred_syncs() { return host.metrics().value("wal_referenced_syncs_total"); }

  PluginHost host;
  FaultFileSystem files;
  StoreOptions options;
  OpenReport report;
  std::unique_ptr<Store> store;
  State acknowledged;
  std::optional<State> in_doubt;

 private:
  struct Found {
    RecordId record;
    DocumentView document;
  };
  static Found find(CollectionWriter& writer, int id) {
    DocumentBuilder key;
    key.append("_id", id);
    const OwnedDocument document = std::move(key).finish();
    const auto record = writer.view().find_id(document.view()["_id"]);
    REQUIRE(record);
    const auto found = writer.view().find(*record);
    REQUIRE(found);
    REQUIRE(*found);
    return {*record, **found};
  }
  template <class Work>
  Status run(const State& after, Work&& work) {
    in_doubt = after;
    MULTIFORA_ASSIGN(auto writer, store->write(kNs, true));
    MULTIFORA_TRY(work(*writer));
    MULTIFORA_ASSIGN(const LogPosition position, writer->commit());
    MULTIFORA_TRY(store->wait_durable(position));
    acknowledged = after;
    in_doubt.reset();
    return {};
  }
};

// Large and small documents, some across a chunk's border, in fresh and in used chunks.
Status workload(Machine& machine) {
  MULTIFORA_TRY(machine.bulk(0, 40, 20'000));
  MULTIFORA_TRY(machine.change(3, 500));
  MULTIFORA_TRY(machine.bulk(100, 1, 900'000));
  MULTIFORA_TRY(machine.remove(5, 10));
  MULTIFORA_TRY(machine.store->checkpoint());
  MULTIFORA_TRY(machine.bulk(200, 300, 2'000));
  MULTIFORA_TRY(machine.remove(200, 150));
  MULTIFORA_TRY(machine.nothing());
  MULTIFORA_TRY(machine.bulk(600, 1, 100));
  MULTIFORA_TRY(machine.store->checkpoint());
  MULTIFORA_TRY(machine.bulk(700, 45, 16'384));
  MULTIFORA_TRY(machine.change(710, 16'384));
  MULTIFORA_TRY(machine.store->checkpoint());
  return machine.bulk(800, 45, 16'384);
}

std::uint64_t changes_of_workload() {
  Machine machine(1);
  REQUIRE(machine.open().ok());
  const std::uint64_t before = machine.files.count(FaultFileSystem::Operation::kChange);
  REQUIRE(workload(machine).ok());
  return machine.files.count(FaultFileSystem::Operation::kChange) - before;
}

}  // namespace

TEST_CASE("bulk: documents are written once, and found again without a checkpoint") {
  Machine machine(1);
  REQUIRE(machine.open().ok());
  REQUIRE(machine.bulk(0, 60, 16'384).ok());
  REQUIRE(machine.bulk(100, 60, 16'384).ok());
  CHECK(machine.referred_syncs() >= 2);
  // Of the first batch, what fits in shared chunks is logged as it is.
  CHECK(machine.host.metrics().value("wal_written_bytes_total") < 400'000);
  machine.verify();
  for (int round = 0; round < 3; ++round) {
    machine.files.crash();
    REQUIRE(machine.open().ok());
    CHECK(machine.report.recovered_batches >= 3);
    machine.verify();
    REQUIRE(machine.bulk(1000 + round * 100, 60, 16'384).ok());
    REQUIRE(machine.remove(1000 + round * 100, 30).ok());
  }
  REQUIRE(machine.store->close().ok());
  REQUIRE(machine.open().ok());
  CHECK(machine.report.recovered_batches == 0);
  machine.verify();
}

TEST_CASE("bulk: a write that changes nothing, then one that does, then a crash") {
  Machine machine(1);
  REQUIRE(machine.open().ok());
  for (int i = 0; i < 20; ++i) {
    REQUIRE(machine.bulk(i * 10, 1, 100).ok());
    REQUIRE(machine.nothing().ok());
    REQUIRE(machine.bulk(i * 10 + 1, 1, 100).ok());
    machine.files.crash();
    REQUIRE(machine.open().ok());
    machine.verify();
  }
}

TEST_CASE("bulk: a power cut at any change of the disk") {
  const char* const wanted = std::getenv("MULTIFORA_BULK_POINTS");  // 0: every one
  const std::uint64_t points = wanted == nullptr ? 25 : std::strtoull(wanted, nullptr, 10);
  const std::uint64_t changes = changes_of_workload();
  const std::uint64_t step = points == 0 ? 1 : std::max<std::uint64_t>(1, changes / points);
  for (std::uint64_t cut = 1; cut <= changes; cut += step) {
    CAPTURE(cut);
    Machine machine(cut);
    REQUIRE(machine.open().ok());
    machine.files.power_cut_after(cut);
    const Status status = workload(machine);
    CHECK((status.ok() || machine.files.power_is_cut()));
    machine.store.reset();
    machine.files.crash();
    const Status opened = machine.open();
    REQUIRE_MESSAGE(opened.ok(), opened.message());
    machine.verify();
    // The recovered store goes on, and what it does survives another restart.
    REQUIRE(machine.bulk(2000, 45, 16'384).ok());
    machine.files.crash();
    REQUIRE(machine.open().ok());
    machine.verify();
  }
}

TEST_CASE("bulk: a failed sync of the documents is never acknowledged") {
  Machine machine(1);
  REQUIRE(machine.open().ok());
  REQUIRE(machine.bulk(0, 60, 16'384).ok());
  machine.files.fail(FaultFileSystem::Operation::kSync, 1, FaultFileSystem::Failure::kInputOutput,
                     "data.mfdb");
  CHECK_FALSE(machine.bulk(100, 60, 16'384).ok());
  CHECK_FALSE(machine.bulk(200, 1, 100).ok());
  machine.store.reset();
  machine.files.crash();
  REQUIRE(machine.open().ok());
  machine.verify();
}

TEST_CASE("bulk: bytes that are not those that the log refers to are damage") {
  Machine machine(1);
  REQUIRE(machine.open().ok());
  REQUIRE(machine.bulk(0, 60, 16'384).ok());
  REQUIRE(machine.bulk(100, 60, 16'384).ok());
  machine.files.crash();
  machine.store.reset();
  // In the middle of the documents' bytes.
  const std::string bytes = machine.files.content("/db/data.mfdb");
  const std::size_t at = bytes.find(std::string(1000, static_cast<char>('a' + 120 % 26)));
  REQUIRE(at != std::string::npos);
  machine.files.poke("/db/data.mfdb", at + 500, "?");
  const Status status = machine.open();
  CHECK(status.code() == ErrorCode::kDataCorruptionDetected);
  CHECK(status.message().find("data.mfdb") != std::string::npos);
}

}  // namespace multifora
