// The plugin's entry: everything that other parts reach through the host.
#include "core/plugin/plugin.h"
#include "plugins/query-engine/cursor_manager.h"
#include "plugins/query-engine/explain.h"
#include "plugins/query-engine/filter_compiler.h"
#include "plugins/query-engine/find_source.h"
#include "plugins/query-engine/index_filters.h"
#include "plugins/query-engine/query_memory.h"
#include "plugins/query-engine/stage.h"

namespace multifora {

static Status register_plugin(PluginHost& host) {
  if (host.config().integer("query-engine", "cursor_timeout_ms").value_or(1) < 1)
    return {ErrorCode::kBadValue, "query-engine.cursor_timeout_ms must be at least 1"};
  const std::int64_t memory_mb = host.config().integer("query-engine", "stage_memory_mb").value_or(100);
  if (memory_mb < 1 || memory_mb > 1 << 20)
    return {ErrorCode::kBadValue, "query-engine.stage_memory_mb must be between 1 and 1048576"};
  MULTIFORA_TRY(host.add_service(std::make_shared<QueryMemory>(static_cast<std::uint64_t>(memory_mb) << 20)));
  auto cursors = std::make_shared<CursorManager>(host);
  MULTIFORA_TRY(host.add_service(cursors));
  MULTIFORA_TRY(host.add_background(make_cursor_sweeper(std::move(cursors))));
  MULTIFORA_TRY(host.add_service(std::make_shared<ExplainRegistry>()));
  MULTIFORA_TRY(host.add_service(std::make_shared<WriteNotifier>()));
  MULTIFORA_TRY(host.add_service(std::make_shared<IndexFilters>()));
  MULTIFORA_TRY(host.add_service(std::make_shared<StageRegistry>()));
  return host.set_filter_compiler(make_filter_compiler());
}

}  // namespace multifora

MULTIFORA_PLUGIN(query_engine, "query-engine", "0.1.0", multifora::register_plugin)
