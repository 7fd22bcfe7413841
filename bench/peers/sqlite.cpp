// SQLite: documents as blobs beside their k, WAL, synchronous = FULL, one connection a session.
#include <sqlite3.h>

#include "bench/peers/peer.h"
#include "core/base/bytes.h"

namespace multifora::bench {
namespace {

class Connection {
 public:
  explicit Connection(const std::string& path) {
    if (sqlite3_open(path.c_str(), &db_) != SQLITE_OK) peer_failed(sqlite3_errmsg(db_));
    sqlite3_busy_timeout(db_, 60'000);
    run("PRAGMA journal_mode = WAL");
    run("PRAGMA synchronous = FULL");
    run("PRAGMA cache_size = -262144");  // 256 MiB
    run("PRAGMA mmap_size = 68719476736");
  }
  ~Connection() { sqlite3_close_v2(db_); }
  Connection(const Connection&) = delete;
  void run(const char* sql) {
    char* error = nullptr;
    if (sqlite3_exec(db_, sql, nullptr, nullptr, &error) != SQLITE_OK) peer_failed(error);
  }
  sqlite3* get() const { return db_; }

 private:
  sqlite3* db_ = nullptr;
};

// A prepared statement; bind, then step through its rows.
class Statement {
 public:
  Statement(Connection& connection, const char* sql) : db_(connection.get()) {
    if (sqlite3_prepare_v3(db_, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement_, nullptr) != SQLITE_OK)
      peer_failed(sqlite3_errmsg(db_));
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& start() {
    sqlite3_reset(statement_);
    next_ = 1;
    return *this;
  }
  Statement& bind(std::int64_t value) {
    sqlite3_bind_int64(statement_, next_++, value);
    return *this;
  }
  Statement& bind(Bytes bytes) {
    sqlite3_bind_blob64(statement_, next_++, bytes.data(), bytes.size(), SQLITE_STATIC);
    return *this;
  }
  bool step() {
    const int result = sqlite3_step(statement_);
    if (result == SQLITE_ROW) return true;
    if (result != SQLITE_DONE) peer_failed(sqlite3_errmsg(db_));
    sqlite3_reset(statement_);
    return false;
  }
  std::int64_t number(int column) { return sqlite3_column_int64(statement_, column); }
  Bytes blob(int column) {
    const auto* data = static_cast<const char*>(sqlite3_column_blob(statement_, column));
    return {data, static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))};
  }

 private:
  sqlite3* db_;
  sqlite3_stmt* statement_ = nullptr;
  int next_ = 1;
};

class SqliteSession final : public Session {
 public:
  explicit SqliteSession(const std::string& path) : db_(path) {}

  void insert(const std::vector<OwnedDocument>& documents) override {
    if (documents.size() > 1) db_.run("BEGIN IMMEDIATE");
    for (const OwnedDocument& document : documents) put(document.view());
    if (documents.size() > 1) db_.run("COMMIT");
  }
  Answer get(std::int64_t id) override { return documents(get_.start().bind(id)); }
  Answer find_k(std::int32_t k) override { return documents(find_.start().bind(k)); }
  Answer count_all() override { return count(count_all_.start()); }
  Answer count_k(std::int32_t from, std::int32_t to, bool by_index) override {
    return count((by_index ? count_index_ : count_scan_).start().bind(from).bind(to));
  }
  Answer range(std::int64_t from, std::int64_t limit) override {
    return documents(range_.start().bind(from).bind(limit));
  }
  Answer newest(std::int64_t limit) override { return documents(newest_.start().bind(limit)); }
  Answer project_k(std::int64_t limit) override { return numbers(project_.start().bind(limit)); }
  Answer group_k() override { return numbers(group_.start()); }
  Answer distinct_k() override { return numbers(distinct_.start()); }
  Answer count_text(std::string_view part) override { return count(text_.start().bind(part)); }
  void increment_k(std::int64_t from, std::int64_t n) override {
    // The document holds k as well: after the 4 bytes of size, _id (13), and k's type and name (3).
    db_.run("BEGIN IMMEDIATE");
    for (std::int64_t id = from; id < from + n; ++id) {
      Statement& found = get_.start().bind(id);
      if (!found.step()) peer_failed("a document to change is not there");
      std::string changed(found.blob(0));
      found.start();
      const DocumentView document = DocumentView::assume_valid(changed);
      const auto k = static_cast<std::int32_t>(document["k"].number_as_int64()) + 1;
      store_le<std::int32_t>(changed.data() + (document["k"].bytes().data() - changed.data()), k);
      update_.start().bind(k).bind(changed).bind(id).step();
    }
    db_.run("COMMIT");
  }
  void replace(std::int64_t id, const OwnedDocument& document) override {
    remove_.start().bind(id).step();
    put(document.view());
  }

 private:
  void put(DocumentView document) {
    insert_.start().bind(document["_id"].number_as_int64()).bind(document["k"].number_as_int64());
    insert_.bind(document.bytes()).step();
  }
  static Answer count(Statement& statement) {
    Answer answer;
    while (statement.step()) answer.sum = statement.number(0);
    return answer;
  }
  static Answer numbers(Statement& statement) {
    Answer answer;
    while (statement.step()) {
      ++answer.documents;
      answer.sum += statement.number(0) + statement.number(1);
    }
    return answer;
  }
  static Answer documents(Statement& statement) {
    Answer answer;
    while (statement.step()) {
      const DocumentView document = DocumentView::assume_valid(statement.blob(0));
      ++answer.documents;
      answer.sum += document["_id"].number_as_int64() + document["k"].number_as_int64();
    }
    return answer;
  }

  Connection db_;
  Statement insert_{db_, "INSERT INTO d VALUES (?, ?, ?)"};
  Statement get_{db_, "SELECT doc FROM d WHERE id = ?"};
  Statement find_{db_, "SELECT doc FROM d WHERE k = ? ORDER BY k, id LIMIT 1"};
  Statement count_all_{db_, "SELECT count(*) FROM d"};
  Statement count_index_{db_, "SELECT count(*) FROM d WHERE k >= ? AND k < ?"};
  Statement count_scan_{db_, "SELECT count(*) FROM d NOT INDEXED WHERE k >= ? AND k < ?"};
  Statement range_{db_, "SELECT doc FROM d WHERE id >= ? ORDER BY id LIMIT ?"};
  Statement newest_{db_, "SELECT doc FROM d ORDER BY id DESC LIMIT ?"};
  Statement project_{db_, "SELECT id, k FROM d ORDER BY id LIMIT ?"};
  Statement group_{db_, "SELECT k, count(*) FROM d NOT INDEXED GROUP BY k"};
  Statement distinct_{db_, "SELECT DISTINCT k, 0 FROM d"};
  Statement text_{db_, "SELECT count(*) FROM d WHERE instr(doc, ?) > 0"};
  Statement update_{db_, "UPDATE d SET k = ?, doc = ? WHERE id = ?"};
  Statement remove_{db_, "DELETE FROM d WHERE id = ?"};
};

class Sqlite final : public Peer {
 public:
  explicit Sqlite(const std::string& directory) : path_(directory + "/bench.sqlite"), db_(path_) {
    db_.run("CREATE TABLE IF NOT EXISTS d (id INTEGER PRIMARY KEY, k INTEGER, doc BLOB)");
  }
  std::string version() const override { return std::string("SQLite ") + sqlite3_libversion(); }
  std::unique_ptr<Session> session() override { return std::make_unique<SqliteSession>(path_); }
  void create_index() override { db_.run("CREATE INDEX by_k ON d (k)"); }
  void drop_index() override { db_.run("DROP INDEX IF EXISTS by_k"); }
  void checkpoint() override { db_.run("PRAGMA wal_checkpoint(TRUNCATE)"); }

 private:
  const std::string path_;
  Connection db_;
};

}  // namespace

std::unique_ptr<Peer> open_peer(const std::string& where) { return std::make_unique<Sqlite>(where); }

}  // namespace multifora::bench
