// Walks of the whole tree: check() for the invariants, stats() for its sizes.
#include <algorithm>
#include <optional>
#include <vector>

#include "core/storage/tree.h"
#include "core/storage/tree_access.h"
#include "core/storage/tree_node.h"
#include "core/storage/tree_overflow.h"

namespace multifora {

namespace {

constexpr std::size_t kErrorsMax = 100;

class Checker {
 public:
  Checker(const Pager& pager, const std::function<void(PageId)>& page,
          std::vector<std::string>* errors)
      : pager_(pager), page_(page), errors_(errors) {}

  void check(const TreeRoot& root) {
    if (root.height == 0) {
      if (root.page != kNoPage || root.count != 0 || root.pages != 0)
        error(root.page, "is the root of an empty tree that has entries or pages");
      return;
    }
    if (root.height > kTreeHeightMax)
      return error(root.page, "is the root of a tree of impossible height");
    const std::uint64_t count = check_page(root.page, root.height - 1, std::nullopt, std::nullopt);
    if (count != root.count)
      error(root.page, "is the root of " + std::to_string(count) + " entries where " +
                           std::to_string(root.count) + " are recorded");
    if (pages_ != root.pages)
      error(root.page, "is the root of " + std::to_string(pages_) + " pages where " +
                           std::to_string(root.pages) + " are recorded");
    const Result<const char*> page = pager_.read(root.page);
    if (page && node::header(*page).key_size_max < key_size_max_)
      error(root.page, "records too small a size of the longest key");
  }

 private:
  void error(PageId id, std::string_view what) {
    if (errors_->size() < kErrorsMax) errors_->push_back(tree_access::damaged(id, what).message());
  }
  void report(PageId id) {
    ++pages_;
    if (page_) page_(id);
  }

  // The whole key, its chain's pages reported.
  Buffer whole_key(PageId id, const char* page, const node::Entry& entry) {
    Buffer key(node::prefix(page));
    key.append(entry.key, entry.key_size);
    if (!entry.overflow) return key;
    std::vector<PageId> chain;
    Status status = overflow::collect(pager_, entry.reference, &chain);
    for (const PageId part : chain) report(part);
    if (status.ok()) status = overflow::append(pager_, entry.reference, kTreeKeySizeMax, &key);
    if (!status.ok()) error(id, "has a long key that cannot be read: " + status.message());
    const overflow::Reference reference = overflow::load_reference(entry.reference);
    if (key.size() != reference.key_size || key.size() < node::kTailSize ||
        Bytes(key).substr(key.size() - node::kTailSize) !=
            Bytes(entry.reference + 12, node::kTailSize))
      error(id, "has a reference that does not agree with its key");
    return key;
  }

  void check_bounds(PageId id, Bytes key, const std::optional<Buffer>& low,
                    const std::optional<Buffer>& high) {
    if (low && key < Bytes(*low)) error(id, "has a key below its separator");
    if (high && key >= Bytes(*high)) error(id, "has a key that is not below the next separator");
  }

  // Entries under the page, whose keys are >= low and < high.
  std::uint64_t check_page(PageId id, std::uint32_t level, std::optional<Buffer> low,
                           const std::optional<Buffer>& high) {
    report(id);
    const Result<const char*> page = tree_access::read_node(pager_, id, level);
    if (!page) {
      errors_->push_back(page.error().message());
      return 0;
    }
    if (const std::string wrong = node::validate(*page); !wrong.empty()) {
      error(id, wrong);
      return 0;
    }
    const std::uint32_t count = node::header(*page).count;
    if (count == 0) error(id, "is empty");
    std::uint64_t total = 0;
    std::optional<Buffer> last;
    for (std::uint32_t i = 0; i < count; ++i) {
      if (level > 0) {
        std::optional<Buffer> next;
        if (i + 1 < count) next = key_of(id, *page, i + 1, level, low, high, last);
        last = next ? next : last;
        total += check_child(id, *page, i, level, low, next ? next : high);
        if (next) low = std::move(next);
      } else {
        last = key_of(id, *page, i, level, low, high, last);
        ++total;
      }
    }
    return total;
  }

  Buffer key_of(PageId id, const char* page, std::uint32_t index, std::uint32_t level,
                const std::optional<Buffer>& low, const std::optional<Buffer>& high,
                const std::optional<Buffer>& last) {
    node::Entry entry;
    if (!node::read_entry(page, index, &entry)) return {};
    Buffer key = whole_key(id, page, entry);
    check_bounds(id, key, low, high);
    if (last && Bytes(key) <= Bytes(*last)) error(id, "has keys out of order");
    if (level == 0) key_size_max_ = std::max(key_size_max_, key.size());
    return key;
  }

  std::uint64_t check_child(PageId id, const char* page, std::uint32_t index, std::uint32_t level,
                            const std::optional<Buffer>& low, const std::optional<Buffer>& high) {
    node::Child child{};
    if (!node::read_child(page, index, &child)) return 0;
    const std::uint64_t count = check_page(child.page, level - 1, low, high);
    if (count != child.count)
      error(id, "counts " + std::to_string(child.count) + " entries under page " +
                    std::to_string(child.page) + ", which has " + std::to_string(count));
    return count;
  }

  const Pager& pager_;
  const std::function<void(PageId)>& page_;
  std::vector<std::string>* errors_;
  std::uint64_t pages_ = 0;
  std::size_t key_size_max_ = 0;
};

Status add_stats(const Pager& pager, PageId id, std::uint32_t level, Tree::Stats* stats) {
  MULTIFORA_ASSIGN(const char* page, tree_access::read_node(pager, id, level));
  ++(level == 0 ? stats->leaf_pages : stats->inner_pages);
  stats->used_bytes += node::kHeaderSize + node::used_bytes(page);
  for (std::uint32_t i = 0; i < node::header(page).count; ++i) {
    node::Entry entry;
    if (!node::read_entry(page, i, &entry)) return tree_access::damaged(id, "has a damaged entry");
    if (entry.overflow) {
      const std::size_t size = overflow::load_reference(entry.reference).key_size;
      stats->overflow_pages += overflow::pages_of(size);
      stats->used_bytes += size - std::min(size, node::kInlineKeyMax);
    }
    if (level == 0) continue;
    if (entry.value_size != node::kChildSize)
      return tree_access::damaged(id, "has a damaged entry");
    MULTIFORA_TRY(add_stats(pager, node::load_child(entry.value).page, level - 1, stats));
  }
  return {};
}

}  // namespace

Status Tree::check(const std::function<void(PageId)>& page,
                   std::vector<std::string>* errors) const {
  Checker(pager_, page, errors).check(*root_);
  return {};
}

Result<Tree::Stats> Tree::stats() const {
  Stats stats;
  if (root_->height == 0) return stats;
  if (root_->height > kTreeHeightMax)
    return fail(tree_access::damaged(root_->page, "is the root of a tree of impossible height"));
  MULTIFORA_TRY_R(add_stats(pager_, root_->page, root_->height - 1, &stats));
  return stats;
}

}  // namespace multifora
