// $lookup: by equality of fields, by a pipeline with variables, or both.
//
// For each document the foreign collection is asked through context.open_pipeline, which can use
// an index. Where the foreign side depends on nothing of the document, it is read once and kept.
// Where it has no index on the foreign field, it is read once into a hash table, if it fits memory.
#include <unordered_map>

#include <fmt/format.h>

#include "core/bson/compare.h"
#include "core/bson/path.h"
#include "plugins/query-engine/document_edit.h"
#include "plugins/query-engine/foreign_table.h"
#include "plugins/query-engine/stage.h"

namespace multifora {
namespace {

using enum BsonType;

struct LookupSpec {
  std::string from, local_field, foreign_field, as;
  bool have_fields = false, have_pipeline = false;
  std::vector<OwnedDocument> pipeline;
  std::vector<std::string> let_names;
  std::vector<ExpressionPtr> let_values;
};

class LookupStage final : public PipelineStage {
 public:
  LookupStage(PipelineContext& context, LookupSpec spec, std::unique_ptr<PipelineContext> sub,
              std::vector<int> slots)
      : PipelineStage(context),
        spec_(std::move(spec)),
        sub_(std::move(sub)),
        scope_(sub_->scope),
        slots_(std::move(slots)) {}

  Result<std::optional<DocumentView>> next() override {
    MULTIFORA_TRY_R(poll());
    if (unwind_) return next_unwound();
    MULTIFORA_ASSIGN_R(const std::optional<DocumentView> d, source_->next());
    if (!d) return std::nullopt;
    MULTIFORA_TRY_R(collect_matches(*d));
    return with_field(*d, as_value(DocumentView::assume_valid(Bytes(matched_)), kArray));
  }
  bool absorb(const PipelineStage& next) override {
    if (unwind_ || next.unwind() == nullptr || next.unwind()->path != spec_.as) return false;
    unwind_ = *next.unwind();
    return true;
  }
  Status detach() override { return running_ ? running_->detach() : Status(); }
  Status attach() override {
    refresh_sub_context(*sub_, context());
    return running_ ? running_->attach() : Status();
  }
  std::string_view name() const override { return "$lookup"; }
  void append_to(ArrayBuilder& out) const override {
    DocumentBuilder self = out.object();
    DocumentBuilder spec = self.object("$lookup");
    if (!spec_.from.empty()) spec.append("from", spec_.from);
    spec.append("as", spec_.as);
    if (spec_.have_fields) {
      spec.append("localField", spec_.local_field);
      spec.append("foreignField", spec_.foreign_field);
    }
    if (unwind_) {
      DocumentBuilder unwinding = spec.object("unwinding");
      unwinding.append("preserveNullAndEmptyArrays", unwind_->preserve);
      if (!unwind_->index.empty()) unwinding.append("includeArrayIndex", unwind_->index);
    }
    if (!spec_.have_pipeline) return;
    {
      DocumentBuilder let = spec.object("let");
      for (std::size_t i = 0; i < spec_.let_names.size(); ++i)
        spec_.let_values[i]->append_to(let, spec_.let_names[i]);
    }
    ArrayBuilder pipeline = spec.array("pipeline");
    for (const OwnedDocument& d : spec_.pipeline) pipeline.append(d.view());
  }
  Needs add_dependencies(std::vector<std::string>& paths) const override {
    if (spec_.have_fields) paths.push_back(spec_.local_field);
    bool all = true;
    for (const ExpressionPtr& e : spec_.let_values) all = e->add_dependencies(paths) && all;
    return all ? Needs::kNext : Needs::kWhole;
  }

 private:
  bool generates() const {
    return !spec_.pipeline.empty() && spec_.pipeline.front().view().first().name() == "$documents";
  }

  // The document with a value (missing: without one) in the field.
  Result<std::optional<DocumentView>> with_field(DocumentView document, const ValueView& value) {
    out_.clear();
    append_with_path(out_, document, spec_.as, value);
    MULTIFORA_TRY_R(check_document_size(out_.size()));
    return DocumentView::assume_valid(Bytes(out_));
  }

  // Does the foreign side come from memory, not from a pipeline of its own?
  bool from_memory() {
    if (!spec_.have_fields) return spec_.let_names.empty();
    return !spec_.have_pipeline && use_table();
  }

  Status collect_matches(DocumentView document) {
    matched_.clear();
    ArrayBuilder matched(&matched_);
    MULTIFORA_TRY(find(document, matched));
    matched.close();
    return {};
  }

  Status find(DocumentView document, ArrayBuilder& out) {
    if (from_memory()) {
      if (!spec_.have_fields) return append_cached(out);
      return table_->append_matches(local_values(document), out);
    }
    MULTIFORA_TRY(set_variables(document));
    if (!spec_.have_fields) return run(spec_.pipeline, out);
    const std::vector<Value> wanted = local_values(document);
    return wanted.empty() ? Status() : run(stages_for(wanted), out);
  }

  std::vector<OwnedDocument> stages_for(const std::vector<Value>& wanted) const {
    std::vector<OwnedDocument> stages = spec_.pipeline;
    DocumentBuilder match;
    const OwnedDocument filter = equality_filter(wanted);
    match.append("$match", filter.view());
    stages.insert(stages.begin() + (generates() ? 1 : 0), std::move(match).finish());
    return stages;
  }

  // ---- with an absorbed $unwind: one match at a time ----

  Result<std::optional<DocumentView>> next_unwound() {
    while (true) {
      MULTIFORA_TRY_R(poll());
      if (in_document_) {
        MULTIFORA_ASSIGN_R(const std::optional<DocumentView> match, next_match());
        if (match) return unwound(as_value(*match), position_++);
        in_document_ = false;
        running_.reset();
        if (position_ == 0 && unwind_->preserve) return unwound(ValueView(), -1);
      }
      MULTIFORA_ASSIGN_R(const std::optional<DocumentView> d, source_->next());
      if (!d) return std::nullopt;
      current_ = OwnedDocument(*d);  // it must outlast a detach in the middle
      in_document_ = true;
      position_ = 0;
      MULTIFORA_TRY_R(start_matches());
    }
  }

  Status start_matches() {
    matched_at_ = 0;
    matched_.clear();
    if (from_memory()) {
      MULTIFORA_TRY(collect_matches(current_.view()));
      matched_at_ = 4;
      return {};
    }
    MULTIFORA_TRY(set_variables(current_.view()));
    std::vector<OwnedDocument> stages = spec_.pipeline;
    if (spec_.have_fields) {
      const std::vector<Value> wanted = local_values(current_.view());
      if (wanted.empty()) return {};
      stages = stages_for(wanted);
    }
    MULTIFORA_ASSIGN(running_, open(stages));
    return {};
  }

  Result<std::optional<DocumentView>> next_match() {
    if (running_) return running_->next();
    if (matched_at_ == 0 || matched_[matched_at_] == 0) return std::nullopt;
    const DocumentView::Iterator it(matched_.data() + matched_at_);
    const ValueView v = it->value();
    matched_at_ = static_cast<std::size_t>(v.data() + v.size_bytes() - matched_.data());
    return v.as_document();
  }

  Result<std::optional<DocumentView>> unwound(const ValueView& match, std::int64_t position) {
    MULTIFORA_ASSIGN_R(const std::optional<DocumentView> d, with_field(current_.view(), match));
    if (unwind_->index.empty()) return d;
    static constexpr char kNothing = 0;
    const Value number = Value::of(position);
    with_index_.clear();
    append_with_path(with_index_, *d, unwind_->index,
                     position < 0 ? ValueView(kNull, &kNothing, 0) : number.view());
    return DocumentView::assume_valid(Bytes(with_index_));
  }

  Status set_variables(DocumentView document) {
    EvalContext& eval = context().eval;
    eval.root = document;
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      MULTIFORA_ASSIGN(const Value v, spec_.let_values[i]->evaluate(eval));
      sub_->eval.set_variable(slots_[i], v.own());
    }
    return {};
  }

  // The values to join on: arrays count by their elements, what is missing as null.
  std::vector<Value> local_values(DocumentView document) const {
    std::vector<Value> out;
    const FieldPath path(spec_.local_field);
    bool empty_array = false;
    visit_path(document, path, true, [&](const PathHit& hit) {
      if (hit.value.missing()) return true;
      if (hit.value.type() == kArray && !hit.array_element) {
        empty_array = empty_array || hit.value.as_document().empty();
        return true;  // its elements were visited
      }
      out.emplace_back(hit.value);
      return true;
    });
    if (out.empty() && !empty_array) out.push_back(Value::null());
    return out;
  }

  // {foreign: {$in: [...]}}; a regex must not match but equal.
  OwnedDocument equality_filter(const std::vector<Value>& wanted) const {
    bool regex = false;
    for (const Value& v : wanted) regex = regex || v.type() == kRegex;
    DocumentBuilder filter;
    if (regex) {
      ArrayBuilder any = filter.array("$or");
      for (const Value& v : wanted) {
        DocumentBuilder one = any.object();
        one.object(spec_.foreign_field).append("$eq", v.view());
      }
    } else {
      DocumentBuilder in = filter.object(spec_.foreign_field);
      if (wanted.size() == 1) {
        in.append("$eq", wanted[0].view());
      } else {
        ArrayBuilder values = in.array("$in");
        for (const Value& v : wanted) values.append(v.view());
      }
    }
    return std::move(filter).finish();
  }

  std::string foreign_ns() const {
    return spec_.from.empty() ? std::string() : context().db + "." + spec_.from;
  }

  Result<std::unique_ptr<Pipeline>> open(const std::vector<OwnedDocument>& stages) {
    sub_->scope = scope_;  // without the names that the last run defined
    if (generates()) return Pipeline::parse(views_of(stages), *sub_);
    return context().open_pipeline(*sub_, foreign_ns(), stages);
  }

  // Appends what the pipeline gives.
  Status run(const std::vector<OwnedDocument>& stages, ArrayBuilder& out) {
    MULTIFORA_ASSIGN(const auto pipeline, open(stages));
    while (true) {
      MULTIFORA_ASSIGN(const std::optional<DocumentView> d, pipeline->next());
      if (!d) return {};
      out.append(*d);
      if (!check_document_size(out.size_bytes()).ok())
        return {location_code(4568),
                fmt::format("Total size of documents in {} matching pipeline's $lookup stage "
                            "exceeds maximum document size",
                            spec_.from)};
    }
  }

  // A pipeline without variables gives the same each time.
  Status append_cached(ArrayBuilder& out) {
    if (!cache_) {
      ArrayBuilder all;
      MULTIFORA_TRY(run(spec_.pipeline, all));
      cache_ = std::move(all).finish();
    }
    for (const Element& e : cache_->view()) out.append(e.value());
    return {};
  }

  // Reads the foreign collection into a hash table where that pays.
  bool use_table() {
    if (table_tried_) return table_ != nullptr;
    table_tried_ = true;
    if (has_index()) return false;
    auto table = std::make_unique<ForeignTable>(spec_.foreign_field, context().collator.get(),
                                                context().memory_limit_bytes);
    Result<std::unique_ptr<Pipeline>> pipeline = open({});
    if (!pipeline) return false;
    while (true) {
      const Result<std::optional<DocumentView>> d = (*pipeline)->next();
      if (!d || !poll().ok()) return false;
      if (!*d) break;
      if (!table->add(**d)) return false;  // too large
    }
    table_ = std::move(table);
    return true;
  }

  bool has_index() const {
    if (context().store == nullptr) return false;
    const auto specs = context().store->index_specs(foreign_ns());
    if (!specs) return false;
    for (const OwnedDocument& spec : *specs) {
      const ValueView key = spec.view()["key"];
      if (key.type() == kObject && key.as_document().first().name() == spec_.foreign_field)
        return true;
    }
    return false;
  }

  LookupSpec spec_;
  std::unique_ptr<PipelineContext> sub_;
  VariableScope scope_;
  std::vector<int> slots_;
  std::optional<OwnedDocument> cache_;
  bool table_tried_ = false;
  std::unique_ptr<ForeignTable> table_;
  Buffer matched_, out_;
  std::optional<UnwindSpec> unwind_;
  OwnedDocument current_;
  bool in_document_ = false;
  std::int64_t position_ = 0;
  std::unique_ptr<Pipeline> running_;
  std::size_t matched_at_ = 0;  // in matched_; 0: nothing there
  Buffer with_index_;
};

Status read_let(const ValueView& v, PipelineContext& context, LookupSpec& spec) {
  if (v.type() != kObject)
    return {ErrorCode::kFailedToParse,
            fmt::format("$lookup argument 'let: {}' must be an object, is type {}", value_text(v),
                        type_text(v))};
  for (const Element& e : v.as_document()) {
    MULTIFORA_ASSIGN(ExpressionPtr value, parse_expression(e.value(), context.scope));
    spec.let_names.emplace_back(e.name());
    spec.let_values.push_back(std::move(value));
  }
  return {};
}

Status read_text(const Element& e, std::string& out) {
  if (e.type() != kString)
    return {ErrorCode::kFailedToParse,
            fmt::format("$lookup argument '{}: {}' must be a string, is type {}", e.name(),
                        value_text(e.value()), type_text(e.value()))};
  out = e->as_string();
  return {};
}

Status read_spec(DocumentView document, PipelineContext& context, LookupSpec& spec) {
  bool have_local = false;
  bool have_foreign = false;
  for (const Element& e : document) {
    if (e.name() == "from") {
      MULTIFORA_TRY(read_text(e, spec.from));
    } else if (e.name() == "as") {
      MULTIFORA_TRY(read_text(e, spec.as));
    } else if (e.name() == "localField") {
      have_local = true;
      MULTIFORA_TRY(read_text(e, spec.local_field));
    } else if (e.name() == "foreignField") {
      have_foreign = true;
      MULTIFORA_TRY(read_text(e, spec.foreign_field));
    } else if (e.name() == "let") {
      MULTIFORA_TRY(read_let(e.value(), context, spec));
    } else if (e.name() == "pipeline") {
      spec.have_pipeline = true;
      MULTIFORA_ASSIGN(spec.pipeline, stage_documents("$lookup", e.value()));
    } else {
      return {ErrorCode::kFailedToParse, fmt::format("unknown argument to $lookup: {}", e.name())};
    }
  }
  if (spec.as.empty()) return {ErrorCode::kFailedToParse, "must specify 'as' field for a $lookup"};
  MULTIFORA_TRY(check_field_path(spec.as));
  const bool documents =
      !spec.pipeline.empty() && spec.pipeline.front().view().first().name() == "$documents";
  if (spec.from.empty() && !documents)
    return {ErrorCode::kFailedToParse,
            "must specify 'pipeline' when 'from' is empty, and its first stage must be "
            "$documents"};
  if (have_local != have_foreign)
    return {ErrorCode::kFailedToParse,
            "$lookup requires both or neither of 'localField' and 'foreignField' to be "
            "specified"};
  spec.have_fields = have_local;
  if (!spec.have_fields && !spec.have_pipeline)
    return {ErrorCode::kFailedToParse,
            "$lookup requires either 'pipeline' or both 'localField' and 'foreignField' to "
            "be specified"};
  if (spec.have_fields) {
    MULTIFORA_TRY(check_field_path(spec.local_field));
    MULTIFORA_TRY(check_field_path(spec.foreign_field));
  }
  if (!spec.have_pipeline && !spec.let_names.empty())
    return {ErrorCode::kFailedToParse,
            "$lookup with a 'let' argument must also specify 'pipeline'"};
  return {};
}

Status parse_lookup(const StageRow&, const ValueView& value, PipelineContext& context,
                    StageList& out) {
  if (value.type() != kObject)
    return {ErrorCode::kFailedToParse,
            fmt::format("the $lookup stage specification must be an object, but found {}",
                        type_text(value))};
  LookupSpec spec;
  MULTIFORA_TRY(read_spec(value.as_document(), context, spec));
  MULTIFORA_TRY(forbid_stages(spec.pipeline, kNotInSubPipeline, 51047, "$lookup", context.host));
  MULTIFORA_ASSIGN(auto sub, make_sub_context(context, spec.from));
  std::vector<int> slots;
  for (const std::string& name : spec.let_names) {
    MULTIFORA_ASSIGN(const int slot, sub->scope.define(name));
    slots.push_back(slot);
  }
  // Parsed once now for its mistakes; each run parses it again with values to look for.
  MULTIFORA_TRY(check_pipeline(spec.pipeline, *sub));
  out.push_back(
      std::make_unique<LookupStage>(context, std::move(spec), std::move(sub), std::move(slots)));
  return {};
}

constexpr StageRow kRows[] = {{"$lookup", parse_lookup}};

}  // namespace

std::span<const StageRow> lookup_stages() {
  return kRows;
}

}  // namespace multifora
