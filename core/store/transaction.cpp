#include "core/store/transaction.h"

#include <algorithm>
#include <chrono>

#include "core/base/assert.h"
#include "core/base/error_codes_rare.h"
#include "core/bson/builder.h"
#include "core/store/transaction_impl.h"

namespace multifora {
namespace {

thread_local Transaction* current_transaction = nullptr;

// Kept about an operation besides its documents.
constexpr std::size_t kOperationBytes = sizeof(TransactionOperation) + 64;

// How long a change of the catalog waits for transactions: longer than one may live.
constexpr int kWaitsMax = 900;
constexpr std::chrono::milliseconds kWait{100};

}  // namespace

void bind_transaction(Transaction* transaction) {
  MULTIFORA_ASSERT(current_transaction == nullptr);
  current_transaction = transaction;
}
void unbind_transaction() { current_transaction = nullptr; }
Transaction* bound_transaction() { return current_transaction; }

// --- waiting for transactions ---------------------------------------------------------------------

void Store::Impl::note_transaction_end(Transaction::Impl* transaction) {
  const std::lock_guard hold(transactions_mutex);
  std::erase(live_transactions, transaction);
  ++transactions_ended;
  transaction_ended.notify_all();
}

Status Store::Impl::wait_for_a_transaction(int attempt) {
  if (attempt >= kWaitsMax)
    return {rare::kLockTimeout, "a transaction holds what this command changes"};
  std::unique_lock hold(transactions_mutex);
  const std::uint64_t seen = transactions_ended;
  transaction_ended.wait_for(hold, kWait, [&] { return transactions_ended != seen; });
  return {};
}

Status Store::Impl::check_no_forks(const std::vector<CollectionPtr>& collections) {
  const bool busy = std::any_of(collections.begin(), collections.end(), [](const auto& collection) {
    return collection && collection->forks.load() != 0;
  });
  return busy ? write_conflict() : Status();
}

void Store::wait_for_writers(std::int64_t ms) {
  std::unique_lock hold(impl_->transactions_mutex);
  const std::uint64_t seen = impl_->transactions_ended;
  impl_->transaction_ended.wait_for(hold, std::chrono::milliseconds(ms),
                                    [&] { return impl_->transactions_ended != seen; });
}

// --- life -----------------------------------------------------------------------------------------

Transaction::Transaction() = default;

Result<std::unique_ptr<Transaction>> Transaction::begin(Store& store,
                                                        const TransactionOptions& options) {
  Store::Impl& impl = store.impl();
  std::unique_ptr<Transaction> transaction(new Transaction());
  transaction->impl_ = std::make_unique<Impl>(impl);
  Impl& t = *transaction->impl_;
  t.options = options;
  impl.gate.close();
  t.snapshot = std::make_shared<Snapshot>(impl.pager->begin_snapshot());
  t.generation = t.snapshot->generation();
  t.read_position = impl.wal->last_appended();
  impl.snapshots.add(t.generation);
  impl.gate.open();
  t.register_self();
  return transaction;
}

std::unique_ptr<Transaction> Transaction::reader() const {
  std::unique_ptr<Transaction> other(new Transaction());
  other->impl_ = std::make_unique<Impl>(impl_->store);
  Impl& t = *other->impl_;
  t.options.read_only = true;
  t.snapshot = impl_->snapshot;
  t.generation = impl_->generation;
  t.read_position = impl_->read_position;
  t.store.snapshots.add(t.generation);
  t.register_self();
  return other;
}

Transaction::~Transaction() { abort(); }

Transaction::State Transaction::state() const { return impl_->state; }
LogPosition Transaction::read_position() const { return impl_->read_position; }
bool Transaction::has_writes() const {
  return std::any_of(impl_->forks.begin(), impl_->forks.end(),
                     [](const auto& fork) { return fork->written || !fork->live; });
}

void Transaction::abort() {
  if (impl_->state == State::kActive) impl_->end(State::kAborted);
}

void Transaction::Impl::register_self() {
  const std::lock_guard hold(store.transactions_mutex);
  store.live_transactions.push_back(this);
}

void Store::Impl::end_transactions() {
  std::vector<Transaction::Impl*> all;
  {
    const std::lock_guard hold(transactions_mutex);
    all = live_transactions;
  }
  for (Transaction::Impl* const transaction : all)
    transaction->end(Transaction::State::kAborted);
}

Status Transaction::Impl::note(TransactionOperation operation, std::size_t document_bytes) {
  bytes += kOperationBytes + document_bytes + operation.key.bytes().size() + operation.patch.size();
  operation.fork->written = true;
  operations.push_back(std::move(operation));
  if (bytes <= options.write_set_bytes_max) return {};
  return {ErrorCode::kTransactionTooLarge,
          "Total size of all transaction operations must be less than " +
              std::to_string(options.write_set_bytes_max) + ". Actual size is " +
              std::to_string(bytes)};
}

// The forks' pages go back before the snapshot that they branch from.
void Transaction::Impl::end(State outcome) {
  state = outcome;
  for (const auto& fork : forks) {
    if (!fork->live || options.read_only) continue;
    fork->live->claims.release(fork->claimed, fork->claimed_keys, this);
    fork->live->forks.fetch_sub(1);
  }
  operations.clear();
  by_name.clear();
  forks.clear();
  store.snapshots.remove(generation);
  snapshot.reset();
  if (store.snapshots.none()) {
    const std::unique_lock hold(store.names_mutex);
    if (store.snapshots.none()) store.lost_names.clear();
  }
  store.note_transaction_end(this);
}

// --- commit ---------------------------------------------------------------------------------------

namespace {

using Kind = TransactionOperation::Kind;

// Places documents in ranges that were reserved before the first change.
class CommitMutator final : public CollectionMutator {
 public:
  CommitMutator(Pager& pager, Collection& collection, PageStash& stash, WriteClaims::Owner owner,
                RecordReservation* reservation)
      : CollectionMutator(pager, collection, stash, owner), reservation_(reservation) {}

 protected:
  Result<RecordLocation> place(RecordId id, DocumentView document) override {
    const RecordLocation location = reservation_->location();
    MULTIFORA_TRY_R(pager_.records().publish(std::move(*reservation_), id, collection_.id,
                                             document.bytes(), stash_));
    return location;
  }

 private:
  RecordReservation* const reservation_;
};

// Applies a write set to the live collections and logs it. Everything is locked, encoded and reserved
// first, also the space that taking the changes back would need. A change that fails nevertheless
// (no page for an index on a full disk) is undone, and where that fails the store stops, as the log
// knows nothing of it.
class Committer {
 public:
  Committer(Transaction::Impl& transaction, const std::optional<StatementId>& id)
      : t_(transaction), store_(transaction.store), id_(id) {}
  ~Committer() {
    for (const CollectionPtr& collection : locked_) collection->lock.unlock();
  }

  Result<LogPosition> run() {
    MULTIFORA_TRY_R(store_.writable());
    std::unique_lock ddl(store_.ddl_mutex, std::defer_lock);
    const bool creates =
        std::any_of(t_.forks.begin(), t_.forks.end(), [](const auto& fork) { return !fork->live; });
    if (creates) ddl.lock();
    MULTIFORA_TRY_R(lock_all());
    MULTIFORA_TRY_R(prepare_creates());
    encode();
    MULTIFORA_ASSIGN_R(Wal::Reservation reservation, store_.reserve_log(batch_.bytes().size()));
    BorrowedStash stash(*store_.stashes);
    const GateEntry entered(store_.gate);
    if (Status status = apply(*stash); !status.ok()) {
      undo(*stash);
      return fail(std::move(status));
    }
    MULTIFORA_ASSIGN_R(const LogPosition position, store_.append(batch_, &reservation));
    if (id_)
      store_.retry.record(id_->lsid, id_->txn_number, id_->statement, outcome_.view(), position);
    return position;
  }

 private:
  struct Undo {
    Kind kind;
    CollectionPtr collection;
    RecordId id;
    OwnedDocument before;  // not for kInsert
    RecordReservation place;  // for `before`
  };
  // What one operation puts into the record space: its document, and the old one if it is undone.
  struct Places {
    RecordReservation apply, undo;
  };

  Status lock_all() {
    std::vector<CollectionPtr> wanted;
    for (const auto& fork : t_.forks)
      if (fork->live && fork->written) wanted.push_back(fork->live);
    std::sort(wanted.begin(), wanted.end(),
              [](const CollectionPtr& a, const CollectionPtr& b) { return a->id < b->id; });
    for (const CollectionPtr& collection : wanted) {
      collection->lock.lock();
      locked_.push_back(collection);
      // Changes of the catalog wait for forks; this is for the day that one does not.
      if (collection->dropped) return write_conflict();
    }
    return {};
  }

  Status prepare_creates() {
    CollectionId next = store_.next_collection_id;
    for (const auto& fork : t_.forks) {
      if (fork->live) continue;
      const CollectionInfo& info = *fork->data->info;
      if (store_.find(info.ns)) return write_conflict();
      DocumentBuilder body;
      body.append("ns", info.ns);
      body.append_binary("uuid", Bytes(fork->uuid.data(), 16), 4);
      body.append("options", info.options.view());
      ArrayBuilder indexes = body.array("indexes");
      for (const auto& open : fork->data->indexes) {
        DocumentBuilder row = indexes.object();
        row.append("number", static_cast<std::int64_t>(open->number));
        row.append("kind", open->kind->name);
        row.append("spec", open->index->spec().spec.view());
      }
      indexes.close();
      creates_.push_back({fork.get(), next++, std::move(body).finish(), nullptr});
    }
    return {};
  }

  CollectionId live_id(const Fork& fork) const {
    if (fork.live) return fork.live->id;
    for (const Create& create : creates_)
      if (create.fork == &fork) return create.id;
    return 0;
  }

  // The id that a record of the fork gets: its own, or the next free one of the live collection.
  RecordId new_id(const Fork& fork) {
    const auto [at, first] =
        next_ids_.try_emplace(&fork, fork.live ? fork.live->state.next_record_id : 1);
    return at->second++;
  }
  RecordId mapped(const Fork& fork, RecordId id) const {
    return fork.is_new(id) ? ids_.at({&fork, id}) : id;
  }

  void encode() {
    for (const Create& create : creates_)
      batch_.catalog(LogOperation::kCreate, create.id, create.body.view());
    for (const TransactionOperation& operation : t_.operations) {
      const Fork& fork = *operation.fork;
      const CollectionId collection = live_id(fork);
      switch (operation.kind) {
        case Kind::kInsert: {
          const RecordId id = new_id(fork);
          ids_.emplace(std::pair(&fork, operation.id), id);
          batch_.insert(collection, id, fork.documents[operation.document].view());
          break;
        }
        case Kind::kUpdate:
          if (fork.data->info->pre_images)
            batch_.update_image(collection, mapped(fork, operation.id), operation.key.view(),
                                operation.patch);
          else
            batch_.update(collection, mapped(fork, operation.id), operation.key.view(),
                          operation.patch);
          break;
        case Kind::kRemove:
          if (fork.data->info->pre_images)
            batch_.remove_image(collection, mapped(fork, operation.id), operation.key.view());
          else
            batch_.remove(collection, mapped(fork, operation.id), operation.key.view(), false);
          break;
      }
    }
    if (!id_) return;
    DocumentBuilder outcome;
    outcome.append("committed", true);
    outcome_ = std::move(outcome).finish();
    batch_.statement(id_->lsid, id_->txn_number, id_->statement, outcome_.view());
  }

  Status apply(PageStash& stash) {
    for (Create& create : creates_) {
      MULTIFORA_TRY(store_.apply_create(create.id, create.body.view(), true));
      create.made = store_.find(create.id);
      locked_.push_back(create.made);
    }
    MULTIFORA_TRY(reserve_places(stash));
    for (std::size_t i = 0; i < t_.operations.size(); ++i)
      MULTIFORA_TRY(apply_one(t_.operations[i], places_[i], stash));
    return {};
  }

  Status reserve_places(PageStash& stash) {
    RecordSpace& space = store_.pager->records();
    const auto reserve = [&](Collection& collection, std::size_t size, RecordReservation& out) -> Status {
      MULTIFORA_TRY(stash.ensure(2 * RecordSpace::kRetirePages));
      MULTIFORA_ASSIGN(out, space.reserve(*collection.allocator, stash, size));
      return {};
    };
    places_.resize(t_.operations.size());
    std::map<std::pair<const Fork*, RecordId>, std::size_t> sizes;  // of documents as they become
    for (std::size_t i = 0; i < t_.operations.size(); ++i) {
      const TransactionOperation& operation = t_.operations[i];
      const Fork& fork = *operation.fork;
      Collection& collection = *target(fork);
      const std::pair name(&fork, operation.id);
      if (operation.kind != Kind::kInsert) {
        auto known = sizes.find(name);
        if (known == sizes.end()) {
          MULTIFORA_ASSIGN(const auto before, read_record(*store_.pager, collection,
                                                          collection.state, operation.id));
          if (!before) return write_conflict();
          known = sizes.emplace(name, before->size_bytes()).first;
        }
        MULTIFORA_TRY(reserve(collection, known->second, places_[i].undo));
      }
      if (operation.kind == Kind::kRemove) continue;
      const std::size_t size = fork.documents[operation.document].bytes().size();
      MULTIFORA_TRY(reserve(collection, size, places_[i].apply));
      sizes[name] = size;
    }
    return {};
  }

  CollectionPtr target(const Fork& fork) const {
    if (fork.live) return fork.live;
    for (const Create& create : creates_)
      if (create.fork == &fork) return create.made;
    return nullptr;
  }

  Status apply_one(const TransactionOperation& operation, Places& places, PageStash& stash) {
    const Fork& fork = *operation.fork;
    const CollectionPtr collection = target(fork);
    CommitMutator mutator(*store_.pager, *collection, stash, &t_, &places.apply);
    const RecordId id = mapped(fork, operation.id);
    store_.mark_dirty(collection, false);
    Undo undo{operation.kind, collection, id, {}, std::move(places.undo)};
    Status status;
    if (operation.kind == Kind::kInsert) {
      status = status_of(mutator.insert(id, fork.documents[operation.document].view(), true));
    } else {
      MULTIFORA_ASSIGN(const auto before,
                       read_record(*store_.pager, *collection, collection->state, id));
      if (!before) return write_conflict();
      undo.before = OwnedDocument(*before);
      status = operation.kind == Kind::kRemove
                   ? mutator.remove(id, undo.before.view())
                   : mutator.update(id, undo.before.view(),
                                    fork.documents[operation.document].view(), true);
    }
    if (!mutator.broken().ok()) store_.fail_store(mutator.broken());
    // An index that came after the snapshot and forbids what the transaction did.
    if (status.code() == ErrorCode::kDuplicateKey) return write_conflict();
    if (status.ok()) undo_.push_back(std::move(undo));
    return status;
  }

  void undo(PageStash& stash) {
    for (auto step = undo_.rbegin(); step != undo_.rend(); ++step) {
      CommitMutator mutator(*store_.pager, *step->collection, stash, &t_, &step->place);
      const Status status = undo_one(*step, mutator);
      if (status.ok()) continue;
      store_.fail_store(Status(status).with_context("a commit that failed could not be undone"));
      return;
    }
    for (const Create& create : creates_)
      if (create.made) store_.apply_drop(create.made);
  }

  Status undo_one(const Undo& step, CollectionMutator& mutator) {
    const Collection& collection = *step.collection;
    if (step.kind == Kind::kRemove)
      return status_of(mutator.insert(step.id, step.before.view(), false));
    MULTIFORA_ASSIGN(const auto now,
                     read_record(*store_.pager, collection, collection.state, step.id));
    if (!now) return {ErrorCode::kInternalError, "a record vanished under its lock"};
    const OwnedDocument current(*now);
    return step.kind == Kind::kInsert
               ? mutator.remove(step.id, current.view())
               : mutator.update(step.id, current.view(), step.before.view(), false);
  }

  struct Create {
    Fork* fork;
    CollectionId id;
    OwnedDocument body;
    CollectionPtr made;
  };

  Transaction::Impl& t_;
  Store::Impl& store_;
  const std::optional<StatementId>& id_;
  std::vector<CollectionPtr> locked_;
  std::vector<Create> creates_;
  std::map<const Fork*, RecordId> next_ids_;
  std::map<std::pair<const Fork*, RecordId>, RecordId> ids_;
  LogBatch batch_;
  OwnedDocument outcome_;
  std::vector<Places> places_;
  std::vector<Undo> undo_;
};

}  // namespace

Result<LogPosition> Transaction::commit(const std::optional<StatementId>& id) {
  Impl& t = *impl_;
  MULTIFORA_ASSERT(t.state == State::kActive);
  if (!has_writes()) {
    t.end(State::kCommitted);
    return LogPosition{0};
  }
  auto turn = t.store.hold_back(nullptr);
  if (!turn) {
    t.end(State::kAborted);
    return fail(turn.error());
  }
  const std::uint64_t bytes = t.bytes;
  Result<LogPosition> position = Committer(t, id).run();
  t.end(position ? State::kCommitted : State::kAborted);
  if (position) {
    turn->wrote(bytes, 0);
    t.store.note_progress();
  }
  return position;
}

}  // namespace multifora
