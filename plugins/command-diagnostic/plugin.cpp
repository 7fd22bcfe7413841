// Commands that say how the server and its data are.
#include "core/plugin/plugin.h"

#include "plugins/command-diagnostic/commands.h"

namespace multifora {
namespace {

Status register_plugin(PluginHost& host) {
  using namespace diagnostic_commands;
  for (const CommandRow* row :
       {&kPing, &kBuildInfo, &kHostInfo, &kWhatsMyUri, &kListCommands, &kGetCmdLineOpts,
        &kConnectionStatus, &kUsersInfo, &kRolesInfo, &kGetParameter, &kSetParameter,
        &kGetDefaultRwConcern, &kSetDefaultRwConcern, &kGetLog, &kLogRotate, &kCurrentOp, &kKillOp, &kFsync, &kFsyncUnlock,
        &kShutdown, &kTop, &kServerStatus, &kDbStats, &kCollStats, &kDataSize, &kValidate, &kCompact,
        &kCreateBackup})
    MULTIFORA_TRY(host.add_command(row));
  return host.add_service<DefaultConcerns>(make_default_concerns());
}

}  // namespace
}  // namespace multifora

MULTIFORA_PLUGIN(command_diagnostic, "command-diagnostic", "1.0.0", multifora::register_plugin)
