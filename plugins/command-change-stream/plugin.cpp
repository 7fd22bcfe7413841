// Change streams: the stages, and the log of operations as a collection.
#include "core/plugin/plugin.h"
#include "plugins/command-change-stream/cluster_parameters.h"
#include "plugins/command-change-stream/oplog.h"
#include "plugins/command-change-stream/stages.h"

namespace multifora {
namespace {

Status register_plugin(PluginHost& host) {
  auto* stages = host.service<StageRegistry>();
  if (stages == nullptr)
    return {ErrorCode::kInternalError,
            "command-change-stream needs the plugin query-engine loaded first"};
  MULTIFORA_TRY(stages->add(&change_stream::kChangeStream));
  MULTIFORA_TRY(stages->add(&change_stream::kSplitLargeEvent));
  MULTIFORA_TRY(host.add_service(std::make_shared<change_stream::ImageRetention>()));
  MULTIFORA_TRY(host.add_command(&change_stream::kGetClusterParameter));
  MULTIFORA_TRY(host.add_command(&change_stream::kSetClusterParameter));
  auto virtuals = std::make_shared<VirtualCollections>();
  virtuals->add(change_stream::make_oplog());
  return host.add_service(std::move(virtuals));
}

}  // namespace
}  // namespace multifora

MULTIFORA_PLUGIN(command_change_stream, "command-change-stream", "1.0.0", multifora::register_plugin)
