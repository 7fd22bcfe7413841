#include "server/dispatch/arguments.h"

#include <limits>

#include "core/plugin/generic_arguments.h"
#include "core/plugin/option_check.h"

namespace multifora {
namespace {

const OptionSpec* find_option(const CommandRow& row, std::string_view name, std::size_t* at) {
  for (std::size_t i = 0; i < row.options.size(); ++i) {
    if (row.options[i].name != name) continue;
    *at = i;
    return &row.options[i];
  }
  return nullptr;
}

// Null and undefined stand for "not given" unless the option takes them.
bool ignored_null(const OptionSpec& option, const ValueView& value) {
  if (option.types == kOptAny) return false;
  if (value.type() == BsonType::kUndefined) return true;
  return value.type() == BsonType::kNull && (option.types & kOptNull) == 0;
}

// Prefixes are built only where there is something to report: every request passes here.
Status parse_lsid(std::string_view command, DocumentView lsid, Arguments& out) {
  const auto prefix = [&] { return std::string(command) + ".lsid"; };
  bool has_id = false;
  for (const Element& field : lsid) {
    const bool is_id = field.name() == "id";
    if (!is_id && field.name() != "uid") return unknown_field(prefix(), field.name());
    if (field.type() != BsonType::kBinData)
      return wrong_type(prefix(), {field.name(), kOptBinary}, field.type());
    if (!is_id) continue;
    has_id = true;
    if (field->binary_subtype() != 4 || field->binary_bytes().size() != 16)
      return {ErrorCode::kInvalidUUID,
              "uuid must be a 16-byte binary field with UUID (4) subtype"};
    out.lsid = field->binary_bytes();
  }
  return has_id ? Status() : missing_field(prefix(), "id");
}

Status parse_read_preference(DocumentView document) {
  const ValueView mode = document["mode"];
  if (mode.type() == BsonType::kString) {
    const std::string_view text = mode.as_string();
    for (const std::string_view known :
         {"primary", "primaryPreferred", "secondary", "secondaryPreferred", "nearest"})
      if (text == known) return {};
    return {ErrorCode::kFailedToParse,
            "Could not parse $readPreference mode '" + std::string(text) +
                "'. Only the modes 'primary', 'primaryPreferred', 'secondary', "
                "'secondaryPreferred', and 'nearest' are supported."};
  }
  // Old shells send {$readPreference: {}} through proxies.
  if (mode.missing()) return {};
  return wrong_type("$readPreference", {"mode", kOptString}, mode.type());
}

Status parse_max_time(const ValueView& value, Arguments& out) {
  out.max_time_ms = value.number_as_int64();
  if (static_cast<double>(out.max_time_ms) != value.number_as_double())
    return {ErrorCode::kBadValue, "maxTimeMS has non-integral value"};
  if (out.max_time_ms > std::numeric_limits<std::int32_t>::max())
    return {ErrorCode::kBadValue, std::to_string(out.max_time_ms) +
                                      " value for maxTimeMS is out of range [0, 2147483647]"};
  return {};
}

// The signature says who vouches for the time; without users everybody may.
Status parse_cluster_time(DocumentView document, Arguments& out) {
  const ValueView time = document["clusterTime"];
  if (time.missing()) return missing_field("$clusterTime", "clusterTime");
  if (time.type() != BsonType::kTimestamp)
    return wrong_type("$clusterTime", {"clusterTime", kOptTimestamp}, time.type());
  out.cluster_time = time.as_timestamp();
  return {};
}

Status take_generic(const CommandRow& row, GenericArgument what, const ValueView& value, Arguments& out) {
  switch (what) {
    case GenericArgument::kDb:
      out.db = value.as_string();
      return {};
    case GenericArgument::kLsid:
      return parse_lsid(row.name, value.as_document(), out);
    case GenericArgument::kTxnNumber:
      out.txn_number = value.as_int64();
      if (out.txn_number < 0)
        return {ErrorCode::kInvalidOptions, "Transaction number cannot be negative"};
      return {};
    case GenericArgument::kAutocommit:
      out.has_autocommit = true;
      out.autocommit = value.as_bool();
      return {};
    case GenericArgument::kStartTransaction:
      out.start_transaction = value.as_bool();
      if (!out.start_transaction)
        return {ErrorCode::kInvalidOptions, "Specifying startTransaction=false is not allowed."};
      return {};
    case GenericArgument::kClusterTime:
      return parse_cluster_time(value.as_document(), out);
    case GenericArgument::kMaxTimeMs:
      return parse_max_time(value, out);
    case GenericArgument::kReadConcern:
      out.read_concern = value;
      return {};
    case GenericArgument::kWriteConcern:
      out.write_concern = value;
      return {};
    case GenericArgument::kReadPreference:
      return parse_read_preference(value.as_document());
    case GenericArgument::kApiVersion:
      out.api_version = value.as_string();
      return {};
    case GenericArgument::kApiStrict:
      out.api_strict = value.as_bool();
      return {};
    case GenericArgument::kApiDeprecationErrors:
      out.api_deprecation_errors = value.as_bool();
      return {};
    case GenericArgument::kIgnored:
      return {};
  }
  return {};
}

// Which fields were there already: one bit a row of the tables.
struct Seen {
  std::uint64_t own = 0;
  std::uint64_t generic = 0;
};

bool mark(std::uint64_t& set, std::size_t bit) {
  const std::uint64_t mask = std::uint64_t{1} << (bit & 63);
  const bool again = (set & mask) != 0;
  set |= mask;
  return again;
}

Status take_own(const CommandRow& row, const OptionSpec& option, std::size_t at,
                const Element& field, Seen& seen, Arguments& out) {
  if (ignored_null(option, field.value())) {
    out.has_ignored_nulls = true;
    return {};
  }
  if (mark(seen.own, at)) return duplicate_field(row.name, field.name());
  if (option.name == "maxTimeMS") out.own_max_time = true;
  return check_option(row.name, option, field.value());
}

Status take_field(const CommandRow& row, const Element& field, Seen& seen, Arguments& out) {
  std::size_t at = 0;
  if (const OptionSpec* option = find_option(row, field.name(), &at))
    return take_own(row, *option, at, field, seen, out);
  if (const GenericRow* generic = find_generic_argument(field.name())) {
    if (ignored_null(generic->option, field.value())) {
      out.has_ignored_nulls = true;
      return {};
    }
    if (mark(seen.generic, static_cast<std::size_t>(generic - generic_arguments().data())))
      return duplicate_field(row.name, field.name());
    MULTIFORA_TRY(check_type(row.name, generic->option, field.value()));
    return take_generic(row, generic->what, field.value(), out);
  }
  if ((row.flags & kAnyOptions) != 0) return {};
  return unknown_field(row.name, field.name());
}

Status take_sequence(const CommandRow& row, const DocumentSequence& sequence, Seen& seen) {
  std::size_t at = 0;
  const OptionSpec* option = find_option(row, sequence.name, &at);
  if (option == nullptr) {
    if ((row.flags & kAnyOptions) != 0) return {};
    return unknown_field(row.name, sequence.name);
  }
  if (mark(seen.own, at)) return duplicate_field(row.name, sequence.name);
  if ((option->flags & kArrayOfObjects) == 0)
    return {ErrorCode::kTypeMismatch, "BSON field '" + std::string(row.name) + "." +
                                          std::string(sequence.name) +
                                          "' may not be sent as a document sequence"};
  return {};
}

Status check_required(const CommandRow& row, const Seen& seen) {
  for (std::size_t i = 0; i < row.options.size(); ++i) {
    const bool missing = (seen.own & (std::uint64_t{1} << (i & 63))) == 0;
    if (missing && (row.options[i].flags & kRequired) != 0)
      return missing_field(row.name, row.options[i].name);
  }
  return {};
}

}  // namespace

Status parse_arguments(const CommandRow& row, DocumentView body,
                       const std::vector<DocumentSequence>& sequences, Arguments& out) {
  Seen seen;
  auto field = body.begin();
  for (++field; field != body.end(); ++field) MULTIFORA_TRY(take_field(row, *field, seen, out));
  for (const DocumentSequence& sequence : sequences)
    MULTIFORA_TRY(take_sequence(row, sequence, seen));
  return check_required(row, seen);
}

OwnedDocument without_ignored_nulls(const CommandRow& row, DocumentView body) {
  DocumentBuilder copy;
  bool first = true;
  for (const Element& field : body) {
    std::size_t at = 0;
    const OptionSpec* option = first ? nullptr : find_option(row, field.name(), &at);
    if (option == nullptr || !ignored_null(*option, field.value())) copy.append(field);
    first = false;
  }
  return std::move(copy).finish();
}

}  // namespace multifora
