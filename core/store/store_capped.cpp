// Making a collection capped, in place: its records stay where they are.
#include "core/base/limits.h"
#include "core/bson/builder.h"
#include "core/store/store_impl.h"
#include "core/store/writer.h"

namespace multifora {
namespace {

// What the collection is to be like: its options with new bounds.
OwnedDocument capped_options(DocumentView options, std::int64_t size_bytes, std::int64_t count_max) {
  DocumentBuilder out;
  for (const Element& field : options)
    if (field.name() != "capped" && field.name() != "size" && field.name() != "max")
      out.append(field);
  out.append("capped", true).append("size", size_bytes);
  if (count_max > 0) out.append("max", count_max);
  return std::move(out).finish();
}

Status may_convert(const Collection& collection) {
  const std::string& ns = collection.info->ns;
  if (collection.info->is_view)
    return {ErrorCode::kCommandNotSupportedOnView, "cannot make a capped collection of view " + ns};
  if (collection.info->clustered)
    return {ErrorCode::kInvalidOptions, "cannot make a capped collection of " + ns +
                                            ", which has a clustered index"};
  return {};
}

}  // namespace

// One batch changes the options and drops the secondary indexes. What is too much then goes as it would
// with the next insert, oldest first, in bounded batches.
Result<LogPosition> Store::convert_to_capped(std::string_view ns, std::int64_t size_bytes,
                                             std::int64_t count_max, Interrupt& interrupt) {
  MULTIFORA_TRY_R(impl_->writable());
  MULTIFORA_TRY_R(interrupt.check());
  MULTIFORA_ASSIGN_R(LogPosition position, impl_->make_capped(ns, size_bytes, count_max));
  bool more = true;
  while (more) {
    const CollectionPtr collection = impl_->find_locked(ns);
    if (!collection) break;
    LiveWriter writer(*impl_, collection);
    Result<bool> trimmed = writer.trim(limits::kLogBatchBytes);
    MULTIFORA_ASSIGN_R(const LogPosition removed, writer.commit());
    position = std::max(position, removed);
    // The collection is capped already; its next insert goes on.
    if (trimmed) trimmed = *trimmed && interrupt.check().ok();
    MULTIFORA_ASSIGN_R(more, std::move(trimmed));
  }
  return position;
}

Result<LogPosition> Store::Impl::make_capped(std::string_view ns, std::int64_t size_bytes,
                                             std::int64_t count_max) {
  const std::lock_guard ddl(ddl_mutex);
  const CollectionPtr collection = find(ns);
  if (!collection)
    return fail(ErrorCode::kNamespaceNotFound,
                "source collection " + std::string(ns) + " does not exist");
  const std::unique_lock exclusive(collection->lock);
  MULTIFORA_TRY_R(may_convert(*collection));
  MULTIFORA_TRY_R(may_drop(*collection));
  const OwnedDocument options =
      capped_options(collection->info->options.view(), size_bytes, count_max);
  LogBatch batch;
  std::vector<std::uint32_t> doomed;
  for (const auto& open : collection->indexes) {
    if (open->index->spec().name == "_id_") continue;
    DocumentBuilder body;
    body.append("number", static_cast<std::int64_t>(open->number));
    body.append("name", open->index->spec().name);
    body.append("spec", open->index->spec().spec.view());
    const OwnedDocument record = std::move(body).finish();
    batch.catalog(LogOperation::kDropIndex, collection->id, record.view());
    doomed.push_back(open->number);
  }
  DocumentBuilder body;
  body.append("options", options.view());
  body.append("before", collection->info->options.view());
  const OwnedDocument record = std::move(body).finish();
  batch.catalog(LogOperation::kSetOptions, collection->id, record.view());
  MULTIFORA_ASSIGN_R(Wal::Reservation reservation, reserve_log(batch.bytes().size()));
  const GateEntry entered(gate);
  MULTIFORA_TRY_R(apply_set_options(collection, options.view()));
  for (const std::uint32_t number : doomed) {
    Status status = apply_drop_index(collection, number);
    if (status.ok()) continue;
    fail_store(status);  // half-way: not as it was, and not in the log
    return fail(std::move(status));
  }
  return append(batch.bytes(), &reservation);
}

}  // namespace multifora
