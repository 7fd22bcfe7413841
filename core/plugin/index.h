// Index kinds, as descriptors: what a kind can do, and how one index of that kind is opened. The
// core and the planner ask for capabilities, never "are you X".
//
// An index maps keys (memcomparable bytes made from a document) to record ids. Its whole persistent
// state besides its pages is an IndexState, which the store saves in the catalog and captures in
// snapshots. An index needs no recovery code: recovery replays documents through the collection.
//
// Threads: extract, encode and reads through a captured state from any thread; reads of the live
// state under the collection's lock, writes under its exclusive lock.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/status.h"
#include "core/bson/key_string.h"
#include "core/bson/view.h"
#include "core/storage/types.h"

namespace multifora {

class PluginHost;
class Pager;
class PageStash;
class Collator;
class CompiledFilter;

enum IndexCapability : std::uint32_t {
  kIndexEquality = 1u << 0,  // point look-ups on a prefix of its fields
  kIndexRange = 1u << 1,     // intervals on its fields, keys in MongoDB's order
  kIndexOrder = 1u << 2,     // cursors give documents in the key pattern's order
  kIndexCovered = 1u << 3,   // keys decode to the original values
  kIndexCount = 1u << 4,     // exact counts of a key range without a walk
  kIndexUnique = 1u << 5,    // may be created unique
  kIndexPaths = 1u << 6,     // one index serves many paths: ask paths_for() how it reads for one
};

// The keys of one document in one index: sorted, without duplicates.
struct IndexKey {
  Buffer key;
  Buffer type_bits;
};
struct IndexKeySet {
  std::vector<IndexKey> keys;
  // Bit i: field i of the pattern met an array (its path is multikey).
  std::uint64_t multikey_fields = 0;
  void clear() {
    keys.clear();
    multikey_fields = 0;
  }
};

// Everything persistent about one index besides its pages.
struct IndexState {
  std::array<char, 64> bytes{};
  bool operator==(const IndexState&) const = default;
};

// What an index is opened with; alive as long as the index.
struct IndexSpec {
  OwnedDocument spec;              // normalised: {v, key, name, unique?, sparse?, ...}
  std::string ns;                  // "db.collection", for messages
  std::shared_ptr<const Collator> collator;             // null: binary order
  std::shared_ptr<const CompiledFilter> partial_filter;  // null: every document
  CollectionId owner = 0;          // owner of its pages
  // Parsed from `spec`:
  std::string name;
  OwnedDocument key_pattern;
  bool unique = false;
  bool prepare_unique = false;  // new duplicates are refused, those that are there stay
  bool sparse = false;
  bool hidden = false;
  bool refuses_duplicates() const { return unique || prepare_unique; }
};

// A walk over one state of an index. After a write to the live state, or when its lock was given up,
// it must seek again (the executor remembers key and record id).
class IndexCursor {
 public:
  virtual ~IndexCursor() = default;
  // To the first entry whose (key, record id) is at or after (`key`, `id`); `key` may be a prefix.
  virtual Status seek(Bytes key, RecordId id = 0) = 0;
  // To the last entry whose (key, record id) is at or before (`key`, `id`).
  virtual Status seek_reverse(Bytes key, RecordId id = ~RecordId{0}) = 0;
  virtual Status next() = 0;
  virtual Status prev() = 0;
  virtual bool valid() const = 0;
  // Without the record id. Alive until the cursor moves.
  virtual Bytes key() const = 0;
  virtual Bytes type_bits() const = 0;
  virtual RecordId record_id() const = 0;
  // memcmp of the current key with `other`, cheaper than key(): < 0, 0, > 0. A key of which `other`
  // is a proper prefix is greater.
  virtual int compare_key(Bytes other) const = 0;
};

// Takes keys in any order and makes a packed index of them (external sort within a budget).
//
//   adding   --finish()-->  written: an IndexState whose pages belong to nobody yet. After set_state
//                           the index may be changed like any other, by one thread and with stash()
//   written  --link()-->    part of the current state of the data file
// What is destroyed before link() leaves nothing behind. One thread at a time; only link() needs a
// lock.
class IndexBulkBuilder {
 public:
  virtual ~IndexBulkBuilder() = default;
  // Keeps the keys in memory: quick, so that it may be called under a lock.
  virtual Status add(const IndexKeySet& keys, RecordId id) = 0;
  // Writes what is in memory to a temporary file where it has passed the budget. To be called now and
  // then between adds, and not under a lock.
  virtual Status make_room() = 0;
  // Sorts and writes. `progress` is called now and then with entries done and in total; a failure it
  // returns cancels.
  virtual Result<IndexState> finish(
      const std::function<Status(std::uint64_t done, std::uint64_t total)>& progress) = 0;
  // Of a unique index: keys that finish() met with more than one record. Not more than
  // kIndexDuplicatesMax of them: then finish() gives up, with DuplicateKey. The builder's own.
  virtual const std::vector<IndexKey>& duplicates() const = 0;
  virtual PageStash& stash() = 0;  // see above
  // Under the commit gate, with the change that refers to the index. Quick, touches no page.
  virtual void link() = 0;
};
inline constexpr std::size_t kIndexDuplicatesMax = 100;

// How an index that serves many paths reads for predicates on one of them: as an ordered index whose
// fields are those of `key_pattern`, one of which holds paths. An entry at a path stands for a value
// there (an element, where an array is there). Values that have no entry of their own: missing
// fields, and objects that are not empty, whose content has entries at longer paths.
struct IndexPaths {
  OwnedDocument key_pattern;         // {"$_path": 1, "a.b": 1}; bounds and explain are in its fields
  std::uint64_t multikey_fields = 0;  // by field of key_pattern
  std::size_t path_field = 0;        // its values are paths
  std::size_t value_field = 1;       // its values are those found at the path
  // Where values at the path are found: more than one where part of the path may be a position.
  std::vector<std::string> paths;
  // Everything below `paths` is in the index too: where the path exists, some entry is at one of
  // them or at a longer path that begins with one of them and a dot.
  bool whole = false;
};

struct IndexStats {
  std::uint64_t entries = 0;
  std::uint64_t size_bytes = 0;  // pages in use
};

// One open index.
class Index {
 public:
  virtual ~Index() = default;

  virtual const IndexSpec& spec() const = 0;
  virtual std::uint32_t capabilities() const = 0;

  // The document's keys; empty where the index leaves the document out (sparse, partial filter).
  // CannotIndexParallelArrays and the like as MongoDB.
  virtual Status extract(DocumentView document, IndexKeySet& out) const = 0;

  // The live state. set_state is for opening, recovery and swapping in a bulk build.
  virtual IndexState state() const = 0;
  virtual void set_state(const IndexState& state) = 0;
  // Bit i: some document had an array at field i (so bounds on it may not be intersected).
  virtual std::uint64_t multikey_fields(const IndexState& state) const = 0;

  // With kIndexPaths: how this state reads for predicates on `path`; nullopt where it has nothing to
  // say about them.
  virtual Result<std::optional<IndexPaths>> paths_for(const IndexState& state,
                                                      std::string_view path) const {
    static_cast<void>(state), static_cast<void>(path);
    return std::nullopt;
  }

  // Pages that inserting or removing `keys` may take from the stash.
  virtual std::size_t pages_needed(const IndexKeySet& keys) const = 0;
  // Another record's id that already has one of `keys` (0: none).
  virtual Result<RecordId> find_conflict(const IndexKeySet& keys, RecordId self) const = 0;
  // After pages_needed was ensured these fail only on a damaged page.
  virtual Status insert(const IndexKeySet& keys, RecordId id, PageStash& stash) = 0;
  virtual Status remove(const IndexKeySet& keys, RecordId id, PageStash& stash) = 0;
  virtual Status clear() = 0;  // retires every page
  // Moves pages with numbers from `from` on to the front of the file, about `pages_max` of them, so
  // that the file can become shorter. True: there may be more. A kind that cannot do this keeps its
  // pages where they are. Takes what it needs from the stash itself; a failure leaves it sound.
  virtual Result<bool> vacate(std::uint64_t from, std::size_t pages_max, PageStash& stash) {
    static_cast<void>(from);
    static_cast<void>(pages_max);
    static_cast<void>(stash);
    return false;
  }

  virtual std::unique_ptr<IndexCursor> cursor(const IndexState& state) const = 0;
  // Appends the encoding of `value` as field `field` of a key (with kIndexPaths: of the pattern that
  // paths_for gives), as extract does (direction, collation, hashing).
  virtual void append_bound(KeyStringBuilder& key, std::size_t field, const ValueView& value) const = 0;
  // Entries with from <= key < to (byte order; an empty `to` is the end).
  virtual Result<std::uint64_t> count_range(const IndexState& state, Bytes from, Bytes to) const = 0;
  // Appends the key's values, named by the pattern's fields (with kIndexPaths: the one that paths_for
  // gives for the entry's path). Requires kIndexCovered.
  virtual Status decode(Bytes key, Bytes type_bits, DocumentBuilder& out) const = 0;

  virtual std::unique_ptr<IndexBulkBuilder> bulk_builder(std::uint64_t memory_budget_bytes,
                                                         const std::string& temp_directory) const = 0;

  virtual IndexStats stats(const IndexState& state) const = 0;
  // Structure and order; reports pages; counts entries. Errors are appended.
  virtual Status check(const IndexState& state, const std::function<void(PageId)>& page,
                       std::vector<std::string>* errors) const = 0;
};

struct IndexKind {
  // Persisted with each index: "btree", "ttl", "hashed", "wildcard".
  std::string_view name;
  std::uint32_t capabilities;
  // How well this kind fits a createIndexes spec: 0 not at all; the highest wins. Ordered kinds
  // answer 10, kinds that need a special value in the key pattern or an option answer 20 or more.
  int (*claims)(DocumentView spec);
  // Checks a spec and fills in defaults, with MongoDB's codes; the result is what listIndexes shows.
  // General rules (name, key not empty, duplicates) were checked by the catalog.
  Result<OwnedDocument> (*normalize)(const PluginHost& host, DocumentView spec);
  // Opens an index. A new index starts from IndexState{}.
  Result<std::unique_ptr<Index>> (*open)(const PluginHost& host, Pager& pager, IndexSpec spec,
                                         const IndexState& state);
};

}  // namespace multifora
