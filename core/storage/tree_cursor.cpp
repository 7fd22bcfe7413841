// The cursor keeps the inner pages of its path and the decoded current entry, so that a step within
// a leaf reads one slot and one entry.
#include <algorithm>

#include "core/base/assert.h"
#include "core/storage/tree.h"
#include "core/storage/tree_access.h"
#include "core/storage/tree_node.h"
#include "core/storage/tree_overflow.h"

namespace multifora {

using tree_access::damaged;
using tree_access::not_null;

namespace {
// What a walk touches first in the next leaf; the processor's own prefetch does the rest.
constexpr std::size_t kPrefetchBytes = 512;
}  // namespace

void TreeCursor::reset(const TreeRoot& root) {
  root_ = root;
  valid_ = false;
}

Status TreeCursor::fail_with(Status status) {
  valid_ = false;
  return status;
}

// Common to all seeks: nothing is kept of where the cursor stood.
Status TreeCursor::start() {
  valid_ = false;
  status_ = Status();
  if (root_.height > kTreeHeightMax)
    return damaged(root_.page, "is the root of a tree of impossible height");
  return {};
}

void TreeCursor::enter_leaf() {
  slot_count_ = node::header(leaf_).count;
  const Bytes shared = node::prefix(leaf_);
  prefix_ = shared.data();
  prefix_size_ = static_cast<std::uint32_t>(shared.size());
  prefix_in_key_ = false;
}

// Decodes the entry at slot_, which is in the leaf.
Status TreeCursor::load() {
  node::Entry entry;
  if (!node::read_entry(leaf_, slot_, &entry)) [[unlikely]]
    return fail_with(damaged(leaf_id_, "has a damaged entry"));
  suffix_ = entry.key;
  suffix_size_ = entry.key_size;
  overflow_ = entry.overflow;
  value_ = Bytes(entry.value, entry.value_size);
  key_assembled_ = false;
  valid_ = true;
  return {};
}

// --- moving between leaves -----------------------------------------------------------------------

// From `page` down to the first (kForward) or last leaf under it; the path above is kept.
Status TreeCursor::descend(PageId page, std::uint32_t level, Direction end) {
  while (true) {
    MULTIFORA_ASSIGN(const char* data, tree_access::read_node(*pager_, page, level));
    const std::uint32_t count = node::header(data).count;
    const std::uint32_t slot = end == Direction::kForward || count == 0 ? 0 : count - 1;
    if (level == 0) {
      leaf_id_ = page;
      leaf_ = data;
      slot_ = slot;
      enter_leaf();
      return {};
    }
    path_[root_.height - 1 - level] = {page, data, slot};
    node::Child child;
    if (count == 0 || !node::read_child(data, slot, &child))
      return damaged(page, "has a damaged entry");
    page = child.page;
    --level;
  }
}

// Sets valid_ only where there is a next entry.
Status TreeCursor::next_leaf() {
  valid_ = false;
  do {
    std::uint32_t depth = root_.height - 1;
    while (true) {
      if (depth == 0) return {};
      Level& level = path_[--depth];
      if (level.slot + 1 < node::header(level.data).count) break;
    }
    Level& level = path_[depth];
    node::Child child;
    if (!node::read_child(level.data, ++level.slot, &child))
      return damaged(level.page, "has a damaged entry");
    MULTIFORA_TRY(descend(child.page, root_.height - 2 - depth, Direction::kForward));
  } while (slot_count_ == 0);
  prefetch_neighbour(Direction::kForward);
  return load();
}

Status TreeCursor::previous_leaf() {
  valid_ = false;
  do {
    std::uint32_t depth = root_.height - 1;
    while (true) {
      if (depth == 0) return {};
      if (path_[--depth].slot > 0) break;
    }
    Level& level = path_[depth];
    node::Child child;
    if (!node::read_child(level.data, --level.slot, &child))
      return damaged(level.page, "has a damaged entry");
    MULTIFORA_TRY(descend(child.page, root_.height - 2 - depth, Direction::kBackward));
  } while (slot_count_ == 0);
  prefetch_neighbour(Direction::kBackward);
  return load();
}

// The leaf after this one, where it has the same parent.
void TreeCursor::prefetch_neighbour(Direction direction) {
  if (root_.height < 2) return;
  const Level& level = path_[root_.height - 2];
  const bool forward = direction == Direction::kForward;
  if (forward ? level.slot + 1 >= node::header(level.data).count : level.slot == 0) return;
  node::Child child;
  if (node::read_child(level.data, forward ? level.slot + 1 : level.slot - 1, &child))
    pager_->prefetch(child.page, 0, kPrefetchBytes);
}

Status TreeCursor::next() {
  MULTIFORA_DASSERT(valid_);
  if (!status_.ok()) [[unlikely]]
    return fail_with(status_);
  if (slot_ + 1 < slot_count_) [[likely]] {
    ++slot_;
    return load();
  }
  return next_leaf();
}

Status TreeCursor::prev() {
  MULTIFORA_DASSERT(valid_);
  if (!status_.ok()) [[unlikely]]
    return fail_with(status_);
  if (slot_ > 0) [[likely]] {
    --slot_;
    return load();
  }
  return previous_leaf();
}

// --- seeking -------------------------------------------------------------------------------------

Status TreeCursor::seek_first() {
  MULTIFORA_TRY(start());
  if (root_.height == 0) return {};
  MULTIFORA_TRY(descend(root_.page, root_.height - 1, Direction::kForward));
  prefetch_neighbour(Direction::kForward);
  return slot_count_ > 0 ? load() : next_leaf();
}

Status TreeCursor::seek_last() {
  MULTIFORA_TRY(start());
  if (root_.height == 0) return {};
  MULTIFORA_TRY(descend(root_.page, root_.height - 1, Direction::kBackward));
  prefetch_neighbour(Direction::kBackward);
  return slot_count_ > 0 ? load() : previous_leaf();
}

// To the leaf where `key` belongs; slot_ may be past its last entry.
Status TreeCursor::seek_leaf(Bytes key, bool* exact) {
  std::array<tree_access::Step, kTreeHeightMax> steps;
  MULTIFORA_ASSIGN(const node::Found found,
                   tree_access::descend(*pager_, root_, not_null(key), steps.data()));
  const std::uint32_t inner = root_.height - 1;
  for (std::uint32_t d = 0; d < inner; ++d) path_[d] = {steps[d].id, steps[d].page, steps[d].slot};
  leaf_id_ = steps[inner].id;
  leaf_ = steps[inner].page;
  slot_ = found.index;
  *exact = found.exact;
  enter_leaf();
  return {};
}

Status TreeCursor::seek(Bytes key, bool after) {
  MULTIFORA_TRY(start());
  if (root_.height == 0) return {};
  bool exact = false;
  MULTIFORA_TRY(seek_leaf(key, &exact));
  if (exact && after) ++slot_;
  return slot_ < slot_count_ ? load() : next_leaf();
}

Status TreeCursor::seek_reverse(Bytes key, bool before) {
  MULTIFORA_TRY(start());
  if (root_.height == 0) return {};
  bool exact = false;
  MULTIFORA_TRY(seek_leaf(key, &exact));
  if (exact && !before) return load();
  if (slot_ == 0) return previous_leaf();
  --slot_;
  return load();
}

// --- the current entry ---------------------------------------------------------------------------

void TreeCursor::assemble_key() const {
  if (!prefix_in_key_) {
    key_.assign(prefix_, prefix_size_);
    prefix_in_key_ = true;
  } else {
    key_.resize(prefix_size_);
  }
  key_.append(suffix_, suffix_size_);
  if (overflow_) {
    Status status = overflow::append(*pager_, suffix_ + suffix_size_, kTreeKeySizeMax, &key_);
    if (!status.ok() && status_.ok()) status_ = std::move(status);
  }
  key_assembled_ = true;
}

Bytes TreeCursor::key() const {
  MULTIFORA_DASSERT(valid_);
  if (prefix_size_ == 0 && !overflow_) return {suffix_, suffix_size_};
  if (!key_assembled_) assemble_key();
  return key_;
}

Bytes TreeCursor::value() const {
  MULTIFORA_DASSERT(valid_);
  return value_;
}

int TreeCursor::compare_key(Bytes other) const {
  MULTIFORA_DASSERT(valid_);
  node::Entry entry{};
  entry.key = suffix_;
  entry.key_size = suffix_size_;
  entry.overflow = overflow_;
  entry.reference = suffix_ + suffix_size_;
  tree_access::ChainComparer chains(*pager_);
  const int order = node::compare(leaf_, entry, not_null(other), chains.tails());
  if (!chains.status.ok() && status_.ok()) status_ = std::move(chains.status);
  return order > 0 ? -1 : order < 0;
}

Bytes TreeCursor::key_suffix(std::size_t count) const {
  MULTIFORA_DASSERT(valid_ && count <= tail_.size());
  if (overflow_) [[unlikely]]
    return {suffix_ + suffix_size_ + node::kReferenceSize - count, count};
  if (count <= suffix_size_) [[likely]]
    return {suffix_ + suffix_size_ - count, count};
  const std::size_t from_prefix = count - suffix_size_;
  if (from_prefix > prefix_size_) {
    if (status_.ok()) status_ = damaged(leaf_id_, "has too short a key");
    tail_.fill('\0');
    return {tail_.data(), count};
  }
  std::memcpy(tail_.data(), prefix_ + prefix_size_ - from_prefix, from_prefix);
  std::memcpy(tail_.data() + from_prefix, suffix_, suffix_size_);
  return {tail_.data(), count};
}

}  // namespace multifora
