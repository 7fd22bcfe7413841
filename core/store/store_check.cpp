// validate (one collection, online) and check (the whole file).
#include <algorithm>

#include "core/base/interrupt.h"
#include "core/bson/validate.h"
#include "core/store/live_view.h"
#include "core/store/store_impl.h"

namespace multifora {
namespace {

constexpr std::size_t kErrorsMax = 100;

void add_error(std::vector<std::string>& errors, std::string text) {
  if (errors.size() < kErrorsMax) errors.push_back(std::move(text));
}

// Every key that the document should have is in the index with this record's id.
Status check_document_keys(const Index& index, const IndexState& state, DocumentView document,
                           RecordId id, std::uint64_t* expected, bool* complete) {
  IndexKeySet keys;
  MULTIFORA_TRY(index.extract(document, keys));
  *expected += keys.keys.size();
  const auto cursor = index.cursor(state);
  for (const IndexKey& key : keys.keys) {
    MULTIFORA_TRY(cursor->seek(key.key, id));
    if (!cursor->valid() || cursor->compare_key(key.key) != 0 || cursor->record_id() != id ||
        cursor->type_bits() != key.type_bits)
      *complete = false;
  }
  return {};
}

}  // namespace

// Requires the collection's lock (shared). Reports pages and records where asked to.
static Status validate_collection(Pager& pager, const Collection& collection, bool full,
                                  Interrupt* interrupt, SpaceCheck* space,
                                  Store::ValidateReport* report) {
  const std::string& ns = collection.info->ns;
  std::vector<std::uint64_t> expected(collection.indexes.size());
  std::vector<char> complete(collection.indexes.size(), 1);
  std::uint64_t bytes = 0;
  Status stopped;
  const PagedArray array(pager, collection.id);
  const auto on_page = [&](PageId page) {
    if (space != nullptr) pager.check_page(space, page, ns + ": record map");
  };
  const auto on_record = [&](std::uint64_t id, std::uint64_t location) {
    if (!stopped.ok()) return;
    if (interrupt != nullptr) stopped = interrupt->check();
    ++report->records;
    const auto payload = pager.records().read(location, id, collection.id);
    if (!payload) {
      ++report->invalid_documents;
      add_error(report->errors, ns + ": " + payload.error().message());
      return;
    }
    bytes += payload->size();
    if (space != nullptr)
      pager.check_record(space, location, payload->size(), ns + ": record " + std::to_string(id));
    ValidateOptions options;
    options.size_bytes_max = payload->size();
    if (!validate(*payload, options)) {
      ++report->invalid_documents;
      add_error(report->errors, ns + ": record " + std::to_string(id) + " is not valid BSON");
      return;
    }
    const DocumentView document = DocumentView::assume_valid(*payload);
    for (std::size_t i = 0; i < collection.indexes.size(); ++i) {
      const OpenIndex& open = *collection.indexes[i];
      if (open.building) continue;
      bool all_there = true;
      const Status status = check_document_keys(*open.index, open.index->state(), document, id,
                                                &expected[i], &all_there);
      if (status.ok() && all_there) continue;
      complete[i] = 0;
      add_error(report->errors, ns + ": index " + open.index->spec().name +
                                    " lacks a key of record " + std::to_string(id) +
                                    (status.ok() ? "" : ": " + status.message()));
    }
  };
  if (const Status walked = array.walk(collection.state.records, on_page, on_record); !walked.ok())
    add_error(report->errors, ns + ": record map: " + walked.message());
  MULTIFORA_TRY(stopped);
  if (report->records != collection.state.record_count)
    add_error(report->errors, ns + ": " + std::to_string(report->records) +
                                  " records found, but the count says " +
                                  std::to_string(collection.state.record_count));
  if (report->invalid_documents == 0 && bytes != collection.state.data_bytes)
    add_error(report->errors, ns + ": documents take " + std::to_string(bytes) +
                                  " bytes, but the size says " +
                                  std::to_string(collection.state.data_bytes));

  for (std::size_t i = 0; i < collection.indexes.size(); ++i) {
    const OpenIndex& open = *collection.indexes[i];
    if (open.building) continue;
    const std::string& name = open.index->spec().name;
    Store::ValidateReport::IndexReport row{name, 0, complete[i] != 0};
    const IndexState state = open.index->state();
    row.keys = open.index->stats(state).entries;
    std::vector<std::string> errors;
    if (full || space != nullptr) {
      const Status checked = open.index->check(
          state,
          [&](PageId page) {
            if (space != nullptr) pager.check_page(space, page, ns + ": index " + name);
          },
          &errors);
      if (!checked.ok()) errors.push_back(checked.message());
    }
    if (row.keys != expected[i])
      errors.push_back("it has " + std::to_string(row.keys) + " entries, but the documents give " +
                       std::to_string(expected[i]));
    for (const std::string& error : errors)
      add_error(report->errors, ns + ": index " + name + ": " + error);
    row.valid = row.valid && errors.empty();
    report->indexes.push_back(std::move(row));
  }
  return {};
}

Result<Store::ValidateReport> Store::validate(std::string_view ns, bool full,
                                              Interrupt& interrupt) const {
  const CollectionPtr collection = impl_->find(ns);
  if (!collection)
    return fail(ErrorCode::kNamespaceNotFound,
                "Collection '" + std::string(ns) + "' does not exist to validate.");
  if (collection->info->is_view)
    return fail(ErrorCode::kCommandNotSupportedOnView, "Cannot validate a view");
  ValidateReport report;
  collection->lock.lock_shared();
  const Status status =
      validate_collection(*impl_->pager, *collection, full, &interrupt, nullptr, &report);
  collection->lock.unlock_shared();
  MULTIFORA_TRY_R(status);
  return report;
}

std::vector<std::string> Store::check() {
  Impl& impl = *impl_;
  std::vector<std::string> errors;
  const std::lock_guard ddl(impl.ddl_mutex);
  const std::lock_guard no_checkpoint(impl.checkpoint_mutex);
  impl.gate.close();
  SpaceCheck* space = impl.pager->begin_check();
  std::vector<CollectionPtr> all;
  {
    const std::shared_lock hold(impl.names_mutex);
    for (const auto& [id, collection] : impl.by_id) all.push_back(collection);
  }
  {
    const std::lock_guard hold(impl.dirty_mutex);
    all.insert(all.end(), impl.graveyard.begin(), impl.graveyard.end());
  }
  for (const CollectionPtr& collection : all) {
    ValidateReport report;
    const Status status =
        validate_collection(*impl.pager, *collection, true, nullptr, space, &report);
    if (!status.ok()) errors.push_back(status.message());
    errors.insert(errors.end(), report.errors.begin(), report.errors.end());
  }
  const Status catalog = impl.table->check(
      [&](PageId page) { impl.pager->check_page(space, page, "catalog"); }, &errors);
  if (!catalog.ok()) errors.push_back("catalog: " + catalog.message());
  impl.pager->finish_check(space, &errors);
  impl.gate.open();
  return errors;
}

}  // namespace multifora
