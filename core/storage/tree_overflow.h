// The rest of keys longer than node::kInlineKeyMax: a chain of kOverflow pages, written once and
// never changed, owned by one entry (a leaf's key or an inner page's separator) wherever that
// moves.
//
//   overflow page: PageHeader (32), next page (8, 0 in the last), bytes to the end of the page
//
// How many pages a chain has follows from the size of the key in the reference; a chain that ends
// early or does not end is DataCorruptionDetected. Threads: as for the tree.
#pragma once

#include <vector>

#include "core/base/bytes.h"
#include "core/base/status.h"
#include "core/storage/pager.h"
#include "core/storage/tree_node.h"

namespace multifora::overflow {

inline constexpr std::size_t kPayloadBegin = sizeof(PageHeader) + 8;
inline constexpr std::size_t kPayloadMax = kPageSize - kPayloadBegin;

// Pages of the chain of a key of this size; 0 for one that fits inline.
constexpr std::size_t pages_of(std::size_t key_size) {
  return key_size <= node::kInlineKeyMax
             ? 0
             : (key_size - node::kInlineKeyMax + kPayloadMax - 1) / kPayloadMax;
}

struct Reference {
  PageId page = kNoPage;
  std::uint32_t key_size = 0;
};
inline Reference load_reference(const char* from) {
  return {load_le<std::uint64_t>(from), load_le<std::uint32_t>(from + 8)};
}

// Writes what `key` has beyond kInlineKeyMax (at least a byte) into pages from the stash, which
// must hold pages_of(key.size()), and the reference to `to` (node::kReferenceSize bytes).
void write(PageStash& stash, std::uint32_t owner, Bytes key, char* to);

// Reads a chain piece by piece.
class Reader {
 public:
  Reader(const Pager& pager, const char* reference);
  // The next bytes; empty at the end.
  Result<Bytes> next();
  // The page that next() gave bytes of.
  PageId page() const { return page_; }

 private:
  const Pager& pager_;
  PageId page_ = kNoPage;
  PageId next_page_;
  std::size_t left_;
};

// < 0 where `tail` (a key's bytes beyond kInlineKeyMax) is less than the chain's.
Result<int> compare(const Pager& pager, Bytes tail, const char* reference);
// Appends up to `size_max` bytes of the chain.
Status append(const Pager& pager, const char* reference, std::size_t size_max, Buffer* to);
// Bytes that two chains have in common.
Result<std::size_t> common_bytes(const Pager& pager, const char* a, const char* b);
// Appends the chain's pages.
Status collect(const Pager& pager, const char* reference, std::vector<PageId>* pages);

}  // namespace multifora::overflow
