#include "server/dispatch/dispatcher.h"

#include <algorithm>
#include <exception>
#include <new>

#include "core/base/assert.h"
#include "core/base/error_codes_rare.h"
#include "core/base/limits.h"
#include "core/plugin/default_concerns.h"
#include "core/plugin/names.h"
#include "core/plugin/option_check.h"
#include "core/plugin/session_gate.h"
#include "core/store/store.h"
#include "server/dispatch/reply.h"

namespace multifora {
namespace {

bool writes(const CommandRow& row) {
  return row.lock == LockIntent::kWrite || row.lock == LockIntent::kCatalog;
}

// Failures of the server rather than of the client's request.
bool is_server_failure(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInternalError:
    case ErrorCode::kFileStreamFailed:
    case ErrorCode::kOutOfDiskSpace:
    case ErrorCode::kDataCorruptionDetected:
    case ErrorCode::kExceededMemoryLimit:
      return true;
    default:
      return false;
  }
}

// No input ends the process: what a handler or a library throws becomes an error reply.
Status guarded_run(const CommandRow& row, CommandContext& context, const CommandRequest& request,
                   DocumentBuilder& reply) {
  try {
    return row.run(context, request, reply);
  } catch (const std::bad_alloc&) {
    return {ErrorCode::kExceededMemoryLimit, "out of memory"};
  } catch (const std::exception& error) {
    return {ErrorCode::kInternalError, std::string("unexpected failure: ") + error.what()};
  }
}

Status check_collection_target(const CommandRow& row, const CommandRequest& request) {
  if ((row.flags & kCollectionName) == 0) return {};
  const ValueView target = request.target();
  if (target.type() != BsonType::kString)
    return {ErrorCode::kInvalidNamespace, "collection name has invalid type " +
                                              std::string(type_name(target.type()))};
  const std::string_view name = target.as_string();
  if (!name.empty() && name.find('\0') == std::string_view::npos) return {};
  return {ErrorCode::kInvalidNamespace,
          "Invalid namespace specified '" + std::string(request.db()) + "." + std::string(name) +
              "'"};
}

}  // namespace

Dispatcher::Dispatcher(PluginHost& host, Store* store, Durability* durability,
                       DispatchOptions options)
    : host_(host),
      store_(store),
      durability_(durability),
      options_(std::move(options)),
      sessions_(host.service<SessionGate>()),
      defaults_(host.service<DefaultConcerns>()),
      fail_points_(host.service<FailPoints>()),
      boot_time_(static_cast<std::uint64_t>(host.clock().wall_ms() / 1000) << 32 | 1) {
  if (fail_points_ != nullptr) fail_points_->declare(kFailCommand, check_fail_command);
  for (const CommandRow* row : host.commands()) {
    MULTIFORA_ASSERT(row->options.size() <= limits::kCommandOptionsMax);
    const MetricsRegistry::Labels labels{{"command", std::string(row->name)}};
    DispatchRow entry;
    entry.row = row;
    entry.total = &host.metrics().counter("commands_total", "Commands run", labels);
    entry.failed = &host.metrics().counter("commands_failed_total", "Commands that failed", labels);
    entry.latency_us = &host.metrics().counter(
        "command_latency_us_total", "Time from request to reply", labels);
    rows_.emplace(row->name, entry);
    for (std::string_view alias : row->aliases) rows_.emplace(alias, entry);
  }
}

Dispatcher::~Dispatcher() = default;

const DispatchRow* Dispatcher::find(std::string_view name) const {
  const auto at = rows_.find(name);
  return at == rows_.end() ? nullptr : &at->second;
}

// ---------------------------------------------------------------- a request's steps

Dispatcher::Next Dispatcher::start(Operation& operation, DocumentView body,
                                   std::vector<DocumentSequence> sequences,
                                   const RequestTraits& traits) {
  operation.reply_start_ = operation.reply.size();
  operation.error_ = ErrorCode::kOK;
  operation.more_to_come_ = false;
  operation.durable_position_ = 0;
  operation.durable_timeout_ms_ = 0;
  operation.waited_ = false;
  operation.blocked_ = false;
  operation.fault_.reset();
  operation.arguments_ = Arguments();
  const Status status = prepare(operation, body, sequences, traits);
  if (!status.ok()) {
    if (status.code() == ErrorCode::kCommandNotFound && fail_points_ != nullptr &&
        fail_points_->any() &&
        closes_unknown_command(*fail_points_, body.first().name(), operation.client_))
      return Next::kClose;
    replace_reply(operation, status);
    meter(operation);
    return Next::kReply;
  }
  operation.request_.emplace(operation.body_, operation.arguments_.db, std::move(sequences));
  if (const Status refused = admit(operation, *operation.row_->row); !refused.ok()) {
    replace_reply(operation, refused);
    meter(operation);
    return Next::kReply;
  }
  if (fail_points_ != nullptr && fail_points_->any()) {
    operation.fault_ = find_command_fault(*fail_points_, *operation.row_->row, *operation.request_,
                                          operation.client_);
    if (operation.fault_) return strike(operation);
  }
  return run_handler(operation);
}

// failCommand: waits without holding a thread, then goes on in after_block().
Dispatcher::Next Dispatcher::strike(Operation& operation) {
  const std::int64_t block_ms = operation.fault_->block_ms;
  if (block_ms == 0) return after_block(operation);
  operation.blocked_ = true;
  std::int64_t until_us = host_.clock().monotonic_us() + block_ms * 1000;
  const std::int64_t deadline_us = operation.interrupt_->deadline_us();
  if (deadline_us != 0) until_us = std::min(until_us, deadline_us);
  operation.wait_ = std::make_unique<Wait>();
  operation.wait_->deadline_us = until_us;
  operation.wait_->subscribe = [](std::function<void()>) { return [] {}; };
  return Next::kWait;
}

Dispatcher::Next Dispatcher::after_block(Operation& operation) {
  operation.blocked_ = false;
  const CommandFault& fault = *operation.fault_;
  if (const Status status = operation.interrupt_->check_slow(); !status.ok())
    return complete(operation, status);
  if (fault.close_connection) return Next::kClose;
  if (fault.error) return complete(operation, fault.failure());
  return run_handler(operation);
}

Status Dispatcher::prepare(Operation& operation, DocumentView body,
                           const std::vector<DocumentSequence>& sequences,
                           const RequestTraits& traits) {
  const std::string_view name = body.first().name();
  const DispatchRow* row = find(name);
  if (row == nullptr)
    return {ErrorCode::kCommandNotFound, "no such command: '" + std::string(name) + "'"};

  Arguments& arguments = operation.arguments_;
  arguments.db = traits.db;
  MULTIFORA_TRY(parse_arguments(*row->row, body, sequences, arguments));
  if (arguments.db.data() == nullptr)
    return {location_code(40571), "OP_MSG requests require a $db argument"};
  if (arguments.has_ignored_nulls) {
    operation.kept_body_ = without_ignored_nulls(*row->row, body);
    body = operation.kept_body_.view();
    arguments = Arguments();
    arguments.db = traits.db;
    MULTIFORA_TRY(parse_arguments(*row->row, body, sequences, arguments));
  }
  MULTIFORA_TRY(check_database_name(arguments.db, DollarInName::kAllowed));
  MULTIFORA_TRY(take_cluster_time(arguments.cluster_time));

  const std::int64_t now_us = host_.clock().monotonic_us();
  const std::int64_t id = next_operation_id_.fetch_add(1, std::memory_order_relaxed);
  {
    std::lock_guard lock(operation.mutex_);
    operation.id_ = id;
    operation.started_us_ = now_us;
    operation.body_ = body;
    operation.row_ = row;
    operation.interrupt_.emplace(host_.clock());
    if (arguments.max_time_ms > 0 && !arguments.own_max_time)
      operation.interrupt_->set_deadline_us(now_us + arguments.max_time_ms * 1000);
  }
  operation.context_.emplace(host_, store_, operation.client_, *operation.interrupt_);
  CommandContext& context = *operation.context_;
  context.operation_id = id;
  context.exhaust_allowed = traits.exhaust_allowed;
  context.api_strict = arguments.api_strict;
  SessionInfo& session = context.session();
  session.lsid = std::move(operation.lsid_spare_);
  session.lsid.assign(arguments.lsid);
  session.txn_number = arguments.txn_number;
  session.start_transaction = arguments.start_transaction;
  session.in_transaction = arguments.has_autocommit;
  return {};
}

// A client may know a later time than this server: another member's, or of unacknowledged writes that
// a crash has taken. Its reads and writes must come after it.
Status Dispatcher::take_cluster_time(std::uint64_t time) {
  if (time == 0 || durability_ == nullptr || !replica_set()) return {};
  if (time <= durability_->last_position()) return {};
  constexpr std::int64_t kDriftSecondsMax = 365 * 24 * 3600;
  if (static_cast<std::int64_t>(time >> 32) > host_.clock().wall_ms() / 1000 + kDriftSecondsMax)
    return {rare::kClusterTimeFailsRateLimiter,
            "New cluster time, " + std::to_string(time >> 32) +
                ", is too far from this node's wall clock time, " +
                std::to_string(host_.clock().wall_ms() / 1000) + "."};
  if (time > boot_time_) durability_->advance_to(time);
  return {};
}

Status Dispatcher::admit(Operation& operation, const CommandRow& row) {
  const Arguments& arguments = operation.arguments_;
  MULTIFORA_TRY(check_api(row, arguments));
  if ((row.flags & kAdminOnly) != 0 && arguments.db != "admin")
    return {ErrorCode::kUnauthorized,
            std::string(row.name) + " may only be run against the admin database."};
  MULTIFORA_TRY(check_collection_target(row, *operation.request_));
  MULTIFORA_TRY(check_session(row, arguments));
  MULTIFORA_TRY(check_concerns(operation, row));
  if (writes(row) && durability_ != nullptr) MULTIFORA_TRY(durability_->health());
  return {};
}

Status Dispatcher::check_api(const CommandRow& row, const Arguments& arguments) const {
  if (arguments.api_version.data() == nullptr) {
    if (!arguments.api_strict && !arguments.api_deprecation_errors) return {};
    return {location_code(4886600),
            "Provided apiStrict and/or apiDeprecationErrors without passing apiVersion"};
  }
  if (arguments.api_version != "1")
    return {ErrorCode::kAPIVersionError, "API version must be \"1\""};
  if (!arguments.api_strict || (row.flags & kAllowedInStrictApi) != 0) return {};
  return {ErrorCode::kAPIStrictError, "Provided apiStrict:true, but the command " +
                                          std::string(row.name) + " is not in API Version 1"};
}

Status Dispatcher::check_in_transaction(const CommandRow& row, const Arguments& arguments) const {
  const std::string name(row.name);
  if (sessions_ == nullptr)
    return {ErrorCode::kOperationNotSupportedInTransaction,
            "multi-document transactions need the plugin command-session, which is not loaded"};
  if ((row.flags & (kAllowedInTransaction | kEndsTransaction)) == 0)
    return {ErrorCode::kOperationNotSupportedInTransaction,
            "Cannot run '" + name + "' in a multi-document transaction."};
  if ((row.flags & kEndsTransaction) != 0) {
    if (arguments.start_transaction)
      return {ErrorCode::kOperationNotSupportedInTransaction,
              "Cannot run '" + name + "' as the first command of a transaction"};
    return {};
  }
  if (!arguments.write_concern.missing())
    return {ErrorCode::kInvalidOptions,
            "writeConcern is not allowed within a multi-statement transaction"};
  const bool internal = arguments.db == "admin" || arguments.db == "config" || arguments.db == "local";
  if (internal && (row.flags & kAdminOnly) == 0)
    return {ErrorCode::kOperationNotSupportedInTransaction,
            "Cannot run command against the '" + std::string(arguments.db) +
                "' database in a transaction."};
  return {};
}

Status Dispatcher::check_session(const CommandRow& row, const Arguments& arguments) const {
  const bool has_number = arguments.txn_number >= 0;
  const bool has_session = !arguments.lsid.empty();
  if (has_number && !has_session)
    return {ErrorCode::kInvalidOptions,
            "Transaction number requires a session ID to also be specified"};
  if (arguments.has_autocommit && !has_number)
    return {ErrorCode::kInvalidOptions,
            "'autocommit' field requires a transaction number to also be specified"};
  if (arguments.has_autocommit && arguments.autocommit)
    return {ErrorCode::kInvalidOptions, "Specifying autocommit=true is not allowed."};
  if (arguments.start_transaction && !arguments.has_autocommit)
    return {ErrorCode::kInvalidOptions,
            "'startTransaction' field requires a 'autocommit: false' to also be specified"};
  if (!has_number) return {};
  if (!replica_set())
    return {ErrorCode::kIllegalOperation,
            "Transaction numbers are only allowed on a replica set member or mongos"};
  if (arguments.has_autocommit) return check_in_transaction(row, arguments);
  if ((row.flags & kRetryableWrite) == 0 || (row.flags & kEndsTransaction) != 0)
    return {location_code(50768),
            "txnNumber may only be provided for multi-document transactions and retryable write "
            "commands. autocommit:false was not provided, and " +
                std::string(row.name) + " is not a retryable write command."};
  return {};
}

// Those of setDefaultRWConcern, where the request gives none.
Status Dispatcher::apply_defaults(Operation& operation, const CommandRow& row) {
  const Arguments& arguments = operation.arguments_;
  if (arguments.has_autocommit) return {};
  const auto defaults = defaults_->get(*store_);
  if (!defaults) return {};
  if (arguments.write_concern.missing() && (row.flags & kAcceptsWriteConcern) != 0 &&
      !defaults->write.view().empty()) {
    MULTIFORA_ASSIGN(operation.write_concern_, parse_write_concern(defaults->write.view()));
  }
  if (arguments.read_concern.missing() && (row.flags & kAcceptsReadConcern) != 0 &&
      !defaults->read.view().empty()) {
    MULTIFORA_ASSIGN(operation.read_concern_,
                     parse_read_concern(row.name, defaults->read.view()));
  }
  return {};
}

Status Dispatcher::check_concerns(Operation& operation, const CommandRow& row) {
  const Arguments& arguments = operation.arguments_;
  operation.read_concern_ = ReadConcern();
  operation.write_concern_ = WriteConcern();
  if (!arguments.write_concern.missing()) {
    MULTIFORA_ASSIGN(operation.write_concern_,
                     parse_write_concern(arguments.write_concern.as_document()));
    if (operation.write_concern_.given && (row.flags & kAcceptsWriteConcern) == 0)
      return {ErrorCode::kInvalidOptions, "Command does not support writeConcern"};
    if (!replica_set()) MULTIFORA_TRY(refused_by_standalone(operation.write_concern_));
  }
  if (defaults_ != nullptr && store_ != nullptr) MULTIFORA_TRY(apply_defaults(operation, row));
  if (arguments.read_concern.missing()) return {};
  MULTIFORA_ASSIGN(operation.read_concern_,
                   parse_read_concern(row.name, arguments.read_concern.as_document()));
  const ReadConcern& concern = operation.read_concern_;
  SessionInfo& session = operation.context_->session();
  if ((row.flags & kContinuesCursor) != 0 && concern.level == ReadLevel::kSnapshot &&
      !session.in_transaction) {
    // The Node driver and PyMongo say it with every command of a snapshot session.
    operation.read_concern_ = ReadConcern();
    return {};
  }
  session.has_read_concern = concern.given;
  session.read_level = concern.level;
  session.at_cluster_time = concern.at_cluster_time;
  const bool in_transaction = session.in_transaction;
  if ((row.flags & kAcceptsReadConcern) == 0 && concern.level != ReadLevel::kLocal &&
      !in_transaction)
    return {ErrorCode::kInvalidOptions,
            "Command " + std::string(row.name) + " does not support { readConcern: { level: \"" +
                std::string(read_level_name(concern.level)) +
                "\" } } :: caused by :: read concern not supported"};
  if (concern.level == ReadLevel::kSnapshot && !in_transaction &&
      ((row.flags & kAllowedInTransaction) == 0 || sessions_ == nullptr || !replica_set()))
    return {ErrorCode::kInvalidOptions,
            "readConcern level snapshot is not supported for the command " + std::string(row.name) +
                " outside a transaction"};
  if (!replica_set() && (concern.level == ReadLevel::kLinearizable || concern.after_cluster_time))
    return {ErrorCode::kNotAReplicaSet,
            "node needs to be a replica set member to use this readConcern"};
  if (concern.after_cluster_time > cluster_time())
    return {ErrorCode::kInvalidOptions,
            "readConcern afterClusterTime value must not be greater than the current clusterTime"};
  return {};
}

Status Dispatcher::run_in_session(Operation& operation, DocumentBuilder& reply) {
  const CommandRow& row = *operation.row_->row;
  CommandContext& context = *operation.context_;
  const SessionInfo& session = context.session();
  const bool in_session = sessions_ != nullptr && (!session.lsid.empty() ||
                                                   session.read_level == ReadLevel::kSnapshot);
  if (!in_session) return guarded_run(row, context, *operation.request_, reply);
  MULTIFORA_TRY(sessions_->enter(context, row));
  Status status = guarded_run(row, context, *operation.request_, reply);
  sessions_->leave(context, row, status);
  return status;
}

Dispatcher::Next Dispatcher::run_handler(Operation& operation) {
  operation.context_->more_to_come = false;
  Status status;
  {
    DocumentBuilder reply(&operation.reply);
    status = run_in_session(operation, reply);
    if (status.ok()) {
      operation.wait_ = operation.context_->take_wait();
      if (operation.wait_ == nullptr) append_tail(operation, reply);
    }
  }
  if (status.ok() && operation.wait_ != nullptr) {
    operation.reply.resize(operation.reply_start_);
    return Next::kWait;
  }
  if (operation.context_->close_connection) return Next::kClose;
  return complete(operation, status);
}

Dispatcher::Next Dispatcher::complete(Operation& operation, const Status& status) {
  operation.more_to_come_ = status.ok() && operation.context_->more_to_come;
  if (status.ok())
    append_times(operation);
  else
    replace_reply(operation, status);
  // The client may send its metadata once; from then on currentOp shows it.
  ClientInfo& client = operation.client_;
  if (!operation.metadata_shown_ && !client.metadata.view().empty()) {
    std::lock_guard lock(operation.mutex_);
    operation.shown_app_name_ = client.app_name;
    operation.shown_metadata_ = client.metadata;
    operation.metadata_shown_ = true;
  }
  operation.durable_position_ = position_to_wait_for(operation);
  if (operation.durable_position_ != 0) {
    if (operation.context_->write_position() != 0 || writes(*operation.row_->row))
      operation.durable_timeout_ms_ = operation.write_concern_.disk_timeout_ms();
    operation.more_to_come_ = false;  // the request does not outlive the wait for the disk
    let_message_go(operation);
    return Next::kDurable;
  }
  meter(operation);
  return Next::kReply;
}

std::uint64_t Dispatcher::position_to_wait_for(Operation& operation) const {
  if (durability_ == nullptr) return 0;
  std::uint64_t position = 0;
  if (operation.write_concern_.waits_for_disk()) {
    position = operation.context_->write_position();
    // A write that changed nothing (or failed) answers by what it saw, which must be durable then.
    if (position == 0 && writes(*operation.row_->row) && !operation.arguments_.has_autocommit)
      position = durability_->last_position();
  }
  // What a transaction has read must be durable when it commits, not before.
  if (operation.read_concern_.waits_for_disk() && !operation.arguments_.has_autocommit)
    position = std::max(position, durability_->last_position());
  return position > durability_->durable_position() ? position : 0;
}

// The reply outlives the message that the request's views point into.
void Dispatcher::let_message_go(Operation& operation) {
  std::lock_guard lock(operation.mutex_);
  operation.shown_ns_.assign(operation.request_->db());
  if (operation.request_->target().type() == BsonType::kString)
    operation.shown_ns_.append(".").append(operation.request_->collection());
  operation.body_ = DocumentView();
  operation.request_.reset();
}

void Dispatcher::durable(Operation& operation, const Status& status) {
  if (!status.ok()) {
    operation.more_to_come_ = false;
    replace_reply(operation, status);
  }
  meter(operation);
}

void Dispatcher::write_timed_out(Operation& operation) {
  if (operation.error_ == ErrorCode::kOK)
    append_write_timeout(operation.reply, operation.reply_start_, operation.write_concern_);
  meter(operation);
}

void Dispatcher::keep_request(Operation& operation) {
  if (operation.body_.data() != operation.kept_body_.bytes().data()) {
    OwnedDocument copy(operation.body_);
    std::lock_guard lock(operation.mutex_);
    operation.kept_body_ = std::move(copy);
    operation.body_ = operation.kept_body_.view();
  }
  // The arguments' views, too, must point into the copy.
  operation.arguments_.read_concern = operation.arguments_.write_concern = ValueView();
  operation.arguments_.lsid = operation.arguments_.api_version = {};
  operation.kept_db_ = operation.arguments_.db;
  operation.arguments_.db = operation.kept_db_;
  operation.request_.emplace(operation.body_, operation.arguments_.db,
                             keep_sequences(operation));
}

// Copies of the request's sequences, as views into the operation.
std::vector<DocumentSequence> Dispatcher::keep_sequences(Operation& operation) {
  std::vector<std::unique_ptr<Operation::KeptSequence>> kept;
  std::vector<DocumentSequence> views;
  for (const DocumentSequence& sequence : operation.request_->sequences()) {
    auto copy = std::make_unique<Operation::KeptSequence>();
    copy->name = sequence.name;
    for (const DocumentView document : sequence.documents) copy->documents.emplace_back(document);
    DocumentSequence& view = views.emplace_back();
    view.name = copy->name;
    for (const OwnedDocument& document : copy->documents) view.documents.push_back(document.view());
    kept.push_back(std::move(copy));
  }
  operation.kept_sequences_ = std::move(kept);
  return views;
}

Dispatcher::Next Dispatcher::resume(Operation& operation) {
  if (operation.blocked_) return after_block(operation);
  operation.waited_ = true;
  // A handler that waits takes maxTimeMS as the time that it may wait.
  operation.interrupt_->set_deadline_us(0);
  if (const Status killed = operation.interrupt_->check_slow(); !killed.ok())
    return complete(operation, killed);
  return run_handler(operation);
}

Dispatcher::Next Dispatcher::again(Operation& operation) {
  operation.reply_start_ = operation.reply.size();
  return resume(operation);
}

void Dispatcher::finish(Operation& operation) {
  {
    std::lock_guard lock(operation.mutex_);
    operation.row_ = nullptr;
    operation.body_ = DocumentView();
    operation.shown_ns_.clear();
  }
  if (operation.context_) {
    operation.lsid_spare_ = std::move(operation.context_->session().lsid);
    operation.context_.reset();
  }
  operation.request_.reset();
  operation.wait_.reset();
  operation.fault_.reset();
  operation.kept_sequences_.clear();
  constexpr std::size_t kKeptMax = 1024;
  if (operation.kept_body_.bytes().size() > kKeptMax) operation.kept_body_ = OwnedDocument();
}

void Dispatcher::refuse(Operation& operation, const Status& status) {
  operation.reply_start_ = operation.reply.size();
  operation.more_to_come_ = false;
  replace_reply(operation, status);
}

// ---------------------------------------------------------------- replies

void Dispatcher::append_tail(Operation& operation, DocumentBuilder& reply) const {
  const WriteConcern& concern = operation.write_concern_;
  if (concern.given && replica_set()) {
    if (const Status failed = unsatisfiable(concern); !failed.ok())
      append_write_concern_error(reply, failed, concern);
  }
  if (operation.fault_ && !operation.fault_->write_concern_error.missing()) {
    reply.append("writeConcernError", operation.fault_->write_concern_error);
    append_labels(operation, ErrorCode::kOK, reply);
  }
  reply.append("ok", 1.0);
}

void Dispatcher::append_labels(const Operation& operation, ErrorCode code,
                               DocumentBuilder& reply) {
  LabelInput input;
  input.code = code;
  if (operation.fault_) {
    const CommandFault& fault = *operation.fault_;
    if (!fault.labels.missing()) {
      if (!fault.labels.as_document().empty()) reply.append("errorLabels", fault.labels);
      return;
    }
    if (fault.write_concern_error.type() == BsonType::kObject)
      input.write_concern_code = static_cast<ErrorCode>(
          fault.write_concern_error.as_document()["code"].number_as_int64());
  }
  const Arguments& arguments = operation.arguments_;
  input.in_transaction = arguments.has_autocommit;
  input.retryable_write = arguments.txn_number >= 0 && !arguments.has_autocommit;
  input.ends_transaction =
      operation.row_ != nullptr && (operation.row_->row->flags & kEndsTransaction) != 0;
  append_error_labels(reply, input);
}

std::uint64_t Dispatcher::cluster_time() const {
  const std::uint64_t position = durability_ == nullptr ? 0 : durability_->last_position();
  return position == 0 ? boot_time_ : position;
}

void Dispatcher::append_times(Operation& operation) {
  if (!replica_set()) return;
  const std::uint64_t now = cluster_time();
  const std::uint64_t written =
      operation.context_ ? operation.context_->write_position() : 0;
  append_cluster_time(operation.reply, operation.reply_start_, std::max(now, written),
                      written != 0 ? written : now);
}

void Dispatcher::replace_reply(Operation& operation, const Status& status) {
  operation.error_ = status.code();
  operation.reply.resize(operation.reply_start_);
  {
    DocumentBuilder reply(&operation.reply);
    append_error(reply, status);
    append_labels(operation, status.code(), reply);
  }
  append_times(operation);
  if (is_server_failure(status.code())) log_failure(operation, status);
}

// ---------------------------------------------------------------- meters and log

void Dispatcher::meter(Operation& operation) {
  if (operation.row_ == nullptr) return;
  const DispatchRow& row = *operation.row_;
  const std::int64_t duration_us = host_.clock().monotonic_us() - operation.started_us_;
  row.total->add();
  row.latency_us->add(static_cast<std::uint64_t>(std::max<std::int64_t>(duration_us, 0)));
  if (operation.error_ != ErrorCode::kOK) row.failed->add();
  note_latency(operation, duration_us);
  const bool slow = duration_us >= options_.slow_ms * 1000 && !operation.waited_;
  if (slow) log_slow(operation, duration_us);
}

// For $collStats: what a command on a collection took.
void Dispatcher::note_latency(const Operation& operation, std::int64_t duration_us) const {
  const CommandRow& row = *operation.row_->row;
  if (store_ == nullptr || row.lock == LockIntent::kNone) return;
  const Store::CommandClass kind =
      (row.flags & kAcceptsReadConcern) != 0 ? Store::CommandClass::kRead
      : (row.flags & kRetryableWrite) != 0   ? Store::CommandClass::kWrite
                                             : Store::CommandClass::kOther;
  const auto latency_us = static_cast<std::uint64_t>(std::max<std::int64_t>(duration_us, 0));
  // A reply that waited for the disk has outlived its request.
  if (!operation.request_)
    store_->note_latency(operation.shown_ns_, kind, latency_us);
  else if (operation.request_->target().type() == BsonType::kString)
    store_->note_latency(operation.request_->ns(), kind, latency_us);
}

void Dispatcher::log_slow(Operation& operation, std::int64_t duration_us) const {
  if (!host_.log().wants(LogLevel::kInfo)) return;
  const std::string ns = operation.request_ ? operation.request_->ns() : operation.shown_ns_;
  const std::string code = error_code_name(operation.error_);
  host_.log().event(LogLevel::kInfo, "command", "slow command",
                    {{"command", operation.row_->row->name},
                     {"ns", std::string_view(ns)},
                     {"duration_ms", duration_us / 1000},
                     {"connection", operation.client_.connection_id},
                     {"app_name", std::string_view(operation.client_.app_name)},
                     {"code", std::string_view(code)},
                     {"reply_bytes", static_cast<std::int64_t>(operation.reply.size())}});
}

void Dispatcher::log_failure(const Operation& operation, const Status& status) const {
  const std::string code = status.code_name();
  host_.log().event(LogLevel::kError, "command", status.message(),
                    {{"command", operation.row_ == nullptr ? std::string_view()
                                                           : operation.row_->row->name},
                     {"connection", operation.client_.connection_id},
                     {"code", std::string_view(code)}});
}

// ---------------------------------------------------------------- commands inside commands

OwnedDocument Dispatcher::run(CommandContext& context, const CommandRequest& request) {
  DocumentBuilder reply;
  Status status;
  const DispatchRow* row = find(request.name());
  Arguments arguments;
  arguments.db = request.db();
  if (row == nullptr)
    status = {ErrorCode::kCommandNotFound,
              "no such command: '" + std::string(request.name()) + "'"};
  else
    status = parse_arguments(*row->row, request.body(), request.sequences(), arguments);
  if (status.ok()) status = check_collection_target(*row->row, request);
  if (status.ok() && writes(*row->row) && durability_ != nullptr) status = durability_->health();
  if (status.ok()) status = guarded_run(*row->row, context, request, reply);
  if (status.ok()) {
    reply.append("ok", 1.0);
    return std::move(reply).finish();
  }
  DocumentBuilder failed;
  append_error(failed, status);
  return std::move(failed).finish();
}

}  // namespace multifora
