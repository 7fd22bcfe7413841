#include "core/store/collection_impl.h"

#include <algorithm>
#include <unordered_set>

#include "core/base/assert.h"
#include "core/bson/builder.h"
#include "core/bson/extended_json.h"

namespace multifora {
namespace {

bool same_key(const IndexKey& a, const IndexKey& b) {
  return a.key == b.key && a.type_bits == b.type_bits;
}

// Removes from both sorted sets what they share.
void drop_common(IndexKeySet& a, IndexKeySet& b) {
  std::vector<IndexKey> only_a, only_b;
  std::size_t i = 0, j = 0;
  while (i < a.keys.size() && j < b.keys.size()) {
    const int order = a.keys[i].key.compare(b.keys[j].key);
    if (order == 0) {
      if (!same_key(a.keys[i], b.keys[j])) {
        only_a.push_back(std::move(a.keys[i]));
        only_b.push_back(std::move(b.keys[j]));
      }
      ++i, ++j;
    } else if (order < 0) {
      only_a.push_back(std::move(a.keys[i++]));
    } else {
      only_b.push_back(std::move(b.keys[j++]));
    }
  }
  for (; i < a.keys.size(); ++i) only_a.push_back(std::move(a.keys[i]));
  for (; j < b.keys.size(); ++j) only_b.push_back(std::move(b.keys[j]));
  a.keys = std::move(only_a);
  b.keys = std::move(only_b);
}

// "{ a: 1, b: "x" }", as MongoDB writes keys into messages.
std::string describe_key(DocumentView key) {
  std::string text = "{ ";
  bool first = true;
  for (const Element& element : key) {
    if (!first) text += ", ";
    first = false;
    text += std::string(element.name()) + ": ";
    if (element.type() == BsonType::kObjectId)
      text += "ObjectId('" + element->as_object_id().to_hex() + "')";
    else
      text += to_extended_json(element.value());
  }
  return text + (first ? "}" : " }");
}

constexpr char kHexDigits[] = "0123456789abcdef";

// Field values of a key that cannot be decoded (collation, hashing): its bytes.
OwnedDocument undecodable_key(const IndexSpec& spec, Bytes key) {
  std::string hex = "0x";
  for (const char byte : key) {
    hex += kHexDigits[static_cast<unsigned char>(byte) >> 4];
    hex += kHexDigits[static_cast<unsigned char>(byte) & 15];
  }
  DocumentBuilder out;
  const DocumentView pattern = spec.key_pattern.view();
  out.append(pattern.first().name(), hex);
  return std::move(out).finish();
}

}  // namespace

Status duplicate_key(const Index& index, const IndexKey& key) {
  const IndexSpec& spec = index.spec();
  OwnedDocument value;
  DocumentBuilder decoded;
  if ((index.capabilities() & kIndexCovered) != 0 && !spec.collator &&
      index.decode(key.key, key.type_bits, decoded).ok())
    value = std::move(decoded).finish();
  else
    value = undecodable_key(spec, key.key);
  DocumentBuilder extra;
  extra.append("keyPattern", spec.key_pattern.view());
  extra.append("keyValue", value.view());
  if (spec.collator) extra.append("collation", spec.collator->spec());
  Status status(ErrorCode::kDuplicateKey, "E11000 duplicate key error collection: " + spec.ns +
                                              " index: " + spec.name +
                                              " dup key: " + describe_key(value.view()));
  return std::move(status).with_extra(std::move(extra).finish().take());
}

Status write_conflict() {
  return {ErrorCode::kWriteConflict,
          "Caused by :: Write conflict during plan execution and yielding is disabled. :: Please "
          "retry your operation or multi-document transaction."};
}

CollectionVersion Collection::current_version() const {
  CollectionVersion version;
  version.from = changed_in;
  version.info = info;
  version.state = state;
  for (const auto& open : indexes)
    if (!open->building)
      version.indexes.push_back(
          {open->number, open->kind, open->index->spec(), open->index->state()});
  return version;
}

void Collection::preserve_slow(Generation now) {
  if (snapshots != nullptr && snapshots->any(changed_in, now))
    versions.push_back(current_version());
  // What no snapshot can ask for any more goes.
  for (std::size_t i = versions.size(); i-- > 0;) {
    const Generation to = i + 1 < versions.size() ? versions[i + 1].from : now;
    if (snapshots == nullptr || !snapshots->any(versions[i].from, to))
      versions.erase(versions.begin() + static_cast<std::ptrdiff_t>(i));
  }
  changed_in = now;
}

std::optional<CollectionVersion> Collection::version_at(Generation generation) const {
  if (changed_in <= generation) return current_version();
  for (auto version = versions.rbegin(); version != versions.rend(); ++version)
    if (version->from <= generation) return *version;
  return std::nullopt;
}

OpenIndex* Collection::find_index(std::string_view name) const {
  for (const auto& open : indexes)
    if (open->index->spec().name == name) return open.get();
  return nullptr;
}

Result<std::optional<DocumentView>> read_record(Pager& pager, const Collection& collection,
                                                const CollectionState& state, RecordId id) {
  const PagedArray records(pager, collection.id);
  MULTIFORA_ASSIGN_R(const RecordLocation location, records.get(state.records, id));
  if (location == 0) return std::nullopt;
  MULTIFORA_ASSIGN_R(const Bytes payload, pager.records().read(location, id, collection.id));
  return DocumentView::assume_valid(payload);
}

Status CollectionMutator::half_done(Status status) {
  broken_ = std::move(status).with_context("a change stopped half-way in " +
                                           collection_.info->ns);
  return broken_;
}

Result<RecordLocation> CollectionMutator::place(RecordId id, DocumentView document) {
  RecordSpace& space = pager_.records();
  MULTIFORA_ASSIGN_R(RecordReservation place, space.reserve(*collection_.allocator, stash_,
                                                            document.size_bytes()));
  placed_.location = place.location();
  placed_.own_chunk = collection_.allocator->has_own_chunks();
  MULTIFORA_TRY_R(space.publish(std::move(place), id, collection_.id, document.bytes(), stash_,
                                &placed_.hash, writes_));
  return placed_.location;
}

void CollectionMutator::give_up(RecordLocation location, std::size_t size_bytes) {
  pager_.records().retire(location, size_bytes, stash_);
}

Status CollectionMutator::claim_keys(const OpenIndex& open, const IndexKeySet& keys, RecordId) {
  for (const IndexKey& key : keys.keys)
    if (collection_.claims.key_is_taken(open.number, key.key, owner_)) return write_conflict();
  return {};
}

Status CollectionMutator::check_record(RecordId id) const {
  return collection_.claims.record_is_taken(id, owner_) ? write_conflict() : Status();
}

Status CollectionMutator::check_unique_keys(const Change& change, RecordId id) {
  OpenIndex& open = *change.index;
  if (open.building || !open.index->spec().refuses_duplicates()) return {};
  MULTIFORA_ASSIGN(const RecordId other, open.index->find_conflict(change.added, id));
  if (other == 0) return claim_keys(open, change.added, id);
  for (const IndexKey& key : change.added.keys) {
    IndexKeySet one;
    one.keys.push_back(key);
    MULTIFORA_ASSIGN(const RecordId holder, open.index->find_conflict(one, id));
    if (holder != 0) return duplicate_key(*open.index, key);
  }
  return {};
}

Status CollectionMutator::collect_insert(DocumentView document, bool check_unique) {
  changes_.clear();
  for (const auto& open : collection_.indexes) {
    Change& change = changes_.emplace_back();
    change.index = open.get();
    MULTIFORA_TRY(open->index->extract(document, change.added));
    if (check_unique) MULTIFORA_TRY(check_unique_keys(change, 0));
  }
  return {};
}

std::size_t CollectionMutator::index_pages() const {
  std::size_t pages = 0;
  for (const Change& change : changes_) {
    if (change.index->building) continue;
    pages += change.index->index->pages_needed(change.added);
    pages += change.index->index->pages_needed(change.removed);
  }
  return pages;
}

Status CollectionMutator::apply_changes(RecordId id) {
  for (Change& change : changes_) {
    OpenIndex& open = *change.index;
    if (open.building) {
      if (id > open.scanned_up_to) continue;
      if (!change.removed.keys.empty())
        open.side_writes.push_back({id, false, std::move(change.removed)});
      if (!change.added.keys.empty())
        open.side_writes.push_back({id, true, std::move(change.added)});
      continue;
    }
    MULTIFORA_TRY(open.index->remove(change.removed, id, stash_));
    MULTIFORA_TRY(open.index->insert(change.added, id, stash_));
  }
  return {};
}

Result<RecordId> CollectionMutator::insert(RecordId id, DocumentView document, bool check_unique) {
  CollectionState& state = collection_.state;
  if (id == 0) id = state.next_record_id;
  collection_.preserve(pager_.current_generation());
  MULTIFORA_TRY_R(collect_insert(document, check_unique));
  MULTIFORA_TRY_R(stash_.ensure(index_pages() + PagedArray::kSetPages +
                                2 * RecordSpace::kRetirePages));
  const std::size_t size = document.size_bytes();
  MULTIFORA_ASSIGN_R(const RecordLocation location, place(id, document));
  MULTIFORA_TRY_R(finish_insert(id, location, size));
  return id;
}

Status CollectionMutator::attach(RecordId id, DocumentView document, RecordReservation place) {
  collection_.preserve(pager_.current_generation());
  MULTIFORA_TRY(collect_insert(document, false));
  MULTIFORA_TRY(stash_.ensure(index_pages() + PagedArray::kSetPages + RecordSpace::kPublishPages));
  const RecordLocation location = place.location();
  MULTIFORA_TRY(pager_.records().attach(std::move(place), collection_.id, stash_));
  return finish_insert(id, location, document.size_bytes());
}

Status CollectionMutator::finish_insert(RecordId id, RecordLocation location, std::size_t size) {
  CollectionState& state = collection_.state;
  if (Status status = PagedArray(pager_, collection_.id).set(state.records, id, location, stash_);
      !status.ok())
    return half_done(std::move(status));
  if (Status status = apply_changes(id); !status.ok()) return half_done(std::move(status));
  state.record_count += 1;
  state.data_bytes += size;
  if (id >= state.next_record_id) state.next_record_id = id + 1;
  return {};
}

Status CollectionMutator::update(RecordId id, DocumentView before, DocumentView after,
                                 bool check_unique) {
  collection_.preserve(pager_.current_generation());
  MULTIFORA_TRY(check_record(id));
  MULTIFORA_TRY(collect_insert(after, false));
  for (Change& change : changes_) {
    MULTIFORA_TRY(change.index->index->extract(before, change.removed));
    drop_common(change.added, change.removed);
    if (check_unique) MULTIFORA_TRY(check_unique_keys(change, id));
  }
  CollectionState& state = collection_.state;
  const PagedArray array(pager_, collection_.id);
  MULTIFORA_ASSIGN(const RecordLocation old_location, array.get(state.records, id));
  if (old_location == 0)
    return {ErrorCode::kDataCorruptionDetected,
            "update of record " + std::to_string(id) + " of " + collection_.info->ns +
                ", which is not in the record map"};
  MULTIFORA_TRY(stash_.ensure(index_pages() + PagedArray::kSetPages +
                              3 * RecordSpace::kRetirePages));
  const std::size_t old_size = before.size_bytes();
  const std::size_t new_size = after.size_bytes();
  MULTIFORA_ASSIGN(const RecordLocation location, place(id, after));
  PagedArray records(pager_, collection_.id);
  if (Status status = records.set(state.records, id, location, stash_); !status.ok())
    return half_done(std::move(status));
  if (Status status = apply_changes(id); !status.ok()) return half_done(std::move(status));
  give_up(old_location, old_size);
  state.data_bytes += new_size;
  state.data_bytes -= old_size;
  return {};
}

Status CollectionMutator::remove(RecordId id, DocumentView before) {
  collection_.preserve(pager_.current_generation());
  MULTIFORA_TRY(check_record(id));
  changes_.clear();
  for (const auto& open : collection_.indexes) {
    Change& change = changes_.emplace_back();
    change.index = open.get();
    MULTIFORA_TRY(open->index->extract(before, change.removed));
  }
  CollectionState& state = collection_.state;
  PagedArray records(pager_, collection_.id);
  MULTIFORA_ASSIGN(const RecordLocation location, records.get(state.records, id));
  if (location == 0)
    return {ErrorCode::kDataCorruptionDetected,
            "removal of record " + std::to_string(id) + " of " + collection_.info->ns +
                ", which is not in the record map"};
  MULTIFORA_TRY(
      stash_.ensure(index_pages() + PagedArray::kSetPages + RecordSpace::kRetirePages, true));
  const std::size_t size = before.size_bytes();
  if (Status status = apply_changes(id); !status.ok()) return half_done(std::move(status));
  if (Status status = records.set(state.records, id, 0, stash_); !status.ok())
    return half_done(std::move(status));
  give_up(location, size);
  state.record_count -= 1;
  state.data_bytes -= size;
  return {};
}

Result<bool> CollectionMutator::move(RecordId id, RecordLocation from) {
  CollectionState& state = collection_.state;
  collection_.preserve(pager_.current_generation());
  PagedArray records(pager_, collection_.id);
  MULTIFORA_ASSIGN_R(const RecordLocation at, records.get(state.records, id));
  if (at != from) return false;
  RecordSpace& space = pager_.records();
  MULTIFORA_ASSIGN_R(const Bytes payload, space.read(from, id, collection_.id));
  MULTIFORA_TRY_R(stash_.ensure(PagedArray::kSetPages + RecordSpace::kPublishPages +
                                2 * RecordSpace::kRetirePages));
  const std::size_t size = payload.size();
  MULTIFORA_ASSIGN_R(RecordReservation place, space.reserve(*collection_.allocator, stash_, size,
                                                            RecordPlacement::kMoved));
  const RecordLocation to = place.location();
  MULTIFORA_TRY_R(space.publish(std::move(place), id, collection_.id, payload, stash_));
  if (Status status = records.set(state.records, id, to, stash_); !status.ok())
    return fail(half_done(std::move(status)));
  space.retire(from, size, stash_);
  return true;
}

namespace {

void note(Status* first, Status status) {
  if (first->ok()) *first = std::move(status);
}

}  // namespace

// Retiring a record takes a copy of each bitmap page that it touches, once.
std::size_t CollectionMutator::pages_to_retire_all(Status* damage) const {
  std::unordered_set<std::uint64_t> chunks;
  const PagedArray array(pager_, collection_.id);
  PagedArray::Cursor cursor(array, collection_.state.records, false);
  Result<bool> found = cursor.seek(1);
  for (; found && *found; found = cursor.next()) {
    const auto payload = pager_.records().peek(cursor.value(), collection_.id);
    if (!payload) {
      note(damage, payload.error());
      continue;
    }
    const std::uint64_t last = cursor.value() + record_units(payload->size()) - 1;
    for (std::uint64_t chunk = cursor.value() / kUnitsPerChunk; chunk <= last / kUnitsPerChunk;
         ++chunk)
      chunks.insert(chunk);
  }
  if (!found) note(damage, found.error());
  return chunks.size();
}

// Requires the pages of pages_to_retire_all. Goes on after damage.
void CollectionMutator::retire_all(Status* damage) {
  CollectionState& state = collection_.state;
  for (const auto& open : collection_.indexes)
    if (Status status = open->index->clear(); !status.ok()) note(damage, std::move(status));
  PagedArray records(pager_, collection_.id);
  RecordSpace& space = pager_.records();
  Status cleared = records.clear(state.records, [&](std::uint64_t, std::uint64_t location) {
    const auto payload = space.peek(location, collection_.id);
    if (payload)
      space.retire(location, payload->size(), stash_);
    else
      note(damage, payload.error());
  });
  if (!cleared.ok()) note(damage, std::move(cleared));
  state.record_count = 0;
  state.data_bytes = 0;
}

Status CollectionMutator::truncate() {
  collection_.preserve(pager_.current_generation());
  if (!collection_.dropped && !collection_.claims.none()) return write_conflict();
  for (const auto& open : collection_.indexes) {
    if (open->building) {
      return {ErrorCode::kBackgroundOperationInProgressForNamespace,
              "cannot empty " + collection_.info->ns + " while an index is being built on it"};
    }
  }
  Status damage;
  const std::size_t pages = pages_to_retire_all(&damage);
  MULTIFORA_TRY(std::move(damage));
  MULTIFORA_TRY(stash_.ensure(pages, true));
  retire_all(&damage);
  return damage.ok() ? Status() : half_done(std::move(damage));
}

Status CollectionMutator::truncate_damaged(Status* damage) {
  MULTIFORA_TRY(stash_.ensure(pages_to_retire_all(damage), true));
  retire_all(damage);
  return {};
}

}  // namespace multifora
