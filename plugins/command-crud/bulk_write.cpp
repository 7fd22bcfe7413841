// bulkWrite (8.0): inserts, updates and deletes on several collections in one command.
#include "core/base/limits.h"
#include "plugins/command-crud/commands.h"
#include "plugins/command-crud/insert_run.h"
#include "plugins/command-crud/modify_run.h"

namespace multifora::crud {
namespace {

constexpr std::string_view kCursorNs = "admin.$cmd.bulkWrite";

const OptionSpec kInsertOp[] = {{"insert", kOptNumber, kRequired}, {"document", kOptObject, kRequired}};
const OptionSpec kUpdateOp[] = {
    {"update", kOptNumber, kRequired},
    {"filter", kOptObject, kRequired},
    {"updateMods", kOptObject | kOptArray, kRequired},
    {"multi", kOptBool},
    {"upsert", kOptBool},
    {"arrayFilters", kOptArray},
    {"hint", kOptString | kOptObject},
    {"collation", kOptObject},
    {"constants", kOptObject},
    {"sort", kOptObject},
    {"upsertSupplied", kOptBool, kUnsupported},
    {"sampleId", kOptAny, kUnsupported},
};
const OptionSpec kDeleteOp[] = {
    {"delete", kOptNumber, kRequired}, {"filter", kOptObject, kRequired},
    {"multi", kOptBool},               {"hint", kOptString | kOptObject},
    {"collation", kOptObject},         {"sampleId", kOptAny, kUnsupported},
};
const OptionSpec kNsInfo[] = {
    {"ns", kOptString, kRequired},
    {"collectionUUID", kOptAny, kUnsupported},
    {"encryptionInformation", kOptAny, kUnsupported},
    {"isTimeseriesNamespace", kOptBool, kUnsupported},
};

enum class OpKind { kInsert, kUpdate, kDelete };

struct Op {
  OpKind kind = OpKind::kInsert;
  std::string_view ns;
  DocumentView insert;
  ModifyStatement modify;
};

DocumentView document_of(const ValueView& value) {
  return value.type() == BsonType::kObject || value.type() == BsonType::kArray
             ? value.as_document()
             : DocumentView();
}

OwnedDocument result_of(const ModifyOutcome& outcome) {
  DocumentBuilder result;
  result.append("n", outcome.matched).append("nModified", outcome.modified);
  if (outcome.upserted) result.append("upserted", outcome.upserted_id.view());
  return std::move(result).finish();
}

class BulkWrite {
 public:
  BulkWrite(CommandContext& context, const CommandRequest& request, RetryableStatements retry)
      : context_(context), request_(request), retry_(std::move(retry)), batch_(context) {}

  Status parse(const std::vector<DocumentView>& ops, const std::vector<DocumentView>& ns_info) {
    for (const DocumentView info : ns_info) {
      MULTIFORA_TRY(check_fields("bulkWrite.nsInfo", info, kNsInfo));
      const Namespace ns = Namespace::split(info["ns"].as_string());
      MULTIFORA_TRY(check_database_name(ns.db));
      MULTIFORA_TRY(check_collection_name(ns.collection));
      namespaces_.push_back(info["ns"].as_string());
    }
    ops_.resize(ops.size());
    for (std::size_t i = 0; i < ops.size(); ++i) MULTIFORA_TRY(parse_op(ops[i], ops_[i]));
    return {};
  }

  Status run() {
    const bool ordered = request_.flag("ordered", true);
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      const Status status = run_op(i);
      if (status.ok()) continue;
      if (ends_command(context_, status.code())) return status;
      note_error(i, status);
      if (aborts_transaction(context_) || ordered) break;
    }
    return batch_.flush();
  }

  Status reply(DocumentBuilder& reply) {
    auto open = std::make_unique<OpenCursor>();
    open->ns = kCursorNs;
    open->cursor = std::make_unique<ResultCursor>(std::move(results_));
    MULTIFORA_ASSIGN(const BatchLimits limits, read_cursor_option(request_, -1));
    MULTIFORA_TRY(reply_first_batch(context_, std::move(open), limits, false, reply));
    const auto number = [&reply](std::string_view name, std::int64_t n) {
      reply.append(name, static_cast<std::int32_t>(n));
    };
    number("nErrors", errors_);
    number("nInserted", inserted_);
    number("nMatched", matched_);
    number("nModified", modified_);
    number("nUpserted", upserted_);
    number("nDeleted", deleted_);
    retry_.append_to(reply);
    return {};
  }

 private:
  // The results, all at hand.
  class ResultCursor final : public ClientCursor {
   public:
    explicit ResultCursor(std::vector<OwnedDocument> results) : results_(std::move(results)) {}
    Result<std::optional<DocumentView>> next() override {
      if (at_ == results_.size()) return std::nullopt;
      return results_[at_++].view();
    }
    bool exhausted() const override { return at_ == results_.size(); }
    Status detach() override { return {}; }
    Status attach(CommandContext&) override { return {}; }

   private:
    std::vector<OwnedDocument> results_;
    std::size_t at_ = 0;
  };

  Status parse_op(DocumentView op, Op& out) {
    const Element first = op.first();
    std::string_view name = first.name();
    if (name == "insert") {
      MULTIFORA_TRY(check_fields("bulkWrite.ops", op, kInsertOp));
      out.kind = OpKind::kInsert;
      out.insert = op["document"].as_document();
    } else if (name == "update") {
      MULTIFORA_TRY(check_fields("bulkWrite.ops", op, kUpdateOp));
      out.kind = OpKind::kUpdate;
      out.modify.update = op["updateMods"];
      out.modify.upsert = op["upsert"].truthy();
      out.modify.array_filters = document_of(op["arrayFilters"]);
      out.modify.constants = document_of(op["constants"]);
      out.modify.query.sort = document_of(op["sort"]);
    } else if (name == "delete") {
      MULTIFORA_TRY(check_fields("bulkWrite.ops", op, kDeleteOp));
      out.kind = OpKind::kDelete;
    } else {
      return {ErrorCode::kFailedToParse,
              "Unrecognized bulkWrite operation: the first field must be insert, update or delete"};
    }
    const std::int64_t which = first->number_as_int64();
    if (which < 0 || which >= static_cast<std::int64_t>(namespaces_.size()))
      return {ErrorCode::kBadValue, "BulkWrite ops entry has an invalid nsInfo index."};
    out.ns = namespaces_[static_cast<std::size_t>(which)];
    if (out.kind == OpKind::kInsert) return {};
    ModifyStatement& modify = out.modify;
    modify.ns = out.ns;
    modify.query.filter = op["filter"].as_document();
    modify.query.hint = hint_of(op["hint"]);
    modify.query.collation = op["collation"];
    modify.query.let = request_.document("let");
    modify.multi = op["multi"].truthy();
    modify.bypass_validation = request_.flag("bypassDocumentValidation", false);
    if (modify.multi && !modify.query.sort.empty())
      return {ErrorCode::kFailedToParse, "Cannot specify sort with multi=true"};
    if (modify.multi && retry_.enabled())
      return {ErrorCode::kInvalidOptions,
              "Cannot use retryable writes with multi=true"};
    return {};
  }

  Status run_op(std::size_t index) {
    Op& op = ops_[index];
    MULTIFORA_TRY(context_.interrupt().check_slow());
    MULTIFORA_TRY(check_writable(std::string(op.ns)));
    return op.kind == OpKind::kInsert ? run_insert_op(index) : run_modify_op(index);
  }

  Status run_insert_op(std::size_t index) {
    InsertJob job;
    job.ns = ops_[index].ns;
    job.documents = {ops_[index].insert};
    job.bypass_validation = request_.flag("bypassDocumentValidation", false);
    job.first_statement = index;
    Status outcome;
    MULTIFORA_TRY(run_insert(context_, job, retry_, batch_,
                             [&outcome](std::size_t, const Status& status) { outcome = status; }));
    MULTIFORA_TRY(outcome);
    ++inserted_;
    note_success(index, 1, -1, nullptr);
    return {};
  }

  Status run_modify_op(std::size_t index) {
    Op& op = ops_[index];
    ModifyOutcome outcome;
    MULTIFORA_ASSIGN(const auto before, retry_.find(index));
    if (before) {
      outcome.matched = before->view()["n"].number_as_int64();
      outcome.modified = before->view()["nModified"].number_as_int64();
      if (before->view()["upserted"].type() == BsonType::kObject) {
        outcome.upserted = true;
        outcome.upserted_id = OwnedDocument(before->view()["upserted"].as_document());
      }
    } else {
      op.modify.id = retry_.id(index);
      MULTIFORA_ASSIGN(outcome, run_modify(context_, op.modify, batch_, result_of));
    }
    if (op.kind == OpKind::kDelete) {
      deleted_ += outcome.modified;
      note_success(index, outcome.modified, -1, nullptr);
      return {};
    }
    matched_ += outcome.matched;
    modified_ += outcome.modified;
    if (outcome.upserted) ++upserted_;
    note_success(index, outcome.matched + (outcome.upserted ? 1 : 0), outcome.modified,
                 outcome.upserted ? &outcome.upserted_id : nullptr);
    return {};
  }

  // `modified` below 0: not shown.
  void note_success(std::size_t index, std::int64_t n, std::int64_t modified,
                    const OwnedDocument* upserted) {
    if (request_.flag("errorsOnly", false)) return;
    DocumentBuilder result;
    result.append("ok", 1.0);
    result.append("idx", static_cast<std::int32_t>(index));
    result.append("n", static_cast<std::int32_t>(n));
    if (modified >= 0) result.append("nModified", static_cast<std::int32_t>(modified));
    if (upserted != nullptr) result.append("upserted", upserted->view());
    results_.push_back(std::move(result).finish());
  }

  void note_error(std::size_t index, const Status& status) {
    ++errors_;
    DocumentBuilder result;
    result.append("ok", 0.0);
    result.append("idx", static_cast<std::int32_t>(index));
    append_write_error(result, status);
    result.append("n", std::int32_t{0});
    if (ops_[index].kind == OpKind::kUpdate) result.append("nModified", std::int32_t{0});
    results_.push_back(std::move(result).finish());
  }

  CommandContext& context_;
  const CommandRequest& request_;
  RetryableStatements retry_;
  WriteBatch batch_;
  std::vector<std::string_view> namespaces_;
  std::vector<Op> ops_;
  std::vector<OwnedDocument> results_;
  std::int64_t errors_ = 0, inserted_ = 0, matched_ = 0, modified_ = 0, upserted_ = 0, deleted_ = 0;
};

Status bulk_write(CommandContext& context, const CommandRequest& request, DocumentBuilder& reply) {
  const std::vector<DocumentView> ops = request.documents("ops");
  MULTIFORA_TRY(check_batch_size(ops.size()));
  MULTIFORA_ASSIGN(auto retry, RetryableStatements::make(context, request, ops.size()));
  BulkWrite bulk(context, request, std::move(retry));
  MULTIFORA_TRY(bulk.parse(ops, request.documents("nsInfo")));
  MULTIFORA_TRY(bulk.run());
  return bulk.reply(reply);
}

}  // namespace

const CommandRow kBulkWrite{
    .name = "bulkWrite",
    .aliases = {},
    .help = "inserts, updates and deletes on several collections",
    .privilege = "bulkWrite",
    .lock = LockIntent::kWrite,
    .flags = kAdminOnly | kAllowedInTransaction | kRetryableWrite | kAcceptsWriteConcern |
             kAllowedInStrictApi,
    .options =
        {
            {"ops", kOptArray, kRequired | kArrayOfObjects},
            {"nsInfo", kOptArray, kRequired | kArrayOfObjects},
            {"ordered", kOptBool},
            {"errorsOnly", kOptBool},
            {"bypassDocumentValidation", kOptBoolish},
            {"let", kOptObject},
            {"cursor", kOptObject},
            {"stmtId", kOptInt32},
            {"stmtIds", kOptArray},
            {"bypassEmptyTsReplacement", kOptBool, kUnsupported},
        },
    .run = bulk_write,
};

}  // namespace multifora::crud
