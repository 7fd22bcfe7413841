// A command is one row and one handler. The dispatcher does everything that a row can say: finds
// the row, checks the options against its table, refuses what is not allowed where it runs, sets
// the deadline, waits for durability, fills in ok / operationTime / $clusterTime, meters and logs.
//
// Handlers run on any thread, many at once; one request is on one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/interrupt.h"
#include "core/base/status.h"
#include "core/bson/builder.h"
#include "core/bson/view.h"

namespace multifora {

class PluginHost;
class Store;
class Transaction;

// ---------------------------------------------------------------- the row

// Bits of accepted BSON types of an option.
enum OptionType : std::uint32_t {
  kOptString = 1u << 0,
  kOptObject = 1u << 1,
  kOptArray = 1u << 2,
  kOptBool = 1u << 3,
  kOptInt32 = 1u << 4,
  kOptInt64 = 1u << 5,
  kOptDouble = 1u << 6,
  kOptDecimal = 1u << 7,
  kOptBinary = 1u << 8,
  kOptTimestamp = 1u << 9,
  kOptObjectId = 1u << 10,
  kOptNull = 1u << 11,  // null is taken as "not given"
  kOptDate = 1u << 12,
  kOptNumber = kOptInt32 | kOptInt64 | kOptDouble | kOptDecimal,
  kOptBoolish = kOptBool | kOptNumber,  // IDL's safeBool
  kOptAny = 0xffffffffu,
};
enum OptionFlags : std::uint32_t {
  kOptional = 0,
  kRequired = 1u << 0,     // missing: error 40414
  kNonNegative = 1u << 1,  // number below 0: BadValue 2 / 51024 as IDL's validators report
  kArrayOfObjects = 1u << 2,  // may also arrive as a document sequence
  kUnsupported = 1u << 3,  // known to MongoDB, not implemented here: CommandNotSupported, naming it
  kNoEffect = 1u << 4,     // accepted, and rightly without effect here: a comment in the row says why
};
struct OptionSpec {
  std::string_view name;
  std::uint32_t types = kOptAny;
  std::uint32_t flags = kOptional;
};

// What a command does to the store. Handlers take the locks; the dispatcher refuses kWrite and kCatalog
// at once where the store takes no writes. What only may write (aggregate) is refused by the store.
enum class LockIntent { kNone, kRead, kWrite, kCatalog };

enum CommandFlags : std::uint32_t {
  kAdminOnly = 1u << 0,          // other databases: Unauthorized 13 "may only be run against the admin database"
  kAllowedInTransaction = 1u << 1,
  kAllowedBeforeAuth = 1u << 2,
  kRetryableWrite = 1u << 3,     // txnNumber without a transaction is meaningful
  kAcceptsWriteConcern = 1u << 5,
  kAcceptsReadConcern = 1u << 6,
  kAnyOptions = 1u << 7,         // the handler checks its fields itself (e.g. hello, explain)
  kCollectionName = 1u << 8,     // the first field's value must be a non-empty string
  kAllowedInStrictApi = 1u << 9,
  kPassesFailPoints = 1u << 10,  // fail points never strike it: it is what turns them off
  kEndsTransaction = 1u << 11,   // commits or aborts the session's transaction
  kContinuesCursor = 1u << 12,   // reads what a cursor does: readConcern snapshot, which drivers add, says nothing new
};

class CommandContext;
class CommandRequest;

struct CommandRow {
  std::string_view name;
  std::vector<std::string_view> aliases;
  std::string_view help;
  std::string_view privilege;  // the action it needs, e.g. "find"
  LockIntent lock = LockIntent::kNone;
  std::uint32_t flags = 0;
  std::vector<OptionSpec> options;  // without the generic ones (lsid, $db, maxTimeMS ...)
  // Appends the reply's fields, without ok. A failed Status becomes {ok: 0, errmsg, code, codeName}
  // and what the handler appended is dropped.
  Status (*run)(CommandContext& context, const CommandRequest& request, DocumentBuilder& reply);
};

// ---------------------------------------------------------------- the request

// A kind-1 section of OP_MSG.
struct DocumentSequence {
  std::string_view name;
  std::vector<DocumentView> documents;
};

// The parsed message. Views live until the reply is built.
class CommandRequest {
 public:
  CommandRequest(DocumentView body, std::string_view db, std::vector<DocumentSequence> sequences)
      : body_(body), db_(db), sequences_(std::move(sequences)) {}

  DocumentView body() const { return body_; }
  std::string_view db() const { return db_; }
  // The first field: the command's name as sent, and its value (usually the collection).
  std::string_view name() const { return body_.first().name(); }
  ValueView target() const { return body_.first().value(); }
  // "db.collection" of a command whose first value is a collection name.
  std::string ns() const;
  std::string_view collection() const { return target().as_string(); }

  ValueView option(std::string_view name) const { return body_[name]; }
  bool has(std::string_view name) const { return !body_[name].missing(); }
  bool flag(std::string_view name, bool otherwise) const;                   // bool or number
  std::int64_t integer(std::string_view name, std::int64_t otherwise) const;  // any number
  DocumentView document(std::string_view name) const;                       // empty where absent
  const std::vector<DocumentSequence>& sequences() const { return sequences_; }
  // The documents of an array option, whether in the body or in a document sequence.
  std::vector<DocumentView> documents(std::string_view name) const;

 private:
  DocumentView body_;
  std::string_view db_;
  std::vector<DocumentSequence> sequences_;
};

// ---------------------------------------------------------------- the context

// Who sent it; lives as long as the connection.
struct ClientInfo {
  std::int64_t connection_id = 0;
  std::string remote;        // "127.0.0.1:54321"
  std::string local;
  std::string app_name;
  OwnedDocument metadata;    // hello's client document
  bool speaks_hello = false;
};

enum class ReadLevel { kLocal, kAvailable, kMajority, kLinearizable, kSnapshot };

// The session part of a request, and the read concern that a transaction or a snapshot starts with.
struct SessionInfo {
  std::string lsid;                 // the 16 bytes of lsid.id; empty: none
  std::int64_t txn_number = -1;     // -1: none
  bool in_transaction = false;      // autocommit: false
  bool start_transaction = false;
  bool has_read_concern = false;
  ReadLevel read_level = ReadLevel::kLocal;
  std::uint64_t at_cluster_time = 0;  // 0: not given
};

// Asks the dispatcher to call the handler again: when `ready` is signalled through Waker, or at the
// deadline. Nothing of the first reply is kept. Used by awaitData, change streams, awaitable hello.
struct Wait {
  std::int64_t deadline_us = 0;  // Clock::monotonic_us
  // Registers `wake`, to be called at most once, from any thread; returns a function that
  // unregisters it (called in any case before the handler runs again).
  std::function<std::function<void()>(std::function<void()> wake)> subscribe;
};

class CommandContext {
 public:
  CommandContext(PluginHost& host, Store* store, ClientInfo& client, Interrupt& interrupt)
      : host_(host), store_(store), client_(client), interrupt_(interrupt) {}

  PluginHost& host() const { return host_; }
  // Requires has_store(); only tests run commands without one.
  Store& store() const { return *store_; }
  bool has_store() const { return store_ != nullptr; }
  ClientInfo& client() const { return client_; }
  Interrupt& interrupt() const { return interrupt_; }
  SessionInfo& session() { return session_; }
  // Null outside a transaction.
  Transaction* transaction() const { return transaction_; }
  void set_transaction(Transaction* transaction) { transaction_ = transaction; }

  // The reply is held back until the log is durable up to the largest position noted here
  // (unless the write concern says otherwise). Position = cluster time.
  void note_write(std::uint64_t log_position) {
    if (log_position > write_position_) write_position_ = log_position;
  }
  std::uint64_t write_position() const { return write_position_; }

  // See Wait. The handler then returns OK.
  void wait_for(Wait wait) { wait_ = std::make_unique<Wait>(std::move(wait)); }
  std::unique_ptr<Wait> take_wait() { return std::move(wait_); }
  // State that the handler keeps between calls of one waiting request.
  std::shared_ptr<void>& wait_state() { return wait_state_; }

  std::int64_t operation_id = 0;
  // The client asked for a stream of replies (OP_MSG exhaustAllowed); the handler sets more_to_come
  // where another reply follows without a further request.
  bool exhaust_allowed = false;
  bool more_to_come = false;
  // Cluster time of the snapshot that is read outside a transaction; 0: none. Replies with cursors
  // show it; what keeps it belongs to the cursor.
  std::uint64_t snapshot_time = 0;
  std::shared_ptr<void> snapshot;
  // The client wants nothing that the versioned API has not.
  bool api_strict = false;
  // For fail points: instead of a reply the connection is closed.
  bool close_connection = false;

 private:
  PluginHost& host_;
  Store* store_;
  ClientInfo& client_;
  Interrupt& interrupt_;
  SessionInfo session_;
  Transaction* transaction_ = nullptr;
  std::uint64_t write_position_ = 0;
  std::unique_ptr<Wait> wait_;
  std::shared_ptr<void> wait_state_;
};

// Services that the server offers to diagnostic commands; registered with PluginHost::add_service.
// Embedded use registers one that answers for a process without a network.
class ServerControl {
 public:
  virtual ~ServerControl() = default;
  // Appends host-specific parts: connections, network, uptime, configuration, log lines.
  virtual void append_server_status(DocumentBuilder& reply) const = 0;
  virtual std::vector<std::string> recent_log_lines() const = 0;
  virtual OwnedDocument command_line() const = 0;   // getCmdLineOpts: {argv, parsed}
  virtual Status rotate_log() = 0;
  virtual void request_shutdown() = 0;
  // Running operations as currentOp shows them.
  virtual void append_operations(ArrayBuilder& out, bool idle_connections) const = 0;
  virtual Status kill_operation(std::int64_t operation_id) = 0;
  // Ends what runs in these sessions (16 bytes of lsid.id each); empty: in any session.
  virtual void kill_sessions(const std::vector<std::string>& lsids) { (void)lsids; }
  // "host:port" that clients can dial where the configuration says so, otherwise empty: then it is the
  // address that the client dialled (ClientInfo::local). And the replica set's name ("": a standalone).
  virtual std::string advertised_address() const = 0;
  virtual std::string set_name() const = 0;
  virtual std::int64_t start_wall_ms() const = 0;
  // hello's topologyVersion.processId.
  virtual ObjectId process_id() const = 0;
  virtual std::vector<std::string> wire_compressors() const = 0;
};

// Finds and runs a command: for commands that contain commands (explain, bulkWrite) and for
// programs that link the library. Implemented by the dispatcher.
class CommandRunner {
 public:
  virtual ~CommandRunner() = default;
  // The full reply, with ok. Does not wait for durability; note_write is passed on to `context`.
  virtual OwnedDocument run(CommandContext& context, const CommandRequest& request) = 0;
};

}  // namespace multifora
