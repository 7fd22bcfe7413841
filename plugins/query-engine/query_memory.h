// How much memory a stage of a query may take before it spills to files, or fails where it may not: the
// configuration's query-engine.stage_memory_mb.
#pragma once

#include <cstdint>

#include "core/base/limits.h"
#include "core/plugin/host.h"

namespace multifora {

// A service of the host; made while plugins register, not changed later.
struct QueryMemory {
  std::uint64_t stage_bytes = limits::kQueryMemoryMax;

  static std::uint64_t stage_bytes_of(const PluginHost& host) {
    const QueryMemory* const set = host.service<QueryMemory>();
    return set != nullptr ? set->stage_bytes : limits::kQueryMemoryMax;
  }
};

}  // namespace multifora
