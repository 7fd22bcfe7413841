// RocksDB: defaults of its tuning guide for this size, no compression (as the others), synced batches.
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>
#include <rocksdb/version.h>
#include <rocksdb/write_batch.h>

#include "bench/peers/kv.h"

namespace multifora::bench {
namespace {

void check(const rocksdb::Status& status) {
  if (!status.ok()) peer_failed(status.ToString());
}
rocksdb::Slice slice(Bytes bytes) { return {bytes.data(), bytes.size()}; }
Bytes bytes_of(const rocksdb::Slice& s) { return {s.data(), s.size()}; }

// Reads see the store, writes are one synced batch. Nobody here reads what it has just written.
class Transaction final : public KvTransaction {
 public:
  explicit Transaction(rocksdb::DB* db) : db_(db) {}
  bool get(Bytes key, Bytes* value) override {
    found_.Reset();
    const rocksdb::Status status = db_->Get({}, db_->DefaultColumnFamily(), slice(key), &found_);
    if (status.IsNotFound()) return false;
    check(status);
    *value = bytes_of(found_);
    return true;
  }
  void put(Bytes key, Bytes value) override { check(batch_.Put(slice(key), slice(value))); }
  void remove(Bytes key) override { check(batch_.Delete(slice(key))); }
  void commit() override {
    rocksdb::WriteOptions options;
    options.sync = true;
    check(db_->Write(options, &batch_));
  }
  void walk(Bytes from, bool backwards, const std::function<bool(Bytes, Bytes)>& each) override {
    const std::unique_ptr<rocksdb::Iterator> at(db_->NewIterator({}));
    if (backwards) {
      at->SeekForPrev(slice(from));
      for (; at->Valid() && each(bytes_of(at->key()), bytes_of(at->value())); at->Prev()) {}
    } else {
      at->Seek(slice(from));
      for (; at->Valid() && each(bytes_of(at->key()), bytes_of(at->value())); at->Next()) {}
    }
    check(at->status());
  }

 private:
  rocksdb::DB* db_;
  rocksdb::WriteBatch batch_;
  rocksdb::PinnableSlice found_;
};

class RocksDb final : public Peer, public KvStore {
 public:
  explicit RocksDb(const std::string& directory) {
    rocksdb::Options options;
    options.create_if_missing = true;
    options.compression = rocksdb::kNoCompression;
    options.IncreaseParallelism(2);
    options.OptimizeLevelStyleCompaction(256u << 20);
    options.compression_per_level.clear();
    options.allow_concurrent_memtable_write = true;
    options.recycle_log_file_num = 4;  // syncs that touch no file metadata
    rocksdb::BlockBasedTableOptions table;
    table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
    table.block_cache = rocksdb::NewLRUCache(std::size_t{2} << 30);
    options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    rocksdb::DB* db = nullptr;
    check(rocksdb::DB::Open(options, directory, &db));
    db_.reset(db);
  }
  std::string version() const override {
    return "RocksDB " + std::to_string(ROCKSDB_MAJOR) + "." + std::to_string(ROCKSDB_MINOR) + "." +
           std::to_string(ROCKSDB_PATCH);
  }
  std::unique_ptr<Session> session() override { return make_kv_session(*this); }
  void create_index() override { create_kv_index(*this); }
  void drop_index() override { drop_kv_index(*this); }
  void checkpoint() override { check(db_->Flush({})); }
  std::unique_ptr<KvTransaction> read() override { return std::make_unique<Transaction>(db_.get()); }
  std::unique_ptr<KvTransaction> write() override { return std::make_unique<Transaction>(db_.get()); }
  bool indexed() override {
    Bytes value;
    return read()->get(kIndexedKey, &value);
  }

 private:
  std::unique_ptr<rocksdb::DB> db_;
};

}  // namespace

std::unique_ptr<Peer> open_peer(const std::string& where) { return std::make_unique<RocksDb>(where); }

}  // namespace multifora::bench
