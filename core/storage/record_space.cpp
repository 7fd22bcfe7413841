#include "core/storage/record_space.h"

#include "core/storage/pager_impl.h"

namespace multifora {

struct RecordSpace::Impl {
  explicit Impl(Pager& owner) : pager(owner) {}
  Pager& pager;
};

RecordSpace::RecordSpace(Pager& pager) : impl_(std::make_unique<Impl>(pager)) {}
RecordSpace::~RecordSpace() = default;

void RecordSpace::free_chunk_locked(std::uint64_t chunk) {
  Pager::Impl& pager = *impl_->pager.impl_;
  const PageId bitmap = pager.table[chunk].entry.bitmap_page;
  pager.table.free_record_chunk(chunk);
  pager.retire_page_locked(bitmap);
}

void RecordSpace::release_pending_locked(std::uint64_t chunk, Generation limit) {
  ChunkState& state = impl_->pager.impl_->table[chunk];
  std::size_t done = 0;
  for (; done < state.pending.size() && state.pending[done].generation <= limit; ++done)
    state.busy_units -= state.pending[done].units;
  if (done == 0) return;
  state.pending.erase(state.pending.begin(),
                      state.pending.begin() + static_cast<std::ptrdiff_t>(done));
  state.hole_max = kHoleUnknown;
  if (impl_->pager.impl_->table.record_chunk_empty(chunk)) free_chunk_locked(chunk);
}

}  // namespace multifora
