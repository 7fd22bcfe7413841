// $literal, $const, $rand, $meta, $binarySize, $bsonSize, $subtype, $createObjectId, hashes, Extended
// JSON, vector similarity; and the operators that are not offered.
#include <cmath>
#include <random>

#include <fmt/format.h>
#include <openssl/evp.h>
#include <xxhash.h>

#include "core/bson/extended_json.h"
#include "plugins/query-engine/base64.h"
#include "plugins/query-engine/expression_table.h"
#include "plugins/query-engine/numeric.h"
#include "plugins/query-engine/text.h"

namespace multifora {
namespace {

using enum BsonType;

Result<ExpressionPtr> parse_literal(const OperatorRow&, const ValueView& spec, VariableScope&) {
  return make_constant(Value(spec).own());
}

// ---------------------------------------------------------------- no arguments

Result<ExpressionPtr> parse_rand(const OperatorRow& row, const ValueView& spec, VariableScope&) {
  const bool empty = (spec.type() == kObject || spec.type() == kArray) && spec.as_document().empty();
  if (!empty) return fail_code(3040501, fmt::format("{} does not currently accept arguments", row.name));
  return std::make_unique<Node>(row, std::vector<ExpressionPtr>());
}
Result<Value> random_number(Args, EvalContext&) {
  thread_local std::mt19937_64 generator{std::random_device{}()};
  return Value::of(std::uniform_real_distribution<double>(0, 1)(generator));
}
Result<Value> create_object_id(Args, EvalContext&) { return Value::of(ObjectId::generate()); }

// ---------------------------------------------------------------- $meta

Result<ExpressionPtr> parse_meta(const OperatorRow& row, const ValueView& spec, VariableScope&) {
  if (spec.type() != kString)
    return fail_code(17307, fmt::format("$meta only supports string arguments, but was {}", type_text(spec)));
  static constexpr std::string_view kNames[] = {
      "textScore", "randVal", "searchScore", "searchHighlights", "geoNearDistance", "geoNearPoint",
      "indexKey", "recordId", "sortKey", "searchScoreDetails", "searchSequenceToken", "vectorSearchScore",
      "score", "scoreDetails", "stream", "timeseriesBucketMinTime", "timeseriesBucketMaxTime"};
  bool known = false;
  for (const std::string_view n : kNames) known = known || n == spec.as_string();
  if (!known) return fail_code(17308, fmt::format("Unsupported argument to $meta: {}", spec.as_string()));
  if (spec.as_string() == "textScore")
    return fail_code(40218, "query requires text score metadata, but it is not available");
  std::vector<ExpressionPtr> args;
  args.push_back(make_constant(Value(spec).own()));
  auto node = std::make_unique<Node>(row, std::move(args));
  node->set_spec(spec);
  return node;
}
// No source of documents here carries metadata.
Result<Value> meta(Args, EvalContext&) { return Value(); }

// ---------------------------------------------------------------- sizes

Result<Value> binary_size(Args args, EvalContext&) {
  const ValueView a = args[0].view();
  if (a.is_nullish()) return Value::null();
  if (a.type() == kString) return Value::of(static_cast<std::int32_t>(a.as_string().size()));
  if (a.type() == kBinData) return Value::of(static_cast<std::int32_t>(a.binary_bytes().size()));
  return fail_code(51276, fmt::format("$binarySize requires a string or BinData argument, found: {}",
                                      type_text(a)));
}
Result<Value> bson_size(Args args, EvalContext&) {
  const ValueView a = args[0].view();
  if (a.is_nullish()) return Value::null();
  if (a.type() != kObject)
    return fail_code(31393, fmt::format("$bsonSize requires a document input, found: {}", type_text(a)));
  return Value::of(static_cast<std::int32_t>(a.size_bytes()));
}
Result<Value> subtype(Args args, EvalContext&) {
  const ValueView a = args[0].view();
  if (a.is_nullish()) return Value::null();
  if (a.type() != kBinData)
    return fail(ErrorCode::kTypeMismatch, fmt::format("$subtype requires a BinData argument, found: {}", type_text(a)));
  return Value::of(std::int32_t{a.binary_subtype()});
}

// ---------------------------------------------------------------- hashes

std::string digest(const EVP_MD* algorithm, std::string_view bytes) {
  unsigned char out[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  EVP_Digest(bytes.data(), bytes.size(), out, &size, algorithm, nullptr);
  return {reinterpret_cast<const char*>(out), size};
}

void append_hashed(Buffer& out, std::string_view name, const ValueView& v, bool with_name) {
  append_le(out, static_cast<std::int32_t>(canonical_type(v.type())));
  if (with_name) out.append(name).push_back('\0');
  if (v.type() == kObject || v.type() == kArray) {
    for (const Element& e : v.as_document()) append_hashed(out, e.name(), e.value(), true);
    append_hashed(out, "", ValueView(), true);
  } else if (v.is_number()) {
    append_le(out, v.number_as_int64());
  } else {
    out.append(v.bytes());
  }
}

// The hash of hashed indexes: the first half of the MD5 of a seed, type, and value.
Result<Value> to_hashed_index_key(Args args, EvalContext&) {
  Buffer bytes;
  append_le(bytes, std::int32_t{0});
  static constexpr char kNothing = 0;
  const ValueView v = args[0].missing() ? ValueView(kNull, &kNothing, 0) : args[0].view();
  append_hashed(bytes, "", v, false);
  return Value::of(load_le<std::int64_t>(digest(EVP_md5(), bytes).data()));
}

constexpr Param kHashParams[] = {{"input", 40414}, {"algorithm", 40414}};
constexpr NamedParams kHashNamed{kHashParams, 10754000, 40415};

Result<std::string> hash_bytes(std::string_view op, Args args) {
  const ValueView input = args[0].view();
  if (args[1].type() != kString)
    return fail(ErrorCode::kTypeMismatch, fmt::format("{} requires 'algorithm' to be a string", op));
  if (input.type() != kString && input.type() != kBinData)
    return fail(ErrorCode::kTypeMismatch, fmt::format("{} requires 'input' to be a string or BinData, found: {}",
                                                      op, type_text(input)));
  const std::string_view bytes = input.type() == kString ? input.as_string() : input.binary_bytes();
  const std::string_view algorithm = args[1].view().as_string();
  if (algorithm == "sha256") return digest(EVP_sha256(), bytes);
  if (algorithm == "md5") return digest(EVP_md5(), bytes);
  if (algorithm == "xxh64") {
    Buffer out;
    append_be(out, static_cast<std::uint64_t>(XXH64(bytes.data(), bytes.size(), 0)));
    return out;
  }
  return fail(ErrorCode::kBadValue, fmt::format("{}: unknown algorithm '{}'", op, algorithm));
}
Result<Value> hash(Args args, EvalContext&) {
  if (args[0].nullish()) return Value::null();
  MULTIFORA_ASSIGN_R(const std::string bytes, hash_bytes("$hash", args));
  return Value::binary(bytes, 0);
}
Result<Value> hex_hash(Args args, EvalContext&) {
  if (args[0].nullish()) return Value::null();
  MULTIFORA_ASSIGN_R(const std::string bytes, hash_bytes("$hexHash", args));
  return Value::string(ascii_upper(hex_text(bytes)));
}

// ---------------------------------------------------------------- Extended JSON

constexpr Param kSerializeParams[] = {{"input", 40414}, {"relaxed"}, {"onError"}};
constexpr NamedParams kSerializeNamed{kSerializeParams, 10754100, 40415};
constexpr Param kDeserializeParams[] = {{"input", 40414}, {"onError"}};
constexpr NamedParams kDeserializeNamed{kDeserializeParams, 10754101, 40415};

Result<Value> serialize_ejson(const Node& node, EvalContext& context) {
  MULTIFORA_ASSIGN_R(const Value input, node.eval(0, context));
  MULTIFORA_ASSIGN_R(const Value relaxed, node.eval(1, context));
  if (input.missing()) return Value();
  DocumentBuilder out;
  append_extended_json(out, "v", input.view(),
                       relaxed.view().truthy() ? JsonMode::kRelaxed : JsonMode::kCanonical);
  const OwnedDocument d = std::move(out).finish();
  return Value(d.view()["v"]).own();
}

Result<Value> deserialize_ejson(const Node& node, EvalContext& context) {
  MULTIFORA_ASSIGN_R(const Value input, node.eval(0, context));
  if (input.nullish()) return Value::null();
  DocumentBuilder out;
  out.append("v", input.view());
  const OwnedDocument wrapped = std::move(out).finish();
  // Relaxed JSON writes wrappers and plain values as they are; reading it back gives the wrappers
  // their meaning.
  const Result<OwnedDocument> parsed = from_extended_json(to_extended_json(wrapped.view()));
  if (parsed) return Value(parsed->view()["v"]).own();
  if (node.has(1)) return node.eval(1, context);
  return fail(ErrorCode::kConversionFailure, fmt::format("$deserializeEJSON: {}", parsed.error().message()));
}

// ---------------------------------------------------------------- similarity of vectors

constexpr Param kSimilarityParams[] = {{"vectors", 40414}, {"score"}};
constexpr NamedParams kSimilarityNamed{kSimilarityParams, 10413200, 40415};

// {$similarityX: [a, b]} or {$similarityX: {vectors: [a, b], score: bool}}. Arguments: a, b, score.
Result<ExpressionPtr> parse_similarity(const OperatorRow& row, const ValueView& spec, VariableScope& scope) {
  ValueView vectors = spec;
  bool score = false;
  if (spec.type() == kObject) {
    MULTIFORA_ASSIGN_R(const std::vector<ValueView> v, named_arguments(row, kSimilarityNamed, spec));
    vectors = v[0];
    if (!v[1].missing() && v[1].type() != kBool)
      return fail(ErrorCode::kTypeMismatch, fmt::format("{}: 'score' must be a bool", row.name));
    score = !v[1].missing() && v[1].as_bool();
  }
  if (vectors.type() != kArray || vectors.as_document().count() != 2)
    return fail_code(16020, fmt::format("Expression {} takes exactly 2 arguments.", row.name));
  std::vector<ExpressionPtr> args;
  for (const Element& e : vectors.as_document()) {
    MULTIFORA_ASSIGN_R(ExpressionPtr parsed, parse_expression(e.value(), scope));
    args.push_back(std::move(parsed));
  }
  args.push_back(make_constant(Value::of(score)));
  auto node = std::make_unique<Node>(row, std::move(args));
  node->set_spec(spec);
  return fold(std::move(node), scope);
}

Result<std::vector<double>> vector_of(std::string_view op, const ValueView& v) {
  std::vector<double> out;
  if (v.type() != kArray)
    return fail(ErrorCode::kTypeMismatch, fmt::format("{} requires arrays of numbers, found: {}", op, type_text(v)));
  for (const Element& e : v.as_document()) {
    if (!e->is_number())
      return fail(ErrorCode::kTypeMismatch,
                  fmt::format("{} requires arrays of numbers, found: {}", op, type_text(e.value())));
    out.push_back(e->number_as_double());
  }
  return out;
}

using Similarity = double (*)(const std::vector<double>& a, const std::vector<double>& b, bool score);

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}
double dot_product(const std::vector<double>& a, const std::vector<double>& b, bool score) {
  return score ? (1 + dot(a, b)) / 2 : dot(a, b);
}
double cosine(const std::vector<double>& a, const std::vector<double>& b, bool score) {
  const double length = std::sqrt(dot(a, a)) * std::sqrt(dot(b, b));
  const double c = length == 0 ? 0 : dot(a, b) / length;
  return score ? (1 + c) / 2 : c;
}
double euclidean(const std::vector<double>& a, const std::vector<double>& b, bool score) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return score ? 1 / (1 + std::sqrt(sum)) : std::sqrt(sum);
}

Result<Value> similarity(std::string_view op, Similarity f, Args args) {
  if (args[0].nullish() || args[1].nullish()) return Value::null();
  MULTIFORA_ASSIGN_R(const std::vector<double> a, vector_of(op, args[0].view()));
  MULTIFORA_ASSIGN_R(const std::vector<double> b, vector_of(op, args[1].view()));
  if (a.size() != b.size())
    return fail(ErrorCode::kBadValue, fmt::format("{} requires vectors of the same length", op));
  return Value::of(f(a, b, args[2].view().as_bool()));
}
Result<Value> similarity_cosine(Args a, EvalContext&) { return similarity("$similarityCosine", cosine, a); }
Result<Value> similarity_dot(Args a, EvalContext&) { return similarity("$similarityDotProduct", dot_product, a); }
Result<Value> similarity_euclidean(Args a, EvalContext&) {
  return similarity("$similarityEuclidean", euclidean, a);
}

// ---------------------------------------------------------------- not offered

Result<ExpressionPtr> parse_no_script(const OperatorRow& row, const ValueView&, VariableScope&) {
  return fail_code(31264, fmt::format("{} requires the server's JavaScript engine, which is disabled", row.name));
}
Result<ExpressionPtr> parse_no_encryption(const OperatorRow& row, const ValueView&, VariableScope&) {
  return fail(ErrorCode::kCommandNotSupported, fmt::format("{} is not supported by this server", row.name));
}

constexpr OperatorRow kRows[] = {
    {.name = "$const", .parse = parse_literal},
    {.name = "$literal", .parse = parse_literal},
    {.name = "$rand", .strict = random_number, .parse = parse_rand, .flags = kNoFold},
    {.name = "$createObjectId", .strict = create_object_id, .parse = parse_rand, .flags = kNoFold},
    {.name = "$meta", .strict = meta, .parse = parse_meta, .flags = kNoFold},
    {.name = "$binarySize", .min_args = 1, .max_args = 1, .strict = binary_size},
    {.name = "$bsonSize", .min_args = 1, .max_args = 1, .strict = bson_size},
    {.name = "$subtype", .min_args = 1, .max_args = 1, .strict = subtype},
    {.name = "$toHashedIndexKey", .min_args = 1, .max_args = 1, .strict = to_hashed_index_key},
    {.name = "$hash", .named = &kHashNamed, .strict = hash},
    {.name = "$hexHash", .named = &kHashNamed, .strict = hex_hash},
    {.name = "$serializeEJSON", .named = &kSerializeNamed, .lazy = serialize_ejson},
    {.name = "$deserializeEJSON", .named = &kDeserializeNamed, .lazy = deserialize_ejson},
    {.name = "$similarityCosine", .strict = similarity_cosine, .parse = parse_similarity},
    {.name = "$similarityDotProduct", .strict = similarity_dot, .parse = parse_similarity},
    {.name = "$similarityEuclidean", .strict = similarity_euclidean, .parse = parse_similarity},
    {.name = "$function", .parse = parse_no_script},
    {.name = "$encStrContains", .parse = parse_no_encryption},
    {.name = "$encStrEndsWith", .parse = parse_no_encryption},
    {.name = "$encStrNormalizedEq", .parse = parse_no_encryption},
    {.name = "$encStrStartsWith", .parse = parse_no_encryption},
};

}  // namespace

std::span<const OperatorRow> misc_operators() { return kRows; }

}  // namespace multifora
