// findAndModify.
#include "plugins/command-crud/commands.h"
#include "plugins/command-crud/modify_run.h"

namespace multifora::crud {
namespace {

DocumentView document_of(const ValueView& value) {
  return value.type() == BsonType::kObject || value.type() == BsonType::kArray
             ? value.as_document()
             : DocumentView();
}

Status check_combination(const CommandRequest& request, bool remove) {
  const bool has_update = request.has("update");
  if (remove) {
    if (has_update)
      return {ErrorCode::kFailedToParse, "Cannot specify both an update and remove=true"};
    if (request.flag("upsert", false))
      return {ErrorCode::kFailedToParse, "Cannot specify both upsert=true and remove=true"};
    if (request.flag("new", false))
      return {ErrorCode::kFailedToParse,
              "Cannot specify both new=true and remove=true; 'remove' always returns the deleted "
              "document"};
    if (request.has("arrayFilters"))
      return {ErrorCode::kFailedToParse, "Cannot specify arrayFilters and remove=true"};
  } else if (!has_update) {
    return {ErrorCode::kFailedToParse, "Either an update or remove=true must be specified"};
  }
  if (const ValueView filters = request.option("arrayFilters"); filters.type() == BsonType::kArray)
    for (const Element& filter : filters.as_document())
      if (filter.type() != BsonType::kObject)
        return {ErrorCode::kTypeMismatch, "arrayFilters must be an array of objects"};
  return {};
}

Status parse(const CommandRequest& request, ModifyStatement& out) {
  const bool remove = request.flag("remove", false);
  MULTIFORA_TRY(check_combination(request, remove));
  MULTIFORA_TRY(check_hint(request.option("hint")));
  out.ns = request.ns();
  out.query.filter = request.document("query");
  out.query.sort = request.document("sort");
  out.query.projection = request.document("fields");
  out.query.hint = hint_of(request.option("hint"));
  out.query.collation = request.option("collation");
  out.query.let = request.document("let");
  if (!remove) out.update = request.option("update");
  out.array_filters = document_of(request.option("arrayFilters"));
  out.upsert = request.flag("upsert", false);
  out.bypass_validation = request.flag("bypassDocumentValidation", false);
  out.image = !remove && request.flag("new", false) ? ModifyStatement::Image::kAfter
                                                    : ModifyStatement::Image::kBefore;
  return {};
}

// The reply's fields.
OwnedDocument result_of(const ModifyOutcome& outcome, bool remove) {
  DocumentBuilder result;
  {
    DocumentBuilder last = result.object("lastErrorObject");
    last.append("n", static_cast<std::int32_t>(outcome.matched + (outcome.upserted ? 1 : 0)));
    if (!remove) last.append("updatedExisting", outcome.matched > 0);
    if (outcome.upserted) last.append("upserted", outcome.upserted_id.view().first().value());
  }
  if (outcome.has_image)
    result.append("value", outcome.image.view());
  else
    result.append_null("value");
  return std::move(result).finish();
}

Status find_and_modify(CommandContext& context, const CommandRequest& request,
                       DocumentBuilder& reply) {
  MULTIFORA_TRY(check_writable(request.ns()));
  ModifyStatement statement;
  MULTIFORA_TRY(parse(request, statement));
  MULTIFORA_ASSIGN(auto retry, RetryableStatements::make(context, request, 1));
  MULTIFORA_ASSIGN(const auto before, retry.find(0));
  if (before) {
    reply.append_all(before->view());
    reply.append("retriedStmtId", retry.retried().front());
    return {};
  }
  statement.id = retry.id(0);
  const bool remove = statement.update.missing();
  WriteBatch batch(context);
  MULTIFORA_ASSIGN(const ModifyOutcome outcome,
                   run_modify(context, statement, batch, [remove](const ModifyOutcome& done) {
                     return result_of(done, remove);
                   }));
  MULTIFORA_TRY(batch.flush());
  const OwnedDocument result = result_of(outcome, remove);
  reply.append_all(result.view());
  return {};
}

}  // namespace

Status explain_find_and_modify(CommandContext& context, const CommandRequest& request,
                               ExplainVerbosity verbosity, DocumentBuilder& reply) {
  ModifyStatement statement;
  MULTIFORA_TRY(parse(request, statement));
  MULTIFORA_ASSIGN(auto query, compile_modify(context, statement));
  return explain_query(context, request, request.ns(), std::move(query), verbosity,
                       statement.update.missing() ? "DELETE" : "UPDATE", reply);
}

const CommandRow kFindAndModify{
    .name = "findAndModify",
    .aliases = {"findandmodify"},
    .help = "changes or removes one document and returns it",
    .privilege = "findAndModify",
    .lock = LockIntent::kWrite,
    .flags = kAllowedInTransaction | kRetryableWrite | kAcceptsWriteConcern | kCollectionName |
             kAllowedInStrictApi,
    .options =
        {
            {"query", kOptObject},
            {"sort", kOptObject},
            {"remove", kOptBoolish},
            {"update", kOptObject | kOptArray},
            {"new", kOptBoolish},
            {"fields", kOptObject},
            {"upsert", kOptBoolish},
            {"hint", kOptString | kOptObject},
            {"collation", kOptObject},
            {"arrayFilters", kOptArray},
            {"let", kOptObject},
            {"bypassDocumentValidation", kOptBoolish},
            {"stmtId", kOptInt32},
            {"stmtIds", kOptArray},
            {"bypassEmptyTsReplacement", kOptBool, kUnsupported},
            {"collectionUUID", kOptAny, kUnsupported},
            {"encryptionInformation", kOptAny, kUnsupported},
            {"sampleId", kOptAny, kUnsupported},
            {"legacyRuntimeConstants", kOptAny, kUnsupported},
            {"runtimeConstants", kOptAny, kUnsupported},
        },
    .run = find_and_modify,
};

}  // namespace multifora::crud
