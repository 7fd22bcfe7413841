// What the store needs to move the few live records out of mostly dead chunks.
#include <fmt/format.h>

#include <algorithm>

#include "core/storage/record_pool.h"

namespace multifora {

std::vector<RecordSpace::Sparse> RecordSpace::sparse_chunks(CollectionId collection,
                                                            double live_fraction_max,
                                                            std::size_t count_max) const {
  Impl& impl = *impl_;
  std::vector<Sparse> found;
  std::lock_guard lock(impl.kernel.mutex);
  const ChunkTable::Owner* const owner = impl.table().owner(collection);
  if (owner == nullptr) return found;
  for (const std::uint64_t chunk : owner->chunks) {
    const ChunkState& state = impl.table()[chunk];
    const std::uint64_t live = kUnitsPerChunk - state.entry.free_units;
    const double fraction = static_cast<double>(live) / kUnitsPerChunk;
    if (live > 0 && fraction <= live_fraction_max && !state.held && state.reservations == 0)
      found.push_back({chunk, collection, fraction});
  }
  std::sort(found.begin(), found.end(),
            [](const Sparse& a, const Sparse& b) { return a.live_fraction < b.live_fraction; });
  if (found.size() > count_max) found.resize(count_max);
  return found;
}

// The pin keeps what is retired meanwhile from being written over while it is visited.
Status RecordSpace::visit_chunk(
    std::uint64_t chunk,
    const std::function<void(RecordLocation, CollectionId, Bytes)>& visit) const {
  Impl& impl = *impl_;
  const Snapshot pinned = impl.kernel.pin();
  ChunkEntry entry;
  UnitWords words;
  impl.touch_bitmap(chunk * kUnitsPerChunk);
  {
    std::lock_guard lock(impl.kernel.mutex);
    if (chunk >= impl.table().size()) return {};
    entry = impl.table()[chunk].entry;
    if (entry.kind != ChunkKind::kRecords) return {};
    MULTIFORA_ASSIGN(const char* const page, impl.pager.read(entry.bitmap_page));
    words = load_units(page, entry);
  }
  std::uint32_t unit = entry.lead_units;
  while (unit < kUnitsPerChunk) {
    const std::uint64_t rest = words[unit / 64] >> (unit % 64);
    if ((rest & 1) == 0) {
      unit += rest == 0 ? 64 - unit % 64 : static_cast<std::uint32_t>(std::countr_zero(rest));
      continue;
    }
    const RecordLocation location = chunk * kUnitsPerChunk + unit;
    CollectionId collection = 0;
    std::memcpy(&collection, impl.pager.read_base_ + location * kRecordUnit + 4, sizeof collection);
    MULTIFORA_ASSIGN(const Bytes payload, peek(location, collection));
    visit(location, collection, payload);
    unit += static_cast<std::uint32_t>(record_units(payload.size()));
  }
  return {};
}

void RecordSpace::quarantine(RecordAllocator& allocator, std::uint64_t chunk) {
  Impl& impl = *impl_;
  std::lock_guard lock(impl.kernel.mutex);
  RecordPool& pool = impl.pool_for(allocator, allocator.own_, 0);
  if (chunk >= impl.table().size()) return;
  ChunkState& state = impl.table()[chunk];
  if (state.entry.kind != ChunkKind::kRecords || state.entry.owner != pool.owner) return;
  state.quarantined = true;
  if (!state.held) return;
  impl.drop_holes(pool);
  impl.drop_bump(pool);
}

}  // namespace multifora
