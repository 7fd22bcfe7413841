// The ordered index over the kernel's B+tree.
//
//   tree key:   key string, then the record id (8 bytes, big-endian)
//   tree value: the key string's type bits (usually empty)
//   IndexState: TreeRoot (24 bytes), u64 multikey fields, 32 bytes zero
//
// The record id makes every tree key different, so that equal keys may span any number of leaves and
// a seek to (key, id) is a plain tree seek. A unique index keeps the id too; uniqueness is a look-up
// before the insert, under the collection's exclusive lock.
#pragma once

#include "core/plugin/index.h"
#include "core/storage/tree.h"
#include "plugins/index-btree/key_extractor.h"

namespace multifora {

struct BtreeState {
  TreeRoot root;
  std::uint64_t multikey_fields = 0;
  static BtreeState from(const IndexState& state);
  IndexState to() const;
};

class BtreeIndex final : public Index {
 public:
  BtreeIndex(Pager& pager, IndexSpec spec, std::uint32_t capabilities, const IndexState& state);

  const IndexSpec& spec() const override { return spec_; }
  std::uint32_t capabilities() const override { return capabilities_; }
  Status extract(DocumentView document, IndexKeySet& out) const override;
  IndexState state() const override;
  void set_state(const IndexState& state) override;
  std::uint64_t multikey_fields(const IndexState& state) const override;
  std::size_t pages_needed(const IndexKeySet& keys) const override;
  Result<RecordId> find_conflict(const IndexKeySet& keys, RecordId self) const override;
  Status insert(const IndexKeySet& keys, RecordId id, PageStash& stash) override;
  Status remove(const IndexKeySet& keys, RecordId id, PageStash& stash) override;
  Status clear() override;
  Result<bool> vacate(PageId from, std::size_t pages_max, PageStash& stash) override;
  std::unique_ptr<IndexCursor> cursor(const IndexState& state) const override;
  void append_bound(KeyStringBuilder& key, std::size_t field, const ValueView& value) const override;
  Result<std::uint64_t> count_range(const IndexState& state, Bytes from, Bytes to) const override;
  Status decode(Bytes key, Bytes type_bits, DocumentBuilder& out) const override;
  std::unique_ptr<IndexBulkBuilder> bulk_builder(std::uint64_t memory_budget_bytes,
                                                 const std::string& temp_directory) const override;
  IndexStats stats(const IndexState& state) const override;
  Status check(const IndexState& state, const std::function<void(PageId)>& page,
               std::vector<std::string>* errors) const override;

 private:
  Pager& pager_;
  IndexSpec spec_;
  std::uint32_t capabilities_;
  KeyExtractor extractor_;
  std::vector<std::string> names_;
  TreeRoot root_;
  std::uint64_t multikey_fields_ = 0;
  Tree tree_;
};

}  // namespace multifora
