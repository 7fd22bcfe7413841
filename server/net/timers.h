// Deadlines of waiting requests: calls each function once at its time, on the control thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>

namespace multifora::net {

// A passive queue: the control thread asks for what is due. Any thread may add and cancel.
class TimerQueue {
 public:
  using Id = std::pair<std::int64_t, std::uint64_t>;

  // True: the new one is the earliest, so that the control thread's sleep must be shortened.
  bool add(std::int64_t deadline_us, std::function<void()> call, Id* id) {
    std::lock_guard lock(mutex_);
    *id = {deadline_us, ++count_};
    const auto at = timers_.emplace(*id, std::move(call)).first;
    return at == timers_.begin();
  }
  void cancel(const Id& id) {
    std::lock_guard lock(mutex_);
    timers_.erase(id);
  }
  // Runs what is due; returns when the next one is, 0 for none.
  std::int64_t run_due(std::int64_t now_us) {
    while (true) {
      std::function<void()> call;
      {
        std::lock_guard lock(mutex_);
        const auto first = timers_.begin();
        if (first == timers_.end()) return 0;
        if (first->first.first > now_us) return first->first.first;
        call = std::move(first->second);
        timers_.erase(first);
      }
      call();
    }
  }

 private:
  std::mutex mutex_;
  std::uint64_t count_ = 0;
  std::map<Id, std::function<void()>> timers_;
};

}  // namespace multifora::net
