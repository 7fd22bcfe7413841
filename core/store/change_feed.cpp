#include "core/store/change_feed.h"

#include <algorithm>
#include <limits>

#include "core/plugin/names.h"
#include "core/storage/wal.h"
#include "core/store/history.h"
#include "core/store/log_record.h"

namespace multifora {
namespace {

constexpr std::size_t kKeptBytesMax = 8 * 1024 * 1024;
constexpr std::size_t kKeptBatchMax = 1024 * 1024;
constexpr std::size_t kKeptBatches = 16 * 1024;
constexpr LogPosition kNotYet = std::numeric_limits<LogPosition>::max();

// Namespaces, or a database, that a change of the catalog concerns and the collection's id does not say.
template <class Visit>
void for_each_named(const LogFrame& frame, Visit visit) {
  const bool rename = frame.operation == LogOperation::kRename;
  const bool database = frame.operation == LogOperation::kDropDatabase;
  if (!rename && !database && frame.operation != LogOperation::kCreate &&
      frame.operation != LogOperation::kDrop)
    return;
  const Result<DocumentView> body = catalog_body(frame);
  if (!body) return;  // who reads the batch finds out
  if (rename) {
    visit((*body)["from"].as_string());
    visit((*body)["to"].as_string());
  } else {
    visit((*body)[database ? "db" : "ns"].as_string());
  }
}

bool covers(const ChangeInterest& interest, std::string_view name) {
  if (interest.scope == ChangeInterest::Scope::kCollection) return name == interest.name;
  return Namespace::split(name).db == interest.name || name == interest.name;
}

std::string key_of(const ChangeInterest& interest) {
  return interest.scope == ChangeInterest::Scope::kAll ? std::string() : interest.name;
}

}  // namespace

// --- names ------------------------------------------------------------------------------------------

void NameHistory::will_lose(CollectionId id, CollectionName name) {
  const std::lock_guard hold(mutex_);
  lost_[id].push_back({kNotYet, std::move(name)});
  unsettled_.push_back(id);
  count_.store(lost_.size(), std::memory_order_release);
}

void NameHistory::settle(LogPosition position) {
  if (count_.load(std::memory_order_acquire) == 0) return;
  const std::lock_guard hold(mutex_);
  for (const CollectionId id : unsettled_)
    if (const auto at = lost_.find(id); at != lost_.end()) {
      for (Lost& lost : at->second)
        if (lost.until == kNotYet) lost.until = position;
      std::sort(at->second.begin(), at->second.end(),
                [](const Lost& a, const Lost& b) { return a.until < b.until; });
    }
  unsettled_.clear();
}

std::unique_ptr<CollectionName> NameHistory::find(CollectionId id, LogPosition position) const {
  if (count_.load(std::memory_order_acquire) == 0) return nullptr;
  const std::lock_guard hold(mutex_);
  const auto at = lost_.find(id);
  if (at == lost_.end()) return nullptr;
  for (const Lost& lost : at->second)
    if (position <= lost.until) return std::make_unique<CollectionName>(lost.name);
  return nullptr;
}

void NameHistory::forget(LogPosition upto) {
  if (count_.load(std::memory_order_acquire) == 0) return;
  const std::lock_guard hold(mutex_);
  for (auto at = lost_.begin(); at != lost_.end();) {
    std::erase_if(at->second, [&](const Lost& lost) { return lost.until <= upto; });
    at = at->second.empty() ? lost_.erase(at) : std::next(at);
  }
  count_.store(lost_.size(), std::memory_order_release);
}

// Names of batches in the log and in memory.
class ChangeFeed::LiveNames final : public CollectionNames {
 public:
  explicit LiveNames(const ChangeFeed& feed) : feed_(feed) {}
  void at(LogPosition position) { position_ = position; }
  const CollectionName& name(CollectionId id) const override {
    current_ = feed_.name_at(id, position_);
    return current_;
  }

 private:
  const ChangeFeed& feed_;
  LogPosition position_ = 0;
  mutable CollectionName current_;
};

bool concerns(const ChangeBatch& batch, const ChangeInterest& interest) {
  if (interest.scope == ChangeInterest::Scope::kAll) return true;
  Bytes rest = batch.bytes;
  LogFrame frame;
  CollectionId last = 0;
  while (next_frame(rest, &frame)) {
    bool named = false;
    for_each_named(frame, [&](std::string_view name) { named = named || covers(interest, name); });
    if (named) return true;
    if (frame.collection == last || frame.collection == 0) continue;
    last = frame.collection;
    if (covers(interest, batch.names->name(last).ns)) return true;
  }
  return false;
}

// --- following ----------------------------------------------------------------------------------------

ChangeFeed::ChangeFeed(LiveName live_name) : live_name_(std::move(live_name)) {}
ChangeFeed::~ChangeFeed() = default;

void ChangeFeed::attach(Wal* wal, const History* history, Whole whole) {
  wal_ = wal;
  history_ = history;
  whole_ = std::move(whole);
}

// Every batch that is appended from here on is kept; what came before has a position up to `now`.
ChangeFeed::Follower::Follower(ChangeFeed& feed) : feed_(feed.shared_from_this()) {
  feed.followers_.fetch_add(1);
  const LogPosition now = feed.wal_->last_appended();
  const std::lock_guard hold(feed.mutex_);
  if (feed.keeping_) return;
  feed.keeping_ = true;
  feed.kept_after_ = feed.processed_ = now;
}

ChangeFeed::Follower::~Follower() {
  ChangeFeed& feed = *feed_;
  if (feed.followers_.fetch_sub(1) != 1) return;
  const std::lock_guard hold(feed.mutex_);
  if (feed.followers_.load() != 0) return;
  feed.keeping_ = false;
  feed.entries_.clear();
  feed.last_change_.clear();
  feed.kept_bytes_ = 0;
}

// With the log's mutex held.
void ChangeFeed::appended(LogPosition before, LogPosition position, Bytes batch) {
  if (followers() == 0) return;
  auto entry = std::make_shared<Entry>();
  entry->position = position;
  Bytes rest = batch;
  LogFrame frame;
  while (next_frame(rest, &frame)) {
    for_each_named(frame, [&](std::string_view name) { entry->keys.emplace_back(name); });
    auto& ids = entry->collections;
    if (frame.collection != 0 && (ids.empty() || ids.back() != frame.collection) &&
        std::find(ids.begin(), ids.end(), frame.collection) == ids.end())
      ids.push_back(frame.collection);
  }
  if (batch.size() <= kKeptBatchMax) entry->batch = std::make_shared<const Buffer>(batch);
  const std::lock_guard hold(mutex_);
  if (followers() == 0) return;
  if (!keeping_) {  // before the first follower could say so
    keeping_ = true;
    kept_after_ = processed_ = before;
  }
  if (entry->batch) kept_bytes_ += entry->batch->size();
  entries_.push_back(std::move(entry));
}

// Of what has been processed, the oldest go.
void ChangeFeed::trim() {
  while (!entries_.empty() && entries_.front()->position <= processed_ &&
         (kept_bytes_ > kKeptBytesMax || entries_.size() > kKeptBatches)) {
    const EntryPtr& oldest = entries_.front();
    kept_after_ = oldest->position;
    if (oldest->batch) kept_bytes_ -= oldest->batch->size();
    entries_.pop_front();
  }
}

void ChangeFeed::synced(LogPosition position) {
  if (followers() == 0) return;
  const std::lock_guard in_order(process_mutex_);
  std::vector<EntryPtr> fresh;
  {
    const std::lock_guard hold(mutex_);
    const auto from = std::upper_bound(
        entries_.begin(), entries_.end(), processed_,
        [](LogPosition after, const EntryPtr& entry) { return after < entry->position; });
    for (auto at = from; at != entries_.end() && (*at)->position <= position; ++at)
      fresh.push_back(*at);
  }
  std::unordered_map<std::string, LogPosition> changed;
  const auto note = [&](const std::string& name, LogPosition at) {
    changed[name] = at;
    const std::string_view db = Namespace::split(name).db;
    if (!db.empty()) changed[std::string(db)] = at;
    changed[std::string()] = at;
  };
  std::unordered_map<CollectionId, std::string> names;  // one look-up for a burst
  for (const EntryPtr& entry : fresh) {
    if (!entry->keys.empty()) names.clear();
    for (const std::string& key : entry->keys) note(key, entry->position);
    for (const CollectionId id : entry->collections) {
      const auto [at, missing] = names.try_emplace(id);
      if (missing) at->second = name_at(id, entry->position).ns;
      note(at->second, entry->position);
    }
  }
  std::vector<std::function<void()>> wakes;
  {
    const std::lock_guard hold(mutex_);
    if (!fresh.empty()) processed_ = std::max(processed_, fresh.back()->position);
    for (const auto& [key, at] : changed) {
      last_change_[key] = at;
      const auto waiters = waiting_.find(key);
      if (waiters == waiting_.end()) continue;
      std::erase_if(waiters->second, [&](auto& waiter) {
        if (waiter.second.after >= at) return false;
        wakes.push_back(std::move(waiter.second.wake));
        return true;
      });
      if (waiters->second.empty()) waiting_.erase(waiters);
    }
    for (auto& [id, waiter] : waiting_for_any_)
      wakes.push_back(std::move(waiter.wake));
    waiting_for_any_.clear();
    trim();
  }
  for (const auto& wake : wakes) wake();
}

std::function<void()> ChangeFeed::subscribe(const ChangeInterest& interest, LogPosition after,
                                            std::function<void()> wake) {
  const std::string key = key_of(interest);
  bool now = false, any = false;
  std::uint64_t id = 0;
  {
    const std::lock_guard hold(mutex_);
    const auto last = last_change_.find(key);
    now = last != last_change_.end() && last->second > after;
    // Something before the first follower may still be on its way to the disk; whom it concerns is not
    // known.
    any = !now && after < kept_after_;
    id = next_waiter_++;
    if (any)
      waiting_for_any_.emplace(id, Waiter{after, wake});
    else if (!now)
      waiting_[key].emplace(id, Waiter{after, wake});
  }
  if (any && newest() > after) {  // it is there already
    const std::lock_guard hold(mutex_);
    now = waiting_for_any_.erase(id) == 1;
  }
  if (now) {
    wake();
    return [] {};
  }
  return [this, key, id] {
    const std::lock_guard hold(mutex_);
    waiting_for_any_.erase(id);
    const auto waiters = waiting_.find(key);
    if (waiters == waiting_.end()) return;
    waiters->second.erase(id);
    if (waiters->second.empty()) waiting_.erase(waiters);
  };
}

// --- reading --------------------------------------------------------------------------------------------

CollectionName ChangeFeed::name_at(CollectionId id, LogPosition position) const {
  if (auto lost = names_.find(id, position)) return std::move(*lost);
  CollectionName name = live_name_(id);
  if (!name.ns.empty()) return name;
  // It may have been dropped between the two.
  if (auto lost = names_.find(id, position)) return std::move(*lost);
  return name;
}

// Whoever reads the log or memory holds `reading_`; who begins later reads what the history has from
// there, or what is in memory.
void ChangeFeed::forget_names(LogPosition upto) {
  const std::unique_lock alone(reading_, std::try_to_lock);
  if (!alone) return;
  {
    const std::lock_guard hold(mutex_);
    if (keeping_) upto = std::min(upto, kept_after_);
  }
  names_.forget(upto);
}

LogPosition ChangeFeed::oldest() const { return history_->oldest(); }
LogPosition ChangeFeed::newest() const { return wal_->last_durable(); }

bool ChangeFeed::take_recent(LogPosition from, const ChangeInterest& interest, LogPosition limit,
                             std::vector<EntryPtr>* entries, LogPosition* quiet_up_to) const {
  const std::lock_guard hold(mutex_);
  *quiet_up_to = from;
  if (!keeping_ || from < kept_after_) return false;
  const auto last = last_change_.find(key_of(interest));
  // All changes since kept_after_ that are processed are in last_change_.
  if (last == last_change_.end() || last->second <= from) *quiet_up_to = std::max(from, processed_);
  auto at = std::upper_bound(
      entries_.begin(), entries_.end(), *quiet_up_to,
      [](LogPosition after, const EntryPtr& entry) { return after < entry->position; });
  for (; at != entries_.end() && (*at)->position <= limit; ++at) {
    if (!(*at)->batch) return false;
    entries->push_back(*at);
  }
  return true;
}

Status ChangeFeed::read(LogPosition from, const ChangeInterest& interest, LogPosition* reached,
                        const Visit& visit) {
  *reached = from;
  const LogPosition limit = newest();
  bool stopped = false;
  Status unreadable;  // of a batch that refers to documents elsewhere
  Buffer scratch;
  const auto deliver = [&](const ChangeBatch& batch) {
    if (batch.position > limit) {
      stopped = true;
      return false;
    }
    bool go_on = true;
    if (concerns(batch, interest)) {
      const auto whole = whole_(batch.position, batch.bytes, scratch);
      if (!whole) {
        unreadable = whole.error();
        return false;
      }
      go_on = visit({batch.position, *whole, batch.names});
    }
    *reached = batch.position;
    stopped = !go_on;
    return go_on;
  };
  // Where a place that a batch refers to is used again, and where a checkpoint has taken a batch from the
  // log, the history has it.
  const auto history_has = [&](const Status& status) {
    return status.code() == ErrorCode::kCappedPositionLost && history_->newest() > *reached;
  };
  bool from_history = false;
  while (!stopped && *reached < limit) {
    const std::shared_lock names_stay(reading_);
    std::vector<EntryPtr> recent;
    LogPosition quiet = 0;
    LiveNames names(*this);
    const bool in_memory = !from_history && take_recent(*reached, interest, limit, &recent, &quiet);
    *reached = std::max(*reached, std::min(quiet, limit));
    if (in_memory) {
      for (const EntryPtr& entry : recent) {
        names.at(entry->position);
        if (!deliver({entry->position, Bytes(*entry->batch), &names})) break;
      }
      if (!unreadable.ok()) {
        if (!history_has(unreadable)) return unreadable;
        unreadable = Status();
        from_history = true;
        continue;
      }
      if (!stopped) *reached = std::max(*reached, limit);
      return {};
    }
    from_history = false;
    const LogPosition kept_to = history_->newest();
    const LogPosition before = *reached;
    if (before < kept_to) {
      MULTIFORA_TRY(history_->read(before, deliver));
      if (!stopped) *reached = std::max(*reached, std::min(kept_to, limit));
      continue;
    }
    const Status status = wal_->read(before, false, [&](LogPosition position, Bytes batch) {
      names.at(position);
      return deliver({position, batch, &names});
    });
    if (status.ok() && unreadable.ok()) {
      if (!stopped) *reached = std::max(*reached, limit);
      return {};
    }
    const Status& failed = unreadable.ok() ? status : unreadable;
    if (!history_has(failed)) return failed;
    unreadable = Status();
  }
  return {};
}

}  // namespace multifora
