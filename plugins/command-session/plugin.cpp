// Registers the hello family and the session commands.
#include "core/plugin/plugin.h"

#include "plugins/command-session/rows.h"

namespace {

multifora::Status register_plugin(multifora::PluginHost& host) {
  using namespace multifora::session;
  for (const multifora::CommandRow* row :
       {&kHello, &kIsMaster, &kStartSession, &kEndSessions, &kRefreshSessions, &kKillSessions,
        &kKillAllSessions, &kKillAllSessionsByPattern})
    MULTIFORA_TRY(host.add_command(row));
  return {};
}

}  // namespace

MULTIFORA_PLUGIN(command_session, "command-session", "1.0.0", register_plugin)
