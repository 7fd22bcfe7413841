// What is on disk when the log opens: finds where it ends, tells a torn tail from damage, replays.
// One thread, before the log takes anything new. Format and rules: docs/format-log.md.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/status.h"
#include "core/storage/types.h"
#include "core/storage/wal_segments.h"

namespace multifora::wal {

struct ScanResult {
  // An unbroken run of segments that the log stands in, then goes on in. Segments outside of it
  // are `unused`: nothing in them is needed.
  std::vector<SegmentPtr> segments;
  std::vector<SegmentPtr> unused;

  bool any_block = false;
  std::size_t active = 0;      // segment in which the log ends
  std::uint64_t begin = 0;     // stream offset of the first block
  std::uint64_t end = 0;       // stream offset after the last block
  std::uint64_t end_hash = 0;  // the last block's hash
  std::uint32_t log_id = 0;    // 0: no block
  std::uint16_t next_session = 1;
  LogPosition base = 0;        // the log holds every batch after this one
  LogPosition last = 0;        // newest whole batch
  LogPosition durable = 0;     // newest durable position on record in the chain
  std::uint64_t unproven = 0;  // first block not on record as durable; `end` if all are
  std::uint64_t truncated_bytes = 0;
};

// Walks the chain of blocks and fills in what the segments hold. Changes nothing on disk.
// DataCorruptionDetected with file and offset where a block is damaged or missing that is on record
// as durable, or where the log does not reach back to `from`; UnsupportedFormat where it holds
// blocks of another version or of a codec that is not loaded.
Result<ScanResult> scan(std::vector<SegmentPtr> segments, LogPosition from);

// Calls `apply` for each batch after `from` of a scanned log, in order.
Status replay(const ScanResult& log, LogPosition from,
              const std::function<Status(LogPosition, Bytes)>& apply);

// Writes the blocks not on record as durable once more and syncs them: the system may hold them in
// memory only, even after a failed sync, and what was replayed must not be lost again.
Status make_durable(const ScanResult& log);

}  // namespace multifora::wal
