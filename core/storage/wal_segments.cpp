#include "core/storage/wal_segments.h"

#include <algorithm>

#include "core/base/assert.h"
#include "core/plugin/codec.h"

namespace multifora::wal {

namespace {

constexpr std::string_view kNoCodecName = "none";
constexpr std::string_view kMakingName = "making.tmp";
constexpr std::uint64_t kMarkSpacing = 256 * 1024;
// Zeros go to the disk in steps, so that a commit's sync never queues behind a whole segment.
constexpr std::uint64_t kFillStep = 1024 * 1024;

std::string_view name_of(const Codec* codec) {
  return codec ? codec->name : kNoCodecName;
}

Bytes bytes_of(const FileHeader& header) {
  return Bytes(reinterpret_cast<const char*>(&header), sizeof header);
}

// Sets segment.codec or says why it cannot be.
Status resolve_codec(const FileHeader& header, const SegmentFiles::FindCodec& find_codec,
                     Segment& segment) {
  const std::string_view name = codec_name(header);
  if (name == kNoCodecName) return {};
  segment.codec = find_codec ? find_codec(name) : nullptr;
  if (segment.codec) return {};
  return Status(ErrorCode::kUnsupportedFormat,
                "the log was written with codec '" + std::string(name) +
                    "', which no loaded plugin offers; load plugin codec-" + std::string(name));
}

}  // namespace

void add_mark(Segment& segment, LogPosition after, std::uint64_t stream) {
  auto& marks = segment.marks;
  if (marks.empty() || stream - marks.back().stream >= kMarkSpacing)
    marks.push_back({after, stream});
}

std::optional<std::uint64_t> find_mark(std::span<const SegmentPtr> segments, LogPosition position) {
  for (std::size_t i = segments.size(); i-- > 0;) {
    const auto& marks = segments[i]->marks;
    const auto it = std::ranges::upper_bound(marks, position, {}, &Segment::Mark::after);
    if (it != marks.begin()) return std::prev(it)->stream;
  }
  return {};
}

SegmentFiles::SegmentFiles(FileSystem& files, std::string directory, const Codec* codec,
                           std::size_t block_bytes)
    : files_(files),
      directory_(std::move(directory)),
      codec_(codec),
      header_(make_file_header(name_of(codec), block_bytes)) {}

Result<std::vector<SegmentPtr>> SegmentFiles::load(const FindCodec& find_codec) const {
  std::vector<SegmentPtr> segments;
  MULTIFORA_ASSIGN_R(const std::vector<std::string> names, files_.list(directory_));
  for (const std::string& name : names) {
    const auto start = parse_segment_name(name);
    if (!start) continue;
    MULTIFORA_ASSIGN_R(SegmentPtr segment, load_one(*start, find_codec));
    segments.push_back(std::move(segment));
  }
  std::ranges::sort(segments, {}, [](const SegmentPtr& s) { return s->start; });
  return segments;
}

Result<SegmentPtr> SegmentFiles::load_one(std::uint64_t start, const FindCodec& find_codec) const {
  auto segment = std::make_shared<Segment>();
  segment->path = path(segment_name(start));
  segment->start = start;
  MULTIFORA_ASSIGN_R(segment->file, files_.open(segment->path, OpenMode::kExisting));
  MULTIFORA_ASSIGN_R(const std::uint64_t size, segment->file->size());
  segment->size = size / kBlockAlignment * kBlockAlignment;  // a file cut short by other hands
  FileHeader header{};
  MULTIFORA_ASSIGN_R(const std::size_t got, segment->file->read(0, &header, sizeof header));
  Status status = got < sizeof header
                      ? Status(ErrorCode::kDataCorruptionDetected, "the file is too short")
                      : check_file_header(header);
  if (!status.ok()) {
    segment->header_status = std::move(status).with_context(segment->path);
    return segment;
  }
  status = resolve_codec(header, find_codec, *segment);
  if (!status.ok()) segment->codec_status = std::move(status).with_context(segment->path);
  return segment;
}

Status SegmentFiles::remove_leftovers() {
  const std::string making = path(kMakingName);
  return files_.exists(making) ? files_.remove(making) : Status();
}

Status SegmentFiles::prepare(File& file, std::uint64_t size, const Hurry& hurry) const {
  MULTIFORA_TRY(file.allocate(0, size));
  Buffer zeros(std::min(size, kFillStep), '\0');
  zeros.replace(0, sizeof header_, bytes_of(header_));
  for (std::uint64_t offset = 0; offset < size; offset += kFillStep) {
    if (offset > 0 && hurry()) break;
    MULTIFORA_TRY(file.write(offset, Bytes(zeros).substr(0, size - offset)));
    MULTIFORA_TRY(file.sync());
    if (offset == 0) zeros.replace(0, sizeof header_, sizeof header_, '\0');
  }
  return {};
}

Result<SegmentPtr> SegmentFiles::make(std::uint64_t start, std::uint64_t size, const Hurry& hurry) {
  const std::string making = path(kMakingName);
  auto segment = std::make_shared<Segment>();
  segment->path = path(segment_name(start));
  segment->start = start;
  segment->size = size;
  segment->codec = codec_;
  MULTIFORA_ASSIGN_R(segment->file, files_.open(making, OpenMode::kCreate));
  Status status = prepare(*segment->file, size, hurry);
  if (status.ok()) status = files_.rename(making, segment->path);
  if (!status.ok()) {
    segment->file.reset();
    if (files_.exists(making)) (void)files_.remove(making);
    return fail(std::move(status));
  }
  MULTIFORA_TRY_R(files_.sync_directory(directory_));
  return segment;
}

// Another codec's header is not overwritten: after a crash the old blocks would be read with it.
bool SegmentFiles::recyclable(const Segment& segment) const {
  return segment.codec == codec_ && segment.header_status.ok() && segment.codec_status.ok();
}

Result<SegmentPtr> SegmentFiles::recycle(const Segment& segment, std::uint64_t start) {
  MULTIFORA_ASSERT(recyclable(segment));
  auto reused = std::make_shared<Segment>();
  reused->path = path(segment_name(start));
  reused->start = start;
  reused->size = segment.size;
  reused->codec = codec_;
  MULTIFORA_ASSIGN_R(reused->file, files_.open(segment.path, OpenMode::kExisting));
  MULTIFORA_TRY_R(files_.rename(segment.path, reused->path));
  MULTIFORA_TRY_R(files_.sync_directory(directory_));
  return reused;
}

Status SegmentFiles::remove(const Segment& segment) {
  MULTIFORA_TRY(files_.remove(segment.path));
  return files_.sync_directory(directory_);
}

}  // namespace multifora::wal
