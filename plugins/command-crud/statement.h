// What the write commands share: collecting write errors, and retryable
// statements. One command's; one thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/plugin/command.h"
#include "core/plugin/option_check.h"
#include "core/store/store.h"

namespace multifora::crud {

// Number of statements: InvalidLength outside 1..100,000.
Status check_batch_size(std::size_t count);

// Failures that end the command rather than one statement.
bool ends_command(const CommandContext& context, ErrorCode code);
// After a statement failed: where it was part of a transaction, that is aborted, and true.
bool aborts_transaction(const CommandContext& context);
// A write outside transactions met what a running transaction has written (WriteConflict): waits,
// holding nothing, until it may be tried again. Not OK: the command was interrupted.
Status wait_for_writers(const CommandContext& context);
// WriteConflict outside a transaction.
bool must_wait(const CommandContext& context, const Status& status);

// {index, code, errmsg, keyPattern ...} of failed statements.
class WriteErrors {
 public:
  void add(std::size_t index, const Status& status);
  bool empty() const { return count_ == 0; }
  // Appends `writeErrors` where there are some.
  void append_to(DocumentBuilder& reply);

 private:
  ArrayBuilder errors_;
  std::size_t count_ = 0;
};
void append_write_error(DocumentBuilder& out, const Status& status);

// The statements of a retryable write. Without a transaction number there is nothing to it.
class RetryableStatements {
 public:
  static Result<RetryableStatements> make(CommandContext& context, const CommandRequest& request,
                                          std::size_t count);
  bool enabled() const { return enabled_; }
  std::optional<StatementId> id(std::size_t index) const;
  // The first result of this statement, where it ran before; notes it for append_to.
  Result<std::optional<OwnedDocument>> find(std::size_t index);
  // retriedStmtIds, where some statement had run before.
  void append_to(DocumentBuilder& reply) const;
  const std::vector<std::int32_t>& retried() const { return retried_; }

 private:
  CommandContext* context_ = nullptr;
  bool enabled_ = false;
  std::int32_t first_ = 0;
  std::vector<std::int32_t> ids_;
  std::vector<std::int32_t> retried_;
};

// InvalidNamespace.
Status check_writable(const std::string& ns);
Status refuse_view(const std::string& ns);  // CommandNotSupportedOnView

}  // namespace multifora::crud
