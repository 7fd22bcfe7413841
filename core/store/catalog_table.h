// The catalog on disk: one B+tree, written only by checkpoints, read at open; rows 'R' also later.
//
// Keys are a letter and a big-endian number; values longer than kTreeValueSizeMax are cut into
// pieces, numbered by a two-byte suffix.
//
//   'D' u32 collection, u16 piece   description: BSON {ns, uuid, dropped, options, nextIndex,
//                                   indexes: [{number, kind, spec}]}
//   'S' u32 collection              CollectionState, 40 bytes (collection_impl.h)
//   'I' u32 collection, u32 number  IndexState, 64 bytes
//   'R' 16 bytes lsid, u16 piece    results of a session's retryable writes (retry_table.h)
//
// The root stands in the pager's store meta:
//   0   8   "MFSTORE1"
//   8   24  TreeRoot of the catalog
//   32  4   next collection id
//   36  4   0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/bson/builder.h"
#include "core/storage/tree.h"
#include "core/store/collection_impl.h"

namespace multifora {

class CatalogTable {
 public:
  explicit CatalogTable(Pager& pager);

  // Fails with UnsupportedFormat for a meta of another layout. Empty meta: a new catalog.
  Status open(Bytes store_meta);
  Buffer encode_meta() const;
  CollectionId next_collection_id() const { return next_collection_id_; }
  void set_next_collection_id(CollectionId id) { next_collection_id_ = id; }

  // --- at open ----------------------------------------------------------------------------------
  Status read_descriptions(const std::function<Status(CollectionId, DocumentView)>& visit);
  Result<CollectionState> read_state(CollectionId id);
  Result<IndexState> read_index_state(CollectionId id, std::uint32_t number);

  // --- rows 'R', any time: the caller keeps checkpoints from changing the tree -----------------------
  Status read_sessions(const std::function<Status(Bytes lsid, Bytes row)>& visit) const;
  Result<std::optional<Buffer>> read_session(Bytes lsid) const;
  // Visits up to `count` sessions with the beginning of their rows, from *from on, which then is where
  // to go on; empty: at the beginning, or the end was reached.
  Status scan_sessions(Buffer* from, std::size_t count,
                       const std::function<void(Bytes lsid, Bytes begin_of_row)>& visit) const;

  // --- at checkpoints ---------------------------------------------------------------------------
  // Pages that saving `collection` may take; ensure them before the gate closes.
  std::size_t pages_to_save(std::size_t description_bytes, std::size_t indexes) const;
  std::size_t pages_for_pieces(std::size_t bytes) const;
  // `description` empty: unchanged.
  Status save(const Collection& collection, Bytes description, PageStash& stash);
  // Everything about a collection whose space has been reclaimed.
  Status erase(CollectionId id, PageStash& stash);
  // Moves pages out of the end of the file, some at a time; one that cannot be moved stays.
  void vacate(PageId from);
  Status save_session(const std::string& lsid, Bytes encoded, PageStash& stash);
  Status erase_session(const std::string& lsid, PageStash& stash);

  void describe(DocumentBuilder& out) const;  // the field "catalog"
  Status check(const std::function<void(PageId)>& page, std::vector<std::string>* errors) const;

 private:
  Status put_pieces(const Buffer& prefix, Bytes value, PageStash& stash);
  Status erase_prefix(const Buffer& prefix, PageStash& stash);
  Status put(Bytes key, Bytes value, PageStash& stash);
  Status visit_pieces(char letter, std::size_t id_size,
                      const std::function<Status(Bytes id, Bytes value)>& visit) const;

  Pager& pager_;
  TreeRoot root_;
  Tree tree_;
  CollectionId next_collection_id_ = 1;
};

}  // namespace multifora
