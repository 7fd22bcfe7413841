// What Store's calls become inside a transaction.
#include <sys/random.h>

#include <algorithm>
#include <shared_mutex>

#include "core/base/assert.h"
#include "core/base/limits.h"
#include "core/bson/compare.h"
#include "core/store/index_spec.h"
#include "core/store/transaction_impl.h"

namespace multifora {
namespace {

Status catalog_has_changed(std::string_view ns) {
  return {ErrorCode::kSnapshotUnavailable,
          "Unable to read from a snapshot due to pending collection catalog changes to collection '" +
              std::string(ns) + "'; please retry the operation."};
}

Status existing_collection(std::string_view ns) {
  return {ErrorCode::kOperationNotSupportedInTransaction,
          "Cannot create new indexes on existing collection " + std::string(ns) +
              " in a multi-document transaction."};
}

}  // namespace

Result<std::unique_ptr<Fork>> Transaction::Impl::open_fork(const CollectionPtr& live,
                                                           std::string_view ns) {
  const std::shared_lock hold(live->lock);
  if (live->dropped) return fail(catalog_has_changed(ns));
  std::optional<CollectionVersion> version = live->version_at(generation);
  if (!version || version->info->ns != ns) return fail(catalog_has_changed(ns));
  auto fork = std::make_unique<Fork>(*store.pager, live->id);
  fork->live = live;
  fork->base = version->state;
  Collection& data = *fork->data;
  data.info = version->info;
  data.state = version->state;
  for (CollectionVersion::IndexVersion& index : version->indexes) {
    auto open = std::make_unique<OpenIndex>();
    open->number = index.number;
    open->kind = index.kind;
    MULTIFORA_ASSIGN_R(open->index, index.kind->open(store.host, *store.pager,
                                                     std::move(index.spec), index.state));
    data.next_index_number = std::max(data.next_index_number, index.number + 1);
    data.indexes.push_back(std::move(open));
  }
  if (!options.read_only) live->forks.fetch_add(1);
  return fork;
}

bool Transaction::Impl::is_younger(const Collection& live) const {
  const std::shared_lock hold(live.lock);
  return !live.dropped && !live.version_at(generation);
}

Result<Fork*> Transaction::Impl::find(std::string_view ns) {
  if (const auto at = by_name.find(ns); at != by_name.end()) return at->second;
  const CollectionPtr live = store.find(ns);
  // To a snapshot that is only read, a collection that was made since is not there; a transaction might
  // want to make it, too, and is told at once.
  if (!live || (options.read_only && is_younger(*live))) {
    const std::shared_lock hold(store.names_mutex);
    const auto lost = store.lost_names.find(ns);
    if (lost != store.lost_names.end() && lost->second > generation)
      return fail(catalog_has_changed(ns));
    return nullptr;
  }
  MULTIFORA_ASSIGN_R(auto fork, open_fork(live, ns));
  Fork* const made = fork.get();
  forks.push_back(std::move(fork));
  by_name.emplace(std::string(ns), made);
  return made;
}

Result<Fork*> Transaction::Impl::find(CollectionId id) {
  for (const auto& fork : forks)
    if (fork->data->id == id) return fork.get();
  return nullptr;
}

Status Transaction::Impl::check_may_write() const {
  if (options.read_only)
    return {ErrorCode::kIllegalOperation, "a snapshot is read only"};
  return store.writable();
}

Result<std::unique_ptr<CollectionView>> Transaction::Impl::read(std::string_view ns) {
  MULTIFORA_ASSIGN_R(Fork* const fork, find(ns));
  if (fork == nullptr) return nullptr;
  return std::make_unique<ForkView>(*store.pager, *fork);
}

Result<std::unique_ptr<CollectionView>> Transaction::Impl::read(CollectionId id) {
  MULTIFORA_ASSIGN_R(Fork* const fork, find(id));
  if (fork == nullptr)
    return fail(ErrorCode::kQueryPlanKilled, "the cursor belongs to no collection of this transaction");
  return std::make_unique<ForkView>(*store.pager, *fork);
}

Result<std::unique_ptr<CollectionWriter>> Transaction::Impl::write(std::string_view ns,
                                                                   bool create) {
  MULTIFORA_TRY_R(check_may_write());
  MULTIFORA_ASSIGN_R(Fork* fork, find(ns));
  if (fork == nullptr) {
    if (!create) return nullptr;
    MULTIFORA_TRY_R(create_collection(ns, DocumentView()));
    MULTIFORA_ASSIGN_R(fork, find(ns));
  }
  if (fork->data->info->is_view)
    return fail(ErrorCode::kCommandNotSupportedOnView,
                "Namespace " + std::string(ns) + " is a view, not a collection");
  return std::make_unique<ForkWriter>(*this, *fork);
}

Result<std::shared_ptr<const CollectionInfo>> Transaction::Impl::info(std::string_view ns) {
  MULTIFORA_ASSIGN_R(Fork* const fork, find(ns));
  return fork == nullptr ? nullptr : fork->data->info;
}

Result<std::vector<OwnedDocument>> Transaction::Impl::index_specs(std::string_view ns) {
  MULTIFORA_ASSIGN_R(Fork* const fork, find(ns));
  if (fork == nullptr)
    return fail(ErrorCode::kNamespaceNotFound, "ns does not exist: " + std::string(ns));
  std::vector<OwnedDocument> specs;
  for (const auto& open : fork->data->indexes) specs.push_back(open->index->spec().spec);
  return specs;
}

// --- the catalog ----------------------------------------------------------------------------------

Status Transaction::Impl::add_index(Fork& fork, DocumentView spec) {
  Collection& data = *fork.data;
  MULTIFORA_ASSIGN(const NormalizedIndexSpec normalized,
                   normalize_index_spec(store.host, *data.info, spec));
  MULTIFORA_ASSIGN(auto open, store.open_index(data, data.next_index_number, normalized.kind->name,
                                               normalized.spec.view(), IndexState{}));
  ++data.next_index_number;
  data.indexes.push_back(std::move(open));
  return {};
}

Status Transaction::Impl::create_collection(std::string_view ns, DocumentView create_options) {
  MULTIFORA_TRY(check_may_write());
  const Namespace parts = Namespace::split(ns);
  MULTIFORA_TRY(check_database_name(parts.db));
  MULTIFORA_TRY(check_collection_name(parts.collection));
  MULTIFORA_ASSIGN(const Fork* const existing, find(ns));
  if (existing != nullptr) {
    const CollectionInfo& info = *existing->data->info;
    if (compare_documents(info.options.view(), create_options) == 0) return {};
    return {ErrorCode::kNamespaceExists, std::string(info.is_view ? "View" : "Collection") +
                                             " already exists. NS: " + std::string(ns)};
  }
  const auto id = static_cast<CollectionId>(kForkIdsFrom + forks.size());
  auto fork = std::make_unique<Fork>(*store.pager, id);
  const auto got = getrandom(fork->uuid.data(), fork->uuid.size(), 0);
  MULTIFORA_ASSERT(got == static_cast<ssize_t>(fork->uuid.size()));
  fork->uuid[6] = static_cast<char>((fork->uuid[6] & 0x0f) | 0x40);  // version 4
  fork->uuid[8] = static_cast<char>((fork->uuid[8] & 0x3f) | 0x80);
  MULTIFORA_ASSIGN(fork->data->info,
                   store.make_info(id, ns, Bytes(fork->uuid.data(), 16), create_options));
  const CollectionInfo& info = *fork->data->info;
  if (info.is_view || info.capped)
    return {ErrorCode::kOperationNotSupportedInTransaction,
            std::string("Cannot create a ") + (info.is_view ? "view" : "capped collection") +
                " in a multi-document transaction."};
  const OwnedDocument wanted = id_index_spec(info);
  MULTIFORA_TRY(add_index(*fork, wanted.view()));
  by_name.emplace(std::string(ns), fork.get());
  forks.push_back(std::move(fork));
  return {};
}

Result<IndexBuildResult> Transaction::Impl::create_indexes(std::string_view ns,
                                                           const std::vector<DocumentView>& specs) {
  MULTIFORA_TRY_R(check_may_write());
  IndexBuildResult result;
  MULTIFORA_ASSIGN_R(Fork* fork, find(ns));
  if (fork == nullptr) {
    MULTIFORA_TRY_R(create_collection(ns, DocumentView()));
    MULTIFORA_ASSIGN_R(fork, find(ns));
    result.created_collection = true;
  }
  Collection& data = *fork->data;
  if (data.info->is_view)
    return fail(ErrorCode::kCommandNotSupportedOnView,
                "Namespace " + std::string(ns) + " is a view, not a collection");
  result.indexes_before = static_cast<std::int32_t>(data.indexes.size());
  for (const DocumentView spec : specs) {
    MULTIFORA_ASSIGN_R(const NormalizedIndexSpec normalized,
                       normalize_index_spec(store.host, *data.info, spec));
    bool exists = false;
    for (const auto& open : data.indexes) {
      MULTIFORA_ASSIGN_R(const IndexSpecRelation relation,
                         relate_index_specs(open->index->spec().spec.view(),
                                            normalized.spec.view()));
      exists = exists || relation == IndexSpecRelation::kSame;
    }
    if (exists) continue;
    if (fork->live || data.state.record_count > 0) return fail(existing_collection(ns));
    if (data.indexes.size() >= limits::kIndexesPerCollectionMax)
      return fail(ErrorCode::kCannotCreateIndex,
                  "add index fails, too many indexes for " + std::string(ns));
    MULTIFORA_TRY_R(add_index(*fork, spec));
  }
  result.indexes_after = static_cast<std::int32_t>(data.indexes.size());
  result.all_existed = result.indexes_after == result.indexes_before;
  return result;
}

// --- conflicts ------------------------------------------------------------------------------------

// A record's bytes never change in place and, while the snapshot lives, its range is not reused: the
// same location is the same document. Another location may be the same bytes, moved.
Status Transaction::Impl::claim(Fork& fork, RecordId id) {
  if (!fork.live || fork.is_new(id) || fork.claimed.contains(id)) return {};
  Collection& live = *fork.live;
  const std::shared_lock hold(live.lock);
  if (live.dropped) return write_conflict();
  const PagedArray records(*store.pager, live.id);
  MULTIFORA_ASSIGN(const RecordLocation now, records.get(live.state.records, id));
  MULTIFORA_ASSIGN(const RecordLocation then, records.get(fork.base.records, id));
  if (now == 0 || then == 0) return write_conflict();
  if (now != then) {
    MULTIFORA_ASSIGN(const Bytes new_bytes, store.pager->records().read(now, id, live.id));
    MULTIFORA_ASSIGN(const Bytes old_bytes, store.pager->records().read(then, id, live.id));
    if (new_bytes != old_bytes) return write_conflict();
  }
  if (!live.claims.claim_record(id, this)) return write_conflict();
  fork.claimed.insert(id);
  return {};
}

}  // namespace multifora
