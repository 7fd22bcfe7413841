// The fail point failCommand: commands that fail, stall, or lose their connection, as tests of drivers
// ask for. Its data:
//
//   failCommands: [names]            which commands (by name or alias); required
//   appName, namespace: strings      only those of this client, on this collection
//   blockConnection, blockTimeMS     first waits
//   closeConnection: true            then closes the connection, and nothing else happens
//   errorCode                        fails instead of running
//   errorLabels: [labels]            with errorCode or writeConcernError: these and no others
//   writeConcernError: document      runs, and the reply has this writeConcernError
#pragma once

#include <cstdint>
#include <optional>

#include "core/plugin/command.h"
#include "core/plugin/fail_points.h"

namespace multifora {

inline constexpr std::string_view kFailCommand = "failCommand";

struct CommandFault {
  FailPoints::Data data;  // keeps what the views below point into
  std::int64_t block_ms = 0;
  bool close_connection = false;
  std::optional<ErrorCode> error;
  ValueView write_concern_error;  // missing: none
  ValueView labels;               // missing: the server's own

  Status failure() const;
};

// FailedToParse, BadValue, TypeMismatch for what is none; unknown fields are refused.
Status check_fail_command(DocumentView data);
// What is to become of this command; nullopt: nothing.
std::optional<CommandFault> find_command_fault(FailPoints& points, const CommandRow& row,
                                               const CommandRequest& request,
                                               const ClientInfo& client);

// Driver tests strike commands that this server does not have (those of authentication): whether the
// connection of one is to be closed.
bool closes_unknown_command(FailPoints& points, std::string_view name, const ClientInfo& client);

}  // namespace multifora
