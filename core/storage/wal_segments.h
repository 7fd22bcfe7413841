// Segment files of the write-ahead log: making them (zero-written, so that a later sync touches no
// file metadata), recycling them by rename, removing them. Knows nothing of blocks or positions.
//
// Every change of a name is made durable before the call returns, so after a crash the directory
// holds an unbroken run of segments. Not synchronised: the log calls it with its files mutex held.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/file.h"
#include "core/base/status.h"
#include "core/storage/types.h"
#include "core/storage/wal_format.h"

namespace multifora {
struct Codec;
}

namespace multifora::wal {

// What the log knows about a segment. The first group never changes while the segment is in use.
struct Segment {
  std::unique_ptr<File> file;
  std::string path;
  std::uint64_t start = 0;  // stream offset of the file's first byte
  std::uint64_t size = 0;
  const Codec* codec = nullptr;
  Status header_status;  // of load(): why nothing in the file can be used
  Status codec_status;   // of load(): why compressed blocks cannot be read

  // Guarded by the log's mutex.
  struct Mark {
    LogPosition after;     // batches after this one start at or after
    std::uint64_t stream;  // this block
  };
  LogPosition last = 0;  // the newest batch with bytes in here; 0: none
  std::vector<Mark> marks;
  int readers = 0;  // a segment being read is not recycled

  std::uint64_t first_block() const { return start + sizeof(FileHeader); }
  std::uint64_t end() const { return start + size; }
};
using SegmentPtr = std::shared_ptr<Segment>;

// Remembers the block at `stream`, where a batch starts, unless the last mark is close enough.
void add_mark(Segment& segment, LogPosition after, std::uint64_t stream);
// The newest mark from which all batches after `position` are found; nullopt if none is that old.
std::optional<std::uint64_t> find_mark(std::span<const SegmentPtr> segments, LogPosition position);

class SegmentFiles {
 public:
  using FindCodec = std::function<const Codec*(std::string_view)>;

  SegmentFiles(FileSystem& files, std::string directory, const Codec* codec,
               std::size_t block_bytes);

  // Opens every segment, oldest first. A header that cannot be used (another version, a codec that
  // find_codec does not know) is noted in the Segment: whether it matters depends on what the
  // segment holds. Changes nothing.
  Result<std::vector<SegmentPtr>> load(const FindCodec& find_codec) const;
  // Removes what a crash in the middle of make() left behind.
  Status remove_leftovers();

  // A new segment, durable under its name. After a failure nothing is left of it. It is
  // zero-written, which makes every later sync cheaper, as far as it gets before hurry() says
  // that somebody waits for it; the rest is allocated only, which is several times faster.
  using Hurry = std::function<bool()>;
  Result<SegmentPtr> make(std::uint64_t start, std::uint64_t size, const Hurry& hurry);
  // May this segment be recycled, or must it be removed?
  bool recyclable(const Segment& segment) const;
  // Gives a segment that is no longer needed a new place in the stream. A failure to sync the
  // directory leaves it open which name the file will have after a crash.
  Result<SegmentPtr> recycle(const Segment& segment, std::uint64_t start);
  Status remove(const Segment& segment);

 private:
  std::string path(std::string_view name) const { return directory_ + "/" + std::string(name); }
  Result<SegmentPtr> load_one(std::uint64_t start, const FindCodec& find_codec) const;
  Status prepare(File& file, std::uint64_t size, const Hurry& hurry) const;

  FileSystem& files_;
  const std::string directory_;
  const Codec* const codec_;
  const FileHeader header_;
};

}  // namespace multifora::wal
