// readConcern and writeConcern: parsing with MongoDB's codes, and what they mean on one node.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/status.h"
#include "core/bson/view.h"
#include "core/plugin/command.h"

namespace multifora {

struct WriteConcern {
  bool given = false;
  std::int64_t w = 1;       // number of nodes; meaningless where `mode` is set
  std::string mode;         // "majority", a tag set's name, or empty
  bool journal = true;      // an explicit j: false is honoured
  std::int64_t timeout_ms = 0;

  // The reply waits for the disk.
  bool waits_for_disk() const { return journal && (w != 0 || !mode.empty()); }
  // How long it may wait, in milliseconds; 0: for ever. As in MongoDB, wtimeout means something only
  // where more than this node is asked for: a majority, which here is what is on disk. (w > 1 fails
  // at once; the sync of w: 1 has no limit.)
  std::int64_t disk_timeout_ms() const {
    return waits_for_disk() && mode == "majority" && timeout_ms > 0 ? timeout_ms : 0;
  }
};

// FailedToParse, TypeMismatch, UnknownField for what is no write concern.
Result<WriteConcern> parse_write_concern(DocumentView document);

// Why a one-node deployment cannot satisfy it, as the writeConcernError of a replica set's reply.
// OK where it can.
Status unsatisfiable(const WriteConcern& concern);
// The same on a standalone: an error before the command runs.
Status refused_by_standalone(const WriteConcern& concern);

struct ReadConcern {
  bool given = false;
  ReadLevel level = ReadLevel::kLocal;
  std::uint64_t after_cluster_time = 0;
  std::uint64_t at_cluster_time = 0;

  // What was read must be durable before the reply goes out.
  bool waits_for_disk() const {
    return level == ReadLevel::kMajority || level == ReadLevel::kLinearizable ||
           level == ReadLevel::kSnapshot;
  }
};

Result<ReadConcern> parse_read_concern(std::string_view command, DocumentView document);
std::string_view read_level_name(ReadLevel level);

}  // namespace multifora
