// Commands that read and write documents.
#include "core/plugin/fail_points.h"
#include "core/plugin/plugin.h"

#include "plugins/command-crud/commands.h"

namespace multifora {
namespace {

Status register_plugin(PluginHost& host) {
  using namespace crud;
  for (const CommandRow* row : {&kFind, &kGetMore, &kKillCursors, &kInsert, &kUpdate, &kDelete,
                                &kFindAndModify, &kCount, &kDistinct, &kExplain, &kBulkWrite})
    MULTIFORA_TRY(host.add_command(row));
  if (auto* points = host.service<FailPoints>()) {
    points->declare(kOnPrimaryTransactionalWrite, nullptr);
    points->declare(kFailGetMore, nullptr);
  }
  auto* explains = host.service<ExplainRegistry>();
  if (explains == nullptr)
    return {ErrorCode::kInternalError, "command-crud needs the plugin query-engine loaded first"};
  MULTIFORA_TRY(explains->add("find", explain_find));
  MULTIFORA_TRY(explains->add("count", explain_count));
  MULTIFORA_TRY(explains->add("distinct", explain_distinct));
  MULTIFORA_TRY(explains->add("update", explain_update));
  MULTIFORA_TRY(explains->add("delete", explain_delete));
  return explains->add("findAndModify", explain_find_and_modify);
}

}  // namespace
}  // namespace multifora

MULTIFORA_PLUGIN(command_crud, "command-crud", "1.0.0", multifora::register_plugin)
