// LMDB: one file, one writer, each transaction synced.
#include <lmdb.h>

#include "bench/peers/kv.h"

namespace multifora::bench {
namespace {

void check(int result) {
  if (result != 0) peer_failed(mdb_strerror(result));
}
MDB_val value_of(Bytes bytes) { return {bytes.size(), const_cast<char*>(bytes.data())}; }
Bytes bytes_of(const MDB_val& value) { return {static_cast<const char*>(value.mv_data), value.mv_size}; }

class Transaction final : public KvTransaction {
 public:
  Transaction(MDB_env* env, MDB_dbi table, bool writes) : table_(table) {
    check(mdb_txn_begin(env, nullptr, writes ? 0 : MDB_RDONLY, &txn_));
  }
  ~Transaction() override {
    if (txn_ != nullptr) mdb_txn_abort(txn_);
  }
  bool get(Bytes key, Bytes* value) override {
    MDB_val k = value_of(key), v;
    const int result = mdb_get(txn_, table_, &k, &v);
    if (result == MDB_NOTFOUND) return false;
    check(result);
    *value = bytes_of(v);
    return true;
  }
  void put(Bytes key, Bytes value) override {
    MDB_val k = value_of(key), v = value_of(value);
    check(mdb_put(txn_, table_, &k, &v, 0));
  }
  void remove(Bytes key) override {
    MDB_val k = value_of(key);
    check(mdb_del(txn_, table_, &k, nullptr));
  }
  void commit() override {
    check(mdb_txn_commit(txn_));
    txn_ = nullptr;
  }
  void walk(Bytes from, bool backwards, const std::function<bool(Bytes, Bytes)>& each) override {
    MDB_cursor* cursor = nullptr;
    check(mdb_cursor_open(txn_, table_, &cursor));
    MDB_val k = value_of(from), v;
    int result = mdb_cursor_get(cursor, &k, &v, MDB_SET_RANGE);
    if (backwards) result = mdb_cursor_get(cursor, &k, &v, result == MDB_NOTFOUND ? MDB_LAST : MDB_PREV);
    while (result == 0 && each(bytes_of(k), bytes_of(v)))
      result = mdb_cursor_get(cursor, &k, &v, backwards ? MDB_PREV : MDB_NEXT);
    if (result != MDB_NOTFOUND) check(result);
    mdb_cursor_close(cursor);
  }

 private:
  MDB_dbi table_;
  MDB_txn* txn_ = nullptr;
};

class Lmdb final : public Peer, public KvStore {
 public:
  explicit Lmdb(const std::string& directory) {
    check(mdb_env_create(&env_));
    check(mdb_env_set_mapsize(env_, std::size_t{64} << 30));
    check(mdb_env_set_maxreaders(env_, 256));
    check(mdb_env_open(env_, directory.c_str(), MDB_NOTLS, 0600));
    MDB_txn* txn = nullptr;
    check(mdb_txn_begin(env_, nullptr, 0, &txn));
    check(mdb_dbi_open(txn, nullptr, 0, &table_));
    check(mdb_txn_commit(txn));
  }
  ~Lmdb() override { mdb_env_close(env_); }
  std::string version() const override { return mdb_version(nullptr, nullptr, nullptr); }
  std::unique_ptr<Session> session() override { return make_kv_session(*this); }
  void create_index() override { create_kv_index(*this); }
  void drop_index() override { drop_kv_index(*this); }
  void checkpoint() override { check(mdb_env_sync(env_, 1)); }
  std::unique_ptr<KvTransaction> read() override { return std::make_unique<Transaction>(env_, table_, false); }
  std::unique_ptr<KvTransaction> write() override { return std::make_unique<Transaction>(env_, table_, true); }
  bool indexed() override {
    Bytes value;
    return read()->get(kIndexedKey, &value);
  }

 private:
  MDB_env* env_ = nullptr;
  MDB_dbi table_ = 0;
};

}  // namespace

std::unique_ptr<Peer> open_peer(const std::string& where) { return std::make_unique<Lmdb>(where); }

}  // namespace multifora::bench
