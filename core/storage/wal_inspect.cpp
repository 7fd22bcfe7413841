#include "core/storage/wal_inspect.h"

#include "core/storage/wal_blocks.h"
#include "core/storage/wal_segments.h"

namespace multifora {

namespace {

std::int64_t count_batches(const wal::BlockView& block) {
  if (block.header.kind != wal::BlockKind::kWhole || block.header.coding != wal::BlockCoding::kRaw)
    return -1;
  std::int64_t count = 0;
  for (Bytes rest = block.stored; rest.size() >= wal::kBatchHeaderSize; ++count) {
    const std::size_t size = wal::kBatchHeaderSize + load_le<std::uint32_t>(rest.data() + 8);
    if (size > rest.size()) return -1;
    rest.remove_prefix(size);
  }
  return count;
}

LogSegmentReport report_of(const wal::Segment& segment) {
  LogSegmentReport report;
  report.name = segment.path.substr(segment.path.rfind('/') + 1);
  report.stream_start = segment.start;
  report.size_bytes = segment.size;
  report.damage = segment.header_status.message();
  wal::FileHeader header{};
  const auto got = segment.file->read(0, &header, sizeof header);
  if (got && *got == sizeof header && report.damage.empty())
    report.codec = wal::codec_name(header);
  return report;
}

}  // namespace

Status inspect_log(FileSystem& files, const std::string& directory,
                   const std::function<void(const LogSegmentReport&)>& visit_segment,
                   const std::function<void(const LogBlockReport&)>& visit_block) {
  const wal::SegmentFiles segment_files(files, directory, nullptr, 0);
  MULTIFORA_ASSIGN(const auto segments, segment_files.load(nullptr));
  std::uint64_t previous_hash = 0;
  for (const wal::SegmentPtr& segment : segments) {
    visit_segment(report_of(*segment));
    wal::SegmentWindow window(*segment);
    for (std::uint64_t stream = segment->first_block();
         stream + wal::kBlockHeaderSize <= segment->end();) {
      // Most of what is no block says so in the field of its place.
      MULTIFORA_ASSIGN(const Bytes head,
                       window.view_some(stream - segment->start, wal::kBlockHeaderSize));
      if (head.size() < wal::kBlockHeaderSize) break;
      std::size_t skip = 0;
      while (skip + wal::kBlockHeaderSize <= head.size() &&
             load_le<std::uint64_t>(head.data() + skip + 8) != stream + skip)
        skip += wal::kBlockAlignment;
      if (skip > 0) {
        stream += skip;
        continue;
      }
      MULTIFORA_ASSIGN(const auto block, wal::read_block(window, stream, 0));
      if (!block) {
        stream += wal::kBlockAlignment;
        continue;
      }
      LogBlockReport report;
      report.file_offset = stream - segment->start;
      report.header = block->header;
      report.chained = previous_hash != 0 && block->header.previous_hash == previous_hash;
      report.batches = count_batches(*block);
      visit_block(report);
      previous_hash = block->header.hash;
      stream = block->stream_end;
    }
  }
  return {};
}

}  // namespace multifora
