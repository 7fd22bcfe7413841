#include "core/storage/chunk_table.h"

#include <bit>

namespace multifora {

namespace {

constexpr std::size_t kPageWords = (kPagesPerChunk + 63) / 64;

std::uint64_t chunk_of(PageId id) {
  return id / kPagesPerChunk;
}
std::uint64_t bit_of(PageId id) {
  return std::uint64_t{1} << (id % 64);
}
std::size_t word_of(PageId id) {
  return (id % kPagesPerChunk) / 64;
}

// Bits of pages that exist in this word.
constexpr std::uint64_t page_mask(std::size_t word) {
  const std::size_t left = kPagesPerChunk - word * 64;
  return left >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << left) - 1;
}

bool has_free_page(const ChunkState& state) {
  return state.entry.free_units > state.busy_units;
}

}  // namespace

void ChunkTable::init_new() {
  append_free(1);
  free_.erase(0);
  ChunkEntry& entry = states_[0].entry;
  entry.kind = ChunkKind::kPages;
  entry.bits[0] = 3;  // the meta pages
  entry.free_units = kPagesPerChunk - 2;
  page_room_.insert(0);
  mark_dirty(0);
}

void ChunkTable::init_loaded(const std::vector<ChunkEntry>& entries, bool frozen) {
  for (const ChunkEntry& entry : entries) {
    const std::uint64_t chunk = states_.size();
    states_.emplace_back().entry = entry;
    if (entry.kind != ChunkKind::kRecords) continue;
    Owner& owner = owners_[entry.owner];
    owner.chunks.insert(owner.chunks.end(), chunk);
    owner.reusable_units += entry.free_units;
  }
  frozen_below_ = states_.size();
  if (!frozen) {
    std::vector<std::uint64_t> empty;
    unfreeze(&empty);
  }
}

void ChunkTable::append_free(std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    free_.insert(free_.end(), states_.size());
    mark_dirty(states_.size());
    states_.emplace_back();
  }
}

void ChunkTable::unfreeze(std::vector<std::uint64_t>* empty) {
  const std::uint64_t count = frozen_below_;
  frozen_below_ = 0;
  for (std::uint64_t chunk = 0; chunk < count; ++chunk) {
    const ChunkState& state = states_[chunk];
    switch (state.entry.kind) {
      case ChunkKind::kFree:
        free_.insert(chunk);
        break;
      case ChunkKind::kPages:
        if (has_free_page(state)) page_became_free(chunk);
        break;
      case ChunkKind::kRecords:
        if (record_chunk_empty(chunk) && page_used(state.entry.bitmap_page)) empty->push_back(chunk);
        break;
    }
  }
}

void ChunkTable::mark_table_page_dirty(std::uint64_t index) {
  if (index >= is_dirty_.size()) is_dirty_.resize(index + 1);
  if (is_dirty_[index]) return;
  is_dirty_[index] = true;
  dirty_.push_back(index);
}

void ChunkTable::clear_dirty() {
  for (const std::uint64_t index : dirty_) is_dirty_[index] = false;
  dirty_.clear();
}

// --- pages ---

std::size_t ChunkTable::promise_from(std::uint64_t chunk, std::size_t count,
                                     std::vector<PageId>* pages) {
  ChunkState& state = states_[chunk];
  std::size_t taken = 0;
  for (std::size_t w = 0; w < kPageWords && taken < count; ++w) {
    std::uint64_t free = ~(state.entry.bits[w] | state.busy[w]) & page_mask(w);
    for (; free != 0 && taken < count; free &= free - 1, ++taken) {
      const int bit = std::countr_zero(free);
      state.busy[w] |= std::uint64_t{1} << bit;
      pages->push_back(chunk * kPagesPerChunk + w * 64 + static_cast<std::size_t>(bit));
    }
  }
  state.busy_units += static_cast<std::uint32_t>(taken);
  if (!has_free_page(state)) page_room_.erase(chunk);
  return taken;
}

std::size_t ChunkTable::promise_pages(std::size_t count, std::vector<PageId>* pages) {
  std::size_t taken = 0;
  while (taken < count) {
    if (page_room_.empty() || *page_room_.begin() >= ceiling_) {
      std::uint64_t chunk = take_free_run(1, ChunkKind::kPages);
      if (chunk == size() && ceiling_ != kNoCeiling) {
        lift_ceiling();
        continue;
      }
      if (chunk == size()) break;
      page_room_.insert(chunk);
    }
    taken += promise_from(*page_room_.begin(), count - taken, pages);
  }
  return taken;
}

void ChunkTable::use_page(PageId id, Generation generation) {
  ChunkState& state = states_[chunk_of(id)];
  const std::size_t w = word_of(id);
  MULTIFORA_ASSERT((state.busy[w] & bit_of(id)) != 0 && (state.entry.bits[w] & bit_of(id)) == 0);
  state.busy[w] &= ~bit_of(id);
  --state.busy_units;
  state.entry.bits[w] |= bit_of(id);
  --state.entry.free_units;
  state.written = generation;
  mark_dirty(chunk_of(id));
}

void ChunkTable::unpromise_page(PageId id) {
  release_page(id);
}

void ChunkTable::suspend_page(PageId id) {
  ChunkState& state = states_[chunk_of(id)];
  const std::size_t w = word_of(id);
  MULTIFORA_ASSERT(state.entry.kind == ChunkKind::kPages);
  MULTIFORA_ASSERT((state.entry.bits[w] & bit_of(id)) != 0 && (state.busy[w] & bit_of(id)) == 0);
  state.entry.bits[w] &= ~bit_of(id);
  ++state.entry.free_units;
  state.busy[w] |= bit_of(id);
  ++state.busy_units;
  mark_dirty(chunk_of(id));
}

void ChunkTable::release_page(PageId id) {
  const std::uint64_t chunk = chunk_of(id);
  ChunkState& state = states_[chunk];
  const std::size_t w = word_of(id);
  MULTIFORA_ASSERT((state.busy[w] & bit_of(id)) != 0);
  state.busy[w] &= ~bit_of(id);
  --state.busy_units;
  if (!frozen(chunk)) page_became_free(chunk);
}

bool ChunkTable::page_used(PageId id) const {
  if (chunk_of(id) >= size()) return false;
  const ChunkEntry& entry = states_[chunk_of(id)].entry;
  return entry.kind == ChunkKind::kPages && (entry.bits[word_of(id)] & bit_of(id)) != 0;
}

void ChunkTable::page_became_free(std::uint64_t chunk) {
  const ChunkState& state = states_[chunk];
  if (state.entry.free_units == kPagesPerChunk && state.busy_units == 0)
    make_free(chunk);
  else
    page_room_.insert(chunk);
}

// --- free chunks ---

void ChunkTable::make_free(std::uint64_t chunk) {
  const Generation written = states_[chunk].written;
  states_[chunk] = ChunkState{};
  states_[chunk].written = written;
  page_room_.erase(chunk);
  mark_dirty(chunk);
  if (!frozen(chunk)) free_.insert(chunk);
}

void ChunkTable::note_kind(std::uint64_t chunk, ChunkKind kind) {
  ChunkEntry& entry = states_[chunk].entry;
  entry.kind = kind;
  entry.free_units = kind == ChunkKind::kPages ? kPagesPerChunk : kUnitsPerChunk;
  mark_dirty(chunk);
}

std::uint64_t ChunkTable::take_free_run(std::uint64_t count, ChunkKind kind) {
  std::uint64_t first = 0, length = 0;
  for (const std::uint64_t chunk : free_) {
    if (length == 0 || chunk != first + length) {
      first = chunk;
      length = 0;
    }
    if (++length == count) break;
  }
  if (length < count || first + count > ceiling_) return size();
  for (std::uint64_t i = 0; i < count; ++i) take_free(first + i, kind);
  return first;
}

bool ChunkTable::take_free(std::uint64_t chunk, ChunkKind kind) {
  if (free_.erase(chunk) == 0) return false;
  note_kind(chunk, kind);
  return true;
}

bool ChunkTable::claim_for_records(std::uint64_t chunk, CollectionId owner) {
  ChunkState& state = states_[chunk];
  const bool no_page = state.entry.kind == ChunkKind::kPages && state.busy_units == 0 &&
                       state.entry.free_units == kPagesPerChunk;
  if (state.entry.kind != ChunkKind::kFree && !no_page) return false;
  free_.erase(chunk);
  page_room_.erase(chunk);
  state.entry = ChunkEntry{};
  note_kind(chunk, ChunkKind::kRecords);
  state.entry.owner = owner;
  return true;
}

bool ChunkTable::is_free_run(std::uint64_t first, std::uint64_t count) const {
  for (std::uint64_t i = 0; i < count; ++i)
    if (!free_.contains(first + i)) return false;
  return true;
}

std::uint64_t ChunkTable::trailing_free() const {
  std::uint64_t count = 0;
  for (auto it = free_.rbegin(); it != free_.rend() && *it == size() - 1 - count; ++it) ++count;
  return count;
}

void ChunkTable::drop_free_tail(std::uint64_t count) {
  for (; count > 0; --count) {
    MULTIFORA_ASSERT(free_.erase(size() - 1) == 1);
    states_.pop_back();
  }
}

bool ChunkTable::record_chunk_empty(std::uint64_t chunk) const {
  const ChunkState& state = states_[chunk];
  return state.entry.kind == ChunkKind::kRecords && state.entry.free_units == kUnitsPerChunk &&
         state.busy_units == 0 && state.reservations == 0 && !state.held;
}

void ChunkTable::free_record_chunk(std::uint64_t chunk) {
  MULTIFORA_ASSERT(record_chunk_empty(chunk));
  const auto it = owners_.find(states_[chunk].entry.owner);
  it->second.chunks.erase(chunk);
  it->second.reusable_units -= kUnitsPerChunk;
  if (it->second.chunks.empty()) owners_.erase(it);
  make_free(chunk);
}

// --- record chunks ---

const ChunkTable::Owner* ChunkTable::owner(CollectionId collection) const {
  const auto it = owners_.find(collection);
  return it == owners_.end() ? nullptr : &it->second;
}

void ChunkTable::start_record_chunk(std::uint64_t chunk, CollectionId owner, PageId bitmap_page) {
  ChunkEntry& entry = states_[chunk].entry;
  entry.owner = owner;
  entry.bitmap_page = bitmap_page;
  owners_[owner].chunks.insert(chunk);
  owners_[owner].reusable_units += kUnitsPerChunk;
  mark_dirty(chunk);
}

void ChunkTable::use_units(std::uint64_t chunk, std::uint32_t units, Generation generation) {
  ChunkState& state = states_[chunk];
  state.entry.free_units -= units;
  state.written = generation;
  owners_[state.entry.owner].reusable_units -= units;
  mark_dirty(chunk);
}

void ChunkTable::suspend_units(std::uint64_t chunk, PendingRange range) {
  ChunkState& state = states_[chunk];
  state.entry.free_units += range.units;
  state.busy_units += range.units;
  state.pending.push_back(range);
  mark_dirty(chunk);
}

void ChunkTable::release_units(std::uint64_t chunk, Generation limit) {
  ChunkState& state = states_[chunk];
  std::size_t done = 0;
  std::uint32_t units = 0;
  for (; done < state.pending.size() && state.pending[done].generation <= limit; ++done)
    units += state.pending[done].units;
  if (done == 0) return;
  state.pending.erase(state.pending.begin(),
                      state.pending.begin() + static_cast<std::ptrdiff_t>(done));
  if (state.pending.empty()) state.pending.shrink_to_fit();
  state.busy_units -= units;
  state.hole_max = kHoleUnknown;
  owners_[state.entry.owner].reusable_units += units;
}

}  // namespace multifora
