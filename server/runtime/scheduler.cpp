#include "server/runtime/scheduler.h"

#include <algorithm>
#include <chrono>
#include <exception>

#include "core/plugin/host.h"

namespace multifora {
namespace {

// Intervals may shrink between calls (a setParameter): look again at least this often.
constexpr std::int64_t kLookUs = 1'000'000;

Status guarded_run(BackgroundTask& task, Store& store) {
  try {
    return task.run(store);
  } catch (const std::exception& error) {
    return {ErrorCode::kInternalError, error.what()};
  }
}

}  // namespace

Scheduler::Scheduler(PluginHost& host, Store& store) : host_(host), store_(store) {
  for (const auto& task : host.background())
    entries_.push_back({task.get(), now_us() + task->interval_ms() * 1000});
  if (!entries_.empty()) thread_ = std::thread([this] { loop(); });
}

Scheduler::~Scheduler() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::int64_t Scheduler::now_us() const { return host_.clock().monotonic_us(); }

void Scheduler::loop() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const auto next = std::min_element(
        entries_.begin(), entries_.end(),
        [](const Entry& a, const Entry& b) { return a.due_us < b.due_us; });
    const std::int64_t wait_us = std::min(next->due_us - now_us(), kLookUs);
    if (wait_us > 0) {
      wake_.wait_for(lock, std::chrono::microseconds(wait_us));
      for (Entry& entry : entries_)
        entry.due_us = std::min(entry.due_us, now_us() + entry.task->interval_ms() * 1000);
      continue;
    }
    lock.unlock();
    run(*next);
    lock.lock();
  }
}

void Scheduler::run(Entry& entry) {
  const Status status = guarded_run(*entry.task, store_);
  if (!status.ok() && !entry.failing)
    host_.log().event(LogLevel::kError, "background", status.message(),
                      {{"task", entry.task->name()}});
  entry.failing = !status.ok();
  entry.due_us = now_us() + entry.task->interval_ms() * 1000;
}

}  // namespace multifora
