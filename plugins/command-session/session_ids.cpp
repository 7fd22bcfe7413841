#include "plugins/command-session/session_ids.h"

#include "core/plugin/host.h"
#include "plugins/query-engine/cursor_manager.h"

namespace multifora::session {
namespace {

std::string field_path(const CommandRequest& request, const Element& element) {
  const std::string name(request.name());
  return name + "." + name + "." + std::string(element.name());
}

}  // namespace

Result<std::string> session_id(const std::string& path, DocumentView document) {
  const ValueView id = document["id"];
  if (id.missing())
    return fail(location_code(40414),
                "BSON field '" + path + ".id' is missing but a required field");
  if (id.type() != BsonType::kBinData)
    return fail(ErrorCode::kTypeMismatch, "BSON field '" + path + ".id' is the wrong type '" +
                                              std::string(type_name(id.type())) +
                                              "', expected type 'binData'");
  if (id.binary_subtype() != 4 || id.binary_bytes().size() != 16)
    return fail(ErrorCode::kInvalidUUID,
                "uuid must be a 16-byte binary field with UUID (4) subtype");
  return std::string(id.binary_bytes());
}

Status check_array_target(const CommandRequest& request) {
  const std::string name(request.name());
  const ValueView list = request.target();
  if (list.type() != BsonType::kArray)
    return {ErrorCode::kTypeMismatch, "BSON field '" + name + "." + name +
                                          "' is the wrong type '" +
                                          std::string(type_name(list.type())) +
                                          "', expected type 'array'"};
  for (const Element& element : list.as_document())
    if (element.type() != BsonType::kObject)
      return {ErrorCode::kTypeMismatch, "BSON field '" + field_path(request, element) +
                                            "' is the wrong type '" +
                                            std::string(type_name(element.type())) +
                                            "', expected type 'object'"};
  return {};
}

Result<std::vector<std::string>> session_ids(const CommandRequest& request) {
  MULTIFORA_TRY_R(check_array_target(request));
  std::vector<std::string> ids;
  for (const Element& element : request.target().as_document()) {
    MULTIFORA_ASSIGN_R(std::string id,
                       session_id(field_path(request, element), element->as_document()));
    ids.push_back(std::move(id));
  }
  return ids;
}

void end_cursors(PluginHost& host, const std::vector<std::string>& ids) {
  auto* cursors = host.service<CursorManager>();
  if (cursors == nullptr) return;
  if (ids.empty()) cursors->kill_all();
  for (const std::string& id : ids) cursors->kill_session(id);
}

}  // namespace multifora::session
