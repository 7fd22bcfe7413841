// startSession: a fresh session id. Clients may as well choose their own: a session begins with its
// first use.
#include <random>

#include "core/base/limits.h"
#include "core/plugin/host.h"
#include "plugins/command-session/rows.h"
#include "plugins/command-session/session_table.h"

namespace multifora::session {
namespace {

// A random UUID (version 4).
std::string new_uuid() {
  static thread_local std::random_device device;
  std::string uuid(16, '\0');
  for (std::size_t i = 0; i < 16; i += 4)
    store_le<std::uint32_t>(uuid.data() + i, device());
  uuid[6] = static_cast<char>((uuid[6] & 0x0f) | 0x40);
  uuid[8] = static_cast<char>((uuid[8] & 0x3f) | 0x80);
  return uuid;
}

Status run(CommandContext& context, const CommandRequest&, DocumentBuilder& reply) {
  const std::string id = new_uuid();
  MULTIFORA_TRY(context.host().service<SessionTable>()->touch(id));
  reply.object("id").append_binary("id", id, 4);
  reply.append("timeoutMinutes", static_cast<std::int32_t>(limits::kSessionIdleMinutes));
  return {};
}

}  // namespace

const CommandRow kStartSession{
    .name = "startSession",
    .aliases = {},
    .help = "starts a logical session",
    .privilege = "startSession",
    .lock = LockIntent::kNone,
    .flags = kAllowedInStrictApi,
    .options = {},
    .run = run,
};

}  // namespace multifora::session
