// delete.
#include "plugins/command-crud/statement_run.h"

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
  out.query.hint = hint_of(spec["hint"]);
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

ModifyOutcome outcome_of(DocumentView result) {
  ModifyOutcome outcome;
  outcome.modified = result["n"].number_as_int64();
  return outcome;
}

constexpr StatementFamily kFamily{"deletes", "limit=0", "DELETE", parse, result_of, outcome_of};

Status run_delete(CommandContext& context, const CommandRequest& request, DocumentBuilder& reply) {
  std::int64_t deleted = 0;
  return run_statements(
      context, request, kFamily,
      [&](std::size_t, const ModifyOutcome& outcome) { deleted += outcome.modified; },
      [&](DocumentBuilder& out) { out.append("n", static_cast<std::int32_t>(deleted)); }, reply);
}

}  // namespace

Status explain_delete(CommandContext& context, const CommandRequest& request,
                      ExplainVerbosity verbosity, DocumentBuilder& reply) {
  return explain_statement(context, request, kFamily, verbosity, reply);
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
            // What is deleted is not validated.
            {"bypassDocumentValidation", kOptBoolish, kNoEffect},
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
