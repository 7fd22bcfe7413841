// Bottom-up building. Each level keeps the items of the page it is filling and of the one before,
// which is written only when the next one is full too: so the last two pages can be evened out.
#include <algorithm>
#include <memory>
#include <vector>

#include "core/base/assert.h"
#include "core/storage/tree.h"
#include "core/storage/tree_access.h"
#include "core/storage/tree_edit.h"
#include "core/storage/tree_node.h"
#include "core/storage/tree_overflow.h"

namespace multifora {

using node::Items;

namespace {

constexpr std::size_t kStashStep = 64;

// Bytes that stay where they are until the arena is cleared.
class Arena {
 public:
  const char* copy(const char* from, std::size_t size) {
    if (used_ + size > kBlockSize) {
      ++block_;
      used_ = 0;
    }
    if (block_ == blocks_.size()) blocks_.push_back(std::make_unique<char[]>(kBlockSize));
    char* to = blocks_[block_].get() + used_;
    std::memcpy(to, from, size);
    used_ += size;
    return to;
  }
  void clear() { block_ = used_ = 0; }

 private:
  static constexpr std::size_t kBlockSize = 16 * kPageSize;
  static_assert(node::kBodyMax <= kBlockSize);
  std::vector<std::unique_ptr<char[]>> blocks_;
  std::size_t block_ = 0;
  std::size_t used_ = 0;
};

// What separates a page from the one before it on its level.
struct Low {
  Buffer key;  // inline
  Buffer reference;
};

// The pages being filled on one level: the items [0, cut) of a full one, then the open one.
struct Level {
  explicit Level(std::uint32_t number) : inner(number > 0), items(number > 0) {}

  std::size_t whole_size(const node::Item& item, bool first) const {
    return node::kSlotSize + (first && inner
                                  ? item.rest_bytes() - (item.overflow ? node::kReferenceSize : 0)
                                  : item.body_size);
  }
  // The open page's size with this item.
  std::size_t size_with(const node::Item& item) const {
    const std::uint32_t first = cut + (inner ? 1 : 0);
    const std::size_t whole = open_bytes + whole_size(item, false);
    if (first >= items.count()) return node::page_bytes(whole, 0, 1);
    return node::page_bytes(whole, node::common_bytes(items[first], item),
                            items.count() - first + 1);
  }
  void add(const node::Body& body) {
    node::Item item = node::item_of(body);
    item.body = arenas[cut > 0 ? 1 : 0].copy(body.data, body.size);
    open_bytes += whole_size(item, items.count() == cut);
    items.append(item);
  }
  void drop_full_page() {
    items.drop_front(cut);
    std::swap(arenas[0], arenas[1]);
    arenas[1].clear();
    cut = 0;
  }
  void open_page() {
    cut = items.count();
    open_bytes = 0;
  }

  const bool inner;
  Items items;
  std::uint32_t cut = 0;
  std::size_t open_bytes = 0;
  Arena arenas[2];
  Low low;  // of the first page here
  std::uint64_t pages_written = 0;
};

}  // namespace

struct TreeBuilder::Impl {
  Impl(Pager& p, std::uint32_t o, double fill)
      : pager(p), owner(o), stash(p, PageStash::Mode::kUnlinked) {
    size_max = node::kHeaderSize + static_cast<std::size_t>(static_cast<double>(node::kCapacity) *
                                                            std::clamp(fill, 0.5, 1.0));
  }

  char* take(PageKind kind, PageId* id) {
    ++root.pages;
    return stash.take(kind, owner, id);
  }
  Status ensure(std::size_t pages) {
    return stash.size() >= pages ? Status() : stash.ensure(std::max(pages, kStashStep));
  }
  Level& level_at(std::size_t number) {
    if (number == levels.size())
      levels.push_back(std::make_unique<Level>(static_cast<std::uint32_t>(number)));
    return *levels[number];
  }

  Status write_chain(Bytes key, char* reference);
  Status add(Bytes key, Bytes value);
  Status append(std::size_t number, const node::Body& body);
  Status make_low(std::size_t number, std::uint32_t cut, Low* low);
  Status write_page(std::size_t number, std::uint32_t begin, std::uint32_t end);
  Status write_full_page(std::size_t number);
  Status complete(std::size_t number);
  Result<TreeRoot> finish();

  Pager& pager;
  const std::uint32_t owner;
  PageStash stash;
  std::size_t size_max;
  std::vector<std::unique_ptr<Level>> levels;
  TreeRoot root;
  Buffer last_key;
  std::size_t key_size_max = 0;
  PageId last_id = kNoPage;  // written last
  char* last_page = nullptr;
};

Status TreeBuilder::Impl::write_chain(Bytes key, char* reference) {
  const std::size_t pages = overflow::pages_of(key.size());
  MULTIFORA_TRY(ensure(pages));
  overflow::write(stash, owner, key, reference);
  root.pages += static_cast<std::uint32_t>(pages);
  return {};
}

Status TreeBuilder::Impl::add(Bytes key, Bytes value) {
  if (key.size() > kTreeKeySizeMax || value.size() > kTreeValueSizeMax)
    return Status(ErrorCode::kBadValue, "too large a key or value for a tree");
  if (root.count > 0 && key <= Bytes(last_key))
    return Status(ErrorCode::kBadValue, "keys of a tree build do not ascend");
  last_key.assign(key);
  key_size_max = std::max(key_size_max, key.size());
  char reference[node::kReferenceSize];
  const bool overflow = key.size() > node::kInlineKeyMax;
  if (overflow) MULTIFORA_TRY(write_chain(key, reference));
  char buffer[node::kBodyMax];
  ++root.count;
  return append(0, node::encode(buffer, key.substr(0, node::kInlineKeyMax),
                                overflow ? Bytes(reference, sizeof reference) : Bytes(), value));
}

Status TreeBuilder::Impl::append(std::size_t number, const node::Body& body) {
  Level& level = level_at(number);
  if (level.items.count() > level.cut && level.size_with(node::item_of(body)) > size_max) {
    if (level.cut > 0) MULTIFORA_TRY(write_full_page(number));
    level.open_page();
  }
  level.add(body);
  return {};
}

// What separates the items before and after `cut` of a level.
Status TreeBuilder::Impl::make_low(std::size_t number, std::uint32_t cut, Low* low) {
  const Items& items = levels[number]->items;
  const node::Item& right = items[cut];
  if (number > 0) {
    low->key.resize(right.inline_size());
    node::copy_key(right, right.inline_size(), low->key.data());
    low->reference.assign(right.rest(), right.overflow ? node::kReferenceSize : 0);
    return {};
  }
  MULTIFORA_TRY(make_separator(pager, items[cut - 1], right, &low->key));
  low->reference.clear();
  if (low->key.size() <= node::kInlineKeyMax) return {};
  low->reference.resize(node::kReferenceSize);
  MULTIFORA_TRY(write_chain(low->key, low->reference.data()));
  low->key.resize(node::kInlineKeyMax);
  return {};
}

// Writes a level's items [begin, end) and tells the level above, with level.low before it.
Status TreeBuilder::Impl::write_page(std::size_t number, std::uint32_t begin, std::uint32_t end) {
  Level& level = *levels[number];
  MULTIFORA_TRY(ensure(1));
  PageId id = kNoPage;
  char* page = take(number == 0 ? PageKind::kTreeLeaf : PageKind::kTreeInner, &id);
  const auto height = static_cast<std::uint32_t>(number);
  level.items.build(page, height, begin, end);
  node::header(page).key_size_max = 0;
  ++level.pages_written;
  last_id = id;
  last_page = page;
  char child[node::kChildSize];
  node::store_child(child, {id, count_of(level.items, height, begin, end)});
  char buffer[node::kBodyMax];
  return append(number + 1, node::encode(buffer, level.low.key, level.low.reference,
                                         Bytes(child, sizeof child)));
}

Status TreeBuilder::Impl::write_full_page(std::size_t number) {
  Level& level = *levels[number];
  Low next;
  MULTIFORA_TRY(make_low(number, level.cut, &next));
  MULTIFORA_TRY(write_page(number, 0, level.cut));
  level.low = std::move(next);
  level.drop_full_page();
  return {};
}

// Writes what a level still holds.
Status TreeBuilder::Impl::complete(std::size_t number) {
  Level& level = *levels[number];
  const std::uint32_t count = level.items.count();
  if (level.cut == 0 || level.items.size_of(0, count) <= kPageSize)
    return write_page(number, 0, count);
  if (level.items.size_of(level.cut, count) < kPageSize / 2)
    level.cut = level.items.choose_cut(0, 0);
  const std::uint32_t cut = level.cut;
  Low next;
  MULTIFORA_TRY(make_low(number, cut, &next));
  MULTIFORA_TRY(write_page(number, 0, cut));
  level.low = std::move(next);
  return write_page(number, cut, count);
}

Result<TreeRoot> TreeBuilder::Impl::finish() {
  if (root.count == 0) return root;
  for (std::size_t number = 0;; ++number) {
    MULTIFORA_TRY_R(complete(number));
    if (levels[number]->pages_written > 1) continue;
    root.page = last_id;
    root.height = static_cast<std::uint32_t>(number + 1);
    node::header(last_page).key_size_max = static_cast<std::uint32_t>(key_size_max);
    return root;
  }
}

TreeBuilder::TreeBuilder(Pager& pager, std::uint32_t owner, double fill)
    : impl_(std::make_unique<Impl>(pager, owner, fill)) {}
TreeBuilder::~TreeBuilder() = default;

Status TreeBuilder::add(Bytes key, Bytes value) {
  return impl_->add(tree_access::not_null(key), tree_access::not_null(value));
}
Result<TreeRoot> TreeBuilder::finish() {
  return impl_->finish();
}
PageStash& TreeBuilder::stash() {
  return impl_->stash;
}
void TreeBuilder::link() {
  impl_->stash.link();
}

}  // namespace multifora
