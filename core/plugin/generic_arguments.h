// The arguments that every command may have beside its own options: where it runs ($db), its session,
// its deadline, its concerns. The dispatcher takes them; commands that look at their own fields must
// know which of them are none of theirs.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/plugin/command.h"

namespace multifora {

enum class GenericArgument : std::uint8_t {
  kDb,
  kLsid,
  kTxnNumber,
  kAutocommit,
  kStartTransaction,
  kClusterTime,
  kMaxTimeMs,
  kReadConcern,
  kWriteConcern,
  kReadPreference,
  kApiVersion,
  kApiStrict,
  kApiDeprecationErrors,
  kIgnored,  // meaningful between the parts of a cluster only
};

struct GenericRow {
  OptionSpec option;
  GenericArgument what;
};

// At most 64 rows. Lives for the whole process.
std::span<const GenericRow> generic_arguments();
const GenericRow* find_generic_argument(std::string_view name);  // null: it is none

}  // namespace multifora
