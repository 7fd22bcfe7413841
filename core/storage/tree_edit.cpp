// Inserts and removes up to the splits; joining is in tree_join.cpp.
#include "core/storage/tree_edit.h"

#include <algorithm>

#include "core/base/assert.h"
#include "core/storage/tree_overflow.h"

namespace multifora {

using node::Items;
using tree_access::ChainComparer;
using tree_access::damaged;
using tree_access::Step;

namespace {

// An insert that always goes to the same end is a run from the start.
constexpr int kRunForced = 100;

Status validate(PageId id, const char* page) {
  const std::string wrong = node::validate(page);
  return wrong.empty() ? Status() : damaged(id, wrong);
}

const char* reference_of(const node::Item& item) {
  return item.overflow ? item.rest() : nullptr;
}

}  // namespace

Status make_separator(const Pager& pager, const node::Item& left, const node::Item& right,
                      Buffer* separator) {
  const std::size_t common = node::common_bytes(left, right);
  const std::size_t inline_size = std::min(common + 1, right.inline_size());
  separator->resize(inline_size);
  node::copy_key(right, inline_size, separator->data());
  if (common + 1 <= right.inline_size()) return {};
  if (!right.overflow) return damaged(kNoPage, "has equal keys");
  std::size_t common_rest = 0;
  if (left.overflow) {
    MULTIFORA_ASSIGN(common_rest,
                     overflow::common_bytes(pager, reference_of(left), reference_of(right)));
  }
  return overflow::append(pager, reference_of(right), common_rest + 1, separator);
}

std::uint64_t count_of(const Items& items, std::uint32_t level, std::uint32_t begin,
                       std::uint32_t end) {
  if (level == 0) return end - begin;
  std::uint64_t total = 0;
  for (std::uint32_t i = begin; i < end; ++i) {
    const node::Item& item = items[i];
    total += node::load_child(item.body + item.body_size - node::kChildSize).count;
  }
  return total;
}

// --- pages ---------------------------------------------------------------------------------------

char* TreeEdit::new_page(PageKind kind, PageId* id) {
  ++root_->pages;
  return stash_.take(kind, owner_, id);
}

void TreeEdit::drop_page(PageId id) {
  --root_->pages;
  stash_.retire(id);
}

void TreeEdit::write_chain(Bytes key, char* reference) {
  overflow::write(stash_, owner_, key, reference);
  root_->pages += static_cast<std::uint32_t>(overflow::pages_of(key.size()));
}

void TreeEdit::drop_chain(const std::vector<PageId>& pages) {
  for (const PageId id : pages) drop_page(id);
}

// Makes the pages of the path writable and adds `change` to the counts along it.
void TreeEdit::own_path(std::int64_t change) {
  for (std::uint32_t d = 0; d < depth(); ++d) {
    Step& step = steps_[d];
    const PageId old = step.id;
    own_[d] = pager_.make_writable(&step.id, stash_);
    step.page = own_[d];
    if (d == 0) root_->page = step.id;
    if (d > 0 && (step.id != old || change != 0)) {
      const std::uint32_t slot = steps_[d - 1].slot;
      node::Child child{};
      MULTIFORA_ASSERT(node::read_child(own_[d - 1], slot, &child));
      child.page = step.id;
      child.count += static_cast<std::uint64_t>(change);
      node::write_child(own_[d - 1], slot, child);
    }
  }
  root_->count += static_cast<std::uint64_t>(change);
}

// --- insert --------------------------------------------------------------------------------------

Result<TreeInsert> TreeEdit::insert(Bytes key, Bytes value, bool replace) {
  node::Found found{0, false, false};
  if (depth() > 0) {
    MULTIFORA_ASSIGN_R(found, tree_access::descend(pager_, *root_, key, steps_.data()));
  }
  if (found.exact) {
    if (!replace) return TreeInsert::kExists;
    MULTIFORA_TRY_R(replace_value(value));
    return TreeInsert::kReplaced;
  }
  char reference[node::kReferenceSize];
  const bool overflow = key.size() > node::kInlineKeyMax;
  if (overflow) write_chain(key, reference);
  char buffer[node::kBodyMax];
  const node::Body body =
      node::encode(buffer, key.substr(0, node::kInlineKeyMax),
                   overflow ? Bytes(reference, sizeof reference) : Bytes(), value);
  if (depth() == 0) {
    insert_first(body);
  } else if (Status status = insert_body(body); !status.ok()) {
    std::vector<PageId> chain;
    if (overflow && overflow::collect(pager_, reference, &chain).ok()) drop_chain(chain);
    return fail(std::move(status));
  }
  node::Header& root = node::header(pager_.write(root_->page));
  root.key_size_max = std::max(root.key_size_max, static_cast<std::uint32_t>(key.size()));
  return TreeInsert::kInserted;
}

void TreeEdit::insert_first(const node::Body& body) {
  char* page = new_page(PageKind::kTreeLeaf, &root_->page);
  node::init(page, 0);
  node::insert_in_place(page, 0, body);
  root_->height = 1;
  root_->count = 1;
}

Status TreeEdit::insert_body(const node::Body& body) {
  if (!node::fits_in_place(leaf().page, body)) return rebuild_leaf(body, false);
  own_path(1);
  node::insert_in_place(own_[depth() - 1], leaf().slot, body);
  return {};
}

Status TreeEdit::replace_value(Bytes value) {
  const std::uint32_t slot = leaf().slot;
  if (node::value_fits_in_place(leaf().page, slot, value.size())) {
    own_path(0);
    node::replace_value_in_place(own_[depth() - 1], slot, value);
    return {};
  }
  node::Entry entry;
  if (!node::read_entry(leaf().page, slot, &entry))
    return damaged(leaf().id, "has a damaged entry");
  const Bytes reference = entry.overflow ? Bytes(entry.reference, node::kReferenceSize) : Bytes();
  const std::string key =
      std::string(node::prefix(leaf().page)) + std::string(entry.key, entry.key_size);
  if (key.size() > node::kInlineKeyMax) return damaged(leaf().id, "has a key of impossible size");
  char buffer[node::kBodyMax];
  return rebuild_leaf(node::encode(buffer, key, reference, value), true);
}

// The leaf with the entry at leaf().slot new or replaced: compacted, under another prefix, or
// split.
Status TreeEdit::rebuild_leaf(const node::Body& body, bool replaced) {
  MULTIFORA_TRY(validate(leaf().id, leaf().page));
  char copy[kPageSize];
  std::memcpy(copy, leaf().page, kPageSize);
  Items items(false);
  items.append_page(copy);
  const std::uint32_t index = leaf().slot;
  const int run = replaced ? 0 : run_of(depth() - 1, index);
  if (replaced)
    items[index] = node::item_of(body);
  else
    items.insert(index, node::item_of(body));
  if (items.size_of(0, items.count()) > kPageSize) return split_leaf(items, index, run, replaced);
  own_path(replaced ? 0 : 1);
  char* page = own_[depth() - 1];
  items.build(page, 0, 0, items.count());
  node::set_run(page, index, run);
  return {};
}

// The run that an insert at `index` of the path's page makes or continues.
int TreeEdit::run_of(std::uint32_t at, std::uint32_t index) const {
  const char* page = steps_[at].page;
  const int run = node::run_after(page, index);
  bool first = index == node::first_keyed(page);
  bool last = index == node::header(page).count;
  for (std::uint32_t d = 0; d < at; ++d) {
    first = first && steps_[d].slot == 0;
    last = last && steps_[d].slot + 1u == node::header(steps_[d].page).count;
  }
  if (first == last) return run;
  return last ? kRunForced : -kRunForced;
}

// A split may reach every page of the path. Keys outside of the parent's bounds would put a
// separator where it does not belong.
Status TreeEdit::validate_ancestors() const {
  for (std::uint32_t d = 0; d + 1 < depth(); ++d)
    MULTIFORA_TRY(validate(steps_[d].id, steps_[d].page));
  for (std::uint32_t d = 1; d < depth(); ++d)
    if (!node::keys_within(steps_[d].page, steps_[d - 1].page, steps_[d - 1].slot))
      return damaged(steps_[d].id, "has keys beyond its separators");
  return {};
}

namespace {

// Leaves the hint of a run with the part that got the new item.
void pass_run(char* left, char* right, std::uint32_t cut, std::uint32_t inserted, int run) {
  if (inserted < cut)
    node::set_run(left, inserted, run);
  else
    node::set_run(right, inserted - cut, run);
}

}  // namespace

Status TreeEdit::split_leaf(const Items& items, std::uint32_t inserted, int run, bool replaced) {
  const std::uint32_t cut = items.choose_cut(inserted, run);
  Buffer key;
  MULTIFORA_TRY(make_separator(pager_, items[cut - 1], items[cut], &key));
  MULTIFORA_TRY(validate_ancestors());
  // Nothing fails from here on.
  own_path(replaced ? 0 : 1);
  Separator separator;
  separator.key_size = std::min(key.size(), node::kInlineKeyMax);
  separator.overflow = key.size() > node::kInlineKeyMax;
  std::memcpy(separator.key, key.data(), separator.key_size);
  if (separator.overflow) write_chain(key, separator.reference);
  char* left = own_[depth() - 1];
  char* right = new_page(PageKind::kTreeLeaf, &separator.right);
  items.build(left, 0, 0, cut);
  items.build(right, 0, cut, items.count());
  pass_run(left, right, cut, inserted, run);
  separator.left_count = cut;
  separator.right_count = items.count() - cut;
  insert_separator(depth() - 1, separator);
  return {};
}

// The page of the path at depth `below` has been split; its parent learns of the right part.
void TreeEdit::insert_separator(std::uint32_t below, Separator& separator) {
  for (; below > 0; --below) {
    const std::uint32_t at = below - 1;
    char* page = own_[at];
    const std::uint32_t slot = steps_[at].slot;
    const int run = run_of(at, slot + 1);
    node::write_child(page, slot, {steps_[below].id, separator.left_count});
    char child[node::kChildSize];
    node::store_child(child, {separator.right, separator.right_count});
    char buffer[node::kBodyMax];
    const node::Body body = node::encode(buffer, separator.inline_key(),
                                         separator.reference_bytes(), Bytes(child, sizeof child));
    if (node::fits_in_place(page, body)) {
      node::insert_in_place(page, slot + 1, body);
      return;
    }
    char copy[kPageSize];
    std::memcpy(copy, page, kPageSize);
    Items items(true);
    items.append_page(copy);
    items.insert(slot + 1, node::item_of(body));
    const std::uint32_t level = depth() - 1 - at;
    if (items.size_of(0, items.count()) <= kPageSize) {
      items.build(page, level, 0, items.count());
      node::set_run(page, slot + 1, run);
      return;
    }
    split_inner(at, items, slot + 1, run, &separator);
  }
  grow_root(separator);
}

void TreeEdit::split_inner(std::uint32_t at, Items& items, std::uint32_t inserted, int run,
                           Separator* separator) {
  const std::uint32_t level = depth() - 1 - at;
  const std::uint32_t cut = items.choose_cut(inserted, run);
  const node::Item& up = items[cut];
  separator->key_size = up.inline_size();
  node::copy_key(up, up.inline_size(), separator->key);
  separator->overflow = up.overflow;
  if (up.overflow) std::memcpy(separator->reference, reference_of(up), node::kReferenceSize);
  char* left = own_[at];
  char* right = new_page(PageKind::kTreeInner, &separator->right);
  separator->left_count = count_of(items, level, 0, cut);
  separator->right_count = count_of(items, level, cut, items.count());
  items.build(left, level, 0, cut);
  items.build(right, level, cut, items.count());
  pass_run(left, right, cut, inserted, run);
}

void TreeEdit::grow_root(const Separator& separator) {
  const PageId left = root_->page;
  const std::uint32_t key_size_max = node::header(pager_.write(left)).key_size_max;
  char* page = new_page(PageKind::kTreeInner, &root_->page);
  node::init(page, root_->height);
  node::header(page).key_size_max = key_size_max;
  char child[node::kChildSize];
  const Bytes value(child, sizeof child);
  char buffer[node::kBodyMax];
  node::store_child(child, {left, separator.left_count});
  node::insert_in_place(page, 0, node::encode(buffer, Bytes("", 0), Bytes(), value));
  node::store_child(child, {separator.right, separator.right_count});
  node::insert_in_place(
      page, 1, node::encode(buffer, separator.inline_key(), separator.reference_bytes(), value));
  ++root_->height;
}

// --- remove --------------------------------------------------------------------------------------

Result<bool> TreeEdit::remove(Bytes key) {
  if (depth() == 0) return false;
  MULTIFORA_ASSIGN_R(const node::Found found,
                     tree_access::descend(pager_, *root_, key, steps_.data()));
  if (!found.exact) return false;
  node::Entry entry;
  if (!node::read_entry(leaf().page, leaf().slot, &entry))
    return fail(damaged(leaf().id, "has a damaged entry"));
  std::vector<PageId> chain;
  if (entry.overflow) MULTIFORA_TRY_R(overflow::collect(pager_, entry.reference, &chain));
  chain_pages_max_ = overflow::pages_of(key.size());
  own_path(-1);
  node::remove(own_[depth() - 1], leaf().slot);
  drop_chain(chain);
  rebalance();
  return true;
}

}  // namespace multifora
