// The host that the contract tests run against: every plugin that the server of this build links,
// as server/runtime loads them, and the reference plugins after them. Frozen unless told otherwise.
#pragma once

#include "core/plugin/host.h"

namespace multifora::contract {

// Aborts the test case where a plugin refuses.
void load_registered(PluginHost& host);

}  // namespace multifora::contract
