#include "plugins/query-engine/accumulator.h"

#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>

#include "plugins/query-engine/pipeline.h"
#include "plugins/query-engine/window_function.h"

namespace multifora {
namespace {

using Table = std::unordered_map<std::string_view, const AccumulatorRow*>;

const Table& table() {
  static const Table kTable = [] {
    Table t;
    for (const auto family :
         {number_accumulators(), order_accumulators(), collection_accumulators(),
          top_accumulators(), percentile_accumulators()})
      for (const AccumulatorRow& row : family) t.emplace(row.name, &row);
    return t;
  }();
  return kTable;
}

class SimpleSpec final : public AccumulatorSpec {
 public:
  SimpleSpec(const AccumulatorRow& row, ExpressionPtr input, ExpressionPtr n)
      : row_(row), input_(std::move(input)), n_(std::move(n)) {}

  Result<Value> input(EvalContext& context) const override { return input_->evaluate(context); }
  Result<AccumulatorPtr> make(EvalContext& context) const override {
    AccumulatorArguments arguments{.collator = context.collator};
    if (n_) {
      MULTIFORA_ASSIGN_R(const Value n, n_->evaluate(context));
      MULTIFORA_ASSIGN_R(arguments.n, check_n(row_.name, n.view()));
    }
    return row_.make(arguments);
  }
  bool add_dependencies(std::vector<std::string>& paths) const override {
    return input_->add_dependencies(paths);
  }
  void append_to(DocumentBuilder& out, std::string_view name) const override {
    DocumentBuilder self = out.object(name);
    if (!n_) {
      input_->append_to(self, row_.name);
      return;
    }
    DocumentBuilder sub = self.object(row_.name);
    n_->append_to(sub, "n");
    input_->append_to(sub, "input");
  }

 private:
  const AccumulatorRow& row_;
  ExpressionPtr input_;
  ExpressionPtr n_;
};

}  // namespace

const AccumulatorRow* find_accumulator(std::string_view name) {
  const auto it = table().find(name);
  return it == table().end() ? nullptr : it->second;
}

std::vector<std::string_view> accumulator_names() {
  std::vector<std::string_view> names = window_only_names();
  for (const auto& [name, row] : table()) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

SpecPtr make_simple_spec(const AccumulatorRow& row, ExpressionPtr input, ExpressionPtr n) {
  return std::make_unique<SimpleSpec>(row, std::move(input), std::move(n));
}

Result<std::int64_t> check_n(std::string_view op, const ValueView& v) {
  std::int64_t n = 0;
  if (!v.is_number() || !v.exact_int64(&n))
    return fail_code(5787902,
                     fmt::format("Value for 'n' must be of integral type, but found {} in {}",
                                 value_text(v), op));
  if (n <= 0) return fail_code(5787908, fmt::format("'n' must be greater than 0, found {}", n));
  return n;
}

Result<SpecPtr> AccumulatorSpec::parse(std::string_view name, const ValueView& argument,
                                       VariableScope& scope) {
  const AccumulatorRow* row = find_accumulator(name);
  if (row == nullptr) return fail_code(15952, fmt::format("unknown group operator '{}'", name));
  if (row->parse != nullptr) return row->parse(*row, argument, scope);
  if (argument.type() == BsonType::kArray)
    return fail_code(40237, fmt::format("The {} accumulator is a unary operator", name));
  MULTIFORA_ASSIGN_R(ExpressionPtr input, parse_expression(argument, scope));
  return make_simple_spec(*row, std::move(input), nullptr);
}

}  // namespace multifora
