// The aggregate command.
#include "core/plugin/plugin.h"

#include "plugins/command-aggregate/aggregate.h"

namespace multifora {
namespace {

Status register_plugin(PluginHost& host) {
  MULTIFORA_TRY(host.add_command(&kAggregate));
  MULTIFORA_TRY(host.add_command(&kMapReduce));
  auto* explains = host.service<ExplainRegistry>();
  if (explains == nullptr)
    return {ErrorCode::kInternalError,
            "command-aggregate needs the plugin query-engine loaded first"};
  return explains->add("aggregate", explain_aggregate);
}

}  // namespace
}  // namespace multifora

MULTIFORA_PLUGIN(command_aggregate, "command-aggregate", "1.0.0", multifora::register_plugin)
