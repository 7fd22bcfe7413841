#include "plugins/command-crud/modify_run.h"

#include <optional>

#include "core/store/batch_bounds.h"
#include "plugins/query-engine/match_node.h"

namespace multifora::crud {
namespace {

// Statements that look at no more than this run under the exclusive lock.
constexpr std::uint64_t kDirectMax = 2000;
constexpr int kAttemptsMax = 10;

bool is_id_equality(const Matcher& matcher) {
  const MatchNode* node = &matcher.root();
  while (node->kind() == MatchKind::kAnd && node->children().size() == 1)
    node = node->children()[0].get();
  return node->kind() == MatchKind::kEq && node->path() == "_id";
}

std::uint64_t keys_of(const PlanNode& plan) {
  std::uint64_t keys = plan.keys;
  for (const PlanPtr& child : plan.children) keys += keys_of(*child);
  return keys;
}

class Modifier {
 public:
  Modifier(CommandContext& context, const ModifyStatement& statement, WriteBatch& batch,
           const MakeResult& make_result)
      : context_(context),
        store_(context.store()),
        statement_(statement),
        batch_(batch),
        make_result_(make_result) {}

  Result<ModifyOutcome> run() {
    MULTIFORA_TRY_R(compile());
    Status status = run_statement();
    while (must_wait(context_, status)) {
      // Nothing was changed by an attempt for one document; one for many waits by itself.
      MULTIFORA_TRY_R(batch_.flush());
      MULTIFORA_TRY_R(wait_for_writers(context_));
      outcome_ = ModifyOutcome();
      status = run_statement();
    }
    if (!status.ok()) return fail(status);
    return std::move(outcome_);
  }

  Status compile() {
    if (CollectionWriter* const open = batch_.open_writer(statement_.ns))
      return compile(&open->view().info());
    MULTIFORA_TRY(batch_.flush());
    const auto info = store_.info(statement_.ns);
    if (info && info->is_view) return refuse_view(statement_.ns);
    return compile(info.get());
  }

  Status compile(const CollectionInfo* info) {
    QueryArguments arguments = statement_.query;
    arguments.allow_expr = !statement_.upsert;
    MULTIFORA_ASSIGN(query_, CompiledQuery::compile(QueryEnvironment::of(context_), info, arguments));
    query_->request().needs_document = true;
    if (!statement_.multi) query_->request().limit = 1;
    if (statement_.update.missing()) return {};
    UpdateOptions options;
    options.collator = query_->collator();
    options.array_filters = statement_.array_filters;
    options.constants = statement_.constants;
    options.upsert = statement_.upsert;
    MULTIFORA_ASSIGN(update_, Update::compile(statement_.update, options, query_->scope()));
    if (statement_.multi && update_->is_replacement())
      return {ErrorCode::kFailedToParse,
              "multi update is not supported for replacement-style update"};
    if (update_->needs_match_details()) query_->need_match_details();
    match_details_ = update_->needs_match_details() ||
                     (query_->projection() != nullptr && query_->projection()->needs_match_details());
    EvalContext& eval = query_->eval();
    if (eval.variables.size() < query_->scope().slots()) eval.variables.resize(query_->scope().slots());
    return {};
  }

  std::unique_ptr<CompiledQuery> take_query() { return std::move(query_); }

 private:
  struct Found {
    RecordId id = 0;
    MatchDetails details;
  };

  Status run_statement() {
    if (!statement_.multi && is_id_equality(query_->matcher())) return run_in_batch();
    MULTIFORA_TRY(batch_.flush());
    return statement_.multi ? run_multi() : run_single();
  }

  // --- one document -------------------------------------------------------------------------------

  Status run_in_batch() {
    MULTIFORA_TRY(context_.interrupt().check_slow());
    MULTIFORA_ASSIGN(CollectionWriter* const writer,
                     batch_.writer(statement_.ns, statement_.upsert));
    if (writer == nullptr) return {};
    writer->bypass_validation(statement_.bypass_validation);
    MULTIFORA_ASSIGN(const bool done, change_or_insert(*writer));
    if (done) set_result(*writer);
    return batch_.statement_done(0);
  }

  Status run_single() {
    for (int attempt = 0;; ++attempt) {
      MULTIFORA_TRY(context_.interrupt().check_slow());
      const bool last = attempt + 1 >= kAttemptsMax;
      MULTIFORA_ASSIGN(const bool direct, last ? Result<bool>(true) : runs_directly());
      if (direct) return run_under_lock();
      MULTIFORA_ASSIGN(const bool done, run_optimistically());
      if (done) return {};
    }
  }

  Result<bool> runs_directly() {
    // A transaction holds no lock.
    if (context_.transaction() != nullptr) return true;
    MULTIFORA_ASSIGN_R(const auto view, store_.read(statement_.ns));
    if (!view) return true;
    MULTIFORA_ASSIGN_R(const PlannedQuery planned, query_->plan(*view));
    return keys_of(*planned.plan) <= kDirectMax;
  }

  Status run_under_lock() {
    MULTIFORA_ASSIGN(auto writer, store_.write(statement_.ns, statement_.upsert, &context_.interrupt()));
    if (!writer) return {};
    writer->bypass_validation(statement_.bypass_validation);
    MULTIFORA_ASSIGN(const bool done, change_or_insert(*writer));
    return done ? finish(*writer) : Status();
  }

  // False: nothing matches, and nothing is to be inserted.
  Result<bool> change_or_insert(CollectionWriter& writer) {
    MULTIFORA_ASSIGN_R(const auto found, locate(writer.view()));
    if (found)
      MULTIFORA_TRY_R(change(writer, found->id, found->details));
    else if (statement_.upsert)
      MULTIFORA_TRY_R(insert(writer));
    return found || statement_.upsert;
  }

  // False: what was found is gone; look again.
  Result<bool> run_optimistically() {
    std::optional<Found> found;
    {
      MULTIFORA_ASSIGN_R(const auto view, store_.read(statement_.ns));
      if (!view) return false;
      MULTIFORA_ASSIGN_R(found, locate(*view));
    }
    if (!found && !statement_.upsert) return true;
    MULTIFORA_ASSIGN_R(const auto writer, store_.write(statement_.ns, statement_.upsert, &context_.interrupt()));
    if (!writer) return true;
    writer->bypass_validation(statement_.bypass_validation);
    if (found) {
      MULTIFORA_ASSIGN_R(const auto details, still_matches(*writer, found->id));
      if (!details) return false;
      MULTIFORA_TRY_R(change(*writer, found->id, *details));
    } else {
      const Status inserted = insert(*writer);
      // Another upsert of the same key came first: its document is the one to change.
      if (inserted.code() == ErrorCode::kDuplicateKey) return false;
      MULTIFORA_TRY_R(inserted);
    }
    MULTIFORA_TRY_R(finish(*writer));
    return true;
  }

  Result<std::optional<Found>> locate(CollectionView& view) {
    MULTIFORA_ASSIGN_R(const auto executor,
                       query_->start(view, context_.interrupt(), store_.temp_directory()));
    Row row;
    MULTIFORA_ASSIGN_R(const bool any, executor->next(row));
    if (!any) return std::nullopt;
    Found found;
    found.id = row.id;
    found.details.array_index = row.array_index;
    return found;
  }

  Result<std::optional<MatchDetails>> still_matches(CollectionWriter& writer, RecordId id) {
    MULTIFORA_ASSIGN_R(const auto document, writer.view().find(id));
    if (!document) return std::nullopt;
    MatchDetails details;
    MULTIFORA_ASSIGN_R(const bool matched,
                       query_->matcher().matches(*document, &query_->eval(),
                                                 match_details_ ? &details : nullptr));
    if (!matched) return std::nullopt;
    return details;
  }

  void set_result(CollectionWriter& writer) {
    if (!statement_.id) return;
    const OwnedDocument result = make_result_(outcome_);
    writer.set_statement_result(*statement_.id, result.view());
  }

  Status finish(CollectionWriter& writer) {
    set_result(writer);
    return commit(writer);
  }

  Status commit(CollectionWriter& writer) {
    MULTIFORA_ASSIGN(const LogPosition position, writer.commit());
    context_.note_write(position);
    return {};
  }

  // --- the change itself --------------------------------------------------------------------------

  Status change(CollectionWriter& writer, RecordId id, const MatchDetails& details) {
    MULTIFORA_ASSIGN(const auto before, writer.view().find(id));
    if (!before) return {ErrorCode::kDataCorruptionDetected, "a record vanished under its lock"};
    if (statement_.image == ModifyStatement::Image::kBefore)
      MULTIFORA_TRY(take_image(*before, details));
    if (!update_) {
      MULTIFORA_TRY(writer.remove(id, *before));
      ++outcome_.matched;
      ++outcome_.modified;
      return {};
    }
    UpdateInput input = input_for(*before, &details);
    assigned_.clear();
    input.assigned = &assigned_;
    buffer_.clear();
    MULTIFORA_ASSIGN(const bool changed, update_->apply(input, query_->eval(), buffer_));
    const DocumentView after = changed ? DocumentView::assume_valid(Bytes(buffer_)) : *before;
    if (statement_.image == ModifyStatement::Image::kAfter)
      MULTIFORA_TRY(take_image(after, details));
    if (changed)
      MULTIFORA_TRY(writer.update(id, *before, after,
                                  {.replacement = update_->is_replacement(),
                                                             .assigned = assigned_}));
    ++outcome_.matched;
    if (changed) ++outcome_.modified;
    return {};
  }

  UpdateInput input_for(DocumentView document, const MatchDetails* details) const {
    UpdateInput input;
    input.document = document;
    input.match = details;
    input.cluster_time = store_.last_position() + 1;
    input.now_ms = query_->eval().now_ms;
    return input;
  }

  Status insert(CollectionWriter& writer) {
    MULTIFORA_ASSIGN(const OwnedDocument seed,
                     upsert_seed(query_->matcher(), update_->is_replacement()));
    UpdateInput input = input_for(seed.view(), nullptr);
    input.is_insert = true;
    buffer_.clear();
    MULTIFORA_TRY(status_of(update_->apply(input, query_->eval(), buffer_)));
    Buffer with_id;
    MULTIFORA_ASSIGN(const DocumentView document,
                     ensure_id(DocumentView::assume_valid(Bytes(buffer_)), with_id));
    if (statement_.image == ModifyStatement::Image::kAfter)
      MULTIFORA_TRY(take_image(document, MatchDetails()));
    MULTIFORA_TRY(status_of(writer.insert(document)));
    DocumentBuilder id;
    id.append("_id", document["_id"]);
    outcome_.upserted_id = std::move(id).finish();
    outcome_.upserted = true;
    return {};
  }

  Status take_image(DocumentView document, const MatchDetails& details) {
    outcome_.has_image = true;
    if (query_->projection() == nullptr) {
      outcome_.image = OwnedDocument(document);
      return {};
    }
    Buffer projected;
    ProjectionInput input;
    input.document = document;
    input.match = &details;
    MULTIFORA_TRY(query_->projection()->apply(input, query_->eval(), projected));
    outcome_.image = OwnedDocument::assume_valid(std::move(projected));
    return {};
  }

  // --- many documents -----------------------------------------------------------------------------

  Status run_multi() {
    std::vector<RecordId> ids;
    MULTIFORA_TRY(collect(ids));
    if (ids.empty()) return statement_.upsert ? run_single() : Status();
    std::unique_ptr<CollectionWriter> writer;
    std::optional<BatchBounds> bounds;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const RecordId id = ids[i];
      Status status = context_.interrupt().check();
      if (status.ok() && !writer) {
        auto opened = store_.write(statement_.ns, false, &context_.interrupt());
        if (!opened) return opened.error();
        writer = std::move(*opened);
        if (!writer) return {};  // dropped meanwhile
        writer->bypass_validation(statement_.bypass_validation);
        bounds.emplace(context_.host().clock());
      }
      if (status.ok()) status = change_if_matching(*writer, id);
      if (must_wait(context_, status)) {
        status = commit(*writer);
        writer.reset();
        if (status.ok()) status = wait_for_writers(context_);
        MULTIFORA_TRY(std::move(status));
        --i;  // the same again
        continue;
      }
      if (!status.ok()) {
        // What was changed before stays, as in MongoDB.
        if (writer) static_cast<void>(commit(*writer));
        return status;
      }
      if (bounds->full_after(*writer)) {
        MULTIFORA_TRY(commit(*writer));
        writer.reset();
      }
    }
    return writer ? finish(*writer) : Status();
  }

  Status collect(std::vector<RecordId>& ids) {
    MULTIFORA_ASSIGN(const auto view, store_.read(statement_.ns));
    if (!view) return {};
    MULTIFORA_ASSIGN(const auto executor,
                     query_->start(*view, context_.interrupt(), store_.temp_directory()));
    Row row;
    while (true) {
      MULTIFORA_ASSIGN(const bool more, executor->next(row));
      if (!more) return {};
      ids.push_back(row.id);
    }
  }

  Status change_if_matching(CollectionWriter& writer, RecordId id) {
    MULTIFORA_ASSIGN(const auto details, still_matches(writer, id));
    return details ? change(writer, id, *details) : Status();
  }

  CommandContext& context_;
  Store& store_;
  const ModifyStatement& statement_;
  WriteBatch& batch_;
  const MakeResult& make_result_;
  std::unique_ptr<CompiledQuery> query_;
  std::unique_ptr<const Update> update_;
  bool match_details_ = false;
  ModifyOutcome outcome_;
  Buffer buffer_;
  std::vector<std::string> assigned_;  // by the update of one document
};

}  // namespace

Result<ModifyOutcome> run_modify(CommandContext& context, const ModifyStatement& statement,
                                 WriteBatch& batch, const MakeResult& make_result) {
  return Modifier(context, statement, batch, make_result).run();
}

Result<std::unique_ptr<CompiledQuery>> compile_modify(CommandContext& context,
                                                      const ModifyStatement& statement) {
  const MakeResult none;
  WriteBatch batch(context);
  Modifier modifier(context, statement, batch, none);
  MULTIFORA_TRY_R(modifier.compile());
  return modifier.take_query();
}

}  // namespace multifora::crud
