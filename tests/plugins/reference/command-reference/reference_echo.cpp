// The reference command: {referenceEcho: <anything>, value: <anything>, times: <number>} answers
// with `value`, `times` times. One row, one handler; everything that the row says is the
// dispatcher's work.
#include "core/plugin/command.h"
#include "core/plugin/plugin.h"

namespace multifora {
namespace {

constexpr std::int64_t kTimesMax = 1000;

Status run(CommandContext&, const CommandRequest& request, DocumentBuilder& reply) {
  const std::int64_t times = request.integer("times", 1);
  if (times > kTimesMax)
    return {ErrorCode::kBadValue, "times must be at most " + std::to_string(kTimesMax)};
  reply.append("ns", request.ns());
  auto values = reply.array("values");
  for (std::int64_t i = 0; i < times; ++i) values.append(request.option("value"));
  return {};
}

Status register_plugin(PluginHost& host) {
  static const CommandRow kRow{
      .name = "referenceEcho",
      .aliases = {"referenceecho"},
      .help = "Answers with its value",
      .privilege = "referenceEcho",
      .lock = LockIntent::kNone,
      .flags = kAllowedBeforeAuth | kAllowedInTransaction,
      .options = {{"value", kOptAny, kRequired}, {"times", kOptNumber, kNonNegative}},
      .run = run,
  };
  return host.add_command(&kRow);
}

}  // namespace
}  // namespace multifora

MULTIFORA_PLUGIN(command_reference, "command-reference", "1.0.0", multifora::register_plugin)
