// killCursors.
#include "plugins/command-crud/commands.h"

namespace multifora::crud {
namespace {

Status kill_cursors(CommandContext& context, const CommandRequest& request,
                    DocumentBuilder& reply) {
  const DocumentView ids = request.document("cursors");
  if (ids.empty())
    return {ErrorCode::kBadValue,
            "Must specify at least one cursor id in: { killCursors: \"" +
                std::string(request.collection()) + "\", cursors: [] }"};
  for (const Element& id : ids)
    if (id.type() != BsonType::kInt64)
      return {ErrorCode::kTypeMismatch,
              "BSON field 'killCursors.cursors." + std::string(id.name()) +
                  "' is the wrong type '" + std::string(type_name(id.type())) +
                  "', expected type 'long'"};
  CursorManager& manager = *context.host().service<CursorManager>();
  const std::string ns = request.ns();
  std::vector<std::int64_t> killed, unknown;
  for (const Element& id : ids)
    (manager.kill(id->as_int64(), ns) ? killed : unknown).push_back(id->as_int64());
  const auto list = [&reply](std::string_view name, const std::vector<std::int64_t>& numbers) {
    ArrayBuilder array = reply.array(name);
    for (const std::int64_t number : numbers) array.append(number);
  };
  list("cursorsKilled", killed);
  list("cursorsNotFound", unknown);
  list("cursorsAlive", {});
  list("cursorsUnknown", {});
  return {};
}

}  // namespace

const CommandRow kKillCursors{
    .name = "killCursors",
    .aliases = {},
    .help = "ends cursors",
    .privilege = "killCursors",
    .lock = LockIntent::kNone,
    .flags = kAllowedInTransaction | kCollectionName | kAllowedInStrictApi | kContinuesCursor,
    .options = {{"cursors", kOptArray, kRequired}},
    .run = kill_cursors,
};

}  // namespace multifora::crud
