#include "server/dispatch/fail_command.h"

#include <algorithm>

#include "core/plugin/option_check.h"

namespace multifora {
namespace {

const OptionSpec kFields[] = {
    {"failCommands", kOptArray, kRequired},
    {"failInternalCommands", kOptBool},  // there are no internal clients
    {"appName", kOptString},
    {"namespace", kOptString},
    {"blockConnection", kOptBool},
    {"blockTimeMS", kOptNumber, kNonNegative},
    {"closeConnection", kOptBool},
    {"errorCode", kOptNumber},
    {"errorLabels", kOptArray},
    {"writeConcernError", kOptObject},
    {"failAllCommands", kOptBool, kUnsupported},
    {"errorExtraInfo", kOptObject, kUnsupported},
    {"threadName", kOptString, kUnsupported},
};

bool has_name(DocumentView list, std::string_view name) {
  for (const Element& entry : list)
    if (entry.type() == BsonType::kString && entry->as_string() == name) return true;
  return false;
}

bool names(DocumentView list, const CommandRow& row) {
  return has_name(list, row.name) ||
         std::any_of(row.aliases.begin(), row.aliases.end(),
                     [&](std::string_view alias) { return has_name(list, alias); });
}

bool is_from(const ClientInfo& client, DocumentView data) {
  const ValueView app_name = data["appName"];
  return app_name.missing() || app_name.as_string() == client.app_name;
}

// The namespace that a command is about; a getMore names its collection in a field of its own.
std::string namespace_of(const CommandRequest& request) {
  const ValueView target = request.target();
  const ValueView collection = request.option("collection");
  std::string ns(request.db());
  ns += '.';
  if (target.type() == BsonType::kString)
    ns += target.as_string();
  else if (collection.type() == BsonType::kString)
    ns += collection.as_string();
  return ns;
}

bool concerns(DocumentView data, const CommandRow& row, const CommandRequest& request,
              const ClientInfo& client) {
  if (!names(data["failCommands"].as_document(), row) || !is_from(client, data)) return false;
  const ValueView ns = data["namespace"];
  return ns.missing() || ns.as_string() == namespace_of(request);
}

}  // namespace

Status CommandFault::failure() const {
  return {*error, "Failing command via 'failCommand' failpoint"};
}

Status check_fail_command(DocumentView data) {
  for (const Element& field : data) {
    const auto* option = std::find_if(std::begin(kFields), std::end(kFields),
                                      [&](const OptionSpec& o) { return o.name == field.name(); });
    if (option == std::end(kFields)) return unknown_field("failCommand", field.name());
    MULTIFORA_TRY(check_option("failCommand", *option, field.value()));
  }
  if (data["failCommands"].missing()) return missing_field("failCommand", "failCommands");
  if (data["blockConnection"].truthy() && data["blockTimeMS"].missing())
    return {ErrorCode::kInvalidOptions,
            "must specify 'blockTimeMS' when 'blockConnection' is true"};
  return {};
}

std::optional<CommandFault> find_command_fault(FailPoints& points, const CommandRow& row,
                                               const CommandRequest& request,
                                               const ClientInfo& client) {
  if ((row.flags & kPassesFailPoints) != 0) return std::nullopt;
  CommandFault fault;
  fault.data = points.hit(kFailCommand, [&](DocumentView data) {
    return concerns(data, row, request, client);
  });
  if (!fault.data) return std::nullopt;
  const DocumentView data = fault.data->view();
  if (data["blockConnection"].truthy()) fault.block_ms = data["blockTimeMS"].number_as_int64();
  fault.close_connection = data["closeConnection"].truthy();
  if (const ValueView code = data["errorCode"]; code.is_number())
    fault.error = static_cast<ErrorCode>(code.number_as_int64());
  fault.write_concern_error = data["writeConcernError"];
  fault.labels = data["errorLabels"];
  return fault;
}

bool closes_unknown_command(FailPoints& points, std::string_view name, const ClientInfo& client) {
  return points.hit(kFailCommand, [&](DocumentView data) {
    return data["closeConnection"].truthy() && data["namespace"].missing() &&
           has_name(data["failCommands"].as_document(), name) && is_from(client, data);
  }) != nullptr;
}

}  // namespace multifora
