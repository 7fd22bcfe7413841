#include "server/dispatch/concerns.h"

#include "core/plugin/option_check.h"

namespace multifora {
namespace {

constexpr std::int64_t kNodesMax = 50;

Status parse_w(const ValueView& value, WriteConcern& out) {
  if (value.is_number()) {
    out.w = value.number_as_int64();
    if (out.w >= 0 && out.w <= kNodesMax) return {};
    return {ErrorCode::kFailedToParse,
            "w has to be a non-negative number and not greater than 50; found: " +
                std::to_string(out.w)};
  }
  if (value.type() == BsonType::kString) {
    out.mode = value.as_string();
    return {};
  }
  if (value.type() == BsonType::kObject)
    return {ErrorCode::kCommandNotSupported, "write concern tags (w: {...}) are not supported"};
  return {ErrorCode::kFailedToParse, "w has to be a number, string, or object; found: " +
                                         std::string(type_name(value.type()))};
}

struct WriteConcernFields {
  bool fsync = false;
  bool journal_given = false;
};

Status take_field(const Element& field, WriteConcern& out, WriteConcernFields& seen) {
  const std::string_view name = field.name();
  const auto typed = [&](std::uint32_t types) {
    return check_type("writeConcern", {name, types, 0}, field.value());
  };
  if (name == "w") return parse_w(field.value(), out);
  if (name == "j") {
    MULTIFORA_TRY(typed(kOptBoolish));
    out.journal = field->truthy();
    seen.journal_given = true;
    return {};
  }
  if (name == "fsync") {
    MULTIFORA_TRY(typed(kOptBoolish));
    seen.fsync = field->truthy();
    return {};
  }
  if (name == "wtimeout") {
    MULTIFORA_TRY(typed(kOptNumber));
    out.timeout_ms = field->number_as_int64();
    return {};
  }
  // Sent between servers, and echoed by some clients.
  if (name == "wElectionId" || name == "wOpTime" || name == "getLastError" ||
      name == "provenance")
    return {};
  return unknown_field("writeConcern", name);
}

const struct {
  std::string_view name;
  ReadLevel level;
} kLevels[] = {
    {"local", ReadLevel::kLocal},
    {"available", ReadLevel::kAvailable},
    {"majority", ReadLevel::kMajority},
    {"linearizable", ReadLevel::kLinearizable},
    {"snapshot", ReadLevel::kSnapshot},
};

Status parse_level(const ValueView& value, ReadConcern& out) {
  MULTIFORA_TRY(check_type("readConcern", {"level", kOptString, 0}, value));
  for (const auto& row : kLevels) {
    if (row.name != value.as_string()) continue;
    out.level = row.level;
    return {};
  }
  return {ErrorCode::kBadValue, "Enumeration value '" + std::string(value.as_string()) +
                                    "' for field 'readConcern.level' is not a valid value."};
}

Status take_field(const Element& field, std::string_view command, ReadConcern& out) {
  const std::string_view name = field.name();
  if (name == "level") return parse_level(field.value(), out);
  if (name == "afterClusterTime") {
    MULTIFORA_TRY(check_type("readConcern", {name, kOptTimestamp, 0}, field.value()));
    out.after_cluster_time = field->as_timestamp();
    return {};
  }
  if (name == "atClusterTime") {
    MULTIFORA_TRY(check_type("readConcern", {name, kOptTimestamp, 0}, field.value()));
    out.at_cluster_time = field->as_timestamp();
    return {};
  }
  if (name == "provenance") return {};
  if (name == "afterOpTime" || name == "allowTransactionTableSnapshot" ||
      name == "waitLastStableRecoveryTimestamp")
    return {ErrorCode::kCommandNotSupported, "readConcern." + std::string(name) +
                                                 " is not supported (command " +
                                                 std::string(command) + ")"};
  return unknown_field("readConcern", name);
}

}  // namespace

Result<WriteConcern> parse_write_concern(DocumentView document) {
  WriteConcern out;
  WriteConcernFields seen;
  for (const Element& field : document) MULTIFORA_TRY_R(take_field(field, out, seen));
  if (seen.fsync && seen.journal_given && out.journal)
    return fail(ErrorCode::kFailedToParse, "fsync and j options cannot be used together");
  out.given = !document.empty();
  return out;
}

Status unsatisfiable(const WriteConcern& concern) {
  if (!concern.mode.empty() && concern.mode != "majority")
    return {ErrorCode::kUnknownReplWriteConcern,
            "No write concern mode named '" + concern.mode +
                "' found in replica set configuration"};
  if (concern.mode.empty() && concern.w > 1)
    return {ErrorCode::kUnsatisfiableWriteConcern, "Not enough data-bearing nodes"};
  return {};
}

Status refused_by_standalone(const WriteConcern& concern) {
  if (concern.mode.empty() && concern.w > 1)
    return {ErrorCode::kBadValue, "cannot use 'w' > 1 when a host is not replicated"};
  if (!concern.mode.empty() && concern.mode != "majority")
    return {ErrorCode::kBadValue, "cannot use non-majority 'w' mode " + concern.mode +
                                      " when a host is not a member of a replica set"};
  return {};
}

Result<ReadConcern> parse_read_concern(std::string_view command, DocumentView document) {
  ReadConcern out;
  for (const Element& field : document) MULTIFORA_TRY_R(take_field(field, command, out));
  if (out.after_cluster_time != 0 &&
      (out.level == ReadLevel::kLinearizable || out.level == ReadLevel::kAvailable))
    return fail(ErrorCode::kInvalidOptions,
                "afterClusterTime field can be set only if level is equal to local, majority, or "
                "snapshot");
  if (out.at_cluster_time != 0 && out.level != ReadLevel::kSnapshot)
    return fail(ErrorCode::kInvalidOptions,
                "atClusterTime field can be set only if level is equal to snapshot");
  if (out.at_cluster_time != 0 && out.after_cluster_time != 0)
    return fail(ErrorCode::kInvalidOptions,
                "Can only specify one of afterClusterTime and atClusterTime");
  out.given = !document.empty();
  return out;
}

std::string_view read_level_name(ReadLevel level) {
  for (const auto& row : kLevels)
    if (row.level == level) return row.name;
  return "local";
}

}  // namespace multifora
