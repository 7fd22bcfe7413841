#include "plugins/command-session/session_table.h"

#include <xxhash.h>

#include <algorithm>
#include <random>

#include "core/base/error_codes_rare.h"
#include "core/base/limits.h"
#include "core/store/store.h"
#include "plugins/query-engine/cursor_manager.h"

namespace multifora::session {
namespace {

constexpr std::size_t kShards = 64;
constexpr std::int64_t kLifetimeSeconds = 60;
constexpr std::int64_t kWriteSetMegabytes = 256;
// Snapshots that are kept for reads outside transactions, and for how long (MongoDB's default).
constexpr std::size_t kSnapshotsKept = 256;
constexpr std::int64_t kSnapshotSeconds = 300;
// A request that waits for its session looks at its own deadline this often.
constexpr std::chrono::milliseconds kLook{20};

std::string shown(std::int64_t number) { return std::to_string(number); }

Status too_old(std::int64_t number, std::int64_t newest) {
  return {ErrorCode::kTransactionTooOld,
          "Cannot start transaction with { txnNumber: " + shown(number) +
              " } on session because a newer transaction with txnNumber " + shown(newest) +
              " has already started on this session."};
}

Status not_in_progress(std::int64_t number, std::int64_t newest) {
  return {ErrorCode::kNoSuchTransaction,
          "Given transaction number " + shown(number) +
              " does not match any in-progress transactions. The active transaction number is " +
              shown(newest)};
}

Status has_been(ErrorCode code, std::int64_t number, const char* what) {
  return {code, "Transaction with { txnNumber: " + shown(number) + " } has been " + what + "."};
}

}  // namespace

std::size_t SessionTable::Hash::operator()(const Id& id) const {
  return XXH3_64bits_withSeed(id.data(), id.size(), seed);
}

SessionTable::SessionTable(PluginHost& host) : host_(host) {
  const PluginConfig& config = host.config();
  const auto number = [&](std::string_view key, std::int64_t otherwise) {
    return std::max<std::int64_t>(1, config.integer("command-session", key).value_or(otherwise));
  };
  lifetime_us_ = number("transaction_lifetime_secs", kLifetimeSeconds) * 1'000'000;
  snapshot_kept_us_ = number("snapshot_history_secs", kSnapshotSeconds) * 1'000'000;
  host.metrics()
      .gauge("snapshot_history_seconds", "How long a snapshot that was read can be read again")
      .set(snapshot_kept_us_ / 1'000'000);
  host.metrics()
      .gauge("transaction_lifetime_limit_seconds", "How long a transaction may stay open")
      .set(lifetime_us_ / 1'000'000);
  options_.write_set_bytes_max =
      static_cast<std::uint64_t>(number("transaction_memory_mb", kWriteSetMegabytes)) << 20;
  std::random_device random;
  const std::uint64_t seed = (std::uint64_t{random()} << 32) | random();
  for (std::size_t i = 0; i < kShards; ++i) shards_.push_back(std::make_unique<Shard>(Hash{seed}));
}

SessionTable::~SessionTable() = default;

SessionTable::Id SessionTable::id_of(std::string_view lsid) {
  Id id{};
  std::copy_n(lsid.begin(), std::min(lsid.size(), id.size()), id.begin());
  return id;
}

SessionTable::Shard& SessionTable::shard_of(std::string_view lsid) const {
  return *shards_[static_cast<unsigned char>(lsid.back()) % kShards];
}

std::uint32_t SessionTable::now_s() const {
  return static_cast<std::uint32_t>(host_.clock().wall_ms() / 1000);
}

// --- uses -----------------------------------------------------------------------------------------

Result<SessionTable::Record*> SessionTable::touch_locked(Shard& shard, std::string_view lsid) {
  const auto [at, inserted] = shard.records.try_emplace(id_of(lsid));
  if (inserted && count_.fetch_add(1) >= kSessionsMax) {
    count_.fetch_sub(1);
    shard.records.erase(at);
    return fail(rare::kTooManyLogicalSessions,
                "Unable to add session into the cache because the number of active sessions is too "
                "high");
  }
  at->second.last_use_s = now_s();
  return &at->second;
}

Status SessionTable::touch(std::string_view lsid) {
  Shard& shard = shard_of(lsid);
  const Lock lock(shard.mutex);
  return status_of(touch_locked(shard, lsid));
}

Status SessionTable::wait_until_free(Shard& shard, Lock& lock, CommandContext& context) {
  const Id id = id_of(context.session().lsid);
  while (true) {
    const auto at = shard.records.find(id);
    if (at == shard.records.end() || !at->second.busy) return {};
    shard.free.wait_for(lock, kLook);
    MULTIFORA_TRY(context.interrupt().check_slow());
  }
}

Status SessionTable::enter(CommandContext& context, const CommandRow& row) {
  const SessionInfo& session = context.session();
  if (session.txn_number < 0) {
    if (!session.lsid.empty()) MULTIFORA_TRY(touch(session.lsid));
    return session.read_level == ReadLevel::kSnapshot ? enter_snapshot(context) : Status();
  }
  Shard& shard = shard_of(session.lsid);
  return session.in_transaction ? enter_transaction(shard, context, row)
                                : enter_retryable(shard, context);
}

// --- snapshots outside transactions ---------------------------------------------------------------

// As a cluster time, which 0 is not: before a store's first write.
std::uint64_t SessionTable::time_of(const Transaction& snapshot) {
  return std::max<std::uint64_t>(snapshot.read_position(), 1);
}

Status SessionTable::enter_snapshot(CommandContext& context) {
  MULTIFORA_ASSIGN(auto reader, snapshot_at(context, context.session().at_cluster_time));
  context.snapshot_time = time_of(*reader);
  const std::shared_ptr<Transaction> shared(std::move(reader));
  context.snapshot = shared;
  bind_transaction(shared.get());
  return {};
}

Result<std::unique_ptr<Transaction>> SessionTable::snapshot_at(CommandContext& context,
                                                               std::uint64_t time) {
  const std::int64_t now_us = host_.clock().monotonic_us();
  const Lock lock(kept_mutex_);
  std::erase_if(kept_, [now_us](const Kept& kept) { return kept.until_us <= now_us; });
  const std::uint64_t newest = std::max<std::uint64_t>(context.store().last_position(), 1);
  const std::uint64_t wanted = time == 0 ? newest : time;
  for (const Kept& kept : kept_)
    if (time_of(*kept.snapshot) == wanted) return kept.snapshot->reader();
  if (wanted > newest)
    return fail(ErrorCode::kInvalidOptions,
                "readConcern atClusterTime value must not be greater than the current clusterTime");
  if (wanted < newest)
    return fail(ErrorCode::kSnapshotTooOld,
                "Read timestamp is older than the oldest available timestamp, or no snapshot of it "
                "was kept");
  MULTIFORA_ASSIGN_R(auto begun, Transaction::begin(context.store(), {.read_only = true}));
  auto reader = begun->reader();
  if (kept_.size() >= kSnapshotsKept) kept_.erase(kept_.begin());
  kept_.push_back({std::move(begun), now_us + snapshot_kept_us_});
  return reader;
}

// --- retryable writes -----------------------------------------------------------------------------

Status SessionTable::enter_retryable(Shard& shard, CommandContext& context) {
  const SessionInfo& session = context.session();
  std::unique_ptr<Transaction> aborted;  // its cursors, which it outlives, find nothing any more
  Lock lock(shard.mutex);
  MULTIFORA_TRY(wait_until_free(shard, lock, context));
  MULTIFORA_ASSIGN(Record* const record, touch_locked(shard, session.lsid));
  if (session.txn_number < record->txn_number)
    return {ErrorCode::kTransactionTooOld,
            "Retryable write with txnNumber " + shown(session.txn_number) +
                " is prohibited on session because a newer retryable write with txnNumber " +
                shown(record->txn_number) + " has already started on this session."};
  if (session.txn_number > record->txn_number) {
    aborted = take_active(shard, session.lsid);
    record->txn_number = session.txn_number;
    record->state = State::kRetryable;
  } else if (record->state != State::kRetryable) {
    return {rare::kIncompleteTransactionHistory,
            "Cannot run a retryable write with the transaction number of a transaction"};
  }
  record->busy = true;
  record->killed = false;
  return {};
}

// --- transactions ---------------------------------------------------------------------------------

std::unique_ptr<Transaction> SessionTable::take_active(Shard& shard, std::string_view lsid) {
  const auto at = shard.active.find(std::string(lsid));
  if (at == shard.active.end()) return nullptr;
  std::unique_ptr<Transaction> transaction = std::move(at->second.transaction);
  shard.active.erase(at);
  return transaction;
}

Status SessionTable::enter_transaction(Shard& shard, CommandContext& context,
                                       const CommandRow& row) {
  const SessionInfo& session = context.session();
  const bool reads_freely =
      session.read_level == ReadLevel::kAvailable || session.read_level == ReadLevel::kLinearizable;
  if (session.has_read_concern && !session.start_transaction)
    return {ErrorCode::kInvalidOptions,
            "Only the first command in a transaction may specify a readConcern"};
  if (reads_freely)
    return {ErrorCode::kInvalidOptions,
            "The readConcern level must be either 'local' (default), 'majority' or 'snapshot' in "
            "order to run in a transaction"};
  if (session.at_cluster_time != 0)
    return {ErrorCode::kCommandNotSupported,
            "readConcern.atClusterTime is not supported in a transaction"};
  {
    Lock lock(shard.mutex);
    MULTIFORA_TRY(wait_until_free(shard, lock, context));
    if (session.start_transaction) {
      MULTIFORA_TRY(start(shard, lock, context));
    } else {
      MULTIFORA_TRY(resume(shard, context, row));
    }
  }
  if (context.transaction() != nullptr) bind_transaction(context.transaction());
  return {};
}

// The session is held while the snapshot is taken, without the shard's lock.
Status SessionTable::start(Shard& shard, Lock& lock, CommandContext& context) {
  const SessionInfo& session = context.session();
  MULTIFORA_ASSIGN(Record* record, touch_locked(shard, session.lsid));
  const std::int64_t number = session.txn_number;
  if (number < record->txn_number) return too_old(number, record->txn_number);
  if (number == record->txn_number)
    return {location_code(50911),
            "Cannot start a transaction at given transaction number " + shown(number) +
                " a transaction with the same number has already started"};
  std::unique_ptr<Transaction> aborted = take_active(shard, session.lsid);
  const std::int64_t previous = record->txn_number;
  record->txn_number = number;
  record->state = State::kAborted;  // until it has begun
  record->busy = true;
  record->killed = false;
  lock.unlock();
  if (aborted) {
    aborted.reset();
    end_cursors(session.lsid, previous);
  }
  // After a restart the store knows more than this table.
  const auto known = context.store().retried_result({session.lsid, number, kCommitStatement});
  auto begun = known ? Transaction::begin(context.store(), options_)
                     : Result<std::unique_ptr<Transaction>>(fail(known.error()));
  lock.lock();
  record = &shard.records[id_of(session.lsid)];
  if (!begun) {
    record->busy = false;
    shard.free.notify_all();
    return begun.error();
  }
  record->state = State::kInProgress;
  Active active;
  active.transaction = std::move(*begun);
  active.expires_us = host_.clock().monotonic_us() + lifetime_us_;
  context.set_transaction(active.transaction.get());
  shard.active.insert_or_assign(session.lsid, std::move(active));
  return {};
}

Status SessionTable::resume(Shard& shard, CommandContext& context, const CommandRow& row) {
  const SessionInfo& session = context.session();
  MULTIFORA_ASSIGN(Record* const record, touch_locked(shard, session.lsid));
  const std::int64_t number = session.txn_number;
  if (number < record->txn_number) return too_old(number, record->txn_number);
  if (number > record->txn_number) {
    MULTIFORA_ASSIGN(const auto outcome, context.store().retried_result(
                                             {session.lsid, number, kCommitStatement}));
    if (!outcome) return not_in_progress(number, record->txn_number);
    record->txn_number = number;
    record->state = State::kCommitted;
  }
  switch (record->state) {
    case State::kNone:
    case State::kRetryable:
      return not_in_progress(number, record->txn_number);
    case State::kAborted:
      return has_been(ErrorCode::kNoSuchTransaction, number, "aborted");
    case State::kCommitted: {
      // A commit may be sent again; nothing else may follow it.
      const bool commits = (row.flags & (kEndsTransaction | kRetryableWrite)) ==
                           (kEndsTransaction | kRetryableWrite);
      if (!commits) return has_been(ErrorCode::kTransactionCommitted, number, "committed");
      break;
    }
    case State::kInProgress: {
      const auto active = shard.active.find(session.lsid);
      if (active == shard.active.end())
        return has_been(ErrorCode::kNoSuchTransaction, number, "aborted");
      context.set_transaction(active->second.transaction.get());
      break;
    }
  }
  record->busy = true;
  record->killed = false;
  return {};
}

void SessionTable::leave(CommandContext& context, const CommandRow&, const Status& outcome) {
  const SessionInfo& session = context.session();
  unbind_transaction();
  if (session.txn_number < 0) return;
  Transaction* const transaction = context.transaction();
  context.set_transaction(nullptr);
  Shard& shard = shard_of(session.lsid);
  std::unique_ptr<Transaction> ended;
  {
    const Lock lock(shard.mutex);
    Record& record = shard.records[id_of(session.lsid)];
    if (transaction != nullptr &&
        (record.killed || !outcome.ok() || transaction->state() != Transaction::State::kActive)) {
      ended = take_active(shard, session.lsid);
      record.state = transaction->state() == Transaction::State::kCommitted ? State::kCommitted
                                                                            : State::kAborted;
    }
  }
  if (ended) {
    ended.reset();
    end_cursors(session.lsid, session.txn_number);
  }
  const Lock lock(shard.mutex);
  shard.records[id_of(session.lsid)].busy = false;
  shard.free.notify_all();
}

void SessionTable::end_cursors(std::string_view lsid, std::int64_t txn_number) {
  auto* const cursors = host_.service<CursorManager>();
  if (cursors != nullptr) cursors->kill_transaction(lsid, txn_number);
}

// --- ends -----------------------------------------------------------------------------------------

// The transaction to be destroyed without the lock; one that a request uses ends with that request.
std::unique_ptr<Transaction> SessionTable::kill_locked(Shard& shard, const std::string& lsid,
                                                       Record& record) {
  if (record.busy) {
    record.killed = true;
    return nullptr;
  }
  std::unique_ptr<Transaction> transaction = take_active(shard, lsid);
  if (transaction) record.state = State::kAborted;
  return transaction;
}

void SessionTable::end(const std::vector<std::string>& lsids) {
  for (const std::string& lsid : lsids) {
    if (lsid.size() != sizeof(Id)) continue;
    Shard& shard = shard_of(lsid);
    std::unique_ptr<Transaction> aborted;
    const Lock lock(shard.mutex);
    const auto at = shard.records.find(id_of(lsid));
    if (at == shard.records.end()) continue;
    aborted = kill_locked(shard, lsid, at->second);
    if (at->second.busy) {
      at->second.last_use_s = 0;  // the sweep takes it
      continue;
    }
    shard.records.erase(at);
    count_.fetch_sub(1);
  }
}

void SessionTable::kill(const std::vector<std::string>& lsids) {
  for (const auto& shard : shards_) {
    std::vector<std::unique_ptr<Transaction>> aborted;
    const Lock lock(shard->mutex);
    std::vector<std::string> doomed;
    for (const auto& [lsid, active] : shard->active)
      if (lsids.empty() || std::find(lsids.begin(), lsids.end(), lsid) != lsids.end())
        doomed.push_back(lsid);
    for (const std::string& lsid : doomed)
      aborted.push_back(kill_locked(*shard, lsid, shard->records[id_of(lsid)]));
  }
}

std::vector<std::string> SessionTable::sweep() {
  std::vector<std::string> over;       // sessions whose cursors end
  std::vector<std::string> to_interrupt;
  const std::int64_t now_us = host_.clock().monotonic_us();
  const std::int64_t idle_s = limits::kSessionIdleMinutes * 60;
  const std::int64_t now = now_s();
  for (const auto& shard : shards_) {
    std::vector<std::unique_ptr<Transaction>> aborted;
    const Lock lock(shard->mutex);
    std::vector<std::string> late;
    for (const auto& [lsid, active] : shard->active)
      if (active.expires_us <= now_us) late.push_back(lsid);
    for (const std::string& lsid : late) {
      Record& record = shard->records[id_of(lsid)];
      aborted.push_back(kill_locked(*shard, lsid, record));
      (record.busy ? to_interrupt : over).push_back(lsid);
    }
  }
  // Idle sessions: one part at a time, so that a million of them cost little.
  Shard& part = *shards_[next_swept_++ % kShards];
  std::vector<std::unique_ptr<Transaction>> aborted;
  const Lock lock(part.mutex);
  std::vector<Id> idle;
  for (const auto& [id, record] : part.records)
    if (!record.busy && std::int64_t{record.last_use_s} + idle_s < now) idle.push_back(id);
  for (const Id& id : idle) {
    const std::string lsid(id.data(), id.size());
    aborted.push_back(kill_locked(part, lsid, part.records.at(id)));
    over.push_back(lsid);
    part.records.erase(id);
    count_.fetch_sub(1);
  }
  {
    const Lock snapshots(kept_mutex_);
    std::erase_if(kept_, [now_us](const Kept& kept) { return kept.until_us <= now_us; });
  }
  if (auto* control = host_.service<ServerControl>(); control != nullptr && !to_interrupt.empty())
    control->kill_sessions(to_interrupt);
  return over;
}

// --- reports --------------------------------------------------------------------------------------

void SessionTable::list(const std::function<void(std::string_view, std::int64_t)>& visit) const {
  for (const auto& shard : shards_) {
    const Lock lock(shard->mutex);
    for (const auto& [id, record] : shard->records)
      visit({id.data(), id.size()}, std::int64_t{record.last_use_s} * 1000);
  }
}

std::size_t SessionTable::size() const { return count_.load(); }

std::size_t SessionTable::transactions() const {
  std::size_t count = 0;
  for (const auto& shard : shards_) {
    const Lock lock(shard->mutex);
    count += shard->active.size();
  }
  return count;
}

}  // namespace multifora::session
