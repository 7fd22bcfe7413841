// Registers collations over ICU.
#include "core/plugin/plugin.h"

#include "plugins/collation-icu/icu_collator.h"

namespace multifora {
namespace {

Status register_plugin(PluginHost& host) {
  return host.set_collator_factory(std::make_unique<IcuCollatorFactory>());
}

}  // namespace
}  // namespace multifora

MULTIFORA_PLUGIN(collation_icu, "collation-icu", "1.0.0", multifora::register_plugin)
