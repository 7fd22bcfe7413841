// The rows of this plugin, by the file that defines them.
#pragma once

#include "core/plugin/command.h"
#include "core/plugin/default_concerns.h"

namespace multifora::diagnostic_commands {

// compact.cpp
extern const CommandRow kCompact;
// server_info.cpp
extern const CommandRow kPing;
extern const CommandRow kBuildInfo;
extern const CommandRow kHostInfo;
extern const CommandRow kWhatsMyUri;
extern const CommandRow kListCommands;
extern const CommandRow kGetCmdLineOpts;
extern const CommandRow kConnectionStatus;
extern const CommandRow kUsersInfo;
extern const CommandRow kRolesInfo;
// parameters.cpp
extern const CommandRow kGetParameter;
extern const CommandRow kSetParameter;
extern const CommandRow kGetDefaultRwConcern;
extern const CommandRow kSetDefaultRwConcern;
// logging.cpp
extern const CommandRow kGetLog;
extern const CommandRow kLogRotate;
// operations.cpp
extern const CommandRow kCurrentOp;
extern const CommandRow kKillOp;
extern const CommandRow kFsync;
extern const CommandRow kFsyncUnlock;
extern const CommandRow kShutdown;
extern const CommandRow kTop;
// server_status.cpp
extern const CommandRow kServerStatus;
// storage_stats.cpp
extern const CommandRow kDbStats;
extern const CommandRow kCollStats;
extern const CommandRow kDataSize;
// backup.cpp
extern const CommandRow kCreateBackup;
// validate.cpp
extern const CommandRow kValidate;

// The service that the dispatcher asks for concerns that a request does not give.
std::shared_ptr<DefaultConcerns> make_default_concerns();

}  // namespace multifora::diagnostic_commands
