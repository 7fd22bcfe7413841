// The rows of this plugin, one for each command; each is defined beside its handler.
#pragma once

#include "core/plugin/command.h"

namespace multifora::session {

extern const CommandRow kHello;
extern const CommandRow kIsMaster;
extern const CommandRow kStartSession;
extern const CommandRow kEndSessions;
extern const CommandRow kRefreshSessions;
extern const CommandRow kKillSessions;
extern const CommandRow kKillAllSessions;
extern const CommandRow kKillAllSessionsByPattern;
extern const CommandRow kCommitTransaction;
extern const CommandRow kAbortTransaction;
extern const CommandRow kReplSetGetStatus;
extern const CommandRow kReplSetGetConfig;
extern const CommandRow kReplSetInitiate;
extern const CommandRow kReplSetStepDown;

}  // namespace multifora::session
