// Index builds that do not block writers. States of one build:
//
//   wanted    --start-->     building: the collection has the indexes, marked `building`; readers do not
//                            use them, writers leave their changes in side_writes
//   building  --scan-->      every record up to scanned_up_to is in the builders; the lock is given up
//                            as soon as a writer waits
//   scanned   --write-->     without any lock: the keys are sorted and the trees written, into pages that
//                            belong to nobody yet
//   written   --catch_up-->  rounds: the side writes so far are taken under the lock and applied without
//   caught up --complete-->  exclusive, for a moment: the last side writes are applied, the pages are
//                            linked, the change is logged, readers see the indexes
//   any       --abandon-->   cancelled, a duplicate, an error: the collection is as before, and the
//                            pages go back
//
// Nothing is logged before `complete`, so that a crash leaves no trace of an unfinished build. All that
// can fail comes before the first link, so that there is nothing to be undone after it.
//
// As in MongoDB, a unique index may meet clashes on the way: only those that are left at the end count.
#include <algorithm>

#include "core/base/limits.h"
#include "core/bson/builder.h"
#include "core/store/index_spec.h"
#include "core/store/live_view.h"
#include "core/store/store_impl.h"
#include "core/store/transaction_impl.h"

namespace multifora {
namespace {

// A scan looks this often whether a writer waits, and gives up the lock at least this often.
constexpr std::size_t kScanLook = 16;
constexpr std::size_t kScanSlice = 4096;
// So many side writes may be left for the exclusive end of a build; and rounds in which to get there.
constexpr std::size_t kLastSideWrites = 128;
constexpr int kCatchUpRoundsMax = 100;
// MongoDB's default of maxIndexBuildMemoryUsageMegabytes.
constexpr std::uint64_t kBuildMemoryMax = 200u << 20;
constexpr std::int64_t kLogEveryUs = 3'000'000;
// Recovery would have to build larger indexes again: let the data file have them soon.
constexpr std::uint64_t kCheckpointFromRecords = 10'000;

struct Wanted {
  NormalizedIndexSpec normalized;
  std::uint32_t number = 0;
};

std::string_view phase_text(Store::Impl::BuildPhase phase) {
  switch (phase) {
    case Store::Impl::BuildPhase::kScan:
      return "Index Build: scanning collection";
    case Store::Impl::BuildPhase::kWrite:
      return "Index Build: inserting keys from external sorter into index";
    case Store::Impl::BuildPhase::kDrain:
      return "Index Build: draining writes received during build";
  }
  return "";
}

}  // namespace

class IndexBuild {
 public:
  IndexBuild(Store::Impl& store, CollectionPtr collection, Interrupt& interrupt)
      : store_(store), collection_(std::move(collection)), interrupt_(interrupt) {}
  ~IndexBuild();

  Result<IndexBuildResult> run(const std::vector<DocumentView>& specs);

 private:
  using Phase = Store::Impl::BuildPhase;
  struct Target {
    OpenIndex* open;
    std::unique_ptr<IndexBulkBuilder> builder;
    std::vector<IndexKey> clashes;  // of a unique index: seen, to be looked at again at the end
  };

  Status start(const std::vector<DocumentView>& specs, IndexBuildResult* result);
  Result<std::vector<Wanted>> choose(const std::vector<DocumentView>& specs) const;
  Status check_free(const NormalizedIndexSpec& normalized, bool* exists) const;
  Status add_to_collection(std::vector<Wanted> wanted);
  Status scan();
  Status scan_slice(RecordId* next, bool* done);
  Status write();
  Status catch_up();
  std::vector<std::vector<SideWrite>> take_side_writes(std::size_t* count);
  Status apply(Target& target, const std::vector<SideWrite>& writes);
  Status note_clashes(Target& target, const IndexKeySet& keys, RecordId id);
  Status check_clashes(Target& target) const;
  Status complete(IndexBuildResult* result);
  void abandon();
  Status may_go_on();
  void enter(Phase phase, std::uint64_t total);
  void log(std::string_view message) const;

  Store::Impl& store_;
  CollectionPtr collection_;
  Interrupt& interrupt_;
  std::vector<Target> targets_;
  bool in_collection_ = false;  // the indexes are in the collection, unfinished
  std::shared_ptr<Store::Impl::Build> shown_;
  std::int64_t logged_us_ = 0;
};

std::uint64_t Store::Impl::index_build_budget(std::size_t indexes) const {
  return std::min(options.memory_budget_bytes / 8, kBuildMemoryMax) / indexes;
}

IndexBuild::~IndexBuild() {
  if (in_collection_) abandon();
  if (!shown_) return;
  const std::lock_guard hold(store_.builds_mutex);
  std::erase(store_.builds, shown_);
  store_.build_ended.notify_all();
}

void IndexBuild::log(std::string_view message) const {
  std::string names;
  for (const std::string& name : shown_->names) names += (names.empty() ? "" : ", ") + name;
  store_.host.log().event(
      LogLevel::kInfo, "store", message,
      {{"ns", std::string_view(shown_->ns)},
       {"indexes", std::string_view(names)},
       {"done", static_cast<std::int64_t>(shown_->done.load())},
       {"total", static_cast<std::int64_t>(shown_->total.load())},
       {"elapsed_ms", (store_.host.clock().monotonic_us() - shown_->started_us) / 1000}});
}

void IndexBuild::enter(Phase phase, std::uint64_t total) {
  shown_->phase = phase;
  shown_->done = 0;
  shown_->total = total;
}

// Called between small pieces of work: cancelled? Also says now and then how far the build is.
Status IndexBuild::may_go_on() {
  MULTIFORA_TRY(interrupt_.check_slow());
  if (shown_->abort)
    return {ErrorCode::kIndexBuildAborted, "Index build aborted: " + shown_->abort_reason};
  const std::int64_t now_us = store_.host.clock().monotonic_us();
  if (now_us - logged_us_ < kLogEveryUs) return {};
  logged_us_ = now_us;
  log(phase_text(shown_->phase));
  return {};
}

Result<IndexBuildResult> IndexBuild::run(const std::vector<DocumentView>& specs) {
  IndexBuildResult result;
  MULTIFORA_TRY_R(start(specs, &result));
  if (targets_.empty()) {
    result.all_existed = true;
    return result;
  }
  const bool worth_a_line = shown_->total > 0;
  MULTIFORA_TRY_R(scan());
  if (worth_a_line) log("Index build: collection scan done");
  MULTIFORA_TRY_R(write());
  if (worth_a_line) log("Index build: keys sorted and written");
  // A transaction at work on the collection does not know the index: it ends first.
  return store_.without_transactions([&]() -> Result<IndexBuildResult> {
    MULTIFORA_TRY_R(catch_up());
    MULTIFORA_TRY_R(complete(&result));
    return result;
  });
}

// --- start ----------------------------------------------------------------------------------------

Status IndexBuild::check_free(const NormalizedIndexSpec& normalized, bool* exists) const {
  for (const auto& open : collection_->indexes) {
    MULTIFORA_ASSIGN(
        const IndexSpecRelation relation,
        relate_index_specs(open->index->spec().spec.view(), normalized.spec.view()));
    if (relation != IndexSpecRelation::kSame) continue;
    if (open->building)
      return {ErrorCode::kIndexBuildAlreadyInProgress,
              "There's already an index build in progress for index '" + open->index->spec().name +
                  "'"};
    *exists = true;
  }
  return {};
}

// The specifications that name no index that is there.
Result<std::vector<Wanted>> IndexBuild::choose(const std::vector<DocumentView>& specs) const {
  std::vector<Wanted> wanted;
  for (const DocumentView spec : specs) {
    MULTIFORA_ASSIGN_R(NormalizedIndexSpec normalized,
                       normalize_index_spec(store_.host, *collection_->info, spec));
    bool exists = false;
    MULTIFORA_TRY_R(check_free(normalized, &exists));
    for (const Wanted& other : wanted) {
      MULTIFORA_ASSIGN_R(const IndexSpecRelation relation,
                         relate_index_specs(other.normalized.spec.view(), normalized.spec.view()));
      if (relation == IndexSpecRelation::kSame)
        return fail(ErrorCode::kIndexAlreadyExists,
                    "Identical index already exists: " +
                        std::string(normalized.spec.view()["name"].as_string()));
    }
    if (!exists) wanted.push_back({std::move(normalized), 0});
  }
  if (collection_->indexes.size() + wanted.size() > limits::kIndexesPerCollectionMax)
    return fail(ErrorCode::kCannotCreateIndex,
                "add index fails, too many indexes for " + collection_->info->ns + ", at most " +
                    std::to_string(limits::kIndexesPerCollectionMax) + " are allowed");
  return wanted;
}

Status IndexBuild::start(const std::vector<DocumentView>& specs, IndexBuildResult* result) {
  collection_->lock.lock();
  const std::unique_lock hold(collection_->lock, std::adopt_lock);
  if (collection_->dropped)
    return {ErrorCode::kNamespaceNotFound, "collection dropped: " + collection_->info->ns};
  MULTIFORA_ASSIGN(std::vector<Wanted> wanted, choose(specs));
  result->indexes_before = static_cast<std::int32_t>(collection_->indexes.size());
  result->indexes_after = result->indexes_before;
  return wanted.empty() ? Status() : add_to_collection(std::move(wanted));
}

Status IndexBuild::add_to_collection(std::vector<Wanted> wanted) {
  std::vector<std::unique_ptr<OpenIndex>> opened;
  auto shown = std::make_shared<Store::Impl::Build>();
  for (Wanted& one : wanted) {
    one.number = collection_->next_index_number + static_cast<std::uint32_t>(opened.size());
    MULTIFORA_ASSIGN(auto open, store_.open_index(*collection_, one.number,
                                                  one.normalized.kind->name,
                                                  one.normalized.spec.view(), IndexState{}));
    open->building = true;
    shown->names.push_back(open->index->spec().name);
    shown->specs.push_back(open->index->spec().spec);
    opened.push_back(std::move(open));
  }
  for (auto& open : opened)
    targets_.push_back({open.get(),
                        open->index->bulk_builder(store_.index_build_budget(wanted.size()),
                                                  store_.temp_directory),
                        {}});
  shown->ns = collection_->info->ns;
  shown->started_us = logged_us_ = store_.host.clock().monotonic_us();
  shown->total = collection_->state.record_count;
  shown_ = std::move(shown);
  {
    const std::lock_guard list(store_.builds_mutex);
    store_.builds.push_back(shown_);
  }
  const GateEntry gate(store_.gate);
  collection_->next_index_number += static_cast<std::uint32_t>(opened.size());
  for (auto& open : opened) collection_->indexes.push_back(std::move(open));
  in_collection_ = true;
  if (shown_->total > 0) log("Index build: starting");
  return {};
}

// --- scan -----------------------------------------------------------------------------------------

Status IndexBuild::scan() {
  RecordId next = 1;
  bool done = false;
  while (!done) {
    MULTIFORA_TRY(may_go_on());
    for (const Target& target : targets_) MULTIFORA_TRY(target.builder->make_room());
    collection_->lock.lock_shared();
    Status status = scan_slice(&next, &done);
    collection_->lock.unlock_shared();
    MULTIFORA_TRY(std::move(status));
  }
  return {};
}

// Under the shared lock: no writer looks at scanned_up_to meanwhile. At the end of the collection it
// becomes the largest id, so that all that comes later is a side write.
Status IndexBuild::scan_slice(RecordId* next, bool* done) {
  const LiveView view(*store_.pager, collection_, false);
  const auto cursor = view.scan(false);
  cursor->seek(*next);
  RecordId last = *next - 1;
  IndexKeySet keys;
  std::size_t count = 0;
  for (; count < kScanSlice; ++count) {
    if (count > 0 && count % kScanLook == 0 && collection_->lock.contended()) break;
    MULTIFORA_ASSIGN(const bool found, cursor->next());
    if (!found) {
      *done = true;
      last = ~RecordId{0};
      break;
    }
    last = cursor->id();
    for (const Target& target : targets_) {
      MULTIFORA_TRY(target.open->index->extract(cursor->document(), keys));
      MULTIFORA_TRY(target.builder->add(keys, last));
    }
  }
  for (const Target& target : targets_) target.open->scanned_up_to = last;
  *next = last + 1;
  shown_->done.fetch_add(count, std::memory_order_relaxed);
  return {};
}

// --- write and catch up ---------------------------------------------------------------------------

Status IndexBuild::write() {
  for (Target& target : targets_) {
    enter(Phase::kWrite, 0);
    MULTIFORA_ASSIGN(const IndexState state,
                     target.builder->finish([&](std::uint64_t done, std::uint64_t total) {
                       shown_->done = done;
                       shown_->total = total;
                       return may_go_on();
                     }));
    target.open->index->set_state(state);
    target.clashes = target.builder->duplicates();
  }
  return {};
}

// Requires the exclusive lock.
std::vector<std::vector<SideWrite>> IndexBuild::take_side_writes(std::size_t* count) {
  std::vector<std::vector<SideWrite>> taken(targets_.size());
  *count = 0;
  for (std::size_t i = 0; i < targets_.size(); ++i) {
    taken[i].swap(targets_[i].open->side_writes);
    *count += taken[i].size();
  }
  return taken;
}

Status IndexBuild::catch_up() {
  enter(Phase::kDrain, 0);
  for (int round = 0; round < kCatchUpRoundsMax; ++round) {
    std::size_t count = 0;
    std::vector<std::vector<SideWrite>> taken;
    {
      collection_->lock.lock();
      const std::unique_lock hold(collection_->lock, std::adopt_lock);
      taken = take_side_writes(&count);
    }
    shown_->total += count;
    for (std::size_t i = 0; i < targets_.size(); ++i) MULTIFORA_TRY(apply(targets_[i], taken[i]));
    if (count <= kLastSideWrites) break;
  }
  return {};
}

Status IndexBuild::apply(Target& target, const std::vector<SideWrite>& writes) {
  Index& index = *target.open->index;
  PageStash& stash = target.builder->stash();
  std::size_t count = 0;
  for (const SideWrite& write : writes) {
    if (count++ % 64 == 0) MULTIFORA_TRY(may_go_on());
    MULTIFORA_TRY(stash.ensure(index.pages_needed(write.keys)));
    // No generation ends in the middle of a change: what it made writable stays so, and is enough.
    const GateEntry gate(store_.gate);
    if (write.insert) {
      MULTIFORA_TRY(note_clashes(target, write.keys, write.id));
      MULTIFORA_TRY(index.insert(write.keys, write.id, stash));
    } else {
      MULTIFORA_TRY(index.remove(write.keys, write.id, stash));
    }
    shown_->done.fetch_add(1, std::memory_order_relaxed);
  }
  return {};
}

Status IndexBuild::note_clashes(Target& target, const IndexKeySet& keys, RecordId id) {
  const Index& index = *target.open->index;
  if (!index.spec().unique) return {};
  for (const IndexKey& key : keys.keys) {
    IndexKeySet one;
    one.keys.push_back(key);
    MULTIFORA_ASSIGN(const RecordId other, index.find_conflict(one, id));
    if (other != 0) target.clashes.push_back(key);
  }
  // So many at once are not passing ones.
  return target.clashes.size() > 2 * kIndexDuplicatesMax ? check_clashes(target) : Status();
}

// DuplicateKey where two records still have one of the keys.
Status IndexBuild::check_clashes(Target& target) const {
  const Index& index = *target.open->index;
  for (const IndexKey& key : target.clashes) {
    IndexKeySet one;
    one.keys.push_back(key);
    MULTIFORA_ASSIGN(const RecordId first, index.find_conflict(one, 0));
    if (first == 0) continue;
    MULTIFORA_ASSIGN(const RecordId second, index.find_conflict(one, first));
    if (second != 0) return duplicate_key(index, key);
  }
  target.clashes.clear();
  return {};
}

// --- the end --------------------------------------------------------------------------------------

Status IndexBuild::complete(IndexBuildResult* result) {
  LogBatch batch;
  for (const Target& target : targets_) {
    DocumentBuilder body;
    body.append("number", static_cast<std::int64_t>(target.open->number));
    body.append("kind", target.open->kind->name);
    body.append("spec", target.open->index->spec().spec.view());
    const OwnedDocument record = std::move(body).finish();
    batch.catalog(LogOperation::kCreateIndex, collection_->id, record.view());
  }
  MULTIFORA_ASSIGN(Wal::Reservation reservation, store_.reserve_log(batch.bytes().size()));
  collection_->lock.lock();
  const std::unique_lock hold(collection_->lock, std::adopt_lock);
  MULTIFORA_TRY(Store::Impl::check_no_forks({collection_}));
  std::size_t count = 0;
  const std::vector<std::vector<SideWrite>> last = take_side_writes(&count);
  for (std::size_t i = 0; i < targets_.size(); ++i) {
    MULTIFORA_TRY(apply(targets_[i], last[i]));
    MULTIFORA_TRY(check_clashes(targets_[i]));
  }
  MULTIFORA_TRY(store_.writable());
  MULTIFORA_TRY(may_go_on());
  const GateEntry gate(store_.gate);
  collection_->preserve(store_.pager->current_generation());
  for (const Target& target : targets_) {
    target.builder->link();
    target.open->building = false;
  }
  in_collection_ = false;
  result->indexes_after += static_cast<std::int32_t>(targets_.size());
  result->records = collection_->state.record_count;
  store_.mark_dirty(collection_, true);
  MULTIFORA_ASSIGN(result->position, store_.append(batch.bytes(), &reservation));
  if (result->records > 0) log("Index build: done building");
  return {};
}

void IndexBuild::abandon() {
  for (Target& target : targets_) target.builder.reset();  // gives back its pages
  {
    const std::lock_guard hold(collection_->lock);
    const GateEntry gate(store_.gate);
    for (const Target& target : targets_)
      std::erase_if(collection_->indexes,
                    [&](const auto& other) { return other.get() == target.open; });
  }
  log("Index build: failed or aborted");
}

Status Store::Impl::wait_for_build_end(Interrupt& interrupt) {
  constexpr auto kLook = std::chrono::milliseconds(20);
  std::unique_lock hold(builds_mutex);
  build_ended.wait_for(hold, kLook);
  return interrupt.check_slow();
}

// IndexBuildAlreadyInProgress where somebody else builds one of them.
Result<IndexBuildResult> Store::build_indexes(std::string_view ns,
                                              const std::vector<DocumentView>& specs,
                                              Interrupt& interrupt) {
  Impl& impl = *impl_;
  bool created = false;
  CollectionPtr collection = impl.find(ns);
  if (!collection) {
    MULTIFORA_TRY_R(check_database_name(Namespace::split(ns).db));
    const auto position = create_collection(ns, DocumentView());
    if (!position && position.error().code() != ErrorCode::kNamespaceExists)
      return fail(position.error());
    created = position && *position != 0;
    collection = impl.find(ns);
    if (!collection) return fail(ErrorCode::kNamespaceNotFound, "collection dropped");
  }
  if (collection->info->is_view)
    return fail(ErrorCode::kCommandNotSupportedOnView,
                "Namespace " + std::string(ns) + " is a view, not a collection");
  Result<IndexBuildResult> result = IndexBuildResult();
  {
    IndexBuild build(impl, collection, interrupt);
    result = build.run(specs);
  }
  if (!result) return result;
  result->created_collection = created;
  impl.note_progress();
  if (!result->all_existed && result->records > kCheckpointFromRecords) impl.want_checkpoint();
  return result;
}

Result<IndexBuildResult> Store::create_indexes(std::string_view ns,
                                               const std::vector<DocumentView>& specs,
                                               Interrupt& interrupt) {
  if (auto* const transaction = impl_->transaction()) return transaction->create_indexes(ns, specs);
  MULTIFORA_TRY_R(impl_->writable());
  Result<IndexBuildResult> result = build_indexes(ns, specs, interrupt);
  while (!result && result.error().code() == ErrorCode::kIndexBuildAlreadyInProgress) {
    MULTIFORA_TRY_R(impl_->wait_for_build_end(interrupt));
    result = build_indexes(ns, specs, interrupt);
  }
  return result;
}

std::vector<Store::BuildProgress> Store::index_builds() const {
  std::vector<BuildProgress> all;
  const std::lock_guard hold(impl_->builds_mutex);
  for (const auto& build : impl_->builds)
    all.push_back({build->ns, build->specs, build->names, std::string(phase_text(build->phase)),
                   build->done.load(), build->total.load(), build->started_us});
  return all;
}

std::size_t Store::abort_index_builds(std::string_view ns, const std::vector<std::string>& names,
                                      std::string_view reason) {
  std::unique_lock hold(impl_->builds_mutex);
  std::vector<std::shared_ptr<Impl::Build>> aborted;
  for (const auto& build : impl_->builds) {
    if (build->ns != ns) continue;
    if (!names.empty() && (names.size() != build->names.size() ||
                           !std::is_permutation(names.begin(), names.end(), build->names.begin())))
      continue;
    if (!build->abort) {
      build->abort_reason = reason;
      build->abort = true;
    }
    aborted.push_back(build);
  }
  for (const auto& build : aborted) {
    impl_->build_ended.wait(hold, [&] {
      return std::find(impl_->builds.begin(), impl_->builds.end(), build) == impl_->builds.end();
    });
  }
  return aborted.size();
}

}  // namespace multifora
