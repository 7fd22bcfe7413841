// An array page: PageHeader (32), then kFanOut entries of 8 bytes: in a page of height 1 the
// values, above that the pages below, 0 for none. Entry i of a page of height h covers kFanOut^(h -
// 1) indexes. A page without entries is not kept.
#include "core/storage/paged_array.h"

#include <algorithm>
#include <array>

#include "core/base/assert.h"

namespace multifora {

namespace {

constexpr std::uint64_t kFanOut = PagedArray::kFanOut;
constexpr std::uint32_t kHeightMax = PagedArray::kHeightMax;

// Indexes under an entry of a page of height h + 1: kFanOut ^ h. The last may not fit 64 bits and
// is never asked for.
constexpr auto kSpans = [] {
  std::array<std::uint64_t, kHeightMax> spans{};
  std::uint64_t span = 1;
  for (auto& s : spans) {
    s = span;
    span *= kFanOut;
  }
  return spans;
}();
static_assert(kSpans.back() > ~std::uint64_t{0} / kFanOut / kFanOut, "kHeightMax is too small");
static_assert(kSpans.back() <= ~std::uint64_t{0} / 2, "kHeightMax is too large");

std::uint64_t entry(const char* page, std::uint64_t at) {
  return load_le<std::uint64_t>(page + sizeof(PageHeader) + 8 * at);
}
void set_entry(char* page, std::uint64_t at, std::uint64_t value) {
  store_le<std::uint64_t>(page + sizeof(PageHeader) + 8 * at, value);
}

bool covers(const ArrayRoot& root, std::uint64_t index) {
  return root.height == kHeightMax || (root.height > 0 && index < kSpans[root.height]);
}

// Whether the page has an entry besides `at`. Looks at the neighbours first: records die in order.
bool has_other(const char* page, std::uint64_t at) {
  for (std::uint64_t i = at + 1; i < kFanOut; ++i)
    if (entry(page, i) != 0) return true;
  for (std::uint64_t i = at; i-- > 0;)
    if (entry(page, i) != 0) return true;
  return false;
}

// The first entry from `at` on, kFanOut where there is none.
std::uint64_t scan(const char* page, std::uint64_t at, bool backward) {
  if (backward) {
    for (std::uint64_t i = at + 1; i-- > 0;)
      if (entry(page, i) != 0) return i;
    return kFanOut;
  }
  while (at < kFanOut && entry(page, at) == 0) ++at;
  return at;
}

Status damaged(PageId id, std::string_view what) {
  return Status(ErrorCode::kDataCorruptionDetected, "page " + std::to_string(id) + " at offset " +
                                                        std::to_string(id * kPageSize) + " " +
                                                        std::string(what));
}

Status check_height(const ArrayRoot& root) {
  if (root.height <= kHeightMax) return {};
  return damaged(root.page, "is the root of an array of impossible height");
}

}  // namespace

// Where an index is: element h for the page of height h.
struct PagedArray::Path {
  explicit Path(std::uint64_t index) {
    for (std::uint32_t h = 1; h <= kHeightMax; ++h) {
      at[h] = index % kFanOut;
      index /= kFanOut;
    }
  }
  std::array<std::uint64_t, kHeightMax + 1> at{};
  std::array<PageId, kHeightMax + 1> page{};  // as far as they exist
};

Result<const char*> PagedArray::read_page(PageId id) const {
  Result<const char*> page = pager_.read(id);
  if (page && reinterpret_cast<const PageHeader*>(*page)->kind !=
                  static_cast<std::uint8_t>(PageKind::kArray)) [[unlikely]]
    return fail(damaged(id, "is not the array page that was expected"));
  return page;
}

Result<std::uint64_t> PagedArray::get(const ArrayRoot& root, std::uint64_t index) const {
  MULTIFORA_TRY_R(check_height(root));
  if (!covers(root, index)) return std::uint64_t{0};
  const Path path(index);
  std::uint64_t value = root.page;
  for (std::uint32_t h = root.height; h > 0 && value != 0; --h) {
    MULTIFORA_ASSIGN_R(const char* page, read_page(value));
    value = entry(page, path.at[h]);
  }
  return value;
}

// --- changes -------------------------------------------------------------------------------------

// Reads the pages that exist on the way, so that nothing fails later.
Status PagedArray::find_path(const ArrayRoot& root, std::uint64_t index, Path* path) const {
  MULTIFORA_TRY(check_height(root));
  PageId id = root.page;
  const bool inside = covers(root, index);
  for (std::uint32_t h = root.height; h > 0 && id != kNoPage; --h) {
    MULTIFORA_ASSIGN(const char* page, read_page(id));
    if (!inside) break;  // only the root will be touched: by its number
    path->page[h] = id;
    id = entry(page, path->at[h]);
  }
  return {};
}

Status PagedArray::set(ArrayRoot& root, std::uint64_t index, std::uint64_t value,
                       PageStash& stash) {
  Path path(index);
  MULTIFORA_TRY(find_path(root, index, &path));
  if (value == 0) {
    if (path.page[1] != kNoPage && entry(pager_.peek(path.page[1]), path.at[1]) != 0)
      erase(root, path, stash);
    return {};
  }
  const auto new_page = [&](PageId* id) {
    char* page = stash.take(PageKind::kArray, owner_, id);
    std::memset(page + sizeof(PageHeader), 0, kPageSize - sizeof(PageHeader));
    return page;
  };
  while (!covers(root, index)) {
    const PageId below = root.page;
    ++root.height;
    if (below == kNoPage) continue;
    set_entry(new_page(&root.page), 0, below);
  }
  PageId id = root.page;
  char* parent = nullptr;
  for (std::uint32_t h = root.height; h > 0; --h) {
    const PageId old = id;
    char* page = id == kNoPage ? new_page(&id) : pager_.make_writable(&id, stash);
    if (id != old) {
      if (parent == nullptr)
        root.page = id;
      else
        set_entry(parent, path.at[h + 1], id);
    }
    if (h == 1) set_entry(page, path.at[1], value);
    id = entry(page, path.at[h]);
    parent = page;
  }
  return {};
}

// Clears an entry that is there. Pages that become empty go; what is above them is not copied where
// it goes too.
void PagedArray::erase(ArrayRoot& root, Path& path, PageStash& stash) {
  std::uint32_t stays = 1;
  while (stays <= root.height && !has_other(pager_.peek(path.page[stays]), path.at[stays]))
    stash.retire(path.page[stays++]);
  if (stays > root.height) {
    root = ArrayRoot{};
    return;
  }
  char* parent = nullptr;
  for (std::uint32_t h = root.height; h >= stays; --h) {
    PageId id = path.page[h];
    char* page = pager_.make_writable(&id, stash);
    if (parent == nullptr)
      root.page = id;
    else
      set_entry(parent, path.at[h + 1], id);
    parent = page;
  }
  set_entry(parent, path.at[stays], 0);
}

// --- walking -------------------------------------------------------------------------------------

// The first entry at or after (before) `from` under a page; all numbers relative to the page.
Result<bool> PagedArray::find(PageId id, std::uint32_t height, std::uint64_t from, bool backward,
                              std::uint64_t* index, const char** leaf) const {
  MULTIFORA_ASSIGN_R(const char* page, read_page(id));
  const std::uint64_t span = kSpans[height - 1];
  const std::uint64_t first = from / span;
  for (std::uint64_t at = scan(page, first, backward); at < kFanOut;
       at = backward ? (at == 0 ? kFanOut : scan(page, at - 1, true)) : scan(page, at + 1, false)) {
    if (height == 1) {
      *index = at;
      *leaf = page;
      return true;
    }
    const std::uint64_t rest = at == first ? from % span : backward ? span - 1 : 0;
    MULTIFORA_ASSIGN_R(const bool found,
                       find(entry(page, at), height - 1, rest, backward, index, leaf));
    if (!found) continue;
    *index += at * span;
    return true;
  }
  return false;
}

Result<bool> PagedArray::next(const ArrayRoot& root, std::uint64_t from, bool backward,
                              std::uint64_t* index, std::uint64_t* value) const {
  Cursor cursor(*this, root, backward);
  MULTIFORA_ASSIGN_R(const bool found, cursor.seek(from));
  if (!found) return false;
  *index = cursor.index();
  *value = cursor.value();
  return true;
}

Result<bool> PagedArray::Cursor::seek(std::uint64_t from) {
  leaf_ = nullptr;
  MULTIFORA_TRY_R(check_height(root_));
  if (root_.height == 0) return false;
  if (!covers(root_, from)) {
    if (!backward_) return false;
    from = kSpans[root_.height] - 1;
  }
  const char* leaf = nullptr;
  MULTIFORA_ASSIGN_R(const bool found,
                     array_->find(root_.page, root_.height, from, backward_, &index_, &leaf));
  if (!found) return false;
  leaf_ = leaf;
  leaf_first_ = index_ - index_ % kFanOut;
  value_ = entry(leaf_, index_ - leaf_first_);
  return true;
}

Result<bool> PagedArray::Cursor::next() {
  if (leaf_ == nullptr) return false;
  const std::uint64_t at = index_ - leaf_first_;
  if (backward_ ? at > 0 : at + 1 < kFanOut) {
    const std::uint64_t found = scan(leaf_, backward_ ? at - 1 : at + 1, backward_);
    if (found < kFanOut) {
      index_ = leaf_first_ + found;
      value_ = entry(leaf_, found);
      return true;
    }
  }
  const std::uint64_t last = ~std::uint64_t{0};
  if (backward_ ? leaf_first_ == 0 : leaf_first_ > last - kFanOut) {
    leaf_ = nullptr;
    return false;
  }
  return seek(backward_ ? leaf_first_ - 1 : leaf_first_ + kFanOut);
}

std::size_t PagedArray::Cursor::ahead(std::uint64_t* values, std::size_t max) const {
  if (leaf_ == nullptr) return 0;
  std::size_t count = 0;
  std::uint64_t at = index_ - leaf_first_;
  while (count < max && (backward_ ? at > 0 : at + 1 < kFanOut)) {
    at = backward_ ? at - 1 : at + 1;
    const std::uint64_t value = entry(leaf_, at);
    if (value != 0) values[count++] = value;
  }
  return count;
}

namespace {

using Visit = std::function<void(std::uint64_t, std::uint64_t)>;

}  // namespace

Status PagedArray::clear(ArrayRoot& root, const Visit& per_entry) {
  const ArrayRoot old = root;
  root = ArrayRoot{};
  MULTIFORA_TRY(check_height(old));
  if (old.height == 0) return {};
  Status status;
  const auto visit = [&](const auto& self, PageId id, std::uint32_t height,
                         std::uint64_t first) -> void {
    const Result<const char*> page = read_page(id);
    if (!page) {
      if (status.ok()) status = page.error();
      return;
    }
    for (std::uint64_t at = scan(*page, 0, false); at < kFanOut; at = scan(*page, at + 1, false)) {
      const std::uint64_t value = entry(*page, at);
      const std::uint64_t index = first + at * kSpans[height - 1];
      if (height > 1)
        self(self, value, height - 1, index);
      else if (per_entry)
        per_entry(index, value);
    }
    pager_.retire(id);
  };
  visit(visit, old.page, old.height, 0);
  return status;
}

Result<bool> PagedArray::vacate(ArrayRoot& root, PageId from, std::size_t pages_max,
                                PageStash& stash) {
  MULTIFORA_TRY_R(check_height(root));
  if (root.height == 0) return false;
  Status status;
  const auto over = [&] { return pages_max == 0 || !status.ok(); };
  // What is above a page that has moved gets its new number whatever fails elsewhere: the pages for
  // that are there before the move.
  const auto move = [&](PageId* id) {
    status = status_of(read_page(*id));
    if (status.ok()) status = stash.ensure(kHeightMax + 1);
    if (status.ok()) pages_max = pager_.move_page(id, stash) ? pages_max - 1 : 0;
  };
  const auto visit = [&](const auto& self, PageId* id, std::uint32_t height) -> void {
    const Result<const char*> read = read_page(*id);
    if (!read) {
      status = read.error();
      return;
    }
    const char* page = *read;
    for (std::uint64_t at = 0; height > 1 && at < kFanOut && !over(); ++at) {
      PageId below = entry(page, at);
      if (below == kNoPage) continue;
      if (height > 2)
        self(self, &below, height - 1);
      else if (below >= from)
        move(&below);
      if (below == entry(page, at)) continue;
      char* const changed = pager_.make_writable(id, stash);
      set_entry(changed, at, below);
      page = changed;
    }
    if (*id >= from && !over()) move(id);
  };
  visit(visit, &root.page, root.height);
  MULTIFORA_TRY_R(status);
  return over();
}

Status PagedArray::walk(const ArrayRoot& root, const std::function<void(PageId)>& page_seen,
                        const Visit& entry_seen) const {
  MULTIFORA_TRY(check_height(root));
  if ((root.height == 0) != (root.page == kNoPage))
    return damaged(root.page, "is the root of an array of another height");
  if (root.height == 0) return {};
  const auto visit = [&](const auto& self, PageId id, std::uint32_t height,
                         std::uint64_t first) -> Status {
    MULTIFORA_ASSIGN(const char* page, read_page(id));
    if (page_seen) page_seen(id);
    std::uint64_t at = scan(page, 0, false);
    if (at == kFanOut) return damaged(id, "is an array page without entries");
    for (; at < kFanOut; at = scan(page, at + 1, false)) {
      const std::uint64_t index = first + at * kSpans[height - 1];
      if (height == kHeightMax && at > ~std::uint64_t{0} / kSpans[height - 1])
        return damaged(id, "has an entry beyond the last index");
      if (height > 1) {
        MULTIFORA_TRY(self(self, entry(page, at), height - 1, index));
      } else if (entry_seen) {
        entry_seen(index, entry(page, at));
      }
    }
    return {};
  };
  return visit(visit, root.page, root.height, 0);
}

}  // namespace multifora
