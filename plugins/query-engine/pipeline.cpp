#include "plugins/query-engine/pipeline.h"

#include <fmt/format.h>

#include "core/base/limits.h"
#include "core/plugin/command.h"
#include "plugins/query-engine/stage_streaming.h"

namespace multifora {

struct Pipeline::Impl {
  explicit Impl(PipelineContext& c) : context(c) {}
  PipelineContext& context;
  std::unique_ptr<Stage> source;
  StageList stages;
  bool written = false;

  Stage* last() const { return stages.empty() ? source.get() : stages.back().get(); }
  void chain() {
    Stage* before = source.get();
    for (const StagePtr& s : stages) {
      s->set_source(before);
      before = s.get();
    }
  }
};

Pipeline::Pipeline() = default;
Pipeline::~Pipeline() = default;

namespace {

Status check_positions(const StageList& stages) {
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const PipelineStage& s = *stages[i];
    if ((s.flags() & kMustBeFirst) != 0 && i != 0)
      return {location_code(40602),
              fmt::format("{} is only valid as the first stage in a pipeline", s.name())};
    if ((s.flags() & kMustBeLast) != 0 && i + 1 != stages.size())
      return {location_code(40601),
              fmt::format("{} can only be the final stage in the pipeline", s.name())};
  }
  return {};
}

Status check_collection(const StageList& stages, const PipelineContext& context) {
  if (!stages.empty() && (stages.front()->flags() & kAnyTarget) != 0) return {};
  const bool without = !stages.empty() && (stages.front()->flags() & kNoCollection) != 0;
  if (context.collection.empty() && !without)
    return {ErrorCode::kInvalidNamespace,
            fmt::format(
                "{{aggregate: 1}} is not valid for '{}'; a collection is required.",
                stages.empty() ? std::string_view("an empty pipeline") : stages.front()->name())};
  if (!context.collection.empty() && without)
    return {ErrorCode::kInvalidNamespace,
            fmt::format("{} must be run with {{aggregate: 1}}, not on a collection",
                        stages.front()->name())};
  return {};
}

}  // namespace

Status parse_stage(std::string_view name, const ValueView& spec, PipelineContext& context,
                   StageList& out) {
  const StageRow* row = find_stage(name, context.host);
  if (row == nullptr)
    return {location_code(40324), fmt::format("Unrecognized pipeline stage name: '{}'", name)};
  if ((row->flags & kNotInStrictApi) != 0 && context.command != nullptr &&
      context.command->api_strict)
    return {ErrorCode::kAPIStrictError,
            fmt::format("stage {} is not allowed with 'apiStrict: true' in API Version 1", name)};
  const std::size_t before = out.size();
  MULTIFORA_TRY(row->parse(*row, spec, context, out));
  for (std::size_t i = before; i < out.size(); ++i) out[i]->set_flags(out[i]->flags() | row->flags);
  return {};
}

Result<std::unique_ptr<Pipeline>> Pipeline::parse(const std::vector<DocumentView>& stages,
                                                  PipelineContext& context) {
  if (stages.size() > limits::kPipelineStagesMax)
    return fail_code(7749501, fmt::format("Pipeline length must be no longer than {} stages",
                                          limits::kPipelineStagesMax));
  auto pipeline = std::unique_ptr<Pipeline>(new Pipeline());
  pipeline->impl_ = std::make_unique<Impl>(context);
  context.eval.collator = context.collator.get();
  context.eval.interrupt = context.interrupt;
  StageList& list = pipeline->impl_->stages;
  for (const DocumentView d : stages) {
    if (d.count() != 1)
      return fail_code(40323,
                       "A pipeline stage specification object must contain exactly one field.");
    MULTIFORA_TRY_R(parse_stage(d.first().name(), d.first().value(), context, list));
  }
  MULTIFORA_TRY_R(check_positions(list));
  MULTIFORA_TRY_R(check_collection(list, context));
  for (std::size_t i = 0; i < list.size(); ++i)
    MULTIFORA_TRY_R(list[i]->check_followers(std::span(list).subspan(i + 1)));
  optimise(list);
  pipeline->impl_->chain();
  return pipeline;
}

// ---------------------------------------------------------------- the query layer's part

namespace {

// The paths that `stages` need of their input; false: the whole document.
bool needed_paths(const StageList& stages, std::vector<std::string>& paths) {
  for (const StagePtr& s : stages) {
    switch (s->add_dependencies(paths)) {
      case PipelineStage::Needs::kNext:
        break;
      case PipelineStage::Needs::kOnly:
        return true;
      case PipelineStage::Needs::kWhole:
        return false;
    }
  }
  return false;
}

template <class T>
T* front_as(const StageList& stages) {
  return stages.empty() ? nullptr : dynamic_cast<T*>(stages.front().get());
}

}  // namespace

Pipeline::QueryPart Pipeline::take_query_part() {
  QueryPart part;
  StageList& stages = impl_->stages;
  const auto drop_front = [&] { stages.erase(stages.begin()); };
  if (const auto* match = front_as<MatchStage>(stages)) {
    if (!match->matcher().needs_context()) {
      part.filter = OwnedDocument(match->matcher().filter());
      drop_front();
    } else {
      // $expr may use variables that only the pipeline knows: it stays.
      part.filter = pushable_filter(match->matcher().filter(), impl_->context);
    }
  }
  if (const auto* sort = front_as<SortStage>(stages)) {
    bool plain = true;
    for (const Element& e : sort->pattern().spec()) plain = plain && e->is_number();
    if (plain && sort->pattern().natural() == 0) {
      part.sort = OwnedDocument(sort->pattern().spec());
      if (sort->limit() > 0) {
        // A $skip that follows was counted into the sort's limit; it stays in the pipeline.
        part.limit = sort->limit();
      }
      drop_front();
    }
  }
  if (part.limit < 0) {
    if (const auto* skip = front_as<SkipStage>(stages)) {
      part.skip = skip->n();
      drop_front();
    }
    if (const auto* limit = front_as<LimitStage>(stages)) {
      part.limit = limit->n();
      drop_front();
    }
  }
  const bool counts = stages.size() == 1 && part.limit < 0 && part.skip == 0;
  if (const auto* count = counts ? front_as<CountStage>(stages) : nullptr) {
    part.count_field = count->field();
    part.sort = OwnedDocument();
    part.needs_whole_document = false;
    drop_front();
  } else {
    part.needs_whole_document = !needed_paths(stages, part.needed_paths);
    if (part.needs_whole_document) part.needed_paths.clear();
  }
  impl_->chain();
  return part;
}

bool Pipeline::needs_source() const {
  return impl_->stages.empty() || (impl_->stages.front()->flags() & kMakesDocuments) == 0;
}

void Pipeline::set_source(std::unique_ptr<Stage> source) {
  impl_->source = std::move(source);
  impl_->chain();
}

Result<std::optional<DocumentView>> Pipeline::next() {
  impl_->context.eval.interrupt = impl_->context.interrupt;
  if (!writes()) return impl_->last()->next();
  if (impl_->written) return std::nullopt;
  PipelineStage& writer = *impl_->stages.back();
  MULTIFORA_TRY_R(writer.collect());
  MULTIFORA_TRY_R(detach());  // writing takes locks of its own
  MULTIFORA_TRY_R(writer.write());
  impl_->written = true;
  return std::nullopt;
}

Status Pipeline::detach() {
  if (impl_->source) MULTIFORA_TRY(impl_->source->detach());
  for (const StagePtr& s : impl_->stages) MULTIFORA_TRY(s->detach());
  return {};
}

Status Pipeline::attach() {
  impl_->context.eval.interrupt = impl_->context.interrupt;
  if (impl_->source) MULTIFORA_TRY(impl_->source->attach());
  for (const StagePtr& s : impl_->stages) MULTIFORA_TRY(s->attach());
  return {};
}

bool Pipeline::writes() const {
  return !impl_->stages.empty() && impl_->stages.back()->writes();
}
bool Pipeline::empty() const {
  return impl_->stages.empty();
}

StreamSource* Pipeline::stream() const {
  return impl_->stages.empty() ? nullptr : impl_->stages.front()->stream();
}

void Pipeline::append_explain(ArrayBuilder& out) const {
  for (const StagePtr& s : impl_->stages) s->append_to(out);
}

// ---------------------------------------------------------------- pipelines inside stages

Result<std::unique_ptr<PipelineContext>> make_sub_context(const PipelineContext& outer,
                                                          std::string_view collection) {
  if (outer.depth >= limits::kSubPipelineDepthMax)
    return fail(ErrorCode::kMaxSubPipelineDepthExceeded,
                fmt::format("Maximum number of nested sub-pipelines exceeded. Limit is {}",
                            limits::kSubPipelineDepthMax));
  auto sub = std::make_unique<PipelineContext>(outer);
  sub->collection = collection;
  sub->depth = outer.depth + 1;
  return sub;
}

void refresh_sub_context(PipelineContext& sub, const PipelineContext& outer) {
  sub.interrupt = outer.interrupt;
  sub.command = outer.command;
  sub.eval.interrupt = outer.interrupt;
}

Result<std::vector<OwnedDocument>> stage_documents(std::string_view op, const ValueView& pipeline) {
  if (pipeline.type() != BsonType::kArray)
    return fail(ErrorCode::kTypeMismatch,
                fmt::format("{}: 'pipeline' option must be specified as an array, found {}", op,
                            type_text(pipeline)));
  std::vector<OwnedDocument> out;
  for (const Element& e : pipeline.as_document()) {
    if (e.type() != BsonType::kObject)
      return fail(ErrorCode::kTypeMismatch,
                  "Each element of the 'pipeline' array must be an object");
    out.emplace_back(e->as_document());
  }
  return out;
}

std::vector<DocumentView> views_of(const std::vector<OwnedDocument>& documents) {
  std::vector<DocumentView> out;
  for (const OwnedDocument& d : documents) out.push_back(d.view());
  return out;
}

Status check_pipeline(const std::vector<OwnedDocument>& stages, PipelineContext& sub) {
  // The names defined while parsing are of no use afterwards.
  PipelineContext probe = sub;
  if (probe.collection.empty() && !stages.empty() &&
      stages.front().view().first().name() != "$documents")
    probe.collection = "$";
  if (stages.empty()) return {};
  const Result<std::unique_ptr<Pipeline>> parsed = Pipeline::parse(views_of(stages), probe);
  return parsed ? Status() : parsed.error();
}

Status forbid_stages(const std::vector<OwnedDocument>& stages, std::uint32_t flag, int code,
                     std::string_view inside, const PluginHost* host) {
  for (const OwnedDocument& d : stages) {
    const StageRow* row = find_stage(d.view().first().name(), host);
    if (row != nullptr && (row->flags & flag) != 0)
      return {location_code(code),
              fmt::format("{} is not allowed to be used within {}", row->name, inside)};
  }
  return {};
}

}  // namespace multifora
