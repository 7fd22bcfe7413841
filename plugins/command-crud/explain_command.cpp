// explain.
#include "core/plugin/generic_arguments.h"
#include "plugins/command-crud/commands.h"
#include "plugins/command-crud/statement.h"

namespace multifora::crud {
namespace {

// The inner command's options against its own table.
Status check_inner(const CommandRow& row, DocumentView command) {
  std::vector<OptionSpec> table(row.options.begin(), row.options.end());
  table.push_back({command.first().name(), kOptAny});
  table.push_back({"explain", kOptAny});
  DocumentBuilder own;
  for (const Element& field : command)
    if (find_generic_argument(field.name()) == nullptr) own.append(field);
  const OwnedDocument fields = std::move(own).finish();
  return check_fields(row.name, fields.view(), table);
}

Status explain(CommandContext& context, const CommandRequest& request, DocumentBuilder& reply) {
  if (request.target().type() != BsonType::kObject)
    return {ErrorCode::kTypeMismatch,
            "BSON field 'explain.explain' is the wrong type '" +
                std::string(type_name(request.target().type())) + "', expected type 'object'"};
  const DocumentView command = request.target().as_document();
  MULTIFORA_ASSIGN(const ExplainVerbosity verbosity, parse_verbosity(request.option("verbosity")));
  const std::string_view name = command.first().name();
  const CommandRow* row = context.host().command(name);
  if (row == nullptr)
    return {ErrorCode::kCommandNotFound,
            "Explain failed due to unknown command: " + std::string(name)};
  const ValueView db = command["$db"];
  if (db.type() == BsonType::kString && db.as_string() != request.db())
    return {ErrorCode::kInvalidNamespace, "Mismatched $db in explain command. Expected " +
                                              std::string(request.db()) + " but got " +
                                              std::string(db.as_string())};
  const ExplainFunction function =
      context.host().service<ExplainRegistry>()->find(row->name);
  if (function == nullptr)
    return {ErrorCode::kIllegalOperation,
            "Explain is not supported for the command: " + std::string(name)};
  MULTIFORA_TRY(check_inner(*row, command));
  if ((row->flags & kCollectionName) != 0 && (command.first().type() != BsonType::kString ||
                                              command.first()->as_string().empty()))
    return {ErrorCode::kInvalidNamespace, "Invalid namespace specified"};
  // A document sequence may hold the inner command's statements.
  const CommandRequest inner(command, request.db(), request.sequences());
  return function(context, inner, verbosity, reply);
}

}  // namespace

const CommandRow kExplain{
    .name = "explain",
    .aliases = {},
    .help = "shows how a command would run",
    .privilege = "find",
    .lock = LockIntent::kRead,
    .flags = kAcceptsReadConcern | kAllowedInStrictApi,
    .options = {{"verbosity", kOptString}},
    .run = explain,
};

}  // namespace multifora::crud
