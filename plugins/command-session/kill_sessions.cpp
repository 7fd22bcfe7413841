// killSessions, killAllSessions, killAllSessionsByPattern: end what runs in sessions, their
// transactions and their cursors. There are no users yet: what names users means no session.
#include "core/plugin/host.h"
#include "core/plugin/option_check.h"
#include "plugins/command-session/rows.h"
#include "plugins/command-session/session_ids.h"
#include "plugins/command-session/session_table.h"

namespace multifora::session {
namespace {

// No ids: every session.
void kill(CommandContext& context, const std::vector<std::string>& ids) {
  end_cursors(context.host(), ids);
  if (auto* control = context.host().service<ServerControl>()) control->kill_sessions(ids);
  context.host().service<SessionTable>()->kill(ids);
}

Status run_kill(CommandContext& context, const CommandRequest& request, DocumentBuilder&) {
  const auto ids = session_ids(request);
  if (!ids) return ids.error();
  kill(context, *ids);
  return {};
}

Status run_kill_all(CommandContext& context, const CommandRequest& request, DocumentBuilder&) {
  MULTIFORA_TRY(check_array_target(request));
  if (request.target().as_document().empty()) kill(context, {});
  return {};
}

// {lsid: {id, uid}}: that session; {uid}, {users, roles}: those of users.
Status run_kill_pattern(CommandContext& context, const CommandRequest& request, DocumentBuilder&) {
  MULTIFORA_TRY(check_array_target(request));
  const std::string prefix = std::string(request.name()) + ".pattern";
  std::vector<std::string> ids;
  for (const Element& pattern : request.target().as_document())
    for (const Element& field : pattern->as_document()) {
      if (field.name() == "uid" || field.name() == "users" || field.name() == "roles") continue;
      if (field.name() != "lsid") return unknown_field(prefix, field.name());
      if (field.type() != BsonType::kObject)
        return wrong_type(prefix, {"lsid", kOptObject}, field.type());
      MULTIFORA_ASSIGN(std::string id, session_id(prefix + ".lsid", field->as_document()));
      ids.push_back(std::move(id));
    }
  if (!ids.empty() || request.target().as_document().empty()) kill(context, ids);
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
    .run = run_kill_pattern,
};

}  // namespace multifora::session
