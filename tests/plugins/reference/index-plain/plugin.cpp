// Registers the reference index kind "plain".
#include "core/plugin/plugin.h"

#include "tests/plugins/reference/index-plain/plain_index.h"

namespace multifora {
namespace {

Status register_plugin(PluginHost& host) {
  return host.add_index_kind(&kPlainIndex);
}

}  // namespace
}  // namespace multifora

MULTIFORA_PLUGIN(index_plain, "index-plain", "1.0.0", multifora::register_plugin)
