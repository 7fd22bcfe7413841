#include "core/store/versions.h"

namespace multifora {

void OpenSnapshots::add(Generation generation) {
  const std::lock_guard hold(mutex_);
  generations_.insert(generation);
  count_.fetch_add(1, std::memory_order_release);
}

void OpenSnapshots::remove(Generation generation) {
  const std::lock_guard hold(mutex_);
  generations_.erase(generations_.find(generation));
  count_.fetch_sub(1, std::memory_order_release);
}

bool OpenSnapshots::any(Generation from, Generation to) const {
  if (none()) return false;
  const std::lock_guard hold(mutex_);
  const auto first = generations_.lower_bound(from);
  return first != generations_.end() && *first < to;
}

std::string WriteClaims::key_name(std::uint32_t index_number, Bytes key) {
  std::string name(sizeof index_number, '\0');
  store_le(name.data(), index_number);
  name += key;
  return name;
}

bool WriteClaims::claim_record(RecordId id, Owner owner) {
  const std::lock_guard hold(mutex_);
  const auto [at, inserted] = records_.try_emplace(id, owner);
  if (inserted) count_.fetch_add(1, std::memory_order_release);
  return at->second == owner;
}

bool WriteClaims::claim_key(std::uint32_t index_number, Bytes key, Owner owner) {
  const std::lock_guard hold(mutex_);
  const auto [at, inserted] = keys_.try_emplace(key_name(index_number, key), owner);
  if (inserted) count_.fetch_add(1, std::memory_order_release);
  return at->second == owner;
}

bool WriteClaims::record_is_taken(RecordId id, Owner owner) const {
  if (none()) return false;
  const std::lock_guard hold(mutex_);
  const auto at = records_.find(id);
  return at != records_.end() && at->second != owner;
}

bool WriteClaims::key_is_taken(std::uint32_t index_number, Bytes key, Owner owner) const {
  if (none()) return false;
  const std::lock_guard hold(mutex_);
  const auto at = keys_.find(key_name(index_number, key));
  return at != keys_.end() && at->second != owner;
}

void WriteClaims::release(const std::unordered_set<RecordId>& records,
                          const std::vector<std::string>& keys, Owner owner) {
  const std::lock_guard hold(mutex_);
  const auto drop = [&](auto& table, const auto& name) {
    const auto at = table.find(name);
    if (at == table.end() || at->second != owner) return;
    table.erase(at);
    count_.fetch_sub(1, std::memory_order_release);
  };
  for (const RecordId id : records) drop(records_, id);
  for (const std::string& key : keys) drop(keys_, key);
}

}  // namespace multifora
