#include "core/storage/record_space.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "core/storage/storage_test_support.h"

namespace multifora {
namespace {

using test::StorageFixture;

std::string text(std::size_t size, char seed) {
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(seed + i * 7 + i / 251);
  return bytes;
}

struct Records : StorageFixture {
  struct Stored {
    RecordLocation location;
    RecordId id;
    CollectionId collection;
    std::string bytes;
  };
  RecordId next_id = 1;

  Stored put(RecordAllocator& allocator, std::size_t size) {
    PageStash stash(*pager);
    REQUIRE(stash.ensure(RecordSpace::kPublishPages).ok());
    auto reserved = pager->records().reserve(allocator, stash, size);
    REQUIRE_MESSAGE(reserved.has_value(), reserved.error().message());
    Stored stored{reserved->location(), next_id++, allocator.collection(),
                  text(size, static_cast<char>(next_id))};
    const Status status = pager->records().publish(std::move(*reserved), stored.id,
                                                   stored.collection, stored.bytes, stash);
    REQUIRE_MESSAGE(status.ok(), status.message());
    return stored;
  }
  void retire(const Stored& stored) {
    PageStash stash(*pager);
    REQUIRE(stash.ensure(RecordSpace::kRetirePages).ok());
    pager->records().retire(stored.location, stored.bytes.size(), stash);
  }
  bool intact(const Stored& stored) {
    const auto read = pager->records().read(stored.location, stored.id, stored.collection);
    return read.has_value() && *read == stored.bytes;
  }
  std::vector<std::string> check(const std::vector<Stored>& all) {
    SpaceCheck* check = pager->begin_check();
    for (const Stored& stored : all)
      pager->check_record(check, stored.location, stored.bytes.size(), "test");
    std::vector<std::string> errors;
    pager->finish_check(check, &errors);
    return errors;
  }
};

TEST_CASE_FIXTURE(Records, "records of all sizes are read back, also after a reopen") {
  std::vector<Stored> all;
  {
    auto allocator = pager->records().make_allocator(5, 0);
    for (const std::size_t size :
         {0UL, 5UL, 16UL, 17UL, 100UL, 4096UL, 16384UL, 65536UL, 65537UL, 300000UL, kChunkSize - 16,
          kChunkSize - 15, kChunkSize, kChunkSize + 100000, 5 * kChunkSize, 16 * kChunkSize, 7UL})
      all.push_back(put(*allocator, size));
    for (const Stored& stored : all) CHECK(intact(stored));
    CHECK(check(all).empty());
  }
  checkpoint(1);
  reopen();
  for (const Stored& stored : all) CHECK(intact(stored));
  const auto errors = check(all);
  CHECK_MESSAGE(errors.empty(), errors[0]);
}

TEST_CASE_FIXTURE(Records, "a record belongs to its id and its collection") {
  auto allocator = pager->records().make_allocator(5, 0);
  const Stored stored = put(*allocator, 100);
  CHECK(pager->records().read(stored.location, stored.id + 1, 5).error().code() ==
        ErrorCode::kDataCorruptionDetected);
  CHECK(pager->records().read(stored.location, stored.id, 6).error().code() ==
        ErrorCode::kDataCorruptionDetected);
  CHECK(pager->records().peek(stored.location, 5).has_value());
  CHECK_FALSE(pager->records().peek(stored.location, 6).has_value());
  CHECK_FALSE(pager->records().peek(0, 5).has_value());
  CHECK_FALSE(pager->records().peek(~RecordLocation{0}, 5).has_value());
  CHECK_FALSE(pager->records().peek(pager->space_use().file_bytes / kRecordUnit, 5).has_value());
}

TEST_CASE_FIXTURE(Records, "a flipped byte in a record is found by read and not by peek") {
  auto allocator = pager->records().make_allocator(5, 0);
  const Stored stored = put(*allocator, 5000);
  checkpoint(1);
  allocator.reset();
  close();
  const std::uint64_t offset = stored.location * kRecordUnit + kRecordHeaderSize + 4321;
  files.poke(path, offset, std::string(1, static_cast<char>(stored.bytes[4321] ^ 1)));
  reopen();
  CHECK(pager->records().peek(stored.location, 5).has_value());
  const auto read = pager->records().read(stored.location, stored.id, 5);
  REQUIRE_FALSE(read.has_value());
  CHECK(read.error().code() == ErrorCode::kDataCorruptionDetected);
  CHECK(read.error().message().find(path) != std::string::npos);
}

TEST_CASE_FIXTURE(Records, "an impossible size in a header is refused") {
  auto allocator = pager->records().make_allocator(5, 0);
  const Stored stored = put(*allocator, 50);
  files.poke(path, stored.location * kRecordUnit, std::string(4, '\x7f'));
  CHECK_FALSE(pager->records().peek(stored.location, 5).has_value());
}

TEST_CASE_FIXTURE(Records, "a location that no file can have is refused, and nothing is read there") {
  auto allocator = pager->records().make_allocator(5, 0);
  const Stored stored = put(*allocator, 500);
  const RecordSpace& records = pager->records();
  for (int bit = 0; bit < 64; ++bit) {
    const RecordLocation wild = stored.location ^ std::uint64_t{1} << bit;
    CHECK_FALSE(records.read(wild, stored.id, 5).has_value());
    CHECK_FALSE(records.read_known(wild, stored.id, 5).has_value());
    CHECK_FALSE(records.peek(wild, 5).has_value());
    records.prefetch(wild);
    records.read_ahead(wild, false);
    records.read_ahead(wild, true);
  }
  CHECK(intact(stored));
}

TEST_CASE_FIXTURE(Records, "small collections share chunks, large ones have their own") {
  std::vector<Stored> all;
  std::vector<std::unique_ptr<RecordAllocator>> allocators;
  for (CollectionId c = 1; c <= 20; ++c) {
    allocators.push_back(pager->records().make_allocator(c, 0));
    for (int i = 0; i < 10; ++i) all.push_back(put(*allocators.back(), 1000));
  }
  CHECK(pager->space_use().file_bytes <= 3 * kChunkSize);
  const auto chunk = [](const Stored& s) { return s.location / kUnitsPerChunk; };
  CHECK(chunk(all.front()) == chunk(all.back()));
  for (int i = 0; i < 400; ++i) all.push_back(put(*allocators[0], 1000));
  CHECK(chunk(all.back()) != chunk(all.front()));
  CHECK(check(all).empty());
}

TEST_CASE_FIXTURE(Records,
                  "retired space comes back, but not before two checkpoints and no snapshot") {
  auto allocator = pager->records().make_allocator(5, 1 << 20);
  std::vector<Stored> all;
  for (int i = 0; i < 3000; ++i) all.push_back(put(*allocator, 1000));
  checkpoint(1);
  Snapshot snapshot = pager->begin_snapshot();
  const std::vector<Stored> seen = all;
  const std::uint64_t size_before = pager->space_use().file_bytes;
  for (int i = 0; i < 3000; ++i) retire(all[static_cast<std::size_t>(i)]);
  all.clear();
  checkpoint(2);
  checkpoint(3);
  for (int i = 0; i < 1000; ++i) all.push_back(put(*allocator, 1000));
  for (const Stored& stored : seen) REQUIRE(intact(stored));
  snapshot = Snapshot();
  checkpoint(4);
  const std::uint64_t size_after = pager->space_use().file_bytes;
  CHECK(size_after > size_before);
  for (int i = 0; i < 2000; ++i) all.push_back(put(*allocator, 1000));
  CHECK(pager->space_use().file_bytes == size_after);  // the old space, not new
  CHECK(check(all).empty());
}

TEST_CASE_FIXTURE(Records, "an unpublished reservation leaves nothing behind") {
  auto allocator = pager->records().make_allocator(5, 1 << 20);
  std::vector<Stored> all;
  all.push_back(put(*allocator, 1000));
  const std::uint64_t used = pager->space_use().record_bytes;
  {
    PageStash stash(*pager);
    auto big = pager->records().reserve(*allocator, stash, 3 * kChunkSize);
    REQUIRE(big.has_value());
    auto small = pager->records().reserve(*allocator, stash, 10);
    REQUIRE(small.has_value());
    checkpoint(1);
  }
  CHECK(pager->space_use().record_bytes == used);
  CHECK(check(all).empty());
}

TEST_CASE_FIXTURE(Records, "a reservation from before a checkpoint can be published after it") {
  auto allocator = pager->records().make_allocator(5, 1 << 20);
  PageStash stash(*pager);
  auto reserved = pager->records().reserve(*allocator, stash, 2000);
  REQUIRE(reserved.has_value());
  checkpoint(1);
  REQUIRE(stash.size() == 0);  // even then: the pager's own reserve serves
  const std::string bytes = text(2000, 'x');
  const Stored stored{reserved->location(), 9, 5, bytes};
  REQUIRE(pager->records().publish(std::move(*reserved), 9, 5, bytes, stash).ok());
  checkpoint(2);
  allocator.reset();
  reopen();
  CHECK(intact(stored));
  CHECK(check({stored}).empty());
}

TEST_CASE_FIXTURE(Records,
                  "1.1 MiB records are packed, and so are those of two loads side by side") {
  auto a = pager->records().make_allocator(5, 64 << 20);
  auto b = pager->records().make_allocator(6, 64 << 20);
  std::vector<Stored> all;
  std::uint64_t bytes = 0;
  for (int i = 0; i < 40; ++i) {
    for (RecordAllocator* allocator : {a.get(), b.get()}) {
      all.push_back(put(*allocator, i % 2 == 0 ? kChunkSize * 11 / 10 : kChunkSize * 6 / 10));
      bytes += all.back().bytes.size();
    }
  }
  CHECK(check(all).empty());
  MESSAGE("file / data = " << static_cast<double>(pager->space_use().file_bytes) /
                                  static_cast<double>(bytes));
  CHECK(pager->space_use().file_bytes < bytes * 13 / 10 + 8 * kChunkSize);
}

TEST_CASE_FIXTURE(Records, "sparse chunks are found, visited, emptied and given back") {
  auto allocator = pager->records().make_allocator(5, 1 << 20);
  std::vector<Stored> all, live;
  for (int i = 0; i < 4000; ++i) all.push_back(put(*allocator, 1000));
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i % 10 == 0)
      live.push_back(all[i]);
    else
      retire(all[i]);
  }
  const auto sparse = pager->records().sparse_chunks(5, 0.3, 2);
  REQUIRE(sparse.size() == 2);
  CHECK(sparse[0].live_fraction < 0.2);
  for (const RecordSpace::Sparse& chunk : sparse) {
    pager->records().quarantine(chunk.chunk);
    std::vector<RecordLocation> found;
    REQUIRE(pager->records()
                .visit_chunk(chunk.chunk,
                             [&](RecordLocation at, CollectionId collection, Bytes) {
                               CHECK(collection == 5);
                               found.push_back(at);
                             })
                .ok());
    std::size_t expected = 0;
    for (Stored& stored : live) {
      if (stored.location / kUnitsPerChunk != chunk.chunk) continue;
      ++expected;
      CHECK(std::find(found.begin(), found.end(), stored.location) != found.end());
      const Stored moved = put(*allocator, stored.bytes.size());
      CHECK(moved.location / kUnitsPerChunk != chunk.chunk);
      retire(stored);
      stored = moved;
    }
    CHECK(found.size() == expected);
  }
  checkpoint(1);
  checkpoint(2);
  checkpoint(3);
  for (const RecordSpace::Sparse& chunk : sparse)
    for (const auto& left : pager->records().sparse_chunks(5, 1, 1000))
      CHECK(left.chunk != chunk.chunk);
  CHECK(check(live).empty());
}

// A scan sees the bitmap, which does not show what is reserved and not yet published.
TEST_CASE_FIXTURE(Records, "reservations in hand are given to nobody else") {
  auto allocator = pager->records().make_allocator(5, 1 << 20);
  std::vector<Stored> all, live;
  for (int i = 0; i < 4000; ++i) all.push_back(put(*allocator, 500));
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i % 4 < 2)
      live.push_back(all[i]);
    else
      retire(all[i]);
  }
  for (LogPosition n = 1; n <= 3; ++n) checkpoint(n);
  std::set<RecordLocation> given;
  std::vector<RecordReservation> held;
  PageStash stash(*pager);
  for (int i = 0; i < 6000; ++i) {
    const std::size_t size = i % 3 == 2 ? 1100 : 500;  // no hole is that large: it looks elsewhere
    auto reserved = pager->records().reserve(*allocator, stash, size);
    REQUIRE(reserved.has_value());
    for (std::uint64_t unit = 0; unit < record_units(size); ++unit)
      REQUIRE(given.insert(reserved->location() + unit).second);
    held.push_back(std::move(*reserved));
  }
  held.clear();
  CHECK(check(live).empty());
}

TEST_CASE_FIXTURE(Records, "a chunk that begins with the end of a large record is visited rightly") {
  auto allocator = pager->records().make_allocator(5, 1 << 20);
  const Stored large = put(*allocator, kChunkSize * 3 / 2);
  const std::uint64_t second = large.location / kUnitsPerChunk + 1;
  std::vector<Stored> small;
  for (int i = 0; i < 3; ++i) small.push_back(put(*allocator, 1000));
  REQUIRE(small[0].location / kUnitsPerChunk == second);
  const auto visit = [&] {
    std::set<RecordLocation> found;
    CHECK(pager->records()
              .visit_chunk(second, [&](RecordLocation at, auto, Bytes) { found.insert(at); })
              .ok());
    return found;
  };
  std::set<RecordLocation> expected{small[0].location, small[1].location, small[2].location,
                                    large.location};
  CHECK(visit() == expected);
  retire(large);
  expected.erase(large.location);
  CHECK(visit() == expected);
  for (LogPosition n = 1; n <= 3; ++n) checkpoint(n);
  allocator.reset();
  allocator = pager->records().make_allocator(5, 1 << 20);
  std::size_t in_second = 3;
  for (int i = 0; i < 1200; ++i)
    in_second += put(*allocator, 1000).location / kUnitsPerChunk == second;
  CHECK(in_second > 300);
  CHECK(visit().size() == in_second);
}

// The checkpoint sets checksums of the pages born since the last one, where they are still pages.
TEST_CASE_FIXTURE(Records, "space that was a page this morning and is a record now is not sealed") {
  PageStash stash(*pager);
  std::vector<PageId> pages(600);
  REQUIRE(stash.ensure(pages.size()).ok());
  for (PageId& id : pages) stash.take(PageKind::kTreeLeaf, 1, &id);
  for (const PageId id : pages) pager->retire(id);
  auto allocator = pager->records().make_allocator(5, 1 << 20);
  std::vector<Stored> all;
  for (int i = 0; i < 600; ++i) all.push_back(put(*allocator, 3000));
  CHECK(std::any_of(all.begin(), all.end(), [&](const Stored& stored) {
    return stored.location * kRecordUnit / kChunkSize ==
           pages.back() * kPageSize / kChunkSize;
  }));
  checkpoint(1);
  for (const Stored& stored : all) REQUIRE(intact(stored));
}

TEST_CASE_FIXTURE(Records, "a failed record write makes the pager read-only for good") {
  auto allocator = pager->records().make_allocator(5, 0);
  const Stored stored = put(*allocator, 100);
  PageStash stash(*pager);
  auto reserved = pager->records().reserve(*allocator, stash, 100);
  REQUIRE(reserved.has_value());
  files.fail(FaultFileSystem::Operation::kWrite, 1, FaultFileSystem::Failure::kShortWrite);
  CHECK_FALSE(pager->records().publish(std::move(*reserved), 7, 5, text(100, 'a'), stash).ok());
  CHECK(pager->health().code() == ErrorCode::kFileStreamFailed);
  CHECK_FALSE(stash.ensure(1).ok());
  CHECK_FALSE(pager->records().reserve(*allocator, stash, 100).has_value());
  CHECK(intact(stored));  // reads go on
}

TEST_CASE_FIXTURE(Records, "a record write that finds the disk full is refused, and nothing is lost") {
  auto allocator = pager->records().make_allocator(5, 0);
  const Stored stored = put(*allocator, 100);
  PageStash stash(*pager);
  for (const auto failure :
       {FaultFileSystem::Failure::kNoSpace, FaultFileSystem::Failure::kShortNoSpace}) {
    auto reserved = pager->records().reserve(*allocator, stash, 100);
    REQUIRE(reserved.has_value());
    files.fail(FaultFileSystem::Operation::kWrite, 1, failure);
    CHECK(pager->records().publish(std::move(*reserved), 7, 5, text(100, 'a'), stash).code() ==
          ErrorCode::kOutOfDiskSpace);
    CHECK(pager->health().ok());
  }
  CHECK(intact(stored));
  CHECK(intact(put(*allocator, 100)));
}

TEST_CASE_FIXTURE(Records, "churn keeps the file near its data") {
  auto allocator = pager->records().make_allocator(5, 1 << 20);
  std::mt19937_64 random(11);
  std::vector<Stored> all;
  std::uint64_t live = 0;
  for (int i = 0; i < 2000; ++i) {
    all.push_back(put(*allocator, 200 + random() % 8000));
    live += all.back().bytes.size();
  }
  std::uint64_t largest = 0;
  for (int round = 0; round < 60; ++round) {
    for (int i = 0; i < 200; ++i) {
      Stored& stored = all[random() % all.size()];
      const Stored next = put(*allocator, 200 + random() % 8000);
      live += next.bytes.size() - stored.bytes.size();
      retire(stored);
      stored = next;
    }
    checkpoint(static_cast<LogPosition>(round + 1));
    largest = std::max(largest, pager->space_use().file_bytes);
  }
  const auto errors = check(all);
  CHECK_MESSAGE(errors.empty(), errors[0]);
  for (const Stored& stored : all) REQUIRE(intact(stored));
  MESSAGE("file / data under churn = " << static_cast<double>(largest) / static_cast<double>(live));
  // What two checkpoints keep back is 30% of the data here.
  CHECK(largest < live * 17 / 10);
}

}  // namespace
}  // namespace multifora
