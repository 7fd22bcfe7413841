// The rows of this plugin.
#pragma once

#include "core/plugin/command.h"

namespace multifora::test_commands {

extern const CommandRow kConfigureFailPoint;
extern const CommandRow kTestVersion2;

}  // namespace multifora::test_commands
