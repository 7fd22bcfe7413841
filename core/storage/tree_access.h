// How the tree's sources reach its pages: reading with the cheap checks, walking down to a leaf.
// Private to the tree. Threads: as for the tree.
#pragma once

#include <string>
#include <string_view>

#include "core/base/bytes.h"
#include "core/base/status.h"
#include "core/storage/pager.h"
#include "core/storage/tree.h"
#include "core/storage/tree_node.h"

namespace multifora::tree_access {

Status damaged(PageId id, std::string_view what);

// The page, of the expected level, its header sound.
inline Result<const char*> read_node(const Pager& pager, PageId id, std::uint32_t level) {
  Result<const char*> page = pager.read(id);
  if (page && !node::header_ok(*page, level)) [[unlikely]]
    return fail(damaged(id, "is not the tree page that was expected"));
  return page;
}

// Asks the processor for what a search of the page touches first: header, prefix, heads and most
// slots. The entry itself is one more miss, as only the search finds out which.
inline void prefetch_search(const Pager& pager, PageId id) {
  pager.prefetch(id, 0, 768);
}

// Compares the rest of long keys; the first failure is kept in `status`.
class ChainComparer {
 public:
  explicit ChainComparer(const Pager& pager) : pager_(pager) {}
  node::TailComparer tails() { return {compare, this}; }
  Status status;

 private:
  static int compare(void* context, Bytes tail, const char* reference);
  const Pager& pager_;
};

struct Step {
  PageId id = kNoPage;
  const char* page = nullptr;
  std::uint32_t slot = 0;  // of the child taken; in the leaf, what the search found
};

// Walks to the leaf where `key` belongs. Fills root.height steps; requires height > 0.
Result<node::Found> descend(const Pager& pager, const TreeRoot& root, Bytes key, Step* steps);

// std::string_view's null is not welcome in memcmp.
inline Bytes not_null(Bytes key) {
  return key.data() == nullptr ? Bytes("", 0) : key;
}

}  // namespace multifora::tree_access
