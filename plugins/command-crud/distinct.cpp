// distinct: the different values of a field, arrays taken apart.
#include <deque>

#include "core/base/limits.h"
#include "core/bson/path.h"
#include "plugins/command-crud/commands.h"
#include "plugins/query-engine/value_set.h"

namespace multifora::crud {
namespace {

constexpr std::int32_t kTooBig = 17217;

// Values in the order in which they were first seen.
class DistinctValues {
 public:
  explicit DistinctValues(const Collator* collator) : seen_(collator) {}

  Status add(const ValueView& value) {
    if (seen_.contains(value)) return {};
    bytes_ += value.size_bytes() + 8;
    if (bytes_ > limits::kDocumentSizeMax)
      return {location_code(kTooBig), "distinct too big, 16mb cap"};
    kept_.push_back(Value(value).own());
    seen_.insert(kept_.back().view());
    return {};
  }

  // What `path` reaches in a document.
  Status add_document(DocumentView document, const FieldPath& path) {
    return walk(as_value(document), path, 0);
  }

  void append_to(DocumentBuilder& reply) const {
    ArrayBuilder values = reply.array("values");
    for (const Value& value : kept_) values.append(value.view());
  }

 private:
  // Unlike the matcher: a position takes that element of an array and nothing else.
  Status walk(const ValueView& value, const FieldPath& path, std::size_t at) {
    if (value.missing()) return {};
    if (at == path.size()) return add_or_unwind(value);
    if (value.type() == BsonType::kObject)
      return walk(value.as_document()[path.part(at)], path, at + 1);
    if (value.type() != BsonType::kArray) return {};
    if (path.index(at) >= 0) return walk(value.as_document()[path.part(at)], path, at + 1);
    for (const Element& element : value.as_document())
      if (element.type() == BsonType::kObject) MULTIFORA_TRY(walk(element.value(), path, at));
    return {};
  }

  Status add_or_unwind(const ValueView& value) {
    if (value.type() != BsonType::kArray) return add(value);
    for (const Element& element : value.as_document()) MULTIFORA_TRY(add(element.value()));
    return {};
  }

  std::deque<Value> kept_;  // never moves them
  ValueSet seen_;
  std::size_t bytes_ = 0;
};

Result<QueryArguments> arguments_of(const CommandRequest& request) {
  QueryArguments arguments;
  MULTIFORA_TRY_R(check_collection_name(request.collection()));
  const std::string_view key = request.option("key").as_string();
  if (key.find('\0') != std::string_view::npos)
    return fail(location_code(31032), "Key field cannot contain an embedded null byte");
  arguments.filter = request.document("query");
  arguments.hint = hint_of(request.option("hint"));
  MULTIFORA_TRY_R(check_hint(arguments.hint));
  arguments.collation = request.option("collation");
  return arguments;
}

// The scan's keys hold the values; only null needs a look at the document.
Status add_key(const Row& row, const PlanNode& plan, const CollectionView& view,
               const FieldPath& path, DistinctValues& values) {
  DocumentBuilder decoded;
  MULTIFORA_TRY(row.index->decode(row.key, row.type_bits, decoded));
  const OwnedDocument key = std::move(decoded).finish();
  std::size_t number = 0;
  for (const Element& field : key.view()) {
    if (number++ != plan.distinct_field) continue;
    if (!field->is_nullish()) return values.add(field.value());
    MULTIFORA_ASSIGN(const auto document, view.find(row.id));
    if (!document) return {};
    return values.add_document(*document, path);
  }
  return {};
}

Status collect(CommandContext& context, CompiledQuery& query, CollectionView& view,
               std::string_view key, DistinctValues& values) {
  const FieldPath path(key);
  query.request().distinct_field = key;
  MULTIFORA_ASSIGN(const auto executor, query.start(view, context.interrupt(),
                                                    context.store().temp_directory()));
  const bool by_keys = executor->plan().kind == PlanKind::kDistinctScan;
  Row row;
  while (true) {
    MULTIFORA_ASSIGN(const bool more, executor->next(row));
    if (!more) return {};
    if (by_keys)
      MULTIFORA_TRY(add_key(row, executor->plan(), view, path, values));
    else
      MULTIFORA_TRY(values.add_document(row.document, path));
  }
}

std::vector<OwnedDocument> stages_of(const QueryArguments& arguments) {
  std::vector<OwnedDocument> stages;
  if (arguments.filter.empty()) return stages;
  DocumentBuilder match;
  match.append("$match", arguments.filter);
  stages.push_back(std::move(match).finish());
  return stages;
}

void reply_values(const CommandContext& context, DistinctValues& values, DocumentBuilder& reply) {
  values.append_to(reply);
  if (context.snapshot_time != 0) reply.append_timestamp("atClusterTime", context.snapshot_time);
}

Status distinct_of_view(CommandContext& context, const CommandRequest& request,
                        const QueryArguments& arguments, DocumentBuilder& reply) {
  const auto stages = stages_of(arguments);
  MULTIFORA_ASSIGN(auto run, open_on_view(context, request, arguments, stages));
  DistinctValues values(run->context().collator.get());
  const FieldPath path(request.option("key").as_string());
  while (true) {
    MULTIFORA_ASSIGN(const auto document, run->next());
    if (!document) break;
    MULTIFORA_TRY(values.add_document(*document, path));
  }
  MULTIFORA_TRY(run->detach());
  reply_values(context, values, reply);
  return {};
}

Status distinct(CommandContext& context, const CommandRequest& request, DocumentBuilder& reply) {
  MULTIFORA_ASSIGN(const QueryArguments arguments, arguments_of(request));
  MULTIFORA_ASSIGN(auto view, context.store().read(request.ns()));
  if (view && view->info().is_view) {
    view.reset();
    return distinct_of_view(context, request, arguments, reply);
  }
  MULTIFORA_ASSIGN(const auto query,
                   CompiledQuery::compile(QueryEnvironment::of(context),
                                          view ? &view->info() : nullptr, arguments));
  DistinctValues values(query->collator());
  if (view)
    MULTIFORA_TRY(collect(context, *query, *view, request.option("key").as_string(), values));
  reply_values(context, values, reply);
  return {};
}

}  // namespace

Status explain_distinct(CommandContext& context, const CommandRequest& request,
                        ExplainVerbosity verbosity, DocumentBuilder& reply) {
  MULTIFORA_ASSIGN(const QueryArguments arguments, arguments_of(request));
  const auto info = context.store().info(request.ns());
  if (info && info->is_view)
    return explain_view(context, request, stages_of(arguments), verbosity, reply);
  MULTIFORA_ASSIGN(auto query, CompiledQuery::compile(QueryEnvironment::of(context), info.get(),
                                                      arguments));
  query->request().distinct_field = request.option("key").as_string();
  return explain_query(context, request, request.ns(), std::move(query), verbosity, "", reply);
}

const CommandRow kDistinct{
    .name = "distinct",
    .aliases = {},
    .help = "the different values of a field",
    .privilege = "find",
    .lock = LockIntent::kRead,
    .flags = kAllowedInTransaction | kAcceptsReadConcern | kCollectionName,
    .options =
        {
            {"key", kOptString, kRequired},
            {"query", kOptObject},
            {"hint", kOptString | kOptObject},
            {"collation", kOptObject},
            {"collectionUUID", kOptAny, kUnsupported},
        },
    .run = distinct,
};

}  // namespace multifora::crud
