// A collection inside the store: its roots, its open indexes, and the changes that keep them in step.
//
// Everything here is guarded by the collection's lock; changes happen inside the commit gate, so that
// a checkpoint, which holds the gate closed, may read without the lock.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/plugin/index.h"
#include "core/storage/paged_array.h"
#include "core/storage/pager.h"
#include "core/storage/record_space.h"
#include "core/store/collection.h"
#include "core/store/lock.h"
#include "core/store/versions.h"

namespace multifora {

// What a checkpoint saves of a collection besides its description. On disk as it is (little-endian).
struct CollectionState {
  ArrayRoot records;                 // RecordId -> RecordLocation
  std::uint64_t record_count = 0;
  std::uint64_t data_bytes = 0;      // sum of document sizes
  std::uint64_t next_record_id = 1;
};
static_assert(sizeof(CollectionState) == 40);

// Keys that writers leave for an index build to apply when it has caught up with them.
struct SideWrite {
  RecordId id = 0;
  bool insert = false;
  IndexKeySet keys;
};

struct OpenIndex {
  std::uint32_t number = 0;  // never used twice in a collection
  const IndexKind* kind = nullptr;
  std::unique_ptr<Index> index;
  // While it is built: records up to scanned_up_to are in the builder already, so that changes to
  // them go to side_writes; later ones will be scanned. `index` has a state that only the builder's
  // thread may look at, and without the lock.
  bool building = false;
  RecordId scanned_up_to = 0;
  std::vector<SideWrite> side_writes;
  IndexUse use;
};

// Commands on a collection and the time they took; see Store::note_latency.
struct CommandUse {
  std::atomic<std::uint64_t> ops{0};
  std::atomic<std::uint64_t> latency_us{0};
};

// A past state, for snapshots of generations from `from` on (and before the next version's).
struct CollectionVersion {
  struct IndexVersion {
    std::uint32_t number = 0;
    const IndexKind* kind = nullptr;
    IndexSpec spec;
    IndexState state;
  };
  Generation from = 0;
  std::shared_ptr<const CollectionInfo> info;
  CollectionState state;
  std::vector<IndexVersion> indexes;  // ready ones
};

struct Collection {
  explicit Collection(CollectionId collection_id) : id(collection_id) {}

  const CollectionId id;
  mutable CollectionLock lock;
  // Also under the store's names_mutex: to change it takes both, to read it either.
  std::shared_ptr<const CollectionInfo> info;
  CollectionState state;
  std::vector<std::unique_ptr<OpenIndex>> indexes;  // _id_ first
  std::uint32_t next_index_number = 0;
  std::unique_ptr<RecordAllocator> allocator;
  bool dropped = false;             // nobody can find it any more; its space is being reclaimed
  bool description_dirty = false;   // the catalog's copy of info and index specs is old
  std::atomic<bool> dirty{false};   // on the store's list of collections to save
  CommandUse reads, writes, commands;

  // --- for transactions ---
  const OpenSnapshots* snapshots = nullptr;  // null: nobody looks at the past
  Generation changed_in = 0;                 // generation of the newest change
  std::vector<CollectionVersion> versions;   // oldest first
  WriteClaims claims;
  std::atomic<std::uint32_t> forks{0};  // transactions at work on it; changes of the catalog wait

  OpenIndex* find_index(std::string_view name) const;
  CollectionVersion current_version() const;
  // To be called before each change, with the lock held exclusively, inside the gate. `now`: the
  // pager's current generation.
  void preserve(Generation now) {
    if (changed_in != now) preserve_slow(now);
  }
  // The state that a snapshot sees; nullopt: the collection came later. With the lock held.
  std::optional<CollectionVersion> version_at(Generation generation) const;

 private:
  void preserve_slow(Generation now);
};

// Applies changes to one collection. Each call either changes everything (record map, record space,
// every index) or nothing. The caller holds the lock exclusively and is inside the gate.
//
// A change that runs into what a running transaction has written fails with WriteConflict; `owner` is
// the transaction whose own claims do not count.
class CollectionMutator {
 public:
  CollectionMutator(Pager& pager, Collection& collection, PageStash& stash,
                    WriteClaims::Owner owner = nullptr)
      : pager_(pager), collection_(collection), stash_(stash), owner_(owner) {}
  virtual ~CollectionMutator() = default;

  // id 0: the next free one. DuplicateKey, CannotIndexParallelArrays, OutOfDiskSpace ...
  Result<RecordId> insert(RecordId id, DocumentView document, bool check_unique);
  // For recovery: the document is in the file already, where `place` says.
  Status attach(RecordId id, DocumentView document, RecordReservation place);
  Status update(RecordId id, DocumentView before, DocumentView after, bool check_unique);
  Status remove(RecordId id, DocumentView before);
  // Retires every record and index entry.
  Status truncate();
  // The same for a collection that nobody will read again: what is damaged is left behind as lost
  // space, and `damage` says so. Fails with OutOfDiskSpace alone, having changed nothing.
  Status truncate_damaged(Status* damage);
  // Puts the bytes of record `id` somewhere else, if they are at `from` now. False: they are not.
  // Fails, nothing changed, with DataCorruptionDetected where they are damaged and OutOfDiskSpace
  // where there is no hole for them.
  Result<bool> move(RecordId id, RecordLocation from);

  // Where the last insert() put the document.
  struct Placed {
    RecordLocation location = 0;
    std::uint64_t hash = 0;
    bool own_chunk = false;  // no other collection has records there
  };
  const Placed& placed() const { return placed_; }
  // From now on insert() leaves the document's bytes there; null: writes them itself.
  void set_writes(RecordWrites* writes) { writes_ = writes; }

  // Not OK once a change failed half-way (a damaged page): the store must stop.
  const Status& broken() const { return broken_; }

 protected:
  // Where documents go: to the record space; a transaction keeps them in memory.
  virtual Result<RecordLocation> place(RecordId id, DocumentView document);
  virtual void give_up(RecordLocation location, std::size_t size_bytes);
  // No other record has one of these keys of a unique index; it may still be another transaction's.
  virtual Status claim_keys(const OpenIndex& open, const IndexKeySet& keys, RecordId id);

  Pager& pager_;
  Collection& collection_;
  PageStash& stash_;
  const WriteClaims::Owner owner_;

 private:
  struct Change {  // what one index has to do
    OpenIndex* index;
    IndexKeySet added, removed;
  };
  Status check_record(RecordId id) const;
  Status check_unique_keys(const Change& change, RecordId id);
  Status collect_insert(DocumentView document, bool check_unique);
  Status finish_insert(RecordId id, RecordLocation location, std::size_t size);
  Status apply_changes(RecordId id);
  Status half_done(Status status);
  std::size_t index_pages() const;
  std::size_t pages_to_retire_all(Status* damage) const;
  void retire_all(Status* damage);

  std::vector<Change> changes_;
  Placed placed_;
  RecordWrites* writes_ = nullptr;
  Status broken_;
};

// The document at `id` of this state; nullopt where there is none.
Result<std::optional<DocumentView>> read_record(Pager& pager, const Collection& collection,
                                                const CollectionState& state, RecordId id);

// WriteConflict, as MongoDB words it.
Status write_conflict();
// DuplicateKey as MongoDB reports it, with keyPattern and keyValue.
Status duplicate_key(const Index& index, const IndexKey& key);

}  // namespace multifora
