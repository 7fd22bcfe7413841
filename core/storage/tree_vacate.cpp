// Moves a tree's pages out of the end of the file. A page that moves is copied like one that
// changes; its parent gets the new number at once, whatever happens elsewhere in the tree.
#include "core/storage/tree.h"
#include "core/storage/tree_access.h"
#include "core/storage/tree_node.h"
#include "core/storage/tree_overflow.h"

namespace multifora {

namespace {

class Vacating {
 public:
  Vacating(Pager& pager, PageId from, std::size_t pages_max, PageStash& stash)
      : pager_(pager), stash_(stash), from_(from), pages_left_(pages_max) {}

  Status run(TreeRoot* root) {
    const Result<const char*> page =
        tree_access::read_node(pager_, root->page, root->height - 1);
    if (!page) return page.error();
    long_keys_ = node::header(*page).key_size_max > node::kInlineKeyMax;
    visit(&root->page, root->height - 1);
    return status_;
  }
  bool done() const { return !over(); }

 private:
  bool over() const { return pages_left_ == 0 || !status_.ok(); }
  void note(Status status) {
    if (status_.ok()) status_ = std::move(status);
  }

  // Numbers of leaves stand in their parents: leaves are read only where they move, or where long
  // keys may go on in pages of their own.
  void visit(PageId* id, std::uint32_t level) {
    const Result<const char*> read = tree_access::read_node(pager_, *id, level);
    if (!read) return note(read.error());
    const char* page = *read;
    for (std::uint32_t slot = 0; slot < node::header(page).count && !over(); ++slot) {
      if (long_keys_) move_chain(id, &page, slot);
      if (level == 0) continue;
      node::Child child;
      if (!node::read_child(page, slot, &child))
        return note(tree_access::damaged(*id, "has a damaged entry"));
      const PageId before = child.page;
      if (level > 1 || long_keys_)
        visit(&child.page, level - 1);
      else if (child.page >= from_)
        move(&child.page, level - 1);
      if (child.page == before) continue;
      char* const changed = pager_.make_writable(id, stash_);
      node::write_child(changed, slot, child);
      page = changed;
    }
    if (*id >= from_ && !over()) move(id, level);
  }

  // What the move and the ancestors after it take is there before it.
  bool ensure(std::size_t pages) {
    note(stash_.ensure(pages + kTreeHeightMax));
    return !over();
  }

  void move(PageId* id, std::uint32_t level) {
    if (const Result<const char*> page = tree_access::read_node(pager_, *id, level); !page)
      return note(page.error());
    if (!ensure(1)) return;
    pages_left_ = pager_.move_page(id, stash_) ? pages_left_ - 1 : 0;
  }

  // The pages of a chain are written anew, all of them: each holds the number of the next.
  void move_chain(PageId* id, const char** page, std::uint32_t slot) {
    node::Entry entry;
    if (!node::read_entry(*page, slot, &entry))
      return note(tree_access::damaged(*id, "has a damaged entry"));
    if (!entry.overflow) return;
    std::vector<PageId> chain;
    if (Status read = overflow::collect(pager_, entry.reference, &chain); !read.ok())
      return note(std::move(read));
    bool behind = false;
    for (const PageId link : chain) behind |= link >= from_;
    if (!behind || !ensure(chain.size())) return;
    const std::ptrdiff_t reference = entry.reference - *page;
    const std::uint32_t owner = node::header(*page).page.owner;
    char* const changed = pager_.make_writable(id, stash_);
    *page = changed;
    char* link = changed + reference;
    for (const PageId old : chain) {
      PageId copy = kNoPage;
      char* const to = stash_.take(PageKind::kOverflow, owner, &copy);
      std::memcpy(to + sizeof(PageHeader), pager_.peek(old) + sizeof(PageHeader),
                  kPageSize - sizeof(PageHeader));
      store_le<std::uint64_t>(link, copy);
      link = to + sizeof(PageHeader);
    }
    for (const PageId old : chain) pager_.retire(old);
    pages_left_ -= std::min(pages_left_, chain.size());
  }

  Pager& pager_;
  PageStash& stash_;
  const PageId from_;
  std::size_t pages_left_;
  bool long_keys_ = false;
  Status status_;
};

}  // namespace

Result<bool> Tree::vacate(PageId from, std::size_t pages_max, PageStash& stash) {
  if (root_->height == 0) return false;
  if (root_->height > kTreeHeightMax)
    return fail(tree_access::damaged(root_->page, "is the root of a tree of impossible height"));
  Vacating vacating(pager_, from, pages_max, stash);
  MULTIFORA_TRY_R(vacating.run(root_));
  return !vacating.done();
}

}  // namespace multifora
