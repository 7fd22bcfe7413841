// update.
#include "plugins/command-crud/statement_run.h"

namespace multifora::crud {
namespace {

const OptionSpec kStatement[] = {
    {"q", kOptObject, kRequired},
    {"u", kOptAny, kRequired},
    {"c", kOptObject},
    {"multi", kOptBool},
    {"upsert", kOptBool},
    {"arrayFilters", kOptArray},
    {"hint", kOptAny},
    {"collation", kOptObject},
    {"sort", kOptObject},
    {"upsertSupplied", kOptBool, kUnsupported},
    {"sampleId", kOptAny, kUnsupported},
    // There are no shards.
    {"allowShardKeyUpdatesWithoutFullShardKeyInQuery", kOptBool, kNoEffect},
};

Status check_array_filters(const ValueView& filters) {
  if (filters.type() != BsonType::kArray) return {};
  for (const Element& filter : filters.as_document())
    if (filter.type() != BsonType::kObject)
      return {ErrorCode::kTypeMismatch, "BSON field 'update.updates.arrayFilters." +
                                            std::string(filter.name()) +
                                            "' is the wrong type '" +
                                            std::string(type_name(filter.type())) +
                                            "', expected type 'object'"};
  return {};
}

DocumentView document_of(const ValueView& value) {
  return value.type() == BsonType::kObject || value.type() == BsonType::kArray
             ? value.as_document()
             : DocumentView();
}

// Fields of the right types: what fails here fails the command.
Status parse(DocumentView spec, const CommandRequest& request, ModifyStatement& out) {
  MULTIFORA_TRY(check_fields("update.updates", spec, kStatement));
  const BsonType type = spec["u"].type();
  if (type != BsonType::kObject && type != BsonType::kArray)
    return {ErrorCode::kFailedToParse, "Update argument must be either an object or an array"};
  MULTIFORA_TRY(check_hint(spec["hint"]));
  MULTIFORA_TRY(check_array_filters(spec["arrayFilters"]));
  out.ns = request.ns();
  out.query.filter = spec["q"].as_document();
  out.query.hint = hint_of(spec["hint"]);
  out.query.collation = spec["collation"];
  out.query.sort = document_of(spec["sort"]);
  out.query.let = request.document("let");
  out.update = spec["u"];
  out.constants = document_of(spec["c"]);
  out.array_filters = document_of(spec["arrayFilters"]);
  out.multi = spec["multi"].truthy();
  out.upsert = spec["upsert"].truthy();
  out.bypass_validation = request.flag("bypassDocumentValidation", false);
  if (out.multi && !out.query.sort.empty())
    return {ErrorCode::kFailedToParse, "Cannot specify sort with multi=true"};
  return {};
}

// What a retry is answered with, and how the answer is read.
OwnedDocument result_of(const ModifyOutcome& outcome) {
  DocumentBuilder result;
  result.append("n", outcome.matched).append("nModified", outcome.modified);
  if (outcome.upserted) result.append("upserted", outcome.upserted_id.view());
  return std::move(result).finish();
}
ModifyOutcome outcome_of(DocumentView result) {
  ModifyOutcome outcome;
  outcome.matched = result["n"].number_as_int64();
  outcome.modified = result["nModified"].number_as_int64();
  if (result["upserted"].type() == BsonType::kObject) {
    outcome.upserted = true;
    outcome.upserted_id = OwnedDocument(result["upserted"].as_document());
  }
  return outcome;
}

struct Totals {
  std::int64_t matched = 0, modified = 0, upserts = 0;
  ArrayBuilder upserted;

  void add(std::size_t index, const ModifyOutcome& outcome) {
    matched += outcome.matched + (outcome.upserted ? 1 : 0);
    modified += outcome.modified;
    if (!outcome.upserted) return;
    ++upserts;
    DocumentBuilder entry = upserted.object();
    entry.append("index", static_cast<std::int32_t>(index));
    entry.append_all(outcome.upserted_id.view());
  }
  void append_to(DocumentBuilder& reply) {
    reply.append("n", static_cast<std::int32_t>(matched));
    const OwnedDocument ids = std::move(upserted).finish();
    if (upserts > 0) reply.append_array("upserted", ids.view());
    reply.append("nModified", static_cast<std::int32_t>(modified));
  }
};

constexpr StatementFamily kFamily{"updates", "multi=true", "UPDATE",
                                  parse,     result_of,    outcome_of};

Status update(CommandContext& context, const CommandRequest& request, DocumentBuilder& reply) {
  Totals totals;
  return run_statements(
      context, request, kFamily,
      [&](std::size_t index, const ModifyOutcome& outcome) { totals.add(index, outcome); },
      [&](DocumentBuilder& out) { totals.append_to(out); }, reply);
}

}  // namespace

Status explain_update(CommandContext& context, const CommandRequest& request,
                      ExplainVerbosity verbosity, DocumentBuilder& reply) {
  return explain_statement(context, request, kFamily, verbosity, reply);
}

const CommandRow kUpdate{
    .name = "update",
    .aliases = {},
    .help = "update documents",
    .privilege = "update",
    .lock = LockIntent::kWrite,
    .flags = kAllowedInTransaction | kRetryableWrite | kAcceptsWriteConcern | kCollectionName |
             kAllowedInStrictApi,
    .options =
        {
            {"updates", kOptArray, kRequired | kArrayOfObjects},
            {"ordered", kOptBool},
            {"let", kOptObject},
            {"bypassDocumentValidation", kOptBoolish},
            {"stmtId", kOptInt32},
            {"stmtIds", kOptArray},
            {"bypassEmptyTsReplacement", kOptBool, kUnsupported},
            {"isTimeseriesNamespace", kOptBool, kUnsupported},
            {"collectionUUID", kOptAny, kUnsupported},
            {"encryptionInformation", kOptAny, kUnsupported},
            {"legacyRuntimeConstants", kOptAny, kUnsupported},
            {"runtimeConstants", kOptAny, kUnsupported},
        },
    .run = update,
};

}  // namespace multifora::crud
