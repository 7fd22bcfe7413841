// Lists of session ids, as endSessions and its relatives take them.
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

}  // namespace multifora::session
