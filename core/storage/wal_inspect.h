// What is in the log's files, block by block, for people who look inside: nothing is judged, nothing
// is changed. One thread.
#pragma once

#include <functional>
#include <string>

#include "core/base/file.h"
#include "core/base/status.h"
#include "core/storage/types.h"
#include "core/storage/wal_format.h"

namespace multifora {

struct LogSegmentReport {
  std::string name;
  std::uint64_t stream_start = 0;
  std::uint64_t size_bytes = 0;
  std::string codec;   // by its header
  std::string damage;  // why the header cannot be used; empty: it can
};

struct LogBlockReport {
  std::uint64_t file_offset = 0;
  wal::BlockHeader header{};
  // Follows the block before it: the hash that it carries is that block's. False for the first one,
  // and for what an earlier use of the file has left behind.
  bool chained = false;
  std::int64_t batches = -1;  // that begin and end in it; -1: compressed or a piece of a batch
};

// Calls `segment` for each file, oldest first, and `block` for each whole block in it.
Status inspect_log(FileSystem& files, const std::string& directory,
                   const std::function<void(const LogSegmentReport&)>& segment,
                   const std::function<void(const LogBlockReport&)>& block);

}  // namespace multifora
