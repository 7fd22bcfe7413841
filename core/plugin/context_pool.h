// Keeps a few library contexts (compressors, decompressors) for the next call, so that a codec
// neither allocates on each call nor holds one context a thread. Any thread may call.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace multifora {

template <class T, void (*destroy)(T*)>
class ContextPool {
 public:
  struct Deleter {
    void operator()(T* context) const { destroy(context); }
  };
  using Owned = std::unique_ptr<T, Deleter>;

  explicit ContextPool(std::size_t kept_max = 4) : kept_max_(kept_max) {}

  // One that was given back, or null: the caller makes one.
  Owned take() {
    std::lock_guard lock(mutex_);
    if (kept_.empty()) return nullptr;
    Owned context = std::move(kept_.back());
    kept_.pop_back();
    return context;
  }
  void give(Owned context) {
    std::lock_guard lock(mutex_);
    if (kept_.size() < kept_max_) kept_.push_back(std::move(context));
  }

 private:
  const std::size_t kept_max_;
  std::mutex mutex_;
  std::vector<Owned> kept_;
};

}  // namespace multifora
