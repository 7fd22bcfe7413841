// libmultifora: MultiforaDB inside a program, without a socket.
//
//   auto database = multifora::Database::open("data");
//   if (!database) { ... database.error().message() ... }
//   multifora::DocumentBuilder builder;
//   builder.append("ping", 1);
//   const multifora::OwnedDocument command = std::move(builder).finish();
//   const multifora::OwnedDocument reply = (*database)->run_command("test", command.view());
//
// Commands and replies are those of the server, as BSON documents. A write's reply comes when it is
// durable, unless its writeConcern says j: false or w: 0. Any thread may run commands, many at once.
// The directory is locked: one process a database.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/base/log.h"
#include "core/base/status.h"
#include "core/bson/builder.h"
#include "core/bson/extended_json.h"
#include "core/bson/view.h"

namespace multifora {

struct DatabaseOptions {
  // Empty: no $clusterTime, no retryable writes, as a standalone server.
  std::string set_name = "rs0";
  std::uint64_t checkpoint_log_bytes = 256u << 20;
  std::uint64_t memory_budget_bytes = 0;  // resident data; 0: a quarter of the machine's memory
  bool background = true;                 // run TTL sweeps and the like on a thread of its own
  LogSink* log = nullptr;                 // outlives the database; null: no log
};

class Database {
 public:
  // Opens or creates the database in directory `path`. The error's message says what to do.
  static Result<std::unique_ptr<Database>> open(const std::string& path,
                                                const DatabaseOptions& options = {});
  // Closes; no command may run any more.
  ~Database();
  // Checkpoints and closes. Afterwards commands are refused. Call it to learn of failures.
  Status close();

  // Runs a command on database `db`. The reply has ok: 1, or ok: 0 with errmsg, code and codeName.
  // `command` must be valid BSON (see DocumentView); foreign bytes: run_command_bytes.
  OwnedDocument run_command(std::string_view db, DocumentView command);
  // The same for bytes that may be no BSON: InvalidBSON is a reply, too.
  OwnedDocument run_command_bytes(std::string_view db, std::string_view bson);

 private:
  struct Impl;
  explicit Database(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace multifora
