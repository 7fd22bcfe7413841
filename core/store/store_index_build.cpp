// Index builds that do not block writers. States of one build:
//
//   wanted    --start_build-->   building: the collection has the index, marked `building`; readers do
//                                not use it, writers leave their changes in side_writes
//   building  --scan-->          every record up to scanned_up_to is in the builder; the lock is given
//                                up whenever a writer waits
//   scanned   --complete-->      exclusive: the packed tree is written, side_writes are applied, the
//                                change is logged, readers see the index
//   building  --abandon-->       cancelled, a duplicate, an error: the collection is as before
//
// Nothing is logged before `complete`, so that a crash leaves no trace of an unfinished build.
#include <algorithm>

#include "core/base/limits.h"
#include "core/bson/builder.h"
#include "core/store/index_spec.h"
#include "core/store/store_impl.h"

namespace multifora {
namespace {

// A scan gives up the lock at least this often, so that a writer that comes waits only briefly.
constexpr std::size_t kScanSlice = 256;

struct Wanted {
  NormalizedIndexSpec normalized;
  std::uint32_t number = 0;
};

}  // namespace

class IndexBuild {
 public:
  IndexBuild(Store::Impl& store, CollectionPtr collection, Interrupt& interrupt)
      : store_(store), collection_(std::move(collection)), interrupt_(interrupt) {}
  ~IndexBuild() {
    if (!started_.empty()) abandon();
    const std::lock_guard hold(store_.builds_mutex);
    std::erase_if(store_.builds, [&](const auto& build) { return is_mine(build); });
  }

  Result<IndexBuildResult> run(const std::vector<DocumentView>& specs);

 private:
  bool is_mine(const std::shared_ptr<Store::Impl::Build>& build) const {
    return std::find(progress_.begin(), progress_.end(), build) != progress_.end();
  }
  Status start(const std::vector<DocumentView>& specs, IndexBuildResult* result);
  Status scan();
  Status scan_slice(RecordId* next, bool* done);
  Status complete(IndexBuildResult* result);
  Status finish_one(OpenIndex& open, IndexBulkBuilder& builder);
  void abandon();

  Store::Impl& store_;
  CollectionPtr collection_;
  Interrupt& interrupt_;
  std::vector<OpenIndex*> started_;
  std::vector<std::unique_ptr<IndexBulkBuilder>> builders_;
  std::vector<std::shared_ptr<Store::Impl::Build>> progress_;
};

Result<IndexBuildResult> IndexBuild::run(const std::vector<DocumentView>& specs) {
  IndexBuildResult result;
  MULTIFORA_TRY_R(start(specs, &result));
  if (started_.empty()) {
    result.all_existed = true;
    return result;
  }
  MULTIFORA_TRY_R(scan());
  MULTIFORA_TRY_R(complete(&result));
  return result;
}

Status IndexBuild::start(const std::vector<DocumentView>& specs, IndexBuildResult* result) {
  collection_->lock.lock();
  const std::unique_lock hold(collection_->lock, std::adopt_lock);
  if (collection_->dropped)
    return {ErrorCode::kNamespaceNotFound, "collection dropped: " + collection_->info->ns};
  const CollectionInfo& info = *collection_->info;
  std::vector<Wanted> wanted;
  for (const DocumentView spec : specs) {
    MULTIFORA_ASSIGN(NormalizedIndexSpec normalized,
                     normalize_index_spec(store_.host, info, spec));
    bool exists = false;
    for (const auto& open : collection_->indexes) {
      MULTIFORA_ASSIGN(const IndexSpecRelation relation,
                       relate_index_specs(open->index->spec().spec.view(),
                                          normalized.spec.view()));
      if (relation != IndexSpecRelation::kSame) continue;
      if (open->building)
        return {ErrorCode::kIndexBuildAlreadyInProgress,
                "There's already an index build in progress for index '" +
                    open->index->spec().name + "'"};
      exists = true;
    }
    for (const Wanted& other : wanted) {
      MULTIFORA_ASSIGN(const IndexSpecRelation relation,
                       relate_index_specs(other.normalized.spec.view(), normalized.spec.view()));
      if (relation == IndexSpecRelation::kSame)
        return {ErrorCode::kIndexAlreadyExists,
                "Identical index already exists: " +
                    std::string(normalized.spec.view()["name"].as_string())};
    }
    if (!exists) wanted.push_back({std::move(normalized), 0});
  }
  result->indexes_before = static_cast<std::int32_t>(collection_->indexes.size());
  result->indexes_after = result->indexes_before;
  if (collection_->indexes.size() + wanted.size() > limits::kIndexesPerCollectionMax)
    return {ErrorCode::kCannotCreateIndex,
            "add index fails, too many indexes for " + info.ns + ", at most " +
                std::to_string(limits::kIndexesPerCollectionMax) + " are allowed"};
  if (wanted.empty()) return {};

  std::vector<std::unique_ptr<OpenIndex>> opened;
  const std::uint64_t budget = store_.options.memory_budget_bytes / 8 / wanted.size();
  for (Wanted& one : wanted) {
    one.number = collection_->next_index_number + static_cast<std::uint32_t>(opened.size());
    MULTIFORA_ASSIGN(auto open, store_.open_index(*collection_, one.number,
                                                  one.normalized.kind->name,
                                                  one.normalized.spec.view(), IndexState{}));
    open->building = true;
    builders_.push_back(open->index->bulk_builder(budget, store_.temp_directory));
    opened.push_back(std::move(open));
  }
  const GateEntry gate(store_.gate);
  collection_->next_index_number += static_cast<std::uint32_t>(opened.size());
  const std::lock_guard list(store_.builds_mutex);
  for (auto& open : opened) {
    auto build = std::make_shared<Store::Impl::Build>();
    build->ns = info.ns;
    build->index = open->index->spec().name;
    build->total = collection_->state.record_count;
    store_.builds.push_back(build);
    progress_.push_back(std::move(build));
    started_.push_back(open.get());
    collection_->indexes.push_back(std::move(open));
  }
  return {};
}

Status IndexBuild::scan() {
  RecordId next = 1;
  bool done = false;
  while (!done) {
    MULTIFORA_TRY(interrupt_.check_slow());
    collection_->lock.lock_shared();
    Status status = collection_->dropped
                        ? Status(ErrorCode::kIndexBuildAborted, "collection dropped")
                        : scan_slice(&next, &done);
    collection_->lock.unlock_shared();
    MULTIFORA_TRY(std::move(status));
  }
  return {};
}

// Under the shared lock: writers cannot see scanned_up_to half changed.
Status IndexBuild::scan_slice(RecordId* next, bool* done) {
  const PagedArray array(*store_.pager, collection_->id);
  PagedArray::Cursor cursor(array, collection_->state.records, false);
  MULTIFORA_ASSIGN(bool found, cursor.seek(*next));
  IndexKeySet keys;
  std::size_t count = 0;
  while (found) {
    const RecordId id = cursor.index();
    MULTIFORA_ASSIGN(const Bytes bytes,
                     store_.pager->records().read_known(cursor.value(), id, collection_->id));
    const DocumentView document = DocumentView::assume_valid(bytes);
    for (std::size_t i = 0; i < started_.size(); ++i) {
      keys.clear();
      MULTIFORA_TRY(started_[i]->index->extract(document, keys));
      MULTIFORA_TRY(builders_[i]->add(keys, id));
      started_[i]->scanned_up_to = id;
      progress_[i]->done.fetch_add(1, std::memory_order_relaxed);
    }
    *next = id + 1;
    if (++count % kScanSlice == 0 && collection_->lock.contended()) return {};
    if (count % 4096 == 0) return {};
    MULTIFORA_ASSIGN(found, cursor.next());
  }
  *done = true;
  return {};
}

Status IndexBuild::finish_one(OpenIndex& open, IndexBulkBuilder& builder) {
  MULTIFORA_ASSIGN(const IndexState state, builder.finish([&](std::uint64_t, std::uint64_t) {
    return interrupt_.check_slow();
  }));
  open.index->set_state(state);
  BorrowedStash stash(*store_.stashes);
  for (const SideWrite& write : open.side_writes) {
    MULTIFORA_TRY((*stash).ensure(open.index->pages_needed(write.keys)));
    if (!write.insert) {
      MULTIFORA_TRY(open.index->remove(write.keys, write.id, *stash));
      continue;
    }
    if (open.index->spec().refuses_duplicates()) {
      MULTIFORA_ASSIGN(const RecordId other, open.index->find_conflict(write.keys, write.id));
      if (other != 0) return duplicate_key(*open.index, write.keys.keys.front());
    }
    MULTIFORA_TRY(open.index->insert(write.keys, write.id, *stash));
  }
  open.side_writes.clear();
  return {};
}

Status IndexBuild::complete(IndexBuildResult* result) {
  collection_->lock.lock();
  const std::unique_lock hold(collection_->lock, std::adopt_lock);
  if (collection_->dropped) return {ErrorCode::kIndexBuildAborted, "collection dropped"};
  // Records that came after the scan's end.
  RecordId next = started_.front()->scanned_up_to + 1;
  for (bool done = false; !done;) MULTIFORA_TRY(scan_slice(&next, &done));
  MULTIFORA_TRY(store_.writable());
  LogBatch batch;
  for (const OpenIndex* open : started_) {
    DocumentBuilder body;
    body.append("number", static_cast<std::int64_t>(open->number));
    body.append("kind", open->kind->name);
    body.append("spec", open->index->spec().spec.view());
    const OwnedDocument record = std::move(body).finish();
    batch.catalog(LogOperation::kCreateIndex, collection_->id, record.view());
  }
  MULTIFORA_ASSIGN(Wal::Reservation reservation, store_.reserve_log(batch.bytes().size()));
  const GateEntry gate(store_.gate);
  for (std::size_t i = 0; i < started_.size(); ++i)
    MULTIFORA_TRY(finish_one(*started_[i], *builders_[i]));
  for (OpenIndex* open : started_) open->building = false;
  result->indexes_after += static_cast<std::int32_t>(started_.size());
  started_.clear();
  store_.mark_dirty(collection_, true);
  MULTIFORA_ASSIGN(result->position, store_.append(batch.bytes(), &reservation));
  return {};
}

void IndexBuild::abandon() {
  const std::lock_guard hold(collection_->lock);
  const GateEntry gate(store_.gate);
  for (OpenIndex* open : started_) {
    if (Status status = open->index->clear(); !status.ok()) store_.fail_store(status);
    std::erase_if(collection_->indexes, [&](const auto& other) { return other.get() == open; });
  }
  started_.clear();
}

Result<IndexBuildResult> Store::create_indexes(std::string_view ns,
                                               const std::vector<DocumentView>& specs,
                                               Interrupt& interrupt) {
  Impl& impl = *impl_;
  MULTIFORA_TRY_R(impl.writable());
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
  const std::string index_ns(ns);
  impl.host.log().event(LogLevel::kInfo, "store", "Building indexes",
                        {{"ns", std::string_view(index_ns)},
                         {"count", static_cast<std::int64_t>(specs.size())}});
  Result<IndexBuildResult> result = IndexBuildResult();
  {
    IndexBuild build(impl, collection, interrupt);
    result = build.run(specs);
  }
  if (!result) return result;
  result->created_collection = created;
  impl.note_progress();
  // Recovery would have to build them again: let the data file have them soon.
  if (!result->all_existed && collection->state.record_count > 10'000) impl.want_checkpoint();
  return result;
}

std::vector<Store::BuildProgress> Store::index_builds() const {
  std::vector<BuildProgress> all;
  const std::lock_guard hold(impl_->builds_mutex);
  for (const auto& build : impl_->builds)
    all.push_back({build->ns, build->index, build->done.load(), build->total.load()});
  return all;
}

}  // namespace multifora
