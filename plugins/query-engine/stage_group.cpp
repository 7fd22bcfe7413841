// $group: a hash table from key to accumulators. Past the memory limit the table's partial states
// go to an external sorter under their keys' key strings; equal keys meet again when it is read.
#include <unordered_map>

#include <fmt/format.h>

#include "core/bson/key_string.h"
#include "plugins/query-engine/accumulator.h"
#include "plugins/query-engine/group_fields.h"
#include "plugins/query-engine/stage.h"
#include "plugins/query-engine/value_set.h"

namespace multifora {

using enum BsonType;

Status parse_group_field(const Element& e, VariableScope& scope, std::vector<GroupField>& out) {
  if (e.name().find('.') != std::string_view::npos)
    return {location_code(40235), fmt::format("The field name '{}' cannot contain '.'", e.name())};
  if (e.name().starts_with('$'))
    return {location_code(40236),
            fmt::format("The field name '{}' cannot be an operator name", e.name())};
  if (e.type() != kObject || e->as_document().empty() ||
      !e->as_document().first().name().starts_with('$'))
    return {location_code(40234),
            fmt::format("The field '{}' must be an accumulator object", e.name())};
  if (e->as_document().count() != 1)
    return {location_code(40238),
            fmt::format("The field '{}' must specify one accumulator", e.name())};
  const Element accumulator = e->as_document().first();
  MULTIFORA_ASSIGN(SpecPtr spec,
                   AccumulatorSpec::parse(accumulator.name(), accumulator.value(), scope));
  out.push_back({std::string(e.name()), std::move(spec)});
  return {};
}

Result<std::vector<AccumulatorPtr>> make_accumulators(const std::vector<GroupField>& fields,
                                                      const ValueView& key, EvalContext& eval) {
  const DocumentView root = eval.root;
  eval.root = key.type() == kObject ? key.as_document() : DocumentView();
  std::vector<AccumulatorPtr> out;
  Status status;
  for (const GroupField& f : fields) {
    Result<AccumulatorPtr> made = f.spec->make(eval);
    if (!made) {
      status = std::move(made).error();
      break;
    }
    out.push_back(std::move(*made));
  }
  eval.root = root;
  if (!status.ok()) return fail(std::move(status));
  return out;
}

namespace {

struct KeyHash {
  const Collator* collator;
  std::size_t operator()(const Value& v) const { return hash_value(v.view(), 0, collator); }
};
struct KeyEqual {
  const Collator* collator;
  bool operator()(const Value& a, const Value& b) const {
    return equal_values(a.view(), b.view(), collator);
  }
};

class GroupStage final : public PipelineStage {
 public:
  GroupStage(PipelineContext& context, ExpressionPtr key, std::vector<GroupField> fields)
      : PipelineStage(context), key_(std::move(key)), fields_(std::move(fields)) {}

  Result<std::optional<DocumentView>> next() override {
    if (!loaded_) {
      MULTIFORA_TRY_R(load());
      loaded_ = true;
    }
    if (sorter_) return next_merged();
    if (at_ == order_.size()) return std::nullopt;
    Table::value_type& group = *order_[at_++];
    MULTIFORA_TRY_R(build(group.first.view(), group.second));
    group.second.clear();
    return DocumentView::assume_valid(Bytes(out_));
  }
  std::string_view name() const override { return "$group"; }
  void append_to(ArrayBuilder& out) const override {
    DocumentBuilder self = out.object();
    DocumentBuilder spec = self.object("$group");
    key_->append_to(spec, "_id");
    for (const GroupField& f : fields_) f.spec->append_to(spec, f.name);
  }
  Needs add_dependencies(std::vector<std::string>& paths) const override {
    bool all = key_->add_dependencies(paths);
    for (const GroupField& f : fields_) all = f.spec->add_dependencies(paths) && all;
    return all ? Needs::kOnly : Needs::kWhole;
  }

 private:
  using Accumulators = std::vector<AccumulatorPtr>;
  using Table = std::unordered_map<Value, Accumulators, KeyHash, KeyEqual>;

  Status load() {
    const Collator* collator = context().collator.get();
    table_ = std::make_unique<Table>(64, KeyHash{collator}, KeyEqual{collator});
    const std::uint64_t limit =
        context().allow_disk_use ? context().memory_limit_bytes / 2 : context().memory_limit_bytes;
    while (true) {
      MULTIFORA_TRY(poll());
      MULTIFORA_ASSIGN(const std::optional<DocumentView> d, source_->next());
      if (!d) break;
      MULTIFORA_TRY(add(*d));
      if (bytes_ > limit) MULTIFORA_TRY(spill());
    }
    if (!sorter_) return {};
    MULTIFORA_TRY(spill());
    MULTIFORA_TRY(sorter_->finish());
    return advance();
  }

  Status add(DocumentView document) {
    EvalContext& eval = context().eval;
    eval.root = document;
    MULTIFORA_ASSIGN(Value key, key_->evaluate(eval));
    if (key.missing()) key = Value::null();
    auto it = table_->find(key);
    if (it == table_->end()) {
      MULTIFORA_ASSIGN(Accumulators made, make_accumulators(fields_, key.view(), eval));
      it = table_->emplace(key.own(), std::move(made)).first;
      order_.push_back(&*it);
      bytes_ += sizeof(*it) + 64 + key.view().size_bytes();
      for (const AccumulatorPtr& a : it->second) bytes_ += a->memory_bytes();
    }
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      MULTIFORA_ASSIGN(const Value input, fields_[i].spec->input(eval));
      Accumulator& accumulator = *it->second[i];
      const std::size_t before = accumulator.memory_bytes();
      MULTIFORA_TRY(accumulator.add(input));
      bytes_ += accumulator.memory_bytes() - before;
    }
    return {};
  }

  Status spill() {
    const SpillOptions options = spill_options("$group");
    if (!options.allow_disk_use) return spill_refused(options);
    if (!sorter_) {
      SpillOptions half = options;
      half.memory_limit_bytes /= 2;
      sorter_ = std::make_unique<ExternalSorter>(half, 0);
    }
    KeyStringBuilder key;
    for (Table::value_type* group : order_) {
      key.clear();
      key.append(group->first.view(), false, context().collator.get());
      DocumentBuilder out;
      out.append("k", group->first.view());
      ArrayBuilder states = out.array("s");
      for (const AccumulatorPtr& a : group->second) states.append(a->state().view());
      states.close();
      const OwnedDocument record = std::move(out).finish();
      MULTIFORA_TRY(sorter_->add(key.key(), record.view()));
    }
    order_.clear();
    table_->clear();
    bytes_ = 0;
    return {};
  }

  // The next partial group of the sorter, or none.
  Status advance() {
    MULTIFORA_ASSIGN(const auto item, sorter_->next());
    have_ = item.has_value();
    if (!have_) return {};
    head_key_ = item->key;
    head_ = OwnedDocument(item->document);
    return {};
  }

  Result<std::optional<DocumentView>> next_merged() {
    if (!have_) return std::nullopt;
    const std::string key_string = head_key_;
    const Value key = Value(head_.view()["k"]).own();
    MULTIFORA_ASSIGN_R(Accumulators merged, make_accumulators(fields_, key.view(), context().eval));
    while (have_ && head_key_ == key_string) {
      MULTIFORA_TRY_R(poll());
      std::size_t i = 0;
      for (const Element& state : head_.view()["s"].as_document())
        MULTIFORA_TRY_R(merged[i++]->merge(state.value()));
      MULTIFORA_TRY_R(advance());
    }
    MULTIFORA_TRY_R(build(key.view(), merged));
    return DocumentView::assume_valid(Bytes(out_));
  }

  Status build(const ValueView& key, const Accumulators& accumulators) {
    out_.clear();
    DocumentBuilder out(&out_);
    out.append("_id", key);
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      MULTIFORA_ASSIGN(const Value v, accumulators[i]->result());
      MULTIFORA_TRY(check_document_size(out.size_bytes() + v.view().size_bytes()));
      out.append(fields_[i].name, v.view());
    }
    out.close();
    return {};
  }

  ExpressionPtr key_;
  std::vector<GroupField> fields_;
  bool loaded_ = false;
  std::unique_ptr<Table> table_;
  std::vector<Table::value_type*> order_;  // by first appearance
  std::size_t at_ = 0;
  std::uint64_t bytes_ = 0;
  std::unique_ptr<ExternalSorter> sorter_;
  bool have_ = false;
  std::string head_key_;
  OwnedDocument head_;
  Buffer out_;
};

Status parse_group(const StageRow&, const ValueView& spec, PipelineContext& context,
                   StageList& out) {
  if (spec.type() != kObject)
    return {location_code(15947), "a group's fields must be specified in an object"};
  ExpressionPtr key;
  std::vector<GroupField> fields;
  for (const Element& e : spec.as_document()) {
    if (e.name() == "_id") {
      if (key) return {location_code(15948), "a group's _id may only be specified once"};
      MULTIFORA_ASSIGN(key, parse_expression(e.value(), context.scope));
    } else if (e.name() == "$doingMerge") {
      return {location_code(17030), "$doingMerge should be true if present"};
    } else {
      MULTIFORA_TRY(parse_group_field(e, context.scope, fields));
    }
  }
  if (!key) return {location_code(15955), "a group specification must include an _id"};
  out.push_back(std::make_unique<GroupStage>(context, std::move(key), std::move(fields)));
  return {};
}

constexpr StageRow kRows[] = {{"$group", parse_group}};

}  // namespace

std::span<const StageRow> group_stages() {
  return kRows;
}

}  // namespace multifora
