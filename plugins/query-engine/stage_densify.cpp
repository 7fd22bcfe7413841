// $densify: documents for the values of a field that are missing, partition by partition.
#include <cmath>

#include <fmt/format.h>

#include "core/bson/compare.h"
#include "core/bson/key_string.h"
#include "core/bson/path.h"
#include "plugins/query-engine/datetime.h"
#include "plugins/query-engine/document_edit.h"
#include "plugins/query-engine/numeric.h"
#include "plugins/query-engine/stage.h"

namespace multifora {
namespace {

using enum BsonType;

struct DensifySpec {
  std::string field;
  std::vector<std::string> partition;
  Value step;
  std::optional<DateUnit> unit;
  enum class Bounds { kFull, kPartition, kExplicit } bounds = Bounds::kFull;
  Value low, high;
};

// Values of the field are numbers, or dates where there is a unit.
class DensifyStage final : public PipelineStage {
 public:
  DensifyStage(PipelineContext& context, DensifySpec spec, OwnedDocument given)
      : PipelineStage(context), spec_(std::move(spec)), given_(std::move(given)) {}

  Result<std::optional<DocumentView>> next() override {
    if (!sorter_) MULTIFORA_TRY_R(load());
    while (true) {
      MULTIFORA_TRY_R(poll());
      if (generating_) {
        MULTIFORA_ASSIGN_R(const bool made, generate());
        if (made) return DocumentView::assume_valid(Bytes(out_));
        generating_ = false;
      }
      if (give_head_) {
        give_head_ = false;
        out_ = head_.bytes();
        MULTIFORA_TRY_R(advance());
        return DocumentView::assume_valid(Bytes(out_));
      }
      if (!have_ && (done_ || !in_partition_)) return std::nullopt;
      MULTIFORA_TRY_R(prepare());
    }
  }
  std::string_view name() const override { return "$densify"; }
  void append_to(ArrayBuilder& out) const override {
    out.object().append("$densify", given_.view());
  }

 private:
  Status load() {
    sorter_ = std::make_unique<ExternalSorter>(spill_options("$densify"), 0);
    KeyStringBuilder key;
    while (true) {
      MULTIFORA_TRY(poll());
      MULTIFORA_ASSIGN(const std::optional<DocumentView> d, source_->next());
      if (!d) break;
      const ValueView v = value_at(*d, spec_.field);
      if (!v.is_nullish()) {
        MULTIFORA_TRY(check(v));
        if (least_.missing() || compare_values(v, least_.view()) < 0) least_ = Value(v).own();
        if (most_.missing() || compare_values(v, most_.view()) > 0) most_ = Value(v).own();
      }
      key.clear();
      MULTIFORA_TRY(append_partition(*d, key));
      const std::size_t split = key.key().size();
      key.append(v);
      DocumentBuilder record;
      record.append("p", static_cast<std::int32_t>(split));
      record.append("d", *d);
      const OwnedDocument built = std::move(record).finish();
      MULTIFORA_TRY(sorter_->add(key.key(), built.view()));
    }
    MULTIFORA_TRY(sorter_->finish());
    if (spec_.bounds == DensifySpec::Bounds::kExplicit && spec_.partition.empty()) {
      start_partition("", DocumentView());  // even where there are no documents
    }
    return advance();
  }

  Status check(const ValueView& v) const {
    if (spec_.unit ? v.type() != kDate : !v.is_number())
      return {location_code(spec_.unit ? 6053600 : 5733201),
              fmt::format("Densify field type must be {}, found: {}",
                          spec_.unit ? "date" : "numeric", type_text(v))};
    return {};
  }

  Status append_partition(DocumentView d, KeyStringBuilder& key) const {
    for (const std::string& p : spec_.partition) {
      const ValueView v = value_at(d, p);
      static constexpr char kNothing = 0;
      key.append(v.missing() ? ValueView(kNull, &kNothing, 0) : v, false, context().collator.get());
    }
    return {};
  }

  Status advance() {
    MULTIFORA_ASSIGN(const auto item, sorter_->next());
    have_ = item.has_value();
    if (!have_) return {};
    head_partition_ = item->key.substr(0, static_cast<std::size_t>(item->document["p"].as_int32()));
    head_ = OwnedDocument(item->document["d"].as_document());
    return {};
  }

  void start_partition(std::string key, DocumentView example) {
    in_partition_ = true;
    partition_key_ = std::move(key);
    partition_example_ = OwnedDocument(example);
    position_ = spec_.bounds == DensifySpec::Bounds::kExplicit ? spec_.low
                : spec_.bounds == DensifySpec::Bounds::kFull   ? least_
                                                               : Value();
  }

  // Decides what comes before the head, or after a partition's last document.
  Status prepare() {
    if (in_partition_ && (!have_ || head_partition_ != partition_key_)) {
      in_partition_ = false;
      if (!have_) done_ = true;
      if (spec_.bounds == DensifySpec::Bounds::kPartition || position_.missing()) return {};
      until_ = spec_.bounds == DensifySpec::Bounds::kFull ? most_ : spec_.high;
      inclusive_ = spec_.bounds == DensifySpec::Bounds::kFull;
      generating_ = !until_.missing();
      return {};
    }
    if (!in_partition_) {
      start_partition(head_partition_, head_.view());
      return {};
    }
    const ValueView v = value_at(head_.view(), spec_.field);
    give_head_ = true;
    if (v.is_nullish()) return {};
    if (position_.missing()) {  // the partition's first value
      position_ = Value(v).own();
      return step_past(v);
    }
    const int order = compare_values(v, position_.view());
    if (order > 0) {
      until_ = Value(v).own();
      if (spec_.bounds == DensifySpec::Bounds::kExplicit &&
          compare_values(v, spec_.high.view()) > 0)
        until_ = spec_.high;
      inclusive_ = false;
      generating_ = true;
      give_head_ = false;  // after what is generated
      if (compare_values(position_.view(), until_.view()) >= 0) {
        generating_ = false;
        give_head_ = true;
      }
      return {};
    }
    return step_past(v);
  }

  // Moves the position behind a value that is there.
  Status step_past(const ValueView& v) {
    if (compare_values(v, position_.view()) == 0) return step();
    return {};
  }

  Status step() {
    if (spec_.unit) {
      const std::optional<std::int64_t> moved =
          date_add(position_.view().as_date_ms(), *spec_.unit, spec_.step.view().number_as_int64(),
                   *TimeZone::utc());
      if (!moved) return {location_code(5166406), "$densify overflowed"};
      position_ = Value::date_ms(*moved);
      return {};
    }
    position_ = add_numbers(position_.view(), spec_.step.view());
    return {};
  }

  // A document at the position, where it lies before the end.
  Result<bool> generate() {
    const int order = compare_values(position_.view(), until_.view());
    if (order > 0 || (order == 0 && !inclusive_)) return false;
    if (++generated_ > kGeneratedMax)
      return fail_code(
          5897900, fmt::format("Generated {} documents in $densify, which is over the limit of {}",
                               generated_, kGeneratedMax));
    out_.clear();
    { DocumentBuilder empty(&out_); }
    for (const std::string& p : spec_.partition) set(p, value_at(partition_example_.view(), p));
    set(spec_.field, position_.view());
    MULTIFORA_TRY_R(step());
    return true;
  }

  void set(std::string_view path, const ValueView& v) {
    Buffer next;
    append_with_path(next, DocumentView::assume_valid(Bytes(out_)), path, v);
    out_ = std::move(next);
  }

  static constexpr std::int64_t kGeneratedMax = 500'000;
  DensifySpec spec_;
  OwnedDocument given_;
  std::unique_ptr<ExternalSorter> sorter_;
  Value least_, most_;
  bool have_ = false, in_partition_ = false, done_ = false;
  std::string head_partition_;
  OwnedDocument head_;
  bool give_head_ = false;
  std::string partition_key_;
  OwnedDocument partition_example_;
  Value position_;  // the next value that may be generated
  Value until_;
  bool inclusive_ = false, generating_ = false;
  std::int64_t generated_ = 0;
  Buffer out_;
};

Status read_range(DocumentView range, DensifySpec& spec) {
  ValueView bounds;
  for (const Element& e : range) {
    if (e.name() == "step") {
      if (!e->is_number() || compare_values(e.value(), Value::of(std::int32_t{0}).view()) <= 0)
        return {
            location_code(5733401),
            "the step parameter in a range statement must be a strictly positive numeric value"};
      spec.step = Value(e.value()).own();
    } else if (e.name() == "unit") {
      if (e.type() == kString) spec.unit = parse_date_unit(e->as_string());
      if (!spec.unit)
        return {ErrorCode::kFailedToParse,
                "the unit parameter in a range statement must be a time unit"};
    } else if (e.name() == "bounds") {
      bounds = e.value();
    } else {
      return {ErrorCode::kUnknownField,
              fmt::format("BSON field '$densify.range.{}' is an unknown field.", e.name())};
    }
  }
  if (spec.step.missing() || bounds.missing())
    return {location_code(40414), "$densify's range needs 'step' and 'bounds'"};
  std::int64_t whole = 0;
  if (spec.unit && !spec.step.view().exact_int64(&whole))
    return {location_code(6586400),
            "the step parameter in a range statement must be a whole number when densifying a date "
            "range"};
  if (bounds.type() == kString) {
    if (bounds.as_string() != "full" && bounds.as_string() != "partition")
      return {location_code(5946802), "Bounds string must either be 'full' or 'partition'"};
    spec.bounds =
        bounds.as_string() == "full" ? DensifySpec::Bounds::kFull : DensifySpec::Bounds::kPartition;
    return {};
  }
  if (bounds.type() != kArray || bounds.as_document().count() != 2)
    return {location_code(5733403),
            "a bounding array in a range statement must have exactly two elements"};
  auto it = bounds.as_document().begin();
  spec.bounds = DensifySpec::Bounds::kExplicit;
  spec.low = Value(it->value()).own();
  spec.high = Value((++it)->value()).own();
  const bool good = spec.unit ? spec.low.type() == kDate && spec.high.type() == kDate
                              : spec.low.view().is_number() && spec.high.view().is_number();
  if (!good)
    return {location_code(5733406),
            "the elements of a bounds array must be numbers, or dates where there is a unit"};
  if (compare_values(spec.low.view(), spec.high.view()) > 0)
    return {location_code(5733402),
            "the bounds in a range statement must be the string 'full', 'partition', or an "
            "ascending array of two numbers or two dates"};
  return {};
}

Status parse_densify(const StageRow&, const ValueView& value, PipelineContext& context,
                     StageList& out) {
  if (value.type() != kObject)
    return {location_code(5733200), "the $densify stage specification must be an object"};
  DensifySpec spec;
  bool have_range = false;
  for (const Element& e : value.as_document()) {
    if (e.name() == "field") {
      if (e.type() != kString)
        return {ErrorCode::kTypeMismatch, "'$densify.field' must be a string"};
      spec.field = e->as_string();
      MULTIFORA_TRY(check_field_path(spec.field));
    } else if (e.name() == "partitionByFields") {
      if (e.type() != kArray)
        return {ErrorCode::kTypeMismatch, "'$densify.partitionByFields' must be an array"};
      for (const Element& p : e->as_document()) {
        if (p.type() != kString)
          return {ErrorCode::kTypeMismatch, "'$densify.partitionByFields' must hold strings"};
        MULTIFORA_TRY(check_field_path(p->as_string()));
        spec.partition.emplace_back(p->as_string());
      }
    } else if (e.name() == "range") {
      if (e.type() != kObject)
        return {ErrorCode::kTypeMismatch, "'$densify.range' must be an object"};
      MULTIFORA_TRY(read_range(e->as_document(), spec));
      have_range = true;
    } else {
      return {ErrorCode::kUnknownField,
              fmt::format("BSON field '$densify.{}' is an unknown field.", e.name())};
    }
  }
  if (spec.field.empty() || !have_range)
    return {location_code(40414), "$densify needs 'field' and 'range'"};
  if (spec.bounds == DensifySpec::Bounds::kPartition && spec.partition.empty())
    return {location_code(5733408),
            "One may not specify the bounds as 'partition' without specifying a non-empty array of "
            "partitionByFields."};
  out.push_back(
      std::make_unique<DensifyStage>(context, std::move(spec), OwnedDocument(value.as_document())));
  return {};
}

constexpr StageRow kRows[] = {{"$densify", parse_densify}};

}  // namespace

std::span<const StageRow> densify_stages() {
  return kRows;
}

}  // namespace multifora
