// convertToCapped, which the store does in place, and cloneCollectionAsCapped, a copy.
#include "core/base/limits.h"
#include "plugins/command-catalog/commands.h"

namespace multifora::catalog_commands {
namespace {

struct Bounds {
  std::int64_t size_bytes = 0;
  std::int64_t count_max = 0;  // 0: none
};

Result<Bounds> bounds_of(const CommandRequest& request) {
  Bounds bounds{request.integer("size", 0), request.integer("max", 0)};
  if (bounds.size_bytes <= 0 || bounds.size_bytes > limits::kCappedSizeMax)
    return fail(ErrorCode::kInvalidOptions,
                "Capped collection size must be greater than zero and at most 1 PB");
  if (bounds.count_max < 0 || bounds.count_max > limits::kCappedCountMax)
    return fail(ErrorCode::kBadValue,
                "max in a capped collection has to be < 2^31 or not set at all");
  return bounds;
}

// The oldest record of those newest ones that a capped collection keeps.
Result<RecordId> first_kept(CommandContext& context, const CollectionView& view,
                            const Bounds& bounds) {
  RecordId first = 1;
  std::int64_t bytes = 0, count = 0;
  const auto cursor = view.scan(true);
  while (true) {
    MULTIFORA_TRY_R(context.interrupt().check());
    MULTIFORA_ASSIGN_R(const bool found, cursor->next());
    if (!found) return first;
    bytes += static_cast<std::int64_t>(cursor->document().size_bytes());
    ++count;
    if (bytes > bounds.size_bytes || (bounds.count_max > 0 && count > bounds.count_max))
      return first;
    first = cursor->id();
  }
}

// Copies in batches: what is written to the source meanwhile may or may not be in the copy.
Status copy_records(CommandContext& context, const std::string& from, const std::string& to,
                    const Bounds& bounds) {
  RecordId next = 0;
  while (true) {
    std::vector<OwnedDocument> documents;
    {
      MULTIFORA_ASSIGN(const auto view, context.store().read(from));
      if (!view) return {};
      if (next == 0) {
        MULTIFORA_ASSIGN(next, first_kept(context, *view, bounds));
      }
      const auto cursor = view->scan(false);
      cursor->seek(next);
      std::size_t bytes = 0;
      while (bytes < limits::kLogBatchBytes && documents.size() < limits::kLogBatchDocuments) {
        MULTIFORA_TRY(context.interrupt().check());
        MULTIFORA_ASSIGN(const bool more, cursor->next());
        if (!more) break;
        documents.emplace_back(cursor->document());
        bytes += documents.back().bytes().size();
        next = cursor->id() + 1;
      }
    }
    if (documents.empty()) return {};
    MULTIFORA_ASSIGN(const auto writer, context.store().write(to, true, &context.interrupt()));
    writer->bypass_validation(true);
    for (const OwnedDocument& document : documents)
      MULTIFORA_TRY(status_of(writer->insert(document.view())));
    MULTIFORA_ASSIGN(const LogPosition position, writer->commit());
    context.note_write(position);
  }
}

Status run_clone(CommandContext& context, const CommandRequest& request, DocumentBuilder&) {
  const std::string from = request.ns();
  const std::string to =
      std::string(request.db()) + "." + std::string(request.option("toCollection").as_string());
  const auto info = context.store().info(from);
  if (!info)
    return {ErrorCode::kNamespaceNotFound, "source collection " + from + " does not exist"};
  if (info->is_view)
    return {ErrorCode::kCommandNotSupportedOnView, "cannot make a view capped: " + from};
  if (context.store().info(to))
    return {ErrorCode::kNamespaceExists, "the target collection " + to + " exists already"};
  MULTIFORA_ASSIGN(const Bounds bounds, bounds_of(request));
  DocumentBuilder builder;
  builder.append("capped", true).append("size", bounds.size_bytes);
  if (bounds.count_max > 0) builder.append("max", bounds.count_max);
  const OwnedDocument options = std::move(builder).finish();
  MULTIFORA_ASSIGN(const LogPosition position,
                   context.store().create_collection(to, options.view()));
  context.note_write(position);
  Status status = copy_records(context, from, to, bounds);
  if (status.ok()) return {};
  const auto dropped = context.store().drop_collection(to);  // no half a copy
  if (dropped) context.note_write(*dropped);
  return status;
}

Status run_convert(CommandContext& context, const CommandRequest& request, DocumentBuilder&) {
  MULTIFORA_ASSIGN(const Bounds bounds, bounds_of(request));
  MULTIFORA_ASSIGN(const LogPosition position,
                   context.store().convert_to_capped(request.ns(), bounds.size_bytes,
                                                     bounds.count_max, context.interrupt()));
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
    .flags = kCollectionName | kAcceptsWriteConcern,
    .options = {{"size", kOptNumber, kRequired}, {"max", kOptNumber}},
    .run = run_convert,
};

const CommandRow kCloneCollectionAsCapped{
    .name = "cloneCollectionAsCapped",
    .aliases = {},
    .help = "Copies a collection into a new capped one.",
    .privilege = "convertToCapped",
    .lock = LockIntent::kCatalog,
    .flags = kCollectionName | kAcceptsWriteConcern,
    .options = {{"toCollection", kOptString, kRequired},
                {"size", kOptNumber, kRequired},
                {"max", kOptNumber}},
    .run = run_clone,
};

}  // namespace multifora::catalog_commands
