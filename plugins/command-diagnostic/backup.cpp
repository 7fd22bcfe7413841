// createBackup: a copy of the running database in a directory of the server's machine. The name and
// its option are those of Percona Server for MongoDB; MongoDB's own server has no such command.
#include "core/store/store.h"
#include "plugins/command-diagnostic/commands.h"

namespace multifora::diagnostic_commands {
namespace {

Status run(CommandContext& context, const CommandRequest& request, DocumentBuilder& reply) {
  const std::string directory(request.option("backupDir").as_string());
  MULTIFORA_ASSIGN(const Store::BackupReport report,
                   context.store().backup(directory, context.interrupt()));
  reply.append("backupDir", directory);
  reply.append_timestamp("clusterTime", report.position);
  reply.append("fileBytes", static_cast<std::int64_t>(report.file_bytes));
  reply.append("copiedBytes", static_cast<std::int64_t>(report.copied_bytes));
  reply.append("millis", report.ms);
  return {};
}

}  // namespace

const CommandRow kCreateBackup{.name = "createBackup",
                               .aliases = {},
                               .help = "Copies the running database into a directory.",
                               .privilege = "createBackup",
                               .flags = kAdminOnly,
                               .options = {{"backupDir", kOptString, kRequired}},
                               .run = run};

}  // namespace multifora::diagnostic_commands
