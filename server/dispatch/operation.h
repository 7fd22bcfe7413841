// An Operation is a place for one request at a time: its reply, its command context, and what
// currentOp shows of it. A connection (or an embedded caller) owns one and uses it for each request
// in turn, so that a request allocates next to nothing.
//
// The owner's thread works on it; the registry's readers see only what `mutex_` guards.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_set>
#include <vector>

#include "core/base/interrupt.h"
#include "core/bson/builder.h"
#include "core/bson/view.h"
#include "core/plugin/command.h"
#include "server/dispatch/arguments.h"
#include "server/dispatch/concerns.h"
#include "server/dispatch/fail_command.h"

namespace multifora {

class Dispatcher;
struct DispatchRow;

// How a request came, beside its bytes.
struct RequestTraits {
  bool exhaust_allowed = false;
  std::string_view db = {};  // where the body has no $db (OP_QUERY, embedded use)
};

class Operation {
 public:
  explicit Operation(ClientInfo& client) : client_(client) {}
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  // The reply's document is appended here. The owner may put a frame before it first.
  Buffer reply;

  ClientInfo& client() const { return client_; }
  // The handler has more replies to the same request: send this one, then Dispatcher::again.
  bool more_to_come() const { return more_to_come_; }
  // What the reply waits for, after Next::kDurable.
  std::uint64_t durable_position() const { return durable_position_; }
  // How long it may wait for that (wtimeout), 0: for ever. Afterwards Dispatcher::write_timed_out.
  std::int64_t durable_timeout_ms() const { return durable_timeout_ms_; }
  // What to subscribe to, after Next::kWait.
  std::unique_ptr<Wait> take_wait() { return std::move(wait_); }
  // Ends what runs at the next check; any thread. Nothing where nothing runs.
  void kill(ErrorCode reason);
  // While a request waits: what makes it go on, called where it is killed or was already. Empty: it does not wait. The
  // function may be called at any time until it is replaced, under this operation's lock.
  void set_waker(std::function<void()> wake);
  // Milliseconds that the present request has run for; -1: none runs. Any thread.
  std::int64_t running_ms(const Clock& clock) const;

 private:
  void kill_locked(ErrorCode reason);
  friend class Dispatcher;
  friend class OperationRegistry;

  ClientInfo& client_;

  // --- guarded by mutex_, written by the owner's thread ---
  mutable std::mutex mutex_;
  std::int64_t id_ = 0;
  std::int64_t started_us_ = 0;
  const DispatchRow* row_ = nullptr;  // not null: a request runs
  DocumentView body_;     // the command; empty while its reply waits for the disk
  std::string shown_ns_;  // then: its namespace
  std::string shown_app_name_;
  OwnedDocument shown_metadata_;
  std::optional<Interrupt> interrupt_;
  std::function<void()> wake_;

  // --- the owner's thread only ---
  std::optional<CommandContext> context_;
  std::optional<CommandRequest> request_;
  OwnedDocument kept_body_;  // where the request outlives its message
  std::string kept_db_;
  Arguments arguments_;
  WriteConcern write_concern_;
  ReadConcern read_concern_;
  std::string lsid_spare_;  // keeps its capacity from request to request
  std::size_t reply_start_ = 0;
  std::uint64_t durable_position_ = 0;
  std::int64_t durable_timeout_ms_ = 0;
  std::unique_ptr<Wait> wait_;
  bool more_to_come_ = false;
  bool metadata_shown_ = false;
  std::optional<CommandFault> fault_;  // set by the fail point failCommand
  bool blocked_ = false;               // by it: the handler has not been called yet
  struct KeptSequence {
    std::string name;
    std::vector<OwnedDocument> documents;
  };
  std::vector<std::unique_ptr<KeptSequence>> kept_sequences_;  // they go with kept_body_
  bool waited_ = false;  // its duration says nothing about its speed
  ErrorCode error_ = ErrorCode::kOK;
};

// Every operation of a server, for currentOp, killOp and shutdown. Any thread may call.
class OperationRegistry {
 public:
  void attach(Operation* operation);
  void detach(Operation* operation);
  // As currentOp's inprog shows them.
  void append(ArrayBuilder& out, bool idle_connections, const Clock& clock) const;
  // NoSuchKey where none runs under this id.
  Status kill(std::int64_t operation_id, ErrorCode reason);
  void kill_all(ErrorCode reason);
  // Kills what runs in one of these sessions (16 bytes each); empty: in any session.
  void kill_sessions(const std::vector<std::string>& lsids);
  std::size_t running() const;

 private:
  mutable std::mutex mutex_;
  std::unordered_set<Operation*> operations_;
};

}  // namespace multifora
