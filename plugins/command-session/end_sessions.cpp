// endSessions ends sessions with their transactions and cursors; refreshSessions keeps them alive.
#include "core/plugin/host.h"
#include "plugins/command-session/rows.h"
#include "plugins/command-session/session_ids.h"
#include "plugins/command-session/session_table.h"

namespace multifora::session {
namespace {

Status run_end(CommandContext& context, const CommandRequest& request, DocumentBuilder&) {
  const auto ids = session_ids(request);
  if (!ids) return ids.error();
  if (ids->empty()) return {};
  end_cursors(context.host(), *ids);
  context.host().service<SessionTable>()->end(*ids);
  return {};
}

Status run_refresh(CommandContext& context, const CommandRequest& request, DocumentBuilder&) {
  const auto ids = session_ids(request);
  if (!ids) return ids.error();
  for (const std::string& id : *ids)
    MULTIFORA_TRY(context.host().service<SessionTable>()->touch(id));
  return {};
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
