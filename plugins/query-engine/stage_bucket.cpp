// $bucket (a $group over a $switch) and $bucketAuto (sorts, then cuts).
#include <fmt/format.h>

#include "core/bson/compare.h"
#include "core/bson/key_string.h"
#include "plugins/query-engine/granularity.h"
#include "plugins/query-engine/group_fields.h"
#include "plugins/query-engine/numeric.h"
#include "plugins/query-engine/stage.h"

namespace multifora {
namespace {

using enum BsonType;

// ---------------------------------------------------------------- $bucket

struct BucketSpec {
  ValueView group_by, otherwise, output;
  std::vector<Value> boundaries;
  Value otherwise_value;
};

Result<Value> constant_of(const ValueView& spec, VariableScope& scope, int code,
                          std::string_view what) {
  MULTIFORA_ASSIGN_R(const ExpressionPtr parsed, parse_expression(spec, scope));
  if (parsed->constant() == nullptr)
    return fail_code(code,
                     fmt::format("The $bucket {} field must be an array of constant values", what));
  return *parsed->constant();
}

bool is_path_or_expression(const ValueView& v) {
  if (v.type() == kString) return v.as_string().starts_with('$');
  return v.type() == kObject && v.as_document().first().name().starts_with('$');
}

Status read_boundaries(const ValueView& v, VariableScope& scope, std::vector<Value>& out) {
  if (v.type() != kArray)
    return {location_code(40200),
            fmt::format("The $bucket 'boundaries' field must be an array, but found type: {}.",
                        type_text(v))};
  for (const Element& e : v.as_document()) {
    MULTIFORA_ASSIGN(Value boundary, constant_of(e.value(), scope, 40191, "'boundaries'"));
    out.push_back(std::move(boundary));
  }
  if (out.size() < 2)
    return {location_code(40192),
            fmt::format("The $bucket 'boundaries' field must have at least 2 values, but "
                        "found {} value(s).",
                        out.size())};
  return {};
}

Status check_boundaries(const BucketSpec& spec, const Collator* collator) {
  for (std::size_t i = 1; i < spec.boundaries.size(); ++i) {
    const ValueView a = spec.boundaries[i - 1].view();
    const ValueView b = spec.boundaries[i].view();
    if (canonical_type(a.type()) != canonical_type(b.type()))
      return {location_code(40193),
              fmt::format("All values in the 'boundaries' option to $bucket must have the "
                          "same type. Found conflicting types {} and {}.",
                          type_text(a), type_text(b))};
    if (compare_values(a, b, collator) >= 0)
      return {location_code(40194),
              fmt::format("The 'boundaries' option to $bucket must be sorted in ascending "
                          "order. Found values {} and {}.",
                          value_text(a), value_text(b))};
  }
  if (spec.otherwise_value.missing()) return {};
  const ValueView d = spec.otherwise_value.view();
  const bool below = compare_values(d, spec.boundaries.front().view(), collator) < 0;
  const bool above = compare_values(d, spec.boundaries.back().view(), collator) >= 0;
  if (!below && !above)
    return {location_code(40199),
            "The $bucket 'default' field must be less than the lowest boundary or greater than "
            "or equal to the highest boundary."};
  return {};
}

void append_const(DocumentBuilder& out, std::string_view name, const ValueView& v) {
  out.object(name).append("$literal", v);
}

// The branch of one bucket: {case: {$and: [{$gte: [by, low]}, {$lt: [by, high]}]}, then: low}
void append_branch(ArrayBuilder& branches, const ValueView& by, const ValueView& low,
                   const ValueView& high) {
  DocumentBuilder branch = branches.object();
  DocumentBuilder test = branch.object("case");
  ArrayBuilder both = test.array("$and");
  const auto append_bound = [&](std::string_view op, const ValueView& bound) {
    DocumentBuilder compare = both.object();
    ArrayBuilder args = compare.array(op);
    args.append(by);
    DocumentBuilder literal = args.object();
    literal.append("$literal", bound);
  };
  append_bound("$gte", low);
  append_bound("$lt", high);
  both.close();
  test.close();
  append_const(branch, "then", low);
}

OwnedDocument bucket_group(const BucketSpec& spec) {
  DocumentBuilder group;
  {
    DocumentBuilder id = group.object("_id");
    DocumentBuilder cases = id.object("$switch");
    {
      ArrayBuilder branches = cases.array("branches");
      for (std::size_t i = 1; i < spec.boundaries.size(); ++i)
        append_branch(branches, spec.group_by, spec.boundaries[i - 1].view(),
                      spec.boundaries[i].view());
    }
    if (!spec.otherwise_value.missing())
      append_const(cases, "default", spec.otherwise_value.view());
  }
  if (spec.output.missing())
    group.object("count").append("$sum", std::int32_t{1});
  else
    group.append_all(spec.output.as_document());
  return std::move(group).finish();
}

Status parse_bucket(const StageRow&, const ValueView& value, PipelineContext& context,
                    StageList& out) {
  if (value.type() != kObject)
    return {location_code(40201),
            fmt::format("Argument to $bucket stage must be an object, but found type: {}.",
                        type_text(value))};
  BucketSpec spec;
  bool have_boundaries = false;
  for (const Element& e : value.as_document()) {
    if (e.name() == "groupBy") {
      if (!is_path_or_expression(e.value()))
        return {location_code(40202),
                fmt::format("The $bucket 'groupBy' field must be defined as a $-prefixed path or "
                            "an expression, but found: {}.",
                            value_text(e.value()))};
      spec.group_by = e.value();
    } else if (e.name() == "boundaries") {
      have_boundaries = true;
      MULTIFORA_TRY(read_boundaries(e.value(), context.scope, spec.boundaries));
    } else if (e.name() == "default") {
      MULTIFORA_ASSIGN(spec.otherwise_value,
                       constant_of(e.value(), context.scope, 40195, "'default'"));
    } else if (e.name() == "output") {
      if (e.type() != kObject)
        return {location_code(40196),
                fmt::format("The $bucket 'output' field must be an object, but found type: {}.",
                            type_text(e.value()))};
      spec.output = e.value();
    } else {
      return {location_code(40197), fmt::format("Unrecognized option to $bucket: {}.", e.name())};
    }
  }
  if (spec.group_by.missing() || !have_boundaries)
    return {location_code(40198), "$bucket requires 'groupBy' and 'boundaries' to be specified."};
  MULTIFORA_TRY(check_boundaries(spec, context.collator.get()));
  const OwnedDocument group = bucket_group(spec);
  MULTIFORA_TRY(parse_stage("$group", as_value(group.view()), context, out));
  DocumentBuilder sort;
  sort.append("_id", std::int32_t{1});
  const OwnedDocument sort_spec = std::move(sort).finish();
  return parse_stage("$sort", as_value(sort_spec.view()), context, out);
}

// ---------------------------------------------------------------- $bucketAuto

class BucketAutoStage final : public PipelineStage {
 public:
  BucketAutoStage(PipelineContext& context, ExpressionPtr group_by, std::int32_t buckets,
                  std::optional<Granularity> granularity, std::vector<GroupField> fields)
      : PipelineStage(context),
        group_by_(std::move(group_by)),
        buckets_(buckets),
        granularity_(std::move(granularity)),
        fields_(std::move(fields)) {}

  Result<std::optional<DocumentView>> next() override {
    if (!sorter_) MULTIFORA_TRY_R(load());
    if (!have_) return std::nullopt;
    MULTIFORA_TRY_R(fill());
    return DocumentView::assume_valid(Bytes(out_));
  }
  std::string_view name() const override { return "$bucketAuto"; }
  void append_to(ArrayBuilder& out) const override {
    DocumentBuilder self = out.object();
    DocumentBuilder spec = self.object("$bucketAuto");
    group_by_->append_to(spec, "groupBy");
    spec.append("buckets", buckets_);
    DocumentBuilder output = spec.object("output");
    for (const GroupField& f : fields_) f.spec->append_to(output, f.name);
  }
  Needs add_dependencies(std::vector<std::string>& paths) const override {
    bool all = group_by_->add_dependencies(paths);
    for (const GroupField& f : fields_) all = f.spec->add_dependencies(paths) && all;
    return all ? Needs::kOnly : Needs::kWhole;
  }

 private:
  Status load() {
    sorter_ = std::make_unique<ExternalSorter>(spill_options("$bucketAuto"), 0);
    KeyStringBuilder key;
    while (true) {
      MULTIFORA_TRY(poll());
      MULTIFORA_ASSIGN(const std::optional<DocumentView> d, source_->next());
      if (!d) break;
      context().eval.root = *d;
      MULTIFORA_ASSIGN(Value v, group_by_->evaluate(context().eval));
      if (v.missing()) v = Value::null();
      if (granularity_) MULTIFORA_TRY(granularity_->check(v.view()));
      key.clear();
      key.append(v.view(), false, context().collator.get());
      DocumentBuilder record;
      record.append("v", v.view());
      record.append("d", *d);
      const OwnedDocument built = std::move(record).finish();
      MULTIFORA_TRY(sorter_->add(key.key(), built.view()));
      ++count_;
    }
    MULTIFORA_TRY(sorter_->finish());
    const double share = static_cast<double>(count_) / buckets_;
    bucket_size_ = std::max<std::int64_t>(1, static_cast<std::int64_t>(share + 0.5));
    return advance();
  }

  Status advance() {
    MULTIFORA_ASSIGN(const auto item, sorter_->next());
    have_ = item.has_value();
    if (have_) head_ = OwnedDocument(item->document);
    return {};
  }

  Status take(std::vector<AccumulatorPtr>& accumulators, Value& last) {
    MULTIFORA_TRY(poll());
    last = Value(head_.view()["v"]).own();
    EvalContext& eval = context().eval;
    eval.root = head_.view()["d"].as_document();
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      MULTIFORA_ASSIGN(const Value input, fields_[i].spec->input(eval));
      MULTIFORA_TRY(accumulators[i]->add(input));
    }
    return advance();
  }

  Status fill() {
    const Collator* collator = context().collator.get();
    MULTIFORA_ASSIGN(std::vector<AccumulatorPtr> accumulators,
                     make_accumulators(fields_, ValueView(), context().eval));
    ++bucket_;
    Value min = previous_max_;
    if (min.missing()) {
      min = Value(head_.view()["v"]).own();
      if (granularity_) min = granularity_->round_down(min.view());
    }
    Value max;
    std::int64_t n = 0;
    while (have_ && (n < bucket_size_ || bucket_ == buckets_)) {
      MULTIFORA_TRY(take(accumulators, max));
      ++n;
    }
    if (granularity_) {
      max = granularity_->round_up(max.view());
      while (have_ && compare_values(head_.view()["v"], max.view(), collator) < 0) {
        Value ignored;
        MULTIFORA_TRY(take(accumulators, ignored));
      }
    } else {
      while (have_ && equal_values(head_.view()["v"], max.view(), collator))
        MULTIFORA_TRY(take(accumulators, max));
      if (have_)
        max = Value(head_.view()["v"]).own();  // the next bucket's least is this one's bound
    }
    previous_max_ = max;
    return build(min.view(), max.view(), accumulators);
  }

  Status build(const ValueView& min, const ValueView& max,
               const std::vector<AccumulatorPtr>& accumulators) {
    out_.clear();
    DocumentBuilder out(&out_);
    {
      DocumentBuilder id = out.object("_id");
      id.append("min", min);
      id.append("max", max);
    }
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      MULTIFORA_ASSIGN(const Value v, accumulators[i]->result());
      MULTIFORA_TRY(check_document_size(out.size_bytes() + v.view().size_bytes()));
      out.append(fields_[i].name, v.view());
    }
    out.close();
    return {};
  }

  ExpressionPtr group_by_;
  std::int32_t buckets_;
  std::optional<Granularity> granularity_;
  std::vector<GroupField> fields_;
  std::unique_ptr<ExternalSorter> sorter_;
  std::int64_t count_ = 0, bucket_size_ = 1;
  std::int32_t bucket_ = 0;
  bool have_ = false;
  OwnedDocument head_;
  Value previous_max_;
  Buffer out_;
};

Status parse_bucket_auto(const StageRow&, const ValueView& value, PipelineContext& context,
                         StageList& out) {
  if (value.type() != kObject)
    return {location_code(40240),
            fmt::format("The argument to $bucketAuto must be an object, but found type: {}.",
                        type_text(value))};
  ExpressionPtr group_by;
  std::int32_t buckets = 0;
  std::optional<Granularity> granularity;
  std::vector<GroupField> fields;
  bool have_output = false;
  for (const Element& e : value.as_document()) {
    if (e.name() == "groupBy") {
      if (!is_path_or_expression(e.value()))
        return {location_code(40239),
                fmt::format("The $bucketAuto 'groupBy' field must be defined as a $-prefixed "
                            "path or an expression object, but found: {}",
                            value_text(e.value()))};
      MULTIFORA_ASSIGN(group_by, parse_expression(e.value(), context.scope));
    } else if (e.name() == "buckets") {
      if (!e->is_number())
        return {location_code(40241),
                fmt::format("The $bucketAuto 'buckets' field must be a numeric value, but found "
                            "type: {}",
                            type_text(e.value()))};
      if (!exact_int32(e.value(), &buckets))
        return {location_code(40242),
                fmt::format("The $bucketAuto 'buckets' field must be representable as a 32-bit "
                            "integer, but found {}",
                            value_text(e.value()))};
      if (buckets <= 0)
        return {location_code(40243),
                fmt::format("The $bucketAuto 'buckets' field must be greater than 0, but found: "
                            "{}",
                            buckets)};
    } else if (e.name() == "output") {
      if (e.type() != kObject)
        return {location_code(40244),
                fmt::format("The $bucketAuto 'output' field must be an object, but found type: "
                            "{}",
                            type_text(e.value()))};
      have_output = true;
      for (const Element& f : e->as_document())
        MULTIFORA_TRY(parse_group_field(f, context.scope, fields));
    } else if (e.name() == "granularity") {
      if (e.type() != kString)
        return {location_code(40261),
                fmt::format("The $bucketAuto 'granularity' field must be a string, but found "
                            "type: {}",
                            type_text(e.value()))};
      MULTIFORA_ASSIGN(granularity, Granularity::find(e->as_string()));
    } else {
      return {location_code(40245),
              fmt::format("Unrecognized option to $bucketAuto: {}.", e.name())};
    }
  }
  if (!group_by || buckets == 0)
    return {location_code(40246), "$bucketAuto requires 'groupBy' and 'buckets' to be specified."};
  if (!have_output) {
    DocumentBuilder count;
    count.object("count").append("$sum", std::int32_t{1});
    const OwnedDocument built = std::move(count).finish();
    MULTIFORA_TRY(parse_group_field(built.view().first(), context.scope, fields));
  }
  out.push_back(std::make_unique<BucketAutoStage>(context, std::move(group_by), buckets,
                                                  std::move(granularity), std::move(fields)));
  return {};
}

constexpr StageRow kRows[] = {
    {"$bucket", parse_bucket},
    {"$bucketAuto", parse_bucket_auto},
};

}  // namespace

std::span<const StageRow> bucket_stages() {
  return kRows;
}

}  // namespace multifora
