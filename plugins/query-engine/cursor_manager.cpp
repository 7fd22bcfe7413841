#include "plugins/query-engine/cursor_manager.h"

#include <algorithm>

#include "core/base/limits.h"
#include "core/plugin/host.h"
#include "core/plugin/option_check.h"

namespace multifora {
namespace {

std::string not_found(std::int64_t id) { return "cursor id " + std::to_string(id) + " not found"; }

Status check_session(const OpenCursor& cursor, const SessionInfo& session) {
  const std::string id = std::to_string(cursor.id);
  const std::string what = "Cannot run getMore on cursor " + id + ", which was ";
  if (cursor.lsid != session.lsid) {
    if (cursor.lsid.empty())
      return {location_code(50736), what + "not created in a session, in a session"};
    if (session.lsid.empty())
      return {location_code(50737), what + "created in a session, without an lsid"};
    return {location_code(50738), what + "created in another session"};
  }
  const std::int64_t txn_number = session.in_transaction ? session.txn_number : -1;
  if (cursor.txn_number == txn_number) return {};
  if (cursor.txn_number < 0)
    return {location_code(50739), what + "not created in a transaction, in a transaction"};
  if (txn_number < 0)
    return {location_code(50740), what + "created in a transaction, without a transaction number"};
  return {location_code(50741), what + "created in another transaction"};
}

class CursorSweeper final : public BackgroundTask {
 public:
  explicit CursorSweeper(std::shared_ptr<CursorManager> manager) : manager_(std::move(manager)) {}
  std::string_view name() const override { return "cursor-timeout"; }
  std::int64_t interval_ms() const override { return 4000; }
  Status run(Store&) override {
    manager_->sweep();
    return {};
  }

 private:
  std::shared_ptr<CursorManager> manager_;
};

}  // namespace

CursorManager::CursorManager(PluginHost& host)
    : host_(host),
      idle_ms_(host.config()
                   .integer("query-engine", "cursor_timeout_ms")
                   .value_or(limits::kCursorIdleMs)),
      random_(std::random_device{}()) {}

Result<std::int64_t> CursorManager::keep(std::unique_ptr<OpenCursor> cursor) {
  const std::int64_t now = host_.clock().monotonic_us() / 1000;
  cursor->used_ms = now;
  std::lock_guard lock(mutex_);
  if (slots_.size() >= limits::kCursorsMax)
    return fail(ErrorCode::kTooManyFilesOpen, "too many open cursors");
  std::int64_t id = 0;
  while (id == 0 || slots_.contains(id))
    id = static_cast<std::int64_t>(random_() >> 1);
  cursor->id = id;
  ++total_;
  Slot slot;
  slot.cursor = std::move(cursor);
  slots_.emplace(id, std::move(slot));
  return id;
}

Result<CursorManager::Pin> CursorManager::pin(std::int64_t id, std::string_view ns,
                                              const SessionInfo& session,
                                              Interrupt* interrupt) {
  std::lock_guard lock(mutex_);
  const auto at = slots_.find(id);
  if (at == slots_.end() || at->second.killed) return fail(ErrorCode::kCursorNotFound, not_found(id));
  Slot& slot = at->second;
  if (slot.pinned)
    return fail(location_code(12051), "cursor id " + std::to_string(id) + " is already in use");
  if (slot.cursor->ns != ns)
    return fail(ErrorCode::kUnauthorized,
                "Requested getMore on namespace '" + std::string(ns) +
                    "', but cursor belongs to a different namespace " + slot.cursor->ns);
  MULTIFORA_TRY_R(check_session(*slot.cursor, session));
  slot.pinned = true;
  slot.interrupt = interrupt;
  return Pin(*this, slot.cursor.get());
}

CursorManager::Pin::~Pin() {
  if (cursor_ != nullptr) manager_->release(cursor_, false);
}

void CursorManager::Pin::keep_open() {
  manager_->release(cursor_, true);
  cursor_ = nullptr;
}

void CursorManager::release(OpenCursor* cursor, bool keep) {
  std::unique_ptr<OpenCursor> ended;  // destroyed without the lock
  const std::int64_t now = host_.clock().monotonic_us() / 1000;
  std::lock_guard lock(mutex_);
  const auto at = slots_.find(cursor->id);
  if (at == slots_.end()) return;
  Slot& slot = at->second;
  slot.pinned = false;
  slot.interrupt = nullptr;
  cursor->used_ms = now;
  if (keep && !slot.killed) return;
  ended = std::move(slot.cursor);
  slots_.erase(at);
}

bool CursorManager::kill_locked(std::unordered_map<std::int64_t, Slot>::iterator at,
                                std::vector<std::unique_ptr<OpenCursor>>& ended) {
  Slot& slot = at->second;
  if (slot.killed) return false;
  slot.killed = true;
  if (slot.pinned) {
    if (slot.interrupt != nullptr) slot.interrupt->kill(ErrorCode::kCursorKilled);
    return true;  // its user lets it go
  }
  for (const auto& [number, wake] : slot.wakers) wake();
  ended.push_back(std::move(slot.cursor));
  slots_.erase(at);
  return true;
}

std::function<void()> CursorManager::on_kill(std::int64_t id, std::function<void()> wake) {
  std::lock_guard lock(mutex_);
  const auto at = slots_.find(id);
  if (at == slots_.end() || at->second.killed) {
    wake();
    return [] {};
  }
  const std::uint64_t number = next_waker_++;
  at->second.wakers.emplace(number, std::move(wake));
  return [this, id, number] {
    std::lock_guard unlock(mutex_);
    if (const auto slot = slots_.find(id); slot != slots_.end()) slot->second.wakers.erase(number);
  };
}

bool CursorManager::kill(std::int64_t id, std::string_view ns) {
  std::vector<std::unique_ptr<OpenCursor>> ended;
  std::lock_guard lock(mutex_);
  const auto at = slots_.find(id);
  if (at == slots_.end() || at->second.cursor->ns != ns) return false;
  return kill_locked(at, ended);
}

void CursorManager::kill_session(std::string_view lsid) {
  kill_if([lsid](const OpenCursor& cursor) { return cursor.lsid == lsid; });
}

void CursorManager::kill_transaction(std::string_view lsid, std::int64_t txn_number) {
  kill_if([=](const OpenCursor& cursor) {
    return cursor.txn_number == txn_number && cursor.lsid == lsid;
  });
}

void CursorManager::kill_all() {
  kill_if([](const OpenCursor&) { return true; });
}

void CursorManager::kill_if(const std::function<bool(const OpenCursor&)>& chosen) {
  std::vector<std::unique_ptr<OpenCursor>> ended;
  std::lock_guard lock(mutex_);
  for (auto at = slots_.begin(); at != slots_.end();) {
    const auto next = std::next(at);
    if (chosen(*at->second.cursor)) kill_locked(at, ended);
    at = next;
  }
}

std::size_t CursorManager::sweep() {
  std::vector<std::unique_ptr<OpenCursor>> ended;
  const std::int64_t now = host_.clock().monotonic_us() / 1000;
  std::lock_guard lock(mutex_);
  for (auto at = slots_.begin(); at != slots_.end();) {
    const auto next = std::next(at);
    const Slot& slot = at->second;
    if (!slot.pinned && !slot.cursor->no_timeout && now - slot.cursor->used_ms > idle_ms_) {
      kill_locked(at, ended);
      ++timed_out_;
    }
    at = next;
  }
  return ended.size();
}

CursorManager::Stats CursorManager::stats() const {
  std::lock_guard lock(mutex_);
  Stats stats;
  stats.open = slots_.size();
  stats.timed_out = timed_out_;
  stats.total = total_;
  for (const auto& [id, slot] : slots_) {
    if (slot.pinned) ++stats.pinned;
    if (slot.cursor->no_timeout) ++stats.no_timeout;
  }
  return stats;
}

std::unique_ptr<BackgroundTask> make_cursor_sweeper(std::shared_ptr<CursorManager> manager) {
  return std::make_unique<CursorSweeper>(std::move(manager));
}

// ---------------------------------------------------------------- batches

Result<BatchLimits> read_cursor_option(const CommandRequest& request, std::int64_t otherwise) {
  static const OptionSpec kFields[] = {{"batchSize", kOptNumber, kNonNegative}};
  const DocumentView cursor = request.document("cursor");
  BatchLimits batch;
  batch.documents = otherwise;
  if (cursor.empty()) return batch;
  MULTIFORA_TRY_R(check_fields(std::string(request.name()) + ".cursor", cursor, kFields));
  if (const ValueView size = cursor["batchSize"]; size.is_number())
    batch.documents = size.number_as_int64();
  return batch;
}

Result<bool> fill_batch(OpenCursor& cursor, const BatchLimits& limits, ArrayBuilder& batch) {
  std::int64_t count = 0;
  while (limits.documents < 0 || count < limits.documents) {
    DocumentView document;
    if (cursor.has_stash) {
      document = cursor.stash.view();
    } else {
      MULTIFORA_ASSIGN_R(const auto next, cursor.cursor->next());
      if (!next) return cursor.cursor->tailable() && !cursor.cursor->ended();
      document = *next;
    }
    // A batch always takes one document.
    const std::size_t bytes = batch.size_bytes() + document.size_bytes() + 16;
    if (count > 0 && bytes > limits.bytes) {
      if (!cursor.has_stash) cursor.stash = OwnedDocument(document);
      cursor.has_stash = true;
      return true;
    }
    batch.append(document);
    cursor.has_stash = false;
    cursor.cursor->delivered();
    ++count;
  }
  if (cursor.cursor->ended() && !cursor.has_stash) return false;
  return cursor.has_stash || cursor.cursor->tailable() || !cursor.cursor->exhausted();
}

Status reply_first_batch(CommandContext& context, std::unique_ptr<OpenCursor> cursor,
                         const BatchLimits& limits, bool single_batch, DocumentBuilder& reply) {
  DocumentBuilder shown = reply.object("cursor");
  ArrayBuilder batch = shown.array("firstBatch");
  MULTIFORA_ASSIGN(const bool goes_on, fill_batch(*cursor, limits, batch));
  batch.close();
  const std::string ns = cursor->ns;
  std::int64_t id = 0;
  cursor->cursor->append_to_reply(shown);
  MULTIFORA_TRY(cursor->cursor->detach());
  if (goes_on && !single_batch) {
    const SessionInfo& session = context.session();
    cursor->lsid = session.lsid;
    cursor->txn_number = session.in_transaction ? session.txn_number : -1;
    cursor->snapshot_time = context.snapshot_time;
    cursor->snapshot = context.snapshot;
    auto* manager = context.host().service<CursorManager>();
    MULTIFORA_ASSIGN(id, manager->keep(std::move(cursor)));
  }
  shown.append("id", id);
  shown.append("ns", ns);
  if (context.snapshot_time != 0) shown.append_timestamp("atClusterTime", context.snapshot_time);
  return {};
}

void reply_empty_cursor(const CommandContext& context, std::string_view ns, DocumentBuilder& reply) {
  DocumentBuilder cursor = reply.object("cursor");
  cursor.array("firstBatch").close();
  cursor.append("id", std::int64_t{0});
  cursor.append("ns", ns);
  if (context.snapshot_time != 0) cursor.append_timestamp("atClusterTime", context.snapshot_time);
}

}  // namespace multifora
