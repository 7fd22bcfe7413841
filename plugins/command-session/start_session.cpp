// startSession: a fresh session id. Sessions need no registration: any id is accepted with any
// command, and what belongs to one (retryable results, cursors) is found by its id.
#include <random>

#include "core/base/limits.h"
#include "plugins/command-session/rows.h"

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

Status run(CommandContext&, const CommandRequest&, DocumentBuilder& reply) {
  reply.object("id").append_binary("id", new_uuid(), 4);
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
