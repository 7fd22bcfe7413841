// The tree as its users see it. Pages: tree_node.cpp; long keys: tree_overflow.h; changes:
// tree_edit.cpp and tree_join.cpp.
//
// A tree of height h has inner pages of the levels h - 1 .. 1 and leaves of level 0. All entries
// are in leaves. Separators: see invariant 4 in tree_node.cpp; they are as short as the two leaves
// that they were made for allow, or longer where other cuts would have been lopsided.
#include "core/storage/tree.h"

#include <algorithm>
#include <array>
#include <vector>

#include "core/storage/tree_access.h"
#include "core/storage/tree_edit.h"
#include "core/storage/tree_overflow.h"

namespace multifora {

using tree_access::damaged;
using tree_access::not_null;
using tree_access::Step;

Tree::Tree(Pager& pager, TreeRoot* root, std::uint32_t owner)
    : pager_(pager), root_(root), owner_(owner) {}

// An insert copies the path, splits each of its pages and makes a new root; it writes the key's
// chain and one for the separator of the two leaves. A remove copies the path, one neighbour and a
// new root, and may write a separator.
std::size_t Tree::pages_needed(std::size_t key_size) const {
  std::size_t separator_size = key_size;
  if (root_->height > 0) {
    if (const Result<const char*> page = pager_.read(root_->page))
      separator_size = std::max<std::size_t>(key_size, node::header(*page).key_size_max);
  }
  return 2 * root_->height + 1 + overflow::pages_of(key_size) + overflow::pages_of(separator_size);
}

namespace {

// The sizes of the two longest keys among those met.
struct LongestTwo {
  std::size_t first = 0, second = 0;

  void add(std::size_t size) {
    second = std::max(second, std::min(first, size));
    first = std::max(first, size);
  }
  void add_leaf(const char* page) {
    node::Entry entry;
    for (std::uint32_t i = 0; i < node::header(page).count; ++i)
      if (node::read_entry(page, i, &entry) && entry.overflow)
        add(overflow::load_reference(entry.reference).key_size);
  }
};

}  // namespace

// A separator is as long as what two neighbouring keys have in common, and a byte. The keys of a leaf
// that is split are those that are there now, or came from a leaf beside it by the remove before.
std::size_t Tree::pages_needed(Bytes key) const {
  const std::size_t at_worst = pages_needed(key.size());
  const std::size_t path = 2 * root_->height + 1 + overflow::pages_of(key.size());
  if (at_worst == path || root_->height == 0) return at_worst;
  std::array<Step, kTreeHeightMax> steps;
  if (!tree_access::descend(pager_, *root_, not_null(key), steps.data())) return at_worst;
  LongestTwo longest;
  longest.add(key.size());
  longest.add_leaf(steps[root_->height - 1].page);
  if (root_->height > 1) {
    const Step& parent = steps[root_->height - 2];
    for (const std::uint32_t slot : {parent.slot - 1, parent.slot + 1}) {
      node::Child child;
      if (slot >= node::header(parent.page).count) continue;  // also the one before the first
      if (!node::read_child(parent.page, slot, &child)) return at_worst;
      const Result<const char*> page = tree_access::read_node(pager_, child.page, 0);
      if (!page) return at_worst;
      longest.add_leaf(*page);
    }
  }
  if (longest.first <= node::kInlineKeyMax) return path;
  return path + overflow::pages_of(
                    std::min(longest.first, std::max(longest.second, node::kInlineKeyMax) + 1));
}

Result<TreeInsert> Tree::insert(Bytes key, Bytes value, bool replace, PageStash& stash) {
  if (key.size() > kTreeKeySizeMax || value.size() > kTreeValueSizeMax)
    return fail(ErrorCode::kBadValue, "too large a key or value for a tree");
  return TreeEdit(pager_, root_, owner_, stash).insert(not_null(key), not_null(value), replace);
}

Result<bool> Tree::remove(Bytes key, PageStash& stash) {
  return TreeEdit(pager_, root_, owner_, stash).remove(not_null(key));
}

Result<bool> Tree::get(Bytes key, Buffer* value) const {
  if (root_->height == 0) return false;
  std::array<Step, kTreeHeightMax> steps;
  MULTIFORA_ASSIGN_R(const node::Found found,
                     tree_access::descend(pager_, *root_, not_null(key), steps.data()));
  if (!found.exact) return false;
  const Step& leaf = steps[root_->height - 1];
  node::Entry entry;
  if (!node::read_entry(leaf.page, leaf.slot, &entry))
    return fail(damaged(leaf.id, "has a damaged entry"));
  value->assign(entry.value, entry.value_size);
  return true;
}

namespace {

// Entries under the children before step.slot, of `total` under the page: from the nearer end.
Result<std::uint64_t> entries_before(const Step& step, std::uint64_t total) {
  const std::uint32_t count = node::header(step.page).count;
  const bool from_end = step.slot > count / 2;
  std::uint64_t sum = 0;
  if (!node::sum_counts(step.page, from_end ? step.slot : 0, from_end ? count : step.slot, &sum))
    return fail(damaged(step.id, "has a damaged entry"));
  return from_end ? total - sum : sum;
}

}  // namespace

Result<std::uint64_t> Tree::rank(Bytes key) const {
  if (root_->height == 0) return std::uint64_t{0};
  std::array<Step, kTreeHeightMax> steps;
  MULTIFORA_ASSIGN_R(const node::Found found,
                     tree_access::descend(pager_, *root_, not_null(key), steps.data()));
  std::uint64_t rank = found.index;
  std::uint64_t total = root_->count;
  for (std::uint32_t d = 0; d + 1 < root_->height; ++d) {
    MULTIFORA_ASSIGN_R(const std::uint64_t before, entries_before(steps[d], total));
    rank += before;
    node::Child child{};
    if (!node::read_child(steps[d].page, steps[d].slot, &child))
      return fail(damaged(steps[d].id, "has a damaged entry"));
    total = child.count;
  }
  return rank;
}

// --- clear ---------------------------------------------------------------------------------------

namespace {

// Retires everything under and including a page, what can be read of it.
class Clearing {
 public:
  explicit Clearing(Pager& pager) : pager_(pager) {}

  void clear(PageId id, std::uint32_t level) {
    const Result<const char*> page = tree_access::read_node(pager_, id, level);
    if (!page) return note(page.error());
    for (std::uint32_t i = 0; i < node::header(*page).count; ++i) {
      node::Entry entry;
      if (!node::read_entry(*page, i, &entry)) {
        note(damaged(id, "has a damaged entry"));
        continue;
      }
      if (entry.overflow) clear_chain(entry.reference);
      if (level > 0 && entry.value_size == node::kChildSize)
        clear(node::load_child(entry.value).page, level - 1);
    }
    pager_.retire(id);
  }
  Status take_status() { return std::move(status_); }

 private:
  void note(const Status& status) {
    if (status_.ok()) status_ = status;
  }
  void clear_chain(const char* reference) {
    chain_.clear();
    if (Status status = overflow::collect(pager_, reference, &chain_); !status.ok())
      return note(status);
    for (const PageId id : chain_) pager_.retire(id);
  }

  Pager& pager_;
  Status status_;
  std::vector<PageId> chain_;
};

}  // namespace

Status Tree::clear() {
  if (root_->height == 0) return {};
  if (root_->height > kTreeHeightMax)
    return damaged(root_->page, "is the root of a tree of impossible height");
  Clearing clearing(pager_);
  clearing.clear(root_->page, root_->height - 1);
  *root_ = TreeRoot{};
  return clearing.take_status();
}

}  // namespace multifora
