// The sweep that deletes documents whose date is older than their index's expireAfterSeconds allows.
// It walks only the due band of each index, in small batches, one collection at a time.
#pragma once

#include <cstdint>

#include "core/base/metrics.h"
#include "core/plugin/host.h"
#include "core/store/store.h"

namespace multifora {

class TtlSweep final : public BackgroundTask {
 public:
  TtlSweep(Metrics& metrics, std::int64_t interval_ms);
  std::string_view name() const override { return "ttl"; }
  std::int64_t interval_ms() const override { return interval_ms_; }
  Status run(Store& store) override;

 private:
  Status sweep_collection(Store& store, const std::string& ns);

  std::int64_t interval_ms_;
  Counter& passes_;
  Counter& deleted_;
};

}  // namespace multifora
