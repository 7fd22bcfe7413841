#include "plugins/command-change-stream/stream_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/plugin/command.h"
#include "core/plugin/host.h"
#include "core/plugin/option_check.h"

namespace multifora::change_stream {
namespace {

constexpr OptionSpec kFields[] = {
    {"fullDocument", kOptString},
    {"fullDocumentBeforeChange", kOptString},
    {"resumeAfter", kOptObject},
    {"startAfter", kOptObject},
    {"startAtOperationTime", kOptTimestamp},
    {"allChangesForCluster", kOptBool},
    {"showExpandedEvents", kOptBool},
    // Internal to sharded clusters and to tools that are not here.
    {"showMigrationEvents", kOptAny, kUnsupported},
    {"showSystemEvents", kOptAny, kUnsupported},
    {"showRawUpdateDescription", kOptAny, kUnsupported},
    {"allowToRunOnConfigDB", kOptAny, kUnsupported},
    {"allowToRunOnSystemNS", kOptAny, kUnsupported},
    {"matchCollectionUUIDForUpdateLookup", kOptAny, kUnsupported},
};

Status bad_enumeration(std::string_view field, std::string_view value) {
  return {ErrorCode::kBadValue, fmt::format("Enumeration value '{}' for field '$changeStream.{}' is not a valid value.",
                                            value, field)};
}

Status read_enumerations(DocumentView spec, StreamOptions& options) {
  if (const ValueView given = spec["fullDocument"]; given.type() == BsonType::kString) {
    const std::string_view value = given.as_string();
    if (value == "updateLookup")
      options.full_document = FullDocument::kUpdateLookup;
    else if (value == "whenAvailable")
      options.full_document = FullDocument::kWhenAvailable;
    else if (value == "required")
      options.full_document = FullDocument::kRequired;
    else if (value != "default")
      return bad_enumeration("fullDocument", value);
  }
  if (const ValueView given = spec["fullDocumentBeforeChange"]; given.type() == BsonType::kString) {
    const std::string_view value = given.as_string();
    if (value == "whenAvailable")
      options.before_change = BeforeChange::kWhenAvailable;
    else if (value == "required")
      options.before_change = BeforeChange::kRequired;
    else if (value != "off")
      return bad_enumeration("fullDocumentBeforeChange", value);
  }
  return {};
}

Status read_start(DocumentView spec, StreamOptions& options) {
  const ValueView resume = spec["resumeAfter"], start = spec["startAfter"];
  const ValueView time = spec["startAtOperationTime"];
  if (resume.type() == BsonType::kObject && start.type() == BsonType::kObject)
    return {location_code(50865), "Do not specify both 'resumeAfter' and 'startAfter' in a $changeStream stage"};
  const bool token_given = resume.type() == BsonType::kObject || start.type() == BsonType::kObject;
  if (token_given && time.type() == BsonType::kTimestamp)
    return {location_code(40674), "Only one type of resume option is allowed, but multiple were found."};
  if (time.type() == BsonType::kTimestamp)
    options.start = ResumeToken::from(time.as_timestamp());
  if (!token_given) return {};
  const bool after_invalidate_allowed = start.type() == BsonType::kObject;
  MULTIFORA_ASSIGN(const ResumeToken token,
                   ResumeToken::parse((after_invalidate_allowed ? start : resume).as_document()));
  if (token.invalidate && !after_invalidate_allowed)
    return {ErrorCode::kInvalidResumeToken,
            "Attempting to resume a change stream using 'resumeAfter' is not allowed from an invalidate notification"};
  options.start = token;
  return {};
}

// Whose changes: the collection's, the database's, or all.
Status read_interest(DocumentView spec, const PipelineContext& context, StreamOptions& options) {
  const std::string& db = context.db;
  const std::string& collection = context.collection;
  if (spec["allChangesForCluster"].truthy()) {
    if (db != "admin" || !collection.empty())
      return {ErrorCode::kInvalidOptions,
              fmt::format("A $changeStream with 'allChangesForCluster:true' may only be opened on the 'admin' database, "
                          "and with no collection name; found {}{}{}", db, collection.empty() ? "" : ".", collection)};
    options.interest = {ChangeInterest::Scope::kAll, {}};
    return {};
  }
  if (db == "admin" || db == "config" || db == "local")
    return {ErrorCode::kInvalidNamespace, fmt::format("$changeStream may not be opened on the internal {} database", db)};
  if (collection.starts_with("system."))
    return {ErrorCode::kInvalidNamespace,
            fmt::format("$changeStream may not be opened on the internal {}.{} collection", db, collection)};
  if (collection.empty()) {
    options.interest = {ChangeInterest::Scope::kDatabase, db};
    return {};
  }
  options.interest = {ChangeInterest::Scope::kCollection, db + "." + collection};
  const auto info = context.store->info(options.interest.name);
  if (info && info->is_view)
    return {ErrorCode::kCommandNotSupportedOnView,
            fmt::format("$changeStream may not be opened on a view: {}", options.interest.name)};
  return {};
}

Status check_surroundings(const PipelineContext& context) {
  if (context.depth > 0)
    return {location_code(51047), "$changeStream is not allowed within a sub-pipeline"};
  const auto* control = context.host != nullptr ? context.host->service<ServerControl>() : nullptr;
  if (control != nullptr && control->set_name().empty())
    return {location_code(40573), "The $changeStream stage is only supported on replica sets"};
  if (context.command == nullptr) return {};
  const SessionInfo& session = context.command->session();
  if (context.command->transaction() != nullptr && session.in_transaction)
    return {ErrorCode::kOperationNotSupportedInTransaction,
            "Operation not permitted in transaction :: caused by :: Aggregation stage $changeStream cannot run within a "
            "multi-document transaction"};
  if (session.has_read_concern && session.read_level != ReadLevel::kMajority)
    return {ErrorCode::kInvalidOptions,
            "$changeStream cannot run with a readConcern other than 'majority', or in a multi-document transaction. "
            "Current readConcern is not 'majority'"};
  return {};
}

}  // namespace

Result<StreamOptions> StreamOptions::parse(const ValueView& spec, const PipelineContext& context) {
  if (spec.type() != BsonType::kObject)
    return fail(location_code(50808), fmt::format("$changeStream must take a nested object but found: {}",
                                                  type_name(spec.type())));
  const DocumentView fields = spec.as_document();
  MULTIFORA_TRY_R(check_fields("$changeStream", fields, kFields));
  MULTIFORA_TRY_R(check_surroundings(context));
  StreamOptions options;
  options.expanded = fields["showExpandedEvents"].truthy();
  MULTIFORA_TRY_R(read_enumerations(fields, options));
  MULTIFORA_TRY_R(read_start(fields, options));
  MULTIFORA_TRY_R(read_interest(fields, context, options));
  return options;
}

}  // namespace multifora::change_stream
