// Keeps the resident part of the mapping within the budget.
#include <unistd.h>

#include <cstdio>

#include "core/storage/pager_impl.h"

namespace multifora {

namespace {

constexpr std::uint64_t kReleaseChunks = 8;

struct Resident {
  std::uint64_t file_bytes = 0;
  std::uint64_t anonymous_bytes = 0;
};

// The third field of statm counts file and shared pages.
Resident resident() {
  std::FILE* const statm = std::fopen("/proc/self/statm", "re");
  if (statm == nullptr) return {};
  unsigned long long size = 0, all = 0, shared = 0;
  const int fields = std::fscanf(statm, "%llu %llu %llu", &size, &all, &shared);
  std::fclose(statm);
  if (fields != 3 || all < shared) return {};
  const auto page = static_cast<std::uint64_t>(::getpagesize());
  return {shared * page, (all - shared) * page};
}

}  // namespace

// Goes round the file like the hand of a clock. What changed since the newest durable checkpoint is
// passed over: the system could not drop it, and it is likely to be used soon. Begins and ends below
// the budget: between two calls a scan may bring in as much again as there is room for.
void Pager::trim_memory() {
  Impl& impl = *impl_;
  const std::uint64_t budget = impl.options.memory_budget_bytes;
  if (budget == 0) return;
  const Resident now = resident();
  const std::uint64_t for_file = budget - std::min(now.anonymous_bytes, budget / 2);
  if (now.file_bytes <= for_file / 4 * 3) return;
  std::uint64_t left = impl.file_bytes.load(std::memory_order_acquire) / kChunkSize;
  while (left > 0 && resident().file_bytes > for_file / 8 * 5) {
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
