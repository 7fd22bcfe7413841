#include "plugins/command-crud/statement.h"

#include "core/base/limits.h"

namespace multifora::crud {
namespace {

std::uint32_t option_bit(BsonType type) {
  switch (type) {
    case BsonType::kString: return kOptString;
    case BsonType::kObject: return kOptObject;
    case BsonType::kArray: return kOptArray;
    case BsonType::kBool: return kOptBool;
    case BsonType::kInt32: return kOptInt32;
    case BsonType::kInt64: return kOptInt64;
    case BsonType::kDouble: return kOptDouble;
    case BsonType::kDecimal128: return kOptDecimal;
    case BsonType::kBinData: return kOptBinary;
    case BsonType::kTimestamp: return kOptTimestamp;
    case BsonType::kObjectId: return kOptObjectId;
    case BsonType::kNull: return kOptNull;
    case BsonType::kDate: return kOptDate;
    default: return 0;
  }
}

std::string field_text(std::string_view prefix, std::string_view name) {
  return "BSON field '" + std::string(prefix) + "." + std::string(name) + "'";
}

std::string expected_types(std::uint32_t types) {
  if (types == kOptObject) return "expected type 'object'";
  if (types == kOptArray) return "expected type 'array'";
  if (types == kOptBool) return "expected type 'bool'";
  if (types == kOptString) return "expected type 'string'";
  std::string list;
  const std::pair<std::uint32_t, std::string_view> kNames[] = {
      {kOptString, "string"}, {kOptObject, "object"}, {kOptArray, "array"}, {kOptBool, "bool"},
      {kOptInt64, "long"},    {kOptInt32, "int"},     {kOptDecimal, "decimal"},
      {kOptDouble, "double"}};
  for (const auto& [bit, name] : kNames)
    if ((types & bit) != 0) list += (list.empty() ? "" : ", ") + std::string(name);
  return "expected types '[" + list + "]'";
}

Status check_value(std::string_view prefix, const OptionSpec& option, const ValueView& value) {
  if (option.types != kOptAny && (option_bit(value.type()) & option.types) == 0)
    return {ErrorCode::kTypeMismatch, field_text(prefix, option.name) + " is the wrong type '" +
                                          std::string(type_name(value.type())) + "', " +
                                          expected_types(option.types)};
  if ((option.flags & kNonNegative) != 0 && value.is_number() && value.number_as_double() < 0)
    return {location_code(51024), "BSON field '" + std::string(option.name) + "' value must be >= 0"};
  if ((option.flags & kUnsupported) != 0 &&
      !(value.type() == BsonType::kBool && !value.as_bool()))
    return {ErrorCode::kCommandNotSupported,
            field_text(prefix, option.name) + " is not supported by this server"};
  return {};
}

}  // namespace

Status check_statement(std::string_view prefix, DocumentView statement,
                       std::span<const OptionSpec> table) {
  std::uint64_t seen = 0;
  for (const Element& field : statement) {
    std::size_t i = 0;
    while (i < table.size() && table[i].name != field.name()) ++i;
    if (i == table.size())
      return {location_code(40415), field_text(prefix, field.name()) + " is an unknown field."};
    if ((seen >> i & 1) != 0)
      return {location_code(40413), field_text(prefix, field.name()) + " is a duplicate field"};
    seen |= std::uint64_t{1} << i;
    const bool absent = field.type() == BsonType::kNull && (table[i].types & kOptNull) == 0;
    if (absent && (table[i].flags & kRequired) == 0) continue;
    MULTIFORA_TRY(check_value(prefix, table[i], field.value()));
  }
  for (std::size_t i = 0; i < table.size(); ++i)
    if ((table[i].flags & kRequired) != 0 && (seen >> i & 1) == 0)
      return {location_code(40414),
              field_text(prefix, table[i].name) + " is missing but a required field"};
  return {};
}

Status check_batch_size(std::size_t count) {
  if (count >= 1 && count <= limits::kWriteBatchCountMax) return {};
  return {ErrorCode::kInvalidLength,
          "Write batch sizes must be between 1 and " + std::to_string(limits::kWriteBatchCountMax) +
              ". Got " + std::to_string(count) + " operations."};
}

bool ends_command(ErrorCode code) {
  switch (code) {
    case ErrorCode::kMaxTimeMSExpired:
    case ErrorCode::kInterrupted:
    case ErrorCode::kInterruptedAtShutdown:
    case ErrorCode::kShutdownInProgress:
    case ErrorCode::kClientDisconnect:
    case ErrorCode::kCursorKilled:
    case ErrorCode::kTransactionTooOld:
    case ErrorCode::kNotWritablePrimary:
    case ErrorCode::kDataCorruptionDetected:
    case ErrorCode::kFileStreamFailed:
      return true;
    default:
      return false;
  }
}

void append_write_error(DocumentBuilder& out, const Status& status) {
  out.append("code", static_cast<std::int32_t>(status.code()));
  out.append("errmsg", status.message());
  if (!status.extra().empty())
    out.append_all(DocumentView::assume_valid(Bytes(status.extra())));
}

void WriteErrors::add(std::size_t index, const Status& status) {
  // The reply must not outgrow a message: later ones keep their codes only.
  constexpr std::size_t kBytesMax = 8 * 1024 * 1024;
  ++count_;
  DocumentBuilder error = errors_.object();
  error.append("index", static_cast<std::int32_t>(index));
  if (errors_.size_bytes() < kBytesMax) {
    append_write_error(error, status);
    return;
  }
  error.append("code", static_cast<std::int32_t>(status.code()));
  error.append("errmsg", "");
}

void WriteErrors::append_to(DocumentBuilder& reply) {
  if (count_ == 0) return;
  const OwnedDocument errors = std::move(errors_).finish();
  reply.append_array("writeErrors", errors.view());
}

Result<RetryableStatements> RetryableStatements::make(CommandContext& context,
                                                      const CommandRequest& request,
                                                      std::size_t count) {
  RetryableStatements out;
  out.context_ = &context;
  const SessionInfo& session = context.session();
  const bool has_ids = request.has("stmtIds");
  if (has_ids && request.has("stmtId"))
    return fail(ErrorCode::kInvalidOptions, "May not specify both stmtId and stmtIds in write command");
  if (has_ids) {
    for (const Element& id : request.document("stmtIds"))
      out.ids_.push_back(static_cast<std::int32_t>(id->number_as_int64()));
    if (out.ids_.size() != count)
      return fail(ErrorCode::kInvalidLength,
                  "Number of statement ids must match the number of batch entries. Got " +
                      std::to_string(out.ids_.size()) + " statement ids but " +
                      std::to_string(count) + " operations.");
  }
  out.first_ = static_cast<std::int32_t>(request.integer("stmtId", 0));
  out.enabled_ = session.txn_number >= 0 && !session.lsid.empty() && !session.in_transaction;
  return out;
}

std::optional<StatementId> RetryableStatements::id(std::size_t index) const {
  if (!enabled_) return std::nullopt;
  const SessionInfo& session = context_->session();
  const std::int32_t statement =
      ids_.empty() ? first_ + static_cast<std::int32_t>(index) : ids_[index];
  return StatementId{session.lsid, session.txn_number, statement};
}

Result<std::optional<OwnedDocument>> RetryableStatements::find(std::size_t index) {
  const auto id = this->id(index);
  if (!id) return std::nullopt;
  MULTIFORA_ASSIGN_R(auto result, context_->store().retried_result(*id));
  if (!result) return std::nullopt;
  retried_.push_back(id->statement);
  // Nothing is written, but the first answer must be durable before it is given again.
  context_->note_write(context_->store().last_position());
  return result;
}

void RetryableStatements::append_to(DocumentBuilder& reply) const {
  if (retried_.empty()) return;
  ArrayBuilder ids = reply.array("retriedStmtIds");
  for (const std::int32_t id : retried_) ids.append(id);
}

Status check_writable(const std::string& ns) {
  const Namespace parts = Namespace::split(ns);
  return check_collection_name(parts.collection);
}

Status refuse_view(const std::string& ns) {
  return {ErrorCode::kCommandNotSupportedOnView,
          "Namespace " + ns + " is a view, not a collection"};
}

}  // namespace multifora::crud
