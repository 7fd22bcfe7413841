// One page of the B+tree as a pure data structure: every function works on the kPageSize bytes it
// is given and knows nothing of the pager. The byte layout stands at the top of tree_node.cpp.
//
// Leaves and inner pages have the same form; an inner page's value is {child page, entries under
// it} and its first entry has no key (it stands for everything below the second). A key longer
// than kInlineKeyMax keeps its first kInlineKeyMax bytes here and a reference to the rest.
//
// Damage: header_ok() and read_entry() check bounds, so that reading a damaged page gives wrong
// entries or `false`, never an access outside of the page. Functions that change a page require
// header_ok(); those that rebuild it from its entries require validate().
// Threads: none of its own; the tree's rules hold.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/bytes.h"
#include "core/storage/pager.h"
#include "core/storage/types.h"

namespace multifora::node {

inline constexpr std::size_t kHeaderSize = 48;
inline constexpr std::size_t kSlotSize = 8;
// What slots, prefix and heap share.
inline constexpr std::size_t kCapacity = kPageSize - kHeaderSize;
inline constexpr std::size_t kInlineKeyMax = kPageSize / 4 - 64;
// A reference to the rest of a long key: first overflow page (8), size of the whole key (4), the
// key's last bytes (so that a record id at the end is at hand).
inline constexpr std::size_t kTailSize = 16;
inline constexpr std::size_t kReferenceSize = 8 + 4 + kTailSize;
inline constexpr std::size_t kChildSize = 12;  // child page (6), entries under it (6)
inline constexpr std::size_t kNodeValueMax = 1024;
inline constexpr std::size_t kBodyMax = kInlineKeyMax + kReferenceSize + 2 + kNodeValueMax;
// Two pages can always take what one page held and one more entry.
static_assert(2 * (kBodyMax + kSlotSize) <= kCapacity);
inline constexpr std::size_t kSlotsMax = kCapacity / (kSlotSize + 1) + 1;

struct Header {
  PageHeader page;
  std::uint16_t count;
  std::uint16_t heap_begin;  // the heap goes to the end of the page
  std::uint16_t dead_bytes;  // in the heap, under no entry
  std::uint16_t prefix_size;
  std::uint8_t level;  // 0: leaf
  std::int8_t run;     // inserts in a row right after (> 0) or before (< 0) the last one
  std::uint16_t last_insert;
  std::uint32_t key_size_max;  // root page only: no key of the tree was ever longer
};
static_assert(sizeof(Header) == kHeaderSize);

struct Slot {
  std::uint16_t offset;
  std::uint16_t key_size;  // bytes of the key in the heap; bit 15: a reference follows
};
// The first four bytes of an entry's key as a big-endian number, zeros appended.
using Head = std::uint32_t;
static_assert(sizeof(Slot) + sizeof(Head) == kSlotSize);
inline constexpr std::uint16_t kOverflowBit = 0x8000;

inline const Header& header(const char* page) {
  return *reinterpret_cast<const Header*>(page);
}
inline Header& header(char* page) {
  return *reinterpret_cast<Header*>(page);
}
// The prefix follows the header (most often in its cache line), then all heads, then all slots: so
// a search looks at few lines.
constexpr std::size_t prefix_space(std::size_t size) {
  return (size + 3) & ~std::size_t{3};
}
inline Bytes prefix(const char* page) {
  return {page + kHeaderSize, header(page).prefix_size};
}
inline std::size_t heads_begin(const char* page) {
  return kHeaderSize + prefix_space(header(page).prefix_size);
}
inline const Head* heads(const char* page) {
  return reinterpret_cast<const Head*>(page + heads_begin(page));
}
inline Head* heads(char* page) {
  return reinterpret_cast<Head*>(page + heads_begin(page));
}
inline const Slot* slots(const char* page) {
  return reinterpret_cast<const Slot*>(heads(page) + header(page).count);
}
inline Slot* slots(char* page) {
  return reinterpret_cast<Slot*>(heads(page) + header(page).count);
}
// Free bytes between slots and heap. Requires header_ok().
inline std::size_t gap_bytes(const char* page) {
  return header(page).heap_begin - heads_begin(page) - header(page).count * kSlotSize;
}
// The first slot that has a key.
inline std::uint32_t first_keyed(const char* page) {
  return header(page).level > 0 ? 1 : 0;
}

// The header's offsets are possible and the page is of this level and kind.
inline bool header_ok(const char* page, std::uint32_t level) {
  const Header& h = header(page);
  const auto kind = level == 0 ? PageKind::kTreeLeaf : PageKind::kTreeInner;
  return h.page.kind == static_cast<std::uint8_t>(kind) && h.level == level &&
         h.prefix_size <= kInlineKeyMax &&
         heads_begin(page) + std::size_t{h.count} * kSlotSize <= h.heap_begin &&
         h.heap_begin <= kPageSize;
}

struct Entry {
  const char* key;  // after the prefix
  std::uint32_t key_size;
  bool overflow;
  const char* reference;  // kReferenceSize bytes where overflow
  const char* value;
  std::uint32_t value_size;
  std::uint32_t body_size;  // bytes in the heap
};

// Requires index < count. False where the entry does not lie within the page.
inline bool read_entry(const char* page, std::uint32_t index, Entry* entry) {
  const Slot slot = slots(page)[index];
  entry->overflow = (slot.key_size & kOverflowBit) != 0;
  entry->key = page + slot.offset;
  entry->key_size = slot.key_size & ~std::uint32_t{kOverflowBit};
  std::size_t at = std::size_t{slot.offset} + entry->key_size;
  if (entry->overflow) [[unlikely]] {
    entry->reference = page + at;
    at += kReferenceSize;
  }
  if (at + 2 > kPageSize) [[unlikely]] {  // the second byte of the size may be outside
    if (at + 1 != kPageSize || page[at] != 0) return false;
  }
  std::uint32_t size = static_cast<unsigned char>(page[at++]);
  if (size >= 0x80) [[unlikely]]
    size = (size & 0x7f) << 8 | static_cast<unsigned char>(page[at++]);
  if (at + size > kPageSize) [[unlikely]]
    return false;
  entry->value = page + at;
  entry->value_size = size;
  entry->body_size = static_cast<std::uint32_t>(at + size - slot.offset);
  return true;
}

// --- inner pages ---------------------------------------------------------------------------------
struct Child {
  PageId page;
  std::uint64_t count;
};
inline constexpr std::uint64_t kMask48 = (std::uint64_t{1} << 48) - 1;
inline Child load_child(const char* value) {
  return {load_le<std::uint64_t>(value) & kMask48, load_le<std::uint64_t>(value + 4) >> 16};
}
inline void store_child(char* value, const Child& child) {
  store_le<std::uint64_t>(value, child.page & kMask48);
  store_le<std::uint32_t>(value + 6, static_cast<std::uint32_t>(child.count));
  store_le<std::uint16_t>(value + 10, static_cast<std::uint16_t>(child.count >> 32));
}
// False where the entry is damaged.
inline bool read_child(const char* page, std::uint32_t index, Child* child) {
  Entry entry;
  if (!read_entry(page, index, &entry) || entry.value_size != kChildSize) return false;
  *child = load_child(entry.value);
  return true;
}
// Requires that read_child succeeded for this entry.
void write_child(char* page, std::uint32_t index, const Child& child);
// Entries under the children [begin, end); false where one is damaged.
bool sum_counts(const char* page, std::uint32_t begin, std::uint32_t end, std::uint64_t* sum);

// --- search --------------------------------------------------------------------------------------
// Compares what follows the first kInlineKeyMax bytes of a long search key with the bytes that a
// reference stands for: < 0 where the search key is less. Failures are its owner's to remember.
struct TailComparer {
  int (*compare)(void* context, Bytes tail, const char* reference);
  void* context;
};
struct Found {
  std::uint32_t index;  // the first entry with a key >= the key searched (of those that have one)
  bool exact;
  bool damaged;
};
// Requires header_ok().
Found search(const char* page, Bytes key, const TailComparer& tails);
// Compares `key` with the entry's key; prefix included.
int compare(const char* page, const Entry& entry, Bytes key, const TailComparer& tails);

// --- changes -------------------------------------------------------------------------------------
// Makes an empty page; the PageHeader is left alone.
void init(char* page, std::uint32_t level);

// An entry's bytes as they stand in the heap: key, reference, size of the value, value.
struct Body {
  const char* data;
  std::uint32_t key_size;
  std::uint32_t size;
  bool overflow;
};
// Writes a body with the whole inline key to `to` (kBodyMax bytes). `reference` is empty or
// kReferenceSize bytes.
Body encode(char* to, Bytes inline_key, Bytes reference, Bytes value);
// Size of a body without its key.
constexpr std::size_t rest_size(bool overflow, std::size_t value_size) {
  return (overflow ? kReferenceSize : 0) + (value_size < 0x80 ? 1 : 2) + value_size;
}

// Bytes in use: slots, entries, prefix.
inline std::size_t used_bytes(const char* page) {
  const Header& h = header(page);
  return prefix_space(h.prefix_size) + kSlotSize * h.count + (kPageSize - h.heap_begin) -
         h.dead_bytes;
}
// Whether `body` (with the whole inline key) starts with the page's prefix and fits without moving
// anything. Requires header_ok().
bool fits_in_place(const char* page, const Body& body);
// Requires fits_in_place().
void insert_in_place(char* page, std::uint32_t index, const Body& body);
void remove(char* page, std::uint32_t index);
// Takes the key from entry 0 of an inner page: it is now the first one.
void drop_first_key(char* page);
// Whether a value of this size fits under the same key without moving other entries; false too
// where the entry is damaged. Requires header_ok().
bool value_fits_in_place(const char* page, std::uint32_t index, std::size_t value_size);
// Puts another value under the same key. Requires value_fits_in_place().
void replace_value_in_place(char* page, std::uint32_t index, Bytes value);
// What Header::run becomes by an insert at `index`; insert_in_place() keeps it up to date.
int run_after(const char* page, std::uint32_t index);
// Leaves the hint in a page that was rebuilt with a new item at `index`.
void set_run(char* page, std::uint32_t index, int run);

// Everything about the page alone: bounds, no overlap in sum, heads, order (of what is inline).
// Empty when it is sound, otherwise what is wrong.
std::string validate(const char* page);

// --- rebuilding ----------------------------------------------------------------------------------
// An entry on its way from one page to another. Points into the page it came from.
struct Item {
  const char* prefix = "";
  const char* body = "";
  std::uint16_t prefix_size = 0;
  std::uint16_t key_size = 0;  // in body
  std::uint16_t body_size = 0;
  bool overflow = false;

  std::size_t inline_size() const { return std::size_t{prefix_size} + key_size; }
  const char* rest() const { return body + key_size; }
  std::size_t rest_bytes() const { return std::size_t{body_size} - key_size; }
};
inline Item item_of(const Body& body) {
  Item item;
  item.body = body.data;
  item.key_size = static_cast<std::uint16_t>(body.key_size);
  item.body_size = static_cast<std::uint16_t>(body.size);
  item.overflow = body.overflow;
  return item;
}
// The prefix to store for `keys` keys that have `common` bytes in common: all of them, or to a
// multiple of four where the rest would cost more than it saves. One key alone would be all prefix
// and have to be rebuilt for the second.
constexpr std::size_t prefix_for(std::size_t common, std::size_t keys) {
  if (keys < 2) return 0;
  const std::size_t rest = common % 4;
  return rest * keys < 4 ? common - rest : common;
}
// Size of a page whose slots and entries with whole keys take `whole` bytes.
constexpr std::size_t page_bytes(std::size_t whole, std::size_t common, std::size_t keys) {
  const std::size_t shared = prefix_for(common, keys);
  return kHeaderSize + whole + prefix_space(shared) - shared * keys;
}
// An entry of a page. Requires validate().
Item item_at(const char* page, std::uint32_t index);
// Whether the keys of `page` lie between those that stand around entry `slot` in `parent`, as far
// as they are inline. Requires validate() of both.
bool keys_within(const char* page, const char* parent, std::uint32_t slot);
// Copies the first `size` bytes of the item's inline key.
void copy_key(const Item& item, std::size_t size, char* to);
// Bytes that the two inline keys have in common, at least `from`.
std::size_t common_bytes(const Item& a, const Item& b, std::size_t from = 0);

// The entries of one or two pages and a new one, in order. `inner`: the first one has no key.
// Large: meant to live on the stack, once.
class Items {
 public:
  explicit Items(bool inner) : first_keyed_(inner ? 1 : 0) {}
  // Requires validate().
  void append_page(const char* page);
  void insert(std::uint32_t index, const Item& item);
  void append(const Item& item) { insert(count_, item); }
  void drop_front(std::uint32_t count);
  Item& operator[](std::uint32_t index) { return items_[index]; }
  const Item& operator[](std::uint32_t index) const { return items_[index]; }
  std::uint32_t count() const { return count_; }

  // Bytes that all keys in [begin, end) have in common, where item `begin` loses its key on inner
  // pages; and how many these are.
  std::size_t common_of(std::uint32_t begin, std::uint32_t end) const;
  std::size_t keys_of(std::uint32_t begin, std::uint32_t end) const;
  // Bytes of the page that build() would make of them.
  std::size_t size_of(std::uint32_t begin, std::uint32_t end) const;
  // Fills `page` (no item may point into it); its PageHeader and key_size_max are left alone.
  void build(char* page, std::uint32_t level, std::uint32_t begin, std::uint32_t end) const;

  // Where to cut so that both parts fit a page: left takes [0, cut). In the middle by bytes, with a
  // short separator; but where `run` (Header::run) says that inserts ascend or descend, so that the
  // page that the run leaves behind stays well filled. `inserted`: the new item. Requires that a
  // cut exists (always so for the entries of one page and a new one, or of two pages): asserted.
  std::uint32_t choose_cut(std::uint32_t inserted, int run) const;

 private:
  static constexpr std::size_t kItemsMax = 2 * kSlotsMax + 2;
  // The first item of [begin, ...) that keeps its key.
  std::uint32_t keyed_begin(std::uint32_t begin) const { return begin + first_keyed_; }

  std::uint32_t first_keyed_;
  std::uint32_t count_ = 0;
  Item items_[kItemsMax];
};

}  // namespace multifora::node
