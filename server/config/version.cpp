#include "server/config/version.h"

#include "core/plugin/plugin.h"

namespace multifora {

std::string version_text() {
  return std::string("multiforadb ") + kServerVersion + "\nplugin interface: " + kPluginAbiStamp +
         "\n";
}

}  // namespace multifora
