// PostgreSQL over TCP: one table (id, doc jsonb), prepared statements, synchronous_commit on, one connection
// a session. Documents go as JSON text, as an application's do, and come back so.
#include <libpq-fe.h>

#include <charconv>

#include "bench/peers/peer.h"
#include "core/bson/extended_json.h"

namespace multifora::bench {
namespace {

class Connection {
 public:
  explicit Connection(const std::string& where) : connection_(PQconnectdb(where.c_str())) {
    if (PQstatus(connection_) != CONNECTION_OK) fail();
  }
  ~Connection() { PQfinish(connection_); }
  Connection(const Connection&) = delete;
  [[noreturn]] void fail() const { peer_failed(PQerrorMessage(connection_)); }

  class Rows {
   public:
    explicit Rows(PGresult* result) : result_(result) {}
    ~Rows() { PQclear(result_); }
    Rows(const Rows&) = delete;
    int size() const { return PQntuples(result_); }
    std::string_view text(int row, int column) const {
      return {PQgetvalue(result_, row, column), static_cast<std::size_t>(PQgetlength(result_, row, column))};
    }
    std::int64_t number(int row, int column) const {
      std::int64_t value = 0;
      const std::string_view digits = text(row, column);
      std::from_chars(digits.data(), digits.data() + digits.size(), value);
      return value;
    }

   private:
    PGresult* result_;
  };
  Rows run(const std::string& sql) { return checked(PQexec(connection_, sql.c_str())); }
  void prepare(const char* name, const char* sql) {
    checked(PQprepare(connection_, name, sql, 0, nullptr));
  }
  Rows call(const char* name, const std::vector<std::string>& parameters) {
    std::vector<const char*> values;
    for (const std::string& parameter : parameters) values.push_back(parameter.c_str());
    return checked(PQexecPrepared(connection_, name, static_cast<int>(values.size()), values.data(), nullptr,
                                  nullptr, 0));
  }
  // Rows as COPY's text format has them; one transaction.
  void copy(const std::string& rows) {
    PGresult* const begun = PQexec(connection_, "COPY d FROM STDIN");
    const bool ready = PQresultStatus(begun) == PGRES_COPY_IN;
    PQclear(begun);
    if (!ready || PQputCopyData(connection_, rows.data(), static_cast<int>(rows.size())) != 1 ||
        PQputCopyEnd(connection_, nullptr) != 1)
      fail();
    while (PGresult* const result = PQgetResult(connection_)) checked(result);
  }

 private:
  Rows checked(PGresult* result) const {
    const ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) fail();
    return Rows(result);
  }
  PGconn* connection_;
};

std::string number(std::int64_t value) { return std::to_string(value); }

class PostgresSession final : public Session {
 public:
  explicit PostgresSession(const std::string& where) : db_(where) {
    db_.prepare("insert", "INSERT INTO d VALUES ($1::bigint, $2::jsonb)");
    db_.prepare("get", "SELECT doc, id, (doc->>'k')::int FROM d WHERE id = $1::bigint");
    db_.prepare("find", "SELECT doc, id, (doc->>'k')::int FROM d WHERE (doc->>'k')::int = $1::int "
                        "ORDER BY (doc->>'k')::int, id LIMIT 1");
    db_.prepare("count_all", "SELECT count(*) FROM d");
    db_.prepare("count", "SELECT count(*) FROM d WHERE (doc->>'k')::int >= $1::int AND (doc->>'k')::int < $2::int");
    db_.prepare("range", "SELECT doc, id, (doc->>'k')::int FROM d WHERE id >= $1::bigint ORDER BY id LIMIT $2::bigint");
    db_.prepare("newest", "SELECT doc, id, (doc->>'k')::int FROM d ORDER BY id DESC LIMIT $1::bigint");
    db_.prepare("project", "SELECT '', id, (doc->>'k')::int FROM d ORDER BY id LIMIT $1::bigint");
    db_.prepare("group", "SELECT '', (doc->>'k')::int, count(*) FROM d GROUP BY 2");
    db_.prepare("distinct", "SELECT DISTINCT '', (doc->>'k')::int, 0 FROM d");
    db_.prepare("text", "SELECT count(*) FROM d WHERE strpos(doc->>'text', $1::text) > 0");
    db_.prepare("increment", "UPDATE d SET doc = jsonb_set(doc, '{k}', to_jsonb((doc->>'k')::int + 1)) "
                             "WHERE id >= $1::bigint AND id < $2::bigint");
    db_.prepare("delete", "DELETE FROM d WHERE id = $1::bigint");
  }
  void insert(const std::vector<OwnedDocument>& documents) override {
    if (documents.size() == 1) return put(documents.front().view());
    std::string rows;
    for (const OwnedDocument& document : documents) {
      rows += number(document.view()["_id"].number_as_int64()) + '\t';
      for (const char c : to_extended_json(document.view())) {
        if (c == '\\') rows += '\\';
        rows += c;
      }
      rows += '\n';
    }
    db_.copy(rows);
  }
  Answer get(std::int64_t id) override { return rows("get", {number(id)}); }
  Answer find_k(std::int32_t k) override { return rows("find", {number(k)}); }
  Answer count_all() override { return count("count_all", {}); }
  Answer count_k(std::int32_t from, std::int32_t to, bool by_index) override {
    if (by_index) return count("count", {number(from), number(to)});
    db_.run("SET enable_indexscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off");
    const Answer answer = count("count", {number(from), number(to)});
    db_.run("RESET enable_indexscan; RESET enable_bitmapscan; RESET enable_indexonlyscan");
    return answer;
  }
  Answer range(std::int64_t from, std::int64_t limit) override {
    return rows("range", {number(from), number(limit)});
  }
  Answer newest(std::int64_t limit) override { return rows("newest", {number(limit)}); }
  Answer project_k(std::int64_t limit) override { return rows("project", {number(limit)}); }
  Answer group_k() override { return rows("group", {}); }
  Answer distinct_k() override { return rows("distinct", {}); }
  Answer count_text(std::string_view part) override { return count("text", {std::string(part)}); }
  void increment_k(std::int64_t from, std::int64_t n) override {
    db_.call("increment", {number(from), number(from + n)});
  }
  void replace(std::int64_t id, const OwnedDocument& document) override {
    db_.call("delete", {number(id)});
    put(document.view());
  }

 private:
  void put(DocumentView document) {
    db_.call("insert", {number(document["_id"].number_as_int64()), to_extended_json(document)});
  }
  Answer count(const char* name, const std::vector<std::string>& parameters) {
    return {0, db_.call(name, parameters).number(0, 0)};
  }
  Answer rows(const char* name, const std::vector<std::string>& parameters) {
    const Connection::Rows found = db_.call(name, parameters);
    Answer answer{found.size(), 0};
    for (int row = 0; row < found.size(); ++row) answer.sum += found.number(row, 1) + found.number(row, 2);
    return answer;
  }
  Connection db_;
};

class Postgres final : public Peer {
 public:
  explicit Postgres(const std::string& where) : where_(where), db_(where) {
    db_.run("CREATE TABLE IF NOT EXISTS d (id bigint PRIMARY KEY, doc jsonb)");
    // As documents elsewhere: whole, not cut up and compressed beside the table.
    db_.run("ALTER TABLE d ALTER doc SET STORAGE EXTERNAL");
  }
  std::string version() const override { return "PostgreSQL " + std::to_string(PQlibVersion()); }
  std::unique_ptr<Session> session() override { return std::make_unique<PostgresSession>(where_); }
  void create_index() override { db_.run("CREATE INDEX by_k ON d (((doc->>'k')::int))"); }
  void drop_index() override { db_.run("DROP INDEX IF EXISTS by_k"); }
  void checkpoint() override {
    db_.run("VACUUM ANALYZE d");
    db_.run("CHECKPOINT");
  }

 private:
  const std::string where_;
  Connection db_;
};

}  // namespace

std::unique_ptr<Peer> open_peer(const std::string& where) { return std::make_unique<Postgres>(where); }

}  // namespace multifora::bench
