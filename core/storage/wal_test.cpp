#include "core/storage/wal.h"

#include <doctest/doctest.h>
#include <lz4.h>
#include <zstd.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "core/plugin/codec.h"
#include "core/storage/wal_format.h"
#include "core/storage/wal_test_support.h"

using namespace multifora;
using namespace multifora::wal_test;

namespace {

std::size_t lz4_bound(std::size_t size) {
  return static_cast<std::size_t>(LZ4_compressBound(static_cast<int>(size)));
}
std::optional<std::size_t> lz4_compress(Bytes from, char* to, std::size_t capacity, int) {
  const int n = LZ4_compress_default(from.data(), to, static_cast<int>(from.size()),
                                     static_cast<int>(capacity));
  if (n <= 0) return {};
  return static_cast<std::size_t>(n);
}
bool lz4_decompress(Bytes from, char* to, std::size_t size) {
  return LZ4_decompress_safe(from.data(), to, static_cast<int>(from.size()),
                             static_cast<int>(size)) == static_cast<int>(size);
}
constexpr Codec kLz4{"lz4", 0, 0, 0, 0, lz4_bound, lz4_compress, lz4_decompress};

std::size_t zstd_bound(std::size_t size) {
  return ZSTD_compressBound(size);
}
std::optional<std::size_t> zstd_compress(Bytes from, char* to, std::size_t capacity, int level) {
  const std::size_t n = ZSTD_compress(to, capacity, from.data(), from.size(), level);
  if (ZSTD_isError(n)) return {};
  return n;
}
bool zstd_decompress(Bytes from, char* to, std::size_t size) {
  return ZSTD_decompress(to, size, from.data(), from.size()) == size;
}
constexpr Codec kZstd{"zstd", 3, 1, 9, 1, zstd_bound, zstd_compress, zstd_decompress};

const Codec* find_codec(std::string_view name) {
  for (const Codec* codec : {&kLz4, &kZstd})
    if (codec->name == name) return codec;
  return nullptr;
}

std::string text(std::mt19937_64& random, std::size_t size) {
  static constexpr const char* kWords[] = {"the ", "log ", "of ", "batch ", "position ", "and "};
  std::string words;
  while (words.size() < size) words += kWords[random() % 6];
  words.resize(size);
  return words;
}

std::size_t random_size(std::mt19937_64& random) {
  switch (random() % 8) {
    case 0:
      return 0;
    case 1:
      return random() % 40'000;
    case 2:
      return 4096 - random() % 200;
    default:
      return random() % 600;
  }
}

void check_compression(const Codec* codec) {
  Bench bench;
  bench.options.block_bytes = 32 * 1024;
  bench.options.segment_bytes_min = bench.options.segment_bytes_max = 256 * 1024;
  bench.options.codec = codec;
  bench.options.find_codec = find_codec;
  std::mt19937_64 random(9);
  bench.open();
  for (int i = 0; i < 300; ++i) {
    bench.append(i % 40 == 0 ? random_bytes(random, 20'000) : text(random, 5000));
    if (i % 97 == 0) REQUIRE(bench.wal->wait_durable(bench.appended.back().position).ok());
  }
  CHECK(bench.read(0, true) == bench.appended);
  bench.wal.reset();
  CHECK(bench.metrics.value("wal_compressed_blocks_total") > 0);
  bench.open();
  CHECK(bench.replayed == bench.appended);
  CHECK(bench.read(0) == bench.appended);
  bench.wal.reset();

  SUBCASE("a log whose codec is not loaded is refused by name and left alone") {
    bench.options.find_codec = nullptr;
    const auto content = bench.own_files.content(bench.segments()[0]);
    const Status status = bench.try_open();
    CHECK(status.code() == ErrorCode::kUnsupportedFormat);
    CHECK(status.message().find(codec->name) != std::string::npos);
    CHECK(bench.own_files.content(bench.segments()[0]) == content);
  }
  SUBCASE("another codec can take over") {
    bench.options.codec = codec == &kLz4 ? &kZstd : &kLz4;
    bench.open();
    for (int i = 0; i < 100; ++i) bench.append(text(random, 5000));
    bench.open();
    CHECK(bench.replayed == bench.appended);
    REQUIRE(bench.wal->recycle(bench.wal->last_durable()).ok());
    bench.append("more");
    bench.open(bench.appended[bench.appended.size() - 2].position);
    CHECK(bench.replayed == std::vector<Batch>{bench.appended.back()});
  }
  SUBCASE("an empty log does not ask for the codec any more") {
    bench.open();
    REQUIRE(bench.wal->close_clean().ok());
    const LogPosition end = bench.wal->last_durable();
    bench.options.codec = nullptr;
    bench.options.find_codec = nullptr;
    bench.open(end);
    CHECK(bench.replayed.empty());
  }
}

}  // namespace

TEST_CASE("wal: an empty log is small and replays nothing") {
  Bench bench;
  bench.options = WalOptions();
  bench.options.directory = "wal";
  bench.open();
  CHECK(bench.counts.batches == 0);
  CHECK(bench.wal->allocated_bytes() == 1024 * 1024);
  CHECK(bench.wal->live_bytes() == 0);
  CHECK(bench.wal->last_appended() == 0);
  CHECK(bench.segments().size() == 1);
  bench.open();
  CHECK(bench.segments().size() == 1);
}

TEST_CASE("wal: batches come back in order with their positions") {
  Bench bench;
  bench.open();
  const LogPosition first = bench.append("one");
  CHECK(first == ((std::uint64_t{1'700'000'000} << 32) | 1));
  CHECK(bench.append("") == first + 1);
  bench.clock.now_ms += 5000;
  const LogPosition later = bench.append("three");
  CHECK(later == ((std::uint64_t{1'700'000'005} << 32) | 1));
  bench.clock.now_ms -= 60'000;  // a clock that goes back does not take the log with it
  CHECK(bench.append("four") == later + 1);
  CHECK(bench.wal->last_durable() == 0);
  CHECK(bench.wal->wait_durable(later).ok());
  CHECK(bench.wal->last_durable() == later + 1);
  bench.open();
  CHECK(bench.replayed == bench.appended);
  CHECK(bench.counts.batches == 4);
  CHECK(bench.counts.truncated_bytes == 0);
  CHECK(bench.append("five") == later + 2);
  bench.open(later);
  CHECK(bench.replayed == std::vector<Batch>(bench.appended.begin() + 3, bench.appended.end()));
}

TEST_CASE("wal: positions can be moved forward") {
  Bench bench;
  bench.open();
  bench.append_durably("a");
  const LogPosition far = std::uint64_t{1'800'000'000} << 32;
  bench.wal->advance_to(far);
  CHECK(bench.wal->last_appended() == far);
  CHECK(bench.wal->last_durable() == far);
  CHECK(bench.wal->wait_durable(far).ok());  // nothing to wait for
  CHECK(bench.append("b") == far + 1);
  bench.open();
  CHECK(bench.replayed == bench.appended);
}

TEST_CASE("wal: a small commit writes little more than itself") {
  Bench bench;
  bench.open();
  bench.append_durably(std::string(300, 'x'));
  CHECK(bench.metrics.value("wal_written_bytes_total") <= 400);
  CHECK(bench.metrics.value("wal_syncs_total") == 1);
}

TEST_CASE("wal: random batches across blocks and segments") {
  const std::uint64_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  Bench bench(seed);
  bench.open();
  for (int round = 0; round < 6; ++round) {
    for (int i = 0; i < 150; ++i) {
      const std::size_t size = random_size(random);
      bench.append(random_bytes(random, size));
      if (random() % 5 == 0) REQUIRE(bench.wal->wait_durable(bench.appended.back().position).ok());
      if (random() % 50 == 0) bench.clock.now_ms += 1000;
    }
    const std::size_t start = random() % bench.appended.size();
    const LogPosition from = start ? bench.appended[start - 1].position : 0;
    const std::vector<Batch> expected(bench.appended.begin() + static_cast<long>(start),
                                      bench.appended.end());
    CHECK(bench.read(from, true) == expected);
    bench.open(from);
    REQUIRE(bench.replayed == expected);
    CHECK(bench.read(from) == expected);
  }
  CHECK(bench.segments().size() > 3);
}

TEST_CASE("wal: batches larger than blocks and segments") {
  Bench bench;
  std::mt19937_64 random(7);
  bench.open();
  bench.append("small");
  bench.append(random_bytes(random, 1'000'000));  // many segments
  bench.append("next");
  bench.append(random_bytes(random, 64 * 1024));
  CHECK(bench.read(0, true) == bench.appended);
  CHECK(bench.wal->wait_durable(bench.appended.back().position).ok());
  CHECK(bench.read(0) == bench.appended);
  bench.open();
  CHECK(bench.replayed == bench.appended);
  bench.options = WalOptions();
  bench.options.directory = "large";
  bench.appended.clear();
  bench.open();
  bench.append_durably(std::string(48'000'000, 'z'));
  bench.append_durably("after");
  bench.open();
  CHECK(bench.replayed == bench.appended);
}

TEST_CASE("wal: a log in real files") {
  std::string directory = (std::filesystem::temp_directory_path() / "multifora_XXXXXX").string();
  REQUIRE(::mkdtemp(directory.data()) != nullptr);
  Bench bench;
  bench.files = &posix_file_system();
  bench.options.directory = directory + "/a/wal";
  std::mt19937_64 random(8);
  bench.open();
  for (int i = 0; i < 200; ++i) bench.append(random_bytes(random, random_size(random)));
  CHECK(bench.wal->wait_durable(bench.appended.back().position).ok());
  bench.open();
  CHECK(bench.replayed == bench.appended);
  bench.wal.reset();
  std::filesystem::remove_all(directory);
}

TEST_CASE("wal: what nobody waits for is synced after a while, and when the log is closed") {
  Bench bench;
  bench.options.unwaited_sync_ms = 5;
  bench.open();
  const LogPosition position = bench.append("unwaited");
  const std::int64_t begin = system_clock().monotonic_us();
  while (bench.wal->last_durable() < position) {
    REQUIRE(system_clock().monotonic_us() - begin < 10'000'000);
    std::this_thread::yield();
  }
  bench.options.unwaited_sync_ms = 1'000'000;
  bench.open();
  bench.append("unwaited too");
  bench.wal.reset();
  bench.crash();
  bench.open();
  CHECK(bench.replayed == bench.appended);
}

TEST_CASE("wal: blocks compressed with lz4") {
  check_compression(&kLz4);
}
TEST_CASE("wal: blocks compressed with zstd") {
  check_compression(&kZstd);
}

TEST_CASE("wal: a codec name must fit the header") {
  Codec codec = kLz4;
  codec.name = "far-too-long";
  Bench bench;
  bench.options.codec = &codec;
  CHECK(bench.try_open().code() == ErrorCode::kBadValue);
}

TEST_CASE("wal: another version is refused") {
  Bench bench;
  bench.open();
  bench.append_durably("a");
  bench.wal.reset();
  bench.own_files.poke(bench.segments()[0], 4, "\x09");
  const Status status = bench.try_open();
  CHECK(status.code() == ErrorCode::kUnsupportedFormat);
  CHECK(status.message().find("version 9") != std::string::npos);
}

TEST_CASE("wal: an apply that fails ends the opening") {
  Bench bench;
  bench.open();
  bench.append_durably("a");
  bench.wal.reset();
  const auto opened = Wal::open(
      bench.own_files, bench.options, bench.clock, null_log(), bench.metrics, 0,
      [](LogPosition, Bytes) { return Status(ErrorCode::kInternalError, "no"); }, nullptr);
  REQUIRE(!opened.has_value());
  CHECK(opened.error().message() == "no");
}

TEST_CASE("wal: read serves what is durable, on request also what is not") {
  Bench bench;
  bench.open();
  bench.append_durably("a");
  const LogPosition a = bench.appended[0].position;
  bench.append("b");
  CHECK(bench.read(0).size() == 1);
  CHECK(bench.read(0, true) == bench.appended);
  CHECK(bench.read(a).empty());
  CHECK(bench.read(a, true).size() == 1);
  int seen = 0;
  CHECK(bench.wal->read(0, true, [&](LogPosition, Bytes) { return ++seen < 1; }).ok());
  CHECK(seen == 1);
}

TEST_CASE("wal: recycling") {
  Bench bench;
  std::mt19937_64 random(10);
  bench.open();
  for (int i = 0; i < 400; ++i) bench.append(random_bytes(random, 1000));
  REQUIRE(bench.wal->wait_durable(bench.appended.back().position).ok());
  const std::uint64_t full = bench.wal->live_bytes();
  CHECK(full > 400'000);

  SUBCASE("gives up what is not needed and keeps the rest") {
    const LogPosition half = bench.appended[200].position;
    REQUIRE(bench.wal->recycle(half).ok());
    CHECK(bench.wal->live_bytes() < full * 7 / 10);
    const std::vector<Batch> rest(bench.appended.begin() + 201, bench.appended.end());
    CHECK(bench.read(half) == rest);
    const Status lost = bench.wal->read(0, false, [](LogPosition, Bytes) { return true; });
    CHECK(lost.code() == ErrorCode::kCappedPositionLost);
    bench.open(half);
    CHECK(bench.replayed == rest);
    CHECK(bench.wal->read(0, false, [](LogPosition, Bytes) { return true; }).code() ==
          ErrorCode::kCappedPositionLost);
    bench.wal.reset();
    // Data that is older than the log cannot be brought up to date with it.
    CHECK(bench.try_open(0).code() == ErrorCode::kDataCorruptionDetected);
  }
  SUBCASE("old blocks in recycled segments are never replayed") {
    LogPosition from = 0;
    for (int round = 0; round < 30; ++round) {
      from = bench.appended.back().position;
      REQUIRE(bench.wal->recycle(from).ok());
      CHECK(bench.wal->live_bytes() <= wal::kBlockHeaderSize);
      CHECK(bench.wal->allocated_bytes() <= 4 * bench.options.segment_bytes_max);
      bench.appended.clear();
      for (int i = 0; i < 1 + round * 3; ++i) bench.append(random_bytes(random, 1000));
      bench.open(from);
      REQUIRE(bench.replayed == bench.appended);
    }
  }
  SUBCASE("waits for readers") {
    std::vector<Batch> seen;
    REQUIRE(bench.wal
                ->read(0, false,
                       [&](LogPosition position, Bytes bytes) {
                         seen.push_back({position, std::string(bytes)});
                         if (seen.size() == 1)
                           REQUIRE(bench.wal->recycle(bench.appended.back().position).ok());
                         return true;
                       })
                .ok());
    CHECK(seen == bench.appended);
    REQUIRE(bench.wal->recycle(bench.appended.back().position).ok());
    CHECK(bench.wal->allocated_bytes() <= 4 * bench.options.segment_bytes_max);
  }
}

TEST_CASE("wal: a load grows the segments, and surplus goes once it is recycled") {
  Bench bench;
  constexpr std::uint64_t kMax = 2 * 1024 * 1024;
  bench.options.segment_bytes_max = kMax;
  bench.open();
  const std::string batch(10'000, 'b');
  for (int i = 0; i < 1500; ++i) bench.wal->append(batch, nullptr).value();
  CHECK(bench.wal->wait_durable(bench.wal->last_appended()).ok());
  CHECK(bench.wal->live_bytes() > 15'000'000);
  CHECK(bench.segments().size() < 20);
  REQUIRE(bench.wal->recycle(bench.wal->last_durable()).ok());
  CHECK(bench.wal->live_bytes() <= wal::kBlockHeaderSize);
  CHECK(bench.wal->allocated_bytes() <= 2 * kMax);
  // Another checkpoint with nothing in between: the spares are not called for.
  REQUIRE(bench.wal->recycle(bench.wal->last_durable()).ok());
  CHECK(bench.wal->allocated_bytes() <= kMax + 2 * bench.options.segment_bytes_min);
  REQUIRE(bench.wal->close_clean().ok());
  bench.wal.reset();
  std::uint64_t left = 0;
  for (const std::string& path : bench.segments()) left += bench.own_files.content(path).size();
  CHECK(left <= bench.options.segment_bytes_min);
}

TEST_CASE("wal: a steady load goes on in the segments that it has, which go when it ends") {
  Bench bench;
  constexpr std::uint64_t kMax = 2 * 1024 * 1024;
  bench.options.segment_bytes_max = kMax;
  bench.open();
  const std::string batch(10'000, 'b');
  double made = 0;
  for (int round = 0; round < 12; ++round) {
    if (round == 6) made = bench.metrics.value("wal_segments_made_total");
    for (int i = 0; i < 800; ++i) bench.wal->append(batch, nullptr).value();
    CHECK(bench.wal->wait_durable(bench.wal->last_appended()).ok());
    REQUIRE(bench.wal->recycle(bench.wal->last_durable(), true).ok());
    CHECK(bench.wal->allocated_bytes() <= 8'000'000 + 4 * kMax);
  }
  CHECK(made > 0);
  // Where a cut falls differs from round to round.
  CHECK(bench.metrics.value("wal_segments_made_total") <= made + 1);
  REQUIRE(bench.wal->recycle(bench.wal->last_durable()).ok());
  CHECK(bench.wal->allocated_bytes() <= kMax + 2 * bench.options.segment_bytes_min);
}

TEST_CASE("wal: after a clean shutdown the log is empty") {
  Bench bench;
  std::mt19937_64 random(11);
  int batches = 0;
  SUBCASE("unused") {
    batches = 0;
  }
  SUBCASE("one segment") {
    batches = 3;
  }
  SUBCASE("many segments") {
    batches = 300;
  }
  LogPosition from = 0;
  for (int round = 0; round < 3; ++round) {
    bench.open(from);
    CHECK(bench.replayed.empty());
    for (int i = 0; i < batches; ++i) bench.append(random_bytes(random, 1000));
    from = bench.wal->last_appended();
    REQUIRE(bench.wal->close_clean().ok());
    CHECK(bench.wal->append("late", nullptr).error().code() == ErrorCode::kShutdownInProgress);
    CHECK(bench.wal->read(0, true, [](LogPosition, Bytes) { return true; }).code() ==
          ErrorCode::kShutdownInProgress);
    CHECK(bench.segments().size() == 1);
  }
  // A data file that has lost its newest state cannot be taken for complete.
  if (batches > 0) CHECK(bench.try_open(from - 1).code() == ErrorCode::kDataCorruptionDetected);
  // No-op, then an insert, then a kill.
  bench.open(from);
  bench.appended.clear();
  bench.append("no-op");
  bench.append_durably("insert");
  bench.crash();
  bench.open(from);
  CHECK(bench.replayed == bench.appended);
}

TEST_CASE("wal: a promise holds and is given back") {
  Bench bench;
  bench.open();
  bench.own_files.set_capacity(150'000);
  {
    auto first = bench.wal->reserve(90'000);
    REQUIRE(first.has_value());
    const auto second = bench.wal->reserve(90'000);
    REQUIRE(!second.has_value());
    CHECK(second.error().code() == ErrorCode::kOutOfDiskSpace);
    CHECK(bench.wal->health().ok());
    // Without a promise there is no space either; with it there is.
    CHECK(bench.wal->append(std::string(90'000, 'n'), nullptr).error().code() ==
          ErrorCode::kOutOfDiskSpace);
    const auto position = bench.wal->append(std::string(90'000, 'p'), &*first);
    REQUIRE(position.has_value());
    CHECK(bench.wal->wait_durable(*position).ok());
  }
  CHECK(!bench.wal->reserve(90'000).has_value());
  bench.own_files.set_capacity(1'000'000);  // somebody made room
  auto third = bench.wal->reserve(90'000);
  REQUIRE(third.has_value());
  Wal::Reservation moved = std::move(*third);
  CHECK(bench.wal->append(std::string(80'000, 'q'), &moved).has_value());
}

TEST_CASE("wal: a disk that fills up in the middle of making a segment") {
  using Operation = FaultFileSystem::Operation;
  for (const auto operation : {Operation::kAllocate, Operation::kWrite}) {
    Bench bench;
    bench.open();
    bench.append_durably("a");
    bench.own_files.fail(operation, 1, FaultFileSystem::Failure::kShortNoSpace, "making");
    CHECK(bench.wal->reserve(60'000).error().code() == ErrorCode::kOutOfDiskSpace);
    CHECK(bench.segments().size() == 1);  // nothing half made is left
    bench.append_durably("b");
    CHECK(bench.wal->reserve(60'000).has_value());
    bench.open();
    CHECK(bench.replayed == bench.appended);
  }
}
