// getLog and logRotate.
#include "core/plugin/host.h"
#include "plugins/command-diagnostic/commands.h"

namespace multifora::diagnostic_commands {
namespace {

Status run_get_log(CommandContext& context, const CommandRequest& request, DocumentBuilder& reply) {
  if (request.target().type() != BsonType::kString)
    return {ErrorCode::kTypeMismatch,
            "Argument to getLog must be of type String; found " +
                std::string(type_name(request.target().type()))};
  const std::string_view which = request.target().as_string();
  if (which == "*") {
    auto names = reply.array("names");
    names.append("global");
    names.append("startupWarnings");
    return {};
  }
  if (which != "global" && which != "startupWarnings")
    return {ErrorCode::kOperationFailed, "No log named '" + std::string(which) + "'"};
  const auto* server = context.host().service<ServerControl>();
  const std::vector<std::string> lines =
      which == "global" && server != nullptr ? server->recent_log_lines()
                                             : std::vector<std::string>();
  reply.append("totalLinesWritten", static_cast<std::int32_t>(lines.size()));
  auto log = reply.array("log");
  for (const std::string& line : lines) log.append(line);
  return {};
}

Status run_rotate(CommandContext& context, const CommandRequest&, DocumentBuilder&) {
  auto* server = context.host().service<ServerControl>();
  if (server == nullptr)
    return {ErrorCode::kCommandNotSupported, "this process has no log file to rotate"};
  return server->rotate_log();
}

}  // namespace

const CommandRow kGetLog{.name = "getLog",
                         .aliases = {},
                         .help = "Recent lines of the log: \"global\", or \"*\" for the names.",
                         .privilege = "getLog",
                         .flags = kAdminOnly,
                         .options = {},
                         .run = run_get_log};
const CommandRow kLogRotate{.name = "logRotate",
                            .aliases = {},
                            .help = "Closes the log file under a new name and begins another.",
                            .privilege = "logRotate",
                            .flags = kAdminOnly,
                            .options = {},
                            .run = run_rotate};

}  // namespace multifora::diagnostic_commands
