// endSessions ends the cursors of sessions; refreshSessions has nothing to do: what a session holds
// otherwise (results of retryable writes) expires by itself.
#include "plugins/command-session/rows.h"
#include "plugins/command-session/session_ids.h"

namespace multifora::session {
namespace {

Status run_end(CommandContext& context, const CommandRequest& request, DocumentBuilder&) {
  const auto ids = session_ids(request);
  if (!ids) return ids.error();
  if (!ids->empty()) end_cursors(context, *ids);
  return {};
}

Status run_refresh(CommandContext&, const CommandRequest& request, DocumentBuilder&) {
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
    .run = run_end,
};

const CommandRow kRefreshSessions{
    .name = "refreshSessions",
    .aliases = {},
    .help = "keeps logical sessions from expiring",
    .privilege = "",
    .lock = LockIntent::kNone,
    .flags = kAllowedInStrictApi,
    .options = {},
    .run = run_refresh,
};

}  // namespace multifora::session
