// Running operations and the server's life: currentOp, killOp, fsync, shutdown, top.
#include "core/plugin/generic_arguments.h"
#include "core/plugin/host.h"
#include "core/store/store.h"
#include "plugins/command-diagnostic/commands.h"
#include "plugins/query-engine/current_op.h"
#include "plugins/query-engine/expression.h"
#include "plugins/query-engine/matcher.h"

namespace multifora::diagnostic_commands {
namespace {

// The fields of a currentOp command that are no options of its: conditions on what it shows.
OwnedDocument current_op_filter(const CommandRequest& request) {
  DocumentBuilder filter;
  bool first = true;
  for (const Element& field : request.body()) {
    const bool is_option = first || field.name() == "$all" || field.name() == "$ownOps" ||
                           field.name() == "$truncateOps" ||
                           find_generic_argument(field.name()) != nullptr;
    first = false;
    if (!is_option) filter.append(field.name(), field.value());
  }
  return std::move(filter).finish();
}

void append_all_operations(CommandContext& context, bool idle, ArrayBuilder& operations) {
  if (const auto* server = context.host().service<ServerControl>())
    server->append_operations(operations, idle);
  append_index_builds(context.store(), operations);
  const auto backup = context.store().backup_progress();
  if (!backup) return;
  auto row = operations.object();
  row.append("type", "op").append("desc", "Backup").append("active", true);
  row.append("msg", "Backup: bytes copied");
  auto progress = row.object("progress");
  progress.append("done", static_cast<std::int64_t>(backup->done_bytes));
  progress.append("total", static_cast<std::int64_t>(backup->total_bytes));
}

Status run_current_op(CommandContext& context, const CommandRequest& request,
                      DocumentBuilder& reply) {
  const OwnedDocument spec = current_op_filter(request);
  MULTIFORA_ASSIGN(const auto filter, Matcher::compile(spec.view(), MatcherOptions()));
  ArrayBuilder all;
  append_all_operations(context, request.flag("$all", false), all);
  const OwnedDocument operations = std::move(all).finish();
  ArrayBuilder shown = reply.array("inprog");
  for (const Element& operation : operations.view()) {
    EvalContext eval;
    MULTIFORA_ASSIGN(const bool wanted, filter->matches(operation->as_document(), &eval));
    if (wanted) shown.append(operation->as_document());
  }
  return {};
}

Status run_kill_op(CommandContext& context, const CommandRequest& request, DocumentBuilder& reply) {
  const ValueView operation = request.option("op");
  if (!operation.is_number())
    return {ErrorCode::kNoSuchKey, "Expected field \"op\" to be a number"};
  auto* server = context.host().service<ServerControl>();
  if (server != nullptr) static_cast<void>(server->kill_operation(operation.number_as_int64()));
  reply.append("info", "attempting to kill op");
  return {};
}

// Everything acknowledged is durable already; this also writes a checkpoint.
Status run_fsync(CommandContext& context, const CommandRequest& request, DocumentBuilder& reply) {
  if (request.flag("lock", false))
    return {ErrorCode::kCommandNotSupported,
            "fsync with lock is not supported: copy a running database with createBackup"};
  MULTIFORA_TRY(context.store().checkpoint());
  reply.append("numFiles", 1);
  return {};
}

Status run_fsync_unlock(CommandContext&, const CommandRequest&, DocumentBuilder&) {
  return {ErrorCode::kIllegalOperation, "fsyncUnlock called when not locked"};
}

Status run_shutdown(CommandContext& context, const CommandRequest&, DocumentBuilder&) {
  auto* server = context.host().service<ServerControl>();
  if (server == nullptr)
    return {ErrorCode::kCommandNotSupported, "close the database to end an embedded one"};
  server->request_shutdown();
  return {};
}

Status run_top(CommandContext& context, const CommandRequest&, DocumentBuilder& reply) {
  auto totals = reply.object("totals");
  totals.append("note", "all times in microseconds");
  context.host().metrics().for_each([&](const Metrics::Sample& sample) {
    if (sample.name != "command_latency_us_total") return;
    for (const auto& [label, value] : sample.labels)
      if (label == "command") totals.append(value, static_cast<std::int64_t>(sample.value));
  });
  return {};
}

}  // namespace

const CommandRow kCurrentOp{.name = "currentOp",
                            .aliases = {},
                            .help = "Operations that run now.",
                            .privilege = "inprog",
                            .flags = kAdminOnly | kAnyOptions,
                            .options = {},
                            .run = run_current_op};
const CommandRow kKillOp{.name = "killOp",
                         .aliases = {},
                         .help = "Ends a running operation.",
                         .privilege = "killop",
                         .flags = kAdminOnly,
                         .options = {{"op", kOptAny}},
                         .run = run_kill_op};
const CommandRow kFsync{.name = "fsync",
                        .aliases = {},
                        .help = "Writes a checkpoint.",
                        .privilege = "fsync",
                        .flags = kAdminOnly,
                        .options = {{"lock", kOptBoolish},
                                    {"async", kOptBoolish, kUnsupported},
                                    // Of `lock`, which is refused.
                                    {"fsyncLockAcquisitionTimeoutMillis", kOptNumber, kNoEffect}},
                        .run = run_fsync};
const CommandRow kFsyncUnlock{.name = "fsyncUnlock",
                              .aliases = {},
                              .help = "Refused: there is no fsync lock.",
                              .privilege = "unlock",
                              .flags = kAdminOnly,
                              .options = {},
                              .run = run_fsync_unlock};
const CommandRow kShutdown{.name = "shutdown",
                           .aliases = {},
                           .help = "Drains, checkpoints and ends the server.",
                           .privilege = "shutdown",
                           .flags = kAdminOnly,
                           // Of a primary that waits for its secondaries: there are none.
                           .options = {{"force", kOptBoolish, kNoEffect},
                                       {"timeoutSecs", kOptNumber, kNonNegative | kNoEffect}},
                           .run = run_shutdown};
const CommandRow kTop{.name = "top",
                      .aliases = {},
                      .help = "Time spent, by command.",
                      .privilege = "top",
                      .flags = kAdminOnly,
                      .options = {},
                      .run = run_top};

}  // namespace multifora::diagnostic_commands
