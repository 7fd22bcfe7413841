// One pass over a command's fields: its own options against its row's table, and the generic
// arguments that every command takes ($db, lsid, maxTimeMS ...).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "core/bson/view.h"
#include "core/plugin/command.h"

namespace multifora {

// What the pass found. Views point into the command.
struct Arguments {
  std::string_view db;
  std::string_view lsid;  // the 16 bytes of lsid.id; empty: none
  std::int64_t txn_number = -1;
  bool has_autocommit = false;
  bool autocommit = false;
  bool start_transaction = false;
  std::int64_t max_time_ms = 0;
  // The row has an option of its own named maxTimeMS: the handler gives it its meaning.
  bool own_max_time = false;
  std::uint64_t cluster_time = 0;  // of $clusterTime; 0: none
  ValueView read_concern;
  ValueView write_concern;
  std::string_view api_version;
  bool api_strict = false;
  bool api_deprecation_errors = false;
  // Some option was null or undefined where its table takes neither: the parser treats such a field
  // as not given, and the handler must not see it.
  bool has_ignored_nulls = false;
};

// Checks `body` (whose first field is the command) and `sequences`. Errors as MongoDB's parser:
// 40415 unknown, 14 wrong type, 40413 duplicate, 40414 missing, 40571 no $db.
Status parse_arguments(const CommandRow& row, DocumentView body,
                       const std::vector<DocumentSequence>& sequences, Arguments& out);

// `body` without the nulls that parse_arguments found.
OwnedDocument without_ignored_nulls(const CommandRow& row, DocumentView body);

}  // namespace multifora
