// What a plugin's one source file with its entry includes.
//
//   static multifora::Status register_plugin(multifora::PluginHost& host) { ... }
//   MULTIFORA_PLUGIN(codec_lz4, "codec-lz4", "1.0.0", register_plugin)
//
// Linked statically, this defines multifora_plugin_codec_lz4(), which the server's generated table
// calls. Built as a shared object (MULTIFORA_SHARED_PLUGIN), it also defines the C symbol
// `multifora_plugin`, which PluginHost::load_shared looks up.
#pragma once

#include "core/plugin/abi_hash.h"  // made by the build
#include "core/plugin/host.h"

namespace multifora {

// Everything that two builds must agree on to share objects: compiler ABI, page size, and what the
// headers declare that a plugin may include (their hash: cmake/plugin_abi_hash.cmake).
#define MULTIFORA_STRINGIFY2(x) #x
#define MULTIFORA_STRINGIFY(x) MULTIFORA_STRINGIFY2(x)
inline constexpr const char* kPluginAbiStamp =
    "multifora-abi-" MULTIFORA_ABI_HASH ";page=" MULTIFORA_STRINGIFY(MULTIFORA_PAGE_SIZE) ";" __VERSION__;

struct PluginEntry {
  // These three first, in this order, for ever: a refusal of another ABI names them.
  const char* abi_stamp;
  const char* name;  // the folder's name
  const char* version;
  Status (*register_plugin)(PluginHost& host);
};

}  // namespace multifora

#ifdef MULTIFORA_SHARED_PLUGIN
#define MULTIFORA_PLUGIN_EXPORT(entry)                                                  \
  extern "C" __attribute__((visibility("default"))) const ::multifora::PluginEntry*     \
  multifora_plugin() {                                                                  \
    return entry();                                                                     \
  }
#else
#define MULTIFORA_PLUGIN_EXPORT(entry)
#endif

#define MULTIFORA_PLUGIN(identifier, name, version, register_function)                  \
  const ::multifora::PluginEntry* multifora_plugin_##identifier();                      \
  const ::multifora::PluginEntry* multifora_plugin_##identifier() {                     \
    static const ::multifora::PluginEntry entry{::multifora::kPluginAbiStamp, name,     \
                                                version, register_function};            \
    return &entry;                                                                      \
  }                                                                                     \
  MULTIFORA_PLUGIN_EXPORT(multifora_plugin_##identifier)
