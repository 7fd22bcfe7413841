// The B+tree over pages: an ordered map from byte strings to short byte strings, keys unique,
// ordered by memcmp. Used for the catalog, indexes and the other kernel tables.
//
// Pages are slotted: a header, an array of slots (offset, length and the first four key bytes, for
// the search), and a heap that is compacted in place. A page stores the prefix common to its keys
// once; separators in inner pages are cut to what separates; inner pages keep the number of entries
// under each child, so that a count over a range is two descents. Keys longer than kInlineKeyMax
// continue in overflow pages. The tree is copy-on-write along the path (no sibling links: a copied
// leaf would have to copy its neighbours); a cursor keeps its path. Format: top of tree_node.cpp.
//
// A TreeRoot is a small value kept by the owner. Reading through a captured root gives the state of
// its snapshot. Threads: one writer at a time; readers of the live root share the owner's lock.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>

#include "core/base/bytes.h"
#include "core/base/status.h"
#include "core/storage/pager.h"

namespace multifora {

struct TreeRoot {
  PageId page = kNoPage;     // kNoPage: empty
  std::uint64_t count = 0;   // entries
  std::uint32_t height = 0;  // 1: the root is a leaf
  std::uint32_t pages = 0;   // pages in use, overflow included
};
static_assert(sizeof(TreeRoot) == 24);

inline constexpr std::size_t kTreeValueSizeMax = 1024;
// Larger than any document. BadValue beyond.
inline constexpr std::size_t kTreeKeySizeMax = 32 * 1024 * 1024;
inline constexpr std::size_t kTreeHeightMax = 24;

enum class TreeInsert { kInserted, kReplaced, kExists };

class Tree {
 public:
  // The tree whose root is *root, which outlives the Tree and is changed by writes.
  Tree(Pager& pager, TreeRoot* root, std::uint32_t owner);

  // --- writes -----------------------------------------------------------------------------------
  // Pages that one insert or remove with a key of this size may take from the stash, at worst,
  // wherever it goes and whatever was changed before. Grows with the longest key that the tree has
  // ever had: a separator may be as long.
  std::size_t pages_needed(std::size_t key_size) const;
  // The same for this key, where at most one remove comes before: looks at the keys around it. Not
  // more than the other one, and no dearer where the tree never had a long key.
  std::size_t pages_needed(Bytes key) const;
  // Requires stash.ensure(pages_needed(key.size())) and value.size() <= kTreeValueSizeMax. Only
  // kExists (replace = false and the key is there), too large a key or value (BadValue) or a
  // damaged page (DataCorruptionDetected, before anything changed) leave no change.
  Result<TreeInsert> insert(Bytes key, Bytes value, bool replace, PageStash& stash);
  // False where there is no such key.
  Result<bool> remove(Bytes key, PageStash& stash);
  // Retires all pages; the tree is empty. No recursion deeper than the tree's height. The tree is
  // empty after a failure (a damaged page) too; the pages under that one are lost to the file.
  Status clear();
  // Moves pages with numbers from `from` on to the front of the file, about `pages_max` of them.
  // True: there may be more. Takes what it needs from the stash itself. After a failure (a damaged
  // page, OutOfDiskSpace) the tree is sound, and moved in part.
  Result<bool> vacate(PageId from, std::size_t pages_max, PageStash& stash);

  // --- reads ------------------------------------------------------------------------------------
  Result<bool> get(Bytes key, Buffer* value) const;
  bool empty() const { return root_->count == 0; }
  std::uint64_t count() const { return root_->count; }
  // Entries with key < `key`. Two of these give the size of a range. O(height).
  Result<std::uint64_t> rank(Bytes key) const;

  const TreeRoot& root() const { return *root_; }
  Pager& pager() const { return pager_; }

  // Walks everything: key order, counts, separators, fill; reports each page. Errors are appended.
  Status check(const std::function<void(PageId)>& page, std::vector<std::string>* errors) const;

  struct Stats {
    std::uint64_t leaf_pages = 0, inner_pages = 0, overflow_pages = 0;
    std::uint64_t used_bytes = 0;
  };
  Result<Stats> stats() const;  // walks inner pages and leaves

 private:
  friend class TreeCursor;
  Pager& pager_;
  TreeRoot* root_;
  std::uint32_t owner_;
};

// An ordered walk over one state of a tree (live or captured). After any write to a live tree the
// cursor must seek again before it is used; it then stands wherever the seek puts it.
class TreeCursor {
 public:
  TreeCursor(Pager& pager, const TreeRoot& root) : pager_(&pager), root_(root) {}
  // Uses another root from the next seek on.
  void reset(const TreeRoot& root);

  // First entry with key >= `key` (with `after`: > `key`). valid() says whether there is one.
  Status seek(Bytes key, bool after = false);
  // Last entry with key <= `key` (with `before`: < `key`).
  Status seek_reverse(Bytes key, bool before = false);
  Status seek_first();
  Status seek_last();
  Status next();
  Status prev();

  bool valid() const { return valid_; }
  // The current key and value; alive until the cursor moves or the state's lock/snapshot ends.
  Bytes key() const;  // whole key, reassembled (prefix, overflow) in the cursor's buffer if need be
  Bytes value() const;  // points into the page
  // Compares the current key with `other` without reassembling where possible.
  int compare_key(Bytes other) const;
  // The last `count` bytes of the key (e.g. a record id) without reassembling the rest.
  // Requires count <= 16 and a key at least that long.
  Bytes key_suffix(std::size_t count) const;

  // A damaged page met by key() or compare_key(), which cannot say so; the next move reports it
  // too.
  const Status& status() const { return status_; }

 private:
  struct Level {
    PageId page;
    const char* data;
    std::uint32_t slot;
  };
  enum class Direction { kForward, kBackward };

  Status fail_with(Status status);
  Status start();
  Status load();
  Status descend(PageId page, std::uint32_t level, Direction end);
  Status next_leaf();
  Status previous_leaf();
  Status seek_leaf(Bytes key, bool* exact);
  void enter_leaf();
  void prefetch_neighbour(Direction direction);
  void assemble_key() const;

  Pager* pager_;
  TreeRoot root_;
  std::array<Level, kTreeHeightMax> path_{};  // inner pages, the root first
  bool valid_ = false;
  mutable bool key_assembled_ = false;
  mutable bool prefix_in_key_ = false;  // key_ starts with the leaf's prefix
  bool overflow_ = false;               // the current key goes on in overflow pages
  // The leaf and, in it, the current entry.
  PageId leaf_id_ = kNoPage;
  const char* leaf_ = nullptr;
  std::uint32_t slot_ = 0;
  std::uint32_t slot_count_ = 0;
  std::uint32_t prefix_size_ = 0;
  std::uint32_t suffix_size_ = 0;
  const char* prefix_ = nullptr;
  const char* suffix_ = nullptr;
  Bytes value_;
  mutable Buffer key_;
  mutable std::array<char, 16> tail_{};
  mutable Status status_;
};

// Builds a packed tree from keys in increasing order (an index build). One thread. Its pages belong
// to no state of the database until link(): a crash or a checkpoint meanwhile loses none.
class TreeBuilder {
 public:
  // fill: how full leaves are made, 0.5 to 1.
  TreeBuilder(Pager& pager, std::uint32_t owner, double fill = 0.95);
  ~TreeBuilder();  // not linked: gives back what was built
  // BadValue where key <= the last one or a size is out of bounds; OutOfDiskSpace. After a failure
  // the builder can only be destroyed.
  Status add(Bytes key, Bytes value);
  // Completes the last pages. Once. Until link() the tree may be changed with stash() only.
  Result<TreeRoot> finish();
  PageStash& stash();
  // Makes the tree's pages ordinary ones of the current state: call it under the commit gate,
  // together with the change that refers to the root.
  void link();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace multifora
