// Filters, projections, sorts and updates from foreign BSON, run on a foreign document: a document
// {d: document, f: filter, p: projection, a: $addFields, s: sort, u: update, x: arrayFilters}. What
// comes out is valid BSON, an update that says "unchanged" changed nothing, and a filter's
// explanation is there where it does not match.
#include "core/bson/extended_json.h"
#include "core/bson/validate.h"
#include "plugins/query-engine/filter_compiler.h"
#include "plugins/query-engine/projection.h"
#include "plugins/query-engine/sort_key.h"
#include "plugins/query-engine/update.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/random_bson.h"

namespace {

using namespace multifora;

DocumentView part(DocumentView input, std::string_view name) {
  const ValueView value = input[name];
  return value.type() == BsonType::kObject ? value.as_document() : DocumentView();
}

void run_projection(DocumentView spec, ProjectionKind kind, const Matcher* filter,
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

void run_update(DocumentView input, const MatchDetails& details) {
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

}  // namespace

std::vector<std::string> multifora::fuzz::seeds() {
  const char* const texts[] = {
      R"({"d":{"_id":1,"a":[1,2,{"b":3}]},"f":{"a":{"$gt":1,"$ne":7}},"p":{"a.$":1},"u":{"$set":{"a.$":5}}})",
      R"({"d":{"_id":1,"a":{"b":"text"}},"f":{"$or":[{"a.b":{"$in":["x",null]}},{"a":{"$exists":true}}]},"p":{"a":{"b":1},"c":{"$add":[1,"$x"]}},"u":{"$push":{"l":{"$each":[3,1],"$sort":1,"$slice":-2}},"$inc":{"n":1},"$rename":{"a.b":"z"}}})",
      R"({"d":{"_id":1,"a":[[1],[2,{"b":[4]}]]},"f":{"a":{"$elemMatch":{"$elemMatch":{"b":4}}}},"s":{"a.0":1,"a.b":-1},"a":{"a.c":"$$ROOT"},"u":{"$inc":{"a.$[].$[e]":1}},"x":[{"e":{"$gt":0}}]})",
      R"({"d":{"a":1},"f":{"$jsonSchema":{"required":["a"],"properties":{"a":{"bsonType":["int","string"],"minimum":2,"enum":[1,2]}},"additionalProperties":false}},"u":[{"$set":{"b":{"$concat":["a","b"]}}},{"$unset":"a"}],"i":1})",
      R"({"d":{"a":"abc","m":7},"f":{"a":{"$not":{"$regularExpression":{"pattern":"^b|c$","options":"i"}}},"m":{"$mod":[2,1],"$bitsAllSet":[0,1],"$type":["int","long"]},"$nor":[{"x":{"$size":1}}]},"p":{"a":{"$slice":[1,2]},"m":{"$elemMatch":{"$gt":1}}},"u":{"$bit":{"m":{"xor":3}},"$pull":{"l":{"$lt":3}},"$addToSet":{"l":{"$each":[1,1]}},"$min":{"q":1},"$currentDate":{"t":true}}})",
  };
  std::vector<std::string> seeds;
  for (const char* text : texts) {
    const auto parsed = from_extended_json(text);
    if (parsed) seeds.push_back(parsed->bytes());
  }
  test::RandomBson random(1);
  for (int i = 0; i < 100; ++i) {
    DocumentBuilder input;
    for (const char* name : {"d", "f", "p", "s", "u"}) {
      const OwnedDocument document = random.document(3);
      input.append(name, document.view());
    }
    seeds.push_back(std::move(input).finish().take());
  }
  return seeds;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto input = validate({reinterpret_cast<const char*>(data), size});
  if (!input) return 0;
  const DocumentView document = part(*input, "d");
  MatchDetails details;
  const auto matcher = Matcher::compile(part(*input, "f"), {});
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
  run_projection(part(*input, "p"), ProjectionKind::kFind, matcher ? matcher->get() : nullptr,
                 document, details);
  run_projection(part(*input, "a"), ProjectionKind::kAddFields, nullptr, document, details);
  const auto sort = SortPattern::parse(part(*input, "s"));
  KeyStringBuilder key;
  if (sort && sort->natural() == 0) static_cast<void>(sort->append_key(document, nullptr, key));
  run_update(*input, details);
  return 0;
}
