// A sorted array of entries over pages. Entries are byte strings with a short byte string beside them.
//
// The array is cut into leaves; a list holds the numbers of its leaves in order, a list of lists those of
// the lists where one does not hold all, and so on. Lists hold no keys: a search compares with the first
// entry under each number. That makes the smallest pages and the simplest splits, and costs a search one
// page more at each step.
//
//   leaf, after the page header (32 bytes)       list, after the page header
//   0   u32  entries                             0   u32  numbers
//   4   u32  bytes used behind these eight       4   u32  zero
//   8        entries: u16 key size, u16 value    8   u64  page numbers, in order
//            size, key, value
//
// Threads: one writer at a time; readers of a captured state at any time, as long as a snapshot or the
// collection's lock keeps its pages.
#pragma once

#include <vector>

#include "core/base/bytes.h"
#include "core/base/status.h"
#include "core/storage/pager.h"

namespace multifora {

// Everything about an array besides its pages. Zeros: an empty one.
struct SortedState {
  PageId root = kNoPage;
  std::uint64_t entries = 0;
  std::uint32_t height = 0;  // 1: the root is a leaf
  std::uint32_t pages = 0;
};
static_assert(sizeof(SortedState) == 24);

struct SortedEntry {
  Bytes key;
  Bytes value;
};

// Largest key and value together: eight entries fit into a leaf, so that a split makes room.
inline constexpr std::size_t kSortedEntryMax = (kPageSize - 64) / 8;

// A place in one state of an array: the way from the root to an entry. Moves forward and backward.
class SortedPlace {
 public:
  SortedPlace(Pager& pager, const SortedState& state) : pager_(&pager), state_(state) {}
  // To the first entry with key >= `key`.
  Status seek(Bytes key);
  Status seek_last();
  Status next();
  Status prev();
  bool valid() const { return valid_; }
  const SortedEntry& entry() const { return entries_[slot_]; }  // until the place moves

 private:
  friend class SortedArray;
  struct Step {
    PageId page;
    std::uint32_t index;  // of the child taken
  };
  enum class End { kFirst, kLast };
  Status descend(PageId page, std::uint32_t height, End end);
  Status load_leaf(PageId page);
  Status move_leaf(int direction);
  Result<std::uint32_t> child_for(PageId list, std::uint32_t height, Bytes key) const;
  Result<Bytes> first_key(PageId page, std::uint32_t height) const;

  Pager* pager_;
  SortedState state_;
  std::vector<Step> lists_;  // the root first
  PageId leaf_ = kNoPage;
  std::vector<SortedEntry> entries_;  // of the leaf; they point into its page
  std::size_t slot_ = 0;
  bool valid_ = false;
};

class SortedArray {
 public:
  // The array whose state is *state, which outlives this and is changed by writes.
  SortedArray(Pager& pager, SortedState* state, std::uint32_t owner)
      : pager_(pager), state_(state), owner_(owner) {}

  // What one insert or remove may take from the stash: a copy and a new page at each height, a new root.
  std::size_t pages_needed() const { return 2 * state_->height + 2; }
  // Requires stash.ensure(pages_needed()), a new key and an entry within kSortedEntryMax.
  Status insert(Bytes key, Bytes value, PageStash& stash);
  Result<bool> remove(Bytes key, PageStash& stash);  // false: there is no such key
  Status clear();
  Status check(const std::function<void(PageId)>& page, std::vector<std::string>* errors) const;

 private:
  Status make_path_writable(SortedPlace& place, PageStash& stash, char** leaf);
  void insert_number(SortedPlace& place, std::size_t depth, PageId number, PageStash& stash);
  Status remove_number(SortedPlace& place, PageStash& stash);

  Pager& pager_;
  SortedState* state_;
  std::uint32_t owner_;
};

// Fills full leaves from keys in rising order. Until finish() no state of the database has its pages.
class SortedBuilder {
 public:
  SortedBuilder(Pager& pager, std::uint32_t owner)
      : owner_(owner), stash_(pager, PageStash::Mode::kUnlinked) {}
  Status add(Bytes key, Bytes value);
  Result<SortedState> finish();
  PageStash& stash() { return stash_; }  // for changes between finish() and its link()

 private:
  Status flush_leaf();
  Result<std::vector<PageId>> write_lists(const std::vector<PageId>& numbers);

  std::uint32_t owner_;
  PageStash stash_;
  Buffer leaf_;
  std::uint32_t leaf_entries_ = 0;
  std::vector<PageId> leaves_;
  SortedState state_;
};

}  // namespace multifora
