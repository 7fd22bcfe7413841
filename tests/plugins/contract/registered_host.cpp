#include "tests/plugins/contract/registered_host.h"

#include <doctest/doctest.h>

#include "core/plugin/plugin.h"
#include "server/runtime/linked_plugins.h"

const multifora::PluginEntry* multifora_plugin_codec_null();
const multifora::PluginEntry* multifora_plugin_index_plain();
const multifora::PluginEntry* multifora_plugin_index_sorted();
const multifora::PluginEntry* multifora_plugin_command_reference();

namespace multifora::contract {
namespace {

void load(PluginHost& host, const PluginEntry& entry) {
  const Status status = host.load(entry, "");
  REQUIRE_MESSAGE(status.ok(), status.message());
}

}  // namespace

void load_registered(PluginHost& host) {
  for (const LinkedPlugin plugin : linked_plugins()) load(host, *plugin());
  load(host, *multifora_plugin_codec_null());
  load(host, *multifora_plugin_index_plain());
  // The example plugin, unless this build links it (MULTIFORA_EXTRA_PLUGINS).
  if (host.index_kind("sorted") == nullptr) load(host, *multifora_plugin_index_sorted());
  load(host, *multifora_plugin_command_reference());
}

}  // namespace multifora::contract
