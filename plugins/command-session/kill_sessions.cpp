// killSessions, killAllSessions, killAllSessionsByPattern: end what runs in sessions, and their
// cursors. There are no users yet, so that every pattern matches every session.
#include "core/plugin/host.h"
#include "plugins/command-session/rows.h"
#include "plugins/command-session/session_ids.h"

namespace multifora::session {
namespace {

void kill(CommandContext& context, const std::vector<std::string>& ids) {
  end_cursors(context, ids);
  if (auto* control = context.host().service<ServerControl>()) control->kill_sessions(ids);
}

Status run_kill(CommandContext& context, const CommandRequest& request, DocumentBuilder&) {
  const auto ids = session_ids(request);
  if (!ids) return ids.error();
  kill(context, *ids);
  return {};
}

Status run_kill_all(CommandContext& context, const CommandRequest& request, DocumentBuilder&) {
  MULTIFORA_TRY(check_array_target(request));
  kill(context, {});
  return {};
}

}  // namespace

const CommandRow kKillSessions{
    .name = "killSessions",
    .aliases = {},
    .help = "ends what runs in these sessions; an empty list means all",
    .privilege = "killAnySession",
    .lock = LockIntent::kNone,
    .flags = kAllowedInStrictApi,
    .options = {},
    .run = run_kill,
};

const CommandRow kKillAllSessions{
    .name = "killAllSessions",
    .aliases = {},
    .help = "ends what runs in any session",
    .privilege = "killAnySession",
    .lock = LockIntent::kNone,
    .flags = 0,
    .options = {},
    .run = run_kill_all,
};

const CommandRow kKillAllSessionsByPattern{
    .name = "killAllSessionsByPattern",
    .aliases = {},
    .help = "ends what runs in sessions that match a pattern",
    .privilege = "killAnySession",
    .lock = LockIntent::kNone,
    .flags = 0,
    .options = {},
    .run = run_kill_all,
};

}  // namespace multifora::session
