// Bringing the data file to the disk without standing in the log's way: checkpoints in slices, and the
// extents that the log refers to.
#include <algorithm>
#include <chrono>
#include <thread>

#include "core/storage/pager_impl.h"

namespace multifora {

namespace {

// A log sync waits for at most one slice that is on its way to the disk.
constexpr std::uint64_t kSliceChunks = 2;
// While writers dirty more, go round again, until a round finds no more than this.
constexpr std::uint64_t kLeftMax = 8 * kChunkSize;
constexpr int kPassesMax = 4;
// While retired space waits for the checkpoint it goes faster: larger slices, no rests, and what comes
// meanwhile is left to the sync (writers are held back then).
constexpr std::uint64_t kSliceChunksPressed = 8;
constexpr int kPassesMaxPressed = 2;
// After each slice the disk is left to others for this part of the time that the slice took.
constexpr int kRestDivisor = 2;
constexpr auto kRestMax = std::chrono::milliseconds(10);
// Extents closer than this are synced as one: a chunk's end that is too small for a record.
constexpr std::uint64_t kGapMax = 128 * 1024;

}  // namespace

// --- checkpoints ---

void Pager::Impl::write_back_slices(Generation generation) {
  Generation since = 0;
  {
    std::lock_guard lock(mutex);
    since = meta.generation;  // the durable checkpoint before this one
  }
  for (int pass = 0; pass < (pressed() ? kPassesMaxPressed : kPassesMax) && !failed; ++pass) {
    const std::uint64_t dirty_before = dirty_bytes;
    write_back_pass(since);
    since = generation;  // what later generations have dirtied meanwhile
    if (dirty_bytes - dirty_before <= kLeftMax) return;
  }
}

void Pager::Impl::write_back_pass(Generation since) {
  std::uint64_t chunks = 0;
  const auto changed = [&](std::uint64_t chunk) {
    std::lock_guard lock(mutex);
    chunks = table.size();
    return chunk < chunks && table[chunk].written > since;
  };
  std::uint64_t chunk = 0;
  do {
    if (!changed(chunk)) {
      ++chunk;
      continue;
    }
    const bool hurry = pressed();
    const std::uint64_t slice = hurry ? kSliceChunksPressed : kSliceChunks;
    std::uint64_t count = 1;
    while (count < slice && changed(chunk + count)) ++count;
    const auto start = std::chrono::steady_clock::now();
    file->write_back(chunk * kChunkSize, count * kChunkSize, File::WriteBack::kWait);
    chunk += count;
    if (hurry) continue;
    const auto took = std::chrono::steady_clock::now() - start;
    std::this_thread::sleep_for(
        std::min<std::chrono::steady_clock::duration>(took / kRestDivisor, kRestMax));
  } while (chunk < chunks);
}

// --- what the log refers to ---

void Pager::note_referenced(std::span<const Extent> extents) {
  std::uint64_t bytes = 0;
  for (const Extent& extent : extents) bytes += extent.size_bytes;
  impl_->referenced_bytes += bytes;
  std::lock_guard lock(impl_->referenced_mutex);
  for (const Extent& extent : extents) {
    auto& all = impl_->referenced;
    if (!all.empty() && all.back().offset + all.back().size_bytes == extent.offset)
      all.back().size_bytes += extent.size_bytes;
    else
      all.push_back(extent);
  }
}

void Pager::start_write_back(std::span<const Extent> extents) const {
  for (const Extent& extent : extents)
    impl_->file->write_back(extent.offset, extent.size_bytes, File::WriteBack::kStart);
}

Status Pager::sync_referenced() {
  std::vector<Extent> extents;
  {
    std::lock_guard lock(impl_->referenced_mutex);
    extents.swap(impl_->referenced);
  }
  if (impl_->failed) return impl_->health();
  std::ranges::sort(extents, {}, &Extent::offset);
  if (extents.size() > 1) start_write_back(extents);
  for (std::size_t i = 0; i < extents.size();) {
    Extent run = extents[i++];
    for (; i < extents.size() && extents[i].offset <= run.offset + run.size_bytes + kGapMax; ++i)
      run.size_bytes = extents[i].offset + extents[i].size_bytes - run.offset;
    if (Status status = impl_->file->sync_range(run.offset, run.size_bytes); !status.ok()) {
      impl_->fail_for_good(status);
      return status;
    }
  }
  return {};
}

std::uint64_t Pager::referenced_since_checkpoint_bytes() const { return impl_->referenced_bytes; }

}  // namespace multifora
