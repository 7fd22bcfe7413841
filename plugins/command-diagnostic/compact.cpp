// compact: gives unused space of the data file back to the file system.
#include "core/store/store.h"
#include "plugins/command-diagnostic/commands.h"

namespace multifora::diagnostic_commands {
namespace {

constexpr std::int64_t kFreeSpaceTargetMbDefault = 20;

// All collections share one file, so that any of them stands for it. Writers go on meanwhile; clients
// that know MongoDB still have to say that they mean it on a primary.
Status run(CommandContext& context, const CommandRequest& request, DocumentBuilder& reply) {
  const std::string ns = request.ns();
  const bool dry_run = request.flag("dryRun", false);
  const std::int64_t target_mb = request.integer("freeSpaceTargetMB", kFreeSpaceTargetMbDefault);
  if (target_mb < 1)
    return {ErrorCode::kBadValue, "BSON field 'compact.freeSpaceTargetMB' value must be >= 1, actual value '" +
                                      std::to_string(target_mb) + "'"};
  if (!dry_run && !request.flag("force", false))
    return {ErrorCode::kIllegalOperation,
            "will not run compact on an active replica set primary as this will slow down other "
            "running operations. use force:true to force"};
  const auto info = context.store().info(ns);
  if (!info) return {ErrorCode::kNamespaceNotFound, "collection does not exist"};
  if (info->is_view) return {ErrorCode::kCommandNotSupportedOnView, "can't compact a view"};
  const auto bytes_min = static_cast<std::uint64_t>(target_mb) << 20;
  MULTIFORA_ASSIGN(const std::uint64_t bytes,
                   context.store().compact(bytes_min, dry_run, context.interrupt()));
  reply.append(dry_run ? "estimatedBytesFreed" : "bytesFreed", static_cast<std::int64_t>(bytes));
  return {};
}

}  // namespace

const CommandRow kCompact{.name = "compact",
                          .aliases = {},
                          .help = "Gives unused disk space back to the operating system.",
                          .privilege = "compact",
                          .lock = LockIntent::kNone,
                          .flags = kCollectionName,
                          .options = {{"dryRun", kOptBoolish},
                                      {"force", kOptBoolish},
                                      {"freeSpaceTargetMB", kOptNumber}},
                          .run = run};

}  // namespace multifora::diagnostic_commands
