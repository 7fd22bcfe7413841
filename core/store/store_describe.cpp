// Store::describe: what is where in the files.
#include "core/bson/builder.h"
#include "core/store/store_impl.h"

namespace multifora {
namespace {

std::int64_t number(std::uint64_t value) { return static_cast<std::int64_t>(value); }

void describe_space(const Pager& pager, DocumentBuilder& out) {
  const SpaceUse use = pager.space_use();
  auto space = out.object("space");
  space.append("file_bytes", number(use.file_bytes)).append("meta_bytes", number(use.meta_bytes));
  space.append("page_bytes", number(use.page_bytes));
  space.append("record_bytes", number(use.record_bytes));
  space.append("waiting_bytes", number(use.retired_bytes));
  space.append("free_bytes", number(use.free_bytes));
  const Pager::ChunkUse chunks = pager.chunk_use();
  auto rows = space.object("chunks");
  rows.append("free", number(chunks.free_chunks)).append("pages", number(chunks.page_chunks));
  rows.append("records", number(chunks.record_chunks));
  rows.append("free_at_end", number(chunks.trailing_free_chunks));
  rows.append("used_pages", number(chunks.used_pages));
  rows.append("free_pages", number(chunks.free_pages));
  rows.append("waiting_pages", number(chunks.waiting_pages));
  auto owners = rows.array("records_by_collection");
  for (const auto& [owner, count] : chunks.record_chunks_of) {
    auto row = owners.object();
    row.append("collection", static_cast<std::int64_t>(owner)).append("chunks", number(count));
  }
}

void describe_collection(const Collection& collection, DocumentBuilder& row) {
  const CollectionInfo& info = *collection.info;
  const CollectionState& state = collection.state;
  row.append("id", static_cast<std::int64_t>(collection.id)).append("ns", info.ns);
  row.append_binary("uuid", Bytes(info.uuid.data(), 16), 4);
  row.append("options", info.options.view());
  if (collection.dropped) row.append("dropped", true);
  if (info.is_view) return;
  row.append("records", number(state.record_count)).append("data_bytes", number(state.data_bytes));
  row.append("next_record_id", number(state.next_record_id));
  {
    auto map = row.object("record_map");
    map.append("root_page", number(state.records.page));
    map.append("height", static_cast<std::int64_t>(state.records.height));
  }
  auto indexes = row.array("indexes");
  for (const auto& open : collection.indexes) {
    auto index = indexes.object();
    const IndexStats stats = open->index->stats(open->index->state());
    index.append("name", open->index->spec().name);
    index.append("number", static_cast<std::int64_t>(open->number));
    index.append("kind", open->kind->name).append("entries", number(stats.entries));
    index.append("size_bytes", number(stats.size_bytes));
    if (open->building) index.append("building", true);
    index.append("spec", open->index->spec().spec.view());
  }
}

}  // namespace

void Store::describe(DocumentBuilder& out) const {
  const Impl& impl = *impl_;
  const Pager::CheckpointInfo newest = impl.pager->newest_checkpoint();
  {
    auto checkpoint = out.object("checkpoint");
    checkpoint.append("number", number(newest.number));
    checkpoint.append("generation", number(newest.generation));
    checkpoint.append_timestamp("position", newest.position);
    checkpoint.append_timestamp("log_needed_from", std::min(newest.older_position, newest.position));
  }
  out.append_timestamp("last_position", impl.wal->last_appended());
  describe_space(*impl.pager, out);
  impl.table->describe(out);
  std::vector<CollectionPtr> all;
  {
    const std::shared_lock hold(impl.names_mutex);
    for (const auto& [ns, collection] : impl.by_name) all.push_back(collection);
  }
  auto collections = out.array("collections");
  for (const CollectionPtr& collection : all) {
    collection->lock.lock_shared();
    auto row = collections.object();
    describe_collection(*collection, row);
    row.close();
    collection->lock.unlock_shared();
  }
}

}  // namespace multifora
