#include "core/store/catalog_table.h"

#include <algorithm>

#include "core/base/assert.h"
#include "core/bson/validate.h"
#include "core/store/catalog_body.h"

namespace multifora {
namespace {

constexpr std::string_view kMetaMagic = "MFSTORE1";
constexpr std::size_t kMetaSize = 40;
constexpr std::size_t kPieceSize = kTreeValueSizeMax;
constexpr std::size_t kKeySizeMax = 32;

Buffer collection_key(char letter, CollectionId id) {
  Buffer key(1, letter);
  append_be<std::uint32_t>(key, id);
  return key;
}

Buffer index_key(CollectionId id, std::uint32_t number) {
  Buffer key = collection_key('I', id);
  append_be<std::uint32_t>(key, number);
  return key;
}

Status damaged(const char* what) {
  return {ErrorCode::kDataCorruptionDetected,
          std::string("the catalog is damaged: ") + what +
              "; restore the database from a backup"};
}

template <class T>
Bytes raw_bytes(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

}  // namespace

CatalogTable::CatalogTable(Pager& pager) : pager_(pager), tree_(pager, &root_, 0) {}

Status CatalogTable::open(Bytes store_meta) {
  if (store_meta.empty()) return {};
  if (store_meta.size() != kMetaSize || store_meta.substr(0, 8) != kMetaMagic)
    return {ErrorCode::kUnsupportedFormat,
            "the data file's catalog has a layout that this version does not know; open it with "
            "the version that wrote it"};
  root_ = load_le<TreeRoot>(store_meta.data() + 8);
  next_collection_id_ = load_le<std::uint32_t>(store_meta.data() + 32);
  return {};
}

Buffer CatalogTable::encode_meta() const {
  Buffer meta(kMetaMagic);
  meta.append(raw_bytes(root_));
  append_le<std::uint32_t>(meta, next_collection_id_);
  append_le<std::uint32_t>(meta, 0);
  MULTIFORA_ASSERT(meta.size() == kMetaSize && meta.size() <= kStoreMetaSizeMax);
  return meta;
}

Status CatalogTable::visit_pieces(char letter, std::size_t id_size,
                                  const std::function<Status(Bytes id, Bytes value)>& visit) const {
  TreeCursor cursor(pager_, root_);
  MULTIFORA_TRY(cursor.seek(Bytes(&letter, 1)));
  Buffer id, value;
  while (cursor.valid()) {
    const Bytes key = cursor.key();
    if (key.empty() || key.front() != letter) break;
    if (key.size() != 1 + id_size + 2) return damaged("a key has an impossible length");
    const Bytes this_id = key.substr(1, id_size);
    if (this_id != id) {
      if (!id.empty()) MULTIFORA_TRY(visit(id, value));
      id = this_id;
      value.clear();
    }
    value += cursor.value();
    MULTIFORA_TRY(cursor.next());
  }
  return id.empty() ? Status() : visit(id, value);
}

Status CatalogTable::read_descriptions(
    const std::function<Status(CollectionId, DocumentView)>& visit) {
  return visit_pieces('D', 4, [&](Bytes id, Bytes value) -> Status {
    ValidateOptions options;
    options.require_utf8 = false;
    options.size_bytes_max = value.size();
    const auto description = validate(value, options);
    if (!description) return damaged("a description is no document");
    MULTIFORA_TRY(check_collection_description(*description));
    return visit(load_be<std::uint32_t>(id.data()), *description);
  });
}

Result<CollectionState> CatalogTable::read_state(CollectionId id) {
  Buffer value;
  MULTIFORA_ASSIGN_R(const bool found, tree_.get(collection_key('S', id), &value));
  if (!found || value.size() != sizeof(CollectionState))
    return fail(damaged("a collection's state is missing"));
  return load_le<CollectionState>(value.data());
}

Result<IndexState> CatalogTable::read_index_state(CollectionId id, std::uint32_t number) {
  Buffer value;
  MULTIFORA_ASSIGN_R(const bool found, tree_.get(index_key(id, number), &value));
  if (!found || value.size() != sizeof(IndexState))
    return fail(damaged("an index's state is missing"));
  return load_le<IndexState>(value.data());
}

Status CatalogTable::read_sessions(const std::function<Status(Bytes, Bytes)>& visit) const {
  return visit_pieces('R', 16, visit);
}

Result<std::optional<Buffer>> CatalogTable::read_session(Bytes lsid) const {
  const Buffer prefix = "R" + Buffer(lsid);
  TreeCursor cursor(pager_, root_);
  MULTIFORA_TRY_R(cursor.seek(prefix));
  if (!cursor.valid() || !cursor.key().starts_with(prefix)) return std::nullopt;
  Buffer row;
  while (cursor.valid() && cursor.key().starts_with(prefix)) {
    row += cursor.value();
    MULTIFORA_TRY_R(cursor.next());
  }
  return row;
}

Status CatalogTable::scan_sessions(Buffer* from, std::size_t count,
                                   const std::function<void(Bytes, Bytes)>& visit) const {
  TreeCursor cursor(pager_, root_);
  MULTIFORA_TRY(cursor.seek("R" + *from));
  from->clear();
  for (std::size_t seen = 0; cursor.valid() && cursor.key().starts_with("R");) {
    const Bytes key = cursor.key();
    if (key.size() != 1 + 16 + 2) return damaged("a key has an impossible length");
    if (key.ends_with(Bytes("\0\0", 2))) {  // the first piece
      if (seen++ == count) {
        *from = Buffer(key.substr(1, 16));
        return {};
      }
      visit(key.substr(1, 16), cursor.value());
    }
    MULTIFORA_TRY(cursor.next());
  }
  return {};
}

std::size_t CatalogTable::pages_for_pieces(std::size_t bytes) const {
  // Written and, where the old value was longer, erased; twice the pieces is an upper bound that
  // holds as long as a description does not shrink to less than half.
  return (bytes / kPieceSize + 2) * 2 * tree_.pages_needed(kKeySizeMax);
}

std::size_t CatalogTable::pages_to_save(std::size_t description_bytes, std::size_t indexes) const {
  const std::size_t one = tree_.pages_needed(kKeySizeMax);
  return pages_for_pieces(description_bytes) + (indexes + 1) * one;
}

Status CatalogTable::put(Bytes key, Bytes value, PageStash& stash) {
  // A checkpoint is what makes retired space usable: it may take the last pages.
  MULTIFORA_TRY(stash.ensure(tree_.pages_needed(key.size()), true));
  MULTIFORA_ASSIGN(const TreeInsert done, tree_.insert(key, value, true, stash));
  static_cast<void>(done);
  return {};
}

Status CatalogTable::put_pieces(const Buffer& prefix, Bytes value, PageStash& stash) {
  MULTIFORA_TRY(erase_prefix(prefix, stash));
  for (std::uint16_t piece = 0; !value.empty(); ++piece) {
    Buffer key = prefix;
    append_be<std::uint16_t>(key, piece);
    const Bytes part = value.substr(0, kPieceSize);
    MULTIFORA_TRY(put(key, part, stash));
    value.remove_prefix(part.size());
  }
  return {};
}

Status CatalogTable::erase_prefix(const Buffer& prefix, PageStash& stash) {
  while (true) {
    TreeCursor cursor(pager_, root_);
    MULTIFORA_TRY(cursor.seek(prefix));
    if (!cursor.valid() || !cursor.key().starts_with(prefix)) return {};
    const Buffer key(cursor.key());
    MULTIFORA_TRY(stash.ensure(tree_.pages_needed(key.size()), true));
    MULTIFORA_ASSIGN(const bool removed, tree_.remove(key, stash));
    MULTIFORA_ASSERT(removed);
  }
}

Status CatalogTable::save(const Collection& collection, Bytes description, PageStash& stash) {
  if (!description.empty()) {
    MULTIFORA_TRY(put_pieces(collection_key('D', collection.id), description, stash));
    // Indexes that are gone leave no state behind.
    MULTIFORA_TRY(erase_prefix(collection_key('I', collection.id), stash));
  }
  MULTIFORA_TRY(put(collection_key('S', collection.id), raw_bytes(collection.state), stash));
  for (const auto& open : collection.indexes) {
    if (open->building) continue;
    const IndexState state = open->index->state();
    MULTIFORA_TRY(put(index_key(collection.id, open->number), raw_bytes(state), stash));
  }
  return {};
}

Status CatalogTable::erase(CollectionId id, PageStash& stash) {
  for (const char letter : {'D', 'S', 'I'})
    MULTIFORA_TRY(erase_prefix(collection_key(letter, id), stash));
  return {};
}

Status CatalogTable::save_session(const std::string& lsid, Bytes encoded, PageStash& stash) {
  return put_pieces("R" + lsid, encoded, stash);
}

Status CatalogTable::erase_session(const std::string& lsid, PageStash& stash) {
  return erase_prefix("R" + lsid, stash);
}

void CatalogTable::describe(DocumentBuilder& out) const {
  auto tree = out.object("catalog");
  tree.append("root_page", static_cast<std::int64_t>(root_.page));
  tree.append("height", static_cast<std::int64_t>(root_.height));
  tree.append("entries", static_cast<std::int64_t>(root_.count));
  tree.append("pages", static_cast<std::int64_t>(root_.pages));
}

void CatalogTable::vacate(PageId from) {
  PageStash stash(pager_);
  static_cast<void>(tree_.vacate(from, 64, stash));
}

Status CatalogTable::check(const std::function<void(PageId)>& page,
                           std::vector<std::string>* errors) const {
  return tree_.check(page, errors);
}

}  // namespace multifora
