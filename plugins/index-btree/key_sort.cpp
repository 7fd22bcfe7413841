#include "plugins/index-btree/key_sort.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace multifora {
namespace {

constexpr std::size_t kRecordHeaderSize = 16;
// Fewer entries than this are compared: a radix pass costs as much as its table.
constexpr std::ptrdiff_t kRadixMin = 256;
// Keys that agree in so many bytes are compared, so that long ones do not recurse deeply.
constexpr std::size_t kDepthMax = 16 * 7;
constexpr std::size_t kRadix = 256;

}  // namespace

std::uint64_t KeySorter::head_of(Bytes key) {
  char bytes[8] = {};
  const std::size_t size = std::min(key.size(), kHeadKeySize);
  std::memcpy(bytes, key.data(), size);
  bytes[7] = static_cast<char>(std::min(key.size(), kHeadKeySize + 1));
  return load_be<std::uint64_t>(bytes);
}

Bytes KeySorter::arena_key(const Entry& entry) const {
  const char* const at = record(entry);
  return {at + kRecordHeaderSize, load_le<std::uint32_t>(at)};
}

RecordId KeySorter::id(const Entry& entry) const {
  return in_arena(entry) ? load_le<RecordId>(record(entry) + 8) : entry.data;
}

void KeySorter::add(Bytes key, Bytes type_bits, RecordId id) {
  ids_ascend_ = ids_ascend_ && id >= last_id_;
  last_id_ = id;
  if (key.size() <= kHeadKeySize && type_bits.empty() && (id & kInArena) == 0) {
    entries_.push_back({head_of(key), id});
    return;
  }
  const std::size_t size = kRecordHeaderSize + key.size() + type_bits.size();
  if (arena_used_ + size > arena_.size() * kBlockSize) {
    arena_used_ = arena_.size() * kBlockSize;
    const std::size_t blocks = (size + kBlockSize - 1) / kBlockSize;
    arena_.push_back(std::make_unique_for_overwrite<char[]>(blocks * kBlockSize));
    arena_.resize(arena_.size() + blocks - 1);
  }
  char* const at = arena_[arena_used_ / kBlockSize].get() + arena_used_ % kBlockSize;
  store_le(at, static_cast<std::uint32_t>(key.size()));
  store_le(at + 4, static_cast<std::uint32_t>(type_bits.size()));
  store_le(at + 8, id);
  key.copy(at + kRecordHeaderSize, key.size());
  type_bits.copy(at + kRecordHeaderSize + key.size(), type_bits.size());
  entries_.push_back({head_of(key), arena_used_ | kInArena});
  arena_used_ += size;
  // What is left of a piece of several blocks is not used.
  if (size > kBlockSize) arena_used_ = arena_.size() * kBlockSize;
}

std::uint64_t KeySorter::memory_bytes() const {
  return arena_.size() * kBlockSize + entries_.size() * 2 * sizeof(Entry);
}

bool KeySorter::less(const Entry& a, const Entry& b, std::size_t depth) const {
  if (a.head != b.head) return a.head < b.head;
  if ((a.head & 0xff) > kHeadKeySize) {
    const std::size_t from = depth + kHeadKeySize;
    const int order = arena_key(a).substr(from).compare(arena_key(b).substr(from));
    if (order != 0) return order < 0;
  }
  return id(a) < id(b);
}

void KeySorter::sort() {
  sort_range(entries_.data(), entries_.data() + entries_.size(), 0);
  other_.reset();
}

void KeySorter::sort_range(Entry* begin, Entry* end, std::size_t depth) {
  if (end - begin < kRadixMin || !ids_ascend_ || depth >= kDepthMax) {
    std::sort(begin, end, [&](const Entry& a, const Entry& b) { return less(a, b, depth); });
    return;
  }
  radix_sort(begin, end);
  for (Entry* run = begin; run != end;) {
    Entry* next = run + 1;
    while (next != end && next->head == run->head) ++next;
    if (next - run > 1 && (run->head & 0xff) > kHeadKeySize) sort_equal_heads(run, next, depth);
    run = next;
  }
}

void KeySorter::sort_equal_heads(Entry* begin, Entry* end, std::size_t depth) {
  depth += kHeadKeySize;
  for (Entry* entry = begin; entry != end; ++entry)
    entry->head = head_of(arena_key(*entry).substr(depth));
  sort_range(begin, end, depth);
}

void KeySorter::radix_sort(Entry* begin, Entry* end) {
  const auto count = static_cast<std::size_t>(end - begin);
  std::array<std::array<std::size_t, kRadix>, 8> starts{};
  for (const Entry* entry = begin; entry != end; ++entry)
    for (std::size_t digit = 0; digit < 8; ++digit)
      ++starts[digit][entry->head >> (8 * digit) & 0xff];
  if (!other_) other_ = std::make_unique_for_overwrite<Entry[]>(entries_.size());
  Entry* from = begin;
  Entry* to = other_.get();
  for (std::size_t digit = 0; digit < 8; ++digit) {
    std::array<std::size_t, kRadix>& next = starts[digit];
    if (next[from->head >> (8 * digit) & 0xff] == count) continue;
    std::size_t start = 0;
    for (std::size_t& at : next) start += std::exchange(at, start);
    for (std::size_t i = 0; i < count; ++i)
      to[next[from[i].head >> (8 * digit) & 0xff]++] = from[i];
    std::swap(from, to);
  }
  if (from != begin) std::copy(from, from + count, begin);
}

Bytes KeySorter::type_bits(std::size_t index) const {
  const Entry& entry = entries_[index];
  if (!in_arena(entry)) return {};
  const char* const at = record(entry);
  return {at + kRecordHeaderSize + load_le<std::uint32_t>(at), load_le<std::uint32_t>(at + 4)};
}

void KeySorter::tree_key(std::size_t index, Buffer* to) const {
  const Entry& entry = entries_[index];
  if (in_arena(entry)) {
    to->assign(arena_key(entry));
    append_be<RecordId>(*to, id(entry));
    return;
  }
  char bytes[16];
  const std::size_t size = entry.head & 0xff;
  store_be(bytes, entry.head);
  store_be(bytes + size, entry.data);
  to->assign(bytes, size + sizeof(RecordId));
}

void KeySorter::clear() {
  std::vector<Entry>().swap(entries_);
  std::vector<std::unique_ptr<char[]>>().swap(arena_);
  arena_used_ = 0;
}

}  // namespace multifora
