// $out and $merge. Both first collect the pipeline's documents, then write with no other lock held.
#include <fmt/format.h>

#include <optional>

#include "core/bson/compare.h"
#include "core/bson/path.h"
#include "core/plugin/command.h"
#include "core/store/batch_bounds.h"
#include "plugins/query-engine/document_edit.h"
#include "plugins/query-engine/stage.h"
#include "plugins/query-engine/update.h"

namespace multifora {
namespace {

constexpr std::int64_t kConflictWaitMs = 20;

using enum BsonType;

struct Target {
  std::string db, collection;
  std::string ns() const { return db + "." + collection; }
};

// "coll" or {db: ..., coll: ...}
Status read_target(std::string_view op, const ValueView& v, const PipelineContext& context, Target& out) {
  out.db = context.db;
  if (v.type() == kString) {
    out.collection = v.as_string();
  } else if (v.type() == kObject) {
    for (const Element& e : v.as_document()) {
      if ((e.name() != "db" && e.name() != "coll") || e.type() != kString)
        return {location_code(16994), fmt::format("If an object is passed to {} it must have exactly 2 fields: 'db' and "
                                                  "'coll'", op)};
      (e.name() == "db" ? out.db : out.collection) = e->as_string();
    }
  } else {
    return {location_code(op == "$out" ? 16990 : 51178),
            fmt::format("{} only supports a string or object argument, but found {}", op, type_text(v))};
  }
  MULTIFORA_TRY(check_database_name(out.db));
  return check_collection_name(out.collection);
}

class WriteStage : public PipelineStage {
 public:
  WriteStage(PipelineContext& context, Target target, OwnedDocument given)
      : PipelineStage(context), target_(std::move(target)), given_(std::move(given)) {}
  bool writes() const override { return true; }
  Result<std::optional<DocumentView>> next() override { return std::nullopt; }
  void append_to(ArrayBuilder& out) const override { out.append(given_.view()); }

  Status collect() override {
    spool_ = std::make_unique<DocumentSpool>(spill_options(name()));
    while (true) {
      MULTIFORA_TRY(poll());
      MULTIFORA_ASSIGN(const std::optional<DocumentView> d, source_->next());
      if (!d) return {};
      MULTIFORA_TRY(spool_->add(*d));
    }
  }

 protected:
  Status note(const Result<LogPosition>& position) {
    if (!position) return position.error();
    if (context().command != nullptr) context().command->note_write(*position);
    return {};
  }
  // The writer of a new batch.
  Status open_writer(const std::string& ns, std::unique_ptr<CollectionWriter>& writer,
                     std::optional<BatchBounds>& bounds) {
    MULTIFORA_ASSIGN(writer, context().store->write(ns, true, context().interrupt));
    writer->bypass_validation(context().bypass_validation);
    bounds.emplace(context().store->clock());
    return {};
  }

  Target target_;
  OwnedDocument given_;
  std::unique_ptr<DocumentSpool> spool_;
};

// ---------------------------------------------------------------- $out

// Fills a temporary collection with the target's options and indexes and renames it.
class OutStage final : public WriteStage {
 public:
  using WriteStage::WriteStage;
  std::string_view name() const override { return "$out"; }

  Status write() override {
    Store& store = *context().store;
    const auto existing = store.info(target_.ns());
    if (existing && existing->is_view)
      return {ErrorCode::kCommandNotSupportedOnView, fmt::format("Namespace {} is a view, not a collection", target_.ns())};
    if (existing && existing->capped)
      return {location_code(17152), fmt::format("namespace '{}' is capped so it can't be used for $out", target_.ns())};
    const std::string temporary =
        fmt::format("{}.tmp.agg_out.{}", target_.db, ObjectId::generate().to_hex());
    Status status = fill(store, temporary, existing.get());
    if (status.ok()) return note(store.rename_collection(temporary, target_.ns(), true));
    static_cast<void>(store.drop_collection(temporary));
    return status;
  }

 private:
  Status fill(Store& store, const std::string& temporary, const CollectionInfo* existing) {
    DocumentBuilder options;
    if (existing != nullptr) options.append_all(existing->options.view());
    options.append("temp", true);  // a crash leaves nothing behind; the rename makes it lasting
    const OwnedDocument made = std::move(options).finish();
    MULTIFORA_TRY(note(store.create_collection(temporary, made.view())));
    if (existing != nullptr) MULTIFORA_TRY(copy_indexes(store, temporary));
    MULTIFORA_ASSIGN(DocumentSpool::Reader reader, spool_->read());
    std::unique_ptr<CollectionWriter> writer;
    std::optional<BatchBounds> bounds;
    while (true) {
      MULTIFORA_TRY(poll());
      MULTIFORA_ASSIGN(const std::optional<DocumentView> d, reader.next());
      if (!d) break;
      if (!writer) MULTIFORA_TRY(open_writer(temporary, writer, bounds));
      Buffer with_id;
      MULTIFORA_ASSIGN(const DocumentView document, ensure_id(*d, with_id));
      MULTIFORA_ASSIGN([[maybe_unused]] const RecordId id, writer->insert(document));
      if (!bounds->full_after(*writer)) continue;
      MULTIFORA_TRY(note(writer->commit()));
      writer.reset();
    }
    return writer ? note(writer->commit()) : Status();
  }

  Status copy_indexes(Store& store, const std::string& temporary) {
    MULTIFORA_ASSIGN(const std::vector<OwnedDocument> specs, store.index_specs(target_.ns()));
    std::vector<DocumentView> wanted;
    for (const OwnedDocument& s : specs)
      if (s.view()["name"].type() != kString || s.view()["name"].as_string() != "_id_") wanted.push_back(s.view());
    if (wanted.empty()) return {};
    MULTIFORA_ASSIGN(const IndexBuildResult built, store.create_indexes(temporary, wanted, *context().interrupt));
    return note(built.position);
  }
};

Status parse_out(const StageRow& row, const ValueView& value, PipelineContext& context, StageList& out) {
  Target target;
  if (value.type() == kObject && !value.as_document()["timeseries"].missing())
    return {ErrorCode::kInvalidOptions, "$out to a time-series collection is not supported"};
  MULTIFORA_TRY(read_target("$out", value, context, target));
  DocumentBuilder given;
  given.append(row.name, value);
  out.push_back(std::make_unique<OutStage>(context, std::move(target), std::move(given).finish()));
  return {};
}

// ---------------------------------------------------------------- $merge

struct MergeSpec {
  std::vector<std::string> on;  // empty: _id
  enum class Matched { kReplace, kKeep, kMerge, kFail, kPipeline } matched = Matched::kMerge;
  enum class NotMatched { kInsert, kDiscard, kFail } not_matched = NotMatched::kInsert;
  std::unique_ptr<const Update> update;  // kPipeline
  std::vector<std::string> let_names;
  std::vector<ExpressionPtr> let_values;
  std::vector<int> slots;
};

class MergeStage final : public WriteStage {
 public:
  MergeStage(PipelineContext& context, Target target, OwnedDocument given, MergeSpec spec,
             std::unique_ptr<PipelineContext> sub)
      : WriteStage(context, std::move(target), std::move(given)), spec_(std::move(spec)), sub_(std::move(sub)) {}
  std::string_view name() const override { return "$merge"; }

  Status write() override {
    Store& store = *context().store;
    if (const auto info = store.info(target_.ns()); info && info->is_view)
      return {ErrorCode::kCommandNotSupportedOnView, fmt::format("Namespace {} is a view, not a collection", target_.ns())};
    refresh_sub_context(*sub_, context());
    MULTIFORA_ASSIGN(DocumentSpool::Reader reader, spool_->read());
    std::unique_ptr<CollectionWriter> writer;
    std::optional<BatchBounds> bounds;
    // The documents so far stay written where a later one fails, as in the server.
    while (true) {
      MULTIFORA_TRY(poll());
      MULTIFORA_ASSIGN(const std::optional<DocumentView> d, reader.next());
      if (!d) break;
      if (!writer) MULTIFORA_TRY(open_writer(target_.ns(), writer, bounds));
      Status status = merge(*writer, *d);
      while (status.code() == ErrorCode::kWriteConflict) {
        // A running transaction has written here: its end decides.
        MULTIFORA_TRY(note(writer->commit()));
        writer.reset();
        MULTIFORA_TRY(poll());
        store.wait_for_writers(kConflictWaitMs);
        MULTIFORA_ASSIGN(writer, store.write(target_.ns(), true, context().interrupt));
        status = merge(*writer, *d);
      }
      if (!status.ok()) {
        static_cast<void>(note(writer->commit()));
        return status;
      }
      if (!bounds->full_after(*writer)) continue;
      MULTIFORA_TRY(note(writer->commit()));
      writer.reset();
    }
    return writer ? note(writer->commit()) : Status();
  }

 private:
  Status merge(CollectionWriter& writer, DocumentView given) {
    Buffer with_id;
    DocumentView document = given;
    if (spec_.on.empty()) {
      MULTIFORA_ASSIGN(document, ensure_id(given, with_id));
    }
    MULTIFORA_TRY(check_on(document));
    MULTIFORA_ASSIGN(const RecordId found, find(writer, document));
    if (found == 0) return insert(writer, document);
    return update(writer, found, document);
  }

  Status check_on(DocumentView document) const {
    for (const std::string& field : spec_.on) {
      const ValueView v = value_at(document, field);
      if (v.is_nullish() || v.type() == kArray)
        return {location_code(51132), "$merge write error: 'on' field cannot be missing, null, undefined or an array"};
    }
    return {};
  }

  // The record of the target whose `on` fields are equal; 0: none.
  Result<RecordId> find(CollectionWriter& writer, DocumentView document) const {
    CollectionView& view = writer.view();
    if (spec_.on.empty()) return view.find_id(document["_id"]);
    const IndexRef* ref = unique_index(view);
    if (ref == nullptr)
      return fail_code(51183, "Cannot find index to verify that join fields will be unique");
    IndexKeySet keys;
    MULTIFORA_TRY_R(ref->index->extract(document, keys));
    if (keys.keys.empty()) return RecordId{0};
    return ref->index->find_conflict(keys, 0);
  }

  const IndexRef* unique_index(const CollectionView& view) const {
    for (const IndexRef& ref : view.indexes()) {
      const IndexSpec& spec = ref.index->spec();
      if (!spec.unique || ref.building || spec.partial_filter) continue;
      if (!collators_agree(spec.collator.get(), context().collator.get())) continue;
      std::size_t matched = 0;
      for (const Element& e : spec.key_pattern.view())
        for (const std::string& on : spec_.on) matched += e.name() == on ? 1 : 0;
      if (matched == spec_.on.size() && spec.key_pattern.view().count() == matched) return &ref;
    }
    return nullptr;
  }

  Status insert(CollectionWriter& writer, DocumentView document) {
    if (spec_.not_matched == MergeSpec::NotMatched::kDiscard) return {};
    if (spec_.not_matched == MergeSpec::NotMatched::kFail)
      return {location_code(13113), "$merge could not find a matching document in the target collection for at least one "
                                    "document in the source collection"};
    Buffer with_id;
    MULTIFORA_ASSIGN(const DocumentView complete, ensure_id(document, with_id));
    Result<RecordId> id = writer.insert(complete);
    return id ? Status() : std::move(id).error();
  }

  // The insert fails as MongoDB's does, with keyPattern and keyValue.
  Status fail_by_insert(CollectionWriter& writer, DocumentView document) {
    Buffer with_id;
    MULTIFORA_ASSIGN(const DocumentView complete, ensure_id(document, with_id));
    MULTIFORA_TRY(status_of(writer.insert(complete)));
    return {ErrorCode::kDuplicateKey, fmt::format("$merge failed: a document of the source matches one of {}",
                                                  target_.ns())};
  }

  Status update(CollectionWriter& writer, RecordId id, DocumentView document) {
    if (spec_.matched == MergeSpec::Matched::kKeep) return {};
    if (spec_.matched == MergeSpec::Matched::kFail) return fail_by_insert(writer, document);
    MULTIFORA_ASSIGN(const std::optional<DocumentView> stored, writer.view().find(id));
    if (!stored) return {};
    const OwnedDocument before(*stored);
    MULTIFORA_ASSIGN(const OwnedDocument after, changed(before.view(), document));
    if (after.bytes() == before.bytes()) return {};
    const ValueView old_id = before.view()["_id"];
    if (!identical_values(old_id, after.view()["_id"]))
      return {ErrorCode::kImmutableField, "$merge failed to update the matching document, did you attempt to modify the _id "
                                          "or the shard key? :: caused by :: the (immutable) field '_id' was found to have "
                                          "been altered"};
    MULTIFORA_TRY(check_document_size(after.bytes().size()));
    const bool replaces = spec_.matched == MergeSpec::Matched::kReplace;
    return writer.update(id, *stored, after.view(),
                         {.replacement = replaces, .assigned = {}});
  }

  Result<OwnedDocument> changed(DocumentView before, DocumentView document) {
    if (spec_.matched == MergeSpec::Matched::kPipeline) return run_pipeline(before, document);
    FieldList fields;
    fields.set("_id", before["_id"]);
    if (spec_.matched == MergeSpec::Matched::kMerge)
      for (const Element& e : before) fields.set(e.name(), e.value());
    for (const Element& e : document) fields.set(e.name(), e.value());
    return fields.document();
  }

  Result<OwnedDocument> run_pipeline(DocumentView before, DocumentView document) {
    EvalContext& outer = context().eval;
    outer.root = document;
    for (std::size_t i = 0; i < spec_.slots.size(); ++i) {
      MULTIFORA_ASSIGN_R(const Value v, spec_.let_values[i]->evaluate(outer));
      sub_->eval.set_variable(spec_.slots[i], v.own());
    }
    Buffer out;
    const UpdateInput input{.document = before, .cluster_time = outer.cluster_time, .now_ms = outer.now_ms};
    MULTIFORA_ASSIGN_R([[maybe_unused]] const bool differs, spec_.update->apply(input, sub_->eval, out));
    return OwnedDocument::assume_valid(std::move(out));
  }

  MergeSpec spec_;
  std::unique_ptr<PipelineContext> sub_;
};

Status read_on(const ValueView& v, MergeSpec& spec) {
  const auto add = [&](const ValueView& field) -> Status {
    if (field.type() != kString)
      return {location_code(51134), "$merge 'on' array elements must be strings"};
    MULTIFORA_TRY(check_field_path(field.as_string()));
    spec.on.emplace_back(field.as_string());
    return {};
  };
  if (v.type() == kString) {
    MULTIFORA_TRY(add(v));
  } else if (v.type() == kArray) {
    for (const Element& e : v.as_document()) MULTIFORA_TRY(add(e.value()));
    if (spec.on.empty()) return {location_code(51187), "If explicitly specifying $merge 'on', must include at least one field"};
  } else {
    return {location_code(51186), fmt::format("$merge 'on' field  must be either a string or an array of strings, but found {}",
                                              type_text(v))};
  }
  if (spec.on.size() == 1 && spec.on[0] == "_id") spec.on.clear();
  return {};
}

Status read_matched(const ValueView& v, MergeSpec& spec) {
  if (v.type() == kArray) {
    spec.matched = MergeSpec::Matched::kPipeline;
    return {};
  }
  static constexpr std::pair<std::string_view, MergeSpec::Matched> kModes[] = {
      {"replace", MergeSpec::Matched::kReplace}, {"keepExisting", MergeSpec::Matched::kKeep},
      {"merge", MergeSpec::Matched::kMerge},     {"fail", MergeSpec::Matched::kFail}};
  if (v.type() != kString)
    return {location_code(51191), fmt::format("$merge 'whenMatched' field  must be either a string or an array, but found {}",
                                              type_text(v))};
  for (const auto& [name, mode] : kModes) {
    if (name != v.as_string()) continue;
    spec.matched = mode;
    return {};
  }
  return {ErrorCode::kBadValue, fmt::format("Enumeration value '{}' for field 'whenMatched' is not a valid value.",
                                            v.as_string())};
}

Status read_not_matched(const ValueView& v, MergeSpec& spec) {
  static constexpr std::pair<std::string_view, MergeSpec::NotMatched> kModes[] = {
      {"insert", MergeSpec::NotMatched::kInsert},
      {"discard", MergeSpec::NotMatched::kDiscard},
      {"fail", MergeSpec::NotMatched::kFail}};
  for (const auto& [name, mode] : kModes) {
    if (v.type() != kString || name != v.as_string()) continue;
    spec.not_matched = mode;
    return {};
  }
  return {ErrorCode::kBadValue, fmt::format("Enumeration value for field '$merge.whenNotMatched' is not a valid value: {}",
                                            value_text(v))};
}

// The variables of whenMatched's pipeline: `let`, by default {new: "$$ROOT"}.
Status read_let(DocumentView let, PipelineContext& context, PipelineContext& sub, MergeSpec& spec) {
  const auto add = [&](std::string_view name, const ValueView& v) -> Status {
    MULTIFORA_ASSIGN(ExpressionPtr value, parse_expression(v, context.scope));
    MULTIFORA_ASSIGN(const int slot, sub.scope.define(name));
    spec.let_names.emplace_back(name);
    spec.let_values.push_back(std::move(value));
    spec.slots.push_back(slot);
    return {};
  };
  bool have_new = false;
  for (const Element& e : let) {
    MULTIFORA_TRY(add(e.name(), e.value()));
    have_new = have_new || e.name() == "new";
  }
  if (have_new) return {};
  const Value root = Value::string("$$ROOT");
  return add("new", root.view());
}

Status parse_merge(const StageRow& row, const ValueView& value, PipelineContext& context, StageList& out) {
  if (value.type() != kObject && value.type() != kString)
    return {location_code(51182), fmt::format("$merge requires a string or object argument, but found {}", type_text(value))};
  Target target;
  MergeSpec spec;
  ValueView matched;
  DocumentView let;
  ValueView into = value;
  if (value.type() == kObject) {
    into = ValueView();
    for (const Element& e : value.as_document()) {
      if (e.name() == "into") {
        into = e.value();
      } else if (e.name() == "on") {
        MULTIFORA_TRY(read_on(e.value(), spec));
      } else if (e.name() == "whenMatched") {
        matched = e.value();
        MULTIFORA_TRY(read_matched(matched, spec));
      } else if (e.name() == "whenNotMatched") {
        MULTIFORA_TRY(read_not_matched(e.value(), spec));
      } else if (e.name() == "let") {
        if (e.type() != kObject) return {ErrorCode::kTypeMismatch, "'$merge.let' must be an object"};
        let = e->as_document();
      } else {
        return {ErrorCode::kUnknownField, fmt::format("BSON field '$merge.{}' is an unknown field.", e.name())};
      }
    }
    if (into.missing()) return {location_code(40414), "BSON field '$merge.into' is missing but a required field"};
  }
  MULTIFORA_TRY(read_target("$merge", into, context, target));
  MULTIFORA_ASSIGN(auto sub, make_sub_context(context, target.collection));
  if (spec.matched == MergeSpec::Matched::kPipeline) {
    MULTIFORA_TRY(read_let(let, context, *sub, spec));
    UpdateOptions options;
    options.collator = context.collator.get();
    MULTIFORA_ASSIGN(spec.update, Update::compile(matched, options, sub->scope));
  } else if (!let.empty()) {
    return {location_code(51199), "Cannot use 'let' variables with 'whenMatched' other than a pipeline"};
  }
  DocumentBuilder given;
  given.append(row.name, value);
  out.push_back(std::make_unique<MergeStage>(context, std::move(target), std::move(given).finish(), std::move(spec),
                                             std::move(sub)));
  return {};
}

constexpr std::uint32_t kWriteFlags = kMustBeLast | kNotInFacet | kNotInSubPipeline;
constexpr StageRow kRows[] = {
    {"$merge", parse_merge, kWriteFlags},
    {"$out", parse_out, kWriteFlags},
};

}  // namespace

std::span<const StageRow> write_stages() { return kRows; }

}  // namespace multifora
