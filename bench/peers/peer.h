// A database beside which MultiforaDB is measured, through its own API: what each must do for the rows of
// bench/run. The same documents everywhere: bench/payload.h, {_id, k, text}; k is below 1000.
//
// Every write is durable when the call returns. A Session is one client: one thread at a time, several at
// once. A failure of the peer ends the program.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/bson/view.h"

namespace multifora::bench {

// What a read row's answer must be on every side: how many documents or values came back, and the sum of
// their numbers at the top. Counts are a number of no document.
struct Answer {
  std::int64_t documents = 0;
  std::int64_t sum = 0;
  bool operator==(const Answer&) const = default;
};

class Session {
 public:
  virtual ~Session() = default;
  virtual void insert(const std::vector<OwnedDocument>& documents) = 0;  // one transaction
  virtual Answer get(std::int64_t id) = 0;                               // the whole document
  virtual Answer find_k(std::int32_t k) = 0;          // the first document with this k, by the index
  virtual Answer count_all() = 0;
  virtual Answer count_k(std::int32_t from, std::int32_t to, bool by_index) = 0;  // from <= k < to
  // Whole documents with _id >= from in order, or the last ones backwards.
  virtual Answer range(std::int64_t from, std::int64_t limit) = 0;
  virtual Answer newest(std::int64_t limit) = 0;
  virtual Answer project_k(std::int64_t limit) = 0;  // {_id, k} of the first ones
  virtual Answer group_k() = 0;                      // {_id: k, n: count}
  virtual Answer distinct_k() = 0;
  virtual Answer count_text(std::string_view part) = 0;  // documents whose text holds it
  virtual void increment_k(std::int64_t from, std::int64_t count) = 0;  // one transaction
  virtual void replace(std::int64_t id, const OwnedDocument& document) = 0;  // delete, then insert
};

class Peer {
 public:
  virtual ~Peer() = default;
  virtual std::string version() const = 0;
  virtual std::unique_ptr<Session> session() = 0;
  virtual void create_index() = 0;  // on k
  virtual void drop_index() = 0;    // where there is one
  virtual void checkpoint() = 0;    // everything into the data files
};

// One of these is linked: `where` is a directory, for PostgreSQL a connection string.
std::unique_ptr<Peer> open_peer(const std::string& where);

[[noreturn]] void peer_failed(std::string_view what);

}  // namespace multifora::bench
