// createIndexes and dropIndexes.
#include <algorithm>

#include "core/base/limits.h"
#include "core/bson/compare.h"
#include "core/bson/extended_json.h"
#include "plugins/command-catalog/commands.h"

namespace multifora::catalog_commands {
namespace {

Status run_create(CommandContext& context, const CommandRequest& request, DocumentBuilder& reply) {
  const std::string ns = request.ns();
  MULTIFORA_TRY(check_collection_name(request.collection()));
  const std::vector<DocumentView> specs = request.documents("indexes");
  if (specs.empty())
    return {ErrorCode::kBadValue, "Must specify at least one index to create"};
  for (const DocumentView spec : specs)
    if (spec["name"].missing())
      return {ErrorCode::kFailedToParse,
              "Error in specification " + to_extended_json(spec) +
                  " :: caused by :: The 'name' field is a required property of an index specification"};
  MULTIFORA_ASSIGN(const IndexBuildResult built,
                   context.store().create_indexes(ns, specs, context.interrupt()));
  context.note_write(built.position);
  reply.append("numIndexesBefore", built.indexes_before);
  reply.append("numIndexesAfter", built.indexes_after);
  if (built.created_collection || !built.all_existed)
    reply.append("createdCollectionAutomatically", built.created_collection);
  if (built.all_existed) reply.append("note", "all indexes already exist");
  else reply.append("commitQuorum", "votingMembers");
  return {};
}

Status index_not_found(const std::string& what) {
  return {ErrorCode::kIndexNotFound, what};
}

// Names of the indexes that `index` of dropIndexes asks for.
Result<std::vector<std::string>> wanted_names(const ValueView& wanted,
                                              const std::vector<OwnedDocument>& specs) {
  const auto has = [&](std::string_view name) {
    for (const OwnedDocument& spec : specs)
      if (spec.view()["name"].as_string() == name) return true;
    return false;
  };
  std::vector<std::string> names;
  if (wanted.type() == BsonType::kString && wanted.as_string() == "*") {
    for (const OwnedDocument& spec : specs)
      if (spec.view()["name"].as_string() != "_id_")
        names.emplace_back(spec.view()["name"].as_string());
    return names;
  }
  if (wanted.type() == BsonType::kString) {
    names.emplace_back(wanted.as_string());
  } else if (wanted.type() == BsonType::kArray) {
    for (const Element& name : wanted.as_document()) {
      if (name.type() != BsonType::kString)
        return fail(ErrorCode::kTypeMismatch,
                    "dropIndexes 'index' must be a string, an object or an array of strings");
      names.emplace_back(name->as_string());
    }
  } else {
    for (const OwnedDocument& spec : specs)
      if (compare_documents(spec.view()["key"].as_document(), wanted.as_document()) == 0)
        names.emplace_back(spec.view()["name"].as_string());
    if (names.empty())
      return fail(index_not_found("can't find index with key: " +
                                  to_extended_json(wanted.as_document())));
    if (names.size() > 1)
      return fail(ErrorCode::kAmbiguousIndexKeyPattern, "2 or more indexes have the key pattern " +
                                          to_extended_json(wanted.as_document()) +
                                          "; drop one by its name");
  }
  for (const std::string& name : names) {
    if (!has(name)) return fail(index_not_found("index not found with name [" + name + "]"));
    if (name == "_id_") return fail(ErrorCode::kInvalidOptions, "cannot drop _id index");
  }
  return names;
}

std::vector<std::string> names_of(const std::vector<OwnedDocument>& specs) {
  std::vector<std::string> names;
  for (const OwnedDocument& spec : specs) names.emplace_back(spec.view()["name"].as_string());
  return names;
}

// Stops the builds of the indexes `names` that are not `ready`. As in MongoDB, what one createIndexes
// builds together can only be stopped together.
Status abort_builds(Store& store, const std::string& ns, const std::vector<std::string>& names,
                    const std::vector<std::string>& ready) {
  const auto among = [](const std::string& name, const std::vector<std::string>& others) {
    return std::find(others.begin(), others.end(), name) != others.end();
  };
  for (const Store::BuildProgress& build : store.index_builds()) {
    if (build.ns != ns) continue;
    const auto wanted = static_cast<std::size_t>(
        std::count_if(build.names.begin(), build.names.end(), [&](const std::string& name) {
          return among(name, names) && !among(name, ready);
        }));
    if (wanted == 0) continue;
    if (wanted < build.names.size())
      return {ErrorCode::kBackgroundOperationInProgressForNamespace,
              "cannot perform operation: an index build is currently running for collection '" + ns +
                  "'; to stop it, name all indexes that it builds"};
    store.abort_index_builds(ns, build.names, "dropIndexes command");
  }
  return {};
}

Status run_drop(CommandContext& context, const CommandRequest& request, DocumentBuilder& reply) {
  const std::string ns = request.ns();
  const auto info = context.store().info(ns);
  if (!info) return {ErrorCode::kNamespaceNotFound, "ns not found " + ns};
  if (info->is_view)
    return {ErrorCode::kCommandNotSupportedOnView,
            "Namespace " + ns + " is a view, not a collection"};
  MULTIFORA_ASSIGN(std::vector<OwnedDocument> specs, context.store().index_specs(ns));
  const std::vector<std::string> ready = names_of(specs);
  for (const Store::BuildProgress& build : context.store().index_builds())
    if (build.ns == ns) specs.insert(specs.end(), build.specs.begin(), build.specs.end());
  MULTIFORA_ASSIGN(const auto names, wanted_names(request.option("index"), specs));
  MULTIFORA_TRY(abort_builds(context.store(), ns, names, ready));
  MULTIFORA_ASSIGN(const std::vector<OwnedDocument> left, context.store().index_specs(ns));
  for (const std::string& name : names_of(left)) {
    if (std::find(names.begin(), names.end(), name) == names.end()) continue;
    MULTIFORA_ASSIGN(const LogPosition position, context.store().drop_index(ns, name));
    context.note_write(position);
  }
  reply.append("nIndexesWas", static_cast<std::int32_t>(specs.size()));
  if (request.option("index").type() == BsonType::kString &&
      request.option("index").as_string() == "*")
    reply.append("msg", "non-_id indexes dropped for collection");
  return {};
}

}  // namespace

const CommandRow kCreateIndexes{
    .name = "createIndexes",
    .aliases = {},
    .help = "Builds indexes without blocking writers.",
    .privilege = "createIndex",
    .lock = LockIntent::kWrite,
    .flags = kCollectionName | kAcceptsWriteConcern | kAllowedInTransaction |
             kAllowedInStrictApi,
    .options = {{"indexes", kOptArray, kRequired | kArrayOfObjects},
                {"commitQuorum", kOptString | kOptNumber},
                {"ignoreUnknownIndexOptions", kOptBoolish, kUnsupported}},
    .run = run_create,
};

const CommandRow kDropIndexes{
    .name = "dropIndexes",
    .aliases = {"deleteIndexes"},
    .help = "Removes indexes by name, by key pattern, or all but _id.",
    .privilege = "dropIndex",
    .lock = LockIntent::kCatalog,
    .flags = kCollectionName | kAcceptsWriteConcern | kAllowedInStrictApi,
    .options = {{"index", kOptString | kOptObject | kOptArray, kRequired}},
    .run = run_drop,
};

}  // namespace multifora::catalog_commands
