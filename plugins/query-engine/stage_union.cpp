// $unionWith and $facet.
#include <fmt/format.h>

#include "plugins/query-engine/stage.h"

namespace multifora {
namespace {

using enum BsonType;

class UnionWithStage final : public PipelineStage {
 public:
  UnionWithStage(PipelineContext& context, std::string collection,
                 std::vector<OwnedDocument> stages, std::unique_ptr<PipelineContext> sub)
      : PipelineStage(context),
        collection_(std::move(collection)),
        stages_(std::move(stages)),
        sub_(std::move(sub)) {}

  Result<std::optional<DocumentView>> next() override {
    if (!second_) {
      MULTIFORA_ASSIGN_R(const std::optional<DocumentView> d, source_->next());
      if (d) return d;
      if (collection_.empty()) {
        MULTIFORA_ASSIGN_R(second_, Pipeline::parse(views_of(stages_), *sub_));
      } else {
        MULTIFORA_ASSIGN_R(
            second_, context().open_pipeline(*sub_, context().db + "." + collection_, stages_));
      }
    }
    return second_->next();
  }
  Status detach() override { return second_ ? second_->detach() : Status(); }
  Status attach() override {
    refresh_sub_context(*sub_, context());
    return second_ ? second_->attach() : Status();
  }
  std::string_view name() const override { return "$unionWith"; }
  void append_to(ArrayBuilder& out) const override {
    DocumentBuilder self = out.object();
    DocumentBuilder spec = self.object("$unionWith");
    if (!collection_.empty()) spec.append("coll", collection_);
    ArrayBuilder pipeline = spec.array("pipeline");
    for (const OwnedDocument& d : stages_) pipeline.append(d.view());
  }

 private:
  std::string collection_;
  std::vector<OwnedDocument> stages_;
  std::unique_ptr<PipelineContext> sub_;
  std::unique_ptr<Pipeline> second_;
};

Status parse_union_with(const StageRow&, const ValueView& value, PipelineContext& context,
                        StageList& out) {
  std::string collection;
  std::vector<OwnedDocument> stages;
  if (value.type() == kString) {
    collection = value.as_string();
  } else if (value.type() == kObject) {
    for (const Element& e : value.as_document()) {
      if (e.name() == "coll") {
        if (e.type() != kString)
          return {ErrorCode::kTypeMismatch,
                  fmt::format("BSON field '$unionWith.coll' is the wrong type '{}', expected "
                              "type 'string'",
                              type_text(e.value()))};
        collection = e->as_string();
      } else if (e.name() == "pipeline") {
        MULTIFORA_ASSIGN(stages, stage_documents("$unionWith", e.value()));
      } else {
        return {ErrorCode::kUnknownField,
                fmt::format("BSON field '$unionWith.{}' is an unknown field.", e.name())};
      }
    }
  } else {
    return {ErrorCode::kFailedToParse,
            fmt::format("the $unionWith stage specification must be an object or string, but "
                        "found {}",
                        type_text(value))};
  }
  const bool documents = !stages.empty() && stages.front().view().first().name() == "$documents";
  if (collection.empty() && !documents)
    return {ErrorCode::kFailedToParse,
            "$unionWith stage without explicit collection must have a pipeline with "
            "$documents as first stage"};
  MULTIFORA_TRY(forbid_stages(stages, kNotInSubPipeline, 31441, "$unionWith", context.host));
  MULTIFORA_ASSIGN(auto sub, make_sub_context(context, collection));
  MULTIFORA_TRY(check_pipeline(stages, *sub));
  out.push_back(std::make_unique<UnionWithStage>(context, std::move(collection), std::move(stages),
                                                 std::move(sub)));
  return {};
}

// ---------------------------------------------------------------- $facet

// Gives a spool's documents to one facet.
class SpoolSource final : public Stage {
 public:
  explicit SpoolSource(DocumentSpool::Reader reader) : reader_(std::move(reader)) {}
  Result<std::optional<DocumentView>> next() override { return reader_.next(); }
  std::string_view name() const override { return "$spool"; }
  void append_to(ArrayBuilder&) const override {}

 private:
  DocumentSpool::Reader reader_;
};

struct Facet {
  std::string name;
  std::vector<OwnedDocument> stages;
};

class FacetStage final : public PipelineStage {
 public:
  FacetStage(PipelineContext& context, std::vector<Facet> facets,
             std::unique_ptr<PipelineContext> sub)
      : PipelineStage(context), facets_(std::move(facets)), sub_(std::move(sub)) {}

  Result<std::optional<DocumentView>> next() override {
    if (done_) return std::nullopt;
    done_ = true;
    DocumentSpool spool(spill_options("$facet"));
    while (true) {
      MULTIFORA_TRY_R(poll());
      MULTIFORA_ASSIGN_R(const std::optional<DocumentView> d, source_->next());
      if (!d) break;
      MULTIFORA_TRY_R(spool.add(*d));
    }
    DocumentBuilder out(&out_);
    for (const Facet& f : facets_) {
      ArrayBuilder results = out.array(f.name);
      MULTIFORA_TRY_R(run(f, spool, results));
    }
    out.close();
    MULTIFORA_TRY_R(check_document_size(out_.size()));
    return DocumentView::assume_valid(Bytes(out_));
  }
  std::string_view name() const override { return "$facet"; }
  void append_to(ArrayBuilder& out) const override {
    DocumentBuilder self = out.object();
    DocumentBuilder spec = self.object("$facet");
    for (const Facet& f : facets_) {
      ArrayBuilder stages = spec.array(f.name);
      for (const OwnedDocument& d : f.stages) stages.append(d.view());
    }
  }

 private:
  Status run(const Facet& facet, DocumentSpool& spool, ArrayBuilder& out) {
    refresh_sub_context(*sub_, context());
    MULTIFORA_ASSIGN(const auto pipeline, Pipeline::parse(views_of(facet.stages), *sub_));
    MULTIFORA_ASSIGN(DocumentSpool::Reader reader, spool.read());
    pipeline->set_source(std::make_unique<SpoolSource>(std::move(reader)));
    while (true) {
      MULTIFORA_TRY(poll());
      MULTIFORA_ASSIGN(const std::optional<DocumentView> d, pipeline->next());
      if (!d) return {};
      if (out.size_bytes() + d->size_bytes() > context().memory_limit_bytes)
        return {location_code(4031700), "document constructed by $facet is too large"};
      out.append(*d);
    }
  }

  std::vector<Facet> facets_;
  std::unique_ptr<PipelineContext> sub_;
  bool done_ = false;
  Buffer out_;
};

Status parse_facet(const StageRow&, const ValueView& value, PipelineContext& context,
                   StageList& out) {
  if (value.type() != kObject || value.as_document().empty())
    return {location_code(40169), "the $facet specification must be a non-empty object"};
  std::vector<Facet> facets;
  MULTIFORA_ASSIGN(auto sub, make_sub_context(context, context.collection));
  for (const Element& e : value.as_document()) {
    MULTIFORA_TRY(check_field_name(e.name()));
    if (e.type() != kArray)
      return {location_code(40170), fmt::format("arguments to $facet must be arrays, {} is type {}",
                                                e.name(), type_text(e.value()))};
    Facet f{std::string(e.name()), {}};
    for (const Element& s : e->as_document()) {
      if (s.type() != kObject)
        return {location_code(40171),
                fmt::format("elements of arrays in $facet spec must be non-empty objects, {} "
                            "argument contained an element of type {}",
                            e.name(), type_text(s.value()))};
      f.stages.emplace_back(s->as_document());
    }
    if (f.stages.empty())
      return {ErrorCode::kBadValue,
              fmt::format("sub-pipeline in $facet stage cannot be empty: {}", e.name())};
    MULTIFORA_TRY(forbid_stages(f.stages, kNotInFacet, 40600, "a $facet stage",
                                context.host));
    MULTIFORA_TRY(check_pipeline(f.stages, *sub));
    facets.push_back(std::move(f));
  }
  out.push_back(std::make_unique<FacetStage>(context, std::move(facets), std::move(sub)));
  return {};
}

constexpr StageRow kRows[] = {
    {"$facet", parse_facet, kNotInFacet},
    {"$unionWith", parse_union_with},
};

}  // namespace

std::span<const StageRow> union_stages() {
  return kRows;
}

}  // namespace multifora
