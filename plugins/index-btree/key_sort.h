// The keys of an index build in memory, and their sort: by key, then by record id.
//
// An entry is two words. The first, its head, holds the key's first seven bytes (zeros appended) and,
// lowest, how many bytes the key has, at most 8: so that heads alone order all keys of up to seven
// bytes, and equal heads of longer ones say that seven bytes are equal. Such short keys without type
// bits stand in their entry whole, with the record id as its second word; of all others the second
// word says where in the arena they are:
//
//   u32 key size, u32 size of the type bits, u64 record id, key, type bits
//
// Heads are sorted by radix, eight bits a pass, leaving out the passes that would move nothing;
// entries with equal heads then by the next seven bytes of their keys, and so on. Keys of a build come
// in the order of their record ids, and radix sort keeps the order of equals; where they did not come
// so, or runs are short, entries are compared.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/bytes.h"
#include "core/storage/types.h"

namespace multifora {

class KeySorter {
 public:
  void add(Bytes key, Bytes type_bits, RecordId id);
  std::size_t size() const { return entries_.size(); }
  std::uint64_t memory_bytes() const;  // the sort's second array included
  void sort();
  // In sorted order after sort().
  Bytes type_bits(std::size_t index) const;
  // The key with its record id (8 bytes, big-endian) appended, in `to`.
  void tree_key(std::size_t index, Buffer* to) const;
  // Gives back the memory.
  void clear();

 private:
  struct Entry {
    std::uint64_t head;
    std::uint64_t data;  // kInArena and an offset, or a record id
  };
  static constexpr std::uint64_t kInArena = std::uint64_t{1} << 63;
  static constexpr std::size_t kHeadKeySize = 7;

  static std::uint64_t head_of(Bytes key);
  bool in_arena(const Entry& entry) const { return (entry.data & kInArena) != 0; }
  const char* record(const Entry& entry) const { return arena_at(entry.data & ~kInArena); }
  const char* arena_at(std::uint64_t offset) const {
    return arena_[offset / kBlockSize].get() + offset % kBlockSize;
  }
  Bytes arena_key(const Entry& entry) const;
  RecordId id(const Entry& entry) const;
  bool less(const Entry& a, const Entry& b, std::size_t depth) const;
  // Sorts entries whose keys are equal before `depth`; their heads are made of what follows.
  void sort_range(Entry* begin, Entry* end, std::size_t depth);
  void sort_equal_heads(Entry* begin, Entry* end, std::size_t depth);
  void radix_sort(Entry* begin, Entry* end);

  static constexpr std::size_t kBlockSize = 64 * 1024;

  std::vector<Entry> entries_;
  std::unique_ptr<Entry[]> other_;  // the other side of a radix pass
  // Blocks of kBlockSize. A record lies in one piece: a large one takes the place of several blocks,
  // of which all but the first are null.
  std::vector<std::unique_ptr<char[]>> arena_;
  std::uint64_t arena_used_ = 0;
  RecordId last_id_ = 0;
  bool ids_ascend_ = true;
};

}  // namespace multifora
