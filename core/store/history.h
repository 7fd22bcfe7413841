// The change history: log batches that a checkpoint has made superfluous for recovery, kept for those
// who follow the changes. Files of <dbpath>/history with compressed blocks of batches; byte offsets are
// in docs/format-history.md.
//
// A thread of its own writes, after a checkpoint: what the log holds and the history does not, before the
// log is recycled. So history and log together always reach from oldest() to the newest batch, also after a
// crash, and a block says what the collections in it were called. Nothing is written on behalf of a commit.
// History is bounded by size and age, oldest file first. It is no data: where it cannot be written or read
// it is given up, and followers learn that their position is lost.
//
// Threads: one writes; any read.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "core/storage/types.h"
#include "core/store/change_feed.h"

namespace multifora {

struct Codec;

struct HistoryOptions {
  std::string directory;
  std::uint64_t bytes_max = 0;  // 0: none is kept
  std::int64_t seconds_max = 0;
  const Codec* codec = nullptr;  // null: blocks are stored raw
  std::function<const Codec*(std::string_view name)> find_codec;
  bool read_only = false;
};

class History {
 public:
  History(FileSystem& files, HistoryOptions options, LogSink& log);
  ~History();

  // `image`: position of the data file's checkpoint, where the history begins if there is none. It may
  // end before that; who opens the log gives it up where that cannot bridge the gap. UnsupportedFormat
  // names a codec that is not loaded.
  Status open(LogPosition image);

  // Every batch after oldest() and up to newest() is here.
  LogPosition oldest() const;
  LogPosition newest() const;
  std::uint64_t size_bytes() const;
  bool enabled() const { return options_.bytes_max > 0 && !options_.read_only; }

  // --- writing -----------------------------------------------------------------------------------
  using NameOf = std::function<CollectionName(CollectionId id, LogPosition position)>;
  // Batches in order; durable after flush(). After a failure: give_up().
  Status add(LogPosition position, Bytes batch, const NameOf& name_of);
  // `upto`: the history now reaches it, whether or not there was a batch.
  Status flush(LogPosition upto);
  // Nothing before `position` is kept any more.
  void give_up(LogPosition position, const Status& why);
  // Removes whole files that are too much or too old.
  void prune(std::int64_t now_seconds);

  // --- reading -----------------------------------------------------------------------------------
  // Batches after `from`, which is >= oldest(), oldest first, until visit says false. CappedPositionLost
  // where they are gone; DataCorruptionDetected with file and offset.
  using Visit = std::function<bool(const ChangeBatch& batch)>;
  Status read(LogPosition from, const Visit& visit) const;

 private:
  struct HistoryFile;
  using FilePtr = std::shared_ptr<HistoryFile>;
  struct OpenBlock;

  Result<FilePtr> load_file(const std::string& name) const;
  Status find_end(HistoryFile& file, LogPosition proven) const;
  Status start_file();
  Status write_block();
  void remove_files(std::size_t count);
  std::uint64_t file_bytes_max() const;

  FileSystem& files_;
  const HistoryOptions options_;
  LogSink& log_;
  mutable std::mutex mutex_;  // guards what readers see: files_'s list, sizes, marks, positions
  std::vector<FilePtr> list_;
  LogPosition oldest_ = 0, newest_ = 0;
  std::unique_ptr<OpenBlock> block_;
  bool unsynced_ = false;
  bool known_ = false;  // the list is what the directory holds
  int skip_codec_ = 0;  // blocks to go before the codec is tried again
};

}  // namespace multifora
