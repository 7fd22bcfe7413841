// What of a $match with $expr the query layer can use: a filter that every document matches which
// the $match would let through. The $match itself stays in the pipeline.
#include "core/bson/builder.h"
#include "plugins/query-engine/stage_streaming.h"

namespace multifora {
namespace {

using enum BsonType;

bool mentions_expr(const ValueView& v) {
  if (v.type() != kObject && v.type() != kArray) return false;
  for (const Element& e : v.as_document())
    if (e.name() == "$expr" || mentions_expr(e.value())) return true;
  return false;
}

bool is_field_path(const ValueView& v) {
  return v.type() == kString && v.as_string().size() > 1 && v.as_string()[0] == '$' &&
         v.as_string()[1] != '$';
}

// Equality in an expression and in a filter say the same about these.
bool is_plain(BsonType type) {
  return is_number(type) || type == kString || type == kObjectId || type == kDate ||
         type == kBool || type == kBinData || type == kTimestamp;
}

// {$eq: ["$a", x]} with an x that depends on no document: {a: {$eq: value of x}}.
void append_equality(const ValueView& spec, PipelineContext& context, ArrayBuilder& out) {
  if (spec.type() != kArray || spec.as_document().count() != 2) return;
  auto it = spec.as_document().begin();
  ValueView path = it->value();
  ValueView other = (++it)->value();
  if (!is_field_path(path)) std::swap(path, other);
  if (!is_field_path(path)) return;
  const std::size_t mark = context.scope.mark();
  const Result<ExpressionPtr> parsed = parse_expression(other, context.scope);
  context.scope.release(mark);
  std::vector<std::string> paths;
  if (!parsed || !(*parsed)->add_dependencies(paths) || !paths.empty()) return;
  const Result<Value> value = (*parsed)->evaluate(context.eval);
  if (!value || !is_plain(value->type())) return;
  DocumentBuilder condition = out.object();
  condition.object(path.as_string().substr(1)).append("$eq", value->view());
}

void append_expression(const ValueView& spec, PipelineContext& context, ArrayBuilder& out) {
  if (spec.type() != kObject || spec.as_document().count() != 1) return;
  const Element only = spec.as_document().first();
  if (only.name() == "$eq") return append_equality(only.value(), context, out);
  if (only.name() != "$and" || only.type() != kArray) return;
  for (const Element& e : only->as_document()) append_expression(e.value(), context, out);
}

void append_pushable(DocumentView filter, PipelineContext& context, ArrayBuilder& out) {
  for (const Element& e : filter) {
    if (e.name() == "$expr") {
      append_expression(e.value(), context, out);
    } else if (e.name() == "$and" && e.type() == kArray) {
      for (const Element& sub : e->as_document())
        if (sub.type() == kObject) append_pushable(sub->as_document(), context, out);
    } else if (!mentions_expr(e.value())) {
      DocumentBuilder condition = out.object();
      condition.append(e);
    }
  }
}

}  // namespace

OwnedDocument pushable_filter(DocumentView filter, PipelineContext& context) {
  ArrayBuilder conditions;
  append_pushable(filter, context, conditions);
  const std::uint32_t n = conditions.count();
  const OwnedDocument all = std::move(conditions).finish();
  if (n == 0) return OwnedDocument();
  if (n == 1) return OwnedDocument(all.view().first()->as_document());
  DocumentBuilder out;
  out.append_array("$and", all.view());
  return std::move(out).finish();
}

}  // namespace multifora
