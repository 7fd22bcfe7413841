#include <doctest/doctest.h>

#include "core/base/error_codes_rare.h"

#include "core/plugin/fail_points.h"
#include "core/plugin/plugin.h"
#include "plugins/command-test/rows.h"

const multifora::PluginEntry* multifora_plugin_command_test();

namespace multifora {

TEST_CASE("without fail points there is no command") {
  PluginHost host;
  REQUIRE(host.load(*multifora_plugin_command_test(), "").ok());
  CHECK(host.command("configureFailPoint") == nullptr);
}

TEST_CASE("configureFailPoint sets a declared fail point") {
  PluginHost host;
  auto points = std::make_shared<FailPoints>();
  points->declare("here", nullptr);
  REQUIRE(host.add_service<FailPoints>(points).ok());
  REQUIRE(host.load(*multifora_plugin_command_test(), "").ok());
  host.freeze();
  ClientInfo client;
  Interrupt interrupt(system_clock());
  const auto configure = [&](std::string_view name) {
    DocumentBuilder b;
    b.append("configureFailPoint", name).object("mode").append("times", 1);
    const OwnedDocument body = std::move(b).finish();
    CommandContext context(host, nullptr, client, interrupt);
    DocumentBuilder reply;
    return host.command("configureFailPoint")
        ->run(context, CommandRequest(body.view(), "admin", {}), reply)
        .code();
  };
  CHECK(configure("here") == ErrorCode::kOK);
  CHECK(points->hit("here"));
  CHECK_FALSE(points->hit("here"));
  CHECK(configure("nowhere") == rare::kFailPointSetFailed);
}

}  // namespace multifora
