// What the dispatcher needs of the log: how far it has come, and a call when it is on disk. The
// server passes the store's; tests and a process without a store pass none. Any thread may call.
#pragma once

#include <cstdint>
#include <functional>

#include "core/base/status.h"

namespace multifora {

class Durability {
 public:
  using Callback = std::function<void(const Status&)>;
  virtual ~Durability() = default;

  // Positions are cluster times: seconds in the high, an increment in the low 32 bits.
  virtual std::uint64_t last_position() const = 0;
  virtual std::uint64_t durable_position() const = 0;
  // A client knows this time (from another member, or from before a crash): later writes come after.
  virtual void advance_to(std::uint64_t position) { (void)position; }
  // Calls back once everything up to `position` is durable, or the log has failed. It may run at
  // once, on this thread, and may sync on this thread first. Callbacks are short and do not write.
  virtual void when_durable(std::uint64_t position, Callback callback) = 0;
  // Not OK: writes are refused, with the reason and what to do.
  virtual Status health() const = 0;
};

}  // namespace multifora
