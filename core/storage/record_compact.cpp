// What the store needs to move the live records out of chunks that are to become free.
#include <fmt/format.h>

#include <algorithm>

#include "core/storage/record_pool.h"

namespace multifora {

std::vector<RecordSpace::Use> RecordSpace::uses() const {
  const ChunkTable& table = impl_->kernel.table;
  std::vector<Use> found;
  std::lock_guard lock(impl_->kernel.mutex);
  found.reserve(table.owners().size());
  for (const auto& [collection, owner] : table.owners())
    found.push_back({collection, owner.chunks.size() * kChunkSize,
                     owner.reusable_units * kRecordUnit, 0});
  return found;
}

RecordSpace::Use RecordSpace::use_of(CollectionId collection) const {
  const ChunkTable& table = impl_->kernel.table;
  Use use{.collection = collection};
  std::lock_guard lock(impl_->kernel.mutex);
  const ChunkTable::Owner* const owner = table.owner(collection);
  if (owner == nullptr) return use;
  use.chunk_bytes = owner->chunks.size() * kChunkSize;
  use.free_bytes = owner->reusable_units * kRecordUnit;
  for (const std::uint64_t chunk : owner->chunks)
    use.retired_bytes += std::uint64_t{table[chunk].busy_units} * kRecordUnit;
  return use;
}

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
    if (live > 0 && fraction <= live_fraction_max && !state.held && !state.quarantined &&
        state.reservations == 0 && !impl.table().frozen(chunk))
      found.push_back({chunk, collection, fraction});
  }
  const auto sparser = [](const Sparse& a, const Sparse& b) {
    return a.live_fraction < b.live_fraction;
  };
  const std::size_t count = std::min(count_max, found.size());
  std::partial_sort(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(count), found.end(),
                    sparser);
  found.resize(count);
  return found;
}

std::uint64_t RecordSpace::last_record_chunk(std::uint64_t chunk) const {
  const ChunkTable& table = impl_->kernel.table;
  std::lock_guard lock(impl_->kernel.mutex);
  for (std::uint64_t last = table.size(); last-- > chunk;)
    if (table[last].entry.kind == ChunkKind::kRecords &&
        table[last].entry.free_units < kUnitsPerChunk)
      return last;
  return 0;
}

// The used bits of a record chunk; `entry` says of which kind it is.
Result<UnitWords> RecordSpace::Impl::used_units(std::uint64_t chunk, ChunkEntry* entry) const {
  UnitWords words{};
  PageId bitmap = kNoPage;
  {
    std::lock_guard lock(kernel.mutex);
    *entry = chunk < kernel.table.size() ? kernel.table[chunk].entry : ChunkEntry{};
    bitmap = entry->bitmap_page;
  }
  if (entry->kind != ChunkKind::kRecords) return words;
  // Perhaps from the disk: not under the mutex.
  MULTIFORA_TRY_R(status_of(pager.read(bitmap)));
  std::lock_guard lock(kernel.mutex);
  if (chunk >= kernel.table.size() || kernel.table[chunk].entry.kind != ChunkKind::kRecords) {
    *entry = ChunkEntry{};
    return words;
  }
  *entry = kernel.table[chunk].entry;
  MULTIFORA_ASSIGN_R(const char* const page, pager.read(entry->bitmap_page));
  return load_units(page, *entry);
}

// The record that begins in an earlier chunk and goes on in this one.
Result<RecordLocation> RecordSpace::Impl::crossing_into(std::uint64_t chunk) const {
  while (chunk-- > 0) {
    ChunkEntry entry;
    MULTIFORA_ASSIGN_R(const UnitWords words, used_units(chunk, &entry));
    if (entry.kind != ChunkKind::kRecords) break;
    if (entry.lead_units == kUnitsPerChunk) continue;
    std::uint32_t unit = entry.lead_units;
    while (unit < kUnitsPerChunk) {
      if ((words[unit / 64] >> (unit % 64) & 1) == 0) {
        ++unit;
        continue;
      }
      const RecordLocation location = chunk * kUnitsPerChunk + unit;
      std::uint32_t size = 0;
      std::memcpy(&size, pager.read_base_ + location * kRecordUnit, sizeof size);
      const std::uint64_t units = record_units(size);
      if (unit + units > kUnitsPerChunk) return location;
      unit += static_cast<std::uint32_t>(units);
    }
    break;
  }
  return RecordLocation{0};
}

Status RecordSpace::visit_chunk(
    std::uint64_t chunk,
    const std::function<void(RecordLocation, CollectionId, Bytes)>& visit) const {
  const Impl& impl = *impl_;
  const Snapshot pinned = impl.pager.pin();
  const auto visit_record = [&](RecordLocation location, std::uint64_t* units) -> Status {
    CollectionId collection = 0;
    std::memcpy(&collection, impl.pager.read_base_ + location * kRecordUnit + 4, sizeof collection);
    MULTIFORA_ASSIGN(const Bytes payload, peek(location, collection));
    visit(location, collection, payload);
    *units = record_units(payload.size());
    return {};
  };
  ChunkEntry entry;
  MULTIFORA_ASSIGN(const UnitWords words, impl.used_units(chunk, &entry));
  if (entry.kind != ChunkKind::kRecords) return {};
  std::uint64_t units = 0;
  if (entry.lead_units > 0) {
    MULTIFORA_ASSIGN(const RecordLocation leading, impl.crossing_into(chunk));
    if (leading != 0) MULTIFORA_TRY(visit_record(leading, &units));
  }
  std::uint32_t unit = entry.lead_units;
  while (unit < kUnitsPerChunk) {
    const std::uint64_t rest = words[unit / 64] >> (unit % 64);
    if ((rest & 1) == 0) {
      unit += rest == 0 ? 64 - unit % 64 : static_cast<std::uint32_t>(std::countr_zero(rest));
      continue;
    }
    MULTIFORA_TRY(visit_record(chunk * kUnitsPerChunk + unit, &units));
    unit += static_cast<std::uint32_t>(std::min<std::uint64_t>(units, kUnitsPerChunk));
  }
  return {};
}

void RecordSpace::quarantine(std::uint64_t chunk) {
  Impl& impl = *impl_;
  std::lock_guard lock(impl.kernel.mutex);
  if (chunk >= impl.table().size()) return;
  ChunkState& state = impl.table()[chunk];
  if (state.entry.kind != ChunkKind::kRecords) return;
  state.quarantined = true;
  if (!state.held) return;
  for (RecordPool* const pool : impl.pools)
    if (pool->owner == state.entry.owner) impl.leave_chunk(*pool, chunk);
}

void RecordSpace::end_quarantine(std::uint64_t chunk) {
  Impl& impl = *impl_;
  std::lock_guard lock(impl.kernel.mutex);
  if (chunk < impl.table().size()) impl.table()[chunk].quarantined = false;
}

}  // namespace multifora
