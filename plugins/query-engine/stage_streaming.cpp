// $match, $project, $addFields, $set, $unset, $skip, $limit, $count, $unwind, $replaceRoot,
// $replaceWith.
#include "plugins/query-engine/stage_streaming.h"

#include <fmt/format.h>

#include "core/base/limits.h"
#include "plugins/query-engine/document_edit.h"
#include "plugins/query-engine/numeric.h"

namespace multifora {

using enum BsonType;

Status check_document_size(std::size_t bytes) {
  if (bytes <= limits::kDocumentSizeMax + limits::kDocumentSizeSlack) return {};
  return {ErrorCode::kBSONObjectTooLarge,
          fmt::format("BSONObj size: {} is invalid. Size must be between 0 and {}", bytes,
                      limits::kDocumentSizeMax + limits::kDocumentSizeSlack)};
}

SpillOptions PipelineStage::spill_options(std::string_view stage) const {
  return {.directory = context_.store != nullptr ? context_.store->temp_directory() : std::string(),
          .memory_limit_bytes = context_.memory_limit_bytes,
          .allow_disk_use = context_.allow_disk_use,
          .stage = stage};
}

// ---------------------------------------------------------------- $match

Result<std::unique_ptr<MatchStage>> MatchStage::make(PipelineContext& context,
                                                     DocumentView filter) {
  MULTIFORA_ASSIGN_R(auto matcher, Matcher::compile(filter, {.collator = context.collator.get(),
                                                             .scope = &context.scope}));
  return std::make_unique<MatchStage>(context, std::move(matcher));
}

Result<std::optional<DocumentView>> MatchStage::next() {
  while (true) {
    MULTIFORA_TRY_R(poll());
    MULTIFORA_ASSIGN_R(const std::optional<DocumentView> d, source_->next());
    if (!d) return std::nullopt;
    MULTIFORA_ASSIGN_R(const bool matched, matcher_->matches(*d, &context().eval));
    if (matched) return d;
  }
}

void MatchStage::append_to(ArrayBuilder& out) const {
  out.object().append("$match", matcher_->filter());
}

PipelineStage::Needs MatchStage::add_dependencies(std::vector<std::string>& paths) const {
  return matcher_->add_dependencies(paths) ? Needs::kNext : Needs::kWhole;
}

namespace {

Status parse_match(const StageRow&, const ValueView& spec, PipelineContext& context,
                   StageList& out) {
  if (spec.type() != kObject)
    return {location_code(15959), "the match filter must be an expression in an object"};
  MULTIFORA_ASSIGN(auto stage, MatchStage::make(context, spec.as_document()));
  out.push_back(std::move(stage));
  return {};
}

}  // namespace

// ---------------------------------------------------------------- $skip, $limit, $count

Result<std::optional<DocumentView>> SkipStage::next() {
  for (; skipped_ < n_; ++skipped_) {
    MULTIFORA_TRY_R(poll());
    MULTIFORA_ASSIGN_R(const std::optional<DocumentView> d, source_->next());
    if (!d) return std::nullopt;
  }
  return source_->next();
}
void SkipStage::append_to(ArrayBuilder& out) const {
  out.object().append("$skip", n_);
}

Result<std::optional<DocumentView>> LimitStage::next() {
  if (given_ == n_) return std::nullopt;
  ++given_;
  return source_->next();
}
void LimitStage::append_to(ArrayBuilder& out) const {
  out.object().append("$limit", n_);
}

Result<std::optional<DocumentView>> CountStage::next() {
  if (done_) return std::nullopt;
  done_ = true;
  std::int64_t n = 0;
  while (true) {
    MULTIFORA_TRY_R(poll());
    MULTIFORA_ASSIGN_R(const std::optional<DocumentView> d, source_->next());
    if (!d) break;
    ++n;
  }
  if (n == 0) return std::nullopt;
  DocumentBuilder out;
  out.append(field_, int_or_long(n).view());
  result_ = std::move(out).finish();
  return result_.view();
}
void CountStage::append_to(ArrayBuilder& out) const {
  out.object().append("$count", field_);
}

namespace {

Result<std::int64_t> whole_argument(std::string_view name, const ValueView& spec, int type_code,
                                    int range_code, std::int64_t least) {
  std::int64_t n = 0;
  if (!spec.is_number() || !spec.exact_int64(&n))
    return fail_code(type_code,
                     fmt::format("invalid argument to {} stage: Expected a number in: {}: {}", name,
                                 name, value_text(spec)));
  if (n < least)
    return fail_code(range_code, least == 1
                                     ? "the limit must be positive"
                                     : fmt::format("invalid argument to {} stage: Expected a "
                                                   "non-negative number in: {}: {}",
                                                   name, name, n));
  return n;
}

Status parse_skip(const StageRow&, const ValueView& spec, PipelineContext& context,
                  StageList& out) {
  MULTIFORA_ASSIGN(const std::int64_t n, whole_argument("$skip", spec, 5107200, 5107200, 0));
  out.push_back(std::make_unique<SkipStage>(context, n));
  return {};
}

Status parse_limit(const StageRow&, const ValueView& spec, PipelineContext& context,
                   StageList& out) {
  if (std::int64_t n = 0; spec.is_number() && spec.exact_int64(&n) && n < 0)
    return {location_code(5107201),
            fmt::format("invalid argument to $limit stage: Expected a non-negative "
                        "number in: $limit: {}",
                        n)};
  MULTIFORA_ASSIGN(const std::int64_t n, whole_argument("$limit", spec, 5107201, 15958, 1));
  out.push_back(std::make_unique<LimitStage>(context, n));
  return {};
}

Status parse_count(const StageRow&, const ValueView& spec, PipelineContext& context,
                   StageList& out) {
  if (spec.type() != kString)
    return {location_code(40156), "the count field must be a non-empty string"};
  const std::string_view field = spec.as_string();
  if (field.empty()) return {location_code(40157), "the count field must be a non-empty string"};
  if (field[0] == '$') return {location_code(40158), "the count field cannot be a $-prefixed path"};
  if (field.find('\0') != std::string_view::npos)
    return {location_code(40159), "the count field cannot contain a null byte"};
  if (field.find('.') != std::string_view::npos)
    return {location_code(40160), "the count field cannot contain '.'"};
  out.push_back(std::make_unique<CountStage>(context, field));
  return {};
}

}  // namespace

// ---------------------------------------------------------------- $project and its kind

Result<std::optional<DocumentView>> ProjectStage::next() {
  MULTIFORA_ASSIGN_R(const std::optional<DocumentView> d, source_->next());
  if (!d) return std::nullopt;
  out_.clear();
  context().eval.root = *d;
  MULTIFORA_TRY_R(projection_->apply({.document = *d}, context().eval, out_));
  MULTIFORA_TRY_R(check_document_size(out_.size()));
  return DocumentView::assume_valid(Bytes(out_));
}

void ProjectStage::append_to(ArrayBuilder& out) const {
  DocumentBuilder self = out.object();
  if (name_ == "$unset") {
    ArrayBuilder fields = self.array(name_);
    for (const Element& e : spec_.view()) fields.append(e.name());
  } else {
    projection_->append_to(self, name_);
  }
}

PipelineStage::Needs ProjectStage::add_dependencies(std::vector<std::string>& paths) const {
  if (!projection_->add_dependencies(paths)) return Needs::kWhole;
  return projection_->is_inclusion() && name_ == "$project" ? Needs::kOnly : Needs::kNext;
}

bool ProjectStage::changed_fields(std::vector<std::string>& fields) const {
  if (name_ == "$project") return false;
  for (const Element& e : spec_.view()) fields.emplace_back(e.name().substr(0, e.name().find('.')));
  return true;
}

namespace {

Status add_projection(const StageRow& row, DocumentView spec, ProjectionKind kind,
                      PipelineContext& context, StageList& out) {
  Result<std::unique_ptr<const Projection>> projection = Projection::parse(
      spec, kind, nullptr, {.collator = context.collator.get(), .scope = &context.scope},
      context.scope);
  if (!projection)
    return std::move(projection)
        .error()
        .with_context(fmt::format("Invalid {} :: caused by :", row.name));
  out.push_back(std::make_unique<ProjectStage>(context, row.name, OwnedDocument(spec),
                                               std::move(*projection)));
  return {};
}

Status parse_project(const StageRow& row, const ValueView& spec, PipelineContext& context,
                     StageList& out) {
  if (spec.type() != kObject)
    return {location_code(15969), "$project specification must be an object"};
  if (spec.as_document().empty())
    return {location_code(51272),
            "Invalid $project :: caused by :: projection specification must have at least "
            "one field"};
  return add_projection(row, spec.as_document(), ProjectionKind::kProject, context, out);
}

Status parse_add_fields(const StageRow& row, const ValueView& spec, PipelineContext& context,
                        StageList& out) {
  if (spec.type() != kObject)
    return {location_code(40272), fmt::format("{} specification stage must be an object, got {}",
                                              row.name, type_text(spec))};
  return add_projection(row, spec.as_document(), ProjectionKind::kAddFields, context, out);
}

Status parse_unset(const StageRow& row, const ValueView& spec, PipelineContext& context,
                   StageList& out) {
  if (spec.type() != kString && spec.type() != kArray)
    return {location_code(31002), "$unset specification must be a string or an array"};
  DocumentBuilder exclusion;
  const auto add = [&](const ValueView& v) -> Status {
    if (v.type() != kString)
      return {location_code(31120),
              "$unset specification must be a string or an array containing only string "
              "values"};
    if (v.as_string().starts_with('$'))
      return {location_code(31121), "$unset field names must not start with '$'"};
    if (v.as_string().contains('\0'))  // no name of a document: it must not get into one
      return check_field_path(v.as_string()).with_context("Invalid $unset :: caused by :");
    exclusion.append(v.as_string(), false);
    return {};
  };
  if (spec.type() == kString) {
    MULTIFORA_TRY(add(spec));
  } else {
    if (spec.as_document().empty())
      return {location_code(31119),
              "$unset specification must be a string or an array with at least one field"};
    for (const Element& e : spec.as_document()) MULTIFORA_TRY(add(e.value()));
  }
  const OwnedDocument built = std::move(exclusion).finish();
  return add_projection(row, built.view(), ProjectionKind::kProject, context, out);
}

// ---------------------------------------------------------------- $unwind

class UnwindStage final : public PipelineStage {
 public:
  UnwindStage(PipelineContext& context, UnwindSpec spec)
      : PipelineStage(context), spec_(std::move(spec)) {}
  const UnwindSpec* unwind() const override { return &spec_; }

  Result<std::optional<DocumentView>> next() override {
    while (true) {
      MULTIFORA_TRY_R(poll());
      if (in_array_) {
        if (*at_ == 0) {
          in_array_ = false;
          continue;
        }
        DocumentView::Iterator it(at_);
        const ValueView element = it->value();
        at_ = element.data() + element.size_bytes();
        return build(element, position_++);
      }
      MULTIFORA_ASSIGN_R(const std::optional<DocumentView> d, source_->next());
      if (!d) return std::nullopt;
      document_ = *d;
      const ValueView v = find();
      if (v.type() == kArray && !v.as_document().empty()) {
        in_array_ = true;
        position_ = 0;
        at_ = v.data() + 4;
        continue;
      }
      if (v.type() == kArray || v.is_nullish()) {
        if (!spec_.preserve) continue;
        return build(v.type() == kArray ? ValueView() : v, -1);
      }
      return build(v, -1);
    }
  }
  std::string_view name() const override { return "$unwind"; }
  void append_to(ArrayBuilder& out) const override {
    DocumentBuilder self = out.object();
    DocumentBuilder spec = self.object("$unwind");
    spec.append("path", "$" + spec_.path);
    if (spec_.preserve) spec.append("preserveNullAndEmptyArrays", true);
    if (!spec_.index.empty()) spec.append("includeArrayIndex", spec_.index);
  }
  Needs add_dependencies(std::vector<std::string>& paths) const override {
    paths.push_back(spec_.path);
    return Needs::kNext;
  }

 private:
  // Arrays on the way are not entered.
  ValueView find() const {
    ValueView v = as_value(document_);
    for (std::size_t from = 0; from <= spec_.path.size();) {
      const std::size_t dot = std::min(spec_.path.find('.', from), spec_.path.size());
      if (v.type() != kObject) return {};
      v = v.as_document()[std::string_view(spec_.path).substr(from, dot - from)];
      from = dot + 1;
    }
    return v;
  }
  // The document with the element (missing: without the field) in the array's place.
  std::optional<DocumentView> build(const ValueView& element, std::int64_t position) {
    out_.clear();
    append_with_path(out_, document_, spec_.path, element);
    if (!spec_.index.empty()) {
      with_index_.clear();
      static constexpr char kNothing = 0;
      const Value number = Value::of(position);
      append_with_path(with_index_, DocumentView::assume_valid(Bytes(out_)), spec_.index,
                       position < 0 ? ValueView(kNull, &kNothing, 0) : number.view());
      return DocumentView::assume_valid(Bytes(with_index_));
    }
    return DocumentView::assume_valid(Bytes(out_));
  }
  UnwindSpec spec_;
  DocumentView document_;
  bool in_array_ = false;
  const char* at_ = nullptr;
  std::int64_t position_ = 0;
  Buffer out_, with_index_;
};

Status parse_unwind(const StageRow&, const ValueView& spec, PipelineContext& context,
                    StageList& out) {
  ValueView path;
  std::string_view index;
  bool preserve = false;
  if (spec.type() == kString) {
    path = spec;
  } else if (spec.type() == kObject) {
    for (const Element& e : spec.as_document()) {
      if (e.name() == "path") {
        if (e.type() != kString)
          return {location_code(28808),
                  fmt::format("expected a string as the path for $unwind stage, got {}",
                              type_text(e.value()))};
        path = e.value();
      } else if (e.name() == "preserveNullAndEmptyArrays") {
        if (e.type() != kBool)
          return {location_code(28809),
                  fmt::format("expected a boolean for the preserveNullAndEmptyArrays option "
                              "to $unwind stage, got {}",
                              type_text(e.value()))};
        preserve = e->as_bool();
      } else if (e.name() == "includeArrayIndex") {
        if (e.type() != kString || e->as_string().empty())
          return {location_code(28810),
                  "expected a non-empty string for the includeArrayIndex option to $unwind "
                  "stage"};
        index = e->as_string();
        if (index[0] == '$')
          return {location_code(28822),
                  fmt::format("includeArrayIndex option to $unwind stage should not be "
                              "prefixed with a '$': {}",
                              index)};
        MULTIFORA_TRY(check_field_path(index));
      } else {
        return {location_code(28811),
                fmt::format("unrecognized option to $unwind stage: {}", e.name())};
      }
    }
  } else {
    return {location_code(15981),
            fmt::format("expected either a string or an object as specification for $unwind "
                        "stage, got {}",
                        type_text(spec))};
  }
  if (path.missing() || path.as_string().empty())
    return {location_code(28812), "no path specified to $unwind stage"};
  if (path.as_string()[0] != '$')
    return {location_code(28818),
            fmt::format("path option to $unwind stage should be prefixed with a '$': {}",
                        path.as_string())};
  MULTIFORA_TRY(check_field_path(path.as_string().substr(1)));
  out.push_back(std::make_unique<UnwindStage>(
      context, UnwindSpec{std::string(path.as_string().substr(1)), preserve, std::string(index)}));
  return {};
}

// ---------------------------------------------------------------- $replaceRoot, $replaceWith

class ReplaceRootStage final : public PipelineStage {
 public:
  ReplaceRootStage(PipelineContext& context, ExpressionPtr expression)
      : PipelineStage(context), expression_(std::move(expression)) {}
  Result<std::optional<DocumentView>> next() override {
    MULTIFORA_ASSIGN_R(const std::optional<DocumentView> d, source_->next());
    if (!d) return std::nullopt;
    context().eval.root = *d;
    MULTIFORA_ASSIGN_R(value_, expression_->evaluate(context().eval));
    if (value_.type() != kObject)
      return fail_code(
          40228,
          fmt::format("'newRoot' expression  must evaluate to an object, but resulting value "
                      "was: {}. Type of resulting value: '{}'.",
                      value_text(value_.view()), type_text(value_.view())));
    MULTIFORA_TRY_R(check_document_size(value_.view().size_bytes()));
    return value_.view().as_document();
  }
  std::string_view name() const override { return "$replaceRoot"; }
  void append_to(ArrayBuilder& out) const override {
    DocumentBuilder self = out.object();
    DocumentBuilder spec = self.object("$replaceRoot");
    expression_->append_to(spec, "newRoot");
  }
  Needs add_dependencies(std::vector<std::string>& paths) const override {
    return expression_->add_dependencies(paths) ? Needs::kOnly : Needs::kWhole;
  }

 private:
  ExpressionPtr expression_;
  Value value_;
};

Status add_replace(const ValueView& root, PipelineContext& context, StageList& out) {
  MULTIFORA_ASSIGN(ExpressionPtr expression, parse_expression(root, context.scope));
  out.push_back(std::make_unique<ReplaceRootStage>(context, std::move(expression)));
  return {};
}

Status parse_replace_root(const StageRow&, const ValueView& spec, PipelineContext& context,
                          StageList& out) {
  if (spec.type() != kObject)
    return {location_code(40229),
            fmt::format("expected an object as specification for $replaceRoot stage, got {}",
                        type_text(spec))};
  ValueView root;
  for (const Element& e : spec.as_document()) {
    if (e.name() != "newRoot")
      return {ErrorCode::kUnknownField,
              fmt::format("BSON field '$replaceRoot.{}' is an unknown field.", e.name())};
    root = e.value();
  }
  if (root.missing())
    return {location_code(40414),
            "BSON field '$replaceRoot.newRoot' is missing but a required field"};
  return add_replace(root, context, out);
}

Status parse_replace_with(const StageRow&, const ValueView& spec, PipelineContext& context,
                          StageList& out) {
  return add_replace(spec, context, out);
}

// Passes everything on, and keeps the optimiser from looking over it: for whoever compares a pipeline with
// itself unoptimised.
class BarrierStage final : public PipelineStage {
 public:
  using PipelineStage::PipelineStage;
  Result<std::optional<DocumentView>> next() override { return source_->next(); }
  std::string_view name() const override { return "$_internalInhibitOptimization"; }
  void append_to(ArrayBuilder& out) const override { static_cast<void>(out.object().object(name())); }
};

Status parse_barrier(const StageRow& row, const ValueView& spec, PipelineContext& context, StageList& out) {
  if (spec.type() != kObject || !spec.as_document().empty())
    return {ErrorCode::kTypeMismatch, fmt::format("{} must take a nested empty object but found: {}", row.name,
                                                  value_text(spec))};
  out.push_back(std::make_unique<BarrierStage>(context));
  return {};
}

constexpr StageRow kRows[] = {
    {"$_internalInhibitOptimization", parse_barrier},
    {"$addFields", parse_add_fields},
    {"$count", parse_count},
    {"$limit", parse_limit},
    {"$match", parse_match},
    {"$project", parse_project},
    {"$replaceRoot", parse_replace_root},
    {"$replaceWith", parse_replace_with},
    {"$set", parse_add_fields},
    {"$skip", parse_skip},
    {"$unset", parse_unset},
    {"$unwind", parse_unwind},
};

}  // namespace

std::span<const StageRow> streaming_stages() {
  return kRows;
}

}  // namespace multifora
