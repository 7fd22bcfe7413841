#include "sorted_array.h"

#include <algorithm>
#include <cstring>

namespace multifora {
namespace {

constexpr std::size_t kHead = sizeof(PageHeader) + 8;
constexpr std::size_t kRoom = kPageSize - kHead;
constexpr std::size_t kEntryHead = 4;
constexpr std::uint32_t kNumbersMax = kRoom / sizeof(PageId);

Status damaged(PageId page, const char* how) {
  return {ErrorCode::kDataCorruptionDetected,
          "page " + std::to_string(page) + " of a sorted index: " + how};
}

std::uint32_t count_in(const char* page) {
  return load_le<std::uint32_t>(page + sizeof(PageHeader));
}

PageId number_in(const char* list, std::uint32_t index) {
  return load_le<PageId>(list + kHead + index * sizeof(PageId));
}

void set_number(char* list, std::uint32_t index, PageId number) {
  store_le(list + kHead + index * sizeof(PageId), number);
}

void write_list(char* page, const PageId* numbers, std::size_t count) {
  store_le(page + sizeof(PageHeader), static_cast<std::uint32_t>(count));
  store_le(page + sizeof(PageHeader) + 4, std::uint32_t{0});
  std::memset(page + kHead, 0, kRoom);
  for (std::size_t i = 0; i < count; ++i) set_number(page, static_cast<std::uint32_t>(i), numbers[i]);
}

void write_leaf(char* page, std::uint32_t entries, Bytes packed) {
  store_le(page + sizeof(PageHeader), entries);
  store_le(page + sizeof(PageHeader) + 4, static_cast<std::uint32_t>(packed.size()));
  std::memcpy(page + kHead, packed.data(), packed.size());
  std::memset(page + kHead + packed.size(), 0, kRoom - packed.size());
}

void append_entry(Buffer& packed, const SortedEntry& entry) {
  append_le<std::uint16_t>(packed, static_cast<std::uint16_t>(entry.key.size()));
  append_le<std::uint16_t>(packed, static_cast<std::uint16_t>(entry.value.size()));
  packed.append(entry.key);
  packed.append(entry.value);
}

std::size_t packed_size(const SortedEntry& entry) {
  return kEntryHead + entry.key.size() + entry.value.size();
}

// A list's page, with what a reader relies on checked.
Result<const char*> read_list(Pager& pager, PageId id) {
  MULTIFORA_ASSIGN_R(const char* const page, pager.read(id));
  const std::uint32_t count = count_in(page);
  if (reinterpret_cast<const PageHeader*>(page)->kind != static_cast<std::uint8_t>(PageKind::kArray) ||
      count == 0 || count > kNumbersMax)
    return fail(damaged(id, "it is no list"));
  return page;
}

Status read_leaf(Pager& pager, PageId id, std::vector<SortedEntry>& out) {
  MULTIFORA_ASSIGN(const char* const page, pager.read(id));
  const std::uint32_t count = count_in(page);
  const auto used = load_le<std::uint32_t>(page + sizeof(PageHeader) + 4);
  if (reinterpret_cast<const PageHeader*>(page)->kind != static_cast<std::uint8_t>(PageKind::kTreeLeaf) ||
      count == 0 || used > kRoom)
    return damaged(id, "it is no leaf");
  out.clear();
  const char* at = page + kHead;
  const char* const end = at + used;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (end - at < static_cast<std::ptrdiff_t>(kEntryHead)) return damaged(id, "it is cut short");
    const std::size_t key = load_le<std::uint16_t>(at), value = load_le<std::uint16_t>(at + 2);
    at += kEntryHead;
    if (static_cast<std::size_t>(end - at) < key + value) return damaged(id, "it is cut short");
    out.push_back({{at, key}, {at + key, value}});
    at += key + value;
  }
  return {};
}

}  // namespace

// --- places ---------------------------------------------------------------------------------------

Result<Bytes> SortedPlace::first_key(PageId page, std::uint32_t height) const {
  for (; height > 1; --height) {
    MULTIFORA_ASSIGN_R(const char* const list, read_list(*pager_, page));
    page = number_in(list, 0);
  }
  MULTIFORA_ASSIGN_R(const char* const leaf, pager_->read(page));
  const std::size_t size = load_le<std::uint16_t>(leaf + kHead);
  if (count_in(leaf) == 0 || size > kRoom - kEntryHead) return fail(damaged(page, "it is no leaf"));
  return Bytes(leaf + kHead + kEntryHead, size);
}

// The last child whose first key is <= `key`; the first one where none is.
Result<std::uint32_t> SortedPlace::child_for(PageId list_page, std::uint32_t height, Bytes key) const {
  MULTIFORA_ASSIGN_R(const char* const list, read_list(*pager_, list_page));
  std::uint32_t low = 0, high = count_in(list);
  while (high - low > 1) {
    const std::uint32_t middle = (low + high) / 2;
    MULTIFORA_ASSIGN_R(const Bytes first, first_key(number_in(list, middle), height - 1));
    (first <= key ? low : high) = middle;
  }
  return low;
}

Status SortedPlace::load_leaf(PageId page) {
  leaf_ = page;
  return read_leaf(*pager_, page, entries_);
}

Status SortedPlace::seek(Bytes key) {
  valid_ = false;
  lists_.clear();
  if (state_.root == kNoPage) return {};
  PageId page = state_.root;
  for (std::uint32_t height = state_.height; height > 1; --height) {
    MULTIFORA_ASSIGN(const std::uint32_t child, child_for(page, height, key));
    lists_.push_back({page, child});
    MULTIFORA_ASSIGN(const char* const list, read_list(*pager_, page));
    page = number_in(list, child);
  }
  MULTIFORA_TRY(load_leaf(page));
  const auto at = std::lower_bound(entries_.begin(), entries_.end(), key,
                                   [](const SortedEntry& entry, Bytes k) { return entry.key < k; });
  slot_ = static_cast<std::size_t>(at - entries_.begin());
  valid_ = true;
  return slot_ < entries_.size() ? Status() : move_leaf(1);
}

// From `page` to the first or last entry under it.
Status SortedPlace::descend(PageId page, std::uint32_t height, End end) {
  for (; height > 1; --height) {
    MULTIFORA_ASSIGN(const char* const list, read_list(*pager_, page));
    lists_.push_back({page, end == End::kFirst ? 0 : count_in(list) - 1});
    page = number_in(list, lists_.back().index);
  }
  MULTIFORA_TRY(load_leaf(page));
  slot_ = end == End::kFirst ? 0 : entries_.size() - 1;
  valid_ = true;
  return {};
}

Status SortedPlace::seek_last() {
  valid_ = false;
  lists_.clear();
  return state_.root == kNoPage ? Status() : descend(state_.root, state_.height, End::kLast);
}

// To the next leaf in a direction: up to the first list that has one there, and down again.
Status SortedPlace::move_leaf(int direction) {
  valid_ = false;
  while (!lists_.empty()) {
    Step& step = lists_.back();
    MULTIFORA_ASSIGN(const char* const list, read_list(*pager_, step.page));
    if (direction > 0 ? step.index + 1 < count_in(list) : step.index > 0) {
      step.index += static_cast<std::uint32_t>(direction);
      const auto below = state_.height - static_cast<std::uint32_t>(lists_.size());
      return descend(number_in(list, step.index), below, direction > 0 ? End::kFirst : End::kLast);
    }
    lists_.pop_back();
  }
  return {};
}

Status SortedPlace::next() {
  if (++slot_ < entries_.size()) return {};
  return move_leaf(1);
}

Status SortedPlace::prev() {
  if (slot_ > 0) {
    --slot_;
    return {};
  }
  return move_leaf(-1);
}

// --- changes --------------------------------------------------------------------------------------

// Copies what of the place's path is published, from the root down, so that each list names the copy.
Status SortedArray::make_path_writable(SortedPlace& place, PageStash& stash, char** leaf) {
  char* parent = nullptr;
  const auto own = [&](PageId* id, std::uint32_t index) {
    char* const page = pager_.make_writable(id, stash);
    if (parent == nullptr) state_->root = *id;
    else set_number(parent, index, *id);
    return page;
  };
  std::uint32_t index = 0;
  for (SortedPlace::Step& step : place.lists_) {
    parent = own(&step.page, index);
    index = step.index;
  }
  *leaf = own(&place.leaf_, index);
  return {};
}

// Puts `number` behind the child that the place took in the list at `depth`, splitting full lists.
void SortedArray::insert_number(SortedPlace& place, std::size_t depth, PageId number, PageStash& stash) {
  if (depth == 0) {  // the root was split: a new one above
    PageId root;
    char* const page = stash.take(PageKind::kArray, owner_, &root);
    const PageId both[] = {state_->root, number};
    write_list(page, both, 2);
    state_->root = root;
    ++state_->height;
    ++state_->pages;
    return;
  }
  SortedPlace::Step& step = place.lists_[depth - 1];
  char* const list = pager_.write(step.page);
  std::vector<PageId> numbers(count_in(list));
  for (std::uint32_t i = 0; i < numbers.size(); ++i) numbers[i] = number_in(list, i);
  numbers.insert(numbers.begin() + step.index + 1, number);
  if (numbers.size() <= kNumbersMax) return write_list(list, numbers.data(), numbers.size());
  // In two, or where the array grows at its end, with the first one left full.
  const std::size_t left = step.index + 2 == numbers.size() ? numbers.size() - 1 : numbers.size() / 2;
  PageId right;
  char* const page = stash.take(PageKind::kArray, owner_, &right);
  write_list(list, numbers.data(), left);
  write_list(page, numbers.data() + left, numbers.size() - left);
  ++state_->pages;
  insert_number(place, depth - 1, right, stash);
}

Status SortedArray::insert(Bytes key, Bytes value, PageStash& stash) {
  SortedPlace place(pager_, *state_);
  const SortedEntry fresh{key, value};
  if (state_->root == kNoPage) {
    Buffer packed;
    append_entry(packed, fresh);
    write_leaf(stash.take(PageKind::kTreeLeaf, owner_, &state_->root), 1, packed);
    state_->height = state_->pages = 1;
    state_->entries = 1;
    return {};
  }
  // seek() ends in the next leaf where the key is behind all of its leaf: then it belongs to the end of
  // the one before.
  MULTIFORA_TRY(place.seek(key));
  if (!place.valid()) {
    MULTIFORA_TRY(place.seek_last());
    ++place.slot_;
  } else if (place.slot_ == 0 && key < place.entry().key) {
    MULTIFORA_TRY(place.prev());
    if (place.valid()) ++place.slot_;
    else MULTIFORA_TRY(place.seek({}));
  }
  const bool at_end = place.slot_ == place.entries_.size();
  const Buffer old(pager_.peek(place.leaf_), kPageSize);  // the entries point into a page that changes
  const char* const old_page = pager_.peek(place.leaf_);
  for (SortedEntry& entry : place.entries_) {
    entry.key = {old.data() + (entry.key.data() - old_page), entry.key.size()};
    entry.value = {old.data() + (entry.value.data() - old_page), entry.value.size()};
  }
  char* leaf = nullptr;
  MULTIFORA_TRY(make_path_writable(place, stash, &leaf));
  std::vector<SortedEntry>& entries = place.entries_;
  entries.insert(entries.begin() + static_cast<std::ptrdiff_t>(place.slot_), fresh);
  ++state_->entries;
  std::size_t size = 0;
  for (const SortedEntry& entry : entries) size += packed_size(entry);
  Buffer packed;
  std::size_t left = entries.size();
  if (size > kRoom) {  // half of the bytes; all but the new one where the leaf grows at its end
    left = at_end ? entries.size() - 1 : 0;
    for (std::size_t half = 0; !at_end && half < size / 2; ++left) half += packed_size(entries[left]);
  }
  for (std::size_t i = 0; i < left; ++i) append_entry(packed, entries[i]);
  write_leaf(leaf, static_cast<std::uint32_t>(left), packed);
  if (left == entries.size()) return {};
  packed.clear();
  for (std::size_t i = left; i < entries.size(); ++i) append_entry(packed, entries[i]);
  PageId right;
  char* const page = stash.take(PageKind::kTreeLeaf, owner_, &right);
  write_leaf(page, static_cast<std::uint32_t>(entries.size() - left), packed);
  ++state_->pages;
  insert_number(place, place.lists_.size(), right, stash);
  return {};
}

// Takes the place's leaf, which is empty, out of its list, and lists that become empty out of theirs.
Status SortedArray::remove_number(SortedPlace& place, PageStash& stash) {
  stash.retire(place.leaf_);
  --state_->pages;
  while (!place.lists_.empty()) {
    const SortedPlace::Step step = place.lists_.back();
    char* const list = pager_.write(step.page);
    std::vector<PageId> numbers(count_in(list));
    for (std::uint32_t i = 0; i < numbers.size(); ++i) numbers[i] = number_in(list, i);
    numbers.erase(numbers.begin() + step.index);
    if (!numbers.empty()) {
      write_list(list, numbers.data(), numbers.size());
      break;
    }
    stash.retire(step.page);
    --state_->pages;
    place.lists_.pop_back();
  }
  if (place.lists_.empty()) {
    state_->root = kNoPage;
    state_->height = 0;
    return {};
  }
  // A root with one child is not needed.
  while (state_->height > 1) {
    MULTIFORA_ASSIGN(const char* const root, read_list(pager_, state_->root));
    if (count_in(root) > 1) break;
    const PageId child = number_in(root, 0);
    stash.retire(state_->root);
    state_->root = child;
    --state_->height;
    --state_->pages;
  }
  return {};
}

Result<bool> SortedArray::remove(Bytes key, PageStash& stash) {
  SortedPlace place(pager_, *state_);
  MULTIFORA_TRY_R(place.seek(key));
  if (!place.valid() || place.entry().key != key) return false;
  std::vector<SortedEntry>& entries = place.entries_;
  entries.erase(entries.begin() + static_cast<std::ptrdiff_t>(place.slot_));
  Buffer packed;
  for (const SortedEntry& entry : entries) append_entry(packed, entry);
  char* leaf = nullptr;
  MULTIFORA_TRY_R(make_path_writable(place, stash, &leaf));
  --state_->entries;
  if (entries.empty()) {
    MULTIFORA_TRY_R(remove_number(place, stash));
  } else {
    write_leaf(leaf, static_cast<std::uint32_t>(entries.size()), packed);
  }
  return true;
}

Status SortedArray::clear() {
  Status status;
  const auto walk = [&](auto& self, PageId page, std::uint32_t height) -> void {
    if (height > 1) {
      const auto list = read_list(pager_, page);
      if (list) {
        for (std::uint32_t i = 0; i < count_in(*list); ++i) self(self, number_in(*list, i), height - 1);
      } else {
        status = list.error();
      }
    }
    pager_.retire(page);
  };
  if (state_->root != kNoPage) walk(walk, state_->root, state_->height);
  *state_ = SortedState{};
  return status;
}

Status SortedArray::check(const std::function<void(PageId)>& page,
                          std::vector<std::string>* errors) const {
  std::uint64_t entries = 0, pages = 0;
  Buffer last;
  const auto walk = [&](auto& self, PageId id, std::uint32_t height) -> Status {
    page(id);
    ++pages;
    if (height > 1) {
      MULTIFORA_ASSIGN(const char* const list, read_list(pager_, id));
      for (std::uint32_t i = 0; i < count_in(list); ++i)
        MULTIFORA_TRY(self(self, number_in(list, i), height - 1));
      return {};
    }
    std::vector<SortedEntry> found;
    MULTIFORA_TRY(read_leaf(pager_, id, found));
    for (const SortedEntry& entry : found) {
      if (entries++ > 0 && entry.key <= Bytes(last))
        errors->push_back("page " + std::to_string(id) + " of a sorted index: keys out of order");
      last = entry.key;
    }
    return {};
  };
  if (state_->root != kNoPage) MULTIFORA_TRY(walk(walk, state_->root, state_->height));
  if (entries != state_->entries || pages != state_->pages)
    errors->push_back("a sorted index counts " + std::to_string(state_->entries) + " entries in " +
                      std::to_string(state_->pages) + " pages, but has " + std::to_string(entries) +
                      " in " + std::to_string(pages));
  return {};
}

// --- building -------------------------------------------------------------------------------------

Status SortedBuilder::flush_leaf() {
  if (leaf_entries_ == 0) return {};
  MULTIFORA_TRY(stash_.ensure(1));
  PageId id;
  write_leaf(stash_.take(PageKind::kTreeLeaf, owner_, &id), leaf_entries_, leaf_);
  leaves_.push_back(id);
  leaf_.clear();
  leaf_entries_ = 0;
  return {};
}

Status SortedBuilder::add(Bytes key, Bytes value) {
  const SortedEntry entry{key, value};
  if (leaf_.size() + packed_size(entry) > kRoom) MULTIFORA_TRY(flush_leaf());
  append_entry(leaf_, entry);
  ++leaf_entries_;
  ++state_.entries;
  return {};
}

Result<std::vector<PageId>> SortedBuilder::write_lists(const std::vector<PageId>& numbers) {
  std::vector<PageId> lists;
  for (std::size_t at = 0; at < numbers.size(); at += kNumbersMax) {
    MULTIFORA_TRY_R(stash_.ensure(1));
    PageId id;
    char* const page = stash_.take(PageKind::kArray, owner_, &id);
    write_list(page, numbers.data() + at, std::min<std::size_t>(kNumbersMax, numbers.size() - at));
    lists.push_back(id);
  }
  return lists;
}

Result<SortedState> SortedBuilder::finish() {
  MULTIFORA_TRY_R(flush_leaf());
  std::vector<PageId> level = leaves_;
  if (!level.empty()) state_.height = 1;
  state_.pages = static_cast<std::uint32_t>(level.size());
  while (level.size() > 1) {
    MULTIFORA_ASSIGN_R(level, write_lists(level));
    state_.pages += static_cast<std::uint32_t>(level.size());
    ++state_.height;
  }
  if (!level.empty()) state_.root = level.front();
  return state_;
}

}  // namespace multifora
