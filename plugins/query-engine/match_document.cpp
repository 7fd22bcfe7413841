// Operators on the whole document: $expr and $sampleRate.
#include <fmt/format.h>

#include <random>

#include "plugins/query-engine/match_parse.h"

namespace multifora::match {

namespace {

// Neither makes sense on an element.
class DocumentNode : public MatchNode {
 public:
  bool matches_value(const ValueView&, MatchState&) const final { return false; }
  void append_to(DocumentBuilder& out) const override { append_predicate(out); }

 protected:
  DocumentNode(MatchKind kind, std::string_view name, const ValueView& operand)
      : MatchNode(kind, name) {
    operand_ = operand;
  }
};

// The path that "$a.b" reads; empty for anything else.
std::string_view field_path_of(const ValueView& value) {
  if (value.type() != BsonType::kString) return {};
  const std::string_view text = value.as_string();
  return text.starts_with('$') && !text.starts_with("$$") ? text.substr(1) : std::string_view();
}

// The scalar that an expression always gives; missing where it gives others, an array or null.
ValueView scalar_of(const ValueView& value, bool literal = false) {
  switch (value.type()) {
    case BsonType::kDouble:
    case BsonType::kInt32:
    case BsonType::kInt64:
    case BsonType::kDecimal128:
    case BsonType::kBool:
    case BsonType::kDate:
    case BsonType::kObjectId:
    case BsonType::kTimestamp:
      return value;
    case BsonType::kString:
      return literal || !value.as_string().starts_with('$') ? value : ValueView();
    case BsonType::kObject: {
      const DocumentView object = value.as_document();
      if (!literal && object.first().name() == "$literal" && object.count() == 1)
        return scalar_of(object.first().value(), true);
      return {};
    }
    default:
      return {};
  }
}

// children(): equalities on paths that must hold where the expression does, for the planner. They say
// less than it does (an array that has the value as an element satisfies them), never more.
class ExprNode final : public DocumentNode {
 public:
  ExprNode(const ValueView& operand, std::unique_ptr<Expression> expression,
           const Collator* collator)
      : DocumentNode(MatchKind::kExpr, "$expr", operand), expression_(std::move(expression)) {
    collect_equalities(operand, collator);
  }

  bool matches(DocumentView, MatchState& state) const override {
    Result<Value> value = expression_->evaluate(*state.context);
    if (value) return value->view().truthy();
    state.error = std::move(value).error();
    return false;
  }
  void append_predicate(DocumentBuilder& out) const override {
    expression_->append_to(out, "$expr");
  }
  bool add_dependencies(std::vector<std::string>& paths) const override {
    return expression_->add_dependencies(paths);
  }

 private:
  void collect_equalities(const ValueView& expression, const Collator* collator) {
    if (expression.type() != BsonType::kObject) return;
    const DocumentView object = expression.as_document();
    if (object.count() != 1 || object.first().type() != BsonType::kArray) return;
    const DocumentView arguments = object.first()->as_document();
    if (object.first().name() == "$and")
      for (const Element& argument : arguments) collect_equalities(argument.value(), collator);
    if (object.first().name() != "$eq" || arguments.count() != 2) return;
    const ValueView left = arguments["0"], right = arguments["1"];
    const bool path_first = !field_path_of(left).empty();
    const std::string_view path = field_path_of(path_first ? left : right);
    const ValueView value = scalar_of(path_first ? right : left);
    if (path.empty() || value.missing()) return;
    children_.push_back(std::make_unique<CompareNode>(MatchKind::kEq, path, value, collator));
  }

  std::unique_ptr<Expression> expression_;
};

class SampleRateNode final : public DocumentNode {
 public:
  SampleRateNode(const ValueView& operand, double rate)
      : DocumentNode(MatchKind::kSampleRate, "$sampleRate", operand), rate_(rate) {}

  bool matches(DocumentView, MatchState&) const override {
    thread_local std::minstd_rand random{std::random_device{}()};
    return std::uniform_real_distribution<double>(0.0, 1.0)(random) < rate_;
  }
  bool add_dependencies(std::vector<std::string>&) const override { return true; }

 private:
  double rate_;
};

Status parse_expr(Parser& parser, const Element& element, Nodes& out) {
  if (!parser.top_level)
    return Status(ErrorCode::kBadValue, "$expr can only be applied to the top-level document");
  if (!parser.options.allow_expr)
    return Status(ErrorCode::kQueryFeatureNotAllowed,
                  "$expr is not allowed in the query predicate for an upsert");
  MULTIFORA_ASSIGN(auto expression, parse_expression(element.value(), *parser.scope));
  parser.uses_expr = true;
  out.push_back(std::make_unique<ExprNode>(element.value(), std::move(expression),
                                           parser.options.collator));
  return {};
}

Status parse_sample_rate(Parser&, const Element& element, Nodes& out) {
  if (!element->is_number())
    return Status(ErrorCode::kBadValue, "argument to $sampleRate must be a numeric type");
  const double rate = element->number_as_double();
  if (!(rate >= 0.0 && rate <= 1.0))
    return Status(ErrorCode::kBadValue, "numeric argument to $sampleRate must be in [0, 1]");
  if (rate == 0.0 || rate == 1.0)
    out.push_back(make_constant(rate == 1.0));
  else
    out.push_back(std::make_unique<SampleRateNode>(element.value(), rate));
  return {};
}

constexpr DocumentRow kRows[] = {{"$expr", parse_expr}, {"$sampleRate", parse_sample_rate}};

}  // namespace

std::span<const DocumentRow> document_rows() {
  return kRows;
}

}  // namespace multifora::match
