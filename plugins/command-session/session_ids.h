// Lists of session ids, as endSessions and its relatives take them, and what ends with a session.
#pragma once

#include <string>
#include <vector>

#include "core/plugin/command.h"

namespace multifora::session {

// The 16 bytes of each {id: UUID} in the array that is the command's first field. TypeMismatch,
// InvalidUUID, 40414 as MongoDB.
Result<std::vector<std::string>> session_ids(const CommandRequest& request);
// TypeMismatch where the command's first field is no array of documents.
Status check_array_target(const CommandRequest& request);
// The 16 bytes of {id: UUID, uid: ...}; `path` is where it stands.
Result<std::string> session_id(const std::string& path, DocumentView document);
// Ends the cursors that these sessions opened; all cursors where `ids` is empty.
void end_cursors(PluginHost& host, const std::vector<std::string>& ids);

}  // namespace multifora::session
