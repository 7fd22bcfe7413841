// insert.
#include "plugins/command-crud/commands.h"
#include "plugins/command-crud/insert_run.h"

namespace multifora::crud {
namespace {

Status insert(CommandContext& context, const CommandRequest& request, DocumentBuilder& reply) {
  InsertJob job;
  job.ns = request.ns();
  job.documents = request.documents("documents");
  job.ordered = request.flag("ordered", true);
  job.bypass_validation = request.flag("bypassDocumentValidation", false);
  MULTIFORA_TRY(check_batch_size(job.documents.size()));
  MULTIFORA_TRY(check_writable(job.ns));
  MULTIFORA_ASSIGN(auto retry,
                   RetryableStatements::make(context, request, job.documents.size()));
  std::int32_t inserted = 0;
  WriteErrors errors;
  WriteBatch batch(context);
  MULTIFORA_TRY(run_insert(context, job, retry, batch, [&](std::size_t index, const Status& status) {
    if (status.ok())
      ++inserted;
    else
      errors.add(index, status);
  }));
  MULTIFORA_TRY(batch.flush());
  reply.append("n", inserted);
  errors.append_to(reply);
  retry.append_to(reply);
  return {};
}

}  // namespace

const CommandRow kInsert{
    .name = "insert",
    .aliases = {},
    .help = "insert documents",
    .privilege = "insert",
    .lock = LockIntent::kWrite,
    .flags = kAllowedInTransaction | kRetryableWrite | kAcceptsWriteConcern | kCollectionName |
             kAllowedInStrictApi,
    .options =
        {
            {"documents", kOptArray, kRequired | kArrayOfObjects},
            {"ordered", kOptBool},
            {"bypassDocumentValidation", kOptBoolish},
            {"stmtId", kOptInt32},
            {"stmtIds", kOptArray},
            {"bypassEmptyTsReplacement", kOptBool, kUnsupported},
            {"isTimeseriesNamespace", kOptBool, kUnsupported},
            {"collectionUUID", kOptAny, kUnsupported},
            {"encryptionInformation", kOptAny, kUnsupported},
        },
    .run = insert,
};

}  // namespace multifora::crud
