// convertToCapped and cloneCollectionAsCapped: a copy under another name, then (for the first) a rename
// over the original.
#include "plugins/command-catalog/commands.h"

namespace multifora::catalog_commands {
namespace {

// Log bytes after which the copy is committed and goes on with a new batch.
constexpr std::size_t kBatchBytesMax = 1024 * 1024;

Status copy_records(CommandContext& context, const std::string& from, const std::string& to) {
  RecordId next = 1;
  while (true) {
    std::vector<OwnedDocument> documents;
    {
      MULTIFORA_ASSIGN(const auto view, context.store().read(from));
      if (!view) return {};
      const auto cursor = view->scan(false);
      cursor->seek(next);
      std::size_t bytes = 0;
      while (bytes < kBatchBytesMax) {
        MULTIFORA_TRY(context.interrupt().check());
        MULTIFORA_ASSIGN(const bool more, cursor->next());
        if (!more) break;
        documents.emplace_back(cursor->document());
        bytes += documents.back().bytes().size();
        next = cursor->id() + 1;
      }
    }
    if (documents.empty()) return {};
    MULTIFORA_ASSIGN(const auto writer, context.store().write(to, true));
    writer->bypass_validation(true);
    for (const OwnedDocument& document : documents)
      MULTIFORA_TRY(status_of(writer->insert(document.view())));
    MULTIFORA_ASSIGN(const LogPosition position, writer->commit());
    context.note_write(position);
  }
}

Result<OwnedDocument> capped_options(const CommandRequest& request) {
  const std::int64_t size = request.integer("size", 0);
  if (size <= 0)
    return fail(ErrorCode::kInvalidOptions, "Capped collection size must be greater than zero");
  DocumentBuilder options;
  options.append("capped", true).append("size", size);
  if (request.has("max")) options.append("max", request.option("max"));
  return std::move(options).finish();
}

Status make_copy(CommandContext& context, const CommandRequest& request, const std::string& from,
                 const std::string& to) {
  const auto info = context.store().info(from);
  if (!info)
    return {ErrorCode::kNamespaceNotFound, "source collection " + from + " does not exist"};
  if (info->is_view)
    return {ErrorCode::kCommandNotSupportedOnView, "cannot make a view capped: " + from};
  if (context.store().info(to))
    return {ErrorCode::kNamespaceExists, "the target collection " + to + " exists already"};
  MULTIFORA_ASSIGN(const OwnedDocument options, capped_options(request));
  MULTIFORA_ASSIGN(const LogPosition position,
                   context.store().create_collection(to, options.view()));
  context.note_write(position);
  return copy_records(context, from, to);
}

Status run_clone(CommandContext& context, const CommandRequest& request, DocumentBuilder&) {
  const std::string to =
      std::string(request.db()) + "." + std::string(request.option("toCollection").as_string());
  return make_copy(context, request, request.ns(), to);
}

Status run_convert(CommandContext& context, const CommandRequest& request, DocumentBuilder&) {
  const std::string from = request.ns();
  const std::string to = std::string(request.db()) + ".tmp.convertToCapped." +
                         ObjectId::generate().to_hex();
  MULTIFORA_TRY(make_copy(context, request, from, to));
  MULTIFORA_ASSIGN(const LogPosition position,
                   context.store().rename_collection(to, from, true));
  context.note_write(position);
  return {};
}

}  // namespace

const CommandRow kConvertToCapped{
    .name = "convertToCapped",
    .aliases = {},
    .help = "Makes a collection capped; its secondary indexes are lost.",
    .privilege = "convertToCapped",
    .lock = LockIntent::kCatalog,
    .flags = kCollectionName | kAcceptsWriteConcern | kLongRunning,
    .options = {{"size", kOptNumber, kRequired}, {"max", kOptNumber}},
    .run = run_convert,
};

const CommandRow kCloneCollectionAsCapped{
    .name = "cloneCollectionAsCapped",
    .aliases = {},
    .help = "Copies a collection into a new capped one.",
    .privilege = "convertToCapped",
    .lock = LockIntent::kCatalog,
    .flags = kCollectionName | kAcceptsWriteConcern | kLongRunning,
    .options = {{"toCollection", kOptString, kRequired}, {"size", kOptNumber, kRequired}, {"max", kOptNumber}},
    .run = run_clone,
};

}  // namespace multifora::catalog_commands
