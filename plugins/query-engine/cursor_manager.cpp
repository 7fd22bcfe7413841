#include "plugins/query-engine/cursor_manager.h"

#include <algorithm>

#include "core/base/limits.h"
#include "core/plugin/host.h"
#include "core/plugin/option_check.h"

namespace multifora {
namespace {

std::string not_found(std::int64_t id) { return "cursor id " + std::to_string(id) + " not found"; }

Status check_session(const OpenCursor& cursor, std::string_view lsid) {
  if (cursor.lsid == lsid) return {};
  const std::string id = std::to_string(cursor.id);
  if (cursor.lsid.empty())
    return {location_code(50736),
            "Cannot run getMore on cursor " + id + ", which was not created in a session, in a session"};
  if (lsid.empty())
    return {location_code(50737),
            "Cannot run getMore on cursor " + id + ", which was created in a session, without an lsid"};
  return {location_code(50738),
          "Cannot run getMore on cursor " + id + ", which was created in another session"};
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
                                              std::string_view lsid, Interrupt* interrupt) {
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
  MULTIFORA_TRY_R(check_session(*slot.cursor, lsid));
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
  ended.push_back(std::move(slot.cursor));
  slots_.erase(at);
  return true;
}

bool CursorManager::kill(std::int64_t id, std::string_view ns) {
  std::vector<std::unique_ptr<OpenCursor>> ended;
  std::lock_guard lock(mutex_);
  const auto at = slots_.find(id);
  if (at == slots_.end() || at->second.cursor->ns != ns) return false;
  return kill_locked(at, ended);
}

void CursorManager::kill_session(std::string_view lsid) {
  std::vector<std::unique_ptr<OpenCursor>> ended;
  std::lock_guard lock(mutex_);
  for (auto at = slots_.begin(); at != slots_.end();) {
    const auto next = std::next(at);
    if (at->second.cursor->lsid == lsid) kill_locked(at, ended);
    at = next;
  }
}

std::map<std::string, std::int64_t> CursorManager::sessions() const {
  std::map<std::string, std::int64_t> found;
  const std::lock_guard lock(mutex_);
  for (const auto& [id, slot] : slots_) {
    if (slot.cursor->lsid.empty()) continue;
    std::int64_t& used = found[slot.cursor->lsid];
    used = std::max(used, slot.cursor->used_ms);
  }
  return found;
}

void CursorManager::kill_all() {
  std::vector<std::unique_ptr<OpenCursor>> ended;
  std::lock_guard lock(mutex_);
  for (auto at = slots_.begin(); at != slots_.end();) {
    const auto next = std::next(at);
    kill_locked(at, ended);
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
      if (!next) return cursor.cursor->tailable();
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
    ++count;
  }
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
  MULTIFORA_TRY(cursor->cursor->detach());
  if (goes_on && !single_batch) {
    cursor->lsid = context.session().lsid;
    auto* manager = context.host().service<CursorManager>();
    MULTIFORA_ASSIGN(id, manager->keep(std::move(cursor)));
  }
  shown.append("id", id);
  shown.append("ns", ns);
  return {};
}

void reply_empty_cursor(std::string_view ns, DocumentBuilder& reply) {
  DocumentBuilder cursor = reply.object("cursor");
  cursor.array("firstBatch").close();
  cursor.append("id", std::int64_t{0});
  cursor.append("ns", ns);
}

}  // namespace multifora
