// Cursors between commands: what find and aggregate leave for getMore.
//
// A ClientCursor at rest holds no lock and no view. The manager owns it; a getMore pins it (nobody
// else can use it meanwhile) and puts it back or lets it go. Ids are random, so that they cannot be
// guessed; a cursor belongs to the session that made it. Idle ones end after a timeout, and there is
// a bound on how many there may be.
// A service of the PluginHost; any thread may call. A ClientCursor is used by one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/clock.h"
#include "core/base/interrupt.h"
#include "core/base/status.h"
#include "core/bson/builder.h"
#include "core/bson/view.h"
#include "core/plugin/command.h"
#include "core/plugin/host.h"

namespace multifora {

class ClientCursor {
 public:
  virtual ~ClientCursor() = default;
  // The next document; lives until the following call.
  virtual Result<std::optional<DocumentView>> next() = 0;
  // Known to be at its end, so that no cursor need be kept.
  virtual bool exhausted() const = 0;
  virtual bool tailable() const { return false; }
  virtual bool await_data() const { return false; }
  // A tailable cursor that has come to its end for good.
  virtual bool ended() const { return false; }
  // The latest document went into a batch.
  virtual void delivered() {}
  // Appends fields to the cursor of a reply, after the batch.
  virtual void append_to_reply(DocumentBuilder& cursor) const { static_cast<void>(cursor); }
  // Of one that awaits data: calls `wake` once when there may be more than now; returns a function that
  // unregisters. Both may be called when the cursor is gone. Empty: any write may bring some.
  using Subscribe = std::function<std::function<void()>(std::function<void()> wake)>;
  virtual Subscribe subscriber() const { return {}; }
  // Gives up locks at the end of a command, and takes them again for the next one.
  virtual Status detach() = 0;
  virtual Status attach(CommandContext& context) = 0;
};

// A cursor with what commands need to know of it.
struct OpenCursor {
  std::int64_t id = 0;
  std::string ns;
  std::string lsid;  // empty: made outside a session
  std::int64_t txn_number = -1;  // of the transaction that made it; -1: none
  std::uint64_t snapshot_time = 0;  // of the snapshot that it reads; 0: none
  std::shared_ptr<void> snapshot;   // keeps it
  std::unique_ptr<ClientCursor> cursor;
  bool no_timeout = false;
  OwnedDocument stash;  // a document that did not fit into the last batch
  bool has_stash = false;
  std::int64_t used_ms = 0;
};

class CursorManager {
 public:
  // Reads query-engine.cursor_timeout_ms: to be made while plugins register.
  explicit CursorManager(PluginHost& host);

  // Keeps a cursor; its id. TooManyFilesOpen where there are too many already.
  Result<std::int64_t> keep(std::unique_ptr<OpenCursor> cursor);

  // A cursor in use. Given back by keep_open(); otherwise it ends with the pin.
  class Pin {
   public:
    Pin(CursorManager& manager, OpenCursor* cursor) : manager_(&manager), cursor_(cursor) {}
    Pin(Pin&& other) noexcept : manager_(other.manager_), cursor_(other.cursor_) {
      other.cursor_ = nullptr;
    }
    Pin(const Pin&) = delete;
    Pin& operator=(Pin&&) = delete;
    ~Pin();
    OpenCursor& operator*() const { return *cursor_; }
    OpenCursor* operator->() const { return cursor_; }
    void keep_open();

   private:
    CursorManager* manager_;
    OpenCursor* cursor_;
  };
  // CursorNotFound (43), Unauthorized (13: another namespace), CursorInUse (12051), 50736..50738
  // (another session), 50739..50741 (another transaction). `interrupt` is killed where the cursor is
  // killed meanwhile.
  Result<Pin> pin(std::int64_t id, std::string_view ns, const SessionInfo& session,
                  Interrupt* interrupt);

  // Calls `wake` once when the cursor is killed, at once where it is gone already; returns a function
  // that unregisters. For a getMore that waits, which has its cursor put back meanwhile. `wake` must not
  // use the manager.
  std::function<void()> on_kill(std::int64_t id, std::function<void()> wake);

  // False: no such cursor of this namespace.
  bool kill(std::int64_t id, std::string_view ns);
  void kill_session(std::string_view lsid);
  // Those of one transaction, at its end.
  void kill_transaction(std::string_view lsid, std::int64_t txn_number);
  void kill_all();
  // Ends those idle for too long; how many.
  std::size_t sweep();

  struct Stats {
    std::uint64_t open = 0, pinned = 0, no_timeout = 0, timed_out = 0, total = 0;
  };
  Stats stats() const;

 private:
  struct Slot {
    std::unique_ptr<OpenCursor> cursor;
    bool pinned = false;
    bool killed = false;
    Interrupt* interrupt = nullptr;
    std::map<std::uint64_t, std::function<void()>> wakers;
  };
  void release(OpenCursor* cursor, bool keep);
  void kill_if(const std::function<bool(const OpenCursor&)>& chosen);
  bool kill_locked(std::unordered_map<std::int64_t, Slot>::iterator at,
                   std::vector<std::unique_ptr<OpenCursor>>& ended);

  PluginHost& host_;
  const std::int64_t idle_ms_;
  mutable std::mutex mutex_;
  std::unordered_map<std::int64_t, Slot> slots_;
  std::mt19937_64 random_;
  std::uint64_t timed_out_ = 0, total_ = 0, next_waker_ = 0;
};

// Ends idle cursors.
std::unique_ptr<BackgroundTask> make_cursor_sweeper(std::shared_ptr<CursorManager> manager);

// --- batches ----------------------------------------------------------------------------------------

struct BatchLimits {
  std::int64_t documents = -1;  // -1: as many as fit
  std::size_t bytes = 16 * 1024 * 1024;
};
// The option `cursor: {batchSize}` of a command, whose default is `otherwise`.
Result<BatchLimits> read_cursor_option(const CommandRequest& request, std::int64_t otherwise);
// Appends documents to `batch`, first a stashed one. True where the cursor goes on.
Result<bool> fill_batch(OpenCursor& cursor, const BatchLimits& limits, ArrayBuilder& batch);

// The reply of a command that makes a cursor: {cursor: {firstBatch, id, ns}}. Keeps the cursor where
// it goes on and `single_batch` is not set.
Status reply_first_batch(CommandContext& context, std::unique_ptr<OpenCursor> cursor,
                         const BatchLimits& limits, bool single_batch, DocumentBuilder& reply);
// The same without a cursor.
void reply_empty_cursor(const CommandContext& context, std::string_view ns, DocumentBuilder& reply);

}  // namespace multifora
