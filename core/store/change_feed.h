// The stream of committed changes, for those who follow it: change streams, tailing readers, one day
// another machine. Knows no command and no operator: it gives out log batches (log_record.h) with the
// names that their collections had.
//
// A batch is given out once it is durable. What is old is read from the change history (history.h),
// then the log; what is new, while anybody follows, from memory. Who waits is woken by changes of what
// it is interested in, and by nothing else.
//
// Threads: any. Wakers run on the thread that synced the log: they must be short.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/status.h"
#include "core/storage/types.h"

namespace multifora {

class History;
class Wal;

// What a collection is called.
struct CollectionName {
  std::string ns;
  std::array<char, 16> uuid{};
};

// Names as they were when a batch was written. Not for longer than the call that gave it.
class CollectionNames {
 public:
  virtual ~CollectionNames() = default;
  // Empty ns: unknown. Lives until the next call.
  virtual const CollectionName& name(CollectionId id) const = 0;
};

struct ChangeBatch {
  LogPosition position = 0;
  Bytes bytes;  // records of log_record.h
  const CollectionNames* names = nullptr;
};

// Whose changes somebody wants.
struct ChangeInterest {
  enum class Scope { kAll, kDatabase, kCollection };
  Scope scope = Scope::kAll;
  std::string name;  // the database, or the collection's namespace
};

// The names that collections had before they lost them, as long as a batch in the log could ask.
class NameHistory {
 public:
  // Before a collection is renamed or dropped; settle() says at which position it was.
  void will_lose(CollectionId id, CollectionName name);
  void settle(LogPosition position);
  // The name at `position`; null: the one that it has now.
  std::unique_ptr<CollectionName> find(CollectionId id, LogPosition position) const;
  void forget(LogPosition upto);

 private:
  struct Lost {
    LogPosition until;  // the name was its own up to here
    CollectionName name;
  };
  mutable std::mutex mutex_;
  std::atomic<std::size_t> count_{0};
  std::unordered_map<CollectionId, std::vector<Lost>> lost_;  // oldest first
  std::vector<CollectionId> unsettled_;
};

class ChangeFeed : public std::enable_shared_from_this<ChangeFeed> {
 public:
  // The name that a collection has now; empty: none such.
  using LiveName = std::function<CollectionName(CollectionId)>;
  ChangeFeed(LiveName live_name);
  ~ChangeFeed();
  // Makes a batch of the log whole: what it refers to stands in it afterwards. Views `batch` or `scratch`.
  // CappedPositionLost: the history has it.
  using Whole = std::function<Result<Bytes>(LogPosition position, Bytes batch, Buffer& scratch)>;
  // What it reads from; before the first read.
  void attach(Wal* wal, const History* history, Whole whole);

  // Keeps new batches in memory, and whom they concern, as long as anybody holds one. Cheap to hold,
  // not to take. May outlive the store; reading may not.
  class Follower {
   public:
    explicit Follower(ChangeFeed& feed);
    Follower(const Follower&) = delete;
    ~Follower();

   private:
    const std::shared_ptr<ChangeFeed> feed_;
  };

  // Every change after it can be read.
  LogPosition oldest() const;
  // Newest durable position: what can be read now.
  LogPosition newest() const;

  // Visits durable batches after `from` that concern `interest`, oldest first, until `visit` says false
  // or there are no more. `reached`: everything up to it has been visited or is of no interest.
  // CappedPositionLost where `from` is older than oldest().
  using Visit = std::function<bool(const ChangeBatch& batch)>;
  Status read(LogPosition from, const ChangeInterest& interest, LogPosition* reached,
              const Visit& visit);

  // Calls `wake` once, when a change after `after` that concerns `interest` is durable (at once, if one
  // is). Requires that the caller holds a Follower. Returns a function that unregisters.
  std::function<void()> subscribe(const ChangeInterest& interest, LogPosition after,
                                  std::function<void()> wake);

  // --- for the store and the log -------------------------------------------------------------------
  void appended(LogPosition before, LogPosition position, Bytes batch);
  void synced(LogPosition position);
  NameHistory& names() { return names_; }
  // The history knows the names up to `upto`; this forgets them, unless somebody reads without it.
  void forget_names(LogPosition upto);
  CollectionName name_at(CollectionId id, LogPosition position) const;
  std::size_t followers() const { return followers_.load(std::memory_order_relaxed); }

 private:
  struct Entry {
    LogPosition position = 0;
    std::vector<CollectionId> collections;
    std::vector<std::string> keys;  // what a change of the catalog concerns beside them
    std::shared_ptr<const Buffer> batch;  // null: too large to keep
  };
  using EntryPtr = std::shared_ptr<Entry>;
  class LiveNames;

  // What was kept since `from`; false: it does not reach back so far, or lacks a batch's bytes.
  bool take_recent(LogPosition from, const ChangeInterest& interest, LogPosition limit,
                   std::vector<EntryPtr>* entries, LogPosition* quiet_up_to) const;
  void trim();

  const LiveName live_name_;
  Wal* wal_ = nullptr;
  const History* history_ = nullptr;
  Whole whole_;
  NameHistory names_;
  std::atomic<std::size_t> followers_{0};

  std::shared_mutex reading_;  // shared: names_ are being asked for batches in the log and in memory
  std::mutex process_mutex_;
  mutable std::mutex mutex_;  // a leaf: nothing is called with it held
  bool keeping_ = false;
  LogPosition kept_after_ = 0;  // every batch after this one is in entries_
  LogPosition processed_ = 0;   // of entries_: those up to here are in last_change_
  std::deque<EntryPtr> entries_;
  std::size_t kept_bytes_ = 0;
  // By key: "" for all, the database, the namespace.
  std::unordered_map<std::string, LogPosition> last_change_;
  struct Waiter {
    LogPosition after = 0;
    std::function<void()> wake;
  };
  std::unordered_map<std::string, std::map<std::uint64_t, Waiter>> waiting_;
  std::map<std::uint64_t, Waiter> waiting_for_any_;
  std::uint64_t next_waiter_ = 1;
};

// Does the batch change what `interest` names?
bool concerns(const ChangeBatch& batch, const ChangeInterest& interest);

}  // namespace multifora
