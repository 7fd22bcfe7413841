// Sessions over an ordered key-value store: documents under 'd' + _id, index entries under 'i' + k + _id
// (both big-endian), an entry of the index without a value. What LMDB and RocksDB share.
#pragma once

#include <functional>

#include "bench/peers/peer.h"
#include "core/base/bytes.h"

namespace multifora::bench {

// A read view, or a write transaction that is durable after commit().
class KvTransaction {
 public:
  virtual ~KvTransaction() = default;
  virtual bool get(Bytes key, Bytes* value) = 0;  // alive until the transaction's next call
  virtual void put(Bytes key, Bytes value) = 0;
  virtual void remove(Bytes key) = 0;
  virtual void commit() = 0;
  // Calls `each` with the entries from the first at or after `from` (backwards: from the last before it)
  // while it returns true.
  virtual void walk(Bytes from, bool backwards, const std::function<bool(Bytes, Bytes)>& each) = 0;
};

class KvStore {
 public:
  virtual ~KvStore() = default;
  virtual std::unique_ptr<KvTransaction> read() = 0;
  virtual std::unique_ptr<KvTransaction> write() = 0;
  virtual bool indexed() = 0;  // whether create_index() has been called on this data
};

std::unique_ptr<Session> make_kv_session(KvStore& store);
void create_kv_index(KvStore& store);
void drop_kv_index(KvStore& store);

inline constexpr std::string_view kIndexedKey = "m indexed";

}  // namespace multifora::bench
