// Commands that change and list databases, collections and indexes.
#include "core/plugin/plugin.h"

#include "plugins/command-catalog/commands.h"

namespace multifora {
namespace {

Status register_plugin(PluginHost& host) {
  using namespace catalog_commands;
  for (const CommandRow* row :
       {&kCreate, &kDrop, &kDropDatabase, &kRenameCollection, &kListCollections, &kListDatabases,
        &kCreateIndexes, &kDropIndexes, &kListIndexes, &kCollMod, &kConvertToCapped,
        &kCloneCollectionAsCapped, &kCreateSearchIndexes, &kDropSearchIndex, &kListSearchIndexes,
        &kUpdateSearchIndex})
    MULTIFORA_TRY(host.add_command(row));
  return {};
}

}  // namespace
}  // namespace multifora

MULTIFORA_PLUGIN(command_catalog, "command-catalog", "1.0.0", multifora::register_plugin)
