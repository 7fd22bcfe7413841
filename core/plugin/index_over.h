// An index kind built over the registered ordered kind: the ordered index keeps the entries, the kind
// says what they are. Such a kind overrides extract, append_bound, decode and capabilities, and gives
// the ordered index a plain pattern with as many fields as its own keys have.
//
// Ownership: the inner index belongs to this one. Threads: as Index.
#pragma once

#include "core/plugin/index.h"

namespace multifora {

// The registered kind that keeps plain ordered indexes; CannotCreateIndex, naming `what` (the kind that
// needs it), where none is loaded.
Result<const IndexKind*> find_ordered_kind(const PluginHost& host, std::string_view what);

class IndexOver : public Index {
 public:
  // Opens an ordered index with the fields of `pattern` for `spec`'s owner. It is neither unique nor
  // sparse, partial or collated: all of that is settled before an entry reaches it.
  static Result<std::unique_ptr<Index>> open_inner(const PluginHost& host, Pager& pager,
                                                   const IndexSpec& spec, DocumentView pattern,
                                                   const IndexState& state, std::string_view what);

  IndexOver(IndexSpec spec, std::unique_ptr<Index> inner)
      : spec_(std::move(spec)), inner_(std::move(inner)) {}

  const IndexSpec& spec() const override { return spec_; }
  IndexState state() const override { return inner_->state(); }
  void set_state(const IndexState& state) override { inner_->set_state(state); }
  std::uint64_t multikey_fields(const IndexState& state) const override {
    return inner_->multikey_fields(state);
  }
  std::size_t pages_needed(const IndexKeySet& keys) const override {
    return inner_->pages_needed(keys);
  }
  Result<RecordId> find_conflict(const IndexKeySet& keys, RecordId self) const override {
    return inner_->find_conflict(keys, self);
  }
  Status insert(const IndexKeySet& keys, RecordId id, PageStash& stash) override {
    return inner_->insert(keys, id, stash);
  }
  Status remove(const IndexKeySet& keys, RecordId id, PageStash& stash) override {
    return inner_->remove(keys, id, stash);
  }
  Status clear() override { return inner_->clear(); }
  std::unique_ptr<IndexCursor> cursor(const IndexState& state) const override {
    return inner_->cursor(state);
  }
  Result<std::uint64_t> count_range(const IndexState& state, Bytes from, Bytes to) const override {
    return inner_->count_range(state, from, to);
  }
  std::unique_ptr<IndexBulkBuilder> bulk_builder(std::uint64_t memory_budget_bytes,
                                                 const std::string& temp_directory) const override {
    return inner_->bulk_builder(memory_budget_bytes, temp_directory);
  }
  IndexStats stats(const IndexState& state) const override { return inner_->stats(state); }
  Status check(const IndexState& state, const std::function<void(PageId)>& page,
               std::vector<std::string>* errors) const override {
    return inner_->check(state, page, errors);
  }

 protected:
  const Index& inner() const { return *inner_; }

 private:
  IndexSpec spec_;
  std::unique_ptr<Index> inner_;
};

// Sorts by key and drops duplicates, as extract must.
void sort_index_keys(IndexKeySet& keys);

}  // namespace multifora
