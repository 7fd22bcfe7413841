// $top, $topN, $bottom, $bottomN: outputs ordered by a sort pattern over the documents.
#include <algorithm>

#include <fmt/format.h>

#include "plugins/query-engine/accumulator.h"
#include "plugins/query-engine/sort_key.h"

namespace multifora {
namespace {

// Inputs are arrays [sort key as binary, output].
template <bool Bottom, bool Single>
class Top final : public Accumulator {
 public:
  explicit Top(std::int64_t n) : n_(static_cast<std::size_t>(n)) {}

  Status add(const Value& input) override {
    auto it = input.view().as_document().begin();
    const Bytes key = it->value().binary_bytes();
    ++it;
    Entry entry{std::string(key), Value(it->value()).own()};
    if constexpr (Bottom) {
      // The last n in order; of equal keys the later ones.
      if (entries_.size() == n_ && entry.key < entries_.front().key) return {};
      insert(std::move(entry));
      if (entries_.size() > n_) erase(entries_.begin());
    } else {
      if (entries_.size() == n_ && !(entry.key < entries_.back().key)) return {};
      insert(std::move(entry));
      if (entries_.size() > n_) erase(entries_.end() - 1);
    }
    return {};
  }
  Result<Value> result() const override {
    if (Single) return entries_.empty() ? Value::null() : entries_.front().output;
    ArrayBuilder out;
    for (const Entry& e : entries_) out.append(e.output.view());
    return Value::array(std::move(out).finish());
  }
  Value state() const override {
    ArrayBuilder out;
    for (const Entry& e : entries_) {
      ArrayBuilder pair = out.array();
      pair.raw().append_binary(pair.next_name(), e.key, 0);
      pair.append(e.output.view());
    }
    return Value::array(std::move(out).finish());
  }
  Status merge(const ValueView& state) override {
    for (const Element& e : state.as_document()) MULTIFORA_TRY(add(Value(e.value())));
    return {};
  }
  std::size_t memory_bytes() const override { return sizeof *this + bytes_; }

 private:
  struct Entry {
    std::string key;
    Value output;
    std::size_t bytes() const { return sizeof(Entry) + key.size() + output.view().size_bytes(); }
  };
  void insert(Entry entry) {
    bytes_ += entry.bytes();
    const auto at = std::upper_bound(entries_.begin(), entries_.end(), entry,
                                     [](const Entry& a, const Entry& b) { return a.key < b.key; });
    entries_.insert(at, std::move(entry));
  }
  void erase(typename std::vector<Entry>::iterator it) {
    bytes_ -= it->bytes();
    entries_.erase(it);
  }
  std::size_t n_;
  std::size_t bytes_ = 0;
  std::vector<Entry> entries_;
};

template <bool Bottom, bool Single>
AccumulatorPtr make_top(const AccumulatorArguments& a) {
  return std::make_unique<Top<Bottom, Single>>(Single ? 1 : a.n);
}

class TopSpec final : public AccumulatorSpec {
 public:
  TopSpec(const AccumulatorRow& row, SortPattern sort, ExpressionPtr output, ExpressionPtr n)
      : row_(row), sort_(std::move(sort)), output_(std::move(output)), n_(std::move(n)) {}

  Result<Value> input(EvalContext& context) const override {
    KeyStringBuilder key;
    MULTIFORA_TRY_R(sort_.append_key(context.root, context.collator, key));
    MULTIFORA_ASSIGN_R(const Value output, output_->evaluate(context));
    ArrayBuilder out;
    out.raw().append_binary(out.next_name(), key.key(), 0);
    MULTIFORA_TRY_R(append_element(out, output.view()));
    return Value::array(std::move(out).finish());
  }
  Result<AccumulatorPtr> make(EvalContext& context) const override {
    AccumulatorArguments arguments;
    if (n_) {
      MULTIFORA_ASSIGN_R(const Value n, n_->evaluate(context));
      MULTIFORA_ASSIGN_R(arguments.n, check_n(row_.name, n.view()));
    }
    return row_.make(arguments);
  }
  bool add_dependencies(std::vector<std::string>& paths) const override {
    for (const SortPattern::Part& p : sort_.parts()) paths.push_back(p.path);
    return output_->add_dependencies(paths);
  }
  void append_to(DocumentBuilder& out, std::string_view name) const override {
    DocumentBuilder self = out.object(name);
    DocumentBuilder sub = self.object(row_.name);
    if (n_) n_->append_to(sub, "n");
    output_->append_to(sub, "output");
    sub.append("sortBy", sort_.spec());
  }

 private:
  const AccumulatorRow& row_;
  SortPattern sort_;
  ExpressionPtr output_;
  ExpressionPtr n_;
};

Result<SpecPtr> parse_top(const AccumulatorRow& row, const ValueView& argument,
                          VariableScope& scope) {
  if (argument.type() != BsonType::kObject)
    return fail_code(5788001, fmt::format("specification must be an object; found {} for {}",
                                          value_text(argument), row.name));
  const bool many = row.name.ends_with('N');
  ExpressionPtr n;
  ExpressionPtr output;
  std::optional<SortPattern> sort;
  for (const Element& e : argument.as_document()) {
    if (e.name() == "n" && many) {
      MULTIFORA_ASSIGN_R(n, parse_expression(e.value(), scope));
      if (n->constant() != nullptr) {
        MULTIFORA_ASSIGN_R([[maybe_unused]] const std::int64_t checked,
                           check_n(row.name, n->constant()->view()));
      }
    } else if (e.name() == "output") {
      MULTIFORA_ASSIGN_R(output, parse_expression(e.value(), scope));
    } else if (e.name() == "sortBy") {
      if (e.type() != BsonType::kObject)
        return fail_code(5788604, fmt::format("expected 'sortBy' to be an object, but found {}",
                                              type_text(e.value())));
      MULTIFORA_ASSIGN_R(sort, SortPattern::parse(e->as_document()));
    } else {
      return fail_code(5788002, fmt::format("Unknown argument to {}: {}", row.name, e.name()));
    }
  }
  if (many && !n) return fail_code(5788003, fmt::format("Missing value for 'n' in {}", row.name));
  if (!output) return fail_code(5788004, fmt::format("Missing value for 'output' in {}", row.name));
  if (!sort) return fail_code(5788005, fmt::format("Missing value for 'sortBy' in {}", row.name));
  return std::make_unique<TopSpec>(row, std::move(*sort), std::move(output), std::move(n));
}

constexpr AccumulatorRow kRows[] = {
    {.name = "$bottom", .make = make_top<true, true>, .parse = parse_top},
    {.name = "$bottomN", .make = make_top<true, false>, .parse = parse_top},
    {.name = "$top", .make = make_top<false, true>, .parse = parse_top},
    {.name = "$topN", .make = make_top<false, false>, .parse = parse_top},
};

}  // namespace

std::span<const AccumulatorRow> top_accumulators() {
  return kRows;
}

}  // namespace multifora
