#include "core/store/store.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "core/plugin/codec.h"
#include "core/store/change_feed.h"
#include "core/store/history.h"
#include "core/store/live_view.h"
#include "core/store/store_impl.h"
#include "core/store/transaction_impl.h"
#include "core/store/virtual_collection.h"
#include "core/store/writer.h"

namespace multifora {
namespace {

std::uint64_t quarter_of_memory() {
  const auto pages = sysconf(_SC_PHYS_PAGES);
  const auto page_size = sysconf(_SC_PAGESIZE);
  return pages > 0 && page_size > 0
             ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page_size) / 4
             : std::uint64_t{1} << 30;
}

Status empty_directory(FileSystem& files, const std::string& path) {
  MULTIFORA_TRY(files.create_directory(path));
  MULTIFORA_ASSIGN(const auto names, files.list(path));
  for (const std::string& name : names) MULTIFORA_TRY(files.remove(path + "/" + name));
  return {};
}

// What to do where the system says no.
Status explain_refusal(Status status, const std::string& path) {
  if (status.code() == ErrorCode::kLockBusy)
    return std::move(status).with_context("cannot use the database directory " + path +
                                          ": another multiforadb is running on it");
  if (status.code() == ErrorCode::kUnauthorized)
    return std::move(status).with_context(
        "cannot use the database directory " + path + ": give user " + std::to_string(geteuid()) +
        " the right to write there and to all files in it, or run as their owner");
  return status;
}

// Null: none, as for nearly every name. Looked for last.
template <class Key>
const VirtualCollection* find_virtual(const PluginHost& host, const Key& key) {
  const auto* virtuals = host.service<VirtualCollections>();
  return virtuals != nullptr ? virtuals->find(key) : nullptr;
}

}  // namespace

std::unique_ptr<PageStash> StashPool::borrow() {
  const std::lock_guard hold(mutex_);
  if (idle_.empty()) return std::make_unique<PageStash>(pager_);
  auto stash = std::move(idle_.back());
  idle_.pop_back();
  return stash;
}

void StashPool::give_back(std::unique_ptr<PageStash> stash) {
  constexpr std::size_t kKeptPagesMax = 256;
  if (stash->size() > kKeptPagesMax) stash->give_back_all();
  const std::lock_guard hold(mutex_);
  idle_.push_back(std::move(stash));
}

void StashPool::drop_idle() {
  std::vector<std::unique_ptr<PageStash>> dropped;
  const std::lock_guard hold(mutex_);
  dropped.swap(idle_);
}

Store::Store() = default;

Result<std::unique_ptr<Store>> Store::open(const StoreOptions& given, PluginHost& host,
                                           FileSystem& files, OpenReport* report) {
  const std::int64_t started_us = host.clock().monotonic_us();
  StoreOptions options = given;
  if (options.memory_budget_bytes == 0) options.memory_budget_bytes = quarter_of_memory();
  std::unique_ptr<Store> store(new Store());
  store->impl_ = std::make_unique<Impl>(options, host, files);
  Impl& impl = *store->impl_;
  WalReplay replay;
  if (Status status = impl.open(&replay); !status.ok())
    return fail(explain_refusal(std::move(status), options.path));
  if (!options.read_only) impl.start_work(*store);
  if (report != nullptr) {
    report->open_ms = (host.clock().monotonic_us() - started_us) / 1000;
    report->recovered_batches = replay.batches;
    report->truncated_log_bytes = replay.truncated_bytes;
    report->created = impl.pager->created();
  }
  return store;
}

void Store::Impl::start_work(Store& store) {
  worker = std::thread([this] { work(); });
  history_worker = std::thread([this] { write_history(); });
  keeper.start();
  if (const Status dropped = drop_temporary(store); !dropped.ok())
    host.log().event(LogLevel::kWarning, "store", "Temporary collections were not dropped",
                     {{"error", std::string_view(dropped.message())}});
}

Status Store::Impl::open(WalReplay* replayed) {
  if (options.read_only && !files.exists(options.path + "/data.mfdb"))
    return {ErrorCode::kNoSuchKey, "there is no database in " + options.path +
                                       ", and storage.read_only makes none"};
  MULTIFORA_TRY(files.create_directory(options.path));
  MULTIFORA_ASSIGN(lock_file, files.lock(options.path + "/lock", std::to_string(getpid()) + "\n"));
  temp_directory = options.path + "/tmp";
  if (options.read_only)
    temp_directory = std::filesystem::temp_directory_path().string();
  else
    MULTIFORA_TRY(empty_directory(files, temp_directory));

  PagerOptions pager_options;
  pager_options.memory_budget_bytes = options.memory_budget_bytes;
  MULTIFORA_ASSIGN(pager, Pager::open(files, options.path + "/data.mfdb", pager_options, host.log(),
                                      host.metrics()));
  stashes = std::make_unique<StashPool>(*pager);
  table = std::make_unique<CatalogTable>(*pager);
  const CheckpointImage& image = pager->opened_image();
  MULTIFORA_TRY(table->open(image.store_meta));
  next_collection_id = table->next_collection_id();
  MULTIFORA_TRY(load_catalog());
  MULTIFORA_TRY(open_history(image.position));

  WalOptions wal_options;
  wal_options.directory = options.path + "/wal";
  wal_options.cohort_wait_us = options.cohort_wait_us;
  wal_options.appended = [this](LogPosition before, LogPosition position, Bytes batch) {
    feed->appended(before, position, batch);
  };
  wal_options.synced = [this](LogPosition position) { feed->synced(position); };
  wal_options.find_codec = [this](std::string_view name) { return host.codec(name); };
  wal_options.sync_referenced = [this] { return pager->sync_referenced(); };
  wal_options.survey = [this](LogPosition, Bytes batch) { return survey(batch); };
  if (options.log_codec != "none") {
    wal_options.codec = host.codec(options.log_codec);
    if (wal_options.codec == nullptr)
      return {ErrorCode::kBadValue, "storage.log_codec is '" + options.log_codec +
                                        "', but no loaded plugin offers that codec; load plugin "
                                        "codec-" +
                                        options.log_codec + " or choose \"none\""};
  }
  pager->begin_recovery();
  MULTIFORA_ASSIGN(
      wal, Wal::open(
               files, wal_options, host.clock(), host.log(), host.metrics(), image.position,
               [this](LogPosition position, Bytes batch) { return replay(position, batch); },
               replayed));
  pager->end_recovery();
  references = {};
  feed->attach(wal.get(), history.get(), [this](LogPosition position, Bytes batch, Buffer& scratch) {
    return whole_batch(position, batch, scratch);
  });
  recover_names(image.position);
  wal->advance_to(image.position);
  changed_since_checkpoint = replayed->batches > 0;
  return {};
}

Store::~Store() {
  if (impl_) static_cast<void>(close());
}

Status Store::close() {
  Impl& impl = *impl_;
  if (impl.closed) return {};
  impl.closed = true;
  impl.no_waits = true;
  impl.writers.ease();
  impl.keeper.stop();
  impl.end_transactions();
  if (impl.worker.joinable()) {
    {
      const std::lock_guard hold(impl.worker_mutex);
      impl.stopping = true;
      impl.worker_wake.notify_all();
    }
    impl.worker.join();
  }
  if (impl.history_worker.joinable()) {
    {
      const std::lock_guard hold(impl.history_mutex);
      impl.history_stopping = true;
      impl.history_wake.notify_all();
    }
    impl.history_worker.join();
  }
  Status status;
  if (impl.wal && !impl.failed && !impl.options.read_only) {
    // Both meta pages describe the final state afterwards and neither needs the log.
    status = impl.checkpoint();
    if (status.ok()) status = impl.wal->close_clean();
  }
  impl.wal.reset();
  impl.history.reset();
  impl.by_name.clear();
  impl.by_id.clear();
  impl.dirty.clear();
  impl.graveyard.clear();
  impl.references = {};
  impl.history_work.clear();
  impl.epoch_pin = Snapshot();
  impl.stashes.reset();
  impl.table.reset();
  impl.pager.reset();
  impl.lock_file.reset();
  return status;
}

// --- look-up --------------------------------------------------------------------------------------

CollectionPtr Store::Impl::find(std::string_view ns) const {
  const std::shared_lock hold(names_mutex);
  const auto at = by_name.find(ns);
  return at == by_name.end() ? nullptr : at->second;
}

CollectionPtr Store::Impl::find(CollectionId id) const {
  const std::shared_lock hold(names_mutex);
  const auto at = by_id.find(id);
  return at == by_id.end() ? nullptr : at->second;
}

CollectionPtr Store::Impl::find_locked(std::string_view ns) {
  while (true) {
    CollectionPtr collection = find(ns);
    if (!collection) return nullptr;
    collection->lock.lock();
    if (!collection->dropped && collection->info->ns == ns) return collection;
    collection->lock.unlock();
  }
}

// The transaction that this thread works for, if it is one of this store.
Transaction::Impl* Store::Impl::transaction() const {
  Transaction* const current = bound_transaction();
  return current != nullptr && &current->impl().store == this ? &current->impl() : nullptr;
}

Result<std::unique_ptr<CollectionView>> Store::read(std::string_view ns) {
  if (auto* const transaction = impl_->transaction()) return transaction->read(ns);
  while (true) {
    CollectionPtr collection = impl_->find(ns);
    if (!collection) {
      const VirtualCollection* const other = find_virtual(impl_->host, ns);
      return other != nullptr ? other->open(*this) : nullptr;
    }
    collection->lock.lock_shared();
    if (!collection->dropped && collection->info->ns == ns)
      return std::make_unique<LiveView>(*impl_->pager, std::move(collection), true);
    collection->lock.unlock_shared();
  }
}

Result<std::unique_ptr<CollectionView>> Store::read(CollectionId id) {
  if (auto* const transaction = impl_->transaction()) return transaction->read(id);
  if (id >= kVirtualCollectionIdMin)
    if (const VirtualCollection* const other = find_virtual(impl_->host, id))
      return other->open(*this);
  CollectionPtr collection = impl_->find(id);
  if (collection) {
    collection->lock.lock_shared();
    if (!collection->dropped)
      return std::make_unique<LiveView>(*impl_->pager, std::move(collection), true);
    collection->lock.unlock_shared();
  }
  return fail(ErrorCode::kQueryPlanKilled, "the collection of this cursor was dropped");
}

std::shared_ptr<const CollectionInfo> Store::info(std::string_view ns) const {
  // Whoever goes on without the description meets the failure when it reads or writes.
  if (auto* const transaction = impl_->transaction())
    return transaction->info(ns).value_or(nullptr);
  const CollectionPtr collection = impl_->find(ns);
  if (!collection) {
    const VirtualCollection* const other = find_virtual(impl_->host, ns);
    return other != nullptr ? other->info() : nullptr;
  }
  collection->lock.lock_shared();
  auto info = collection->dropped ? nullptr : collection->info;
  collection->lock.unlock_shared();
  return info;
}

Result<std::unique_ptr<CollectionWriter>> Store::write(std::string_view ns, bool create,
                                                        Interrupt* interrupt) {
  if (auto* const transaction = impl_->transaction()) return transaction->write(ns, create);
  MULTIFORA_TRY_R(impl_->writable());
  MULTIFORA_ASSIGN_R(WriterQueue::Turn turn, impl_->hold_back(interrupt));
  while (true) {
    CollectionPtr collection = impl_->find_locked(ns);
    if (collection) {
      if (!collection->info->is_view)
        return std::make_unique<LiveWriter>(*impl_, std::move(collection), std::move(turn));
      collection->lock.unlock();
      return fail(ErrorCode::kCommandNotSupportedOnView,
                  "Namespace " + std::string(ns) + " is a view, not a collection");
    }
    if (find_virtual(impl_->host, ns) != nullptr)
      return fail(ErrorCode::kIllegalOperation,
                  "cannot write to " + std::string(ns) + ": it shows what is kept elsewhere");
    if (!create) return nullptr;
    const auto created = create_collection(ns, DocumentView());
    if (!created && created.error().code() != ErrorCode::kNamespaceExists)
      return fail(created.error());
  }
}

Result<std::optional<OwnedDocument>> Store::retried_result(const StatementId& id) const {
  return impl_->retry.find(id, [this](Bytes lsid) {
    const std::shared_lock hold(impl_->table_mutex);
    return impl_->table->read_session(lsid);
  });
}

std::vector<std::string> Store::database_names() const {
  std::vector<std::string> names;
  const std::shared_lock hold(impl_->names_mutex);
  for (const auto& [ns, collection] : impl_->by_name) {
    const std::string_view db = Namespace::split(ns).db;
    if (names.empty() || names.back() != db) names.emplace_back(db);
  }
  // "a-b.c" sorts before "a.c": the same database may come in several runs.
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

std::vector<std::shared_ptr<const CollectionInfo>> Store::collections(std::string_view db) const {
  std::vector<CollectionPtr> found;
  {
    const std::string prefix = std::string(db) + ".";
    const std::shared_lock hold(impl_->names_mutex);
    for (auto at = impl_->by_name.lower_bound(prefix);
         at != impl_->by_name.end() && at->first.starts_with(prefix); ++at)
      found.push_back(at->second);
  }
  std::vector<std::shared_ptr<const CollectionInfo>> infos;
  for (const CollectionPtr& collection : found) {
    collection->lock.lock_shared();
    if (!collection->dropped) infos.push_back(collection->info);
    collection->lock.unlock_shared();
  }
  const auto* virtuals = impl_->host.service<VirtualCollections>();
  for (std::size_t i = 0; virtuals != nullptr && i < virtuals->all().size(); ++i)
    if (const auto info = virtuals->all()[i]->info(); info->db == db) infos.push_back(info);
  std::sort(infos.begin(), infos.end(), [](const auto& a, const auto& b) { return a->ns < b->ns; });
  return infos;
}

Result<std::vector<OwnedDocument>> Store::index_specs(std::string_view ns) const {
  if (auto* const transaction = impl_->transaction()) return transaction->index_specs(ns);
  const CollectionPtr collection = impl_->find(ns);
  if (!collection && find_virtual(impl_->host, ns) != nullptr) return std::vector<OwnedDocument>();
  if (!collection)
    return fail(ErrorCode::kNamespaceNotFound, "ns does not exist: " + std::string(ns));
  std::vector<OwnedDocument> specs;
  collection->lock.lock_shared();
  for (const auto& open : collection->indexes)
    if (!open->building) specs.push_back(open->index->spec().spec);
  collection->lock.unlock_shared();
  return specs;
}

// --- durability -----------------------------------------------------------------------------------

void Store::when_durable(LogPosition position, std::function<void(const Status&)> callback,
                         bool allow_lead) {
  impl_->wal->when_durable(position, std::move(callback), allow_lead);
}
Status Store::wait_durable(LogPosition position) { return impl_->wal->wait_durable(position); }
LogPosition Store::last_position() const { return impl_->wal->last_appended(); }
void Store::advance_to(LogPosition position) { impl_->wal->advance_to(position); }
LogPosition Store::durable_position() const { return impl_->wal->last_durable(); }
Status Store::checkpoint() { return impl_->checkpoint(); }
Result<std::uint64_t> Store::compact(std::uint64_t bytes_min, bool dry_run, Interrupt& interrupt) {
  MULTIFORA_TRY_R(impl_->writable());
  MULTIFORA_TRY_R(checkpoint());  // what has been retired until now is free afterwards
  const std::uint64_t estimate = impl_->keeper.reclaimable_bytes();
  if (dry_run) return estimate;
  if (estimate < bytes_min) return std::uint64_t{0};
  const std::uint64_t before = impl_->pager->space_use().file_bytes;
  MULTIFORA_TRY_R(impl_->keeper.compact(interrupt));
  const std::uint64_t after = impl_->pager->space_use().file_bytes;
  return before > after ? before - after : 0;
}
Status Store::health() const { return impl_->writable(); }
bool Store::read_only() const { return impl_->options.read_only; }

void Store::Impl::fail_store(const Status& status) {
  const std::lock_guard hold(failure_mutex);
  if (failed.exchange(true)) return;
  failure = Status(status.code(),
                   "the database is read-only after a failure: " + status.message() +
                       "; check the disk and the log, then restart the server");
  host.log().event(LogLevel::kError, "store", "The database is read-only from now on",
                   {{"error", std::string_view(status.message())}});
  writers.ease();
}

Status Store::Impl::writable() const {
  if (options.read_only)
    return {ErrorCode::kIllegalOperation,
            "Cannot execute a write operation in read-only mode: the server was started with "
            "storage.read_only"};
  return alive();
}

Status Store::Impl::alive() const {
  if (!failed.load(std::memory_order_relaxed)) return {};
  const std::lock_guard hold(failure_mutex);
  return failure;
}

Result<Wal::Reservation> Store::Impl::reserve_log(std::size_t size_bytes) {
  auto reservation = wal->reserve(size_bytes);
  if (reservation || reservation.error().code() != ErrorCode::kOutOfDiskSpace) return reservation;
  want_space();  // checkpoints make room in the log
  return fail(std::move(reservation).error().with_context(
      "no space for the log: free space on " + options.path + " or delete data"));
}

Result<LogPosition> Store::Impl::append(const LogBatch& batch, Wal::Reservation* reservation,
                                        bool refers) {
  return append(batch.bytes(), batch.shape().width(), reservation, refers);
}

Result<LogPosition> Store::Impl::append(Bytes batch, Wal::Reservation* reservation) {
  return append(batch, shape_of(batch).width(), reservation, false);
}

Result<LogPosition> Store::Impl::append(Bytes batch, std::uint32_t width, Wal::Reservation* reservation,
                                        bool refers) {
  if (refers) log_refers = true;
  auto position = wal->append(batch, reservation, refers, width);
  if (!position) fail_store(position.error());
  return position;
}

void Store::Impl::mark_dirty(const CollectionPtr& collection, bool description) {
  if (description) collection->description_dirty = true;
  changed_since_checkpoint.store(true, std::memory_order_relaxed);
  if (collection->dirty.exchange(true)) return;
  const std::lock_guard hold(dirty_mutex);
  dirty.push_back(collection);
}

// --- reports --------------------------------------------------------------------------------------

StoreStats Store::stats() const {
  StoreStats stats;
  std::vector<CollectionPtr> collections;
  {
    const std::shared_lock hold(impl_->names_mutex);
    for (const auto& [ns, collection] : impl_->by_name) collections.push_back(collection);
  }
  for (const CollectionPtr& collection : collections) {
    const std::shared_lock hold(collection->lock);
    if (collection->dropped) continue;
    collection->info->is_view ? ++stats.views : ++stats.collections;
    stats.indexes += collection->indexes.size();
  }
  const SpaceUse use = impl_->pager->space_use();
  stats.data_file_bytes = use.file_bytes;
  stats.data_free_bytes = use.free_bytes;
  stats.data_allocated_bytes = use.file_bytes;
  stats.log_live_bytes = impl_->wal->live_bytes();
  stats.log_allocated_bytes = impl_->wal->allocated_bytes();
  stats.history_bytes = impl_->history->size_bytes();
  stats.checkpoints = impl_->checkpoints;
  const WriterQueue::Report held_back = impl_->writers.report();
  stats.held_back_writers = held_back.waits;
  stats.held_back_us = held_back.waited_us;
  stats.held_back_now = held_back.waiting;
  return stats;
}

Result<Store::CollectionStats> Store::collection_stats(std::string_view ns) const {
  const CollectionPtr collection = impl_->find(ns);
  if (!collection)
    if (const VirtualCollection* const other = find_virtual(impl_->host, ns)) return other->stats(*this);
  if (!collection)
    return fail(ErrorCode::kNamespaceNotFound, "ns does not exist: " + std::string(ns));
  CollectionStats stats;
  collection->lock.lock_shared();
  stats.count = collection->state.record_count;
  stats.data_bytes = collection->state.data_bytes;
  // Headers and rounding, on average half a unit a record: what small collections take of chunks that
  // they share.
  stats.storage_bytes = stats.data_bytes + stats.count * (kRecordHeaderSize + kRecordUnit / 2);
  const RecordSpace::Use use = impl_->pager->records().use_of(collection->id);
  stats.storage_bytes = std::max(stats.storage_bytes, use.chunk_bytes);
  stats.free_bytes = use.free_bytes + use.retired_bytes;
  for (const auto& open : collection->indexes) {
    if (open->building) continue;
    const IndexStats index = open->index->stats(open->index->state());
    stats.indexes.push_back({open->index->spec().name, index.size_bytes, index.entries,
                             open->use.ops.load(std::memory_order_relaxed), open->use.since_ms});
  }
  collection->lock.unlock_shared();
  const auto shown = [](const CommandUse& use) {
    return CommandLatency{use.ops.load(std::memory_order_relaxed),
                          use.latency_us.load(std::memory_order_relaxed)};
  };
  stats.reads = shown(collection->reads);
  stats.writes = shown(collection->writes);
  stats.commands = shown(collection->commands);
  return stats;
}

void Store::note_latency(std::string_view ns, CommandClass kind, std::uint64_t latency_us) const {
  const std::shared_lock hold(impl_->names_mutex);
  const auto at = impl_->by_name.find(ns);
  if (at == impl_->by_name.end()) return;
  Collection& collection = *at->second;
  CommandUse& use = kind == CommandClass::kRead    ? collection.reads
                    : kind == CommandClass::kWrite ? collection.writes
                                                   : collection.commands;
  use.ops.fetch_add(1, std::memory_order_relaxed);
  use.latency_us.fetch_add(latency_us, std::memory_order_relaxed);
}

ChangeFeed& Store::changes() const { return *impl_->feed; }
PluginHost& Store::host() const { return impl_->host; }
Clock& Store::clock() const { return impl_->host.clock(); }
LogSink& Store::log() const { return impl_->host.log(); }
const std::string& Store::path() const { return impl_->options.path; }
const std::string& Store::temp_directory() const { return impl_->temp_directory; }

}  // namespace multifora
