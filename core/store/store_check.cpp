// validate (one collection, online) and check (the whole file).
#include <algorithm>

#include "core/base/interrupt.h"
#include "core/bson/validate.h"
#include "core/store/live_view.h"
#include "core/store/store_impl.h"

namespace multifora {
namespace {

constexpr std::size_t kErrorsMax = 100;

// One walk over a collection; requires its lock (shared). Reports pages and records to `space` where
// there is one.
class CollectionCheck {
 public:
  CollectionCheck(Pager& pager, const Collection& collection, bool full, Interrupt* interrupt,
                  SpaceCheck* space)
      : pager_(pager),
        collection_(collection),
        ns_(collection.info->ns),
        full_(full),
        interrupt_(interrupt),
        space_(space),
        found_(collection.indexes.size()) {}

  // A failure: interrupted. What is wrong with the collection stands in the report.
  Result<Store::ValidateReport> run() {
    MULTIFORA_TRY_R(check_records());
    check_counts();
    for (std::size_t i = 0; i < collection_.indexes.size(); ++i)
      if (!collection_.indexes[i]->building) check_index(i);
    return std::move(report_);
  }

 private:
  // What the documents say of one index.
  struct Found {
    std::uint64_t keys = 0;
    bool complete = true;
  };

  void error(const std::string& text) {
    if (report_.errors.size() < kErrorsMax) report_.errors.push_back(ns_ + ": " + text);
  }

  Status check_records() {
    const PagedArray array(pager_, collection_.id);
    Status stopped;
    const Status walked = array.walk(
        collection_.state.records,
        [&](PageId page) {
          if (space_ != nullptr) pager_.check_page(space_, page, ns_ + ": record map");
        },
        [&](std::uint64_t id, std::uint64_t location) {
          if (stopped.ok() && interrupt_ != nullptr) stopped = interrupt_->check();
          if (stopped.ok()) check_record(id, location);
        });
    if (!walked.ok()) error("record map: " + walked.message());
    return stopped;
  }

  void check_record(RecordId id, RecordLocation location) {
    ++report_.records;
    const auto payload = pager_.records().read(location, id, collection_.id);
    if (!payload) {
      ++report_.invalid_documents;
      return error(payload.error().message());
    }
    bytes_ += payload->size();
    const std::string name = "record " + std::to_string(id);
    if (space_ != nullptr)
      pager_.check_record(space_, location, payload->size(), ns_ + ": " + name);
    ValidateOptions options;
    options.size_bytes_max = payload->size();
    if (!multifora::validate(*payload, options)) {
      ++report_.invalid_documents;
      return error(name + " is not valid BSON");
    }
    for (std::size_t i = 0; i < collection_.indexes.size(); ++i)
      if (!collection_.indexes[i]->building)
        check_keys(i, DocumentView::assume_valid(*payload), id);
  }

  void check_keys(std::size_t i, DocumentView document, RecordId id) {
    const Index& index = *collection_.indexes[i]->index;
    const Result<bool> all_there = has_keys(index, document, id, &found_[i].keys);
    if (all_there && *all_there) return;
    found_[i].complete = false;
    error("index " + index.spec().name + " lacks a key of record " + std::to_string(id) +
          (all_there ? "" : ": " + all_there.error().message()));
  }

  // Is every key that the document should have in the index, with this record's id?
  static Result<bool> has_keys(const Index& index, DocumentView document, RecordId id,
                               std::uint64_t* count) {
    IndexKeySet keys;
    MULTIFORA_TRY_R(index.extract(document, keys));
    *count += keys.keys.size();
    const auto cursor = index.cursor(index.state());
    bool complete = true;
    for (const IndexKey& key : keys.keys) {
      MULTIFORA_TRY_R(cursor->seek(key.key, id));
      if (!cursor->valid() || cursor->compare_key(key.key) != 0 || cursor->record_id() != id ||
          cursor->type_bits() != key.type_bits)
        complete = false;
    }
    return complete;
  }

  void check_counts() {
    const CollectionState& state = collection_.state;
    if (report_.records != state.record_count)
      error(std::to_string(report_.records) + " records found, but the count says " +
            std::to_string(state.record_count));
    if (report_.invalid_documents == 0 && bytes_ != state.data_bytes)
      error("documents take " + std::to_string(bytes_) + " bytes, but the size says " +
            std::to_string(state.data_bytes));
  }

  void check_index(std::size_t i) {
    const Index& index = *collection_.indexes[i]->index;
    const std::string& name = index.spec().name;
    const IndexState state = index.state();
    Store::ValidateReport::IndexReport row{name, index.stats(state).entries, found_[i].complete};
    std::vector<std::string> errors;
    if (full_ || space_ != nullptr) {
      const Status checked = index.check(
          state,
          [&](PageId page) {
            if (space_ != nullptr) pager_.check_page(space_, page, ns_ + ": index " + name);
          },
          &errors);
      if (!checked.ok()) errors.push_back(checked.message());
    }
    if (row.keys != found_[i].keys)
      errors.push_back("it has " + std::to_string(row.keys) + " entries, but the documents give " +
                       std::to_string(found_[i].keys));
    for (const std::string& text : errors) error("index " + name + ": " + text);
    row.valid = row.valid && errors.empty();
    report_.indexes.push_back(std::move(row));
  }

  Pager& pager_;
  const Collection& collection_;
  const std::string ns_;
  const bool full_;
  Interrupt* const interrupt_;
  SpaceCheck* const space_;
  std::vector<Found> found_;  // by index
  std::uint64_t bytes_ = 0;
  Store::ValidateReport report_;
};

}  // namespace

Result<Store::ValidateReport> Store::validate(std::string_view ns, bool full,
                                              Interrupt& interrupt) const {
  const CollectionPtr collection = impl_->find(ns);
  if (!collection)
    return fail(ErrorCode::kNamespaceNotFound,
                "Collection '" + std::string(ns) + "' does not exist to validate.");
  const std::shared_lock hold(collection->lock);
  if (collection->info->is_view)
    return fail(ErrorCode::kCommandNotSupportedOnView, "Cannot validate a view");
  return CollectionCheck(*impl_->pager, *collection, full, &interrupt, nullptr).run();
}

std::vector<std::string> Store::check(const CheckProgress& progress) {
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
  std::size_t done = 0;
  for (const CollectionPtr& collection : all) {
    if (progress && !collection->dropped)
      progress(*collection->info, collection->state.record_count, done++, all.size());
    const auto report = CollectionCheck(*impl.pager, *collection, true, nullptr, space).run();
    if (report)
      errors.insert(errors.end(), report->errors.begin(), report->errors.end());
    else
      errors.push_back(report.error().message());
  }
  const Status catalog = impl.table->check(
      [&](PageId page) { impl.pager->check_page(space, page, "catalog"); }, &errors);
  if (!catalog.ok()) errors.push_back("catalog: " + catalog.message());
  const Status sessions = impl.table->read_sessions(
      [](Bytes, Bytes row) { return RetryTable::check_row(row); });
  if (!sessions.ok()) errors.push_back(sessions.message());
  impl.pager->finish_check(space, &errors);
  impl.gate.open();
  return errors;
}

}  // namespace multifora
