// Recovery takes the ranges that the log refers to before anything else is put anywhere.
#include <doctest/doctest.h>

#include "core/storage/record_space.h"
#include "core/storage/storage_test_support.h"

namespace multifora {
namespace {

using test::StorageFixture;
using Claim = RecordSpace::Claim;

constexpr CollectionId kCollection = 7;

struct Claims : StorageFixture {
  struct Written {
    Claim claim;
    RecordId id = 0;
    std::uint64_t hash = 0;
    std::string bytes;
  };
  RecordId next_id = 1;

  Written put(RecordAllocator& allocator, std::size_t size) {
    PageStash stash(*pager);
    REQUIRE(stash.ensure(RecordSpace::kPublishPages).ok());
    auto place = pager->records().reserve(allocator, stash, size);
    REQUIRE(place.has_value());
    Written written{{place->location(), static_cast<std::uint32_t>(size), allocator.collection()},
                    next_id++, 0, std::string(size, static_cast<char>('a' + next_id % 26))};
    REQUIRE(pager->records()
                .publish(std::move(*place), written.id, written.claim.collection, written.bytes, stash,
                         &written.hash)
                .ok());
    return written;
  }
  std::vector<Written> put_many(CollectionId collection, int count, std::size_t size) {
    auto allocator = pager->records().make_allocator(collection, 1u << 30);
    std::vector<Written> all;
    for (int i = 0; i < count; ++i) all.push_back(put(*allocator, size));
    return all;
  }
  static std::vector<Claim> claims_of(const std::vector<Written>& all) {
    std::vector<Claim> claims;
    for (const Written& written : all) claims.push_back(written.claim);
    return claims;
  }
  // As after a crash: the bytes are in the file, the checkpoint knows nothing of them.
  void lose_memory() {
    const Status status = pager->health();
    REQUIRE(status.ok());
    reopen();
  }
  void attach_all(const std::vector<Written>& all) {
    auto places = pager->records().claim(claims_of(all));
    REQUIRE_MESSAGE(places.has_value(), places.error().message());
    PageStash stash(*pager);
    for (std::size_t i = 0; i < all.size(); ++i) {
      REQUIRE(stash.ensure(RecordSpace::kPublishPages).ok());
      REQUIRE(pager->records().attach(std::move((*places)[i]), all[i].claim.collection, stash).ok());
    }
  }
  bool intact(const Written& written) {
    Buffer scratch;
    const auto read = pager->records().read(written.claim.location, written.id, written.claim.collection);
    const auto again = pager->records().read_back(written.claim, written.id, written.hash, scratch);
    return read && *read == written.bytes && again && *again == written.bytes;
  }
  std::vector<std::string> check(const std::vector<Written>& all) {
    SpaceCheck* const check = pager->begin_check();
    for (const Written& written : all)
      pager->check_record(check, written.claim.location, written.bytes.size(), "test");
    std::vector<std::string> errors;
    pager->finish_check(check, &errors);
    return errors;
  }
};

TEST_CASE_FIXTURE(Claims, "claimed ranges are the records' again, and nothing else goes there") {
  checkpoint(1);
  std::vector<Written> all = put_many(kCollection, 50, 16'384);
  for (Written& large : put_many(kCollection, 1, 2 * kChunkSize)) all.push_back(large);
  lose_memory();
  attach_all(all);
  for (const Written& written : all) CHECK(intact(written));
  // New records of this collection and of another, and pages.
  for (Written& more : put_many(kCollection, 100, 16'384)) all.push_back(more);
  for (Written& other : put_many(kCollection + 1, 100, 5'000)) all.push_back(other);
  for (const Written& written : all) CHECK(intact(written));
  CHECK(check(all).empty());
  checkpoint(2);
  reopen();
  for (const Written& written : all) CHECK(intact(written));
  CHECK(check(all).empty());
}

TEST_CASE_FIXTURE(Claims, "what is claimed and never attached is free again") {
  checkpoint(1);
  const std::vector<Written> all = put_many(kCollection, 50, 16'384);
  lose_memory();
  {
    const auto places = pager->records().claim(claims_of(all));
    REQUIRE(places.has_value());
  }
  CHECK(check({}).empty());
}

TEST_CASE_FIXTURE(Claims, "a range in use, shared, impossible or behind the file is refused") {
  std::vector<Written> all = put_many(kCollection, 20, 16'384);
  checkpoint(1);
  const auto refused = [&](std::vector<Claim> claims) {
    const auto places = pager->records().claim(claims);
    REQUIRE_FALSE(places.has_value());
    CHECK(places.error().code() == ErrorCode::kDataCorruptionDetected);
    CHECK(places.error().message().find(path) != std::string::npos);
  };
  reopen();
  refused({all[3].claim});  // the checkpoint has it as used
  reopen();
  refused({{all[3].claim.location, 100, kCollection + 1}});  // in another collection's chunk
  reopen();
  refused({{0, 100, kCollection}});
  reopen();
  refused({{options.reserve_bytes / kRecordUnit, 100, kCollection}});
  reopen();
  refused({{options.reserve_bytes / kRecordUnit - 100, 100, kCollection}});
  reopen();
  refused({{all[3].claim.location, 0xffffffff, kCollection}});
  reopen();
  // Two that overlap by one unit, behind what is used.
  const RecordLocation behind = all.back().claim.location + 2 * record_units(16'384);
  refused({{behind, 1000, kCollection}, {behind + record_units(1000) - 1, 1000, kCollection}});
  reopen();
  CHECK(check(all).empty());
}

// What wrote the log had its pages out of the checkpoint's free ones and the last chunk that the disk has
// for records. Recovery must not take that chunk for pages.
TEST_CASE_FIXTURE(Claims, "recovery uses what is free in the checkpoint before the file grows") {
  for (const bool settled : {true, false}) {
    CAPTURE(settled);
    close();
    REQUIRE(files.remove(path).ok());
    reopen();
    const std::vector<Written> all = put_many(kCollection, 50, 16'384);
    checkpoint(1);
    if (settled) REQUIRE(pager->settle().ok());
    const std::uint64_t size = pager->space_use().file_bytes;
    files.set_capacity(size + kChunkSize);
    reopen();
    pager->begin_recovery();
    REQUIRE(pager->records().claim({}).has_value());
    PageStash stash(*pager);
    REQUIRE(stash.ensure(220).ok());
    CHECK(pager->file_bytes() == size);
    const auto allocator = pager->records().make_allocator(kCollection + 1, 1u << 30);
    const auto place = pager->records().reserve(*allocator, stash, kChunkSize - kRecordHeaderSize);
    REQUIRE_MESSAGE(place.has_value(), place.error().message());
    pager->end_recovery();
    for (const Written& written : all) CHECK(intact(written));
    files.set_capacity(~std::uint64_t{0});
  }
}

// Where both meta pages describe what was opened, nobody waits for a checkpoint to fill holes.
TEST_CASE_FIXTURE(Claims, "what an earlier process left of a chunk is filled after the next open") {
  // Fifteen chunks and a part of one: too little is left to be looked for otherwise.
  put_many(kCollection, 15 * 63 + 20, 16'384);
  std::uint64_t size = 0;
  for (int round = 0; round < 30; ++round) {
    put_many(kCollection, 1, 16'384);
    if (round == 0) size = pager->file_bytes();
    checkpoint(static_cast<LogPosition>(round) + 1);
    REQUIRE(pager->settle().ok());
    reopen();
    pager->begin_recovery();
    pager->end_recovery();
  }
  CHECK(pager->file_bytes() == size);
}

}  // namespace
}  // namespace multifora
