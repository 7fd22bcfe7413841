// validate: walks a collection and its indexes.
#include "core/store/store.h"
#include "plugins/command-diagnostic/commands.h"

namespace multifora::diagnostic_commands {
namespace {

Status run(CommandContext& context, const CommandRequest& request, DocumentBuilder& reply) {
  const std::string ns = request.ns();
  if (request.flag("repair", false))
    return {ErrorCode::kCommandNotSupported,
            "validate does not repair: restore from a backup, or copy what can be read with a dump"};
  MULTIFORA_ASSIGN(const Store::ValidateReport report,
                   context.store().validate(ns, request.flag("full", false), context.interrupt()));
  reply.append("ns", ns);
  reply.append("nInvalidDocuments", static_cast<std::int32_t>(report.invalid_documents));
  reply.append("nNonCompliantDocuments", 0);
  reply.append("nrecords", static_cast<std::int64_t>(report.records));
  reply.append("nIndexes", static_cast<std::int32_t>(report.indexes.size()));
  {
    auto keys = reply.object("keysPerIndex");
    for (const auto& index : report.indexes)
      keys.append(index.name, static_cast<std::int64_t>(index.keys));
  }
  {
    auto details = reply.object("indexDetails");
    for (const auto& index : report.indexes) details.object(index.name).append("valid", index.valid);
  }
  reply.append("valid", report.errors.empty());
  reply.append("repaired", false);
  reply.array("warnings");
  {
    auto errors = reply.array("errors");
    for (const std::string& error : report.errors) errors.append(error);
  }
  reply.array("extraIndexEntries");
  reply.array("missingIndexEntries");
  reply.array("corruptRecords");
  return {};
}

}  // namespace

const CommandRow kValidate{.name = "validate",
                           .aliases = {},
                           .help = "Checks a collection's records and indexes.",
                           .privilege = "validate",
                           .lock = LockIntent::kRead,
                           .flags = kCollectionName,
                           .options = {{"full", kOptBoolish},
                                       {"repair", kOptBoolish},
                                       {"metadata", kOptBoolish, kUnsupported},
                                       {"background", kOptBoolish, kUnsupported},
                                       {"checkBSONConformance", kOptBoolish, kUnsupported}},
                           .run = run};

}  // namespace multifora::diagnostic_commands
