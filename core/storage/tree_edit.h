// One change of a tree: an insert or a remove, from the search to the last split or merge.
// Private to the tree; lives for one call.
//
// Order of work: first everything that can fail (reading and validating what will be rebuilt,
// comparing long keys), then the path is made writable, then the changes, which cannot fail. What
// only improves the tree (joining sparse pages) is skipped where a page cannot be read.
#pragma once

#include <array>
#include <vector>

#include "core/storage/tree.h"
#include "core/storage/tree_access.h"
#include "core/storage/tree_node.h"

namespace multifora {

class TreeEdit {
 public:
  TreeEdit(Pager& pager, TreeRoot* root, std::uint32_t owner, PageStash& stash)
      : pager_(pager), root_(root), owner_(owner), stash_(stash) {}

  Result<TreeInsert> insert(Bytes key, Bytes value, bool replace);
  Result<bool> remove(Bytes key);

 private:
  // A separator on its way up, with the pages on its two sides.
  struct Separator {
    char key[node::kInlineKeyMax];
    std::size_t key_size = 0;  // inline
    char reference[node::kReferenceSize];
    bool overflow = false;
    PageId right = kNoPage;
    std::uint64_t left_count = 0;
    std::uint64_t right_count = 0;

    Bytes inline_key() const { return {key, key_size}; }
    Bytes reference_bytes() const {
      return overflow ? Bytes(reference, sizeof reference) : Bytes();
    }
  };

  // --- tree_edit.cpp ---
  std::uint32_t depth() const { return root_->height; }
  tree_access::Step& leaf() { return steps_[depth() - 1]; }
  char* new_page(PageKind kind, PageId* id);
  void drop_page(PageId id);
  void write_chain(Bytes key, char* reference);
  void drop_chain(const std::vector<PageId>& pages);
  void own_path(std::int64_t change);
  void insert_first(const node::Body& body);
  Status insert_body(const node::Body& body);
  Status replace_value(Bytes value);
  Status rebuild_leaf(const node::Body& body, bool replaced);
  Status split_leaf(const node::Items& items, std::uint32_t inserted, int run, bool replaced);
  int run_of(std::uint32_t depth, std::uint32_t index) const;
  Status validate_ancestors() const;
  void insert_separator(std::uint32_t below, Separator& separator);
  void split_inner(std::uint32_t depth, node::Items& items, std::uint32_t inserted, int run,
                   Separator* separator);
  void grow_root(const Separator& separator);

  // --- tree_join.cpp ---
  struct Sibling {
    PageId id = kNoPage;
    const char* page = nullptr;
    std::uint32_t left_slot = 0;  // of the pair, in the parent
    bool is_left = false;

    std::uint32_t slot() const { return is_left ? left_slot : left_slot + 1; }
  };
  void rebalance();
  void drop_empty(std::uint32_t depth);
  void remove_child(char* parent, std::uint32_t slot);
  void retire_chain_of(const char* page, std::uint32_t slot);
  bool join(std::uint32_t depth);
  bool find_sibling(std::uint32_t depth, bool left, Sibling* sibling) const;
  bool merge(std::uint32_t depth, const Sibling& sibling);
  bool share(std::uint32_t depth, const Sibling& sibling);
  void shrink_root();

  Pager& pager_;
  TreeRoot* root_;
  std::uint32_t owner_;
  PageStash& stash_;
  std::array<tree_access::Step, kTreeHeightMax> steps_;
  std::array<char*, kTreeHeightMax> own_;  // the path's pages, after own_path()
  std::size_t chain_pages_max_ = 0;        // that a remove may take for a separator
};

// The shortest key that is > the left item's and <= the right one's; both of a leaf.
Status make_separator(const Pager& pager, const node::Item& left, const node::Item& right,
                      Buffer* separator);
// Entries under the items [begin, end).
std::uint64_t count_of(const node::Items& items, std::uint32_t level, std::uint32_t begin,
                       std::uint32_t end);

}  // namespace multifora
