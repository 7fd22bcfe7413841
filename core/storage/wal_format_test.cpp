#include "core/storage/wal_format.h"

#include <doctest/doctest.h>

#include "core/storage/wal_test_support.h"

using namespace multifora;
using namespace multifora::wal;
using namespace multifora::wal_test;

TEST_CASE("wal format: names of segments") {
  CHECK(segment_name(0) == "0000000000000000.wal");
  CHECK(segment_name(0xa0000) == "00000000000a0000.wal");
  CHECK(parse_segment_name(segment_name(0x123456789abcdef0)) == 0x123456789abcdef0);
  for (const char* name : {"", "making.tmp", "00000000000a0000.wa", "00000000000g0000.wal",
                           "000000000000a0000.wal", "-000000000000001.wal"})
    CHECK(!parse_segment_name(name).has_value());
}

TEST_CASE("wal format: file headers") {
  FileHeader header = make_file_header("lz4", 256 * 1024);
  CHECK(check_file_header(header).ok());
  CHECK(codec_name(header) == "lz4");
  CHECK(header.block_target_kib == 256);
  CHECK(codec_name(make_file_header("12345678", 1)) == "12345678");
  header.version = 2;
  CHECK(check_file_header(header).code() == ErrorCode::kUnsupportedFormat);
  header = make_file_header("none", 4096);
  header.magic[0] = 'X';
  CHECK(check_file_header(header).code() == ErrorCode::kUnsupportedFormat);
}

TEST_CASE("wal format: a block's hash covers its header and its payload") {
  Buffer block(kBlockHeaderSize, '\0');
  append_batch(block, 7, "payload");
  BlockHeader header{};
  header.stream = 16;
  header.last = 7;
  header.log_id = 1;
  header.stored_size = header.raw_size =
      static_cast<std::uint32_t>(block.size() - kBlockHeaderSize);
  header.kind = BlockKind::kWhole;
  BlockHeader in_two_parts = header;
  seal_header_at(block.data(), header);
  seal_header(in_two_parts, Bytes(block).substr(kBlockHeaderSize));
  CHECK(header.hash == in_two_parts.hash);
  CHECK(hash_matches(block));
  CHECK(plausible(header, 16, block.size()));
  CHECK(!plausible(header, 24, block.size()));
  CHECK(!plausible(header, 16, block.size() - 1));
  for (std::size_t i = 0; i < block.size(); ++i) {
    Buffer bad = block;
    bad[i] = static_cast<char>(bad[i] ^ 4);
    CHECK(!hash_matches(bad));
  }
}

namespace {

// The one segment of a log with a few batches, as it lies on the disk.
std::string small_log(Bench& bench) {
  std::mt19937_64 random(1);
  bench.open();
  for (int i = 0; i < 8; ++i) bench.append_durably(random_bytes(random, 50));
  bench.wal.reset();
  return bench.own_files.content(bench.segments()[0]);
}

}  // namespace

TEST_CASE("wal format: blocks that lie under a right hash are refused") {
  Bench bench;
  const std::string good = small_log(bench);
  const std::string path = bench.segments()[0];
  const std::uint64_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 1500; ++i) {
    std::string bad = good;
    // The second block: its header from `after` on or its first batch record, and a new hash.
    const std::size_t at = 16 + align_block(kBlockHeaderSize + kBatchHeaderSize + 50);
    const std::size_t field = random() % 2 ? 16 + random() % 48 : 64 + random() % 12;
    bad[at + field] = static_cast<char>(random());
    BlockHeader header;
    std::memcpy(&header, bad.data() + at, sizeof header);
    if (header.stored_size > bad.size() - at - kBlockHeaderSize) continue;
    seal_header_at(bad.data() + at, header);
    bench.own_files.poke(path, 0, bad);
    // It may be noticed as a break of the chain or as nonsense; a change of no meaning may pass.
    const Status status = bench.try_open();
    if (status.ok()) CHECK(bench.replayed.size() <= 8);
    bench.wal.reset();
  }
}

TEST_CASE("wal format: random damage never does more than fail") {
  const std::uint64_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  Bench bench(seed);
  const std::string good = small_log(bench);
  const std::string path = bench.segments()[0];
  for (int i = 0; i < 300; ++i) {
    std::string bad = good;
    for (std::uint64_t n = random() % 20; n-- > 0;)
      bad[random() % 2000] = static_cast<char>(random());
    bench.own_files.poke(path, 0, bad);
    if (bench.try_open().ok()) {
      CHECK(bench.replayed.size() <= 8);
      bench.append_durably("more");
    }
    bench.wal.reset();
  }
}
