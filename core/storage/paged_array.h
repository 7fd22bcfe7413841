// A sparse array of 8-byte entries over pages: RecordId -> RecordLocation. Zero entries cost
// nothing where a whole page of them is zero.
//
// A radix tree of kArray pages, fan-out (kPageSize - 32) / 8 per level; the root grows upwards. The
// root's value type is small and kept by the owner (persisted in its catalog entry). Reading a
// captured root gives the state of its snapshot. Pages follow the pager's copy-on-write rules.
// Threads: one writer at a time; readers of the live root share the owner's lock.
#pragma once

#include <cstdint>
#include <functional>

#include "core/base/status.h"
#include "core/storage/pager.h"
#include "core/storage/types.h"

namespace multifora {

struct ArrayRoot {
  PageId page = kNoPage;
  std::uint32_t height = 0;  // 0: no page; 1: the root page holds entries
  std::uint32_t reserved = 0;
};
static_assert(sizeof(ArrayRoot) == 16);

class PagedArray {
 public:
  PagedArray(Pager& pager, std::uint32_t owner) : pager_(pager), owner_(owner) {}

  // Entries of a page, and the levels that 64 bits need.
  static constexpr std::uint64_t kFanOut = (kPageSize - sizeof(PageHeader)) / 8;
  static constexpr std::uint32_t kHeightMax = kFanOut > 1625 ? 6 : kFanOut > 565 ? 7 : 8;
  // Worst case of pages that one set() needs: an array of one page that gets an entry at the far
  // end, with new roots on one side and new pages on the other.
  static constexpr std::size_t kSetPages = 2 * kHeightMax - 2;

  Result<std::uint64_t> get(const ArrayRoot& root, std::uint64_t index) const;
  // Stores `value` (0 clears; a page that becomes all zero is retired). Requires
  // stash.ensure(kSetPages). DataCorruptionDetected where the path cannot be read; nothing changed.
  Status set(ArrayRoot& root, std::uint64_t index, std::uint64_t value, PageStash& stash);
  // The first non-zero entry with index >= from (or <= from when `backward`); false: none.
  Result<bool> next(const ArrayRoot& root, std::uint64_t from, bool backward, std::uint64_t* index,
                    std::uint64_t* value) const;

  // A cursor that keeps the leaf page: the next entry costs a load. Invalid after any set().
  class Cursor {
   public:
    Cursor(const PagedArray& array, const ArrayRoot& root, bool backward)
        : array_(&array), root_(root), backward_(backward) {}
    // Moves to the first non-zero entry at or after (before) `from`.
    Result<bool> seek(std::uint64_t from);
    Result<bool> next();
    std::uint64_t index() const { return index_; }
    std::uint64_t value() const { return value_; }
    // Up to `max` following non-zero values in the same leaf, for prefetching; no state changes.
    std::size_t ahead(std::uint64_t* values, std::size_t max) const;

   private:
    const PagedArray* array_;
    ArrayRoot root_;
    bool backward_;
    const char* leaf_ = nullptr;
    std::uint64_t leaf_first_ = 0;
    std::uint64_t index_ = 0;
    std::uint64_t value_ = 0;
  };

  // Retires every page (drop of the owner). `per_entry` sees each non-zero entry. The array is
  // empty after a failure (a damaged page) too; the pages under that one are lost to the file.
  Status clear(ArrayRoot& root, const std::function<void(std::uint64_t, std::uint64_t)>& per_entry);
  // As Tree::vacate.
  Result<bool> vacate(ArrayRoot& root, PageId from, std::size_t pages_max, PageStash& stash);
  // Reports every page of the structure, for Pager's check, and every entry; verifies structure:
  // the first page that is not what it should be ends the walk with DataCorruptionDetected.
  Status walk(const ArrayRoot& root, const std::function<void(PageId)>& page,
              const std::function<void(std::uint64_t, std::uint64_t)>& entry) const;

 private:
  struct Path;
  Result<const char*> read_page(PageId id) const;
  Status find_path(const ArrayRoot& root, std::uint64_t index, Path* path) const;
  void erase(ArrayRoot& root, Path& path, PageStash& stash);
  Result<bool> find(PageId page, std::uint32_t height, std::uint64_t from, bool backward,
                    std::uint64_t* index, const char** leaf) const;

  friend class Cursor;
  Pager& pager_;
  std::uint32_t owner_;
};

}  // namespace multifora
