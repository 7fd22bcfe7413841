// What transactions need of a collection: its past states, as far as open snapshots can see them, and
// who is about to change what.
//
// A snapshot is of a generation (pager.h). A collection keeps the generation of its newest change; the
// first change in a later one keeps the roots as they were, if a snapshot could ask for them. So a
// snapshot costs nothing for the collections that nobody changes, and the roots of one that is
// changed are copied once a generation.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/base/bytes.h"
#include "core/plugin/index.h"
#include "core/storage/types.h"

namespace multifora {

struct CollectionInfo;
struct CollectionState;

// Generations of the snapshots that transactions hold. Any thread.
class OpenSnapshots {
 public:
  void add(Generation generation);
  void remove(Generation generation);
  bool none() const { return count_.load(std::memory_order_acquire) == 0; }
  // Is there one with from <= generation < to?
  bool any(Generation from, Generation to) const;

 private:
  mutable std::mutex mutex_;
  std::multiset<Generation> generations_;
  std::atomic<std::size_t> count_{0};
};

// What running transactions have written to a collection and not committed: records and keys of unique
// indexes. First writer wins. Claims are made under the collection's lock (shared is enough), so that
// nobody changes the collection meanwhile.
class WriteClaims {
 public:
  using Owner = const void*;
  // False: another has it.
  bool claim_record(RecordId id, Owner owner);
  bool claim_key(std::uint32_t index_number, Bytes key, Owner owner);
  // Does another than `owner` have it? Cheap where nobody has anything.
  bool record_is_taken(RecordId id, Owner owner) const;
  bool key_is_taken(std::uint32_t index_number, Bytes key, Owner owner) const;
  bool none() const { return count_.load(std::memory_order_acquire) == 0; }
  // What a key is claimed under.
  static std::string key_name(std::uint32_t index_number, Bytes key);
  void release(const std::unordered_set<RecordId>& records, const std::vector<std::string>& keys,
               Owner owner);

 private:
  mutable std::mutex mutex_;
  std::unordered_map<RecordId, Owner> records_;
  std::unordered_map<std::string, Owner> keys_;
  std::atomic<std::size_t> count_{0};
};

}  // namespace multifora
