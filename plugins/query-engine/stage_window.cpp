// $setWindowFields, and $fill, which is made of it. Documents are sorted by partition and sortBy;
// one partition at a time is in memory.
#include <fmt/format.h>

#include "core/bson/key_string.h"
#include "plugins/query-engine/document_edit.h"
#include "plugins/query-engine/stage.h"
#include "plugins/query-engine/window_function.h"

namespace multifora {
namespace {

using enum BsonType;

struct Output {
  std::string path;
  std::unique_ptr<WindowFunction> function;
};

struct WindowSpec {
  ExpressionPtr partition_by;         // null: one partition
  std::unique_ptr<SortPattern> sort;  // null: none
  std::vector<Output> outputs;
  OwnedDocument given;
};

class WindowStage final : public PipelineStage {
 public:
  WindowStage(PipelineContext& context, WindowSpec spec)
      : PipelineStage(context), spec_(std::move(spec)) {}

  Result<std::optional<DocumentView>> next() override {
    if (!sorter_) MULTIFORA_TRY_R(load());
    while (at_ == partition_.documents.size()) {
      if (!have_) return std::nullopt;
      MULTIFORA_TRY_R(load_partition());
    }
    out_ = partition_.documents[at_].bytes();
    for (std::size_t i = 0; i < spec_.outputs.size(); ++i) {
      Buffer next;
      append_with_path(next, DocumentView::assume_valid(Bytes(out_)), spec_.outputs[i].path,
                       results_[i][at_].view());
      out_ = std::move(next);
    }
    ++at_;
    MULTIFORA_TRY_R(check_document_size(out_.size()));
    return DocumentView::assume_valid(Bytes(out_));
  }
  std::string_view name() const override { return "$setWindowFields"; }
  void append_to(ArrayBuilder& out) const override {
    out.object().append("$setWindowFields", spec_.given.view());
  }

 private:
  // Keys: the partition's key string and the sort key, with the first one's length.
  Status load() {
    sorter_ = std::make_unique<ExternalSorter>(spill_options("$setWindowFields"), 0);
    KeyStringBuilder partition;
    KeyStringBuilder key;
    while (true) {
      MULTIFORA_TRY(poll());
      MULTIFORA_ASSIGN(const std::optional<DocumentView> d, source_->next());
      if (!d) break;
      partition.clear();
      key.clear();
      if (spec_.partition_by) {
        context().eval.root = *d;
        MULTIFORA_ASSIGN(Value v, spec_.partition_by->evaluate(context().eval));
        if (v.type() == kArray)
          return {ErrorCode::kTypeMismatch,
                  "An expression used to partition cannot evaluate to value of type array"};
        if (v.missing()) v = Value::null();
        partition.append(v.view(), false, context().collator.get());
      }
      if (spec_.sort) MULTIFORA_TRY(spec_.sort->append_key(*d, context().collator.get(), key));
      DocumentBuilder record;
      record.append("p", static_cast<std::int32_t>(partition.key().size()));
      record.append("d", *d);
      const OwnedDocument built = std::move(record).finish();
      MULTIFORA_TRY(sorter_->add(partition.key() + key.key(), built.view()));
    }
    MULTIFORA_TRY(sorter_->finish());
    return advance();
  }

  Status advance() {
    MULTIFORA_ASSIGN(const auto item, sorter_->next());
    have_ = item.has_value();
    if (!have_) return {};
    const auto split = static_cast<std::size_t>(item->document["p"].as_int32());
    head_partition_ = item->key.substr(0, split);
    head_key_ = item->key.substr(split);
    head_ = OwnedDocument(item->document["d"].as_document());
    return {};
  }

  Status load_partition() {
    partition_ = {};
    at_ = 0;
    const std::string wanted = head_partition_;
    std::uint64_t bytes = 0;
    while (have_ && head_partition_ == wanted) {
      MULTIFORA_TRY(poll());
      bytes += head_.bytes().size() + head_key_.size() + sizeof(OwnedDocument);
      if (bytes > context().memory_limit_bytes)
        return {location_code(5414201),
                fmt::format("Exceeded max memory in $setWindowFields: a partition needs more than "
                            "{} bytes",
                            context().memory_limit_bytes)};
      partition_.documents.push_back(std::move(head_));
      if (spec_.sort) partition_.sort_keys.push_back(std::move(head_key_));
      MULTIFORA_TRY(advance());
    }
    results_.clear();
    for (const Output& o : spec_.outputs) {
      MULTIFORA_ASSIGN(std::vector<Value> values, o.function->compute(partition_, context().eval));
      results_.push_back(std::move(values));
    }
    return {};
  }

  WindowSpec spec_;
  std::unique_ptr<ExternalSorter> sorter_;
  bool have_ = false;
  std::string head_partition_, head_key_;
  OwnedDocument head_;
  Partition partition_;
  std::vector<std::vector<Value>> results_;  // by output
  std::size_t at_ = 0;
  Buffer out_;
};

Status parse_window_fields(const StageRow&, const ValueView& value, PipelineContext& context,
                           StageList& out) {
  if (value.type() != kObject)
    return {ErrorCode::kFailedToParse,
            fmt::format("the $setWindowFields stage specification must be an object, found {}",
                        type_text(value))};
  WindowSpec spec;
  spec.given = OwnedDocument(value.as_document());
  ValueView output;
  for (const Element& e : value.as_document()) {
    if (e.name() == "partitionBy") {
      MULTIFORA_ASSIGN(spec.partition_by, parse_expression(e.value(), context.scope));
      const Value* constant = spec.partition_by->constant();
      if (constant != nullptr && constant->type() == kArray)
        return {ErrorCode::kTypeMismatch,
                "An expression used to partition cannot evaluate to value of type array"};
    } else if (e.name() == "sortBy") {
      if (e.type() != kObject)
        return {ErrorCode::kTypeMismatch,
                "BSON field '$setWindowFields.sortBy' is the wrong type, expected type 'object'"};
      MULTIFORA_ASSIGN(SortPattern pattern, SortPattern::parse(e->as_document()));
      if (!pattern.empty()) spec.sort = std::make_unique<SortPattern>(std::move(pattern));
    } else if (e.name() == "output") {
      output = e.value();
    } else {
      return {ErrorCode::kUnknownField,
              fmt::format("BSON field '$setWindowFields.{}' is an unknown field.", e.name())};
    }
  }
  if (output.missing())
    return {location_code(40414),
            "BSON field '$setWindowFields.output' is missing but a required field"};
  if (output.type() != kObject)
    return {ErrorCode::kTypeMismatch,
            "BSON field '$setWindowFields.output' is the wrong type, expected type 'object'"};
  for (const Element& e : output.as_document()) {
    MULTIFORA_TRY(check_field_path(e.name()));
    if (e.type() != kObject)
      return {ErrorCode::kFailedToParse, fmt::format("The field '{}' must be an object", e.name())};
    MULTIFORA_ASSIGN(auto function, WindowFunction::parse(e.name(), e->as_document(),
                                                          spec.sort.get(), context.scope));
    spec.outputs.push_back({std::string(e.name()), std::move(function)});
  }
  out.push_back(std::make_unique<WindowStage>(context, std::move(spec)));
  return {};
}

// ---------------------------------------------------------------- $fill

struct FillSpec {
  ValueView partition_by, sort_by;
  std::vector<std::string_view> partition_fields;
  DocumentView output;
};

Status read_fill(DocumentView document, FillSpec& spec) {
  bool have_output = false;
  for (const Element& e : document) {
    if (e.name() == "partitionBy") {
      spec.partition_by = e.value();
    } else if (e.name() == "partitionByFields") {
      if (e.type() != kArray)
        return {ErrorCode::kTypeMismatch, "'$fill.partitionByFields' must be an array"};
      for (const Element& f : e->as_document()) {
        if (f.type() != kString)
          return {ErrorCode::kTypeMismatch, "'$fill.partitionByFields' must hold strings"};
        MULTIFORA_TRY(check_field_path(f->as_string()));
        spec.partition_fields.push_back(f->as_string());
      }
    } else if (e.name() == "sortBy") {
      spec.sort_by = e.value();
    } else if (e.name() == "output") {
      if (e.type() != kObject)
        return {ErrorCode::kTypeMismatch, "'$fill.output' must be an object"};
      spec.output = e->as_document();
      have_output = true;
    } else {
      return {ErrorCode::kUnknownField,
              fmt::format("BSON field '$fill.{}' is an unknown field.", e.name())};
    }
  }
  if (!have_output || spec.output.empty())
    return {location_code(40414), "BSON field '$fill.output' is missing but a required field"};
  if (!spec.partition_by.missing() && !spec.partition_fields.empty())
    return {location_code(6050204),
            "Maximum one of 'partitionBy' and 'partitionByFields can be specified in '$fill'"};
  return {};
}

// The parts that $fill becomes: window functions for methods, $ifNull for values.
Status split_fill(const FillSpec& spec, DocumentBuilder& windows, DocumentBuilder& values,
                  bool* any_window, bool* any_value) {
  for (const Element& e : spec.output) {
    if (e.type() != kObject || e->as_document().count() != 1)
      return {location_code(6050200),
              fmt::format("The output of '{}' must be one of 'value' and 'method'", e.name())};
    const Element how = e->as_document().first();
    if (how.name() == "value") {
      DocumentBuilder field = values.object(e.name());
      ArrayBuilder both = field.array("$ifNull");
      both.append("$" + std::string(e.name()));
      both.append(how.value());
      *any_value = true;
    } else if (how.name() == "method" && how.type() == kString) {
      const std::string_view method = how->as_string();
      if (method != "locf" && method != "linear")
        return {location_code(6050202),
                fmt::format("Method must be either locf or linear, found: {}", method)};
      if (spec.sort_by.missing() && method == "linear")
        return {location_code(6050203), "'sortBy' is required for the method linear in $fill"};
      DocumentBuilder field = windows.object(e.name());
      field.append(method == "locf" ? "$locf" : "$linearFill", "$" + std::string(e.name()));
      *any_window = true;
    } else {
      return {location_code(6050201),
              fmt::format("The output of '{}' must be one of 'value' and 'method'", e.name())};
    }
  }
  return {};
}

Status parse_fill(const StageRow&, const ValueView& value, PipelineContext& context,
                  StageList& out) {
  if (value.type() != kObject)
    return {
        location_code(6050200),
        fmt::format("the $fill stage specification must be an object, found {}", type_text(value))};
  FillSpec spec;
  MULTIFORA_TRY(read_fill(value.as_document(), spec));
  DocumentBuilder windows;
  DocumentBuilder values;
  bool any_window = false;
  bool any_value = false;
  MULTIFORA_TRY(split_fill(spec, windows, values, &any_window, &any_value));
  const OwnedDocument window_output = std::move(windows).finish();
  const OwnedDocument value_output = std::move(values).finish();
  if (any_window) {
    DocumentBuilder stage;
    if (!spec.partition_by.missing()) stage.append("partitionBy", spec.partition_by);
    if (!spec.partition_fields.empty()) {
      DocumentBuilder by = stage.object("partitionBy");
      for (std::size_t i = 0; i < spec.partition_fields.size(); ++i)
        by.append(fmt::format("f{}", i), "$" + std::string(spec.partition_fields[i]));
    }
    if (!spec.sort_by.missing()) stage.append("sortBy", spec.sort_by);
    stage.append("output", window_output.view());
    const OwnedDocument built = std::move(stage).finish();
    MULTIFORA_TRY(parse_stage("$setWindowFields", as_value(built.view()), context, out));
  }
  if (!any_value) return {};
  return parse_stage("$addFields", as_value(value_output.view()), context, out);
}

constexpr StageRow kRows[] = {
    {"$fill", parse_fill},
    {"$setWindowFields", parse_window_fields},
};

}  // namespace

std::span<const StageRow> window_stages() {
  return kRows;
}

}  // namespace multifora
