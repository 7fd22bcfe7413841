// The dispatcher does everything about a command that its row can say: finds it, checks its fields,
// refuses what is not allowed where it runs, sets the deadline, runs the handler, waits for
// durability, fills in ok / $clusterTime / operationTime, meters and logs. It knows no command by
// name and no socket: the server and libmultifora both use it.
//
// A request goes start -> kReply                          (the reply is whole)
//                  or -> kDurable -> durable()            (whole, held back until it is on disk;
//                                                          the request's bytes may go)
//                  or -> kWait    -> resume() -> ...      (the handler waits for an event)
//                  or -> kClose                           (no reply: the connection is to be closed)
// and, where a reply has more_to_come(), again() -> ... for the next one.
//
// Any number of threads; one operation is on one thread at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/metrics.h"
#include "core/plugin/command.h"
#include "core/plugin/host.h"
#include "server/dispatch/durability.h"
#include "server/dispatch/operation.h"

namespace multifora {

struct DispatchOptions {
  std::string set_name = "rs0";  // empty: a standalone
  std::int64_t slow_ms = 100;    // slower commands are logged
};

// A command's row with what the dispatcher keeps about it.
struct DispatchRow {
  const CommandRow* row = nullptr;
  Counter* total = nullptr;
  Counter* failed = nullptr;
  Counter* latency_us = nullptr;
};

class DefaultConcerns;
class FailPoints;
class SessionGate;

class Dispatcher : public CommandRunner {
 public:
  // `host` is frozen. `store` and `durability` may be null (then nothing waits for a disk). All
  // outlive the dispatcher.
  Dispatcher(PluginHost& host, Store* store, Durability* durability, DispatchOptions options);
  ~Dispatcher() override;

  enum class Next { kReply, kDurable, kWait, kClose };

  // `body` and `sequences` must live until the request is done, or until keep_request().
  Next start(Operation& operation, DocumentView body, std::vector<DocumentSequence> sequences,
             const RequestTraits& traits);
  // Copies the request, so that the message it came in may go. For kWait and more_to_come.
  void keep_request(Operation& operation);
  Next resume(Operation& operation);
  Next again(Operation& operation);
  // The reply of kDurable may go out now; a failure replaces it.
  void durable(Operation& operation, const Status& status);
  // The same where Operation::durable_timeout_ms has passed first: the reply says so, and goes out.
  void write_timed_out(Operation& operation);
  // After the last reply was taken: frees what the request held.
  void finish(Operation& operation);
  // An error reply to something that is no request at all.
  void refuse(Operation& operation, const Status& status);

  OwnedDocument run(CommandContext& context, const CommandRequest& request) override;

  OperationRegistry& operations() { return operations_; }
  Durability* durability() const { return durability_; }
  PluginHost& host() const { return host_; }

 private:
  const DispatchRow* find(std::string_view name) const;
  Status prepare(Operation& operation, DocumentView body,
                 const std::vector<DocumentSequence>& sequences, const RequestTraits& traits);
  Status take_cluster_time(std::uint64_t time);
  Status admit(Operation& operation, const CommandRow& row);
  Status check_in_transaction(const CommandRow& row, const Arguments& arguments) const;
  Status check_session(const CommandRow& row, const Arguments& arguments) const;
  Status check_api(const CommandRow& row, const Arguments& arguments) const;
  Status apply_defaults(Operation& operation, const CommandRow& row);
  Status check_concerns(Operation& operation, const CommandRow& row);
  Next strike(Operation& operation);
  Next after_block(Operation& operation);
  Status run_in_session(Operation& operation, DocumentBuilder& reply);
  Next run_handler(Operation& operation);
  Next complete(Operation& operation, const Status& status);
  static std::vector<DocumentSequence> keep_sequences(Operation& operation);
  static void let_message_go(Operation& operation);
  void append_tail(Operation& operation, DocumentBuilder& reply) const;
  static void append_labels(const Operation& operation, ErrorCode code, DocumentBuilder& reply);
  void append_times(Operation& operation);
  void replace_reply(Operation& operation, const Status& status);
  std::uint64_t position_to_wait_for(Operation& operation) const;
  std::uint64_t cluster_time() const;
  void meter(Operation& operation);
  void note_latency(const Operation& operation, std::int64_t duration_us) const;
  void log_slow(Operation& operation, std::int64_t duration_us) const;
  void log_failure(const Operation& operation, const Status& status) const;
  bool replica_set() const { return !options_.set_name.empty(); }

  PluginHost& host_;
  Store* store_;
  Durability* durability_;
  DispatchOptions options_;
  SessionGate* sessions_;      // null: nobody keeps sessions
  DefaultConcerns* defaults_;  // null: there are none
  FailPoints* fail_points_;    // null but in a server with test commands
  std::uint64_t boot_time_;
  std::unordered_map<std::string_view, DispatchRow> rows_;
  OperationRegistry operations_;
  std::atomic<std::int64_t> next_operation_id_{1};
};

}  // namespace multifora
