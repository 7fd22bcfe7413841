// getClusterParameter and setClusterParameter: changeStreamOptions, which says how long documents as they were
// before a change are told.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "core/plugin/command.h"
#include "core/store/store.h"

namespace multifora::change_stream {

// The parameter's value: a document of config.clusterParameters, read once. Threads: any.
class ImageRetention {
 public:
  static constexpr std::int64_t kOff = 0;
  // How long images are told, in seconds; kOff: as long as the change.
  std::int64_t seconds(Store& store);
  // When it was set (a cluster time); 0: never.
  std::uint64_t set_at(Store& store);
  // Is an image of a change at that cluster time too old?
  bool expired(Store& store, std::uint64_t cluster_time, std::int64_t now_ms);
  // Keeps it. Returns the position to be durable.
  Result<LogPosition> set(Store& store, std::int64_t seconds);

 private:
  void load(Store& store);

  std::mutex mutex_;
  std::atomic<bool> loaded_{false};
  std::atomic<std::int64_t> seconds_{kOff};
  std::atomic<std::uint64_t> set_at_{0};
};

extern const CommandRow kGetClusterParameter;
extern const CommandRow kSetClusterParameter;

}  // namespace multifora::change_stream
