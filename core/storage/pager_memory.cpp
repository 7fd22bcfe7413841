// Keeps the resident part of the mapping within the budget.
#include <unistd.h>

#include <cstdio>

#include "core/storage/pager_impl.h"

namespace multifora {

namespace {

constexpr std::uint64_t kReleaseChunks = 8;

// File pages in this process's resident set: the third field of statm counts file and shared ones.
std::uint64_t resident_file_bytes() {
  std::FILE* const statm = std::fopen("/proc/self/statm", "re");
  if (statm == nullptr) return 0;
  unsigned long long size = 0, resident = 0, shared = 0;
  const int fields = std::fscanf(statm, "%llu %llu %llu", &size, &resident, &shared);
  std::fclose(statm);
  return fields == 3 ? shared * static_cast<std::uint64_t>(::getpagesize()) : 0;
}

}  // namespace

// Goes round the file like the hand of a clock. What changed since the newest durable checkpoint is
// passed over: the system could not drop it, and it is likely to be used soon.
void Pager::trim_memory() {
  Impl& impl = *impl_;
  const std::uint64_t budget = impl.options.memory_budget_bytes;
  if (budget == 0) return;
  std::uint64_t left = impl.file_bytes.load(std::memory_order_acquire) / kChunkSize;
  while (left > 0 && resident_file_bytes() > budget) {
    const std::uint64_t count = std::min(left, kReleaseChunks);
    left -= count;
    for (std::uint64_t i = 0; i < count; ++i) {
      std::uint64_t chunk = 0;
      {
        std::lock_guard lock(impl.mutex);
        if (impl.trim_hand >= impl.table.size()) impl.trim_hand = 0;
        chunk = impl.trim_hand++;
        if (impl.table[chunk].written > impl.meta.generation) continue;
      }
      impl.file->release(chunk * kChunkSize, kChunkSize);
    }
  }
}

}  // namespace multifora
