// Commands on Atlas search indexes. Search runs beside a server, in Atlas, and there is none beside this
// one: the commands answer as a MongoDB server without it does, so that a driver's helper can tell
// "not available here" from "no such command".
#include "plugins/command-catalog/commands.h"

namespace multifora::catalog_commands {
namespace {

constexpr std::int32_t kSearchNotEnabled = 31082;

Status refuse(CommandContext&, const CommandRequest&, DocumentBuilder&) {
  return {location_code(kSearchNotEnabled),
          "Using Atlas Search Database Commands and the $listSearchIndexes aggregation stage requires "
          "additional configuration. Please connect to Atlas or an AtlasCLI local deployment to enable."};
}

// MongoDB passes the options on unread, so none is checked here either.
CommandRow row(std::string_view name, std::string_view help) {
  return {
      .name = name,
      .aliases = {},
      .help = help,
      .privilege = name,
      .lock = LockIntent::kNone,
      .flags = kCollectionName | kAnyOptions,
      .options = {},
      .run = refuse,
  };
}

}  // namespace

const CommandRow kCreateSearchIndexes = row("createSearchIndexes", "Creates Atlas search indexes: not here.");
const CommandRow kDropSearchIndex = row("dropSearchIndex", "Drops an Atlas search index: not here.");
const CommandRow kListSearchIndexes = row("listSearchIndexes", "Lists Atlas search indexes: not here.");
const CommandRow kUpdateSearchIndex = row("updateSearchIndex", "Changes an Atlas search index: not here.");

}  // namespace multifora::catalog_commands
