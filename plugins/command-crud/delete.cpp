// delete.
#include "plugins/command-crud/commands.h"
#include "plugins/command-crud/modify_run.h"

namespace multifora::crud {
namespace {

const OptionSpec kStatement[] = {
    {"q", kOptObject, kRequired},
    {"limit", kOptNumber, kRequired},
    {"collation", kOptObject},
    {"hint", kOptAny},
    {"sampleId", kOptAny, kUnsupported},
};

Status parse(DocumentView spec, const CommandRequest& request, ModifyStatement& out) {
  MULTIFORA_TRY(check_fields("delete.deletes", spec, kStatement));
  std::int64_t limit = 0;
  if (!spec["limit"].exact_int64(&limit) || (limit != 0 && limit != 1))
    return {ErrorCode::kFailedToParse,
            "The limit field in delete objects must be 0 or 1. Got " +
                std::to_string(spec["limit"].number_as_int64())};
  MULTIFORA_TRY(check_hint(spec["hint"]));
  out.ns = request.ns();
  out.query.filter = spec["q"].as_document();
  out.query.hint = spec["hint"];
  if (out.query.hint.type() == BsonType::kObject && out.query.hint.as_document().empty())
    out.query.hint = ValueView();
  out.query.collation = spec["collation"];
  out.query.let = request.document("let");
  out.multi = limit == 0;
  return {};
}

OwnedDocument result_of(const ModifyOutcome& outcome) {
  DocumentBuilder result;
  result.append("n", outcome.modified);
  return std::move(result).finish();
}

Result<std::int64_t> run_one(CommandContext& context, ModifyStatement& statement,
                             RetryableStatements& retry, std::size_t index) {
  MULTIFORA_ASSIGN_R(const auto before, retry.find(index));
  if (before) return before->view()["n"].number_as_int64();
  statement.id = retry.id(index);
  MULTIFORA_ASSIGN_R(const ModifyOutcome outcome, run_modify(context, statement, result_of));
  return outcome.modified;
}

Status run_delete(CommandContext& context, const CommandRequest& request, DocumentBuilder& reply) {
  const std::vector<DocumentView> specs = request.documents("deletes");
  MULTIFORA_TRY(check_batch_size(specs.size()));
  MULTIFORA_TRY(check_writable(request.ns()));
  MULTIFORA_ASSIGN(auto retry, RetryableStatements::make(context, request, specs.size()));
  std::vector<ModifyStatement> statements(specs.size());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    MULTIFORA_TRY(parse(specs[i], request, statements[i]));
    if (statements[i].multi && retry.enabled())
      return {ErrorCode::kInvalidOptions,
              "Cannot use (or request) retryable writes with limit=0"};
  }
  const bool ordered = request.flag("ordered", true);
  std::int64_t deleted = 0;
  WriteErrors errors;
  for (std::size_t i = 0; i < statements.size(); ++i) {
    const auto n = run_one(context, statements[i], retry, i);
    if (n) {
      deleted += *n;
      continue;
    }
    if (ends_command(n.error().code())) return n.error();
    errors.add(i, n.error());
    if (ordered) break;
  }
  reply.append("n", static_cast<std::int32_t>(deleted));
  errors.append_to(reply);
  retry.append_to(reply);
  return {};
}

}  // namespace

Status explain_delete(CommandContext& context, const CommandRequest& request,
                      ExplainVerbosity verbosity, DocumentBuilder& reply) {
  const std::vector<DocumentView> specs = request.documents("deletes");
  if (specs.size() != 1)
    return {ErrorCode::kInvalidLength,
            "explained write batches must be of size 1, but the batch size is " +
                std::to_string(specs.size())};
  ModifyStatement statement;
  MULTIFORA_TRY(parse(specs[0], request, statement));
  MULTIFORA_ASSIGN(auto query, compile_modify(context, statement));
  return explain_query(context, request, request.ns(), std::move(query), verbosity, "DELETE", reply);
}

const CommandRow kDelete{
    .name = "delete",
    .aliases = {},
    .help = "delete documents",
    .privilege = "remove",
    .lock = LockIntent::kWrite,
    .flags = kAllowedInTransaction | kRetryableWrite | kAcceptsWriteConcern | kCollectionName |
             kAllowedInStrictApi,
    .options =
        {
            {"deletes", kOptArray, kRequired | kArrayOfObjects},
            {"ordered", kOptBool},
            {"let", kOptObject},
            {"bypassDocumentValidation", kOptBoolish},
            {"stmtId", kOptInt32},
            {"stmtIds", kOptArray},
            {"isTimeseriesNamespace", kOptBool, kUnsupported},
            {"collectionUUID", kOptAny, kUnsupported},
            {"encryptionInformation", kOptAny, kUnsupported},
            {"legacyRuntimeConstants", kOptAny, kUnsupported},
        },
    .run = run_delete,
};

}  // namespace multifora::crud
