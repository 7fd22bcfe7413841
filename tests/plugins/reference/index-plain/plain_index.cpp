#include "tests/plugins/reference/index-plain/plain_index.h"

#include <map>

#include "core/storage/tree.h"

namespace multifora {
namespace {

constexpr std::uint32_t kCapabilities = kIndexEquality | kIndexRange | kIndexUnique;

class PlainCursor final : public IndexCursor {
 public:
  PlainCursor(Pager& pager, const TreeRoot& root) : cursor_(pager, root) {}
  Status seek(Bytes key, RecordId id) override {
    Buffer from(key);
    if (id != 0) append_be(from, id);
    return cursor_.seek(from);
  }
  Status seek_reverse(Bytes key, RecordId id) override {
    Buffer from(key);
    if (id != ~RecordId{0}) {
      append_be(from, id);
      return cursor_.seek_reverse(from);
    }
    // Everything that starts with `key` is before its successor.
    from = key_string_successor(key);
    return from.empty() ? cursor_.seek_last() : cursor_.seek_reverse(from, true);
  }
  Status next() override { return cursor_.next(); }
  Status prev() override { return cursor_.prev(); }
  bool valid() const override { return cursor_.valid(); }
  Bytes key() const override { return cursor_.key().substr(0, cursor_.key().size() - 8); }
  Bytes type_bits() const override { return cursor_.value(); }
  RecordId record_id() const override {
    return load_be<RecordId>(cursor_.key().data() + cursor_.key().size() - 8);
  }
  int compare_key(Bytes other) const override { return key().compare(other); }

 private:
  TreeCursor cursor_;
};

class PlainIndex final : public Index {
 public:
  PlainIndex(Pager& pager, IndexSpec spec, const IndexState& state)
      : pager_(pager), spec_(std::move(spec)), tree_(pager, &root_, spec_.owner) {
    set_state(state);
    field_ = spec_.key_pattern.view().first().name();
  }
  const IndexSpec& spec() const override { return spec_; }
  std::uint32_t capabilities() const override { return kCapabilities; }
  Status extract(DocumentView document, IndexKeySet& out) const override {
    out.clear();
    const ValueView value = document[field_];
    if (value.missing() && spec_.sparse) return {};
    KeyStringBuilder key;
    key.append(value.missing() ? ValueView(BsonType::kNull, "", 0) : value);
    out.keys.push_back({key.key(), key.type_bits()});
    return {};
  }
  IndexState state() const override {
    IndexState state;
    store_le(state.bytes.data(), root_);
    return state;
  }
  void set_state(const IndexState& state) override {
    root_ = load_le<TreeRoot>(state.bytes.data());
  }
  std::uint64_t multikey_fields(const IndexState&) const override { return 0; }
  std::size_t pages_needed(const IndexKeySet& keys) const override {
    std::size_t pages = 0;
    for (const IndexKey& key : keys.keys) pages += tree_.pages_needed(key.key.size() + 8);
    return pages;
  }
  Result<RecordId> find_conflict(const IndexKeySet& keys, RecordId self) const override {
    for (const IndexKey& key : keys.keys) {
      PlainCursor cursor(pager_, root_);
      MULTIFORA_TRY_R(cursor.seek(key.key, 0));
      for (; cursor.valid() && cursor.key() == key.key;) {
        if (cursor.record_id() != self) return cursor.record_id();
        MULTIFORA_TRY_R(cursor.next());
      }
    }
    return RecordId{0};
  }
  Status insert(const IndexKeySet& keys, RecordId id, PageStash& stash) override {
    for (const IndexKey& key : keys.keys)
      MULTIFORA_TRY(status_of(tree_.insert(with_id(key.key, id), key.type_bits, true, stash)));
    return {};
  }
  Status remove(const IndexKeySet& keys, RecordId id, PageStash& stash) override {
    for (const IndexKey& key : keys.keys)
      MULTIFORA_TRY(status_of(tree_.remove(with_id(key.key, id), stash)));
    return {};
  }
  Status clear() override { return tree_.clear(); }
  Result<bool> vacate(PageId from, std::size_t pages_max, PageStash& stash) override {
    return tree_.vacate(from, pages_max, stash);
  }
  std::unique_ptr<IndexCursor> cursor(const IndexState& state) const override {
    return std::make_unique<PlainCursor>(pager_, load_le<TreeRoot>(state.bytes.data()));
  }
  void append_bound(KeyStringBuilder& key, std::size_t, const ValueView& value) const override {
    key.append(value);
  }
  Result<std::uint64_t> count_range(const IndexState& state, Bytes from, Bytes to) const override {
    PlainCursor cursor(pager_, load_le<TreeRoot>(state.bytes.data()));
    MULTIFORA_TRY_R(cursor.seek(from, 0));
    std::uint64_t count = 0;
    for (; cursor.valid() && (to.empty() || cursor.key() < to); ++count)
      MULTIFORA_TRY_R(cursor.next());
    return count;
  }
  Status decode(Bytes key, Bytes type_bits, DocumentBuilder& out) const override {
    return decode_key_string(key, type_bits, {field_}, {false}, out);
  }
  std::unique_ptr<IndexBulkBuilder> bulk_builder(std::uint64_t, const std::string&) const override;
  IndexStats stats(const IndexState& state) const override {
    const auto root = load_le<TreeRoot>(state.bytes.data());
    return {root.count, std::uint64_t{root.pages} * kPageSize};
  }
  Status check(const IndexState& state, const std::function<void(PageId)>& page,
               std::vector<std::string>* errors) const override {
    auto root = load_le<TreeRoot>(state.bytes.data());
    return Tree(pager_, &root, spec_.owner).check(page, errors);
  }

 private:
  static Buffer with_id(Bytes key, RecordId id) {
    Buffer out(key);
    append_be(out, id);
    return out;
  }
  Pager& pager_;
  IndexSpec spec_;
  std::string_view field_;
  TreeRoot root_;
  Tree tree_;
};

class PlainBuilder final : public IndexBulkBuilder {
 public:
  PlainBuilder(Pager& pager, const IndexSpec& spec) : spec_(spec), tree_(pager, spec.owner) {}
  Status add(const IndexKeySet& keys, RecordId id) override {
    for (const IndexKey& key : keys.keys) {
      // Each clashing key once: with its second record.
      if (spec_.unique && ++seen_[key.key] == 2 && duplicates_.size() < kIndexDuplicatesMax)
        duplicates_.push_back(key);
      Buffer whole = key.key;
      append_be(whole, id);
      sorted_[whole] = key.type_bits;
    }
    return {};
  }
  Status make_room() override { return {}; }
  Result<IndexState> finish(
      const std::function<Status(std::uint64_t, std::uint64_t)>& progress) override {
    MULTIFORA_TRY_R(progress(0, sorted_.size()));
    for (const auto& [key, type_bits] : sorted_) MULTIFORA_TRY_R(tree_.add(key, type_bits));
    MULTIFORA_ASSIGN_R(const TreeRoot root, tree_.finish());
    IndexState state;
    store_le(state.bytes.data(), root);
    return state;
  }
  const std::vector<IndexKey>& duplicates() const override { return duplicates_; }
  PageStash& stash() override { return tree_.stash(); }
  void link() override { tree_.link(); }

 private:
  const IndexSpec& spec_;
  TreeBuilder tree_;
  std::vector<IndexKey> duplicates_;
  std::map<Buffer, Buffer> sorted_;
  std::map<Buffer, int> seen_;
};

std::unique_ptr<IndexBulkBuilder> PlainIndex::bulk_builder(std::uint64_t,
                                                           const std::string&) const {
  return std::make_unique<PlainBuilder>(pager_, spec_);
}

int claims(DocumentView spec) {
  if (!spec["expireAfterSeconds"].missing()) return 0;
  for (const Element& field : spec["key"].as_document())
    if (!field->is_number()) return 0;
  return 5;
}
Result<OwnedDocument> normalize(const PluginHost&, DocumentView spec) {
  return OwnedDocument(spec);
}
Result<std::unique_ptr<Index>> open(const PluginHost&, Pager& pager, IndexSpec spec,
                                    const IndexState& state) {
  return std::make_unique<PlainIndex>(pager, std::move(spec), state);
}

}  // namespace

const IndexKind kPlainIndex{"plain", kCapabilities, claims, normalize, open};

}  // namespace multifora
