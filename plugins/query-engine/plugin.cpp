// The plugin's entry: everything that other parts reach through the host.
#include "core/plugin/plugin.h"
#include "plugins/query-engine/filter_compiler.h"

namespace multifora {

static Status register_plugin(PluginHost& host) {
  return host.set_filter_compiler(make_filter_compiler());
}

}  // namespace multifora

MULTIFORA_PLUGIN(query_engine, "query-engine", "0.1.0", multifora::register_plugin)
