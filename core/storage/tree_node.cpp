// The tree's pages.
//
//   offset  size  field
//   0       32    PageHeader (kind kTreeLeaf or kTreeInner)
//   32      2     count: entries (of an inner page: children)
//   34      2     heap_begin: offset of the first heap byte
//   36      2     dead_bytes: heap bytes under no entry
//   38      2     prefix_size
//   40      1     level: 0 for a leaf
//   41      1     run (signed), 42: 2 last_insert: hints for the next split
//   44      4     key_size_max: in the root page, no key in the tree was ever longer
//   48      p     the prefix of all keys in the page, padded to a multiple of 4
//   48 + p  4n    heads: the first four bytes of each key as a big-endian number, for the search
//   ...     4n    slots: offset (2), key_size (2, bit 15: overflow)
//   ...           free
//   heap_begin    entries to the end of the page, in no order: key without the prefix, reference
//   (28,
//                 where overflow), size of the value (one byte below 128, else two: 0x80 | high,
//                 low), value
//
//   reference: first overflow page (8), size of the whole key (4), its last 16 bytes
//   value in an inner page: child page (6), entries under it (6)
//
// Invariants
//  1. Keys ascend by memcmp. A key's first kInlineKeyMax bytes are its prefix and heap bytes; a
//     reference is there exactly where the key is longer.
//  2. Entry 0 of an inner page has no key: key_size 0 and head 0. It is not under the prefix.
//  3. The sizes of the entries and dead_bytes sum to the heap.
//  4. An inner page's key i is > every key under child i - 1 and <= every key under child i.
#include "core/storage/tree_node.h"

#include <algorithm>

#include "core/base/assert.h"

namespace multifora::node {

namespace {

// Zeros are appended to short keys.
Head head_of(const char* key, std::size_t size) {
  if (size >= 4) [[likely]]
    return load_be<std::uint32_t>(key);
  Head head = 0;
  for (std::size_t i = 0; i < 4; ++i)
    head = head << 8 | (i < size ? static_cast<unsigned char>(key[i]) : 0);
  return head;
}

std::size_t common_prefix(const char* a, const char* b, std::size_t size) {
  std::size_t i = 0;
  for (; i + 8 <= size; i += 8) {
    const std::uint64_t difference = load_le<std::uint64_t>(a + i) ^ load_le<std::uint64_t>(b + i);
    if (difference != 0) return i + static_cast<std::size_t>(std::countr_zero(difference)) / 8;
  }
  while (i < size && a[i] == b[i]) ++i;
  return i;
}

int compare_bytes(const char* a, std::size_t a_size, const char* b, std::size_t b_size) {
  const int order = std::memcmp(a, b, std::min(a_size, b_size));
  if (order != 0) return order;
  return a_size < b_size ? -1 : a_size > b_size;
}

// Compares what follows the prefix of the search key with an entry.
int compare_suffix(const Entry& entry, Bytes suffix, std::size_t prefix_size,
                   const TailComparer& tails) {
  if (!entry.overflow) [[likely]]
    return compare_bytes(suffix.data(), suffix.size(), entry.key, entry.key_size);
  const std::size_t inline_left = std::min(suffix.size(), kInlineKeyMax - prefix_size);
  const int order = compare_bytes(suffix.data(), inline_left, entry.key, entry.key_size);
  if (order != 0) return order;
  return tails.compare(tails.context, suffix.substr(inline_left), entry.reference);
}

// The same with the bytes of one slot; false where they are not within the page.
inline bool compare_slot(const char* page, std::uint32_t index, Bytes suffix,
                         const TailComparer& tails, int* order) {
  const Slot slot = slots(page)[index];
  Entry entry;
  entry.key = page + slot.offset;
  entry.key_size = slot.key_size & ~std::uint32_t{kOverflowBit};
  entry.overflow = (slot.key_size & kOverflowBit) != 0;
  entry.reference = entry.key + entry.key_size;
  const std::size_t end = std::size_t{slot.offset} + entry.key_size;
  if (end + (entry.overflow ? kReferenceSize : 0) > kPageSize) [[unlikely]]
    return false;
  *order = compare_suffix(entry, suffix, header(page).prefix_size, tails);
  return true;
}

// Slots [begin, end) have the search key's head: a binary search over their bytes.
Found search_ties(const char* page, std::uint32_t begin, std::uint32_t end, Bytes suffix,
                  const TailComparer& tails) {
  while (begin < end) {
    const std::uint32_t middle = begin + (end - begin) / 2;
    int order = 0;
    if (!compare_slot(page, middle, suffix, tails, &order)) return {middle, false, true};
    if (order == 0) return {middle, true, false};
    if (order > 0) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return {begin, false, false};
}

// The end of the entries from `begin` on that have this head.
std::uint32_t ties_end(const Head* all, std::uint32_t begin, std::uint32_t count, Head head) {
  if (begin + 1 >= count || all[begin + 1] != head) [[likely]]
    return begin + 1;
  std::uint32_t low = begin + 1;
  std::uint32_t high = count;
  while (low < high) {
    const std::uint32_t middle = low + (high - low) / 2;
    if (all[middle] <= head) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// How many of the ascending heads are below `head`. Counting a hundred of them is faster than
// halving, which waits for memory and mispredicts at each step.
std::uint32_t count_below(const Head* all, std::uint32_t count, Head head) {
  constexpr std::uint32_t kCountMax = 128;
  constexpr std::uint32_t kLanes = 4;
  using Lanes = Head __attribute__((vector_size(sizeof(Head) * kLanes)));
  const Head* begin = all;
  while (count > kCountMax) {
    const std::uint32_t half = count / 2;
    if (begin[half - 1] < head) begin += half;
    count -= half;
  }
  const Lanes pivot = {head, head, head, head};
  Lanes below = {0, 0, 0, 0};
  std::uint32_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    Lanes part;
    std::memcpy(&part, begin + i, sizeof part);
    below -= reinterpret_cast<Lanes>(part < pivot);  // -1 where true
  }
  std::uint32_t total = below[0] + below[1] + below[2] + below[3];
  for (; i < count; ++i) total += begin[i] < head ? 1 : 0;
  return static_cast<std::uint32_t>(begin - all) + total;
}

// Makes room for entry `index` and fills it for a body that stands at `offset`.
void open_slot(char* page, std::uint32_t index, std::uint32_t offset, std::size_t key_size,
               bool overflow) {
  Header& h = header(page);
  const std::uint32_t count = h.count;
  Head* head = heads(page);
  Slot* old_slot = slots(page);
  ++h.count;
  Slot* slot = slots(page);
  std::memmove(slot + index + 1, old_slot + index, (count - index) * sizeof(Slot));
  std::memmove(slot, old_slot, index * sizeof(Slot));
  std::memmove(head + index + 1, head + index, (count - index) * sizeof(Head));
  slot[index] = {static_cast<std::uint16_t>(offset),
                 static_cast<std::uint16_t>(key_size | (overflow ? kOverflowBit : 0))};
  head[index] = head_of(page + offset, key_size);
}

void close_slot(char* page, std::uint32_t index) {
  Header& h = header(page);
  Head* head = heads(page);
  Slot* old_slot = slots(page);
  --h.count;
  Slot* slot = slots(page);
  std::memmove(head + index, head + index + 1, (h.count - index) * sizeof(Head));
  std::memmove(slot, old_slot, index * sizeof(Slot));
  std::memmove(slot + index, old_slot + index + 1, (h.count - index) * sizeof(Slot));
}

std::size_t put_value_size(char* to, std::size_t size) {
  if (size < 0x80) {
    to[0] = static_cast<char>(size);
    return 1;
  }
  to[0] = static_cast<char>(0x80 | size >> 8);
  to[1] = static_cast<char>(size & 0xff);
  return 2;
}

}  // namespace

// --- inner pages ---------------------------------------------------------------------------------

void write_child(char* page, std::uint32_t index, const Child& child) {
  Entry entry;
  MULTIFORA_ASSERT(read_entry(page, index, &entry) && entry.value_size == kChildSize);
  store_child(page + (entry.value - page), child);
}

bool sum_counts(const char* page, std::uint32_t begin, std::uint32_t end, std::uint64_t* sum) {
  std::uint64_t total = 0;
  for (std::uint32_t i = begin; i < end; ++i) {
    Child child;
    if (!read_child(page, i, &child)) return false;
    total += child.count;
  }
  *sum = total;
  return true;
}

// --- search --------------------------------------------------------------------------------------

Found search(const char* page, Bytes key, const TailComparer& tails) {
  const Header& h = header(page);
  const std::uint32_t first = first_keyed(page);
  const std::uint32_t count = h.count;
  if (first >= count) return {count, false, false};
  const Bytes shared = prefix(page);
  if (!shared.empty()) {
    const std::size_t size = std::min(key.size(), shared.size());
    const std::size_t same = common_prefix(key.data(), shared.data(), size);
    if (same < shared.size()) {
      const bool above =
          same<size&& static_cast<unsigned char>(key[same])> static_cast<unsigned char>(
              shared[same]);
      return {above ? count : first, false, false};
    }
    key.remove_prefix(shared.size());
  }
  // Heads are of inline bytes only.
  const Head head = head_of(key.data(), std::min(key.size(), kInlineKeyMax - shared.size()));
  const Head* all = heads(page);
  const std::uint32_t low = first + count_below(all + first, count - first, head);
  if (low == count || all[low] != head) return {low, false, false};
  return search_ties(page, low, ties_end(all, low, count, head), key, tails);
}

int compare(const char* page, const Entry& entry, Bytes key, const TailComparer& tails) {
  const Bytes shared = prefix(page);
  const std::size_t size = std::min(key.size(), shared.size());
  const int order = std::memcmp(key.data(), shared.data(), size);
  if (order != 0) return order;
  if (key.size() < shared.size()) return -1;
  return compare_suffix(entry, key.substr(shared.size()), shared.size(), tails);
}

// --- changes -------------------------------------------------------------------------------------

void init(char* page, std::uint32_t level) {
  Header& h = header(page);
  h.count = 0;
  h.heap_begin = static_cast<std::uint16_t>(kPageSize);
  h.dead_bytes = 0;
  h.prefix_size = 0;
  h.level = static_cast<std::uint8_t>(level);
  h.run = 0;
  h.last_insert = 0xffff;
  h.key_size_max = 0;
}

Body encode(char* to, Bytes inline_key, Bytes reference, Bytes value) {
  std::size_t at = inline_key.size();
  inline_key.copy(to, at);
  at += reference.copy(to + at, reference.size());
  at += put_value_size(to + at, value.size());
  at += value.copy(to + at, value.size());
  return {to, static_cast<std::uint32_t>(inline_key.size()), static_cast<std::uint32_t>(at),
          !reference.empty()};
}

bool fits_in_place(const char* page, const Body& body) {
  const std::size_t gap = gap_bytes(page);
  const Bytes shared = prefix(page);
  if (body.key_size < shared.size()) return false;
  if (gap < kSlotSize + body.size - shared.size()) return false;
  return std::memcmp(body.data, shared.data(), shared.size()) == 0;
}

void insert_in_place(char* page, std::uint32_t index, const Body& body) {
  Header& h = header(page);
  const std::size_t skip = h.prefix_size;
  const std::size_t size = body.size - skip;
  h.heap_begin = static_cast<std::uint16_t>(h.heap_begin - size);
  std::memcpy(page + h.heap_begin, body.data + skip, size);
  open_slot(page, index, h.heap_begin, body.key_size - skip, body.overflow);
  set_run(page, index, run_after(page, index));
}

int run_after(const char* page, std::uint32_t index) {
  const Header& h = header(page);
  if (index == h.last_insert + 1u) return h.run > 0 ? std::min(h.run + 1, 100) : 1;
  if (index == h.last_insert) return h.run < 0 ? std::max(h.run - 1, -100) : -1;
  return 0;
}

void set_run(char* page, std::uint32_t index, int run) {
  header(page).run = static_cast<std::int8_t>(run);
  header(page).last_insert = static_cast<std::uint16_t>(index);
}

void remove(char* page, std::uint32_t index) {
  Header& h = header(page);
  Entry entry;
  MULTIFORA_ASSERT(index < h.count && read_entry(page, index, &entry));
  if (slots(page)[index].offset == h.heap_begin) {
    h.heap_begin = static_cast<std::uint16_t>(h.heap_begin + entry.body_size);
  } else {
    h.dead_bytes = static_cast<std::uint16_t>(h.dead_bytes + entry.body_size);
  }
  close_slot(page, index);
  if (index <= h.last_insert) --h.last_insert;
  if (h.count == 0) {
    h.heap_begin = static_cast<std::uint16_t>(kPageSize);
    h.dead_bytes = 0;
    h.prefix_size = 0;
  }
}

void drop_first_key(char* page) {
  Header& h = header(page);
  Slot& slot = slots(page)[0];
  const std::size_t size = (slot.key_size & ~std::uint32_t{kOverflowBit}) +
                           ((slot.key_size & kOverflowBit) != 0 ? kReferenceSize : 0);
  slot.offset = static_cast<std::uint16_t>(slot.offset + size);
  slot.key_size = 0;
  heads(page)[0] = 0;
  h.dead_bytes = static_cast<std::uint16_t>(h.dead_bytes + size);
}

bool value_fits_in_place(const char* page, std::uint32_t index, std::size_t value_size) {
  Entry entry;
  if (!read_entry(page, index, &entry)) return false;
  const std::size_t size = entry.key_size + rest_size(entry.overflow, value_size);
  return size <= entry.body_size || size <= gap_bytes(page);
}

void replace_value_in_place(char* page, std::uint32_t index, Bytes value) {
  Header& h = header(page);
  Entry entry;
  MULTIFORA_ASSERT(index < h.count && read_entry(page, index, &entry));
  const std::size_t key_size = entry.key_size + (entry.overflow ? kReferenceSize : 0);
  const std::size_t size = key_size + rest_size(false, value.size());
  char* to = page + (entry.key - page);
  if (size <= entry.body_size) {
    h.dead_bytes = static_cast<std::uint16_t>(h.dead_bytes + entry.body_size - size);
  } else {
    MULTIFORA_ASSERT(size <= gap_bytes(page));
    h.dead_bytes = static_cast<std::uint16_t>(h.dead_bytes + entry.body_size);
    h.heap_begin = static_cast<std::uint16_t>(h.heap_begin - size);
    to = page + h.heap_begin;
    std::memcpy(to, entry.key, key_size);
    slots(page)[index].offset = h.heap_begin;
  }
  to += key_size;
  to += put_value_size(to, value.size());
  value.copy(to, value.size());
}

namespace {

std::string validate_entry(const char* page, std::uint32_t index, const Entry& entry) {
  const Header& h = header(page);
  const std::string where = "entry " + std::to_string(index);
  if (slots(page)[index].offset < h.heap_begin) return where + " starts before the heap";
  if (h.level > 0 && entry.value_size != kChildSize) return where + " is not a child";
  if (entry.value_size > kNodeValueMax) return where + " has too long a value";
  if (index < first_keyed(page))
    return entry.key_size == 0 && !entry.overflow ? "" : "entry 0 of an inner page has a key";
  const std::size_t inline_size = h.prefix_size + entry.key_size;
  if (inline_size > kInlineKeyMax || (entry.overflow && inline_size != kInlineKeyMax))
    return where + " has a key of impossible size";
  if (heads(page)[index] != head_of(entry.key, entry.key_size)) return where + " has a wrong head";
  return "";
}

}  // namespace

std::string validate(const char* page) {
  const Header& h = header(page);
  if (!header_ok(page, h.level)) return "impossible header";
  std::size_t heap = h.dead_bytes;
  Entry last{};
  for (std::uint32_t i = 0; i < h.count; ++i) {
    Entry entry;
    if (!read_entry(page, i, &entry)) return "entry " + std::to_string(i) + " is out of bounds";
    if (std::string wrong = validate_entry(page, i, entry); !wrong.empty()) return wrong;
    heap += entry.body_size;
    if (i > first_keyed(page)) {
      const int order = compare_bytes(last.key, last.key_size, entry.key, entry.key_size);
      if (order > 0 || (order == 0 && !entry.overflow))
        return "entry " + std::to_string(i) + " is out of order";
    }
    last = entry;
  }
  if (heap != std::size_t{kPageSize} - h.heap_begin) return "the heap does not add up";
  return "";
}

// --- rebuilding ----------------------------------------------------------------------------------

namespace {

inline Bytes first_part(const Item& item) {
  return {item.prefix, item.prefix_size};
}
inline Bytes second_part(const Item& item) {
  return {item.body, item.key_size};
}

// The bytes of the item's inline key from `at` on that lie together.
Bytes part_at(const Item& item, std::size_t at) {
  if (at < item.prefix_size) return first_part(item).substr(at);
  return second_part(item).substr(at - item.prefix_size);
}

}  // namespace

void copy_key(const Item& item, std::size_t size, char* to) {
  const std::size_t first = std::min<std::size_t>(size, item.prefix_size);
  std::memcpy(to, item.prefix, first);
  std::memcpy(to + first, item.body, size - first);
}

std::size_t common_bytes(const Item& a, const Item& b, std::size_t from) {
  const std::size_t size = std::min(a.inline_size(), b.inline_size());
  std::size_t at = from;
  while (at < size) {
    const Bytes a_part = part_at(a, at);
    const Bytes b_part = part_at(b, at);
    const std::size_t part = std::min({a_part.size(), b_part.size(), size - at});
    const std::size_t same = common_prefix(a_part.data(), b_part.data(), part);
    at += same;
    if (same < part) break;
  }
  return at;
}

Item item_at(const char* page, std::uint32_t index) {
  Entry entry;
  MULTIFORA_ASSERT(read_entry(page, index, &entry));
  Item item;
  const Bytes shared = index >= first_keyed(page) ? prefix(page) : Bytes("", 0);
  item.prefix = shared.data();
  item.prefix_size = static_cast<std::uint16_t>(shared.size());
  item.body = entry.key;
  item.key_size = static_cast<std::uint16_t>(entry.key_size);
  item.body_size = static_cast<std::uint16_t>(entry.body_size);
  item.overflow = entry.overflow;
  return item;
}

namespace {

bool in_order(const Item& a, const Item& b) {
  const std::size_t common = common_bytes(a, b);
  if (common == a.inline_size()) return true;
  if (common == b.inline_size()) return false;
  return static_cast<unsigned char>(part_at(a, common).front()) <
         static_cast<unsigned char>(part_at(b, common).front());
}

}  // namespace

bool keys_within(const char* page, const char* parent, std::uint32_t slot) {
  const std::uint32_t count = header(page).count;
  if (first_keyed(page) >= count) return true;
  if (slot > 0 && !in_order(item_at(parent, slot), item_at(page, first_keyed(page)))) return false;
  return slot + 1u >= header(parent).count ||
         in_order(item_at(page, count - 1), item_at(parent, slot + 1));
}

void Items::append_page(const char* page) {
  for (std::uint32_t i = 0; i < header(page).count; ++i) append(item_at(page, i));
}

void Items::insert(std::uint32_t index, const Item& item) {
  MULTIFORA_ASSERT(count_ < kItemsMax && index <= count_);
  std::copy_backward(items_ + index, items_ + count_, items_ + count_ + 1);
  items_[index] = item;
  ++count_;
}

void Items::drop_front(std::uint32_t count) {
  MULTIFORA_ASSERT(count <= count_);
  std::copy(items_ + count, items_ + count_, items_);
  count_ -= count;
}

std::size_t Items::keys_of(std::uint32_t begin, std::uint32_t end) const {
  begin = keyed_begin(begin);
  return begin < end ? end - begin : 0;
}

std::size_t Items::common_of(std::uint32_t begin, std::uint32_t end) const {
  return keys_of(begin, end) > 1 ? common_bytes(items_[keyed_begin(begin)], items_[end - 1]) : 0;
}

std::size_t Items::size_of(std::uint32_t begin, std::uint32_t end) const {
  std::size_t whole = 0;
  for (std::uint32_t i = begin; i < end; ++i) {
    whole += kSlotSize + items_[i].body_size;
    if (i >= keyed_begin(begin))
      whole += items_[i].prefix_size;
    else
      whole -= items_[i].key_size + (items_[i].overflow ? kReferenceSize : 0);
  }
  return page_bytes(whole, common_of(begin, end), keys_of(begin, end));
}

void Items::build(char* page, std::uint32_t level, std::uint32_t begin, std::uint32_t end) const {
  const std::size_t shared = prefix_for(common_of(begin, end), keys_of(begin, end));
  const std::uint32_t key_size_max = header(page).key_size_max;
  init(page, level);
  Header& h = header(page);
  h.key_size_max = key_size_max;
  h.prefix_size = static_cast<std::uint16_t>(shared);
  if (shared > 0) copy_key(items_[end - 1], shared, page + kHeaderSize);
  std::size_t at = kPageSize;
  h.count = static_cast<std::uint16_t>(end - begin);
  Head* head = heads(page);
  Slot* slot = slots(page);
  for (std::uint32_t i = begin; i < end; ++i) {
    const Item& item = items_[i];
    const bool keyed = i >= keyed_begin(begin);
    std::size_t from_prefix = 0;
    const char* body = item.body;
    std::size_t body_size = item.body_size;
    std::size_t key_size = 0;
    bool overflow = false;
    if (!keyed) {
      const std::size_t skip = item.key_size + (item.overflow ? kReferenceSize : 0);
      body += skip;
      body_size -= skip;
    } else {
      overflow = item.overflow;
      key_size = item.inline_size() - shared;
      if (item.prefix_size > shared) {
        from_prefix = item.prefix_size - shared;
      } else {
        body += shared - item.prefix_size;
        body_size -= shared - item.prefix_size;
      }
    }
    at -= from_prefix + body_size;
    MULTIFORA_ASSERT(at >= heads_begin(page) + (end - begin) * kSlotSize && at < kPageSize);
    if (from_prefix > 0) std::memcpy(page + at, item.prefix + shared, from_prefix);
    std::memcpy(page + at + from_prefix, body, body_size);
    slot[i - begin] = {static_cast<std::uint16_t>(at),
                       static_cast<std::uint16_t>(key_size | (overflow ? kOverflowBit : 0))};
    head[i - begin] = head_of(page + at, key_size);
  }
  h.heap_begin = static_cast<std::uint16_t>(at);
}

namespace {

// The sizes of both parts for every cut.
class Cuts {
 public:
  Cuts(const Items& items, std::uint32_t first_keyed) : items_(items), first_keyed_(first_keyed) {
    const std::uint32_t count = items.count();
    whole_[0] = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
      const Item& item = items[i];
      whole_[i + 1] =
          whole_[i] + static_cast<std::uint32_t>(kSlotSize + item.prefix_size + item.body_size);
      common_[i] = i > first_keyed ? static_cast<std::uint16_t>(common_bytes(items[i - 1], item))
                                   : std::uint16_t{0};
    }
    fill_left(count);
    fill_right(count);
  }

  std::uint32_t left(std::uint32_t cut) const { return left_[cut]; }
  std::uint32_t right(std::uint32_t cut) const { return right_[cut]; }
  bool fits(std::uint32_t cut) const { return left_[cut] <= kPageSize && right_[cut] <= kPageSize; }
  // Distance of two cuts in bytes.
  std::uint32_t between(std::uint32_t a, std::uint32_t b) const {
    return a < b ? whole_[b] - whole_[a] : whole_[a] - whole_[b];
  }
  std::size_t separator_size(std::uint32_t cut) const {
    const Item& item = items_[cut];
    if (first_keyed_ > 0) return item.inline_size() + (item.overflow ? kPageSize : 0);
    return std::size_t{common_[cut]} + 1 + (common_[cut] == kInlineKeyMax ? kPageSize : 0);
  }

 private:
  void fill_left(std::uint32_t count) {
    std::uint32_t shared = kInlineKeyMax;
    for (std::uint32_t cut = 1; cut <= count; ++cut) {
      if (cut - 1 > first_keyed_) shared = std::min<std::uint32_t>(shared, common_[cut - 1]);
      left_[cut] = static_cast<std::uint32_t>(
          page_bytes(whole_[cut], shared, cut > first_keyed_ ? cut - first_keyed_ : 0));
    }
  }
  void fill_right(std::uint32_t count) {
    std::uint32_t shared = kInlineKeyMax;
    for (std::uint32_t cut = count; cut-- > 1;) {
      // Entry `cut` has no key on an inner page.
      const std::uint32_t first = cut + first_keyed_;
      if (first + 1 < count) shared = std::min<std::uint32_t>(shared, common_[first + 1]);
      std::uint32_t whole = whole_[count] - whole_[cut];
      const Item& item = items_[cut];
      if (first_keyed_ > 0)
        whole -=
            static_cast<std::uint32_t>(item.inline_size() + (item.overflow ? kReferenceSize : 0));
      right_[cut] =
          static_cast<std::uint32_t>(page_bytes(whole, shared, first < count ? count - first : 0));
    }
  }

  const Items& items_;
  const std::uint32_t first_keyed_;
  std::uint32_t whole_[2 * kSlotsMax + 3];
  std::uint32_t left_[2 * kSlotsMax + 3];
  std::uint32_t right_[2 * kSlotsMax + 3];
  std::uint16_t common_[2 * kSlotsMax + 3];
};

constexpr int kRunMin = 3;
constexpr std::uint32_t kRunSlack = kCapacity / 16;
constexpr std::uint32_t kRunRest = kCapacity / 8;

std::uint32_t middle_cut(const Cuts& cuts, std::uint32_t count) {
  std::uint32_t best = 0;
  std::uint32_t best_difference = 0;
  for (std::uint32_t cut = 1; cut < count; ++cut) {
    if (!cuts.fits(cut)) continue;
    const std::uint32_t difference = cuts.left(cut) < cuts.right(cut)
                                         ? cuts.right(cut) - cuts.left(cut)
                                         : cuts.left(cut) - cuts.right(cut);
    if (best == 0 || difference < best_difference) {
      best = cut;
      best_difference = difference;
    }
  }
  return best;
}

// The cut for a run of inserts that ascends through `inserted`. The part that the run leaves behind
// keeps all but a little, as later inserts may come slightly out of order; but where much follows
// the run, that is cut off, or it would take its space from every page that the run fills. 0: no
// such cut is worth it.
std::uint32_t ascending_cut(const Cuts& cuts, std::uint32_t count, std::uint32_t inserted) {
  std::uint32_t cut = inserted + 1;
  if (cut < count && cuts.between(cut, count) > kRunRest)
    return cuts.fits(cut) && cuts.left(cut) >= kPageSize / 4 ? cut : 0;
  for (cut = inserted; cut > 1 && cuts.between(cut, inserted) < kRunSlack;) --cut;
  return cut > 0 && cuts.fits(cut) && cuts.left(cut) >= kPageSize / 2 ? cut : 0;
}

std::uint32_t descending_cut(const Cuts& cuts, std::uint32_t count, std::uint32_t inserted) {
  if (inserted > 0 && cuts.between(0, inserted) > kRunRest)
    return cuts.fits(inserted) && cuts.right(inserted) >= kPageSize / 4 ? inserted : 0;
  std::uint32_t cut = inserted + 1;
  while (cut + 1 < count && cuts.between(inserted + 1, cut) < kRunSlack) ++cut;
  return cut < count && cuts.fits(cut) && cuts.right(cut) >= kPageSize / 2 ? cut : 0;
}

std::uint32_t run_cut(const Cuts& cuts, std::uint32_t count, std::uint32_t inserted, int run) {
  if (run >= kRunMin) return ascending_cut(cuts, count, inserted);
  if (run <= -kRunMin) return descending_cut(cuts, count, inserted);
  return 0;
}

}  // namespace

std::uint32_t Items::choose_cut(std::uint32_t inserted, int run) const {
  const Cuts cuts(*this, first_keyed_);
  std::uint32_t ideal = run_cut(cuts, count_, inserted, run);
  const std::uint32_t tolerance = ideal != 0 ? kCapacity / 64 : kCapacity / 16;
  if (ideal == 0) ideal = middle_cut(cuts, count_);
  MULTIFORA_ASSERT(ideal != 0);
  std::uint32_t best = ideal;
  for (std::uint32_t cut = 1; cut < count_; ++cut) {
    if (!cuts.fits(cut) || cuts.between(cut, ideal) > tolerance) continue;
    const std::size_t size = cuts.separator_size(cut);
    const std::size_t best_size = cuts.separator_size(best);
    if (size < best_size ||
        (size == best_size && cuts.between(cut, ideal) < cuts.between(best, ideal)))
      best = cut;
  }
  return best;
}

}  // namespace multifora::node
