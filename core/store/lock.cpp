#include "core/store/lock.h"

#include "core/base/assert.h"

namespace multifora {
namespace {
// Collection locks that this thread holds shared.
thread_local std::uint32_t shared_locks_held = 0;
}  // namespace

void CollectionLock::lock_shared() {
  std::unique_lock hold(mutex_);
  const bool may_pass = shared_locks_held > 0;
  ++shared_locks_held;
  if (!active_writer_ && (may_pass || writers_waiting_.load(std::memory_order_relaxed) == 0)) {
    ++active_readers_;
    return;
  }
  // A writer that unlocks counts those it wakes as active: nobody gets in between.
  ++waiting_readers_;
  waiting_passers_ += may_pass ? 1 : 0;
  const std::uint64_t before = hand_overs_;
  readers_.wait(hold, [&] { return hand_overs_ != before; });
}

void CollectionLock::unlock_shared() {
  const std::lock_guard hold(mutex_);
  MULTIFORA_ASSERT(active_readers_ > 0 && shared_locks_held > 0);
  --shared_locks_held;
  if (--active_readers_ == 0) writers_.notify_one();
}

void CollectionLock::lock() {
  MULTIFORA_ASSERT(shared_locks_held == 0);
  std::unique_lock hold(mutex_);
  writers_waiting_.fetch_add(1, std::memory_order_relaxed);
  writers_.wait(hold, [&] { return !active_writer_ && active_readers_ == 0; });
  writers_waiting_.fetch_sub(1, std::memory_order_relaxed);
  active_writer_ = true;
}

void CollectionLock::unlock() {
  const std::lock_guard hold(mutex_);
  MULTIFORA_ASSERT(active_writer_);
  active_writer_ = false;
  const bool writers_wait = writers_waiting_.load(std::memory_order_relaxed) != 0;
  // Whoever reads elsewhere may be what the next writer would wait for, in a circle of three.
  const bool readers_turn = waiting_passers_ > 0 || !writers_wait ||
                            (waiting_readers_ > 0 && ++writers_in_a_row_ >= kWritersInARow);
  if (!readers_turn || waiting_readers_ == 0) {
    if (writers_wait) writers_.notify_one();
    return;
  }
  active_readers_ += waiting_readers_;
  waiting_readers_ = waiting_passers_ = 0;
  writers_in_a_row_ = 0;
  ++hand_overs_;
  readers_.notify_all();
}

std::uint32_t CollectionLock::waiting_readers() const {
  const std::lock_guard hold(mutex_);
  return waiting_readers_;
}

void CommitGate::enter() {
  std::unique_lock hold(mutex_);
  changed_.wait(hold, [&] { return !closed_; });
  ++inside_;
}

void CommitGate::leave() {
  const std::lock_guard hold(mutex_);
  MULTIFORA_ASSERT(inside_ > 0);
  if (--inside_ == 0 && closed_) changed_.notify_all();
}

void CommitGate::close() {
  std::unique_lock hold(mutex_);
  changed_.wait(hold, [&] { return !closed_; });
  closed_ = true;
  changed_.wait(hold, [&] { return inside_ == 0; });
}

void CommitGate::open() {
  const std::lock_guard hold(mutex_);
  closed_ = false;
  changed_.notify_all();
}

}  // namespace multifora
