// endSessions, refreshSessions: what a session holds (cursors, results of retryable writes) expires
// by its own idle time, so the ids are checked and there is nothing else to do for them.
#include "plugins/command-session/rows.h"
#include "plugins/command-session/session_ids.h"

namespace multifora::session {
namespace {

Status run(CommandContext&, const CommandRequest& request, DocumentBuilder&) {
  const auto ids = session_ids(request);
  return ids ? Status() : ids.error();
}

}  // namespace

const CommandRow kEndSessions{
    .name = "endSessions",
    .aliases = {},
    .help = "ends logical sessions",
    .privilege = "",
    .lock = LockIntent::kNone,
    .flags = kAllowedBeforeAuth | kAllowedInStrictApi,
    .options = {},
    .run = run,
};

const CommandRow kRefreshSessions{
    .name = "refreshSessions",
    .aliases = {},
    .help = "keeps logical sessions from expiring",
    .privilege = "",
    .lock = LockIntent::kNone,
    .flags = kAllowedInStrictApi,
    .options = {},
    .run = run,
};

}  // namespace multifora::session
