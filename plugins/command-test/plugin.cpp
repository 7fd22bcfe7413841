// Commands that only tests need: registered where the server offers fail points.
#include "core/plugin/plugin.h"

#include "core/plugin/fail_points.h"
#include "plugins/command-test/rows.h"

namespace {

multifora::Status register_plugin(multifora::PluginHost& host) {
  if (host.service<multifora::FailPoints>() == nullptr) return {};
  MULTIFORA_TRY(host.add_command(&multifora::test_commands::kTestVersion2));
  return host.add_command(&multifora::test_commands::kConfigureFailPoint);
}

}  // namespace

MULTIFORA_PLUGIN(command_test, "command-test", "1.0.0", register_plugin)
