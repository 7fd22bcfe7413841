#include "core/storage/tree_access.h"

#include "core/storage/tree_overflow.h"

namespace multifora::tree_access {

Status damaged(PageId id, std::string_view what) {
  return Status(ErrorCode::kDataCorruptionDetected, "page " + std::to_string(id) + " at offset " +
                                                        std::to_string(id * kPageSize) + " " +
                                                        std::string(what));
}

int ChainComparer::compare(void* context, Bytes tail, const char* reference) {
  auto* self = static_cast<ChainComparer*>(context);
  Result<int> order = overflow::compare(self->pager_, tail, reference);
  if (order) return *order;
  if (self->status.ok()) self->status = std::move(order).error();
  return 0;
}

namespace {

// The child of an inner page under which `key` belongs.
Result<node::Child> child_for(const Pager& pager, Step* step, Bytes key) {
  ChainComparer chains(pager);
  const node::Found found = node::search(step->page, key, chains.tails());
  if (!chains.status.ok()) [[unlikely]]
    return fail(std::move(chains.status));
  node::Child child;
  step->slot = found.exact ? found.index : found.index - 1;
  if (found.damaged || step->slot >= node::header(step->page).count ||
      !node::read_child(step->page, step->slot, &child)) [[unlikely]]
    return fail(damaged(step->id, "has a damaged entry"));
  return child;
}

}  // namespace

Result<node::Found> descend(const Pager& pager, const TreeRoot& root, Bytes key, Step* steps) {
  if (root.height > kTreeHeightMax) [[unlikely]]
    return fail(damaged(root.page, "is the root of a tree of impossible height"));
  PageId id = root.page;
  Step* step = steps;
  for (std::uint32_t level = root.height - 1;; --level, ++step) {
    step->id = id;
    MULTIFORA_ASSIGN_R(step->page, read_node(pager, id, level));
    if (level == 0) break;
    MULTIFORA_ASSIGN_R(const node::Child child, child_for(pager, step, key));
    id = child.page;
    prefetch_search(pager, id);
  }
  ChainComparer chains(pager);
  const node::Found found = node::search(step->page, key, chains.tails());
  if (!chains.status.ok()) [[unlikely]]
    return fail(std::move(chains.status));
  if (found.damaged) [[unlikely]]
    return fail(damaged(step->id, "has a damaged entry"));
  step->slot = found.index;
  return found;
}

}  // namespace multifora::tree_access
