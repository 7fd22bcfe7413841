// Sessions and their transactions.
//
// A session is a name that clients choose; it begins with its first use and ends when a client ends or
// kills it, or half an hour after its last use. A million of them must fit into little memory: a
// record is 32 bytes. Only a session with a transaction in progress, or a request that uses a
// transaction number at this moment, has more.
//
// A record's transaction number and state:
//
//   kNone --retryable write--> kRetryable
//   any   --startTransaction with a higher number--> kInProgress   (one in progress is aborted)
//   kInProgress --commitTransaction--> kCommitted, or kAborted where the commit failed
//   kInProgress --abortTransaction, an error, a kill, the time limit--> kAborted
//
// What a crash must not forget is in the store: a committed transaction's outcome stands among the
// results of retryable writes.
//
// Any thread. One request at a time uses a session's transaction number: others wait.
#pragma once

#include <array>
#include <atomic>
#include <boost/unordered/unordered_flat_map.hpp>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/plugin/host.h"
#include "core/plugin/session_gate.h"
#include "core/store/transaction.h"

namespace multifora::session {

inline constexpr std::size_t kSessionsMax = 1'000'000;

class SessionTable final : public SessionGate {
 public:
  explicit SessionTable(PluginHost& host);
  ~SessionTable() override;

  Status enter(CommandContext& context, const CommandRow& row) override;
  void leave(CommandContext& context, const CommandRow& row, const Status& outcome) override;
  void list(const std::function<void(std::string_view, std::int64_t)>& visit) const override;

  // Notes a use; TooManyLogicalSessions.
  Status touch(std::string_view lsid);
  // Ends sessions, with their transactions.
  void end(const std::vector<std::string>& lsids);
  // Aborts the transactions of these sessions, or of all where there are none; the sessions stay.
  void kill(const std::vector<std::string>& lsids);
  // Aborts transactions past their time and forgets sessions that nobody uses. Their ids.
  std::vector<std::string> sweep();
  std::size_t size() const;
  std::size_t transactions() const;

 private:
  enum class State : std::uint8_t { kNone, kRetryable, kInProgress, kCommitted, kAborted };
  using Id = std::array<char, 16>;
  struct Record {
    std::int64_t txn_number = -1;
    std::uint32_t last_use_s = 0;
    State state = State::kNone;
    bool busy = false;    // a request uses its transaction number
    bool killed = false;  // that request is the last of its transaction
  };
  struct Hash {
    std::uint64_t seed;
    std::size_t operator()(const Id& id) const;
    using is_avalanching = void;
  };
  struct Active {
    std::unique_ptr<Transaction> transaction;
    std::int64_t expires_us = 0;
  };
  // One of several parts, so that sessions do not wait for each other.
  struct Shard {
    explicit Shard(Hash hash) : records(0, hash) {}
    mutable std::mutex mutex;
    std::condition_variable free;
    boost::unordered_flat_map<Id, Record, Hash> records;
    std::unordered_map<std::string, Active> active;  // transactions in progress
  };
  using Lock = std::unique_lock<std::mutex>;

  static Id id_of(std::string_view lsid);
  Shard& shard_of(std::string_view lsid) const;
  std::uint32_t now_s() const;
  Result<Record*> touch_locked(Shard& shard, std::string_view lsid);
  Status wait_until_free(Shard& shard, Lock& lock, CommandContext& context);
  static std::uint64_t time_of(const Transaction& snapshot);
  Status enter_snapshot(CommandContext& context);
  Result<std::unique_ptr<Transaction>> snapshot_at(CommandContext& context, std::uint64_t time);
  Status enter_retryable(Shard& shard, CommandContext& context);
  Status enter_transaction(Shard& shard, CommandContext& context, const CommandRow& row);
  Status start(Shard& shard, Lock& lock, CommandContext& context);
  Status resume(Shard& shard, CommandContext& context, const CommandRow& row);
  static std::unique_ptr<Transaction> take_active(Shard& shard, std::string_view lsid);
  std::unique_ptr<Transaction> kill_locked(Shard& shard, const std::string& lsid, Record& record);
  void end_cursors(std::string_view lsid, std::int64_t txn_number);

  PluginHost& host_;
  std::int64_t lifetime_us_;
  std::int64_t snapshot_kept_us_;
  TransactionOptions options_;
  std::atomic<std::size_t> count_{0};
  std::vector<std::unique_ptr<Shard>> shards_;

  // Snapshots for reads with {level: "snapshot"} outside transactions, newest last: a session reads
  // the same one again by its cluster time.
  struct Kept {
    std::unique_ptr<Transaction> snapshot;
    std::int64_t until_us = 0;
  };
  mutable std::mutex kept_mutex_;
  std::vector<Kept> kept_;
  std::size_t next_swept_ = 0;  // the sweep's own
};

}  // namespace multifora::session
