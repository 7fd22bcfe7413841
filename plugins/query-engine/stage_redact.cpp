// $redact: decides for each level of a document whether to keep, prune or descend.
#include <fmt/format.h>

#include "plugins/query-engine/stage.h"

namespace multifora {
namespace {

using enum BsonType;

class RedactStage final : public PipelineStage {
 public:
  RedactStage(PipelineContext& context, ExpressionPtr expression, int current_slot,
              int descend_slot)
      : PipelineStage(context),
        expression_(std::move(expression)),
        current_(current_slot),
        descend_(descend_slot) {}

  Result<std::optional<DocumentView>> next() override {
    while (true) {
      MULTIFORA_TRY_R(poll());
      MULTIFORA_ASSIGN_R(const std::optional<DocumentView> d, source_->next());
      if (!d) return std::nullopt;
      context().eval.root = *d;
      context().eval.set_variable(descend_, Value::string("descend"));
      context().eval.set_variable(descend_ + 1, Value::string("prune"));
      context().eval.set_variable(descend_ + 2, Value::string("keep"));
      out_.clear();
      MULTIFORA_ASSIGN_R(const bool kept, redact_root(*d));
      if (kept) return DocumentView::assume_valid(Bytes(out_));
    }
  }
  std::string_view name() const override { return "$redact"; }
  void append_to(ArrayBuilder& out) const override {
    DocumentBuilder self = out.object();
    expression_->append_to(self, "$redact");
  }

 private:
  enum class Decision { kDescend, kPrune, kKeep };

  Result<Decision> decide(DocumentView document) {
    EvalContext& eval = context().eval;
    eval.set_variable(current_, Value(as_value(document)));
    MULTIFORA_ASSIGN_R(const Value v, expression_->evaluate(eval));
    if (v.type() == kString) {
      const std::string_view text = v.view().as_string();
      if (text == "descend") return Decision::kDescend;
      if (text == "prune") return Decision::kPrune;
      if (text == "keep") return Decision::kKeep;
    }
    return fail_code(
        17053,
        fmt::format("$redact's expression should not return anything aside from the variables "
                    "$$KEEP, $$DESCEND, and $$PRUNE, but returned {}",
                    value_text(v.view())));
  }

  Result<bool> redact_root(DocumentView d) {
    MULTIFORA_ASSIGN_R(const Decision decision, decide(d));
    if (decision == Decision::kPrune) return false;
    DocumentBuilder out(&out_);
    if (decision == Decision::kKeep)
      out.append_all(d);
    else
      MULTIFORA_TRY_R(descend(d, out));
    out.close();
    return true;
  }

  Status descend(DocumentView d, DocumentBuilder& out) {
    for (const Element& e : d) {
      if (e.type() == kObject) {
        MULTIFORA_TRY(redact_object(e->as_document(), out, e.name()));
      } else if (e.type() == kArray) {
        ArrayBuilder sub = out.array(e.name());
        MULTIFORA_TRY(descend_array(e->as_document(), sub));
      } else {
        out.append(e);
      }
    }
    return {};
  }

  Status redact_object(DocumentView d, DocumentBuilder& out, std::string_view name) {
    MULTIFORA_ASSIGN(const Decision decision, decide(d));
    if (decision == Decision::kPrune) return {};
    if (decision == Decision::kKeep) {
      out.append(name, d);
      return {};
    }
    DocumentBuilder sub = out.object(name);
    return descend(d, sub);
  }

  Status descend_array(DocumentView array, ArrayBuilder& out) {
    for (const Element& e : array) {
      if (e.type() == kArray) {
        ArrayBuilder sub = out.array();
        MULTIFORA_TRY(descend_array(e->as_document(), sub));
      } else if (e.type() == kObject) {
        DocumentBuilder one;  // a pruned element leaves no gap, so its name is chosen afterwards
        MULTIFORA_TRY(redact_object(e->as_document(), one, "v"));
        const OwnedDocument built = std::move(one).finish();
        if (!built.view().empty()) out.append(built.view()["v"]);
      } else {
        out.append(e.value());
      }
    }
    return {};
  }

  ExpressionPtr expression_;
  int current_;
  int descend_;  // DESCEND, PRUNE and KEEP have consecutive slots
  Buffer out_;
};

Status parse_redact(const StageRow&, const ValueView& value, PipelineContext& context,
                    StageList& out) {
  VariableScope& scope = context.scope;
  const std::size_t mark = scope.mark();
  const int current = scope.define_system("CURRENT");
  const int descend = scope.define_system("DESCEND");
  scope.define_system("PRUNE");
  scope.define_system("KEEP");
  Result<ExpressionPtr> expression = parse_expression(value, scope);
  scope.release(mark);
  if (!expression) return std::move(expression).error();
  out.push_back(std::make_unique<RedactStage>(context, std::move(*expression), current, descend));
  return {};
}

constexpr StageRow kRows[] = {{"$redact", parse_redact}};

}  // namespace

std::span<const StageRow> redact_stages() {
  return kRows;
}

}  // namespace multifora
