// Random use of pages, records, snapshots, checkpoints, reopens and power cuts against a model that
// remembers what every snapshot and every durable checkpoint must show.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <map>
#include <optional>
#include <shared_mutex>
#include <thread>

#include "core/storage/storage_test_support.h"

namespace multifora {
namespace {

using test::StorageFixture;

struct ModelRecord {
  RecordId id;
  CollectionId collection;
  std::uint32_t size;
};

// What a state of the file holds. Contents follow from the values.
struct State {
  std::map<PageId, std::uint64_t> pages;  // its fill
  std::map<RecordLocation, ModelRecord> records;
};

void fill_page(char* page, std::uint64_t fill) {
  for (std::size_t at = 32; at < kPageSize; at += 8) store_le(page + at, fill * (at | 1));
}

bool page_holds(const char* page, std::uint64_t fill) {
  for (std::size_t at = 32; at < kPageSize; at += 8)
    if (load_le<std::uint64_t>(page + at) != fill * (at | 1)) return false;
  return true;
}

std::string record_bytes(const ModelRecord& record) {
  std::string bytes(record.size, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<char>(record.id * 31 + i + i / 253);
  return bytes;
}

class Machine : public StorageFixture {
 public:
  explicit Machine(std::uint64_t seed) : StorageFixture(seed), random_(seed) { open_allocators(); }

  void run(int steps) {
    for (int i = 0; i < steps; ++i) {
      step();
      if (pager_failed()) recover();
    }
    verify_everything();
  }

 private:
  static constexpr CollectionId kCollections = 3;  // 1 and 2 small, 3 large

  std::uint64_t random(std::uint64_t below) { return random_() % below; }
  bool pager_failed() const { return !pager->health().ok(); }

  void open_allocators() {
    for (CollectionId c = 1; c <= kCollections; ++c)
      allocators_[c] = pager->records().make_allocator(c, c == 3 ? 1 << 20 : 0);
    stash_ = std::make_unique<PageStash>(*pager);
  }
  void shut() {
    held_.clear();
    stash_.reset();
    allocators_.clear();
    snapshots_.clear();
    close();
  }

  void step() {
    const std::uint64_t dice = random(100);
    if (dice < 25) return add_page();
    if (dice < 45) return change_page();
    if (dice < 57) return retire_page();
    if (dice < 73) return add_record();
    if (dice < 84) return retire_record();
    if (dice < 87) return take_snapshot();
    if (dice < 90) return drop_snapshot();
    if (dice < 91) return verify_a_snapshot();
    if (dice < 92) return vacate();
    if (dice < 97) return make_checkpoint();
    if (dice < 98) return random(3) == 0 ? copy_newest() : check_space();
    if (random(4) != 0) return verify_state(state_);
    return dice == 98 ? reopen_clean() : power_cut();
  }

  // A failure is met by the caller's look at health().
  bool ensure() { return stash_->ensure(RecordSpace::kRetirePages).ok(); }

  void add_page() {
    if (!ensure()) return;
    PageId id = kNoPage;
    const std::uint64_t fill = random_();
    fill_page(stash_->take(PageKind::kTreeLeaf, 1, &id), fill);
    REQUIRE_FALSE(state_.pages.contains(id));
    state_.pages[id] = fill;
  }

  template <class Map>
  typename Map::iterator any(Map& map) {
    return std::next(map.begin(), static_cast<std::ptrdiff_t>(random(map.size())));
  }

  void change_page() {
    if (state_.pages.empty() || !ensure()) return;
    const auto it = any(state_.pages);
    const auto page = pager->read(it->first);
    REQUIRE_MESSAGE(page.has_value(), page.error().message());
    PageId id = it->first;
    const bool fresh = pager->writable_in_place(id);
    char* const to = pager->make_writable(&id, *stash_);
    CHECK(fresh == (id == it->first));
    CHECK(page_holds(to, it->second));
    state_.pages.erase(it);
    const std::uint64_t fill = random_();
    fill_page(to, fill);
    REQUIRE_FALSE(state_.pages.contains(id));
    state_.pages[id] = fill;
  }

  void retire_page() {
    if (state_.pages.empty()) return;
    const auto it = any(state_.pages);
    pager->retire(it->first);
    state_.pages.erase(it);
  }

  void add_record() {
    if (state_.records.size() > 400 || !ensure()) return;
    const auto collection = static_cast<CollectionId>(1 + random(kCollections));
    const std::uint64_t kind = random(100);
    const std::uint64_t size = kind < 70   ? random(3000)
                               : kind < 95 ? random(60000)
                               : kind < 99 ? random(600000)
                                           : random(3 * kChunkSize);
    const ModelRecord record{next_record_++, collection, static_cast<std::uint32_t>(size)};
    auto reserved = pager->records().reserve(*allocators_[collection], *stash_, size);
    if (!reserved) return;
    held_.emplace_back(std::move(*reserved), record);
    if (random(4) == 0) return;  // published later, or given back
    while (!held_.empty()) publish_one();
  }

  void publish_one() {
    auto [reserved, record] = std::move(held_.back());
    held_.pop_back();
    if (random(20) == 0 || !ensure()) return;
    const RecordLocation location = reserved.location();
    const Status status = pager->records().publish(std::move(reserved), record.id,
                                                   record.collection, record_bytes(record), *stash_);
    if (!status.ok()) return;
    REQUIRE_FALSE(state_.records.contains(location));
    state_.records[location] = record;
  }

  void retire_record() {
    if (state_.records.empty() || !ensure()) return;
    const auto it = any(state_.records);
    pager->records().retire(it->first, it->second.size, *stash_);
    state_.records.erase(it);
  }

  void take_snapshot() {
    if (snapshots_.size() < 5) snapshots_.emplace_back(pager->begin_snapshot(), state_);
  }
  void drop_snapshot() {
    if (snapshots_.empty()) return;
    snapshots_.erase(snapshots_.begin() + static_cast<std::ptrdiff_t>(random(snapshots_.size())));
  }
  void verify_a_snapshot() {
    if (!snapshots_.empty()) verify_state(snapshots_[random(snapshots_.size())].second);
  }

  void make_checkpoint() {
    if (pager_failed()) return;
    const LogPosition position = ++position_;
    if (random(3) == 0) pager->shrink_at_next_checkpoint(random(4) * kChunkSize);
    Checkpoint* const checkpoint =
        pager->begin_checkpoint({position, "meta " + std::to_string(position)});
    images_[position] = state_;
    for (std::uint64_t n = random(4); n > 0; --n) {  // writers go on meanwhile
      add_page();
      change_page();
      retire_page();
      retire_record();
    }
    const Status status = pager->finish_checkpoint(checkpoint);
    if (!status.ok()) return;
    durable_.push_back(position);
    if (random(2) == 0) static_cast<void>(pager->settle());
  }

  // Moves some of what lies at the end of the file.
  void vacate() {
    if (pager_failed()) return;
    pager->begin_vacating(random(pager->file_bytes()));
    const PageId from = pager->vacating_from();
    static_cast<void>(pager->move_bitmaps(random(8)));
    const std::map<PageId, std::uint64_t> pages = state_.pages;
    for (auto it = pages.lower_bound(from); it != pages.end() && ensure(); ++it) {
      if (random(3) == 0) continue;
      PageId id = it->first;
      REQUIRE(pager->read(id).has_value());
      if (!pager->move_page(&id, *stash_)) continue;
      CHECK(id < it->first);
      CHECK(page_holds(pager->peek(id), it->second));
      state_.pages.erase(it->first);
      REQUIRE_FALSE(state_.pages.contains(id));
      state_.pages[id] = it->second;
    }
    const std::map<RecordLocation, ModelRecord> records = state_.records;
    for (auto it = records.lower_bound(from * (kPageSize / kRecordUnit)); it != records.end(); ++it) {
      const ModelRecord record = it->second;
      if (!ensure() || random(2) == 0) continue;
      auto reserved = pager->records().reserve(*allocators_[record.collection], *stash_, record.size,
                                               RecordPlacement::kMoved);
      if (!reserved || !ensure()) continue;
      const RecordLocation to = reserved->location();
      if (pager->vacating_from() == from) CHECK(to < from * (kPageSize / kRecordUnit));
      if (!pager->records()
               .publish(std::move(*reserved), record.id, record.collection, record_bytes(record),
                        *stash_)
               .ok())
        return;
      pager->records().retire(it->first, record.size, *stash_);
      state_.records.erase(it->first);
      REQUIRE_FALSE(state_.records.contains(to));
      state_.records[to] = record;
    }
    if (random(2) == 0) pager->end_vacating();
  }

  // A backup, while everything goes on: it holds what the newest durable checkpoint did, whatever
  // happens meanwhile.
  void copy_newest() {
    if (pager_failed()) return;
    const std::string to = "db/copy.mfdb";
    if (files.exists(to) && !files.remove(to).ok()) return;
    const auto copied = pager->copy_checkpoint(files, to, [&](std::uint64_t, std::uint64_t) {
      add_page();
      change_page();
      retire_page();
      add_record();
      retire_record();
      if (random(3) == 0) make_checkpoint();
      return Status();
    });
    if (!copied) return;
    MetricsRegistry other_metrics;
    auto copy = Pager::open(files, to, options, null_log(), other_metrics);
    if (!copy && files.power_is_cut()) return;
    REQUIRE_MESSAGE(copy.has_value(), copy.error().message());
    CHECK((*copy)->opened_image().position == copied->position);
    CHECK((*copy)->oldest_needed_position() == copied->position);
    verify_state(images_.at(copied->position), **copy);
  }

  void verify_state(const State& state) {
    if (!pager_failed()) verify_state(state, *pager);
  }
  static void verify_state(const State& state, Pager& in) {
    for (const auto& [id, fill] : state.pages) {
      const auto page = in.read(id);
      REQUIRE_MESSAGE(page.has_value(), page.error().message());
      REQUIRE(page_holds(*page, fill));
    }
    for (const auto& [location, record] : state.records) {
      const auto read = in.records().read(location, record.id, record.collection);
      REQUIRE_MESSAGE(read.has_value(), read.error().message());
      REQUIRE(*read == record_bytes(record));
    }
  }

  void check_space() {
    SpaceCheck* const check = pager->begin_check();
    for (const auto& [id, fill] : state_.pages) pager->check_page(check, id, "model");
    for (const auto& [location, record] : state_.records)
      pager->check_record(check, location, record.size, "model");
    std::vector<std::string> errors;
    pager->finish_check(check, &errors);
    REQUIRE_MESSAGE(errors.empty(), errors[0]);
    const SpaceUse use = pager->space_use();
    CHECK(use.page_bytes >= state_.pages.size() * kPageSize);
    CHECK(use.free_bytes <= use.file_bytes);
    CHECK(use.meta_bytes + use.page_bytes + use.record_bytes + use.retired_bytes + use.free_bytes ==
          use.file_bytes);
  }

  void verify_everything() {
    verify_state(state_);
    for (const auto& snapshot : snapshots_) verify_state(snapshot.second);
    check_space();
  }

  void reopen_clean() {
    verify_everything();
    shut();
    // An open writes, too: a power cut that was planned may come now.
    if (!try_open().ok()) {
      REQUIRE(files.power_is_cut());
      return recover();
    }
    opened_again();
  }

  void power_cut() {
    files.power_cut_after(1 + random(12));
    if (random(3) == 0) recover();
  }

  void recover() {
    shut();
    files.crash();
    reopen();
    opened_again();
  }

  // The state is that of the newest durable checkpoint, or of one that was just being made.
  void opened_again() {
    const LogPosition position = pager->opened_image().position;
    CHECK(position >= (durable_.empty() ? 0 : durable_.back()));
    CHECK(pager->opened_image().store_meta ==
          (position == 0 ? "" : "meta " + std::to_string(position)));
    state_ = images_[position];
    verify_state(state_);
    if (random(3) == 0) {
      files.power_cut_after(0);
      lose_newest_meta(position);
    }
    images_.erase(images_.upper_bound(pager->opened_image().position), images_.end());
    durable_.assign(1, pager->opened_image().position);
    open_allocators();
    check_space();
  }

  // The older checkpoint must be whole too.
  void lose_newest_meta(LogPosition newest) {
    const std::string bytes = files.content(path);
    const auto number = [&](std::uint64_t offset) {
      return load_le<std::uint64_t>(bytes.data() + offset + 48);
    };
    shut();
    const std::uint64_t slot = number(0) > number(kPageSize) ? 0 : kPageSize;
    files.poke(path, slot + 100, std::string(8, '\xee'));
    const Status status = try_open();
    if (!status.ok()) {  // the other slot was half written by the power cut
      REQUIRE(status.code() == ErrorCode::kDataCorruptionDetected);
      files.poke(path, slot, Bytes(bytes).substr(slot, 4096));
      reopen();
      CHECK(pager->opened_image().position == newest);
      return;
    }
    const LogPosition older = pager->opened_image().position;
    CHECK(older <= newest);
    CHECK(images_.contains(older));
    state_ = images_[older];
    verify_state(state_);
  }

  std::mt19937_64 random_;
  State state_;
  std::vector<std::pair<Snapshot, State>> snapshots_;
  std::map<LogPosition, State> images_{{0, State{}}};
  std::vector<LogPosition> durable_;
  LogPosition position_ = 0;
  RecordId next_record_ = 1;
  std::map<CollectionId, std::unique_ptr<RecordAllocator>> allocators_;
  std::unique_ptr<PageStash> stash_;
  std::vector<std::pair<RecordReservation, ModelRecord>> held_;
};

std::uint64_t seeds_wanted() {
  const char* const text = std::getenv("MULTIFORA_PAGER_SEEDS");
  return text == nullptr ? 6 : std::strtoull(text, nullptr, 10);
}

TEST_CASE("random use of the pager agrees with a model, through crashes and reopens") {
  const char* const text = std::getenv("MULTIFORA_PAGER_SEED");
  const std::uint64_t first = text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
  for (std::uint64_t seed = first; seed < first + seeds_wanted(); ++seed) {
    INFO("seed ", seed);
    Machine machine(seed);
    machine.run(3000);
  }
}

// Every operation on the disk fails once, in turn.
TEST_CASE("each failing write, sync and allocation leaves the durable state whole") {
  using Operation = FaultFileSystem::Operation;
  using Failure = FaultFileSystem::Failure;
  for (const Operation operation :
       {Operation::kWrite, Operation::kSync, Operation::kAllocate, Operation::kTruncate}) {
    for (const Failure failure : {Failure::kInputOutput, Failure::kShortWrite, Failure::kNoSpace}) {
      for (std::uint64_t nth = 1; nth < 40; nth += 3) {
        INFO("operation ", static_cast<int>(operation), " failure ", static_cast<int>(failure),
             " nth ", nth);
        Machine machine(1000 + nth);
        machine.files.fail(operation, nth, failure);
        machine.run(250);
      }
    }
  }
}

// Writers with structures of their own, readers with snapshots, and checkpoints, all at once.
TEST_CASE_FIXTURE(StorageFixture, "writers, readers and checkpoints run side by side") {
  std::shared_mutex gate;  // the store's commit gate
  constexpr int kWriters = 3;
  struct Writer {
    std::mutex mutex;
    std::map<PageId, std::uint64_t> pages;
    std::map<RecordLocation, ModelRecord> records;
  };
  std::vector<Writer> writers(kWriters);
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> wrong{0};
  const auto write = [&](int number) {
    Writer& own = writers[static_cast<std::size_t>(number)];
    const auto collection = static_cast<CollectionId>(number + 1);
    std::mt19937_64 random(static_cast<std::uint64_t>(number));
    auto allocator = pager->records().make_allocator(collection, number == 0 ? 1 << 20 : 0);
    PageStash stash(*pager);
    for (RecordId n = 1; n < 1500; ++n) {
      const ModelRecord record{n, collection, static_cast<std::uint32_t>(random() % 4000)};
      if (!stash.ensure(2 + 2 * RecordSpace::kRetirePages).ok()) ++wrong;
      auto reserved = pager->records().reserve(*allocator, stash, record.size);
      if (!reserved) {
        ++wrong;
        continue;
      }
      std::shared_lock commit(gate);
      std::lock_guard lock(own.mutex);
      const RecordLocation location = reserved->location();
      if (!pager->records()
               .publish(std::move(*reserved), n, collection, record_bytes(record), stash)
               .ok())
        ++wrong;
      own.records[location] = record;
      if (own.records.size() > 100) {
        const auto it = std::next(own.records.begin(), static_cast<std::ptrdiff_t>(random() % 100));
        pager->records().retire(it->first, it->second.size, stash);
        own.records.erase(it);
      }
      PageId id = kNoPage;
      fill_page(stash.take(PageKind::kTreeLeaf, collection, &id), n);
      own.pages[id] = n;
      const auto it =
          std::next(own.pages.begin(), static_cast<std::ptrdiff_t>(random() % own.pages.size()));
      id = it->first;
      own.pages.erase(it);
      if (own.pages.size() > 60) {
        pager->retire(id);
      } else {
        fill_page(pager->make_writable(&id, stash), n + 7);
        own.pages[id] = n + 7;
      }
    }
  };
  const auto read = [&] {
    while (!stop) {
      Snapshot snapshot;
      std::vector<std::pair<PageId, std::uint64_t>> pages;
      std::vector<std::pair<RecordLocation, ModelRecord>> records;
      {
        std::unique_lock exclusive(gate);
        snapshot = pager->begin_snapshot();
        for (Writer& writer : writers) {
          pages.insert(pages.end(), writer.pages.begin(), writer.pages.end());
          records.insert(records.end(), writer.records.begin(), writer.records.end());
        }
      }
      for (int round = 0; round < 3; ++round) {
        for (const auto& [id, fill] : pages) {
          const auto page = pager->read(id);
          if (!page || !page_holds(*page, fill)) ++wrong;
        }
        for (const auto& [location, record] : records)
          if (!pager->records().read(location, record.id, record.collection)) ++wrong;
      }
    }
  };
  const auto make_checkpoints = [&] {
    for (LogPosition n = 1; !stop; ++n) {
      Checkpoint* checkpoint = nullptr;
      {
        std::unique_lock exclusive(gate);
        checkpoint = pager->begin_checkpoint({n, "x"});
      }
      if (!pager->finish_checkpoint(checkpoint).ok()) ++wrong;
      for (const auto& sparse : pager->records().sparse_chunks(1, 0.5, 1))
        if (!pager->records().visit_chunk(sparse.chunk, [](auto, auto, Bytes) {}).ok()) ++wrong;
    }
  };
  std::vector<std::thread> threads;
  threads.emplace_back(read);
  threads.emplace_back(make_checkpoints);
  std::vector<std::thread> writing;
  for (int n = 0; n < kWriters; ++n) writing.emplace_back(write, n);
  for (std::thread& thread : writing) thread.join();
  stop = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  SpaceCheck* const check = pager->begin_check();
  for (Writer& writer : writers) {
    for (const auto& [id, fill] : writer.pages) pager->check_page(check, id, "writer");
    for (const auto& [location, record] : writer.records)
      pager->check_record(check, location, record.size, "writer");
  }
  std::vector<std::string> errors;
  pager->finish_check(check, &errors);
  CHECK_MESSAGE(errors.empty(), errors[0]);
}

}  // namespace
}  // namespace multifora
