// The requests of a load: each client has its messages made once and then only changes the numbers in
// them, so that the load generator costs little beside what it measures. The text of a client's
// documents differs from document to document and from client to client, and repeats from message to
// message. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/bson/view.h"

namespace multifora {
class DocumentBuilder;
}

namespace multifora::bench {

enum class Operation {
  kInsert, kBulk, kFind, kUpdate, kUpdateMany, kBulkWrite, kCount, kPing,
  kGroup,        // batch_count inserts one after the other, counted as one request
  kTransaction,  // the same inserts in a transaction, and its commit
};

struct WorkloadOptions {
  Operation operation = Operation::kInsert;
  std::string collection = "load";
  std::size_t size = 16384;  // of a document, bytes
  bool mixed = false;        // sizes from 300 bytes to `size` at random instead
  std::size_t batch_bytes = 1 << 20;  // of a kBulk message
  std::size_t batch_count = 65;       // of a kUpdateMany, a kBulkWrite, a kGroup, a kTransaction
  std::int64_t ids = 1000;            // documents that kFind and the updates choose from
  std::int64_t first_id = 0;          // of the first insert
};

// The name as on the command line; false: none such.
bool parse_operation(std::string_view name, Operation* operation);

class Workload {
 public:
  explicit Workload(const WorkloadOptions& options) : options_(options), next_id_(options.first_id) {}

  // One client's messages.
  class Requests {
   public:
    struct Request {
      Bytes message;          // lives until the client's next call of next()
      std::int64_t documents;  // that the reply must tell of
      std::size_t bytes;      // of documents
      bool more;              // the client's next message belongs to the same request
    };

   private:
    friend class Workload;
    struct Prepared {
      std::string message;
      std::vector<std::size_t> ids;  // where an _id stands (int64)
      std::size_t txn_number = 0;    // where the transaction's number stands; 0: nowhere
      std::size_t bytes = 0;
    };
    std::vector<Prepared> prepared_;
    std::size_t turn_ = 0;
    std::int64_t transactions_ = 0;
  };
  Requests make_requests(std::size_t client) const;
  Requests::Request next(Requests& requests);

  // Why the reply is wrong; empty: it is right.
  std::string check(const Requests::Request& request, DocumentView reply) const;
  std::int64_t next_id() const { return next_id_; }

 private:
  Requests::Prepared make_insert(std::size_t client, std::size_t variant) const;
  Requests::Prepared make_commit(std::size_t client) const;
  void append_transaction(DocumentBuilder& body, std::size_t client, bool starts) const;
  bool grouped() const;
  Requests::Prepared make_plain() const;
  std::int64_t documents_of(const Requests::Prepared& prepared) const;

  const WorkloadOptions options_;
  std::int64_t next_id_;
  std::int64_t count_ = 0;
};

// The message of a command, with `documents` as a document sequence (none where empty).
std::string make_message(DocumentView body, const std::vector<OwnedDocument>& documents,
                         std::string_view sequence = "documents");

}  // namespace multifora::bench
