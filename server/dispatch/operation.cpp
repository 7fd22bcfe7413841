#include "server/dispatch/operation.h"

#include <algorithm>

#include "server/dispatch/dispatcher.h"

namespace multifora {

void Operation::kill(ErrorCode reason) {
  std::lock_guard lock(mutex_);
  if (row_ != nullptr && interrupt_) kill_locked(reason);
}

void Operation::kill_locked(ErrorCode reason) {
  interrupt_->kill(reason);
  if (wake_) wake_();
}

void Operation::set_waker(std::function<void()> wake) {
  std::lock_guard lock(mutex_);
  wake_ = std::move(wake);
  const bool killed = interrupt_ && !interrupt_->check_slow().ok();
  if (wake_ && killed) wake_();  // before there was anybody to wake
}

std::int64_t Operation::running_ms(const Clock& clock) const {
  std::lock_guard lock(mutex_);
  return row_ == nullptr ? -1 : (clock.monotonic_us() - started_us_) / 1000;
}

void OperationRegistry::attach(Operation* operation) {
  std::lock_guard lock(mutex_);
  operations_.insert(operation);
}

void OperationRegistry::detach(Operation* operation) {
  std::lock_guard lock(mutex_);
  operations_.erase(operation);
}

namespace {

std::string namespace_of(DocumentView body, std::string_view db) {
  std::string ns(db);
  const ValueView target = body.first().value();
  if (target.type() == BsonType::kString)
    ns.append(".").append(target.as_string());
  else
    ns += ".$cmd";
  return ns;
}

std::string_view database_of(DocumentView body) {
  const ValueView db = body["$db"];
  return db.type() == BsonType::kString ? db.as_string() : std::string_view();
}

// Large commands are cut: currentOp is for people.
void append_command(DocumentBuilder& out, DocumentView body) {
  constexpr std::size_t kShownMax = 1024;
  if (body.size_bytes() <= kShownMax) {
    out.append("command", body);
    return;
  }
  DocumentBuilder command = out.object("command");
  command.append(body.first());
  command.append("$truncated", std::to_string(body.size_bytes()) + " bytes");
}

}  // namespace

void OperationRegistry::append(ArrayBuilder& out, bool idle_connections, const Clock& clock) const {
  std::lock_guard registry_lock(mutex_);
  for (const Operation* operation : operations_) {
    std::lock_guard lock(operation->mutex_);
    const bool active = operation->row_ != nullptr;
    if (!active && !idle_connections) continue;
    const ClientInfo& client = operation->client_;
    DocumentBuilder entry = out.object();
    entry.append("type", "op");
    entry.append("host", client.local);
    entry.append("desc", "conn" + std::to_string(client.connection_id));
    entry.append("connectionId", client.connection_id);
    if (!client.remote.empty()) entry.append("client", client.remote);
    if (!operation->shown_app_name_.empty()) entry.append("appName", operation->shown_app_name_);
    if (operation->metadata_shown_)
      entry.append("clientMetadata", operation->shown_metadata_.view());
    entry.append("active", active);
    if (!active) continue;
    const std::int64_t running_us = clock.monotonic_us() - operation->started_us_;
    entry.append("opid", operation->id_);
    entry.append("secs_running", running_us / 1'000'000);
    entry.append("microsecs_running", running_us);
    entry.append("op", "command");
    if (operation->body_.empty()) {
      entry.append("ns", operation->shown_ns_).append("waitingForDurability", true);
      continue;
    }
    entry.append("ns", namespace_of(operation->body_, database_of(operation->body_)));
    append_command(entry, operation->body_);
  }
}

Status OperationRegistry::kill(std::int64_t operation_id, ErrorCode reason) {
  std::lock_guard registry_lock(mutex_);
  for (Operation* operation : operations_) {
    std::lock_guard lock(operation->mutex_);
    if (operation->row_ == nullptr || operation->id_ != operation_id) continue;
    operation->kill_locked(reason);
    return {};
  }
  return {ErrorCode::kNoSuchKey, "no operation runs under id " + std::to_string(operation_id)};
}

void OperationRegistry::kill_all(ErrorCode reason) {
  std::lock_guard registry_lock(mutex_);
  for (Operation* operation : operations_) operation->kill(reason);
}

void OperationRegistry::kill_sessions(const std::vector<std::string>& lsids) {
  std::lock_guard registry_lock(mutex_);
  for (Operation* operation : operations_) {
    std::lock_guard lock(operation->mutex_);
    if (operation->row_ == nullptr) continue;
    const ValueView lsid = operation->body_["lsid"];
    if (lsid.type() != BsonType::kObject) continue;
    const ValueView id = lsid.as_document()["id"];
    if (id.type() != BsonType::kBinData) continue;
    const bool named = std::any_of(lsids.begin(), lsids.end(), [&](const std::string& one) {
      return one == id.binary_bytes();
    });
    if (lsids.empty() || named) operation->kill_locked(ErrorCode::kInterrupted);
  }
}

std::size_t OperationRegistry::running() const {
  std::lock_guard registry_lock(mutex_);
  return static_cast<std::size_t>(
      std::count_if(operations_.begin(), operations_.end(), [](const Operation* operation) {
        std::lock_guard lock(operation->mutex_);
        return operation->row_ != nullptr;
      }));
}

}  // namespace multifora
