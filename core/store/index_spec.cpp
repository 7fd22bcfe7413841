#include "core/store/index_spec.h"

#include <cmath>
#include <unordered_set>

#include "core/base/limits.h"
#include "core/bson/builder.h"
#include "core/bson/compare.h"
#include "core/bson/extended_json.h"
#include "core/plugin/host.h"
#include "core/store/collection.h"

namespace multifora {
namespace {

Status cannot_create(std::string message) {
  return {ErrorCode::kCannotCreateIndex, std::move(message)};
}

// Options that MongoDB 8.0 knows, with the types it takes; kind-specific ones are checked by kinds.
struct KnownOption {
  std::string_view name;
  enum Type { kNumber, kBoolish, kString, kObject } type;
};
constexpr KnownOption kKnownOptions[] = {
    {"v", KnownOption::kNumber},
    {"unique", KnownOption::kBoolish},
    {"sparse", KnownOption::kBoolish},
    {"background", KnownOption::kBoolish},
    {"hidden", KnownOption::kBoolish},
    {"prepareUnique", KnownOption::kBoolish},
    {"clustered", KnownOption::kBoolish},
    {"expireAfterSeconds", KnownOption::kNumber},
    {"partialFilterExpression", KnownOption::kObject},
    {"collation", KnownOption::kObject},
    {"storageEngine", KnownOption::kObject},
    {"weights", KnownOption::kObject},
    {"default_language", KnownOption::kString},
    {"language_override", KnownOption::kString},
    {"textIndexVersion", KnownOption::kNumber},
    {"2dsphereIndexVersion", KnownOption::kNumber},
    {"bits", KnownOption::kNumber},
    {"min", KnownOption::kNumber},
    {"max", KnownOption::kNumber},
    {"bucketSize", KnownOption::kNumber},
    {"wildcardProjection", KnownOption::kObject},
    {"dropDups", KnownOption::kBoolish},
    {"ns", KnownOption::kString},
};

bool has_type(const ValueView& value, KnownOption::Type type) {
  switch (type) {
    case KnownOption::kNumber:
      return value.is_number();
    case KnownOption::kBoolish:
      return value.is_number() || value.type() == BsonType::kBool;
    case KnownOption::kString:
      return value.type() == BsonType::kString;
    case KnownOption::kObject:
      return value.type() == BsonType::kObject;
  }
  return false;
}

Status check_options(DocumentView spec) {
  for (const Element& field : spec) {
    if (field.name() == "key" || field.name() == "name") continue;
    const KnownOption* known = nullptr;
    for (const KnownOption& option : kKnownOptions)
      if (option.name == field.name()) known = &option;
    if (known == nullptr)
      return {ErrorCode::kInvalidIndexSpecificationOption,
              "The field '" + std::string(field.name()) +
                  "' is not valid for an index specification. Specification: " +
                  to_extended_json(spec)};
    if (!has_type(field.value(), known->type))
      return {ErrorCode::kTypeMismatch, "The field '" + std::string(field.name()) +
                                            "' of an index specification has the wrong type " +
                                            std::string(type_name(field.type()))};
  }
  const ValueView version = spec["v"];
  if (!version.missing()) {
    const std::int64_t v = version.number_as_int64();
    if (v != 1 && v != 2)
      return cannot_create("Invalid index specification " + to_extended_json(spec) +
                           "; cannot create an index with v=" + std::to_string(v));
  }
  return {};
}

Status check_path(std::string_view path) {
  if (path.empty()) return cannot_create("Index keys cannot be an empty field.");
  if (path.find('\0') != std::string_view::npos)
    return cannot_create("Index keys cannot contain null bytes");
  std::size_t start = 0;
  while (start <= path.size()) {
    const std::size_t dot = std::min(path.find('.', start), path.size());
    const std::string_view part = path.substr(start, dot - start);
    if (part.empty()) return cannot_create("Index keys cannot contain an empty field.");
    const bool reference = part == "$id" || part == "$ref" || part == "$db";
    const bool wildcard = part == "$**" && dot == path.size();
    if (part.front() == '$' && !wildcard && !(reference && start > 0))
      return cannot_create("Index key contains an illegal field name: field name starts with '$'.");
    start = dot + 1;
  }
  return {};
}

Status check_direction(const Element& field) {
  if (field.type() == BsonType::kString) {
    if (field->as_string().empty())
      return cannot_create("Values in the index key pattern cannot be empty strings");
    return {};
  }
  if (!field->is_number())
    return cannot_create("Values in v:2 index key pattern cannot be of type " +
                         std::string(type_name(field.type())) +
                         ". Only numbers > 0, numbers < 0, and strings are allowed.");
  const double direction = field->number_as_double();
  if (direction == 0 || std::isnan(direction))
    return cannot_create(
        "Values in the index key pattern must be greater than or less than zero, not " +
        to_extended_json(field.value()));
  return {};
}

Status check_key(DocumentView key) {
  if (key.empty()) return cannot_create("Index keys cannot be an empty object");
  std::unordered_set<std::string_view> seen;
  for (const Element& field : key) {
    MULTIFORA_TRY(check_path(field.name()));
    MULTIFORA_TRY(check_direction(field));
    if (!seen.insert(field.name()).second)
      return {ErrorCode::kBadValue,
              "The field '" + std::string(field.name()) + "' appears multiple times in the key"};
  }
  if (seen.size() > limits::kIndexFieldsMax)
    return {location_code(13103), "too many compound keys"};
  return {};
}

std::string default_name(DocumentView key) {
  std::string name;
  for (const Element& field : key) {
    if (!name.empty()) name += '_';
    name += std::string(field.name()) + '_';
    name += field.type() == BsonType::kString ? std::string(field->as_string())
                                              : std::to_string(field->number_as_int64());
  }
  return name;
}

Result<std::string> check_name(DocumentView spec, bool is_id) {
  const ValueView name = spec["name"];
  if (name.missing()) return default_name(spec["key"].as_document());
  if (name.type() != BsonType::kString)
    return fail(ErrorCode::kTypeMismatch, "The field 'name' must be a string, but got " +
                                              std::string(type_name(name.type())));
  const std::string text(name.as_string());
  if (is_id) return std::string("_id_");
  if (text.empty()) return fail(cannot_create("index name cannot be empty"));
  if (text == "*")
    return fail(ErrorCode::kBadValue, "The index name '*' is not valid.");
  if (text.find('\0') != std::string::npos)
    return fail(cannot_create("index name cannot contain null bytes"));
  if (text == "_id_")
    return fail(ErrorCode::kBadValue,
                "The index name '_id_' is reserved for the _id index, which must have key pattern "
                "{_id: 1}, found key: " + to_extended_json(spec["key"].as_document()));
  return text;
}

bool is_id_pattern(DocumentView key) {
  if (key.count() != 1) return false;
  const Element only = key.first();
  return only.name() == "_id" && only->is_number() && only->number_as_double() > 0;
}

Status check_id_options(DocumentView spec) {
  for (const Element& field : spec) {
    const std::string_view name = field.name();
    if (name == "key" || name == "name" || name == "v" || name == "ns" || name == "collation" ||
        name == "clustered" || name == "background" || name == "hidden")
      continue;
    if (name == "unique" && field->truthy()) continue;
    return {ErrorCode::kInvalidIndexSpecificationOption,
            "The field '" + std::string(name) +
                "' is not valid for an _id index specification. Specification: " +
                to_extended_json(spec)};
  }
  if (spec["hidden"].truthy()) return {ErrorCode::kBadValue, "can't hide _id index"};
  return {};
}

// The operators that a partial filter may use, as MongoDB allows them.
Status check_partial_filter(DocumentView filter) {
  for (const Element& field : filter) {
    const std::string_view name = field.name();
    if (name == "$and" || name == "$or") {
      if (field.type() != BsonType::kArray) continue;  // the compiler reports it
      for (const Element& part : field->as_document())
        if (part.type() == BsonType::kObject)
          MULTIFORA_TRY(check_partial_filter(part->as_document()));
      continue;
    }
    if (name.starts_with('$'))
      return cannot_create("Expression not supported in partial index: " + std::string(name));
    if (field.type() == BsonType::kRegex)
      return cannot_create("Expression not supported in partial index: $regex");
    if (field.type() != BsonType::kObject) continue;
    for (const Element& condition : field->as_document()) {
      const std::string_view op = condition.name();
      if (!op.starts_with('$')) break;
      const bool allowed = op == "$eq" || op == "$lt" || op == "$lte" || op == "$gt" ||
                           op == "$gte" || op == "$type" || op == "$in" ||
                           (op == "$exists" && condition->truthy()) || op == "$_internalExprEq";
      if (!allowed)
        return cannot_create("Expression not supported in partial index: " + std::string(op));
    }
  }
  return {};
}

Result<std::shared_ptr<const CompiledFilter>> compile_partial(const PluginHost& host,
                                                              DocumentView filter,
                                                              const Collator* collator) {
  const FilterCompiler* compiler = host.filter_compiler();
  if (compiler == nullptr)
    return fail(ErrorCode::kCannotCreateIndex,
                "partial indexes need the plugin query-engine, which is not loaded");
  MULTIFORA_ASSIGN_R(auto compiled, compiler->compile(filter, collator));
  return std::shared_ptr<const CompiledFilter>(std::move(compiled));
}

Result<std::shared_ptr<const Collator>> make_collator(const PluginHost& host, DocumentView spec) {
  const CollatorFactory* factory = host.collator_factory();
  if (factory == nullptr)
    return fail(ErrorCode::kCommandNotSupported,
                "collations need the plugin collation-icu, which is not loaded");
  return factory->make(spec);
}

Status no_kind(DocumentView spec) {
  for (const Element& field : spec["key"].as_document())
    if (field.type() == BsonType::kString)
      return cannot_create("Unknown index plugin '" + std::string(field->as_string()) +
                           "': no loaded plugin offers that kind of index");
  if (!spec["expireAfterSeconds"].missing())
    return cannot_create(
        "no loaded plugin offers indexes with 'expireAfterSeconds'; load the plugin index-ttl");
  return cannot_create(
      "no loaded plugin offers an ordered index; load the plugin index-btree");
}

}  // namespace

OwnedDocument id_index_spec(const CollectionInfo& info) {
  DocumentBuilder spec;
  spec.append("v", 2);
  spec.object("key").append("_id", 1);
  spec.append("name", "_id_");
  if (info.collator) spec.append("collation", info.collator->spec());
  return std::move(spec).finish();
}

Result<NormalizedIndexSpec> normalize_index_spec(const PluginHost& host, const CollectionInfo& info,
                                                 DocumentView spec) {
  const ValueView key = spec["key"];
  if (key.missing())
    return fail(ErrorCode::kFailedToParse,
                "The 'key' field is a required property of an index specification");
  if (key.type() != BsonType::kObject)
    return fail(ErrorCode::kTypeMismatch, "The field 'key' must be an object, but got " +
                                              std::string(type_name(key.type())));
  MULTIFORA_TRY_R(check_options(spec));
  MULTIFORA_TRY_R(check_key(key.as_document()));
  const bool is_id = is_id_pattern(key.as_document());
  MULTIFORA_ASSIGN_R(const std::string name, check_name(spec, is_id));
  if (is_id) MULTIFORA_TRY_R(check_id_options(spec));

  DocumentBuilder out;
  out.append("v", spec["v"].missing() ? 2 : static_cast<std::int32_t>(spec["v"].number_as_int64()));
  out.append("key", key.as_document());
  out.append("name", name);
  for (const Element& field : spec) {
    const std::string_view option = field.name();
    if (option == "v" || option == "key" || option == "name" || option == "ns" ||
        option == "background" || option == "collation" || option == "dropDups" ||
        option == "storageEngine" || (is_id && option == "unique"))
      continue;
    const bool flag = option == "unique" || option == "sparse" || option == "hidden" ||
                      option == "prepareUnique" || option == "clustered";
    if (!flag)
      out.append(field);
    else if (field->truthy())
      out.append(option, true);
  }
  std::shared_ptr<const Collator> collator = info.collator;
  if (const ValueView collation = spec["collation"]; !collation.missing() && !is_id) {
    const ValueView locale = collation.as_document()["locale"];
    const bool simple = locale.type() == BsonType::kString && locale.as_string() == "simple";
    collator = nullptr;
    if (!simple) {
      MULTIFORA_ASSIGN_R(collator, make_collator(host, collation.as_document()));
    }
  }
  if (collator) out.append("collation", collator->spec());
  OwnedDocument general = std::move(out).finish();

  if (const ValueView filter = spec["partialFilterExpression"]; !filter.missing()) {
    if (spec["sparse"].truthy())
      return fail(cannot_create("cannot mix \"partialFilterExpression\" and \"sparse\" options"));
    MULTIFORA_TRY_R(check_partial_filter(filter.as_document()));
    MULTIFORA_TRY_R(
        status_of(compile_partial(host, filter.as_document(), collator.get())));
  }
  NormalizedIndexSpec normalized;
  normalized.kind = host.choose_index_kind(general.view());
  if (normalized.kind == nullptr) return fail(no_kind(general.view()));
  MULTIFORA_ASSIGN_R(normalized.spec, normalized.kind->normalize(host, general.view()));
  for (const std::string_view option : {"unique", "prepareUnique"})
    if (spec[option].truthy() && (normalized.kind->capabilities & kIndexUnique) == 0)
      return fail(cannot_create("Index type '" + std::string(normalized.kind->name) +
                                "' does not support the " + std::string(option) + " option"));
  return normalized;
}

Result<IndexSpecRelation> relate_index_specs(DocumentView existing, DocumentView wanted) {
  const auto same = [&](std::string_view field) {
    return equal_values(existing[field], wanted[field]);
  };
  const bool same_name = same("name");
  const bool same_key = compare_documents(existing["key"].as_document(),
                                          wanted["key"].as_document()) == 0;
  // Indexes of one key pattern may stand side by side if these differ.
  const bool same_signature = same_key && same("collation") && same("partialFilterExpression") &&
                              same("unique") && same("sparse") && same("wildcardProjection");
  const bool same_options = same("unique") && same("sparse") && same("expireAfterSeconds") &&
                            same("partialFilterExpression") && same("collation") &&
                            same("weights") && same("default_language") &&
                            same("language_override") && same("bits") && same("min") &&
                            same("max");
  const std::string name(existing["name"].as_string());
  if (same_name) {
    if (same_key && same_options) return IndexSpecRelation::kSame;
    const bool only_options = same_signature;
    return fail(only_options ? ErrorCode::kIndexOptionsConflict : ErrorCode::kIndexKeySpecsConflict,
                (only_options ? "An equivalent index already exists with the same name but "
                                "different options. Requested index: "
                              : "An existing index has the same name as the requested index. When "
                                "index names are not specified, they are auto generated and can "
                                "cause conflicts. Please refer to our documentation. Requested "
                                "index: ") +
                    to_extended_json(wanted) + ", existing index: " + to_extended_json(existing));
  }
  if (!same_signature) return IndexSpecRelation::kDifferent;
  if (existing["key"].as_document().first().name() == "_id" && name == "_id_")
    return IndexSpecRelation::kSame;
  return fail(ErrorCode::kIndexOptionsConflict,
              (same_options ? "Index already exists with a different name: "
                            : "An equivalent index already exists with a different name and "
                              "options. Existing index: ") +
                  (same_options ? name : to_extended_json(existing)));
}

Result<IndexSpec> make_index_spec(const PluginHost& host, const CollectionInfo& info,
                                  DocumentView spec) {
  // What was normalised once may have been damaged, or written by another version, since.
  if (spec["name"].type() != BsonType::kString || spec["key"].type() != BsonType::kObject)
    return fail(ErrorCode::kDataCorruptionDetected,
                "the specification of an index of " + info.ns + " has no valid name or key");
  const auto check = [&](Status status) {
    return status.ok() ? status : std::move(status).with_context("an index of " + info.ns);
  };
  MULTIFORA_TRY_R(check(check_options(spec)));
  MULTIFORA_TRY_R(check(check_key(spec["key"].as_document())));

  IndexSpec made;
  made.spec = OwnedDocument(spec);
  made.ns = info.ns;
  made.owner = info.id;
  made.name = spec["name"].as_string();
  made.key_pattern = OwnedDocument(spec["key"].as_document());
  made.unique = spec["unique"].truthy() || made.name == "_id_";
  made.prepare_unique = spec["prepareUnique"].truthy();
  made.sparse = spec["sparse"].truthy();
  made.hidden = spec["hidden"].truthy();
  if (const ValueView collation = spec["collation"]; !collation.missing()) {
    MULTIFORA_ASSIGN_R(made.collator, make_collator(host, collation.as_document()));
  }
  if (const ValueView filter = spec["partialFilterExpression"]; !filter.missing()) {
    MULTIFORA_ASSIGN_R(made.partial_filter,
                       compile_partial(host, filter.as_document(), made.collator.get()));
  }
  return made;
}

}  // namespace multifora
