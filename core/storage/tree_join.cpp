// What follows a remove: empty pages go, sparse ones are merged with a neighbour or, where the
// neighbour is too full for that, filled from it.
#include <algorithm>

#include "core/base/assert.h"
#include "core/storage/tree_edit.h"
#include "core/storage/tree_overflow.h"

namespace multifora {

using node::Items;

namespace {

// A page below this looks for a neighbour to merge with ...
constexpr std::size_t kSparse = node::kCapacity / 2;
// ... if both together leave room for the next inserts ...
constexpr std::size_t kMergedMax = node::kCapacity * 9 / 10;
// ... and below this takes entries from a fuller one.
constexpr std::size_t kVerySparse = node::kCapacity / 4;

// Looking at the neighbours costs as much as the remove itself: not after each one.
bool worth_a_look(const char* page) {
  const std::size_t used = node::used_bytes(page);
  if (used >= kSparse) return false;
  const std::uint32_t count = node::header(page).count;
  return count < 16 || count % 4 == 0;
}

// The entries of two neighbours, the right one's first key taken from the parent where they are
// inner pages. `buffer` holds that entry: it and both pages must outlive the items.
void append_pair(Items* items, const char* left, const char* right, const char* parent,
                 std::uint32_t right_slot, char* buffer) {
  items->append_page(left);
  const std::uint32_t middle = items->count();
  items->append_page(right);
  if (node::header(left).level == 0) return;
  node::Entry entry;
  MULTIFORA_ASSERT(node::read_entry(parent, right_slot, &entry));
  node::Item& item = (*items)[middle];
  const Bytes child(item.body + item.body_size - node::kChildSize, node::kChildSize);
  const Bytes shared = node::prefix(parent);
  item = node::item_of(
      node::encode(buffer, Bytes(entry.key, entry.key_size),
                   entry.overflow ? Bytes(entry.reference, node::kReferenceSize) : Bytes(), child));
  item.prefix = shared.data();
  item.prefix_size = static_cast<std::uint16_t>(shared.size());
}

// Damaged pages are left as they are.
bool sound(const char* page, const char* parent, std::uint32_t slot) {
  return node::validate(page).empty() && node::keys_within(page, parent, slot);
}

}  // namespace

void TreeEdit::rebalance() {
  for (std::uint32_t d = depth() - 1; d > 0; --d) {
    if (node::header(own_[d]).count == 0) {
      drop_empty(d);
    } else if (!worth_a_look(own_[d]) || !join(d)) {
      break;
    }
  }
  shrink_root();
}

void TreeEdit::drop_empty(std::uint32_t at) {
  drop_page(steps_[at].id);
  remove_child(own_[at - 1], steps_[at - 1].slot);
}

// Removes an entry of an inner page; the first that is left has no key.
void TreeEdit::remove_child(char* parent, std::uint32_t slot) {
  retire_chain_of(parent, slot);
  node::remove(parent, slot);
  if (slot == 0 && node::header(parent).count > 0) {
    retire_chain_of(parent, 0);
    node::drop_first_key(parent);
  }
}

// A chain that cannot be read stays where it is: space lost in a damaged file.
void TreeEdit::retire_chain_of(const char* page, std::uint32_t slot) {
  node::Entry entry;
  if (!node::read_entry(page, slot, &entry) || !entry.overflow) return;
  std::vector<PageId> chain;
  if (overflow::collect(pager_, entry.reference, &chain).ok()) drop_chain(chain);
}

bool TreeEdit::find_sibling(std::uint32_t at, bool left, Sibling* sibling) const {
  const char* parent = own_[at - 1];
  const std::uint32_t slot = steps_[at - 1].slot;
  if (left ? slot == 0 : slot + 1u >= node::header(parent).count) return false;
  node::Child child;
  if (!node::read_child(parent, left ? slot - 1 : slot + 1, &child)) return false;
  if (child.page == steps_[at].id) return false;
  const Result<const char*> page = tree_access::read_node(pager_, child.page, depth() - 1 - at);
  if (!page) return false;
  *sibling = {child.page, *page, left ? slot - 1 : slot, left};
  return true;
}

// True where the pair has become one page, so that the parent has lost an entry.
bool TreeEdit::join(std::uint32_t at) {
  Sibling siblings[2];
  std::uint32_t count = 0;
  for (const bool left : {true, false})
    if (find_sibling(at, left, &siblings[count])) ++count;
  if (count == 0) return false;
  const auto used = [](const Sibling& sibling) { return node::used_bytes(sibling.page); };
  if (count == 2 && used(siblings[1]) < used(siblings[0])) std::swap(siblings[0], siblings[1]);
  const std::size_t own_used = node::used_bytes(own_[at]);
  const bool may_merge = own_used + used(siblings[0]) <= kMergedMax;
  if (!may_merge && own_used >= kVerySparse) return false;
  const char* parent = own_[at - 1];
  if (!node::validate(parent).empty() || !sound(own_[at], parent, steps_[at - 1].slot))
    return false;
  if (may_merge && sound(siblings[0].page, parent, siblings[0].slot()) && merge(at, siblings[0]))
    return true;
  const Sibling& fuller = siblings[count - 1];
  if (own_used < kVerySparse && used(fuller) > kSparse && sound(fuller.page, parent, fuller.slot()))
    share(at, fuller);
  return false;
}

bool TreeEdit::merge(std::uint32_t at, const Sibling& sibling) {
  char* page = own_[at];
  char* parent = own_[at - 1];
  const std::uint32_t level = depth() - 1 - at;
  char copy[kPageSize];
  std::memcpy(copy, page, kPageSize);
  char buffer[node::kBodyMax];
  Items items(level > 0);
  append_pair(&items, sibling.is_left ? sibling.page : copy, sibling.is_left ? copy : sibling.page,
              parent, sibling.left_slot + 1, buffer);
  if (items.size_of(0, items.count()) > node::kHeaderSize + kMergedMax) return false;
  items.build(page, level, 0, items.count());
  // An inner separator has moved into the page with its chain.
  if (level == 0) retire_chain_of(parent, sibling.left_slot + 1);
  node::remove(parent, sibling.left_slot + 1);
  node::write_child(parent, sibling.left_slot,
                    {steps_[at].id, count_of(items, level, 0, items.count())});
  drop_page(sibling.id);
  return true;
}

// Moves entries from the fuller neighbour. False, and nothing changed, where the new separator does
// not fit the parent or cannot be made.
bool TreeEdit::share(std::uint32_t at, const Sibling& sibling) {
  const std::uint32_t level = depth() - 1 - at;
  const std::uint32_t right_slot = sibling.left_slot + 1;
  char* parent = own_[at - 1];
  char copies[3][kPageSize];
  std::memcpy(copies[0], sibling.is_left ? sibling.page : own_[at], kPageSize);
  std::memcpy(copies[1], sibling.is_left ? own_[at] : sibling.page, kPageSize);
  std::memcpy(copies[2], parent, kPageSize);
  char moved[node::kBodyMax];
  Items items(level > 0);
  append_pair(&items, copies[0], copies[1], copies[2], right_slot, moved);
  const std::uint32_t cut = items.choose_cut(0, 0);
  if (cut == node::header(copies[0]).count) return false;

  Buffer key;
  char reference[node::kReferenceSize] = {};
  bool overflow = items[cut].overflow;
  if (level == 0) {
    if (!make_separator(pager_, items[cut - 1], items[cut], &key).ok()) return false;
    overflow = key.size() > node::kInlineKeyMax;
    // A remove was promised no more than the pages of the key that goes.
    if (overflow::pages_of(key.size()) > chain_pages_max_) return false;
  } else {
    key.resize(items[cut].inline_size());
    node::copy_key(items[cut], key.size(), key.data());
    if (overflow) std::memcpy(reference, items[cut].rest(), sizeof reference);
  }
  const char child[node::kChildSize] = {};
  const auto encode = [&](char* to) {
    return node::item_of(node::encode(to, Bytes(key).substr(0, node::kInlineKeyMax),
                                      overflow ? Bytes(reference, sizeof reference) : Bytes(),
                                      Bytes(child, sizeof child)));
  };
  char separator[node::kBodyMax];
  Items entries(true);
  entries.append_page(copies[2]);
  entries[right_slot] = encode(separator);
  if (entries.size_of(0, entries.count()) > kPageSize) return false;

  // Nothing fails from here on. The new chain before the old one goes: never the same pages.
  if (level == 0 && overflow) {
    write_chain(key, reference);
    entries[right_slot] = encode(separator);
  }
  if (level == 0) retire_chain_of(copies[2], right_slot);
  entries.build(parent, level + 1, 0, entries.count());
  PageId other_id = sibling.id;
  char* other = pager_.make_writable(&other_id, stash_);
  char* left = sibling.is_left ? other : own_[at];
  char* right = sibling.is_left ? own_[at] : other;
  items.build(left, level, 0, cut);
  items.build(right, level, cut, items.count());
  const PageId left_id = sibling.is_left ? other_id : steps_[at].id;
  const PageId right_id = sibling.is_left ? steps_[at].id : other_id;
  node::write_child(parent, sibling.left_slot, {left_id, count_of(items, level, 0, cut)});
  node::write_child(parent, right_slot, {right_id, count_of(items, level, cut, items.count())});
  return true;
}

// A root with one child is one level too many; without any, the tree is empty.
void TreeEdit::shrink_root() {
  const char* page = own_[0];
  const std::uint32_t key_size_max = node::header(page).key_size_max;
  bool changed = false;
  while (root_->height > 1 && node::header(page).count == 1) {
    node::Child child;
    if (!node::read_child(page, 0, &child)) break;
    const Result<const char*> below = tree_access::read_node(pager_, child.page, root_->height - 2);
    if (!below) break;
    drop_page(root_->page);
    root_->page = child.page;
    --root_->height;
    page = *below;
    changed = true;
  }
  if (node::header(page).count == 0) {
    drop_page(root_->page);
    *root_ = TreeRoot{};
  } else if (changed) {
    node::header(pager_.make_writable(&root_->page, stash_)).key_size_max = key_size_max;
  }
}

}  // namespace multifora
