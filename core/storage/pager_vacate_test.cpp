// The file becomes shorter: settling, dropping free chunks, moving what stands in the way.
#include <map>
#include <set>

#include "core/storage/paged_array.h"
#include "core/storage/record_space.h"
#include "core/storage/storage_test_support.h"
#include "core/storage/tree.h"

namespace multifora {
namespace {

using test::StorageFixture;

struct Shrinking : StorageFixture {
  LogPosition position = 0;

  PageId add(char fill) {
    PageStash stash(*pager);
    REQUIRE(stash.ensure(1).ok());
    PageId id = kNoPage;
    std::memset(stash.take(PageKind::kTreeLeaf, 7, &id) + 32, fill, kPageSize - 32);
    return id;
  }
  bool holds(PageId id, char fill) {
    const auto page = pager->read(id);
    return page.has_value() &&
           Bytes(*page + 32, kPageSize - 32) == std::string(kPageSize - 32, fill);
  }
  void save() {
    checkpoint(++position);
    REQUIRE(pager->settle().ok());
  }
  void check(const std::vector<PageId>& used) {
    SpaceCheck* check = pager->begin_check();
    for (const PageId id : used) pager->check_page(check, id, "test");
    std::vector<std::string> errors;
    pager->finish_check(check, &errors);
    CHECK_MESSAGE(errors.empty(), errors[0]);
  }
  std::uint64_t file_size() { return files.content(path).size(); }
  // As the store does it: from here on everything lies before `from`, and the file ends there.
  void cut(std::uint64_t keep_bytes = 0) {
    save();
    pager->shrink_at_next_checkpoint(keep_bytes);
    save();
  }
};

TEST_CASE_FIXTURE(Shrinking, "after a settle one checkpoint is enough") {
  const PageId id = add('a');
  save();
  pager->retire(id);
  checkpoint(++position);
  CHECK(pager->oldest_needed_position() == position - 1);
  for (int i = 0; i < 40; ++i) add('x');
  CHECK(holds(id, 'a'));
  REQUIRE(pager->settle().ok());
  CHECK(pager->oldest_needed_position() == position);
  CHECK(add('b') == id);
  reopen();
  CHECK(pager->opened_image().position == position);
}

TEST_CASE_FIXTURE(Shrinking, "free chunks at the end leave the file, beyond one page of the table too") {
  std::vector<PageId> all;
  for (int i = 0; i < 70 * static_cast<int>(kPagesPerChunk); ++i) all.push_back(add('a'));
  save();
  const std::uint64_t full = file_size();
  REQUIRE(full >= 70 * kChunkSize);
  std::vector<PageId> kept;
  for (const PageId id : all) {
    if (id < 3 * kPagesPerChunk)
      kept.push_back(id);
    else
      pager->retire(id);
  }
  save();
  pager->begin_vacating(5 * kChunkSize);  // the pager's own pages lie at the end
  save();
  pager->end_vacating();
  pager->shrink_at_next_checkpoint(2 * kChunkSize);
  checkpoint(++position);
  CHECK(file_size() == full);  // the older checkpoint is one of the whole file
  REQUIRE(pager->settle().ok());
  CHECK(file_size() < 10 * kChunkSize);
  CHECK(pager->file_bytes() == file_size());
  check(kept);
  // What lay behind the end is an error now, not a fault of the process.
  CHECK(pager->read(all.back()).error().code() == ErrorCode::kDataCorruptionDetected);
  CHECK_FALSE(pager->records().peek(69 * kUnitsPerChunk, 1).has_value());
  reopen();
  check(kept);
  for (const PageId id : kept) REQUIRE(holds(id, 'a'));
  for (int i = 0; i < 70 * static_cast<int>(kPagesPerChunk); ++i) kept.push_back(add('b'));
  save();
  reopen();
  check(kept);
}

TEST_CASE_FIXTURE(Shrinking, "a snapshot of the longer file keeps it") {
  const PageId low = add('l');
  std::vector<PageId> all;
  for (int i = 0; i < 6 * static_cast<int>(kPagesPerChunk); ++i) all.push_back(add('a'));
  save();
  Snapshot snapshot = pager->begin_snapshot();
  for (const PageId id : all) pager->retire(id);
  for (int round = 0; round < 3; ++round) cut();
  CHECK(file_size() >= 6 * kChunkSize);
  for (const PageId id : all) REQUIRE(holds(id, 'a'));
  snapshot = Snapshot();
  cut();
  CHECK(file_size() <= 2 * kChunkSize);
  CHECK(holds(low, 'l'));
  check({low});
}

TEST_CASE_FIXTURE(Shrinking, "records, bitmaps, arrays and trees with long keys move to the front") {
  std::mt19937_64 random(5);
  auto allocator = pager->records().make_allocator(3, 1 << 20);
  TreeRoot root;
  ArrayRoot array_root;
  Tree tree(*pager, &root, 3);
  PagedArray array(*pager, 3);
  std::map<std::string, std::string> keys;
  std::map<RecordId, std::pair<RecordLocation, std::string>> records;
  PageStash stash(*pager);
  for (RecordId id = 1; id <= 3000; ++id) {
    std::string key = std::to_string(random());
    if (id % 50 == 0) key += std::string(1500 + random() % 9000, static_cast<char>('a' + id % 26));
    const std::string payload(500 + random() % 8000, static_cast<char>('a' + id % 23));
    REQUIRE(stash.ensure(tree.pages_needed(key.size()) + PagedArray::kSetPages +
                         2 * RecordSpace::kRetirePages)
                .ok());
    REQUIRE(tree.insert(key, "v", true, stash).has_value());
    auto place = pager->records().reserve(*allocator, stash, payload.size());
    REQUIRE(place.has_value());
    records[id] = {place->location(), payload};
    REQUIRE(pager->records().publish(std::move(*place), id, 3, payload, stash).ok());
    REQUIRE(array.set(array_root, id * 7, records[id].first, stash).ok());
    keys[key] = "v";
  }
  save();
  const std::uint64_t full = file_size();
  // Nine of ten go. What is left lies all over the file.
  for (RecordId id = 1; id <= 3000; ++id) {
    if (id > 1000 && id % 10 == 0) continue;  // whole chunks become free, too
    REQUIRE(stash.ensure(PagedArray::kSetPages + RecordSpace::kRetirePages).ok());
    REQUIRE(array.set(array_root, id * 7, 0, stash).ok());
    pager->records().retire(records[id].first, records[id].second.size(), stash);
    records.erase(id);
  }
  for (auto it = keys.begin(); it != keys.end();) {
    if (it->first.size() > 1000 || random() % 10 == 0) {
      ++it;
      continue;
    }
    REQUIRE(stash.ensure(tree.pages_needed(it->first.size())).ok());
    REQUIRE(tree.remove(it->first, stash).has_value());
    it = keys.erase(it);
  }
  stash.give_back_all();
  save();
  Snapshot snapshot = pager->begin_snapshot();
  const TreeRoot old_root = root;

  const std::uint64_t target = full / 2;
  pager->begin_vacating(target);
  const PageId from = pager->vacating_from();
  REQUIRE(from != Pager::kNotVacating);
  for (std::uint64_t chunk = 0;
       (chunk = pager->records().last_record_chunk(from / kPagesPerChunk)) != 0;) {
    pager->records().quarantine(chunk);
    std::set<RecordLocation> found;
    REQUIRE(pager->records()
                .visit_chunk(chunk, [&](RecordLocation at, auto, Bytes) { found.insert(at); })
                .ok());
    REQUIRE_FALSE(found.empty());
    for (auto& [id, record] : records) {
      if (!found.contains(record.first)) continue;
      REQUIRE(stash.ensure(PagedArray::kSetPages + 3 * RecordSpace::kRetirePages).ok());
      auto place = pager->records().reserve(*allocator, stash, record.second.size(),
                                            RecordPlacement::kMoved);
      REQUIRE_MESSAGE(place.has_value(), place.error().message());
      const RecordLocation to = place->location();
      CHECK(to / kUnitsPerChunk < from / kPagesPerChunk);
      REQUIRE(pager->records().publish(std::move(*place), id, 3, record.second, stash).ok());
      REQUIRE(array.set(array_root, id * 7, to, stash).ok());
      pager->records().retire(record.first, record.second.size(), stash);
      record.first = to;
    }
  }
  REQUIRE(pager->move_bitmaps(1000).ok());
  stash.give_back_all();
  const auto until_done = [&](const auto& vacate) {
    for (int i = 0; i < 10'000; ++i) {
      const auto more = vacate();
      REQUIRE_MESSAGE(more.has_value(), more.error().message());
      if (!*more) return;
      REQUIRE(pager->vacating_from() == from);
    }
    FAIL("it does not end");
  };
  until_done([&] { return array.vacate(array_root, from, 3, stash); });
  until_done([&] { return tree.vacate(from, 3, stash); });
  stash.give_back_all();
  CHECK(pager->vacating_from() == from);
  for (const std::uint32_t owner : pager->page_owners_from(from)) CHECK(owner != 3);

  const auto whole = [&](const TreeRoot& at) {
    TreeRoot copy = at;
    std::vector<std::string> errors;
    REQUIRE(Tree(*pager, &copy, 3).check([](PageId) {}, &errors).ok());
    REQUIRE_MESSAGE(errors.empty(), errors[0]);
    TreeCursor cursor(*pager, at);
    REQUIRE(cursor.seek_first().ok());
    for (const auto& [key, value] : keys) {
      REQUIRE(cursor.valid());
      REQUIRE(cursor.key() == key);
      REQUIRE(cursor.next().ok());
    }
    REQUIRE_FALSE(cursor.valid());
  };
  whole(root);
  whole(old_root);  // the snapshot's
  const auto whole_records = [&] {
    for (const auto& [id, record] : records) {
      const auto at = PagedArray(*pager, 3).get(array_root, id * 7);  // whichever pager is open now
      REQUIRE_MESSAGE(at.has_value(), at.error().message());
      REQUIRE(*at == record.first);
      const auto payload = pager->records().read(*at, id, 3);
      REQUIRE_MESSAGE(payload.has_value(), payload.error().message());
      REQUIRE(*payload == record.second);
    }
  };
  whole_records();
  cut();
  CHECK(file_size() > target);  // the snapshot still sees the old pages
  snapshot = Snapshot();
  cut();
  CHECK(file_size() <= target);
  whole(root);
  whole_records();
  allocator.reset();
  reopen();
  whole(root);
  whole_records();
}

}  // namespace
}  // namespace multifora
