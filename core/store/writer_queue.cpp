#include "core/store/writer_queue.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/base/interrupt.h"

namespace multifora {
namespace {

using std::chrono::microseconds;

// How often the first in line looks whether it still has to wait.
constexpr std::int64_t kLookUs = 2'000;
// How often the others look whether they are interrupted.
constexpr std::int64_t kInterruptUs = 20'000;
// So little debt makes nobody wait: a wake-up costs about as much as a small write.
constexpr std::int64_t kDebtAllowedUs = 500;

// Of what recent writes retired, the last one counts for one in so many.
constexpr std::int64_t kRecentWrites = 8;

// What this thread's last write took.
thread_local std::uint64_t last_taken_bytes = 0;

std::int64_t now_us() {
  return std::chrono::duration_cast<microseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

// --- turns ---

WriterQueue::Turn::Turn(Turn&& other) noexcept
    : queue_(std::exchange(other.queue_, nullptr)),
      charged_bytes_(other.charged_bytes_),
      retiring_bytes_(other.retiring_bytes_) {}

WriterQueue::Turn& WriterQueue::Turn::operator=(Turn&& other) noexcept {
  std::swap(queue_, other.queue_);
  std::swap(charged_bytes_, other.charged_bytes_);
  std::swap(retiring_bytes_, other.retiring_bytes_);
  return *this;
}

void WriterQueue::Turn::end() {
  if (queue_ != nullptr) queue_->retiring_bytes_ -= retiring_bytes_;
  queue_ = nullptr;
}

void WriterQueue::Turn::wrote(std::uint64_t taken_bytes, std::uint64_t retired_bytes) {
  last_taken_bytes = taken_bytes;
  WriterQueue* const queue = queue_;
  end();
  if (queue == nullptr) return;
  // Two at once may lose the one or the other.
  const auto usual = static_cast<std::int64_t>(queue->usually_retired_bytes_);
  queue->usually_retired_bytes_ = static_cast<std::uint64_t>(
      usual + (static_cast<std::int64_t>(retired_bytes) - usual) / kRecentWrites);
  if (taken_bytes > charged_bytes_) queue->charge(taken_bytes - charged_bytes_);
}

// --- the line ---

Result<WriterQueue::Turn> WriterQueue::pass(Interrupt* interrupt) {
  const std::uint64_t owed_bytes = std::exchange(last_taken_bytes, 0);
  const std::uint64_t retiring_bytes = usually_retired_bytes_;
  double pressed = pressure();
  Lock hold(mutex_);
  const std::int64_t start = now_us();
  if (!line_.empty() || pacer_.debt_us(pressed, start) > kDebtAllowedUs) {
    Waiter self;
    line_.push_back(&self);
    ++waits_count_;
    const Status status = wait_in_line(hold, self, owed_bytes, interrupt, &pressed);
    const bool was_first = line_.front() == &self;
    line_.remove(&self);
    if (was_first && !line_.empty()) line_.front()->wake.notify_one();
    waited_us_ += static_cast<std::uint64_t>(now_us() - start);
    if (!status.ok()) return fail(status);
  }
  pacer_.charge(owed_bytes, pressed, now_us());
  retiring_bytes_ += retiring_bytes;
  return Turn(this, pressed > 0 ? owed_bytes : 0, retiring_bytes);
}

Status WriterQueue::wait_in_line(Lock& hold, Waiter& self, std::uint64_t owed_bytes,
                                 Interrupt* interrupt, double* pressed) {
  hold.unlock();
  waits_();
  hold.lock();
  std::int64_t turn_us = 0;  // when it came
  while (true) {
    if (interrupt != nullptr) MULTIFORA_TRY(interrupt->check_slow());
    if (line_.front() != &self) {
      self.wake.wait_for(hold, microseconds(kInterruptUs));
      continue;
    }
    hold.unlock();
    *pressed = pressure();
    hold.lock();
    const std::int64_t now = now_us();
    if (turn_us == 0) turn_us = now;
    const std::int64_t debt = pacer_.debt_us(*pressed, now);
    const std::int64_t rest = std::min(debt, turn_us + WritePacer::wait_max_us(owed_bytes) - now);
    if (debt <= kDebtAllowedUs || rest <= 0) return {};
    self.wake.wait_for(hold, microseconds(std::min(rest, kLookUs)));
  }
}

void WriterQueue::charge(std::uint64_t bytes) {
  const double pressed = pressure();
  if (pressed <= 0) return;
  const std::lock_guard hold(mutex_);
  pacer_.charge(bytes, pressed, now_us());
}

void WriterQueue::ease() {
  const std::lock_guard hold(mutex_);
  if (!line_.empty()) line_.front()->wake.notify_one();
}

WriterQueue::Report WriterQueue::report() const {
  const std::lock_guard hold(mutex_);
  return {waits_count_, waited_us_, line_.size()};
}

}  // namespace multifora
