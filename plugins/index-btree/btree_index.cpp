#include "plugins/index-btree/btree_index.h"

#include <algorithm>

#include "core/base/assert.h"
#include "core/plugin/host.h"
#include "plugins/index-btree/bulk_builder.h"

namespace multifora {
namespace {

constexpr std::size_t kIdSize = sizeof(RecordId);

Buffer tree_key(Bytes key, RecordId id) {
  Buffer out(key);
  append_be<RecordId>(out, id);
  return out;
}

class BtreeCursor final : public IndexCursor {
 public:
  BtreeCursor(Pager& pager, const TreeRoot& root) : cursor_(pager, root) {}

  Status seek(Bytes key, RecordId id) override {
    if (id == 0) return cursor_.seek(key);
    return cursor_.seek(tree_key(key, id));
  }
  // The last entry at or before (key, id), where `key` may be a prefix: everything that starts with
  // it is before (key, all ones).
  Status seek_reverse(Bytes key, RecordId id) override {
    if (id != ~RecordId{0}) return cursor_.seek_reverse(tree_key(key, id));
    const Buffer after = key_string_successor(key);
    if (after.empty()) return cursor_.seek_last();
    return cursor_.seek_reverse(after, true);
  }
  Status next() override { return cursor_.next(); }
  Status prev() override { return cursor_.prev(); }
  bool valid() const override { return cursor_.valid(); }
  Bytes key() const override {
    const Bytes whole = cursor_.key();
    return whole.substr(0, whole.size() - kIdSize);
  }
  Bytes type_bits() const override { return cursor_.value(); }
  RecordId record_id() const override {
    return load_be<RecordId>(cursor_.key_suffix(kIdSize).data());
  }
  int compare_key(Bytes other) const override { return key().compare(other); }

 private:
  TreeCursor cursor_;
};

}  // namespace

BtreeState BtreeState::from(const IndexState& state) {
  BtreeState out;
  out.root = load_le<TreeRoot>(state.bytes.data());
  out.multikey_fields = load_le<std::uint64_t>(state.bytes.data() + sizeof(TreeRoot));
  return out;
}

IndexState BtreeState::to() const {
  IndexState state;
  store_le(state.bytes.data(), root);
  store_le(state.bytes.data() + sizeof(TreeRoot), multikey_fields);
  return state;
}

BtreeIndex::BtreeIndex(Pager& pager, IndexSpec spec, std::uint32_t capabilities,
                       const IndexState& state)
    : pager_(pager),
      spec_(std::move(spec)),
      capabilities_(capabilities),
      extractor_(spec_.key_pattern.view()),
      tree_(pager, &root_, spec_.owner) {
  for (std::size_t i = 0; i < extractor_.fields(); ++i) names_.emplace_back(extractor_.path(i));
  if (spec_.collator) capabilities_ &= ~static_cast<std::uint32_t>(kIndexCovered);
  set_state(state);
}

IndexState BtreeIndex::state() const { return BtreeState{root_, multikey_fields_}.to(); }

void BtreeIndex::set_state(const IndexState& state) {
  const BtreeState parsed = BtreeState::from(state);
  root_ = parsed.root;
  multikey_fields_ = parsed.multikey_fields;
}

std::uint64_t BtreeIndex::multikey_fields(const IndexState& state) const {
  return BtreeState::from(state).multikey_fields;
}

Status BtreeIndex::extract(DocumentView document, IndexKeySet& out) const {
  if (spec_.partial_filter && !spec_.partial_filter->matches(document)) {
    out.clear();
    return {};
  }
  return extractor_.extract(document, spec_.sparse, spec_.collator.get(), out);
}

std::size_t BtreeIndex::pages_needed(const IndexKeySet& keys) const {
  // Equal keys may span leaves: the record goes to the first of them, to the last or to one between,
  // which holds nothing else.
  if (keys.keys.size() == 1)
    return std::max(tree_.pages_needed(tree_key(keys.keys.front().key, 0)),
                    tree_.pages_needed(tree_key(keys.keys.front().key, ~RecordId{0})));
  std::size_t pages = 0;
  for (const IndexKey& key : keys.keys) pages += tree_.pages_needed(key.key.size() + kIdSize);
  // Splits may make the tree one level higher than it was when this was asked.
  return pages + 4 * keys.keys.size();
}

Result<RecordId> BtreeIndex::find_conflict(const IndexKeySet& keys, RecordId self) const {
  TreeCursor cursor(pager_, root_);
  for (const IndexKey& key : keys.keys) {
    MULTIFORA_TRY_R(cursor.seek(key.key));
    while (cursor.valid()) {
      const Bytes found = cursor.key();
      if (found.size() != key.key.size() + kIdSize || !found.starts_with(key.key)) break;
      const auto id = load_be<RecordId>(found.data() + key.key.size());
      if (id != self) return id;
      MULTIFORA_TRY_R(cursor.next());
    }
  }
  return RecordId{0};
}

Status BtreeIndex::insert(const IndexKeySet& keys, RecordId id, PageStash& stash) {
  for (const IndexKey& key : keys.keys) {
    MULTIFORA_ASSIGN(const TreeInsert done,
                     tree_.insert(tree_key(key.key, id), key.type_bits, true, stash));
    static_cast<void>(done);
  }
  multikey_fields_ |= keys.multikey_fields;
  return {};
}

Status BtreeIndex::remove(const IndexKeySet& keys, RecordId id, PageStash& stash) {
  for (const IndexKey& key : keys.keys) {
    MULTIFORA_ASSIGN(const bool removed, tree_.remove(tree_key(key.key, id), stash));
    if (!removed)
      return {ErrorCode::kDataCorruptionDetected,
              "index " + spec_.name + " of " + spec_.ns + " lacks a key of record " +
                  std::to_string(id) + "; drop and create the index again"};
  }
  return {};
}

Status BtreeIndex::clear() {
  multikey_fields_ = 0;
  return tree_.clear();
}

Result<bool> BtreeIndex::vacate(PageId from, std::size_t pages_max, PageStash& stash) {
  return tree_.vacate(from, pages_max, stash);
}

std::unique_ptr<IndexCursor> BtreeIndex::cursor(const IndexState& state) const {
  return std::make_unique<BtreeCursor>(pager_, BtreeState::from(state).root);
}

void BtreeIndex::append_bound(KeyStringBuilder& key, std::size_t field,
                              const ValueView& value) const {
  key.append(value, extractor_.descending(field), spec_.collator.get());
}

Result<std::uint64_t> BtreeIndex::count_range(const IndexState& state, Bytes from,
                                              Bytes to) const {
  TreeRoot root = BtreeState::from(state).root;
  const Tree tree(pager_, &root, spec_.owner);
  std::uint64_t end = root.count;
  if (!to.empty()) {
    MULTIFORA_ASSIGN_R(end, tree.rank(to));
  }
  MULTIFORA_ASSIGN_R(const std::uint64_t start, tree.rank(from));
  return end > start ? end - start : 0;
}

Status BtreeIndex::decode(Bytes key, Bytes type_bits, DocumentBuilder& out) const {
  const std::vector<std::string_view> names(names_.begin(), names_.end());
  return decode_key_string(key, type_bits, names, extractor_.directions(), out);
}

std::unique_ptr<IndexBulkBuilder> BtreeIndex::bulk_builder(
    std::uint64_t memory_budget_bytes, const std::string& temp_directory) const {
  return std::make_unique<BtreeBulkBuilder>(pager_, *this, memory_budget_bytes, temp_directory);
}

IndexStats BtreeIndex::stats(const IndexState& state) const {
  const TreeRoot root = BtreeState::from(state).root;
  return {root.count, std::uint64_t{root.pages} * kPageSize};
}

Status BtreeIndex::check(const IndexState& state, const std::function<void(PageId)>& page,
                         std::vector<std::string>* errors) const {
  TreeRoot root = BtreeState::from(state).root;
  return Tree(pager_, &root, spec_.owner).check(page, errors);
}

}  // namespace multifora
