// The log under power cuts, failing disks and damage, on a file system in memory.
#include <doctest/doctest.h>

#include <algorithm>
#include <thread>

#include "core/storage/wal_format.h"
#include "core/storage/wal_test_support.h"

using namespace multifora;
using namespace multifora::wal_test;
using Operation = FaultFileSystem::Operation;
using Failure = FaultFileSystem::Failure;

namespace {

// A log, what was appended to it, and what of that was acknowledged. The checkpoint stands for the
// data file: everything up to it is safe elsewhere.
struct Scenario {
  explicit Scenario(std::uint64_t seed) : bench(seed), random(seed) {}

  // False once the log has failed.
  bool append(std::size_t size) {
    std::string bytes = random_bytes(random, size);
    auto reservation = bench.wal->reserve(size);
    if (!reservation) return bench.wal->health().ok();  // no segment could be made: not final
    const auto position = bench.wal->append(bytes, &*reservation);
    if (!position) return false;
    bench.appended.push_back({*position, std::move(bytes)});
    return true;
  }
  bool acknowledge() {
    const LogPosition position = bench.wal->last_appended();
    if (!bench.wal->wait_durable(position).ok()) return false;
    acknowledged = position;
    return true;
  }
  bool checkpoint() {
    if (!acknowledge()) return false;
    const bool ok = bench.wal->recycle(acknowledged).ok();
    from = acknowledged;  // the data file's checkpoint was durable before the call
    return ok;
  }
  // What every reopening after a crash must find; goes on from there.
  void check_reopened() {
    const Status status = bench.try_open(from);
    REQUIRE_MESSAGE(status.ok(), status.message());
    check_replayed();
  }
  void check_replayed() {
    std::vector<Batch>& appended = bench.appended;
    std::erase_if(appended, [&](const Batch& batch) { return batch.position <= from; });
    REQUIRE(bench.replayed.size() <= appended.size());
    const auto kept = appended.begin() + static_cast<long>(bench.replayed.size());
    REQUIRE(std::equal(appended.begin(), kept, bench.replayed.begin()));  // nothing invented
    if (kept != appended.end()) REQUIRE(kept->position > acknowledged);   // nothing dropped
    appended.erase(kept, appended.end());
    acknowledged = std::max(from, appended.empty() ? 0 : appended.back().position);
  }

  Bench bench;
  std::mt19937_64 random;
  LogPosition acknowledged = 0;
  LogPosition from = 0;
};

// Small and large batches, segment borders, unacknowledged batches, recycling, a restart.
bool scripted_load(Scenario& s) {
  for (int round = 0; round < 3; ++round) {
    for (const std::size_t size : {300, 0, 5000, 300}) {
      if (!s.append(size) || !s.acknowledge()) return false;
    }
    if (!s.append(300) || !s.append(9000) || !s.append(20'000) || !s.append(100)) return false;
    if (!s.acknowledge() || !s.append(40'000) || !s.append(4000)) return false;
    if (round == 1 && !s.checkpoint()) return false;
  }
  return s.append(300) && s.acknowledge() && s.append(6000);
}

// After whatever happened: the log is as it must be, and works.
void check_life_goes_on(Scenario& s) {
  s.check_reopened();
  // The same sizes again at the same wall time: blocks of the same shape at the same places.
  REQUIRE(s.append(300));
  REQUIRE(s.acknowledge());
  REQUIRE(s.append(5000));
  s.bench.crash();
  s.check_reopened();
  REQUIRE(s.append(300));
  REQUIRE(s.acknowledge());
  s.bench.crash();
  s.check_reopened();
}

}  // namespace

TEST_CASE("wal: a power cut at every change loses nothing that was acknowledged") {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    for (std::uint64_t cut = 1;; ++cut) {
      INFO("seed " << seed << ", power cut at change " << cut);
      Scenario s(seed * 1000 + cut);
      s.bench.own_files.power_cut_after(cut);
      const bool opened = s.bench.try_open().ok();
      if (opened) (void)scripted_load(s);
      const bool was_cut = s.bench.own_files.power_is_cut();
      s.bench.crash();
      check_life_goes_on(s);
      if (!was_cut) break;
      REQUIRE(cut < 2000);
    }
  }
}

TEST_CASE("wal: a power cut at every change of an opening loses nothing") {
  for (std::uint64_t cut = 1;; ++cut) {
    INFO("power cut at change " << cut);
    Scenario s(cut);
    s.bench.open();
    REQUIRE(scripted_load(s));
    s.bench.crash();
    s.bench.own_files.power_cut_after(cut);
    (void)s.bench.try_open(s.from);
    const bool was_cut = s.bench.own_files.power_is_cut();
    s.bench.crash();
    check_life_goes_on(s);
    if (!was_cut) break;
    REQUIRE(cut < 200);
  }
}

TEST_CASE("wal: a power cut at every change of a clean shutdown loses nothing") {
  for (std::uint64_t cut = 1;; ++cut) {
    INFO("power cut at change " << cut);
    Scenario s(cut);
    s.bench.open();
    REQUIRE(scripted_load(s));
    REQUIRE(s.acknowledge());
    s.from = s.acknowledged;
    s.bench.own_files.power_cut_after(cut);
    (void)s.bench.wal->close_clean();
    const bool was_cut = s.bench.own_files.power_is_cut();
    s.bench.crash();
    check_life_goes_on(s);
    if (!was_cut) break;
    REQUIRE(cut < 200);
  }
}

TEST_CASE("wal: a failing write or sync is final, and nothing acknowledged is lost by it") {
  for (const Operation operation : {Operation::kWrite, Operation::kSync}) {
    for (const Failure failure : {Failure::kInputOutput, Failure::kShortWrite}) {
      for (std::uint64_t nth = 1; nth < 1000; ++nth) {
        INFO("operation " << static_cast<int>(operation) << " number " << nth);
        Scenario s(nth);
        s.bench.open();
        const std::uint64_t before = s.bench.own_files.count(operation);
        s.bench.own_files.fail(operation, nth, failure);
        const bool done = scripted_load(s);
        if (!done) {
          CHECK(!s.bench.wal->health().ok());
          CHECK(s.bench.wal->health().code() == ErrorCode::kFileStreamFailed);
          CHECK(!s.bench.wal->append("more", nullptr).has_value());
          CHECK(!s.bench.wal->reserve(10).has_value());
          CHECK(!s.bench.wal->recycle(s.acknowledged).ok());
        }
        const bool reached = s.bench.own_files.count(operation) - before >= nth;
        s.bench.own_files.clear_failures();
        // First a restart of the process (the page cache lives), then a power cut.
        s.check_reopened();
        const std::vector<Batch> served = s.bench.replayed;
        s.bench.crash();
        s.check_reopened();
        REQUIRE(s.bench.replayed == served);
        check_life_goes_on(s);
        if (!reached) break;
      }
    }
  }
}

TEST_CASE("wal: a segment whose name was not durable when the process ended is made so") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Bench bench(seed);
    bench.open();
    bench.append_durably("a");
    bench.own_files.fail(Operation::kSync, 2, Failure::kInputOutput);  // of the directory
    CHECK(bench.wal->reserve(60'000).error().code() == ErrorCode::kFileStreamFailed);
    CHECK(bench.wal->health().ok());
    bench.open();
    bench.append_durably(std::string(30'000, 'b'));
    bench.crash();
    bench.open();
    REQUIRE(bench.replayed == bench.appended);
  }
}

TEST_CASE("wal: the callbacks get the failure") {
  Bench bench;
  bench.open();
  bench.append_durably("a");
  bench.own_files.fail(Operation::kSync, 1, Failure::kInputOutput);
  const LogPosition first = bench.append("b");
  int failures = 0;
  bench.wal->when_durable(first, [&](const Status& status) { failures += !status.ok(); });
  CHECK(failures == 1);
  bench.wal->when_durable(first, [&](const Status& status) { failures += !status.ok(); });
  CHECK(failures == 2);
  // What was durable before still is.
  CHECK(bench.wal->wait_durable(bench.appended[0].position).ok());
  CHECK(bench.wal->last_durable() == bench.appended[0].position);
  CHECK(bench.read(0) == std::vector<Batch>{bench.appended[0]});
}

TEST_CASE("wal: random loads, power cuts, full disks and restarts") {
  const char* from_env = std::getenv("MULTIFORA_WAL_SEED");
  const std::uint64_t first =
      from_env ? std::strtoull(from_env, nullptr, 10) : std::random_device{}();
  const char* runs_env = std::getenv("MULTIFORA_WAL_RUNS");
  const std::uint64_t runs = runs_env ? std::strtoull(runs_env, nullptr, 10) : 60;
  for (std::uint64_t seed = first; seed < first + runs; ++seed) {
    INFO("MULTIFORA_WAL_SEED=" << seed);
    Scenario s(seed);
    s.check_reopened();
    for (int step = 0; step < 120; ++step) {
      bool ok = true;
      const std::uint64_t what = s.random() % 100;
      if (what < 60) {
        ok = s.append(s.random() % (what < 5 ? 60'000 : what < 20 ? 6000 : 400));
      } else if (what < 85) {
        ok = s.acknowledge();
      } else if (what < 90) {
        ok = s.checkpoint();
      } else if (what < 92) {
        s.bench.clock.now_ms += 1000;
      } else if (what < 94) {
        s.bench.own_files.power_cut_after(1 + s.random() % 20);
      } else if (what < 95) {
        s.bench.own_files.set_capacity(s.random() % 2 ? 400'000 : 100'000'000);
      } else if (what < 96) {
        ok = s.bench.try_open(s.from).ok();
        if (ok) s.check_replayed();
      } else if (what < 97) {
        s.bench.own_files.fail(s.random() % 2 ? Operation::kWrite : Operation::kSync,
                               1 + s.random() % 10, Failure::kShortWrite);
      } else {
        ok = false;
      }
      if (ok) continue;
      s.bench.crash();
      s.bench.own_files.set_capacity(100'000'000);
      s.check_reopened();
    }
  }
}

// --- damage
// ---------------------------------------------------------------------------------------

namespace {

void wait_for_blocks(Bench& bench, double count) {
  const std::int64_t begin = system_clock().monotonic_us();
  while (bench.metrics.value("wal_blocks_total") < count) {
    REQUIRE(system_clock().monotonic_us() - begin < 10'000'000);
    std::this_thread::yield();
  }
}

// The process dies here, and the disk holds exactly `content`.
void die_with(Bench& bench, const std::string& content) {
  const std::string path = bench.segments()[0];
  bench.crash();
  bench.own_files.poke(path, 0, content);
}

wal::BlockHeader header_at(const std::string& content, std::size_t offset) {
  wal::BlockHeader header;
  REQUIRE(offset + sizeof header <= content.size());
  std::memcpy(&header, content.data() + offset, sizeof header);
  return header;
}

// File offsets of the blocks in a segment that starts at stream offset 0.
std::vector<std::size_t> block_offsets(const std::string& content) {
  std::vector<std::size_t> offsets;
  std::size_t at = sizeof(wal::FileHeader);
  while (at + wal::kBlockHeaderSize <= content.size()) {
    const wal::BlockHeader header = header_at(content, at);
    if (header.stream != at) break;
    offsets.push_back(at);
    at += wal::align_block(wal::kBlockHeaderSize + header.stored_size);
  }
  return offsets;
}

}  // namespace

TEST_CASE("wal: damage to what is on record as durable is refused with its place") {
  Bench bench;
  bench.open();
  for (int i = 0; i < 6; ++i) bench.append_durably("batch " + std::to_string(i));
  const std::string path = bench.segments()[0];
  const std::string good = bench.own_files.content(path);
  const std::vector<std::size_t> offsets = block_offsets(good);
  REQUIRE(offsets.size() == 6);
  // The last block is the one whose durability no later block can tell.
  for (std::size_t block = 0; block + 1 < offsets.size(); ++block) {
    for (std::size_t byte = offsets[block]; byte < offsets[block] + 80; byte += 3) {
      INFO("byte " << byte);
      std::string bad = good;
      bad[byte] = static_cast<char>(bad[byte] ^ 0x10);
      die_with(bench, bad);
      const Status status = bench.try_open();
      REQUIRE(status.code() == ErrorCode::kDataCorruptionDetected);
      CHECK(status.message().find(path + " at offset " + std::to_string(offsets[block])) !=
            std::string::npos);
      CHECK(bench.replayed.empty());
      CHECK(bench.own_files.content(path) == bad);  // nothing was changed
    }
  }
  // Where the data file holds it all, the damage does not matter.
  std::string bad = good;
  bad[offsets[2]] ^= 1;
  die_with(bench, bad);
  bench.open(bench.appended[4].position);
  CHECK(bench.replayed.empty());
}

TEST_CASE("wal: a lost segment is refused") {
  Bench bench;
  std::mt19937_64 random(1);
  bench.open();
  for (int i = 0; i < 100; ++i) bench.append_durably(random_bytes(random, 1000));
  bench.wal.reset();
  const std::vector<std::string> paths = bench.segments();
  REQUIRE(paths.size() >= 3);
  SUBCASE("in the middle") {
    REQUIRE(bench.own_files.remove(paths[1]).ok());
    CHECK(bench.try_open().code() == ErrorCode::kDataCorruptionDetected);
  }
  SUBCASE("the first") {
    REQUIRE(bench.own_files.remove(paths[0]).ok());
    CHECK(bench.try_open().code() == ErrorCode::kDataCorruptionDetected);
  }
}

TEST_CASE("wal: once the log is quiet, damage to the last block is refused too") {
  Bench bench;
  bench.options.unwaited_sync_ms = 1;
  bench.open();
  bench.append_durably("last words");
  wait_for_blocks(bench, 2);  // the batch, then the note that it is durable
  std::string content = bench.own_files.content(bench.segments()[0]);
  const std::vector<std::size_t> offsets = block_offsets(content);
  REQUIRE(offsets.size() == 2);
  content[offsets[0] + 70] ^= 1;
  die_with(bench, content);
  CHECK(bench.try_open().code() == ErrorCode::kDataCorruptionDetected);
}

TEST_CASE("wal: a tail torn at any byte is cut off") {
  Bench bench;
  bench.open();
  bench.append_durably("kept");
  bench.append_durably(std::string(200, 'k'));
  bench.append("torn, never acknowledged");
  (void)bench.wal->wait_durable(bench.appended.back().position);
  const std::string good = bench.own_files.content(bench.segments()[0]);
  const std::vector<std::size_t> offsets = block_offsets(good);
  REQUIRE(offsets.size() == 3);
  const std::size_t end =
      offsets[2] + wal::kBlockHeaderSize + header_at(good, offsets[2]).stored_size;
  const std::vector<Batch> kept(bench.appended.begin(), bench.appended.begin() + 2);
  for (std::size_t cut = offsets[2]; cut < end; ++cut) {
    std::string torn = good;
    std::fill(torn.begin() + static_cast<long>(cut), torn.end(), '\0');
    if (torn == good) continue;
    INFO("cut at " << cut);
    die_with(bench, torn);
    bench.open();
    REQUIRE(bench.replayed == kept);
    if (cut >= offsets[2] + wal::kBlockHeaderSize) CHECK(bench.counts.truncated_bytes > 0);
    bench.append_durably("new");
    bench.open();
    REQUIRE(bench.replayed.size() == 3);
    CHECK(bench.replayed[2].bytes == "new");
    bench.appended.resize(3);
  }
}

TEST_CASE("wal: blocks left behind a torn one are never replayed") {
  Bench bench;
  std::mt19937_64 random(3);
  bench.open();
  bench.append_durably("durable");
  // Full blocks are written by the log's thread before anybody asks for a sync.
  for (int i = 0; i < 3; ++i) {
    bench.append(random_bytes(random, 4096));
    wait_for_blocks(bench, 2 + i);
  }
  std::string content = bench.own_files.content(bench.segments()[0]);
  const std::vector<std::size_t> offsets = block_offsets(content);
  REQUIRE(offsets.size() == 4);
  content[offsets[1] + 100] ^= 1;
  die_with(bench, content);
  bench.open();
  const std::vector<Batch> kept{bench.appended[0]};
  CHECK(bench.replayed == kept);
  CHECK(bench.counts.truncated_bytes >= 3 * 4096);

  // A new batch at the torn one's position ends exactly where the next old block begins.
  wait_for_blocks(bench, 5);  // the note of what is durable
  const std::string again = random_bytes(random, 4096 - wal::kBlockHeaderSize);
  const LogPosition position = bench.wal->append(again, nullptr).value();
  CHECK(position == bench.appended[1].position);
  REQUIRE(bench.wal->wait_durable(position).ok());
  content = bench.own_files.content(bench.segments()[0]);
  REQUIRE(block_offsets(content).size() == 5);  // the note, the new one, two old ones
  CHECK(header_at(content, offsets[2]).stream == offsets[2]);
  die_with(bench, content);
  bench.open();
  CHECK(bench.replayed == std::vector<Batch>{bench.appended[0], {position, again}});
}

TEST_CASE("wal: a lost block written anew does not bring back what followed it") {
  Bench bench;
  std::mt19937_64 random(4);
  bench.open();
  bench.append_durably("durable");
  bench.open();
  wait_for_blocks(bench, 2);  // a note of what is durable
  bench.append(random_bytes(random, 4096));
  wait_for_blocks(bench, 3);  // written, not synced
  std::string content = bench.own_files.content(bench.segments()[0]);
  const std::vector<std::size_t> offsets = block_offsets(content);
  REQUIRE(offsets.size() == 3);
  content[offsets[1] + 20] ^= 1;  // the note is lost, what follows it is not
  die_with(bench, content);
  const std::vector<Batch> kept{bench.appended[0]};
  bench.open();
  CHECK(bench.replayed == kept);
  wait_for_blocks(bench, 4);  // the same note in the same place
  content = bench.own_files.content(bench.segments()[0]);
  REQUIRE(block_offsets(content) == offsets);
  die_with(bench, content);
  bench.open();
  CHECK(bench.replayed == kept);
}

TEST_CASE("wal: reading over damage is an error, not an end") {
  Bench bench;
  bench.open();
  for (int i = 0; i < 3; ++i) bench.append_durably("batch");
  const std::string path = bench.segments()[0];
  const std::vector<std::size_t> offsets = block_offsets(bench.own_files.content(path));
  bench.own_files.poke(path, offsets[1] + 70, "!");
  const Status status = bench.wal->read(0, false, [](LogPosition, Bytes) { return true; });
  CHECK(status.code() == ErrorCode::kDataCorruptionDetected);
  CHECK(status.message().find(path) != std::string::npos);
}
