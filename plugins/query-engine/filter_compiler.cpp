#include "plugins/query-engine/filter_compiler.h"

#include <mutex>

#include "core/base/clock.h"
#include "core/base/interrupt.h"
#include "core/bson/builder.h"
#include "plugins/query-engine/expression.h"
#include "plugins/query-engine/match_jsonschema.h"
#include "plugins/query-engine/match_node.h"

namespace multifora {

namespace {

// ---- Explaining why a filter does not match ----

// The texts of one predicate: why it failed, and under a negation why it held.
struct Reasons {
  std::string_view failed;
  std::string_view held;
};

Reasons reasons_of(MatchKind kind) {
  switch (kind) {
    case MatchKind::kEq:
    case MatchKind::kLt:
    case MatchKind::kLte:
    case MatchKind::kGt:
    case MatchKind::kGte:
      return {"comparison failed", "comparison succeeded"};
    case MatchKind::kIn:
      return {"no matching value found in array", "matching value found in array"};
    case MatchKind::kRegex:
      return {"regular expression did not match", "regular expression did match"};
    case MatchKind::kExists:
      return {"path does not exist", "path does exist"};
    case MatchKind::kType:
      return {"type did not match", "type did match"};
    case MatchKind::kMod:
      return {"$mod did not evaluate to expected remainder",
              "$mod did evaluate to expected remainder"};
    case MatchKind::kSize:
      return {"array length was not equal to given size", "array length was equal to given size"};
    case MatchKind::kBits:
      return {"bitwise operator failed to match", "bitwise operator matched successfully"};
    case MatchKind::kElemMatchObject:
    case MatchKind::kElemMatchValue:
      return {"array did not satisfy the child predicate", "array did satisfy the child predicate"};
    case MatchKind::kExpr:
      return {"expression did not match", "expression did match"};
    case MatchKind::kAlwaysFalse:
      return {"expression always evaluates to false", ""};
    case MatchKind::kAlwaysTrue:
      return {"", "expression always evaluates to true"};
    default:
      return {"did not match", "did match"};
  }
}

// A validator is asked while its collection is locked, by commands that cannot be stopped there: what
// its expressions may take for one document.
constexpr std::int64_t kMatchMicrosMax = 2'000'000;

struct Limited {
  Limited() {
    interrupt.set_deadline_us(system_clock().monotonic_us() + kMatchMicrosMax);
    context.interrupt = &interrupt;
    context.now_ms = system_clock().wall_ms();
  }
  Interrupt interrupt{system_clock()};
  EvalContext context;
};

bool matches_in_time(const Matcher& matcher, DocumentView document) {
  if (!matcher.needs_context()) return matcher.matches(document).value_or(false);
  Limited limited;
  return matcher.matches(document, &limited.context).value_or(false);
}

class Explainer {
 public:
  explicit Explainer(DocumentView document) : document_(document) {}

  // Appends the fields that say why `node` does not match (or, inverted, why it does).
  void explain(const MatchNode& node, bool inverted, DocumentBuilder& out) {
    switch (node.kind()) {
      case MatchKind::kAnd:
      case MatchKind::kOr:
        return explain_list(node, inverted, out);
      case MatchKind::kNor:
        return explain_list(node, !inverted, out);
      case MatchKind::kNot:
        return explain_not(node, inverted, out);
      case MatchKind::kJsonSchema:
        return explain_schema(static_cast<const JsonSchemaNode&>(node), inverted, out);
      default:
        return explain_predicate(node, node.operator_name(), inverted, out);
    }
  }

 private:
  bool holds(const MatchNode& node) const {
    Limited limited;
    limited.context.root = document_;
    MatchState state{.context = &limited.context, .details = nullptr, .error = {}};
    return node.matches(document_, state) && state.error.ok();
  }

  void explain_list(const MatchNode& node, bool inverted, DocumentBuilder& out) {
    out.append("operatorName", node.operator_name());
    ArrayBuilder list = out.array(inverted ? "clausesSatisfied" : "clausesNotSatisfied");
    std::int32_t index = -1;
    for (const MatchNode::Ptr& child : node.children()) {
      ++index;
      if (holds(*child) != inverted) continue;
      DocumentBuilder entry = list.object();
      entry.append("index", index);
      DocumentBuilder details = entry.object("details");
      explain(*child, inverted, details);
    }
  }

  // $ne, $nin and {$exists: false} have names of their own.
  void explain_not(const MatchNode& node, bool inverted, DocumentBuilder& out) {
    const MatchNode& child = *node.children()[0];
    if (child.kind() == MatchKind::kEq || child.kind() == MatchKind::kIn)
      return explain_renamed(child, child.kind() == MatchKind::kEq ? "$ne" : "$nin", inverted,
                             out);
    if (child.kind() == MatchKind::kExists)
      return explain_predicate(child, "$exists", !inverted, out);
    out.append("operatorName", "$not");
    DocumentBuilder details = out.object("details");
    explain(child, !inverted, details);
  }

  void explain_renamed(const MatchNode& node, std::string_view name, bool inverted,
                       DocumentBuilder& out) {
    out.append("operatorName", name);
    append_specified(node, name, out);
    append_values(node,
                  name == "$ne" ? (inverted ? "comparison succeeded" : "comparison failed")
                                : (inverted ? "no matching value found in array"
                                            : "matching value found in array"),
                  inverted, out);
  }

  void explain_schema(const JsonSchemaNode& node, bool inverted, DocumentBuilder& out) {
    out.append("operatorName", "$jsonSchema");
    if (inverted) {
      out.append("reason", "schema matched");
      return;
    }
    node.schema().explain_annotations(out);
    node.schema().explain(as_value(document_), "schemaRulesNotSatisfied", out);
  }

  static void append_specified(const MatchNode& node, std::string_view name,
                               DocumentBuilder& out) {
    DocumentBuilder as = out.object("specifiedAs");
    if (node.path().empty()) {
      as.append(name, node.operand());
      return;
    }
    DocumentBuilder inner = as.object(node.path());
    if (node.kind() == MatchKind::kRegex)
      node.append_predicate(inner);
    else
      inner.append(name, node.operand());
  }

  void explain_predicate(const MatchNode& node, std::string_view name, bool inverted,
                         DocumentBuilder& out) {
    out.append("operatorName", name);
    append_specified(node, name, out);
    const Reasons reasons = reasons_of(node.kind());
    const std::string_view reason = inverted ? reasons.held : reasons.failed;
    if (node.kind() == MatchKind::kExpr)
      out.append("reason", reason).append("expressionResult", inverted);
    else if (node.path().empty() || node.kind() == MatchKind::kExists)
      out.append("reason", reason);
    else
      append_values(node, reason, inverted, out);
  }

  // The reason, and the values at the path that were looked at.
  void append_values(const MatchNode& node, std::string_view reason, bool inverted,
                     DocumentBuilder& out) {
    std::vector<ValueView> values;
    visit_path(document_, node.field_path(), false, [&](const PathHit& hit) {
      if (!hit.value.missing()) values.push_back(hit.value);
      return true;
    });
    out.append("reason", values.empty() && !inverted ? "field was missing" : reason);
    if (values.empty()) return;
    if (values.size() == 1) {
      out.append("consideredValue", values[0]);
    } else {
      ArrayBuilder list = out.array("consideredValues");
      for (const ValueView& value : values) list.append(value);
    }
    if (node.kind() == MatchKind::kType) append_types(values, out);
  }

  static void append_types(const std::vector<ValueView>& values, DocumentBuilder& out) {
    if (values.size() == 1) {
      out.append("consideredType", type_name(values[0].type()));
      return;
    }
    ArrayBuilder list = out.array("consideredTypes");
    for (const ValueView& value : values) list.append(type_name(value.type()));
  }

  DocumentView document_;
};

// ---- The compiler ----

class MatcherFilter final : public CompiledFilter {
 public:
  explicit MatcherFilter(std::unique_ptr<const Matcher> matcher) : matcher_(std::move(matcher)) {}
  bool matches(DocumentView document) const override {
    // An expression is one thread's at a time; filters without one are everybody's.
    std::unique_lock<std::mutex> lock(mutex_, std::defer_lock);
    if (matcher_->needs_context()) lock.lock();
    // A document on which an $expr fails does not satisfy it.
    return matches_in_time(*matcher_, document);
  }

 private:
  mutable std::mutex mutex_;
  std::unique_ptr<const Matcher> matcher_;
};

class QueryFilterCompiler final : public FilterCompiler {
 public:
  Result<std::unique_ptr<const CompiledFilter>> compile(DocumentView filter,
                                                        const Collator* collator) const override {
    MatcherOptions options;
    options.collator = collator;
    options.allow_text_and_geo = false;
    MULTIFORA_ASSIGN_R(auto matcher, Matcher::compile(filter, options));
    return std::make_unique<MatcherFilter>(std::move(matcher));
  }

  std::string explain_failure(DocumentView filter, DocumentView document) const override {
    auto matcher = Matcher::compile(filter, {});
    if (!matcher) return {};  // it was compiled when the collection was made
    return explain_mismatch(**matcher, document).bytes();
  }
};

}  // namespace

OwnedDocument explain_mismatch(const Matcher& matcher, DocumentView document) {
  DocumentBuilder out;
  if (!matches_in_time(matcher, document)) Explainer(document).explain(matcher.root(), false, out);
  return std::move(out).finish();
}

std::unique_ptr<FilterCompiler> make_filter_compiler() {
  return std::make_unique<QueryFilterCompiler>();
}

}  // namespace multifora
