#include "sorted_index.h"

#include <algorithm>

#include "core/plugin/host.h"
#include "core/store/collection_impl.h"
#include "sorted_array.h"

namespace multifora {
namespace {

constexpr std::size_t kIdSize = sizeof(RecordId);

Buffer array_key(Bytes key, RecordId id) {
  Buffer out(key);
  append_be<RecordId>(out, id);
  return out;
}

SortedState array_of(const IndexState& state) { return load_le<SortedState>(state.bytes.data()); }

class SortedCursor final : public IndexCursor {
 public:
  SortedCursor(Pager& pager, const SortedState& state) : place_(pager, state) {}
  Status seek(Bytes key, RecordId id) override {
    return id == 0 ? place_.seek(key) : place_.seek(array_key(key, id));
  }
  // The last entry at or before: the one before the first that is behind.
  Status seek_reverse(Bytes key, RecordId id) override {
    const bool whole_prefix = id == ~RecordId{0};
    const Buffer behind = whole_prefix ? key_string_successor(key) : array_key(key, id + 1);
    if (behind.empty()) return place_.seek_last();
    MULTIFORA_TRY(place_.seek(behind));
    return place_.valid() ? place_.prev() : place_.seek_last();
  }
  Status next() override { return place_.next(); }
  Status prev() override { return place_.prev(); }
  bool valid() const override { return place_.valid(); }
  Bytes key() const override {
    const Bytes whole = place_.entry().key;
    return whole.substr(0, whole.size() - kIdSize);
  }
  Bytes type_bits() const override { return place_.entry().value; }
  RecordId record_id() const override {
    const Bytes whole = place_.entry().key;
    return load_be<RecordId>(whole.data() + whole.size() - kIdSize);
  }
  int compare_key(Bytes other) const override { return key().compare(other); }

 private:
  SortedPlace place_;
};

class SortedIndex final : public Index {
 public:
  SortedIndex(Pager& pager, IndexSpec spec, const IndexState& state)
      : pager_(pager), spec_(std::move(spec)), array_(pager, &state_, spec_.owner) {
    const Element field = spec_.key_pattern.view().first();
    field_ = field.name();
    descending_ = field->number_as_double() < 0;
    set_state(state);
  }

  const IndexSpec& spec() const override { return spec_; }
  std::uint32_t capabilities() const override {
    if (!spec_.collator) return kSortedCapabilities;
    return kSortedCapabilities & ~std::uint32_t{kIndexCovered};  // keys are sort keys then
  }
  Status extract(DocumentView document, IndexKeySet& out) const override;
  IndexState state() const override {
    IndexState state;
    store_le(state.bytes.data(), state_);
    store_le(state.bytes.data() + sizeof state_, multikey_);
    return state;
  }
  void set_state(const IndexState& state) override {
    state_ = array_of(state);
    multikey_ = multikey_fields(state);
  }
  std::uint64_t multikey_fields(const IndexState& state) const override {
    return load_le<std::uint64_t>(state.bytes.data() + sizeof(SortedState));
  }

  // The array may grow by a height while the keys of one document go in.
  std::size_t pages_needed(const IndexKeySet& keys) const override {
    return keys.keys.size() * (array_.pages_needed() + 2);
  }
  Result<RecordId> find_conflict(const IndexKeySet& keys, RecordId self) const override {
    SortedCursor cursor(pager_, state_);
    for (const IndexKey& key : keys.keys) {
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
      MULTIFORA_TRY(array_.insert(array_key(key.key, id), key.type_bits, stash));
    multikey_ |= keys.multikey_fields;
    return {};
  }
  Status remove(const IndexKeySet& keys, RecordId id, PageStash& stash) override {
    for (const IndexKey& key : keys.keys) {
      MULTIFORA_ASSIGN(const bool removed, array_.remove(array_key(key.key, id), stash));
      if (!removed)
        return {ErrorCode::kDataCorruptionDetected,
                "index " + spec_.name + " of " + spec_.ns + " lacks a key of record " +
                    std::to_string(id) + "; drop and create the index again"};
    }
    return {};
  }
  Status clear() override {
    multikey_ = 0;
    return array_.clear();
  }

  std::unique_ptr<IndexCursor> cursor(const IndexState& state) const override {
    return std::make_unique<SortedCursor>(pager_, array_of(state));
  }
  void append_bound(KeyStringBuilder& key, std::size_t, const ValueView& value) const override {
    key.append(value, descending_, spec_.collator.get());
  }
  Result<std::uint64_t> count_range(const IndexState& state, Bytes from, Bytes to) const override {
    SortedCursor cursor(pager_, array_of(state));
    MULTIFORA_TRY_R(cursor.seek(from, 0));
    std::uint64_t count = 0;
    for (; cursor.valid() && (to.empty() || cursor.key() < to); ++count) MULTIFORA_TRY_R(cursor.next());
    return count;
  }
  Status decode(Bytes key, Bytes type_bits, DocumentBuilder& out) const override {
    return decode_key_string(key, type_bits, {field_}, {descending_}, out);
  }
  std::unique_ptr<IndexBulkBuilder> bulk_builder(std::uint64_t, const std::string&) const override;
  IndexStats stats(const IndexState& state) const override {
    const SortedState array = array_of(state);
    return {array.entries, std::uint64_t{array.pages} * kPageSize};
  }
  Status check(const IndexState& state, const std::function<void(PageId)>& page,
               std::vector<std::string>* errors) const override {
    SortedState array = array_of(state);
    return SortedArray(pager_, &array, spec_.owner).check(page, errors);
  }

 private:
  Status add_key(const ValueView& value, IndexKeySet& out) const;

  Pager& pager_;
  IndexSpec spec_;
  std::string_view field_;
  bool descending_ = false;
  SortedState state_;
  std::uint64_t multikey_ = 0;
  SortedArray array_;
};

Status SortedIndex::add_key(const ValueView& value, IndexKeySet& out) const {
  KeyStringBuilder key;
  key.append(value, descending_, spec_.collator.get());
  if (key.key().size() + kIdSize + key.type_bits().size() > kSortedEntryMax)
    return {ErrorCode::kBadValue, "a key of index " + spec_.name + " of " + spec_.ns + " has " +
                                      std::to_string(key.key().size()) + " bytes; an index of kind " +
                                      "sorted takes " + std::to_string(kSortedEntryMax)};
  out.keys.push_back({key.key(), key.type_bits()});
  return {};
}

// MongoDB's rules for one top-level field: a missing one is null, an array gives a key for each element,
// an empty one a key of undefined.
Status SortedIndex::extract(DocumentView document, IndexKeySet& out) const {
  out.clear();
  if (spec_.partial_filter && !spec_.partial_filter->matches(document)) return {};
  const ValueView value = document[field_];
  if (value.missing()) return spec_.sparse ? Status() : add_key(ValueView(BsonType::kNull, "", 0), out);
  if (value.type() != BsonType::kArray) return add_key(value, out);
  out.multikey_fields = 1;
  if (value.as_document().empty()) return add_key(ValueView(BsonType::kUndefined, "", 0), out);
  for (const Element& element : value.as_document()) MULTIFORA_TRY(add_key(element.value(), out));
  std::sort(out.keys.begin(), out.keys.end(),
            [](const IndexKey& a, const IndexKey& b) { return a.key < b.key; });
  const auto same = [](const IndexKey& a, const IndexKey& b) { return a.key == b.key; };
  out.keys.erase(std::unique(out.keys.begin(), out.keys.end(), same), out.keys.end());
  return {};
}

// Sorts in memory, whatever the budget: an example. index-btree spills sorted runs to files.
class SortedBulkBuilder final : public IndexBulkBuilder {
 public:
  SortedBulkBuilder(Pager& pager, const SortedIndex& index) : index_(index), builder_(pager, index.spec().owner) {}
  Status add(const IndexKeySet& keys, RecordId id) override {
    for (const IndexKey& key : keys.keys) entries_.push_back({array_key(key.key, id), key.type_bits});
    multikey_ |= keys.multikey_fields;
    return {};
  }
  Status make_room() override { return {}; }
  Result<IndexState> finish(
      const std::function<Status(std::uint64_t, std::uint64_t)>& progress) override {
    std::sort(entries_.begin(), entries_.end());
    Bytes last;
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (i % 8192 == 0) MULTIFORA_TRY_R(progress(i, entries_.size()));
      const auto& [key, type_bits] = entries_[i];
      const Bytes without_id = Bytes(key).substr(0, key.size() - kIdSize);
      if (index_.spec().unique && i > 0 && without_id == last &&
          (duplicates_.empty() || Bytes(duplicates_.back().key) != without_id)) {
        duplicates_.push_back({Buffer(without_id), type_bits});
        if (duplicates_.size() > kIndexDuplicatesMax)
          return fail(duplicate_key(index_, duplicates_.front()));
      }
      last = without_id;
      MULTIFORA_TRY_R(builder_.add(key, type_bits));
    }
    MULTIFORA_TRY_R(progress(entries_.size(), entries_.size()));
    MULTIFORA_ASSIGN_R(const SortedState array, builder_.finish());
    IndexState state;
    store_le(state.bytes.data(), array);
    store_le(state.bytes.data() + sizeof array, multikey_);
    return state;
  }
  const std::vector<IndexKey>& duplicates() const override { return duplicates_; }
  PageStash& stash() override { return builder_.stash(); }
  void link() override { builder_.stash().link(); }

 private:
  const SortedIndex& index_;
  SortedBuilder builder_;
  std::vector<IndexKey> duplicates_;
  std::vector<std::pair<Buffer, Buffer>> entries_;
  std::uint64_t multikey_ = 0;
};

std::unique_ptr<IndexBulkBuilder> SortedIndex::bulk_builder(std::uint64_t, const std::string&) const {
  return std::make_unique<SortedBulkBuilder>(pager_, *this);
}

}  // namespace

std::unique_ptr<Index> open_sorted_index(Pager& pager, IndexSpec spec, const IndexState& state) {
  return std::make_unique<SortedIndex>(pager, std::move(spec), state);
}

}  // namespace multifora
