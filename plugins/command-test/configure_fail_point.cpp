// configureFailPoint: {configureFailPoint: name, mode, data}; and testVersion2.
#include "core/plugin/fail_points.h"
#include "core/plugin/host.h"
#include "plugins/command-test/rows.h"

namespace multifora::test_commands {
namespace {

Status run(CommandContext& context, const CommandRequest& request, DocumentBuilder& reply) {
  if (request.target().type() != BsonType::kString)
    return {ErrorCode::kTypeMismatch, "configureFailPoint must be the name of a fail point"};
  auto* points = context.host().service<FailPoints>();
  if (points == nullptr) return {ErrorCode::kCommandNotSupported, "test commands are not enabled"};
  MULTIFORA_ASSIGN(const std::int64_t count,
                   points->configure(request.target().as_string(), request.option("mode"),
                                     request.document("data")));
  reply.append("count", count);
  return {};
}

Status run_nothing(CommandContext&, const CommandRequest&, DocumentBuilder&) { return {}; }

}  // namespace

// Drivers' tests of the stable API want a command that is not part of it.
const CommandRow kTestVersion2{
    .name = "testVersion2",
    .aliases = {},
    .help = "does nothing; not part of API version 1",
    .privilege = "",
    .flags = 0,
    .options = {},
    .run = run_nothing,
};

const CommandRow kConfigureFailPoint{
    .name = "configureFailPoint",
    .aliases = {},
    .help = "turns a fail point on or off",
    .privilege = "internal",
    .lock = LockIntent::kNone,
    .flags = kAdminOnly | kAllowedBeforeAuth | kPassesFailPoints,
    .options = {{"mode", kOptString | kOptObject, kRequired}, {"data", kOptObject}},
    .run = run,
};

}  // namespace multifora::test_commands
