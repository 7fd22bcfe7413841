// What the fuzzers of the query language do with one input: filter, projections, sort and update of a
// document {d: document, f: filter, p: projection, a: $addFields, s: sort, u: update, x: arrayFilters,
// i: it is an insert}, run on its document. What comes out is valid BSON, an update that says
// "unchanged" changed nothing, and a filter's explanation is there where it does not match.
#pragma once

#include "core/bson/extended_json.h"
#include "core/bson/validate.h"
#include "plugins/query-engine/filter_compiler.h"
#include "plugins/query-engine/projection.h"
#include "plugins/query-engine/sort_key.h"
#include "plugins/query-engine/update.h"
#include "tests/fuzz/fuzz.h"

namespace multifora::fuzz {

inline DocumentView part(DocumentView input, std::string_view name) {
  const ValueView value = input[name];
  return value.type() == BsonType::kObject ? value.as_document() : DocumentView();
}

inline void run_projection(DocumentView spec, ProjectionKind kind, const Matcher* filter,
                    DocumentView document, const MatchDetails& details) {
  VariableScope scope;
  const auto projection = Projection::parse(spec, kind, filter, {}, scope);
  if (!projection) return;
  EvalContext context;
  Buffer out;
  if (!(*projection)->apply({document, &details}, context, out).ok()) return;
  FUZZ_CHECK(validate(out).has_value());
  std::vector<std::string> paths;
  (*projection)->add_dependencies(paths);
}

inline void run_update(DocumentView input, const MatchDetails& details) {
  const ValueView spec = input["u"];
  if (spec.type() != BsonType::kObject && spec.type() != BsonType::kArray) return;
  UpdateOptions options;
  if (input["x"].type() == BsonType::kArray) options.array_filters = input["x"].as_document();
  VariableScope scope;
  const auto update = Update::compile(spec, options, scope);
  if (!update) return;
  EvalContext context;
  UpdateInput what;
  what.document = part(input, "d");
  what.match = &details;
  what.is_insert = !input["i"].missing();
  Buffer out = "x";
  const auto changed = (*update)->apply(what, context, out);
  if (!changed) return;
  const Bytes made = Bytes(out).substr(1);
  FUZZ_CHECK(validate(made).has_value());
  if (!*changed && !what.is_insert && !(*update)->is_replacement())
    FUZZ_CHECK(made == what.document.bytes());
}

inline void run_query(DocumentView input) {
  const DocumentView document = part(input, "d");
  MatchDetails details;
  const auto matcher = Matcher::compile(part(input, "f"), {});
  if (matcher) {
    const auto found = (*matcher)->matches(document, nullptr, &details);
    DocumentBuilder out;
    (*matcher)->append_parsed(out, "q");
    const OwnedDocument parsed = std::move(out).finish();
    FUZZ_CHECK(validate(parsed.bytes()).has_value());
    const OwnedDocument why = explain_mismatch(**matcher, document);
    FUZZ_CHECK(validate(why.bytes()).has_value());
    if (found && !*found) FUZZ_CHECK(!why.view().empty());
    const auto seed = upsert_seed(**matcher, false);
    if (seed) FUZZ_CHECK(validate(seed->bytes()).has_value());
  }
  run_projection(part(input, "p"), ProjectionKind::kFind, matcher ? matcher->get() : nullptr,
                 document, details);
  run_projection(part(input, "a"), ProjectionKind::kAddFields, nullptr, document, details);
  const auto sort = SortPattern::parse(part(input, "s"));
  KeyStringBuilder key;
  if (sort && sort->natural() == 0) static_cast<void>(sort->append_key(document, nullptr, key));
  run_update(input, details);
}

}  // namespace multifora::fuzz
