// What the dispatcher asks of sessions: a request that names one passes through here. The state of
// sessions and their transactions is the implementer's (plugins/command-session); without that plugin
// sessions are only names.
//
//   enter() -> the handler -> leave()
//
// A service of the PluginHost; any thread may call. enter and leave of a request are on one thread,
// with nothing but the handler between them.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "core/plugin/command.h"

namespace multifora {

class SessionGate {
 public:
  virtual ~SessionGate() = default;

  // Notes the session's use. With a transaction number, waits until the session is free and checks the
  // number; within a transaction, starts or takes up the transaction, which is then the thread's and
  // the context's. Errors as MongoDB: 225 TransactionTooOld, 251 NoSuchTransaction, 256
  // TransactionCommitted, 261 TooManyLogicalSessions, 50911 ...
  virtual Status enter(CommandContext& context, const CommandRow& row) = 0;
  // After an OK enter(). A failed `outcome` aborts the transaction.
  virtual void leave(CommandContext& context, const CommandRow& row, const Status& outcome) = 0;

  // Sessions in use here: 16 bytes each, and when last (wall clock).
  virtual void list(const std::function<void(std::string_view lsid, std::int64_t last_use_ms)>& visit)
      const = 0;
};

}  // namespace multifora
