// commitTransaction and abortTransaction. The state machine is the session table's: what comes here is
// a transaction in progress, or a commit of one that has committed already.
#include "core/base/error_codes_rare.h"
#include "core/store/store.h"
#include "core/store/transaction.h"
#include "plugins/command-session/rows.h"

namespace multifora::session {
namespace {

Status check_in_transaction(CommandContext& context, const CommandRequest& request) {
  if (context.session().in_transaction) return {};
  return {ErrorCode::kCommandFailed,
          std::string(request.name()) + " must be run within a transaction"};
}

Status run_commit(CommandContext& context, const CommandRequest& request, DocumentBuilder&) {
  MULTIFORA_TRY(check_in_transaction(context, request));
  Transaction* const transaction = context.transaction();
  if (transaction == nullptr) {
    // Again: the first commit must be durable before it is confirmed.
    context.note_write(context.store().last_position());
    return {};
  }
  // What it has read may not be durable yet either.
  context.note_write(transaction->read_position());
  const SessionInfo& session = context.session();
  MULTIFORA_ASSIGN(const LogPosition position,
                   transaction->commit(StatementId{session.lsid, session.txn_number,
                                                   kCommitStatement}));
  context.note_write(position);
  return {};
}

Status run_abort(CommandContext& context, const CommandRequest& request, DocumentBuilder&) {
  MULTIFORA_TRY(check_in_transaction(context, request));
  if (context.transaction() != nullptr) context.transaction()->abort();
  return {};
}

}  // namespace

// kRetryableWrite: it may be sent again.
const CommandRow kCommitTransaction{
    .name = "commitTransaction",
    .aliases = {},
    .help = "makes the writes of the session's transaction visible and durable",
    .privilege = "",
    .lock = LockIntent::kWrite,
    .flags = kAdminOnly | kEndsTransaction | kRetryableWrite | kAcceptsWriteConcern |
             kAllowedInStrictApi,
    // For routers of a sharded cluster.
    .options = {{"recoveryToken", kOptObject, kNoEffect}},
    .run = run_commit,
};

const CommandRow kAbortTransaction{
    .name = "abortTransaction",
    .aliases = {},
    .help = "drops the session's transaction",
    .privilege = "",
    .lock = LockIntent::kNone,
    .flags = kAdminOnly | kEndsTransaction | kAcceptsWriteConcern | kAllowedInStrictApi,
    // For routers of a sharded cluster.
    .options = {{"recoveryToken", kOptObject, kNoEffect}},
    .run = run_abort,
};

}  // namespace multifora::session
