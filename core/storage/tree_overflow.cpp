#include "core/storage/tree_overflow.h"

#include <algorithm>

#include "core/base/assert.h"

namespace multifora::overflow {

void write(PageStash& stash, std::uint32_t owner, Bytes key, char* to) {
  MULTIFORA_ASSERT(key.size() > node::kInlineKeyMax);
  store_le<std::uint32_t>(to + 8, static_cast<std::uint32_t>(key.size()));
  key.substr(key.size() - node::kTailSize).copy(to + 12, node::kTailSize);
  char* link = to;
  for (Bytes rest = key.substr(node::kInlineKeyMax); !rest.empty();) {
    PageId id = kNoPage;
    char* page = stash.take(PageKind::kOverflow, owner, &id);
    store_le<std::uint64_t>(link, id);
    link = page + sizeof(PageHeader);
    const std::size_t size = rest.copy(page + kPayloadBegin, kPayloadMax);
    std::memset(page + kPayloadBegin + size, 0, kPayloadMax - size);
    rest.remove_prefix(size);
  }
  store_le<std::uint64_t>(link, kNoPage);
}

Reader::Reader(const Pager& pager, const char* reference)
    : pager_(pager), next_page_(load_reference(reference).page) {
  const std::size_t size = load_reference(reference).key_size;
  left_ = size > node::kInlineKeyMax ? size - node::kInlineKeyMax : 0;
}

Result<Bytes> Reader::next() {
  if (left_ == 0) return Bytes();
  page_ = next_page_;
  MULTIFORA_ASSIGN_R(const char* page, pager_.read(page_));
  next_page_ = load_le<std::uint64_t>(page + sizeof(PageHeader));
  const std::size_t size = std::min(left_, kPayloadMax);
  left_ -= size;
  const auto kind = reinterpret_cast<const PageHeader*>(page)->kind;
  if (kind != static_cast<std::uint8_t>(PageKind::kOverflow) ||
      (left_ == 0) != (next_page_ == kNoPage))
    return fail(ErrorCode::kDataCorruptionDetected,
                "page " + std::to_string(page_) + " is not the next part of a long key");
  return Bytes(page + kPayloadBegin, size);
}

Result<int> compare(const Pager& pager, Bytes tail, const char* reference) {
  Reader reader(pager, reference);
  while (true) {
    MULTIFORA_ASSIGN_R(const Bytes part, reader.next());
    if (part.empty()) return tail.empty() ? 0 : 1;
    const std::size_t size = std::min(part.size(), tail.size());
    if (size > 0) {
      const int order = std::memcmp(tail.data(), part.data(), size);
      if (order != 0) return order;
    }
    if (tail.size() < part.size()) return -1;
    tail.remove_prefix(size);
  }
}

Status append(const Pager& pager, const char* reference, std::size_t size_max, Buffer* to) {
  Reader reader(pager, reference);
  while (size_max > 0) {
    MULTIFORA_ASSIGN(const Bytes part, reader.next());
    if (part.empty()) break;
    const std::size_t size = std::min(part.size(), size_max);
    to->append(part.data(), size);
    size_max -= size;
  }
  return {};
}

Result<std::size_t> common_bytes(const Pager& pager, const char* a, const char* b) {
  Reader a_reader(pager, a);
  Reader b_reader(pager, b);
  std::size_t common = 0;
  while (true) {
    MULTIFORA_ASSIGN_R(const Bytes a_part, a_reader.next());
    MULTIFORA_ASSIGN_R(const Bytes b_part, b_reader.next());
    const std::size_t size = std::min(a_part.size(), b_part.size());
    const auto differ = std::mismatch(a_part.begin(), a_part.begin() + size, b_part.begin());
    const auto same = static_cast<std::size_t>(differ.first - a_part.begin());
    common += same;
    // All parts but the last have the same size.
    if (same < kPayloadMax) return common;
  }
}

Status collect(const Pager& pager, const char* reference, std::vector<PageId>* pages) {
  Reader reader(pager, reference);
  while (true) {
    MULTIFORA_ASSIGN(const Bytes part, reader.next());
    if (part.empty()) return {};
    pages->push_back(reader.page());
  }
}

}  // namespace multifora::overflow
