// $push, $addToSet, $concatArrays, $setUnion, $mergeObjects.
#include <list>

#include <fmt/format.h>

#include "plugins/query-engine/accumulator.h"
#include "plugins/query-engine/document_edit.h"
#include "plugins/query-engine/value_set.h"

namespace multifora {
namespace {

using enum BsonType;

Value array_of(const auto& values) {
  ArrayBuilder out;
  for (const Value& v : values) out.append(v.view());
  return Value::array(std::move(out).finish());
}

// Values back to back: cheaper than a Value each.
class Push : public Accumulator {
 public:
  Status add(const Value& input) override {
    if (!input.missing()) append(input.view());
    return {};
  }
  Result<Value> result() const override {
    ArrayBuilder out;
    std::size_t at = 0;
    while (at < bytes_.size()) {
      const auto type = static_cast<BsonType>(bytes_[at]);
      const char* value = bytes_.data() + at + 1;
      const std::size_t size = bson_value_size(type, value);
      out.append(ValueView(type, value, static_cast<std::uint32_t>(size)));
      at += 1 + size;
    }
    return Value::array(std::move(out).finish());
  }
  Value state() const override { return *result(); }
  Status merge(const ValueView& state) override {
    for (const Element& e : state.as_document()) append(e.value());
    return {};
  }
  std::size_t memory_bytes() const override { return sizeof *this + bytes_.capacity(); }

 protected:
  void append(const ValueView& v) {
    bytes_.push_back(static_cast<char>(v.type()));
    bytes_.append(v.bytes());
  }

 private:
  Buffer bytes_;
};

class ConcatArrays final : public Push {
 public:
  Status add(const Value& input) override {
    if (input.nullish()) return {};
    if (input.type() != kArray)
      return {ErrorCode::kTypeMismatch,
              fmt::format("$concatArrays requires array inputs, but input {} is of "
                          "type {}",
                          value_text(input.view()), type_text(input.view()))};
    for (const Element& e : input.view().as_document()) append(e.value());
    return {};
  }
};

class AddToSet : public Accumulator {
 public:
  explicit AddToSet(const Collator* collator) : set_(collator) {}
  Status add(const Value& input) override {
    if (!input.missing()) insert(input);
    return {};
  }
  Result<Value> result() const override { return array_of(values_); }
  Value state() const override { return array_of(values_); }
  Status merge(const ValueView& state) override {
    for (const Element& e : state.as_document()) insert(Value(e.value()));
    return {};
  }
  std::size_t memory_bytes() const override { return sizeof *this + bytes_; }

 protected:
  void insert(const Value& v) {
    if (set_.contains(v.view())) return;
    values_.push_back(v.own());  // list nodes stay where they are, so the set may view them
    set_.insert(values_.back().view());
    bytes_ += v.view().size_bytes() + 128;
  }

 private:
  std::list<Value> values_;
  ValueSet set_;
  std::size_t bytes_ = 0;
};

class SetUnion final : public AddToSet {
 public:
  using AddToSet::AddToSet;
  Status add(const Value& input) override {
    if (input.nullish()) return {};
    if (input.type() != kArray)
      return {ErrorCode::kTypeMismatch,
              fmt::format("$setUnion requires array inputs, but input {} is of type {}",
                          value_text(input.view()), type_text(input.view()))};
    for (const Element& e : input.view().as_document()) insert(Value(e.value()));
    return {};
  }
};

class MergeObjects final : public Accumulator {
 public:
  Status add(const Value& input) override {
    if (input.nullish()) return {};
    if (input.type() != kObject)
      return {location_code(40400),
              fmt::format("$mergeObjects requires object inputs, but input {} is of type {}",
                          value_text(input.view()), type_text(input.view()))};
    FieldList fields;
    for (const Element& e : merged_.view()) fields.set(e.name(), e.value());
    for (const Element& e : input.view().as_document()) fields.set(e.name(), e.value());
    merged_ = fields.document();
    return {};
  }
  Result<Value> result() const override { return Value::object(merged_); }
  Value state() const override { return Value::object(merged_); }
  Status merge(const ValueView& state) override { return add(Value(state)); }
  std::size_t memory_bytes() const override { return sizeof *this + merged_.bytes().size(); }

 private:
  OwnedDocument merged_;
};

template <class T>
AccumulatorPtr make(const AccumulatorArguments&) {
  return std::make_unique<T>();
}
template <class T>
AccumulatorPtr make_set(const AccumulatorArguments& a) {
  return std::make_unique<T>(a.collator);
}

Result<SpecPtr> parse_script(const AccumulatorRow& row, const ValueView&, VariableScope&) {
  return fail_code(
      31264,
      fmt::format("{} requires the server's JavaScript engine, which is disabled", row.name));
}

constexpr AccumulatorRow kRows[] = {
    {.name = "$accumulator", .parse = parse_script},
    {.name = "$addToSet", .make = make_set<AddToSet>},
    {.name = "$concatArrays", .make = make<ConcatArrays>},
    {.name = "$mergeObjects", .make = make<MergeObjects>},
    {.name = "$push", .make = make<Push>},
    {.name = "$setUnion", .make = make_set<SetUnion>},
};

}  // namespace

std::span<const AccumulatorRow> collection_accumulators() {
  return kRows;
}

}  // namespace multifora
