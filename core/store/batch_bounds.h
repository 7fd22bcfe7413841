// When a command that writes much commits its batch and begins another, so that it does not hold its
// collection's lock for long. One object a batch, one thread.
#pragma once

#include "core/base/clock.h"
#include "core/base/limits.h"
#include "core/store/collection.h"

namespace multifora {

class BatchBounds {
 public:
  // The batch begins now. `clock` outlives the object.
  explicit BatchBounds(const Clock& clock)
      : clock_(&clock), started_us_(clock.monotonic_us()) {}

  // Call it after each statement: is it time to commit? The clock is read now and then only.
  bool full_after(const CollectionWriter& writer) {
    ++statements_;
    if (statements_ >= limits::kLogBatchDocuments) return true;
    if (writer.batch_bytes() >= limits::kLogBatchBytes) return true;
    return statements_ % kStatementsBetweenLooks == 0 &&
           clock_->monotonic_us() - started_us_ > limits::kLogBatchMicros;
  }

 private:
  static constexpr std::size_t kStatementsBetweenLooks = 64;
  const Clock* clock_;
  std::int64_t started_us_;
  std::size_t statements_ = 0;
};

}  // namespace multifora
