// The sweep that deletes documents whose date is older than their index's expireAfterSeconds allows.
//
// A pass goes over all TTL indexes, from what the catalog lists when it begins. Each run() looks for the
// next index with something due and deletes one batch of it, so that a shutdown waits for one batch
// only; while a pass is under way interval_ms() is 0. An index that fails is logged and left until the
// next pass; the others go on.
//
// Threads: run() and interval_ms() are the scheduler's, one at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "core/base/metrics.h"
#include "core/plugin/host.h"
#include "core/store/store.h"

namespace multifora {

class TtlSweep final : public BackgroundTask {
 public:
  TtlSweep(Metrics& metrics, std::int64_t interval_ms);
  std::string_view name() const override { return "ttl"; }
  std::int64_t interval_ms() const override { return in_pass_ ? 0 : interval_ms_; }
  Status run(Store& store) override;

 private:
  // Where the pass is in an index: entries up to this one were looked at.
  struct Work {
    std::string ns, index;
    Buffer after;  // empty: nothing yet
    RecordId after_id = 0;
  };
  Status begin_pass(Store& store);
  // One batch of the first index of the pass; true: there may be more of it.
  Result<bool> sweep_batch(Store& store, Work& work, std::size_t* deleted);

  const std::int64_t interval_ms_;
  bool in_pass_ = false;
  std::deque<Work> todo_;
  Counter& passes_;
  Counter& deleted_;
};

}  // namespace multifora
